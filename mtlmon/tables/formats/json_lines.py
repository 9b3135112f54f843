"""Read tables of JSON lines, with one object per row."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal
from itertools import islice, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as json_of_arrow

from mtlmon.errors import TableError
from mtlmon.policy.predicates.expression import FLOATS, NUMBER, ORDERED, ORDERED_FLOATS
from mtlmon.support.encodings import NOT_UTF_8
from mtlmon.tables.columns.arrow_text import shortened
from mtlmon.tables.columns.wanted import joined_types
from mtlmon.tables.formats.blocks import (
    BadRow,
    Block,
    BlockPlace,
    GoneOn,
    Parsed,
    placed,
    read_blocks,
    usable_parts,
)
from mtlmon.tables.formats.json_faces import (
    ANY,
    TEXT,
    converted,
    has_long_numbers,
    is_direct,
    of_values,
)
from mtlmon.tables.formats.json_objects import PlainObjects
from mtlmon.tables.formats.json_types import (
    EXACT,
    column_names,
    json_rows,
    most_common,
    type_of,
)
from mtlmon.tables.formats.long_integers import MOST_EXACT, RoundedIntegers
from mtlmon.tables.formats.rows import text_behind, text_blocks
from mtlmon.tables.formats.type_texts import types_of, types_text
from mtlmon.tables.native import object_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence

    from mtlmon.tables.columns.wanted import Selection
    from mtlmon.tables.formats.files import ByteStream, TableFile
    from mtlmon.tables.formats.rows import TextBlock

_PARSED_BYTES = 1 << 20
# How much of a block is examined for unknown types. If the reader fails on later rows, those rows
# are examined then.
_TYPED_BYTES = 1 << 16
# How many rows Python parses to see whether they have a column that their text names, perhaps
# within an object, and how many names of other columns are kept for messages.
_LOOKED_AT = 200_000
_KEPT_NAMES = 1000


# No row has this column.
_NO_COLUMN = "\0"
_AS_IT_IS = "as it is"
"""A column is read with the type that its values in a block have."""


class _RefusedRow(Exception):
    """A line that is not a single object, which the reader would misinterpret."""


class _RefusedValue(Exception):
    """A value that is not of the type that a column is read as.

    Attributes:
        column: the column.
    """

    def __init__(self, reason: str, column: str) -> None:
        super().__init__(reason)
        self.column = column


class _Exact(NamedTuple):
    """A column of a block whose values have been converted one by one.

    Attributes:
        values: the values.
        faults: why rows have none, by their place.
    """

    values: pa.Array
    faults: dict[int, str]


_REFUSALS = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    UnicodeDecodeError,
    _RefusedRow,
    _RefusedValue,
)


class JsonLinesReader:
    """Reads the files of one table in JSON lines.

    Each value has a type of its own, so the same values of a column mean the same whatever the
    others are: they are compared by their canonical texts, unless expressions read the column as
    numbers, Booleans or times. Times and names of events have the type of their values in a block
    of rows, and are texts if these differ; times with a point are decimals, not floats. A missing
    value is null.

    PERF: the library that reads JSON is 20 times as fast as Python, and reads columns whose values
    in a block are all of one type. Python reads the others, of that block. Rows that are written in
    the usual way are read by code of our own, in a quarter of the library's time.

    A column `a.b` is, row by row, the member with that name or b of the object a; a row that has
    both with different values is an error.

    Args:
        selection: the columns to read.

    Attributes:
        rounded: has noticed integers that became floats.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        # what to read each column as, by the name that it is returned under
        self._reads: dict[str, tuple[str, str]] = _reads(selection)
        self._wanted: dict[str, set[str]] = {}
        for column, wanted in self._reads.values():
            self._wanted.setdefault(column, set()).add(wanted)
        # the types that the library reads columns as; the values of the others differ in type
        self._types: dict[str, pa.DataType] = dict.fromkeys(selection.names, pa.null())
        self._differing: set[str] = set()
        self._is_time = [name in selection.time_columns for name in selection.names]
        # the types of what is returned
        self._found: dict[str, pa.DataType] = dict.fromkeys(self._reads, pa.null())
        # the columns of names with a dot that are members of rows, and those within objects
        self._literal: set[str] = set()
        self._nested: set[str] = set()
        self._dotted = [name for name in selection.names if "." in name]
        self._present: dict[str, None] = {}
        # the columns within objects, for messages
        self._within: dict[str, None] = {}
        # the columns that no row has had yet, not even with null
        self._absent = set(selection.names)
        self._looks = _LOOKED_AT
        self._has_false = False
        self._last_path: str | None = None
        self._plain = PlainObjects()
        self.rounded = RoundedIntegers()

    def blocks(
        self, file: TableFile, stream: ByteStream, resume: BlockPlace | None = None
    ) -> Iterator[Block | BadRow | GoneOn]:
        """Read the rows of a file.

        Args:
            file: the file.
            stream: its bytes.
            resume: the place of a block behind which to go on, once the first rows have been read.
        """
        row = 1
        for block in text_blocks(stream):
            if resume is not None:
                yield from self.read(block, file, row)
                break
            row = yield from self._rows(block, file, row)
        if resume is None:
            return
        yield GoneOn()
        row = resume.row
        for block in text_behind(self, stream, resume):
            row = yield from self._rows(block, file, row)

    def _rows(
        self, block: TextBlock, file: TableFile, row: int
    ) -> Generator[Block | BadRow, None, int]:
        """Read the rows of a block, and return the number of the row behind them."""
        place = BlockPlace(block.position, block.first_line, row, self.state())
        return (yield from placed(self.read(block, file, row), place))

    def state(self) -> list[object]:
        """Return what is known by the rows so far, for `restore`, as JSON can write it."""
        return [
            types_text(self._types),
            types_text(self._found),
            *map(sorted, (self._differing, self._literal, self._nested, self._absent)),
            list(self._present),
            list(self._within),
            [self._looks, self._has_false, self._last_path],
            self.rounded.state(),
        ]

    def restore(self, state: Any) -> None:
        """Go on from a state of another reader of the same columns."""
        types, found, differing, literal, nested, absent, present, within, rest, rounded = state
        self._types, self._found = types_of(types), types_of(found)
        self._differing, self._literal = set(differing), set(literal)
        self._nested, self._absent = set(nested), set(absent)
        self._present, self._within = dict.fromkeys(present), dict.fromkeys(within)
        self._looks, self._has_false, self._last_path = rest
        self.rounded.restore(rounded)

    def check_columns(self) -> None:
        """Once all files have been read, check that each column occurs in some row.

        Columns of atoms may be absent if rows name only what is true. If some value is false, rows
        state every atom's value, so the name of an absent atom is misspelt.

        Raises:
            TableError: no row had a column.
        """
        for message in self.absent("no row has a column"):
            assert self._last_path is not None
            raise TableError(message, path=self._last_path)

    @property
    def absent_names(self) -> Collection[str]:
        """The columns that no row has had so far."""
        return self._absent

    def absent(self, subject: str) -> list[str]:
        """Messages about the columns that no row has had so far; none before there are rows.

        subject: the first words of a message.
        """
        if self._last_path is None:
            return []
        present = list(self._present)
        return [
            self._selection.missing(name, present, subject, tuple(self._within))
            for name in self._selection.names
            # rows name only what is true
            if name in self._absent and (self._has_false or name not in self._selection.booleans)
        ]

    def read(self, block: TextBlock, file: TableFile, row: int) -> Iterator[Block | BadRow]:
        """Read rows of JSON lines.

        Args:
            block: the rows.
            file: the file that they are from.
            row: the number of the first row in the file, from 1.
        """
        for read in self._read(block, file, row):
            self._last_path = file.name
            yield read

    def _read(self, block: TextBlock, file: TableFile, row: int) -> Iterator[Block | BadRow]:
        if any(pa.types.is_null(found) for found in self._types.values()):
            self._learn(block.head(_TYPED_BYTES))
        if self._dotted:
            self._find_ways(block)
        parts: Iterable[tuple[int, Parsed | BaseException]] | None = None
        if not self._differing and not self._are_long(block):
            try:
                parts = [(0, Parsed(self._parse(block, _PARSED_BYTES)))]
            except _REFUSALS:
                pass
        if parts is None:
            parts = self._one_by_one(block)
        absent = self._absent_columns(block)

        def bad_row(place: int, error: BaseException) -> BadRow:
            text = block.text[block.starts[place] : block.starts[place + 1]].tobytes()
            return _bad_row(error, file, row + place, block.line_of(place), text)

        yield from read_blocks(parts, block, file.name, row, bad_row, absent=absent)

    def _absent_columns(self, block: TextBlock) -> dict[str, str]:
        """The columns of times and keys that no row has had so far, with messages about them."""
        if not self._absent:
            return {}
        text: bytes | None = None
        for name in tuple(self._absent):
            if pa.types.is_null(self._types[name]):
                text = block.buffer.to_pybytes() if text is None else text
                if not self._has_column(text, name):
                    continue
            self._absent.discard(name)
        present = list(self._present)
        wanted = (*self._selection.time_columns, *self._selection.keys)
        return {
            name: self._selection.missing(name, present, within=tuple(self._within))
            for name in wanted
            if name in self._absent
        }

    def _has_column(self, text: bytes, name: str) -> bool:
        """Whether some row has a column, with a value or with null; or too many must be parsed."""
        last = name.rpartition(".")[2]
        spellings = {
            json.dumps(part, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
            for part in (name, last)
            for is_ascii in (True, False)
        }
        for spelling in spellings:
            place = text.find(spelling)
            while place >= 0:
                end = text.find(b"\n", place)
                following = text[place + len(spelling) : place + len(spelling) + 20].lstrip()
                if following.startswith(b":"):
                    start = text.rfind(b"\n", 0, place) + 1
                    self._looks -= 1
                    if self._looks < 0 or _row_has(text[start : end if end >= 0 else None], name):
                        return True
                    # the whole row has been looked at
                    place = end if end >= 0 else len(text)
                place = text.find(spelling, place + 1)
        return False

    def _are_long(self, block: TextBlock) -> bool:
        """Whether numbers must be told apart that may be the same float."""
        return any(
            pa.types.is_floating(found) and self._needs_digits(name)
            for name, found in self._types.items()
        ) and has_long_numbers(memoryview(block.buffer))

    def _needs_digits(self, name: str) -> bool:
        """Whether all digits of the numbers in a column matter."""
        return bool(self._wanted[name] & {TEXT, ANY})

    def _one_by_one(self, block: TextBlock) -> Iterator[tuple[int, Parsed | BaseException]]:
        """Read rows, some of whose values are of other types; yields what `usable_parts` does."""
        rows = self._learn(block)
        self._choose(block, rows)
        exact: dict[str, _Exact] = {}
        suspects = {place for place, row in enumerate(rows) if row is None}
        for name, (column, wanted) in self._reads.items():
            if column in self._differing:
                place = list(self._types).index(column)
                values = [None if row is None else row[place] for row in rows]
                read_as = TEXT if wanted == _AS_IT_IS else wanted
                exact[name] = _Exact(*of_values(values, read_as, self._found[name]))
                suspects.update(exact[name].faults)
        read = [
            (place, known)
            for place, (name, known) in enumerate(self._types.items())
            if name not in self._differing
        ]
        suspects.update(
            number
            for number, row in enumerate(rows)
            if row is not None
            and not all(_fits(self._type(place, row[place]), known) for place, known in read)
        )

        def parse(first: int, last: int) -> Parsed:
            part = block.part(first, last)
            if self._differing and None in rows[first:last]:
                raise _RefusedRow(self._why_unread(part))
            for name, (_, faults) in exact.items():
                for place in range(first, last) if faults else ():
                    if place in faults:
                        raise _RefusedValue(faults[place], self._reads[name][0])
            values = {name: one.values.slice(first, last - first) for name, one in exact.items()}
            return Parsed(self._parse(part, max(_PARSED_BYTES, 2 * len(part.text)), values))

        yield from usable_parts(len(block.starts) - 1, parse, _REFUSALS, sorted(suspects))

    def _why_unread(self, row: TextBlock) -> str:
        """Why a row cannot be read one by one."""
        try:
            values = json.loads(row.text.tobytes())
        except (ValueError, RecursionError):
            values = None
        if isinstance(values, dict):
            try:
                self._look_at(values)
            except ValueError as error:
                return str(error)
        return "not a JSON object that can be read exactly"

    def _choose(self, block: TextBlock, rows: Sequence[list[Any] | None]) -> None:
        """Choose how to read the columns of a block whose values may have any types."""
        self._differing = set()
        is_long: bool | None = None
        for place, name in enumerate(self._types):
            if _AS_IT_IS in self._wanted[name]:
                self._choose_as_it_is(place, name, rows)
                continue
            if pa.types.is_nested(self._types[name]):
                # objects or arrays, unless other values are wanted
                if not all(is_direct(self._types[name], one) for one in self._wanted[name]):
                    self._differing.add(name)
                continue
            found = {self._type(place, row[place]) for row in rows if row is not None}
            found = {one for one in found if not pa.types.is_nested(one)} - {pa.null()}
            if found == {pa.int64(), pa.float64()}:
                found = {pa.float64()}
            if not found:
                # nulls only, behind values of another type
                if not all(is_direct(self._types[name], one) for one in self._wanted[name]):
                    self._differing.add(name)
                continue
            if len(found) == 1:
                (self._types[name],) = found
            if pa.float64() in found and self._needs_digits(name):
                is_long = has_long_numbers(memoryview(block.buffer)) if is_long is None else is_long
                if is_long:
                    self._differing.add(name)
            wanted = self._wanted[name]
            if wanted & {FLOATS, ORDERED_FLOATS} and any(
                _is_long(row[place]) for row in rows if row is not None
            ):
                self._differing.add(name)
            if len(found) > 1 or not all(is_direct(self._types[name], one) for one in wanted):
                self._differing.add(name)

    def _choose_as_it_is(self, place: int, name: str, rows: Sequence[list[Any] | None]) -> None:
        """Choose how to read a column of times or names of events: by its own values in a block.

        Values of several types are texts, as `7` and `"7"` are one name, and one time.
        """
        found = {self._type(place, row[place]) for row in rows if row is not None}
        found = {one for one in found if not pa.types.is_nested(one)} - {pa.null()}
        if found == {pa.int64(), EXACT}:
            found = {EXACT}
        if len(found) == 1 and found <= {pa.string(), pa.int64(), EXACT}:
            known = self._types[name]
            if not (known == EXACT and found == {pa.int64()}) and not pa.types.is_nested(known):
                (self._types[name],) = found
        elif found and not pa.types.is_nested(self._types[name]):
            self._differing.add(name)

    def _learn(self, block: TextBlock) -> list[list[Any] | None]:
        """Find the types of columns, by the majority of rows.

        Returns:
            For each row, the values of its columns; None if it cannot be read as an object.
        """
        lines = (block.text[start:end].tobytes() for start, end in pairwise(block.starts))
        rows = json_rows(lines, self._look_at)
        found = {}
        for place, (name, known) in enumerate(self._types.items()):
            types = Counter(self._type(place, row[place]) for row in rows if row is not None)
            if _AS_IT_IS not in self._wanted[name]:
                if not pa.types.is_null(known):
                    continue
                if not all(pa.types.is_nested(one) or pa.types.is_null(one) for one in types):
                    # objects and arrays are at fault
                    types = Counter(
                        {one: n for one, n in types.items() if not pa.types.is_nested(one)}
                    )
            if types:
                found[name] = most_common(types)
        self._types = joined_types(self._types, found)
        for name, found_type in found.items():
            # Values of other types than most come to be read one by one.
            if not all(is_direct(found_type, one) for one in self._wanted[name] - {_AS_IT_IS}):
                self._differing.add(name)
        return rows

    def _look_at(self, row: dict[str, Any]) -> list[Any]:
        if len(self._present) < _KEPT_NAMES:
            self._present.update(dict.fromkeys(row))
            names = (name for name, _ in column_names(row) if name not in row)
            self._within.update(dict.fromkeys(islice(names, _KEPT_NAMES)))
        self._has_false = self._has_false or any(value is False for value in row.values())
        return [self._value(name, row) for name in self._types]

    def _find_ways(self, block: TextBlock) -> None:
        """Find out whether columns that are members of rows are within objects as well, or so on.

        PERF: only rows that have the names are parsed, and not too many of these.
        """
        text: bytes | None = None
        for name in self._dotted:
            if (name in self._literal) == (name in self._nested):
                continue
            text = block.buffer.to_pybytes() if text is None else text
            parts = name.split(".") if name in self._literal else [name]
            marks = [json.dumps(part).encode() for part in parts]
            if not all(mark in text for mark in marks):
                continue
            place = text.find(marks[-1])
            while place >= 0 and (name in self._literal) != (name in self._nested):
                end = text.find(b"\n", place)
                end = len(text) if end < 0 else end
                self._looks -= 1
                if self._looks < 0:
                    break
                json_rows([text[text.rfind(b"\n", 0, place) + 1 : end]], self._look_at)
                place = text.find(marks[-1], end)

    def _value(self, name: str, row: dict[str, Any]) -> Any:
        """The value of a column in a row.

        Raises:
            ValueError: the row has two different ones.
        """
        value = row.get(name)
        if "." not in name:
            return value
        if name in row:
            self._literal.add(name)
        within = _value_within(row, name)
        if within is None:
            return value
        self._nested.add(name)
        if value is not None and value != within:
            raise ValueError(_two_values(name))
        return within

    def _type(self, place: int, value: Any) -> pa.DataType:
        """The type of a value of the column at a place."""
        data_type = type_of(value)
        if pa.types.is_floating(data_type) and self._is_time[place]:
            return EXACT
        return data_type

    def _parse(
        self,
        block: TextBlock,
        block_size: int,
        exact: Mapping[str, pa.Array] = MappingProxyType({}),
    ) -> pa.Table:
        """Read rows; raises one of _REFUSALS if some row cannot be read.

        Args:
            block: the rows.
            block_size: how many bytes one thread parses at once.
            exact: the columns that have been read already.
        """
        columns = self._columns(block, block_size)
        if columns is None:
            return pa.table({name: pa.nulls(0, found) for name, found in self._found.items()})
        table: dict[str, pa.ChunkedArray | pa.Array] = {}
        for name, (column, wanted) in self._reads.items():
            if column in self._differing:
                table[name] = exact[name]
            elif wanted == _AS_IT_IS:
                table[name] = columns[column]
            else:
                table[name] = converted(columns[column], wanted, self._found[name])
            self._found[name] = table[name].type
            if wanted in {NUMBER, ORDERED}:
                self._note(block, name, table[name])
        return pa.table(table)

    def _columns(self, block: TextBlock, block_size: int) -> dict[str, pa.ChunkedArray] | None:
        """Read the columns that the library can read; None if there are no rows."""
        read = {name: one for name, one in self._types.items() if name not in self._differing}
        columns: dict[str, pa.ChunkedArray] = {}
        if self._nested.isdisjoint(read):
            plain = self._plain.read(block.text, read)
            if plain is not None:
                columns = {name: one for name, one in plain.items()}
        if not columns:
            parsed = self._parsed(block, block_size)
            if parsed is None:
                return None
            columns = {name: self._column(parsed, name) for name in read}
        for column in columns.values():
            # neither reader requires texts to be UTF-8
            column.validate(full=True)
        return columns

    def _parsed(self, block: TextBlock, block_size: int) -> pa.Table | None:
        """Let the library read rows; None if there are none."""
        # A line that is null ends the process within the reader if it comes first, and the reader
        # takes two objects in a line for two rows.
        count, are_objects = object_rows(block.text, len(block.text))
        if not are_objects:
            raise _RefusedRow("not a JSON object")
        if not count:
            return None
        parsed = json_of_arrow.read_json(
            block.buffer,
            # PERF: without other threads, a few rows take 80 us instead of 200
            read_options=json_of_arrow.ReadOptions(
                block_size=block_size, use_threads=len(block.text) > _PARSED_BYTES
            ),
            parse_options=json_of_arrow.ParseOptions(
                explicit_schema=self._schema(), unexpected_field_behavior="ignore"
            ),
        )
        if parsed.num_rows != count:
            raise _RefusedRow("more than one JSON object in the line")
        return parsed

    def _note(self, block: TextBlock, name: str, values: pa.Array | pa.ChunkedArray) -> None:
        """Note integers that become floats, in a column that is returned."""
        column = self._reads[name][0]

        def texts() -> pa.ChunkedArray:
            lines = (block.text[start:end].tobytes() for start, end in pairwise(block.starts))
            rows = json_rows(lines, lambda row: _written(self._value(column, row)))
            return pa.chunked_array([rows], pa.string())

        whole = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
        self.rounded.note(column, whole, texts)

    def _schema(self) -> pa.Schema:
        """The types to parse: objects if columns are parts of objects."""
        tree: dict[str, Any] = {}
        no_way: list[str] = []
        read = [name for name in self._types if name not in self._differing]
        ways = [(no_way, name) for name in read if self._is_literal(name)]
        ways += [(name.split(".")[:-1], name) for name in read if name in self._nested]
        for way, name in ways:
            data_type = self._types[name]
            last = name.rpartition(".")[2] if way else name
            branch = tree
            for part in way:
                known = branch.get(part)
                if not isinstance(known, dict):
                    if known is not None and not _can_be_object(known):
                        # a column that most rows have as another value
                        break
                    branch[part] = {}
                branch = branch[part]
            else:
                if not (isinstance(branch.get(last), dict) and _can_be_object(data_type)):
                    branch[last] = data_type
        # there must be a column, as there would be no rows else
        return pa.schema(_fields(tree) or [pa.field(_NO_COLUMN, pa.null())])

    def _column(self, table: pa.Table, name: str) -> pa.ChunkedArray:
        if name not in self._nested:
            return table.column(name)
        first, *way = name.split(".")
        column = table.column(first)
        for part in way:
            if not pa.types.is_struct(column.type):
                column = pa.chunked_array([pa.nulls(len(column), self._types[name])])
                break
            column = pc.struct_field(column, [column.type.get_field_index(part)])
        if not self._is_literal(name):
            return column
        own = table.column(name)
        both = pc.and_(own.is_valid(), column.is_valid())
        if pc.any(both).as_py() and own.filter(both).to_pylist() != column.filter(both).to_pylist():
            raise _RefusedRow(_two_values(name))
        return pc.coalesce(own, column)

    def _is_literal(self, name: str) -> bool:
        """Whether a column is a member of rows, as far as is known."""
        return name in self._literal or name not in self._nested


def _written(value: Any) -> str | None:
    """A number or text as it is written."""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return str(value) if is_number or isinstance(value, str) else None


def _is_long(value: Any) -> bool:
    """Whether a value is a number that may be an integer but no float."""
    return isinstance(value, int | Decimal) and not -MOST_EXACT <= value <= MOST_EXACT


def _reads(selection: Selection) -> dict[str, tuple[str, str]]:
    """What to read each column as, by the name that it is returned under."""
    as_it_is = {*selection.time_columns, selection.event}
    found = {
        name: (name, _AS_IT_IS if name in as_it_is else TEXT if name in selection.plain else ANY)
        for name in selection.names
    }
    for name, column in selection.conversions.items():
        found[name] = (str(column), column.type)
    return found


def _can_be_object(data_type: pa.DataType) -> bool:
    """Whether the values of a column can be objects."""
    return bool(pa.types.is_struct(data_type) or pa.types.is_null(data_type))


def _fields(tree: dict[str, Any]) -> list[pa.Field]:
    # As deep as the names of columns have dots.
    return [
        pa.field(name, pa.struct(_fields(found)) if isinstance(found, dict) else found)
        for name, found in tree.items()
    ]


_CHANGED = re.compile(r"Column\(/?(.*?)\) changed from (\w+) to (\w+)")
_TWICE = re.compile(r"Column\(/?(.*?)\) was specified twice")
_CONVERTED = re.compile(r"Failed to convert JSON to (.+), couldn't parse: ?(.*)")
_IN_ROW = re.compile(r"(?:JSON parse error: )?(.*?)\.?(?: in row \d+)?$")


def _bad_row(error: BaseException, file: TableFile, row: int, line: int, text: bytes) -> BadRow:
    """Create the error of one row, from the reader's message and the text of the row."""
    reason, column = _reason(error)
    try:
        text.decode()
    except UnicodeDecodeError:
        return BadRow(TableError(f"the line is {NOT_UTF_8}", path=file.name, row=row, line=line))
    is_first = row == 1 and column is None
    if is_first:
        # Most probably, the whole file has another format.
        reason = f"{reason}: in JSON lines each line is one object"
        if (text := text.strip()) == b"{":
            reason += "; jq -c . makes such lines"
        elif text.startswith(b"["):
            reason += "; jq -c '.[]' makes such lines of an array"
    return BadRow(TableError(reason, path=file.name, row=row, line=line, column=column), is_first)


def _reason(error: BaseException) -> tuple[str, str | None]:
    """What is wrong with a row, and the column if it is known."""
    reason = " ".join(str(error).split())
    if isinstance(error, _RefusedRow):
        return reason, None
    if isinstance(error, _RefusedValue):
        return reason, error.column
    changed = _CHANGED.search(reason)
    if changed is not None and changed[1] and changed[2] == "null":
        # the line has values only together with other lines: alone, it gave no types
        return "not a JSON object", None
    if changed is not None and changed[1]:
        return f"{_an(changed[3])} instead of {_an(changed[2])}", changed[1].replace("/", ".")
    twice = _TWICE.search(reason)
    if twice is not None:
        return "the row has it twice", twice[1].replace("/", ".")
    converted = _CONVERTED.search(reason)
    if converted is not None:
        return f"{shortened(converted[2])} is not of type {converted[1]}", None
    found = _IN_ROW.match(reason)
    return f"not a JSON object ({shortened(found[1] if found else reason)})", None


def _an(kind: str) -> str:
    return f"{'an' if kind[0] in 'ao' else 'a'} {kind}"


def _fits(found: pa.DataType, known: pa.DataType) -> bool:
    """Whether a value of a type can be in a column of a known type."""
    if found == known or pa.types.is_null(found):
        return True
    is_real = pa.types.is_floating(known) or pa.types.is_decimal(known)
    return bool(is_real and pa.types.is_integer(found))


def _two_values(name: str) -> str:
    outer, _, inner = name.rpartition(".")
    return f"the row has {name} and {inner} in {outer} with different values"


def _value_within(row: dict[str, Any], name: str) -> Any:
    """Return the value of a column that is within an object; None if there is none."""
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _row_has(text: bytes, name: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if isinstance(value, dict) and name in value:
        return True
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True
