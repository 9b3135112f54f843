"""Cut streams of text into blocks of complete rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.errors import TableError
from mtlmon.support.encodings import LOOKED_AT, other_encoding
from mtlmon.tables.formats.dialect import LONGEST_ROW
from mtlmon.tables.native import RowSyntax, count_line_feeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Protocol

    from mtlmon.tables.formats.blocks import BlockPlace
    from mtlmon.tables.formats.files import ByteStream

    class Resumable(Protocol):
        """Reads rows, and can go on from the state that another reader had."""

        def restore(self, state: Any) -> None: ...

    # as `RowSyntax.complete_rows` returns it
    Irregular = tuple[int, list[tuple[int, int]], int, int]

# The first block is small, so that errors in a table, and its first verdicts, are known early.
FIRST_BLOCK_BYTES = 1 << 18
BLOCK_BYTES = 1 << 22

LINES_OF_TEXT = RowSyntax(longest=LONGEST_ROW)
"""The syntax of rows that are lines without cells."""


class TextBlock:
    """Complete rows of a text.

    Attributes:
        buffer: the bytes, in memory that Arrow allocated. Arrow's threads may still hold them when
            the parsed result is available. To release Python's memory, they would need Python's
            lock, and a process that is ending by then would be aborted.
        text: the same bytes.
        first_line: the number of the first of these lines in the file, from 1.
        syntax: how the rows are written.
        irregular: what is special about the rows, as `RowSyntax.complete_rows` tells it; None if
            each line is a row, unless it is empty.
        is_tail: whether this is a last row that no line feed ends.
        position: the number of bytes of the text before, with a byte order mark.
    """

    def __init__(
        self,
        buffer: pa.Buffer,
        first_line: int,
        syntax: RowSyntax,
        irregular: Irregular | None,
        is_tail: bool = False,
        position: int = 0,
    ) -> None:
        self.is_tail = is_tail
        self.position = position
        self.buffer = buffer
        self.text = np.frombuffer(buffer, np.uint8)
        self.first_line = first_line
        self.syntax = syntax
        self.irregular = irregular
        self._starts: list[int] | None = None
        self._readable: pa.Buffer | None = None
        # whether each line is a row, once that is known
        self._has_only_rows: bool | None = None
        # a position in the text and its line: the next position to look up is usually after it
        self._known_line = (0, first_line)

    @property
    def starts(self) -> list[int]:
        """The starts of the rows, and the end of the last row."""
        if self._starts is None:
            is_simple = self.irregular is None
            self._starts = self.syntax.row_starts(self.text, len(self.text), is_simple)
        return self._starts

    @property
    def row_count(self) -> int:
        """The number of rows."""
        if self.irregular is not None:
            return self.irregular[0]
        if self._starts is not None:
            return len(self._starts) - 1
        return self.syntax.count_rows(self.text, len(self.text))

    @property
    def malformed(self) -> Mapping[int, int]:
        """The rows whose quotes are not in order, each with the first such cell, from 1."""
        return dict(self.irregular[1]) if self.irregular else {}

    @property
    def spanning_rows(self) -> int:
        """The number of rows that span lines."""
        return self.irregular[2] if self.irregular else 0

    @property
    def stray_quotes(self) -> int:
        """The number of cells that begin with a quote that is a character."""
        return self.irregular[3] if self.irregular else 0

    @property
    def readable(self) -> pa.Buffer:
        """The bytes as readers of cells understand them, without the rows that are malformed."""
        if self._readable is None:
            self._readable = self.buffer
            if self.malformed or self.stray_quotes:
                size = len(self.text)
                self._readable = pa.allocate_buffer(self.syntax.readable(self.text, size))
                room = np.frombuffer(self._readable, np.uint8)
                self.syntax.readable(self.text, size, room)
        return self._readable

    @property
    def _lines_are_rows(self) -> bool:
        """Whether each line is a row.

        A row has at least one line, so they are as many only if none has two and no line is empty.
        PERF: this takes 9 ns a row, and the starts of rows 40 ns.
        """
        if self._has_only_rows is None:
            size = len(self.text)
            lines = count_line_feeds(self.text, size) + bool(size and self.text[-1] != ord("\n"))
            self._has_only_rows = lines == self.row_count
        return self._has_only_rows

    def line_of(self, row: int) -> int:
        """The number of a row's first line."""
        if self._lines_are_rows:
            return self.first_line + row
        place = self.starts[row]
        known, line = self._known_line if self._known_line[0] <= place else (0, self.first_line)
        line += count_line_feeds(self.text[known:], place - known)
        self._known_line = place, line
        return line

    def lines_from(self, row: int) -> Callable[[int], int]:
        """`line_of` for rows counted from this row on."""
        return lambda place: self.line_of(row + place)

    def text_of(self, row: int) -> bytes:
        """The text of a row in the file, perhaps behind empty lines."""
        return self.text[self.starts[row] : self.starts[row + 1]].tobytes()

    def texts_from(self, row: int) -> Callable[[int], bytes]:
        """`text_of` for rows counted from this row on."""
        return lambda place: self.text_of(row + place)

    def head(self, size: int) -> TextBlock:
        """The first rows, of about this size; more if the first row is longer."""
        end = 0
        if len(self.text) > size:
            end, _ = self.syntax.complete_rows(self.text, size)
        if not end:
            return self
        return self._slice(0, end, self.first_line)

    def part(self, first: int, last: int) -> TextBlock:
        """The rows from one index to another."""
        starts = self.starts
        return self._slice(starts[first], starts[last], self.line_of(first))

    def behind(self, row: int) -> TextBlock:
        """The rows from this row on."""
        return self.part(row, len(self.starts) - 1)

    def _slice(self, begin: int, end: int, line: int) -> TextBlock:
        buffer = self.buffer.slice(begin, end - begin)
        irregular = None
        if self.irregular is not None:
            text = np.frombuffer(buffer, np.uint8)
            _, irregular = self.syntax.complete_rows(text, len(text), is_end=True)
        return TextBlock(buffer, line, self.syntax, irregular, self.is_tail)


