"""Tables of JSON lines: one object a row."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as json_of_arrow

from mtlmon.errors import TableError
from mtlmon.tables.blocks import BadRow, Block, usable_parts
from mtlmon.tables.columns import joined_types
from mtlmon.tables.rows import text_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.tables.columns import Selection
    from mtlmon.tables.files import ByteStream, TableFile
    from mtlmon.tables.rows import TextBlock

_PARSED_BYTES = 1 << 20
# How much of a block is looked at for types that are not known yet. What comes later makes the
# reader fail, and is looked for then.
_TYPED_BYTES = 1 << 16
# Of times with a point: 20 digits before it, and 18 behind.
_EXACT = pa.decimal128(38, 18)
_REFUSALS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError)


class JsonLinesReader:
    """Reads the files of one table in JSON lines.

    A column is of the type of most values in the first rows: a Boolean, a whole number, a number, a
    text, a list of texts. Where a number with a point follows whole ones, all become such; times
    with a point are decimals, not floats. What a row does not have is null.

    A column `a.b` is b of the object a, unless there is a column that is called so.

    Args:
        selection: the columns to read.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._types: dict[str, pa.DataType] = dict.fromkeys(selection.names, pa.null())
        self._nested: set[str] = set()
        self._present: dict[str, None] = {}

    def blocks(self, file: TableFile, stream: ByteStream) -> Iterator[Block | BadRow]:
        """The rows of a file."""
        row = 1
        for block in text_blocks(stream, ","):
            for read in self._read(block, file, row):
                yield read
                row += read.batch.num_rows if isinstance(read, Block) else 1

    def _read(self, block: TextBlock, file: TableFile, row: int) -> Iterator[Block | BadRow]:
        if any(pa.types.is_null(found) for found in self._types.values()):
            self._learn(block.head(_TYPED_BYTES))
        try:
            tables: Iterator[tuple[int, int, pa.Table | BaseException]] = iter(
                [(0, -1, self._parse(block, _PARSED_BYTES))]
            )
        except _REFUSALS:
            self._learn(block)

            def parse(first: int, last: int) -> pa.Table:
                part = block.part(first, last)
                return self._parse(part, max(_PARSED_BYTES, 2 * len(part.text)))

            tables = usable_parts(len(block.starts) - 1, parse, _REFUSALS)
        for first, _, table in tables:
            if isinstance(table, BaseException):
                reason, column = _reason(table)
                line = block.line_of(first)
                if row + first == 1 and column is None:
                    reason += "; in JSON lines each line is an object"
                yield BadRow(
                    TableError(reason, path=file.name, row=row + first, line=line, column=column)
                )
                continue
            done = first
            for batch in table.to_batches():
                yield from self._checked(
                    Block(batch, file.name, row + done, block.lines_from(done))
                )
                done += batch.num_rows

    def _checked(self, block: Block) -> Iterator[Block | BadRow]:
        """The rows, if those so far have had times and keys: else which columns there are."""
        for name in (self._selection.time_name, *self._selection.keys):
            if pa.types.is_null(self._types[name]) and name not in self._present:
                message = self._selection.missing(name, list(self._present))
                for place in range(block.batch.num_rows):
                    yield BadRow(block.error(place, message))
                return
        yield block

    def _learn(self, block: TextBlock) -> None:
        """Find the types of columns: those of most rows."""
        seen: dict[str, Counter[pa.DataType]] = {name: Counter() for name in self._types}
        for start, end in pairwise(block.starts):
            try:
                row = json.loads(block.text[start:end].tobytes())
            except ValueError:
                continue
            if isinstance(row, dict):
                self._present.update(dict.fromkeys(row))
                for name, counter in seen.items():
                    counter[self._type(name, row)] += 1
        found = {name: _most_common(counter) for name, counter in seen.items()}
        self._types = joined_types(self._types, found)

    def _type(self, name: str, row: dict[str, Any]) -> pa.DataType:
        if name in row:
            self._nested.discard(name)
            value = row[name]
        elif "." in name and name not in self._present:
            value = row
            for part in name.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if value is not None:
                self._nested.add(name)
        else:
            value = None
        data_type = _type_of(value)
        if pa.types.is_floating(data_type) and name == self._selection.time_name:
            return _EXACT
        return data_type

    def _parse(self, block: TextBlock, block_size: int) -> pa.Table:
        parsed = json_of_arrow.read_json(
            block.buffer,
            read_options=json_of_arrow.ReadOptions(block_size=block_size),
            parse_options=json_of_arrow.ParseOptions(
                explicit_schema=self._schema(), unexpected_field_behavior="ignore"
            ),
        )
        columns = {name: self._column(parsed, name) for name in self._types}
        for column in columns.values():
            # texts need not be UTF-8 for this reader
            column.validate(full=True)
        return pa.table(columns)

    def _schema(self) -> pa.Schema:
        """What to parse: objects where columns are parts of such."""
        tree: dict[str, Any] = {}
        for name, data_type in self._types.items():
            *way, last = name.split(".") if name in self._nested else [name]
            branch = tree
            for part in way:
                branch = branch.setdefault(part, {})
            branch[last] = data_type
        return pa.schema(_fields(tree))

    def _column(self, table: pa.Table, name: str) -> pa.ChunkedArray:
        if name not in self._nested:
            return table.column(name)
        first, *way = name.split(".")
        column = table.column(first)
        for part in way:
            column = pc.struct_field(column, [column.type.get_field_index(part)])
        return column


def _fields(tree: dict[str, Any]) -> list[pa.Field]:
    # As deep as the names of columns have dots.
    return [
        pa.field(name, pa.struct(_fields(found)) if isinstance(found, dict) else found)
        for name, found in tree.items()
    ]


def _most_common(counter: Counter[pa.DataType]) -> pa.DataType:
    """The type that most values are of; numbers with a point if there are any among numbers."""
    del counter[pa.null()]
    if not counter:
        return pa.null()
    ((found, _),) = counter.most_common(1)
    if pa.types.is_integer(found):
        return next((other for other in (_EXACT, pa.float64()) if other in counter), found)
    return found


def _type_of(value: object) -> pa.DataType:
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -(2**63) <= value < 2**63 else pa.float64()
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, list):
        return pa.list_(_type_of(next((item for item in value if item is not None), "")))
    if isinstance(value, dict):
        return pa.struct([])
    return pa.null()


_CHANGED = re.compile(r"Column\(/?(.*?)\) changed from (\w+) to (\w+)")
_CONVERTED = re.compile(r"Failed to convert JSON to (.+), couldn't parse: ?(.*)")
_IN_ROW = re.compile(r"(?:JSON parse error: )?(.*?)\.?(?: in row \d+)?$")


def _reason(error: BaseException) -> tuple[str, str | None]:
    """What is wrong with one row, and the column if that is known."""
    reason = " ".join(str(error).split())
    changed = _CHANGED.search(reason)
    if changed is not None and changed[1] and changed[2] == "null":
        # the line has values only together with others: alone it told no types
        return "not a JSON object", None
    if changed is not None and changed[1]:
        return f"a {changed[3]} instead of a {changed[2]}", changed[1].replace("/", ".")
    if changed is not None:
        return f"the row is a JSON {changed[3]}, not an object", None
    converted = _CONVERTED.search(reason)
    if converted is not None:
        return f"{converted[2]} is not of type {converted[1]}", None
    found = _IN_ROW.match(reason)
    return f"not a JSON object: {found[1] if found else reason}", None
