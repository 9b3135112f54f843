"""Read lines of text as rows: the named groups of a regular expression are the columns.

The regular expression is RE2's, by way of Arrow: it takes time linear in the text, and other
threads go on meanwhile. The texts of the groups are written as CSV and read again, so that their
types are found as in CSV, and errors of rows have one form.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from mtlmon.errors import MtlmonError, TableError
from mtlmon.tables.formats.rows import TextBlock, text_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from mtlmon.tables.columns.wanted import Selection
    from mtlmon.tables.formats.blocks import BadRow, Block
    from mtlmon.tables.formats.delimited import DelimitedReader
    from mtlmon.tables.formats.files import ByteStream, TableFile


class ReadyPattern(NamedTuple):
    """A pattern for a well-known log.

    Attributes:
        regex: the regular expression.
        time: the column of times.
        time_format: how times are written, as for `Times`; None for ISO 8601.
    """

    regex: str
    time: str
    time_format: str | None = None


_ISO_TIME = r"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]\S+)"

READY = {
    "combined": ReadyPattern(
        r"^(?P<client>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "
        r'"(?P<method>[A-Z]+) (?P<path>\S+)(?: (?P<protocol>[^"]*))?" '
        r"(?P<status>[0-9]{3}) (?:(?P<bytes>[0-9]+)|-)"
        r'(?: "(?P<referrer>[^"]*)" "(?P<agent>[^"]*)")?',
        "time",
        "%d/%b/%Y:%H:%M:%S %z",
    ),
    "syslog": ReadyPattern(
        rf"^(?:<(?P<priority>[0-9]+)>)?{_ISO_TIME} (?P<host>\S+) "
        r"(?P<program>[^\s:\[]+)(?:\[(?P<pid>[0-9]+)\])?: (?P<message>.*)$",
        "time",
    ),
    "sshd": ReadyPattern(
        rf"^(?:<[0-9]+>)?{_ISO_TIME} (?P<host>\S+) sshd[^\s:\[]*(?:\[(?P<pid>[0-9]+)\])?: "
        r"(?P<result>Accepted|Failed) (?P<method>\S+) for (?:(?P<invalid>invalid) user )?"
        r"(?P<user>\S*) from (?P<client>\S+) port (?P<port>[0-9]+)",
        "time",
    ),
}
"""Patterns for well-known logs, by name."""

_SHOWN = 80
_NAMED = re.compile(r"(?<!\\)((?:\\\\)*)\(\?P<(\w+)>")
# A column that is never empty, so that no row is an empty line.
_MARK = "\0row"


def line_pattern(pattern: str) -> str:
    """Return the regular expression that a pattern stands for.

    Args:
        pattern: a regular expression with named groups, or a name in `READY`.

    Raises:
        MtlmonError: it is not a regular expression, or has no named groups.
    """
    found = READY[pattern].regex if pattern in READY else pattern
    try:
        names = _groups(found)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        hint = "write (?:...) for groups that are no columns" if "unnamed" in reason else ""
        hint = hint or f"patterns with names are {', '.join(READY)}"
        message = f"the pattern {_shown(pattern)} cannot be used: {reason}; {hint}"
        raise MtlmonError(message) from None
    if not names:
        raise MtlmonError(
            f"the pattern {_shown(pattern)} has no named groups, which are the columns: write "
            "(?P<user>[a-z]+)"
        )
    return found


class LineReader:
    """Reads the lines of text files; those that do not match are no rows.

    A group that takes no part in a match, or matches nothing, is null. Empty lines are skipped.

    Args:
        pattern: a regular expression that `line_pattern` has returned.
        selection: the columns to read.
        delimited: reads the texts of the groups.

    Attributes:
        unmatched: the number of lines that do not match.
    """

    def __init__(self, pattern: str, selection: Selection, delimited: DelimitedReader) -> None:
        self._pattern = pattern
        self._selection = selection
        self._delimited = delimited
        self.unmatched = 0
        self._has_match = False
        # the first line that does not match, with its place
        self._first: tuple[str, int, str] | None = None

    def blocks(self, file: TableFile, stream: ByteStream) -> Iterator[Block | BadRow]:
        """Read the rows of a file.

        Raises:
            TableError: the pattern has no group for a column.
        """
        names = _groups(self._pattern)
        self._selection.require(names, file.name)
        wanted = [name for name in names if name in self._selection.names]
        pattern = _with_groups(self._pattern, wanted)
        row = 1
        for text in text_blocks(stream, ","):
            block = self._matches(text, pattern, wanted, file)
            if block is not None:
                yield from self._delimited.read(block, file, [_MARK, *wanted], row)
                row += block.row_count

    def check_matches(self) -> None:
        """Check that some line matches, if there are lines.

        Raises:
            TableError: none does.
        """
        if self._first is not None and not self._has_match:
            path, line, shown = self._first
            raise TableError(
                f"no line matches the pattern; the first one is {shown}", path=path, line=line
            )

    def _matches(
        self, text: TextBlock, pattern: str, names: list[str], file: TableFile
    ) -> TextBlock | None:
        """The groups of the lines that match, as rows of CSV; None if there are none."""
        lines = _lines(text)
        found = pc.extract_regex(lines, pattern)
        is_match = np.asarray(found.is_valid())
        places = np.flatnonzero(is_match)
        if len(places) < len(lines):
            self.unmatched += len(lines) - len(places)
            if self._first is None:
                first = int(is_match.argmin())
                shown = _shown(lines[first].as_py())
                self._first = file.name, text.line_of(first), shown
        if not len(places):
            return None
        self._has_match = True
        rows = found.take(pa.array(places))
        columns = [rows.field(name) for name in names]
        nulls = pa.scalar(None, lines.type)
        empty = pa.scalar("", lines.type)
        cells = [pc.if_else(pc.equal(one, empty), nulls, one) for one in columns]
        mark = pa.repeat(pa.scalar(1), len(places))
        table = pa.Table.from_arrays([mark, *cells], names=[_MARK, *names])
        sink = pa.BufferOutputStream()
        csv.write_csv(table, sink, csv.WriteOptions(include_header=False))
        ends = np.flatnonzero(text.text == ord("\n"))
        starts = np.array(text.starts)[places]
        numbers = text.first_line + np.searchsorted(ends, starts)
        return _MatchedRows(sink.getvalue(), numbers, text.is_tail)


class _MatchedRows(TextBlock):
    """Rows of CSV, each with the number of the line that it comes from."""

    def __init__(self, buffer: pa.Buffer, numbers: NDArray[np.int64], is_tail: bool) -> None:
        super().__init__(buffer, 1, False, ",", '"', is_tail)
        self._numbers = numbers

    def line_of(self, row: int) -> int:
        return int(self._numbers[row])

    def part(self, first: int, last: int) -> TextBlock:
        starts = self.starts
        buffer = self.buffer.slice(starts[first], starts[last] - starts[first])
        return _MatchedRows(buffer, self._numbers[first:last], self.is_tail)


def _lines(text: TextBlock) -> pa.Array:
    """The lines of a block, without their ends; bytes that are not UTF-8 become U+FFFD."""
    starts = np.array(text.starts, np.int64)
    offsets = pa.py_buffer(starts)
    buffers = [None, offsets, text.buffer]
    whole = pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, buffers)
    # The starts of rows are behind empty lines, so a line may begin with line feeds.
    lines = pc.replace_substring_regex(whole, r"^[\r\n]+|[\r\n]+$", "")
    try:
        return lines.cast(pa.large_string())
    except pa.ArrowInvalid:
        texts = [line.decode(errors="replace") for line in lines.to_pylist()]
        return pa.array(texts, pa.large_string())


def _with_groups(pattern: str, names: list[str]) -> str:
    """A pattern of which other named groups are not captured, which is faster."""

    def replaced(found: re.Match[str]) -> str:
        return found[0] if found[2] in names else f"{found[1]}(?:"

    fewer = _NAMED.sub(replaced, pattern)
    try:
        return fewer if _groups(fewer) == names else pattern
    except pa.ArrowException:
        return pattern


def _groups(pattern: str) -> list[str]:
    """The names of the groups of a pattern."""
    return [field.name for field in pc.extract_regex(pa.array([""]), pattern).type]


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
