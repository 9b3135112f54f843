"""What readers of tables give: blocks of rows, and rows that cannot be read."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa


class Block(NamedTuple):
    """Rows of one file, one after the other.

    Attributes:
        batch: the columns that are wanted.
        path: what messages call the file.
        first_row: the number of the first of these rows in the file, from 1.
        line_of: from the place of a row in the batch to its line in the file, from 1; None where
            files have no lines.
        absent: columns of nulls only that no row so far has had, and what to say of them.
    """

    batch: pa.RecordBatch
    path: str
    first_row: int
    line_of: Callable[[int], int] | None
    absent: Mapping[str, str] = MappingProxyType({})

    def error(self, place: int, message: str, column: str | None = None) -> TableError:
        """What is wrong with the row at a place in the batch."""
        return TableError(
            message,
            path=self.path,
            row=self.first_row + place,
            line=None if self.line_of is None else self.line_of(place),
            column=column,
        )


class BadRow(NamedTuple):
    """A row that the reader cannot read at all, where it stands among the blocks.

    Attributes:
        error: what is wrong with it.
        has_advice: the error says what to do.
    """

    error: TableError
    has_advice: bool = False


def usable_parts(
    count: int, read: Callable[[int, int], pa.Table], faults: tuple[type[BaseException], ...]
) -> Iterator[tuple[int, int, pa.Table | BaseException]]:
    """Rows of which some cannot be read, in parts that can, found by halving.

    Args:
        count: how many rows there are.
        read: reads the rows from one place to another.
        faults: what it raises if a row among them cannot be read.

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
