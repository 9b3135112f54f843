"""Ends of records that retractions move: each begins where an earlier one has come to.

This follows the physical streams of R. Barga et al., "Consistent Streaming Through Time: A Vision
for Event Stream Processing" (CIDR 2007): a retraction has the end that its record has, and a new
one before it. So the retractions of a record are a chain, in whatever order they come. One whose
beginning is not there yet waits for it; if that does not come in time, it moves nothing.

Whoever takes in rows sees no chains: a retraction that moves an end becomes its record's row, with
the new end, in place of the one with its id. What this makes of rows depends on these alone, and
not on where batches end, so that rows that are read again become what they were.
"""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.plain_arrays import boolean_array
from mtlmon.errors import RowError
from mtlmon.history.operations import ADVANCE, INSERT, RETRACT
from mtlmon.policy.predicates.expression import column_of_schema
from mtlmon.policy.predicates.printer import column_text
from mtlmon.support.snapshot_parts import joined_parts, split_parts
from mtlmon.tables.columns.arrow_text import shown_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from mtlmon.tables.columns.usable import UsableRows
    from mtlmon.tables.corrections import CorrectionColumns

__all__ = ["EndChains", "MovedEnds"]

# a chain with its dictionary, about
_CHAIN_BYTES = 500


class _Chain:
    """The end of a record, and how it is to be moved.

    Attributes:
        time_stamp: that of the record, or when a retraction has come that takes it back.
        is_there: whether the record has come, and was not taken back.
        is_awaited: whether a retraction waits for the record to take it back.
        end: its end, as far as it has been moved; None for no end.
        links: for ends that it does not have now, those that they are to be moved to.
    """

    __slots__ = ("end", "is_awaited", "is_there", "links", "time_stamp")

    def __init__(self, time_stamp: int) -> None:
        self.time_stamp = time_stamp
        self.is_there = self.is_awaited = False
        self.end: int | None = None
        self.links: dict[int | None, int] = {}

    def follow(self) -> None:
        """Move the end as far as links go on from it."""
        while self.is_there and self.end in self.links:
            self.end = self.links.pop(self.end)


