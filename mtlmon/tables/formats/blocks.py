"""The output of table readers: blocks of rows, and rows that cannot be read."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    import pyarrow as pa

    from mtlmon.tables.formats.rows import TextBlock

# How many bad rows are joined to a block with the rows around them.
_MOST_BAD = 64


class BlockPlace(NamedTuple):
    """Where a block begins in its file, so that another reader can go on there.

    Attributes:
        size: the number of bytes before it.
        line: the number of its first line, from 1.
        row: the number of its first row, from 1.
        state: what the reader of the format knows by the rows before, as JSON writes it.
    """

    size: int
    line: int
    row: int
    state: object


class GoneOn(NamedTuple):
    """Comes between the first rows of a file, which tell how its columns are read, and the rows
    from the place on where the reader goes on.
    """


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
        unreadable: the rows that cannot be read, by their indices in the batch, where cells are
            null.
        text_of: maps the index of a row in the batch to its text in the file; None if rows are no
            text.
        header: the header of the file, if such rows have one.
        place: where the first of these rows is in the file, if a reader can go on there.
    """

    batch: pa.RecordBatch
    path: str
    first_row: int
    line_of: Callable[[int], int] | None
    absent: Mapping[str, str] = MappingProxyType({})
    is_tail: bool = False
    unreadable: Mapping[int, BadRow] = MappingProxyType({})
    text_of: Callable[[int], bytes] | None = None
    header: bytes = b""
    place: BlockPlace | None = None

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
                unreadable=_within(self.unreadable, first, rows),
                text_of=None if self.text_of is None else _texts_behind(self.text_of, first),
                place=None if first else self.place,
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


def _within(unreadable: Mapping[int, BadRow], first: int, count: int) -> Mapping[int, BadRow]:
    """Return the `Block.unreadable` of some rows of a block."""
    return {
        place - first: row for place, row in unreadable.items() if first <= place < first + count
    }


def _texts_behind(text_of: Callable[[int], bytes], first: int) -> Callable[[int], bytes]:
    return lambda place: text_of(first + place)


def _behind(line_of: Callable[[int], int], first: int) -> Callable[[int], int]:
    return lambda place: line_of(first + place)


def placed(
    reads: Iterator[Block | BadRow], place: BlockPlace
) -> Generator[Block | BadRow, None, int]:
    """Yield rows that begin at a place, which the first of them has if they are a block.

    Returns:
        The number of the row behind them.
    """
    row = place.row
    for read in reads:
        if isinstance(read, Block):
            yield read if row > place.row else read._replace(place=place)
            row += read.batch.num_rows
        else:
            yield read
            row += 1
    return row


class BadRow(NamedTuple):
    """A row that cannot be read at all, at its position among the blocks.

    Attributes:
        error: the error of the row.
        has_advice: whether the error says what to do.
    """

    error: TableError
    has_advice: bool = False


class Parsed(NamedTuple):
    """Consecutive rows that have been read.

    Attributes:
        table: the rows.
        faults: the rows that cannot be read, by their indices in the table, where they are null;
            with their errors.
    """

    table: pa.Table
    faults: Mapping[int, BaseException] = MappingProxyType({})


def usable_parts(
    count: int,
    read: Callable[[int, int], Parsed],
    faults: tuple[type[BaseException], ...],
    suspects: Iterable[int] = (),
) -> Iterator[tuple[int, Parsed | BaseException]]:
    """Read rows in parts, dividing those that fail until the bad rows are isolated.

    PERF: with nulls for bad rows, 40,000 rows of JSON of which 1,052 are bad take 1.1 s of
    processor time instead of 4.2, as what reads the parts has work for each of them.

    Args:
        count: the number of rows.
        read: reads a range of rows, from one index to another.
        faults: the errors that `read` raises if a row cannot be read.
        suspects: the places of rows that are probably bad, in order. They are read one by one; if
            there are others, the number of attempts is about theirs times the logarithm of `count`.

    Yields:
        The first place, and what was read, with bad rows as nulls; only the error of a row if all
        those around it are bad, too.
    """
    group: list[tuple[int, Parsed | BaseException]] = []
    bad = 0
    for first, found in _isolated(count, read, faults, suspects):
        if isinstance(found, Parsed):
            before = next((one.table for _, one in group if isinstance(one, Parsed)), None)
            if before is not None and before.schema != found.table.schema:
                yield from _joined(group)
                group, bad = [], 0
        else:
            bad += 1
        group.append((first, found))
        # so that the first error is not found much later than the rows before it
        if bad == _MOST_BAD:
            yield from _joined(group)
            group, bad = [], 0
    yield from _joined(group)


def read_blocks(
    parts: Iterable[tuple[int, Parsed | BaseException]],
    text: TextBlock,
    path: str,
    row: int,
    bad_row: Callable[[int, BaseException], BadRow],
    *,
    absent: Mapping[str, str] = MappingProxyType({}),
    header: bytes = b"",
) -> Iterator[Block | BadRow]:
    """Yield the rows of a text that have been read in parts, and those that cannot be read.

    Args:
        parts: the parts, as `usable_parts` yields them.
        text: the text.
        path: the name of the file in messages.
        row: the number of the first row in the file, from 1.
        bad_row: tells of the error of a row, which is given by its place in the text.
        absent: the blocks' columns that no row has had so far, with their messages.
        header: the header of the file, if such rows have one.
        place: where the first of these rows is in the file, if a reader can go on there.
    """
    for first, parsed in parts:
        if isinstance(parsed, BaseException):
            yield bad_row(first, parsed)
            continue
        faults = {place: bad_row(first + place, error) for place, error in parsed.faults.items()}
        done = 0
        for batch in parsed.table.to_batches():
            yield Block(
                batch,
                path,
                row + first + done,
                text.lines_from(first + done),
                absent,
                text.is_tail,
                _within(faults, done, batch.num_rows),
                text.texts_from(first + done),
                header,
            )
            done += batch.num_rows


def _isolated(
    count: int,
    read: Callable[[int, int], Parsed],
    faults: tuple[type[BaseException], ...],
    suspects: Iterable[int],
) -> Iterator[tuple[int, Parsed | BaseException]]:
    """Read rows in parts; yield the first place of each part and what was read."""
    bounds = sorted({0, count, *(bound for one in suspects for bound in (one, one + 1))})
    parts = [*pairwise(bounds)][::-1]
    while parts:
        first, last = parts.pop()
        try:
            yield first, read(first, last)
        except faults as error:
            if last - first == 1:
                yield first, error
            else:
                middle = (first + last) // 2
                parts += [(middle, last), (first, middle)]


def _joined(
    group: list[tuple[int, Parsed | BaseException]],
) -> Iterator[tuple[int, Parsed | BaseException]]:
    """Join consecutive parts to one, if there is a part that was read."""
    import pyarrow as pa

    schema = next((one.table.schema for _, one in group if isinstance(one, Parsed)), None)
    if schema is None or len(group) == 1:
        yield from group
        return
    nothing = pa.table([pa.nulls(1, field.type) for field in schema], schema)
    tables: list[pa.Table] = []
    faults: dict[int, BaseException] = {}
    done = 0
    for _, found in group:
        if isinstance(found, Parsed):
            faults.update((done + place, error) for place, error in found.faults.items())
        else:
            faults[done] = found
        tables.append(found.table if isinstance(found, Parsed) else nothing)
        done += tables[-1].num_rows
    yield group[0][0], Parsed(pa.concat_tables(tables).combine_chunks(), faults)
