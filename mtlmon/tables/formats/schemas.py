"""Find the columns of a log and their types, which predicates need, without reading the log."""

from __future__ import annotations

import re
from collections import Counter
from typing import IO, TYPE_CHECKING, Any

from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates.expression import (
    FLOATS,
    NUMBER,
    ORDERED,
    ORDERED_FLOATS,
    TypedColumn,
    typed_columns,
)
from mtlmon.policy.predicates.instants import read_instant
from mtlmon.policy.renaming import expressions_of
from mtlmon.support.encodings import other_encoding
from mtlmon.support.table_formats import (
    COMPRESSION_BYTES,
    FORMATS,
    LINES,
    compression_of,
    table_format,
)
from mtlmon.support.time_columns import time_columns
from mtlmon.tables.formats.dialect import Dialect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from mtlmon.policy import PolicyFile

TRUE_TEXTS = ["true", "True", "TRUE", "t", "T", "1"]
FALSE_TEXTS = ["false", "False", "FALSE", "f", "F", "0"]
"""The forms of Booleans in delimited text."""

# how many digits of a fraction of a second microseconds have
_MICROSECONDS = 6
# the offset from UTC behind a time
_OFFSET = r":[0-9.]+(?:[Zz]|[+-]\d\d(?::?\d\d)?)$"
OF_TEXT = ("csv", "tsv", "jsonl", "xes", LINES)
"""The formats whose cells are texts, until they are read as values of types."""

# How much of a text is examined for the types of its columns.
_BLOCK_BYTES = 1 << 20


