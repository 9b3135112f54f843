"""Cut streams of text into blocks of complete rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.errors import TableError
from mtlmon.tables.native import complete_rows, count_line_feeds, count_rows, row_starts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtlmon.tables.formats.files import ByteStream

# The first block is small, so that errors in a table, and its first verdicts, are known early.
FIRST_BLOCK_BYTES = 1 << 18
BLOCK_BYTES = 1 << 22
LONGEST_ROW = 1 << 26


class TextBlock:
    """Complete rows of a text.

    Attributes:
        buffer: the bytes, in memory that Arrow allocated. Arrow's threads may still hold them when
            the parsed result is available. To release Python's memory, they would need Python's
            lock, and a process that is ending by then would be aborted.
        text: the same bytes.
        first_line: the number of the first of these lines in the file, from 1.
        has_inner_line_feeds: whether there may be line feeds within a cell.
        delimiter: the character between cells, as for `mtlmon.tables.native`.
        quote: the character around cells, as for `mtlmon.tables.native`.
        is_tail: whether this is a last row that no line feed ends.
    """

    def __init__(
        self,
        buffer: pa.Buffer,
        first_line: int,
        has_inner_line_feeds: bool,
        delimiter: str,
        quote: str,
        is_tail: bool = False,
    ) -> None:
        self.is_tail = is_tail
        self.buffer = buffer
        self.text = np.frombuffer(buffer, np.uint8)
        self.first_line = first_line
        self.has_inner_line_feeds = has_inner_line_feeds
        self.delimiter = delimiter
        self.quote = quote
        self._starts: list[int] | None = None
        # whether each line is a row, once that is known
        self._has_only_rows: bool | None = None
        # a position in the text and its line: the next position to look up is usually after it
        self._known_line = (0, first_line)

    @property
    def starts(self) -> list[int]:
        """The starts of the rows, and the end of the last row."""
        if self._starts is None:
            self._starts = row_starts(self.text, len(self.text), self.delimiter, self.quote)
        return self._starts

    @property
    def row_count(self) -> int:
        """The number of rows."""
        if self._starts is not None:
            return len(self._starts) - 1
        return count_rows(self.text, len(self.text), self.delimiter, self.quote)

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
            end, _ = complete_rows(self.text, size, self.delimiter, self.quote)
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
        return TextBlock(
            buffer, line, self.has_inner_line_feeds, self.delimiter, self.quote, self.is_tail
        )


def text_blocks(stream: ByteStream, delimiter: str, quote: str = "") -> Iterator[TextBlock]:
    """Read the rows of a stream in blocks, each as soon as it is available.

    For a stream that is not a file, a block is what is available; for a file, it has a few
    megabytes. A byte order mark is skipped.

    Raises:
        TableError: a row is longer than LONGEST_ROW, or compressed data is damaged.
    """
    memory = pa.allocate_buffer(FIRST_BLOCK_BYTES)
    room = np.frombuffer(memory, np.uint8)
    filled = 0
    line = 1
    is_first = True
    while True:
        count = stream.read_into(room[filled:])
        filled += count
        if is_first and (filled >= 3 or not count):
            is_first = False
            if room[:3].tobytes() == b"\xef\xbb\xbf" and filled >= 3:
                filled -= 3
                room[:filled] = room[3 : filled + 3]
        if count:
            end, has_inner = complete_rows(room, filled, delimiter, quote)
        else:
            end, has_inner = filled, quote != ""
        if end:
            is_first = False
            yield TextBlock(memory.slice(0, end), line, has_inner, delimiter, quote, not count)
            line += count_line_feeds(room, end)
        if not count:
            return
        rest = room[end:filled]
        if len(rest) >= LONGEST_ROW:
            raise TableError(
                f"a row of more than {LONGEST_ROW >> 20} MiB; look for a quote that is not closed",
                path=stream.name,
                line=line,
            )
        size = max(BLOCK_BYTES, 2 * len(rest)) if end or filled == len(room) else len(room)
        memory = pa.allocate_buffer(size)
        room = np.frombuffer(memory, np.uint8)
        filled = len(rest)
        room[:filled] = rest