def text_behind(
    reader: Resumable, stream: ByteStream, place: BlockPlace, syntax: RowSyntax = LINES_OF_TEXT
) -> Iterator[TextBlock]:
    """Let a reader go on at a place, as it was there; return the text behind, as `text_blocks`."""
    reader.restore(place.state)
    stream.seek(place.size)
    return text_blocks(stream, syntax, place)


def text_blocks(
    stream: ByteStream, syntax: RowSyntax = LINES_OF_TEXT, place: BlockPlace | None = None
) -> Iterator[TextBlock]:
    """Read the rows of a stream in blocks, each as soon as it is available.

    For a stream that is not a file, a block is what is available; for a file, it has a few
    megabytes. A byte order mark is skipped. The first row of text with cells is the header: it is a
    block of its own, and rows that span lines must have as many cells.

    Args:
        stream: the stream.
        syntax: how rows are written; behind a header, with the number of its cells.
        place: where the stream is, behind a header, if not at its beginning.

    Raises:
        TableError: a row is longer than a row may be, or compressed data is damaged.
    """
    memory = pa.allocate_buffer(FIRST_BLOCK_BYTES)
    room = np.frombuffer(memory, np.uint8)
    filled = 0
    line, position = (1, 0) if place is None else (place.line, place.size)
    is_first = place is None
    has_header = is_first and syntax.delimiter != ""
    while True:
        count = stream.read_into(room[filled:])
        filled += count
        if is_first and (filled >= 3 or not count):
            is_first = False
            if room[:3].tobytes() == b"\xef\xbb\xbf" and filled >= 3:
                filled -= 3
                position = 3
                room[:filled] = room[3 : filled + 3]
            if reason := other_encoding(room[:filled].tobytes()[:LOOKED_AT]):
                raise TableError(f"the file is {reason}", path=stream.name)
        begin = 0
        end, irregular = syntax.complete_rows(room, filled, not count)
        if end and has_header:
            block = TextBlock(memory.slice(0, end), line, syntax, irregular, not count)
            if block.row_count:
                head = block.part(0, 1)
                yield head
                has_header = False
                begin = block.starts[1]
                line += count_line_feeds(room, begin)
                syntax = syntax.with_columns(syntax.count_cells(head.text, len(head.text)))
                end, irregular = syntax.complete_rows(room[begin:], filled - begin, not count)
                end += begin
        if end > begin:
            is_first = False
            yield TextBlock(
                memory.slice(begin, end - begin),
                line,
                syntax,
                irregular,
                not count,
                position + begin,
            )
            line += count_line_feeds(room[begin:], end - begin)
        if not count:
            return
        if not end and filled < len(room):
            continue
        position += end
        rest = room[end:filled]
        if len(rest) > syntax.longest:
            raise TableError(
                f"a row of more than {syntax.longest >> 20} MiB", path=stream.name, line=line
            )
        memory = pa.allocate_buffer(max(BLOCK_BYTES, 2 * len(rest)))
        room = np.frombuffer(memory, np.uint8)
        filled = len(rest)
        room[:filled] = rest
