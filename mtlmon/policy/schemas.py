"""The columns of a log and their types, found without reading the log: what predicates need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import MtlmonError
from mtlmon.table_formats import FORMATS, table_format

if TYPE_CHECKING:
    import pyarrow as pa

TRUE_TEXTS = ["true", "True", "TRUE", "t", "T", "1"]
FALSE_TEXTS = ["false", "False", "FALSE", "f", "F", "0"]
"""How delimited text writes Booleans."""

# How much of a text is looked at for the types of its columns.
_BLOCK_BYTES = 1 << 20


def read_schema(path: str) -> pa.Schema:
    """The columns of a table and their types; those of CSV and JSON lines by their first rows.

    Raises:
        MtlmonError: pyarrow is not installed, the format is not known, or it is not that format.
        OSError: the file cannot be read.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise MtlmonError("tables need pyarrow: pip install 'mtlmon[tables]'") from None
    found = table_format(path)
    if found is None:
        raise MtlmonError(f"{path}: the name does not end in one of {', '.join(FORMATS)}")
    name, compression = found
    try:
        with pa.input_stream(path, compression=compression) as stream:
            return _READERS[name](stream, path, compression)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise MtlmonError(f"{path}: cannot be read as {name}: {reason}") from None


def _csv_schema(stream: pa.NativeFile, _path: str, _compression: str | None) -> pa.Schema:
    return _delimited_schema(stream, ",")


def _tsv_schema(stream: pa.NativeFile, _path: str, _compression: str | None) -> pa.Schema:
    return _delimited_schema(stream, "\t")


def _delimited_schema(stream: pa.NativeFile, delimiter: str) -> pa.Schema:
    from pyarrow import csv

    reader = csv.open_csv(
        stream,
        read_options=csv.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(
            null_values=[""],
            true_values=TRUE_TEXTS,
            false_values=FALSE_TEXTS,
            strings_can_be_null=True,
        ),
    )
    return reader.schema


def _json_schema(stream: pa.NativeFile, _path: str, _compression: str | None) -> pa.Schema:
    import pyarrow as pa
    from pyarrow import json

    block = stream.read_buffer(_BLOCK_BYTES)
    if block.size == _BLOCK_BYTES:
        # the last line is not complete
        block = block.slice(0, block.to_pybytes().rfind(b"\n") + 1 or block.size)
    schema = json.read_json(pa.BufferReader(block)).schema
    # JSON has no times; pyarrow takes texts that look like some for such.
    return pa.schema(
        [
            field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field
            for field in schema
        ]
    )


def _arrow_schema(stream: pa.NativeFile, path: str, compression: str | None) -> pa.Schema:
    import pyarrow as pa
    from pyarrow import ipc

    # a file is a mark, padded to eight bytes, and a stream
    if stream.read(8).startswith(b"ARROW1"):
        return ipc.open_stream(stream).schema
    with pa.input_stream(path, compression=compression) as again:
        return ipc.open_stream(again).schema


def _parquet_schema(_stream: pa.NativeFile, path: str, _compression: str | None) -> pa.Schema:
    from pyarrow import parquet

    return parquet.read_schema(path)


_READERS = {
    "csv": _csv_schema,
    "tsv": _tsv_schema,
    "jsonl": _json_schema,
    "arrow": _arrow_schema,
    "parquet": _parquet_schema,
}
