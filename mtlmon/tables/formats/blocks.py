"""The output of table readers: blocks of rows, and rows that cannot be read."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mtlmon.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

Read = TypeVar("Read")


class Block(NamedTuple):
    """Consecutive rows of one file.

    Attributes:
        batch: the wanted columns.
        path: the name of the file in messages.
        first_row: the number of the first of these rows in the file, from 1.
        line_of: maps the index of a row in the batch to its line in the file, from 1; None if files
            have no lines.
        absent: columns that no row has had so far, which contain only nulls, with their messages.
        is_tail: whether this is a last row that no line feed ends, of which more may be written.
        unreadable: the rows of which a cell cannot be read, by their indices in the batch, where
            the cell is null: the column and the reason.
        text_of: maps the index of a row in the batch to its text in the file; None if rows are no
            text.
        header: the header of the file, if such rows have one.
    """

    batch: pa.RecordBatch
    path: str
    first_row: int
    line_of: Callable[[int], int] | None
    absent: Mapping[str, str] = MappingProxyType({})
    is_tail: bool = False
    unreadable: Mapping[int, tuple[str, str]] = MappingProxyType({})
    text_of: Callable[[int], bytes] | None = None
    header: bytes = b""

    def parts(self, rows: int) -> Iterator[Block]:
        """Yield the rows in parts of at most so many rows; without rows, the block itself."""
        if self.batch.num_rows <= rows:
            yield self
            return
        for first in range(0, self.batch.num_rows, rows):
            yield self._replace(
                batch=self.batch.slice(first, rows),
                first_row=self.first_row + first,
                line_of=None if self.line_of is None else _behind(self.line_of, first),
                unreadable=within(self.unreadable, first, rows),
                text_of=None if self.text_of is None else _texts_behind(self.text_of, first),
            )

    def error(self, place: int, message: str, column: str | None = None) -> TableError:
        """Create the error of the row at an index in the batch."""
        return TableError(
            message,
            path=self.path,
            row=self.first_row + place,
            line=None if self.line_of is None else self.line_of(place),
            column=column,
        )


def within(
    unreadable: Mapping[int, tuple[str, str]], first: int, count: int
) -> Mapping[int, tuple[str, str]]:
    """Return the `Block.unreadable` of some rows of a block."""
    return {
        place - first: reason
        for place, reason in unreadable.items()
        if first <= place < first + count
    }


def _texts_behind(text_of: Callable[[int], bytes], first: int) -> Callable[[int], bytes]:
    return lambda place: text_of(first + place)


def _behind(line_of: Callable[[int], int], first: int) -> Callable[[int], int]:
    return lambda place: line_of(first + place)


class BadRow(NamedTuple):
    """A row that cannot be read at all, at its position among the blocks.

    Attributes:
        error: the error of the row.
        has_advice: whether the error says what to do.
    """

    error: TableError
    has_advice: bool = False


def usable_parts(
    count: int, read: Callable[[int, int], Read], faults: tuple[type[BaseException], ...]
) -> Iterator[tuple[int, int, Read | BaseException]]:
    """Read rows in parts, halving those that fail until the bad rows are isolated.

    Args:
        count: the number of rows.
        read: reads a range of rows, from one index to another.
        faults: the errors that `read` raises if a row cannot be read.

    Yields:
        First place, last place and what was read; of a row that cannot be read, the error. The
        number of attempts is about that of these rows times the logarithm of `count`.
    """
    parts = [(0, count)]
    while parts:
        first, last = parts.pop()
        if first == last:
            continue
        try:
            yield first, last, read(first, last)
        except faults as error:
            if last - first == 1:
                yield first, last, error
            else:
                middle = (first + last) // 2
                parts += [(middle, last), (first, middle)]
