"""Read lines of text as rows: the named groups of a regular expression are the columns.

The regular expression is RE2's, by way of Arrow: it takes time linear in the text, and other
threads go on meanwhile. The texts of the groups are written as CSV and read again, so that their
types are found as in CSV, and errors of rows have one form.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from mtlmon.errors import MtlmonError, TableError
from mtlmon.support.ready_patterns import (
    NAMES,
    fitting_pattern,
    ready_pattern,
    split_patterns,
)
from mtlmon.tables.formats.blocks import BadRow, Block, BlockPlace, GoneOn, placed
from mtlmon.tables.formats.dialect import Dialect
from mtlmon.tables.formats.json_fields import json_names, json_values
from mtlmon.tables.formats.pairs import has_twice, pair_names, pair_values
from mtlmon.tables.formats.rows import TextBlock, text_behind, text_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.tables.columns.wanted import Selection
    from mtlmon.tables.formats.delimited import DelimitedReader
    from mtlmon.tables.formats.files import ByteStream, TableFile


_SHOWN = 80
_NAMED = r"(?<!\\)((?:\\\\)*)\(\?P<(\w+)>"
# A column that is never empty, so that no row is an empty line.
_MARK = "\0row"
_REPLACED = "\ufffd".encode()
# how Arrow writes CSV
_MATCHED = Dialect().syntax_of("csv")


class LinePattern(NamedTuple):
    """What the columns of a line are.

    Attributes:
        regexes: regular expressions with named groups, of which a line has the groups of the first
            that matches; None for pairs of names and values, and for JSON.
        time: the column of times; None for the default.
        time_format: how times are written, as for `Times`; None for the default.
        time_unit: the unit of times that are numbers; None for the default.
        fields: for lines of JSON, the fields that columns are by another name; None for others.
    """

    regexes: tuple[str, ...] | None
    time: str | None = None
    time_format: str | None = None
    time_unit: str | None = None
    fields: Mapping[str, str] | None = None

    def groups(self) -> list[str]:
        """The names of the groups of all regular expressions, each once."""
        return list(dict.fromkeys(name for one in self.regexes or () for name in _groups(one)))

    def values(self, lines: pa.Array, names: Sequence[str]) -> dict[str, pa.Array]:
        """Return the texts of columns; null where a line, or what matches it, has none.

        Args:
            lines: the lines, as texts.
            names: the columns.
        """
        if self.fields is not None:
            return json_values(lines, {name: self.fields.get(name, name) for name in names})
        return {name: pair_values(lines, name) for name in names}


def line_pattern(pattern: str) -> LinePattern:
    """Return what a pattern means.

    Args:
        pattern: a regular expression with named groups, or a name in `READY`; or several of them,
            each on a line of its own.

    Raises:
        MtlmonError: it is not a regular expression, has no named groups, or has no year behind a
            colon; or several patterns cannot be those of one log.
    """
    parts = split_patterns(pattern)
    found = [_one_pattern(part) for part in parts]
    if len(found) == 1:
        return found[0]
    regexes: list[str] = []
    for part, one in zip(parts, found, strict=True):
        if one.regexes is None:
            raise MtlmonError(f"{part} has all lines of a log: leave the other patterns out")
        regexes += one.regexes
    formats = {one.time_format: part for part, one in zip(parts, found, strict=True)}
    formats.pop(None, None)
    if len(formats) > 1:
        names = " and ".join(formats.values())
        raise MtlmonError(f"{names} have times of different forms: a log has one form of them")
    time = next((one.time for one in found if one.time is not None), None)
    return LinePattern(tuple(regexes), time, next(iter(formats), None))


def _one_pattern(pattern: str) -> LinePattern:
    """Return what a single pattern means."""
    ready = ready_pattern(pattern)
    if ready is not None:
        regexes = None if ready.regex is None else (ready.regex,)
        return LinePattern(regexes, ready.time, ready.time_format, ready.time_unit, ready.fields)
    try:
        names = _groups(pattern)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        hint = "write (?:...) for groups that are no columns" if "unnamed" in reason else ""
        hint = hint or f"patterns with names are {', '.join(NAMES)}"
        message = f"the pattern {_shown(pattern)} cannot be used: {reason}; {hint}"
        raise MtlmonError(message) from None
    if not names:
        raise MtlmonError(
            f"the pattern {_shown(pattern)} has no named groups, which are the columns: write "
            "(?P<user>[a-z]+)"
        )
    return LinePattern((pattern,))


def cells_of(lines: list[str], pattern: LinePattern) -> pa.Table:
    """Return the texts of all columns of the lines that match; empty texts are null."""
    texts = pa.array(lines, pa.large_string())
    if pattern.regexes is None:
        if pattern.fields is None:
            names = pair_names(lines)
        else:
            by_field = {field: name for name, field in pattern.fields.items()}
            names = [by_field.get(field, field) for field in json_names(lines)]
        return pa.table(pattern.values(texts, names))
    is_match, cells = _groups_of(texts, pattern.regexes, pattern.groups())
    nulls, empty = pa.scalar(None, texts.type), pa.scalar("", texts.type)
    rows = pa.table(cells).filter(is_match)
    return pa.table(
        {
            name: pc.if_else(pc.equal(rows[name], empty), nulls, rows[name])
            for name in rows.column_names
        }
    )


def _groups_of(
    lines: pa.Array, regexes: Sequence[str], names: Sequence[str]
) -> tuple[pa.Array, dict[str, pa.Array]]:
    """Return which lines match, and the groups of the first regular expression that matches each.

    Args:
        lines: the lines.
        regexes: the regular expressions.
        names: the wanted groups.
    """
    nulls = pa.nulls(len(lines), lines.type)

    def groups(regex: str) -> tuple[pa.Array, dict[str, pa.Array]]:
        found = pc.extract_regex(lines, regex)
        own = {field.name for field in found.type}
        return found.is_valid(), {
            name: found.field(name) if name in own else nulls for name in names
        }

    is_match, columns = groups(regexes[0])
    for regex in regexes[1:]:
        also, more = groups(regex)
        is_new = pc.and_not(also, is_match)
        is_match = pc.or_(is_match, also)
        columns = {name: pc.if_else(is_new, more[name], columns[name]) for name in names}
    return is_match, columns


class LineReader:
    """Reads the lines of text files; those that do not match are no rows.

    A group that takes no part in a match, or matches nothing, is null. Empty lines are skipped.

    Args:
        pattern: what `line_pattern` has returned.
        selection: the columns to read.
        delimited: reads the texts of the groups.

    Attributes:
        unmatched: the number of lines that do not match.
    """

    def __init__(
        self, pattern: LinePattern, selection: Selection, delimited: DelimitedReader
    ) -> None:
        self._pattern = pattern
        self._selection = selection
        self._delimited = delimited
        self.unmatched = 0
        self._has_match = False
        # the rows of the present text in which a name occurs twice, by their places
        self._repeated: dict[int, str] = {}
        self._path = ""
        # columns of pairs that no line has had
        self._absent = set(selection.names) if pattern.regexes is None else set()
        # the first line that does not match, with its place
        self._first: tuple[str, int, str] | None = None

    def blocks(
        self, file: TableFile, stream: ByteStream, resume: BlockPlace | None = None
    ) -> Iterator[Block | BadRow | GoneOn]:
        """Read the rows of a file.

        Args:
            file: the file.
            stream: its bytes.
            resume: the place of a block behind which to go on, once the first rows have been read.

        Raises:
            TableError: the pattern has no group for a column.
        """
        self._path = file.name
        wanted = list(self._selection.names)
        regexes = self._pattern.regexes
        if regexes is not None:
            names = self._pattern.groups()
            groups = (Counter(_groups(regex)) for regex in regexes)
            twice = [name for one in groups for name, count in one.items() if count > 1]
            self._selection.require([*names, *twice], file.name)
            wanted = [name for name in names if name in self._selection.names]
            regexes = tuple(_with_groups(regex, wanted) for regex in regexes)
        names = [_MARK, *wanted]

        def rows_of(texts: Iterator[TextBlock], row: int) -> Iterator[Block | BadRow]:
            for text in texts:
                place = BlockPlace(text.position, text.first_line, row, self.state())
                block = self._matches(text, regexes, wanted, file)
                if block is not None:
                    yield from placed(self._read(block, file, names, row), place)
                    row += block.row_count

        texts = text_blocks(stream)
        if resume is None:
            yield from rows_of(texts, 1)
            return
        # the first rows that there are tell the types
        for read in rows_of(texts, 1):
            yield read
            if isinstance(read, Block):
                break
        yield GoneOn()
        yield from rows_of(text_behind(self, stream, resume), resume.row)

    def _read(
        self, block: TextBlock, file: TableFile, names: list[str], row: int
    ) -> Iterator[Block | BadRow]:
        """Read the rows that lines are; the first one has the number `row`."""
        for read in self._delimited.read(block, file, names, row):
            yield self._without_repeated(read, row) if self._repeated else read

    def state(self) -> list[object]:
        """Return what is known by the lines so far, for `restore`, as JSON can write it."""
        own = [self.unmatched, self._has_match, sorted(self._absent), self._first]
        return [*own, self._delimited.state()]

    def restore(self, state: Any) -> None:
        """Go on from a state of another reader of the same columns."""
        self.unmatched, self._has_match, absent, first, delimited = state
        self._absent = set(absent)
        self._first = None if first is None else tuple(first)
        self._delimited.restore(delimited)

    def _without_repeated(self, read: Block | BadRow, row: int) -> Block | BadRow:
        """Mark the rows in which a name occurs twice as unreadable; `row` is the text's first."""
        if not isinstance(read, Block):
            return read
        unreadable = dict(read.unreadable)
        for number, name in self._repeated.items():
            place = number + row - read.first_row
            if 0 <= place < read.batch.num_rows:
                error = read.error(place, "the line has it twice", name)
                unreadable.setdefault(place, BadRow(error))
        return read._replace(unreadable=unreadable)

    def check_matches(self) -> None:
        """Check that some line matches, if there are lines, and that all columns occur.

        Raises:
            TableError: none does, or no line has a column.
        """
        if self._first is not None and not self._has_match:
            path, line, text = self._first
            reason = f"no line matches the pattern; the first one is {_shown(text)}"
            if fitting := fitting_pattern(text):
                reason += f", which {fitting} matches"
            raise TableError(reason, path=path, line=line)
        if self._has_match and self._absent:
            name = min(self._absent)
            raise TableError(f"no line has {name}=..., which is to be a column", path=self._path)

    def _matches(
        self, text: TextBlock, regexes: Sequence[str] | None, names: list[str], file: TableFile
    ) -> TextBlock | None:
        """The groups of the lines that match, as rows of CSV; None if there are none."""
        lines, broken = _lines(text)
        if regexes is None:
            columns = self._pattern.values(lines, names)
            times = [columns[name].is_valid() for name in self._selection.time_columns]
            is_match = np.logical_and.reduce([np.asarray(one) for one in times])
        else:
            matches, columns = _groups_of(lines, regexes, names)
            is_match = np.asarray(matches)
        places = np.flatnonzero(is_match)
        if len(places) < len(lines):
            self.unmatched += len(lines) - len(places)
            if self._first is None:
                first = int(is_match.argmin())
                self._first = file.name, text.line_of(first), lines[first].as_py()
        if not len(places):
            return None
        self._has_match = True
        self._repeated = {}
        if regexes is None and self._pattern.fields is None:
            for name in names:
                repeated = np.searchsorted(places, np.intersect1d(has_twice(lines, name), places))
                self._repeated.update(dict.fromkeys(repeated.tolist(), name))
        chosen = pa.array(places)
        nulls = pa.scalar(None, lines.type)
        empty = pa.scalar("", lines.type)
        cells = []
        for name, column in columns.items():
            cell = column.take(chosen)
            if name in self._absent and cell.null_count < len(cell):
                self._absent.discard(name)
            cells.append(pc.if_else(pc.equal(cell, empty), nulls, cell))
        is_broken = [place in broken for place in places.tolist()] if broken else []
        mark = pa.repeat(pa.scalar(1), len(places))
        table = pa.Table.from_arrays([mark, *cells], names=[_MARK, *names])
        sink = pa.BufferOutputStream()
        csv.write_csv(table, sink, csv.WriteOptions(include_header=False))
        ends = np.flatnonzero(text.text == ord("\n"))
        starts = np.array(text.starts)[places]
        numbers = text.first_line + np.searchsorted(ends, starts)
        rows = _MatchedRows(sink.getvalue(), numbers, text.is_tail, text, places)
        return rows.with_broken(is_broken) if any(is_broken) else rows