def read_schema(path: str, dialect: Dialect | None = None, format: str | None = None) -> pa.Schema:
    """The columns of a table and their types; for CSV and JSON lines, by their first rows.

    Args:
        path: the table.
        dialect: how the cells of CSV are written; None for the default.
        format: its format, instead of the one that its name implies.

    Raises:
        MtlmonError: pyarrow is not installed, or the format is unknown or not that of the file.
        OSError: the file cannot be read.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise MtlmonError("tables need pyarrow: pip install 'mtlmon[tables]'") from None
    found = table_format(path)
    if format is not None:
        found = format, None if found is None else found[1]
    if found is None:
        raise MtlmonError(f"{path}: the name does not end in one of {', '.join(FORMATS)}")
    name, _ = found
    compression = None
    try:
        with open(path, "rb") as file:
            compression = compression_of(file.peek(COMPRESSION_BYTES))
            stream = pa.PythonFile(_opened(file, compression), mode="r")
            if name in {"csv", "tsv"}:
                return _delimited_schema(stream, name, dialect or Dialect())
            return _READERS[name](stream, path, compression)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise MtlmonError(f"{path}: cannot be read as {name}: {reason}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise MtlmonError(
            f"{path}: the {compression} data is damaged or incomplete: {error}"
        ) from None


def _opened(file: IO[bytes], compression: str | None) -> Any:
    """The content of a file, decompressed."""
    from mtlmon.tables.formats.files import decompressed

    return file if compression is None else decompressed(file, compression)


def read_line_schema(path: str, pattern: str, dialect: Dialect | None = None) -> pa.Schema:
    """The columns of lines of text that match a pattern, and their types by the first lines.

    Args:
        path: the text.
        pattern: the pattern, as for `line_pattern`.
        dialect: which groups mean null; None for the default.

    Raises:
        MtlmonError: pyarrow is not installed, the pattern cannot be used, or no line matches.
        OSError: the file cannot be read.
    """
    try:
        import numpy as np
        import pyarrow as pa
        from pyarrow import csv
    except ImportError:
        raise MtlmonError("tables need pyarrow: pip install 'mtlmon[tables]'") from None
    from mtlmon.tables.formats.files import ByteStream, TableFile
    from mtlmon.tables.formats.line_patterns import cells_of, line_pattern

    found = line_pattern(pattern)
    room = np.empty(_BLOCK_BYTES, np.uint8)
    with ByteStream(TableFile(path, path, LINES)) as stream:
        text = room[: stream.read_into(room)].tobytes()
    if reason := other_encoding(text):
        raise MtlmonError(f"{path}: the file is {reason}")
    lines = text.decode(errors="replace").splitlines()
    if len(text) == _BLOCK_BYTES:
        # the last line may be incomplete
        lines = lines[:-1]
    table = cells_of(lines, found)
    if not table.num_rows:
        raise MtlmonError(f"{path}: no line in its beginning matches the pattern")
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    nulls = Dialect() if dialect is None else dialect
    return _delimited_schema(pa.BufferReader(sink.getvalue()), "csv", nulls._replace(delimiter=","))


def fixed_type(wanted: str) -> pa.DataType | None:
    """The type of Arrow for a type that text is read as; None if cells say more.

    Numbers become floats once there is one with a point.
    """
    import pyarrow as pa

    return {
        "text": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "decimal": pa.decimal128(38, 10),
        "bool": pa.bool_(),
        NUMBER: pa.int64(),
        FLOATS: pa.float64(),
    }.get(wanted)


def number_pattern(decimal: str) -> str:
    """The regular expression of texts that are read as numbers, with a sign before fractions."""
    return (
        rf"^[-+]?([0-9]+[{decimal}]?[0-9]*|[{decimal}][0-9]+)([eE][-+]?[0-9]+)?$"
        r"|^[-+]?(?i:nan|inf|infinity)$"
    )


def first_value(values: Iterable[object]) -> object:
    """Return the first value that says of which type a column is; None if there is none yet."""
    for one in values:
        if isinstance(one, str):
            if one.strip():
                return one.strip()
        elif one is not None and not isinstance(one, list | dict):
            return one
    return None


def time_type(first: str) -> pa.DataType:
    """The type of a column of times, by its first one, so that it does not depend on blocks.

    Times with an offset are instants of UTC; those with more than six digits of a fraction of a
    second have nanoseconds, and others microseconds.
    """
    import pyarrow as pa

    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", first):
        return pa.date32()
    fraction = re.search(r"[.]([0-9]+)", first)
    unit = "ns" if fraction is not None and len(fraction[1]) > _MICROSECONDS else "us"
    return pa.timestamp(unit, "UTC" if re.search(_OFFSET, first) else None)


def ordered_type(first: object, decimal: str = ".") -> str:
    """What a column is read as of which only the order is used: numbers, times or texts.

    Args:
        first: its first value, as `first_value` returns it.
        decimal: the sign before fractions.
    """
    if isinstance(first, bool):
        return "text"
    text = first if isinstance(first, str) else ""
    if not text or re.match(number_pattern(decimal), text):
        return NUMBER
    return "text" if read_instant(text) is None else "time"


def schema_as_read(file: PolicyFile, schema: pa.Schema) -> pa.Schema:
    """Return the columns of text, JSON or XES as the expressions of a file read them.

    Args:
        file: the policy file.
        schema: the columns with the types that their cells have.
    """
    import pyarrow as pa

    read_columns = typed_columns(*expressions_of(file))
    times = time_columns(file.environment.time or "")
    fields = [
        one
        if one.name in times
        or pa.types.is_nested(one.type)
        # it may be an atom
        or (pa.types.is_boolean(one.type) and one.name not in read_columns)
        else pa.field(one.name, pa.string(), one.nullable)
        for one in schema
    ]
    of_relations = (
        TypedColumn(name, kind) for part in file.files for name, kind in part.row_types.items()
    )
    read_columns = (*read_columns, *of_relations)
    typed = dict.fromkeys(one.read_as for one in read_columns if isinstance(one, TypedColumn))
    for read in typed:
        name, _, data_type = read.partition("\0")
        places = schema.get_all_field_indices(name)
        if len(places) == 1:
            found = schema.field(places[0])
            fields.append(pa.field(read, _as_read(found.type, data_type), found.nullable))
    return pa.schema(fields)


def records_as_read(schema: pa.Schema, types: Mapping[str, str], format: str | None) -> pa.Schema:
    """Return the columns of a table as relations read them.

    Args:
        schema: the columns with the types that their cells have.
        types: the types that a policy file reads some of them as.
        format: the format of the table.
    """
    import pyarrow as pa

    def as_read(one: pa.Field) -> pa.DataType:
        if one.name in types:
            return _as_read(one.type, types[one.name])
        is_kept = pa.types.is_nested(one.type) or pa.types.is_boolean(one.type)
        return one.type if is_kept or format not in OF_TEXT else pa.string()

    return pa.schema([(one.name, as_read(one)) for one in schema])


def _as_read(found: pa.DataType, wanted: str) -> pa.DataType:
    """The type of values that a column is read as, by the type that its cells have.

    Texts stay texts, so that it is an error to use them as values of another type.
    """
    import pyarrow as pa

    if pa.types.is_string(found):
        return found
    fixed = None if wanted == NUMBER else fixed_type(wanted)
    if fixed is not None:
        return fixed
    is_number = pa.types.is_integer(found) or pa.types.is_floating(found)
    is_time = pa.types.is_temporal(found)
    if wanted == "time" or (wanted in {ORDERED, ORDERED_FLOATS} and not is_number):
        return found if is_time else pa.timestamp("us")
    return found if is_number else pa.int64()


def _delimited_schema(stream: pa.NativeFile, format: str, dialect: Dialect) -> pa.Schema:
    import pyarrow as pa
    from pyarrow import csv

    from mtlmon.tables.formats.rows import TextBlock

    syntax = dialect.syntax_of(format)
    text = _first_block(stream)
    is_end = len(text) < _BLOCK_BYTES
    header = text[slice(*syntax.row_starts(text, len(text))[:2])]
    syntax = syntax.with_columns(syntax.count_cells(header, len(header)))
    end, irregular = syntax.complete_rows(text, len(text), is_end)
    block = TextBlock(pa.py_buffer(text[: end or len(text)]), 1, syntax, irregular)
    # Unreadable rows do not affect types; the reader skips rows that are text.
    text = block.readable.to_pybytes().decode(errors="replace").encode()
    table = csv.read_csv(
        pa.BufferReader(text),
        # Threads do not pay for a single block, and may still be starting when the process ends.
        read_options=csv.ReadOptions(use_threads=False, block_size=2 * _BLOCK_BYTES),
        parse_options=csv.ParseOptions(
            delimiter=syntax.delimiter,
            quote_char=syntax.quote or False,
            newlines_in_values=True,
            invalid_row_handler=lambda _: "skip",
        ),
        convert_options=csv.ConvertOptions(
            null_values=list(dialect.null_values),
            true_values=TRUE_TEXTS,
            false_values=FALSE_TEXTS,
            strings_can_be_null=True,
            decimal_point=dialect.decimal,
        ),
    )
    return table.schema


def _json_schema(stream: pa.NativeFile, _path: str, _compression: str | None) -> pa.Schema:
    import pyarrow as pa

    from mtlmon.tables.formats.json_types import column_names, json_rows, most_common, type_of

    seen: dict[str, Counter[pa.DataType]] = {}

    def look_at(row: dict[str, Any]) -> None:
        for name, value in column_names(row):
            seen.setdefault(name, Counter())[type_of(value)] += 1

    # an incomplete last line is not an object
    json_rows(_first_block(stream).split(b"\n"), look_at)
    if not seen:
        raise pa.ArrowInvalid("no line in its beginning is a JSON object with columns")
    return pa.schema([(name, most_common(counter)) for name, counter in seen.items()])


def _xes_schema(stream: pa.NativeFile, path: str, _compression: str | None) -> pa.Schema:
    import pyarrow as pa

    from mtlmon.tables.formats.json_types import json_rows, most_common, type_of
    from mtlmon.tables.formats.xes import XesRows

    rows = XesRows(path, None)
    rows.add(bytes(stream.read(_BLOCK_BYTES)))
    block = rows.take()
    if block is None:
        raise pa.ArrowInvalid("there is no event in its beginning")
    seen: dict[str, Counter[pa.DataType]] = {}

    def look_at(row: dict[str, Any]) -> None:
        for name, value in row.items():
            seen.setdefault(name, Counter())[type_of(value)] += 1

    json_rows(block.buffer.to_pybytes().split(b"\n"), look_at)
    return pa.schema([(name, most_common(counter)) for name, counter in seen.items()])


def _first_block(stream: pa.NativeFile) -> bytes:
    """The first bytes of a text, without a byte order mark.

    Raises:
        ArrowInvalid: there are none.
    """
    import pyarrow as pa

    found = bytes(stream.read(_BLOCK_BYTES)).removeprefix(b"\xef\xbb\xbf")
    if reason := other_encoding(found):
        raise pa.ArrowInvalid(f"the file is {reason}")
    if not found:
        raise pa.ArrowInvalid("it is empty, so its columns are not known")
    return found


def _arrow_schema(stream: pa.NativeFile, path: str, compression: str | None) -> pa.Schema:
    import pyarrow as pa
    from pyarrow import ipc

    # a file is a mark, padded to eight bytes, and a stream
    if stream.read(8).startswith(b"ARROW1"):
        return ipc.open_stream(stream).schema
    with open(path, "rb") as again:
        return ipc.open_stream(pa.PythonFile(_opened(again, compression), mode="r")).schema


def _parquet_schema(_stream: pa.NativeFile, path: str, _compression: str | None) -> pa.Schema:
    from pyarrow import parquet

    return parquet.read_schema(path)


_READERS = {
    "jsonl": _json_schema,
    "arrow": _arrow_schema,
    "parquet": _parquet_schema,
    "xes": _xes_schema,
}