class EndChains:
    """Follows the ends of records.

    Args:
        lateness: how far a row may be below the largest time-stamp so far; later ones are left to
            who refuses them.

    Attributes:
        broken: how many retractions have moved nothing: their new end is not before the one that
            they say the record has, they have no id, or their record has not had that end in time.
    """

    def __init__(self, lateness: int) -> None:
        self._lateness = lateness
        self._chains: dict[str, _Chain] = {}
        self._by_time: list[tuple[int, str]] = []
        self._clock = 0
        self.broken = 0

    def take(
        self,
        time_stamps: Sequence[int],
        operations: NDArray[np.uint8],
        ids: Sequence[str | None],
        ends: list[int | None],
        new_ends: Sequence[int | None],
    ) -> NDArray[np.bool_]:
        """Take the next rows.

        Args:
            time_stamps: their time-stamps.
            operations: what they do; a retraction that moves an end becomes an insertion here.
            ids: the ids of their records.
            ends: the ends that they have; here, they get those that their records have then.
            new_ends: the new ends that retractions give; None where they take rows back.

        Returns:
            Which rows are left: all but those that move nothing.
        """
        is_left = np.ones(len(time_stamps), np.bool_)
        for place, (stamp, code) in enumerate(zip(time_stamps, operations.tolist(), strict=True)):
            name, new_end = ids[place], new_ends[place]
            if code == RETRACT and new_end is None:
                if name is not None:
                    self._take_back(name)
            elif code == RETRACT:
                operations[place] = INSERT
                if self._is_in_time(stamp):
                    is_left[place] = self._move(stamp, name, ends, new_end, place)
                if is_left[place]:
                    self._pass_time(stamp)
            elif code in (INSERT, ADVANCE):
                self._pass_time(stamp)
                if code == INSERT and name is not None and self._is_in_time(stamp):
                    ends[place] = self._insert(stamp, name, ends[place])
        return is_left

    def _pass_time(self, stamp: int) -> None:
        if stamp > self._clock:
            self._clock = stamp
            self._forget(stamp - self._lateness)

    def _is_in_time(self, stamp: int) -> bool:
        return stamp >= self._clock - self._lateness

    def _take_back(self, name: str) -> None:
        """Take a record back as a whole, which may not have come yet."""
        # a retraction waits for its row, as long as rows may be late
        chain = self._chain(name, self._clock)
        chain.is_awaited = not chain.is_there
        chain.is_there = False

    def _insert(self, stamp: int, name: str, end: int | None) -> int | None:
        """Let a record come; return the end that it has."""
        chain = self._chain(name, stamp)
        if stamp != chain.time_stamp:
            chain.time_stamp = stamp
            heapq.heappush(self._by_time, (stamp, name))
        if chain.is_awaited:
            chain.is_awaited = False
            return end
        chain.is_there, chain.end = True, end
        chain.follow()
        return chain.end

    def _move(
        self,
        stamp: int,
        name: str | None,
        ends: list[int | None],
        new_end: int | None,
        place: int,
    ) -> bool:
        """Move the end of a record, if it can be; `ends` gets the end that it has then."""
        old = ends[place]
        assert new_end is not None
        if name is None or (old is not None and new_end >= old):
            self.broken += 1
            return False
        chain = self._chain(name, stamp)
        if old in chain.links:
            self.broken += 1
            return False
        chain.links[old] = new_end
        before = chain.end
        chain.follow()
        ends[place] = chain.end
        return chain.is_there and chain.end != before

    def _chain(self, name: str, stamp: int) -> _Chain:
        if name not in self._chains:
            self._chains[name] = _Chain(stamp)
            heapq.heappush(self._by_time, (stamp, name))
        return self._chains[name]

    def _forget(self, bound: int) -> None:
        """Forget records that begin before a time, as no row of theirs comes any more."""
        while self._by_time and self._by_time[0][0] < bound:
            stamp, name = heapq.heappop(self._by_time)
            chain = self._chains.get(name)
            # a row may have replaced it by one of another time
            if chain is not None and chain.time_stamp == stamp:
                self.broken += len(self._chains.pop(name).links)

    def end(self) -> None:
        """End the log: what waits has moved nothing."""
        self.broken += sum(len(one.links) for one in self._chains.values())
        self._chains.clear()
        self._by_time.clear()

    @property
    def byte_count(self) -> int:
        """The number of bytes that it takes, about."""
        return _CHAIN_BYTES * len(self._chains)

    def snapshot(self) -> bytes:
        """Return the state as bytes, for `restore`."""
        chains = [
            [name, one.time_stamp, one.is_there, one.is_awaited, one.end, list(one.links.items())]
            for name, one in self._chains.items()
        ]
        return json.dumps([self.broken, self._clock, chains]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            ValueError, TypeError: the bytes are damaged.
        """
        self.broken, self._clock, chains = json.loads(snapshot)
        for name, stamp, is_there, is_awaited, end, links in chains:
            chain = self._chain(name, stamp)
            chain.is_there, chain.is_awaited, chain.end = is_there, is_awaited, end
            chain.links = {old: new for old, new in links}


class MovedEnds:
    """Moves the ends of the rows of tables.

    Args:
        end: the column with the ends of records.
        new_end: the column with the ends that retractions give them.
        columns: reads what rows do, and their ids.
        lateness: returns how late rows may be, once rows have been read.
    """

    def __init__(
        self, end: str, new_end: str, columns: CorrectionColumns, lateness: Callable[[], int]
    ) -> None:
        self._end = end
        self._new_end = new_end
        self._columns = columns
        self._lateness = lateness
        self._chains: EndChains | None = None
        # the type of ends, once a row has had one
        self._kind = pa.null()

    @property
    def chains(self) -> EndChains:
        """The chains of ends, once rows have been read."""
        if self._chains is None:
            self._chains = EndChains(self._lateness())
        return self._chains

    @property
    def broken(self) -> int:
        """How many retractions have moved nothing."""
        return 0 if self._chains is None else self._chains.broken

    def move(self, rows: UsableRows) -> bool:
        """Give rows the ends that their records have, and leave out those that move nothing.

        Returns:
            Whether rows have other ends than before, so that their letters are to be read again.

        Raises:
            TableError: ends are no whole numbers and no times.
            RowError: some of them are not.
        """
        operations, ids, _ = self._columns.read(rows)
        count = len(rows.time_stamps)
        assert operations is not None
        assert ids is not None
        schema = rows.batch.schema
        own, new = (column_of_schema(schema, one) for one in (self._end, self._new_end))
        ends, new_ends = self._integers(rows, own, new)
        before, codes = list(ends), operations.copy()
        is_left = self.chains.take(rows.time_stamps.tolist(), codes, ids, ends, new_ends)
        is_moved = np.fromiter(
            (one != other for one, other in zip(ends, before, strict=True)), np.bool_, count
        )
        batch = rows.batch
        if is_moved.any():
            moved, mask = _column(ends, self._kind), boolean_array(is_moved)
            for place, name in enumerate(schema.names):
                # expressions may read it as several types
                if name == own or name.partition("\0")[0] == str(self._end):
                    cells = batch.column(place)
                    kind = self._kind if pa.types.is_null(cells.type) else cells.type
                    cells = pc.if_else(mask, moved.cast(kind), cells.cast(kind))
                    batch = batch.set_column(place, name, cells)
        place = schema.get_field_index(str(self._columns.operation))
        words = pc.if_else(
            boolean_array(codes != operations), "insert", batch.column(place).cast(pa.string())
        )
        rows.batch = batch.set_column(place, schema.names[place], words)
        if not is_left.all():
            rows.keep(is_left)
        return bool(is_moved.any())

    def _integers(
        self, rows: UsableRows, own: str, new: str
    ) -> tuple[list[int | None], list[int | None]]:
        """Return the ends and new ends of rows as integers, all of one type."""
        columns = {self._end: rows.batch.column(own), self._new_end: rows.batch.column(new)}
        for name, cells in columns.items():
            kind = pa.int64() if pa.types.is_floating(cells.type) else cells.type
            if pa.types.is_null(self._kind):
                self._kind = kind
            if not (pa.types.is_null(kind) or pa.types.is_integer(kind) or _is_time(kind)):
                message = (
                    f"ends are whole numbers or times, and not of type {kind}: declare the column, "
                    f"as in column {column_text(str(name))}: time"
                )
                raise rows.block.error(rows.place(0), message, str(name))
        ends, new_ends = (
            _integers(_cast(cells, name, self._kind)) for name, cells in columns.items()
        )
        return ends, new_ends

    def end(self) -> None:
        """End the log: what waits has moved nothing."""
        if self._chains is not None:
            self._chains.end()

    @property
    def byte_count(self) -> int:
        """The number of bytes that it takes, about."""
        return 0 if self._chains is None else self._chains.byte_count

    def snapshot(self) -> bytes:
        """Return the state as bytes, for `restore`."""
        kind = pa.schema([("", self._kind)]).serialize().to_pybytes()
        return joined_parts([kind, b"" if self._chains is None else self._chains.snapshot()])

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; the times of rows must be known.

        Raises:
            SnapshotError, ValueError, TypeError, ArrowException: the bytes are damaged.
        """
        kind, chains = split_parts(snapshot)
        self._kind = pa.ipc.read_schema(pa.py_buffer(kind)).field(0).type
        if chains:
            self.chains.restore(chains)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _cast(cells: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    """Cells of a type.

    Raises:
        RowError: some of them are none.
    """
    try:
        return cells.cast(kind)
    except pa.ArrowException:
        pass
    wrong = []
    for place in range(len(cells)):
        try:
            cells.slice(place, 1).cast(kind)
        except pa.ArrowException:
            wrong.append(place)
    shown = shown_value(cells, wrong[0])
    what = "time as other ends are" if _is_time(kind) else "whole number"
    raise RowError(f"column {name!r}: {shown} is no {what}", rows=tuple(wrong))


def _integers(column: pa.Array) -> list[int | None]:
    """Values of a column of whole numbers or times as integers."""
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    found: list[int | None] = column.to_pylist()
    return found


def _column(integers: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column of such values of a type."""
    if pa.types.is_date32(kind):
        return pa.array(integers, pa.int32()).view(kind)
    found = pa.array(integers, pa.int64())
    return found.view(kind) if pa.types.is_timestamp(kind) else found.cast(kind)