class _MatchedRows(TextBlock):
    """Rows of CSV, each with the line that it comes from, and its number."""

    def __init__(
        self,
        buffer: pa.Buffer,
        numbers: NDArray[np.int64],
        is_tail: bool,
        lines: TextBlock,
        places: NDArray[np.intp],
    ) -> None:
        super().__init__(buffer, 1, _MATCHED, None, is_tail)
        self._numbers = numbers
        self._lines = lines
        self._places = places

    def line_of(self, row: int) -> int:
        return int(self._numbers[row])

    def part(self, first: int, last: int) -> TextBlock:
        starts = self.starts
        buffer = self.buffer.slice(starts[first], starts[last] - starts[first])
        places = self._places[first:last]
        return _MatchedRows(buffer, self._numbers[first:last], self.is_tail, self._lines, places)

    def with_broken(self, is_broken: list[bool]) -> _MatchedRows:
        """These rows, of which some are not UTF-8 where their lines are not."""
        texts = [self.text[a:b].tobytes() for a, b in pairwise(self.starts)]
        written = b"".join(
            text.replace(_REPLACED, b"\xff") if broken else text
            for text, broken in zip(texts, is_broken, strict=True)
        )
        buffer = pa.allocate_buffer(len(written))
        np.frombuffer(buffer, np.uint8)[:] = np.frombuffer(written, np.uint8)
        return _MatchedRows(buffer, self._numbers, self.is_tail, self._lines, self._places)

    def text_of(self, row: int) -> bytes:
        return self._lines.text_of(int(self._places[row]))


def _lines(text: TextBlock) -> tuple[pa.Array, set[int]]:
    """The lines of a block, without their ends, and the places of those that are not UTF-8.

    Bytes that are not UTF-8 become U+FFFD.
    """
    starts = np.array(text.starts, np.int64)
    offsets = pa.py_buffer(starts)
    buffers = [None, offsets, text.buffer]
    whole = pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, buffers)
    # The starts of rows are behind empty lines, so a line may begin with line feeds.
    lines = pc.replace_substring_regex(whole, r"^[\r\n]+|[\r\n]+$", "")
    try:
        return lines.cast(pa.large_string()), set()
    except pa.ArrowInvalid:
        written = lines.to_pylist()
        texts = [line.decode(errors="replace") for line in written]
        broken = {
            place
            for place, (line, one) in enumerate(zip(written, texts, strict=True))
            if "\ufffd" in one and one.encode() != line
        }
        return pa.array(texts, pa.large_string()), broken


def _with_groups(pattern: str, names: list[str]) -> str:
    """A pattern of which other named groups are not captured, which is faster."""

    def replaced(found: re.Match[str]) -> str:
        return found[0] if found[2] in names else f"{found[1]}(?:"

    fewer = re.sub(_NAMED, replaced, pattern)
    try:
        found = set(_groups(fewer))
        return fewer if found and found <= set(names) else pattern
    except pa.ArrowException:
        return pattern


def _groups(pattern: str) -> list[str]:
    """The names of the groups of a pattern."""
    return [field.name for field in pc.extract_regex(pa.array([""]), pattern).type]


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
