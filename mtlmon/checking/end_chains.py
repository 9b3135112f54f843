"""Ends of records that retractions move: each begins where an earlier one has come to.

This follows the physical streams of R. Barga et al., "Consistent Streaming Through Time: A Vision
for Event Stream Processing" (CIDR 2007): a retraction has the end that its record has, and a new
one before it. So the retractions of a record are a chain, in whatever order they come. One whose
beginning is not there yet waits for it; if that does not come in time, it moves nothing.
"""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.history.operations import INSERT, RETRACT, Corrections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["EndChains"]

# a chain with its dictionary, about
_CHAIN_BYTES = 500


class _Chain:
    """The end of a record, and how it is to be moved.

    Attributes:
        time_stamp: that of the record.
        is_there: whether the record has come.
        end: its end, as far as it has been moved; None for no end.
        links: for ends that it does not have now, those that they are to be moved to.
    """

    __slots__ = ("end", "is_there", "links", "time_stamp")

    def __init__(self, time_stamp: int) -> None:
        self.time_stamp = time_stamp
        self.is_there = False
        self.end: int | None = None
        self.links: dict[int | None, int] = {}

    def follow(self) -> None:
        """Move the end as far as links go on from it."""
        while self.is_there and self.end in self.links:
            self.end = self.links.pop(self.end)


class EndChains:
    """Turns retractions that move ends into rows with other ends.

    Args:
        end: the column with the ends of records.
        new_end: the column with the ends that retractions give them.

    Attributes:
        broken: how many retractions have moved nothing: their new end is not before the one that
            they say the record has, they have no id, or their record has not had that end in time.
    """

    def __init__(self, end: str, new_end: str) -> None:
        self._end = end
        self._new_end = new_end
        self._chains: dict[str, _Chain] = {}
        self._by_time: list[tuple[int, str]] = []
        self.broken = 0

    def take(
        self, time_stamps: NDArray[np.int64], inputs: pa.RecordBatch, corrections: Corrections
    ) -> tuple[NDArray[np.intp], pa.RecordBatch, Corrections]:
        """Take the next rows.

        Args:
            time_stamps: their time-stamps.
            inputs: their columns, with both ends.
            corrections: what they do, and their ids.

        Returns:
            The places of the rows that are left, their columns, and what they do: a retraction that
            moves an end inserts its row with that end, in place of the one with its id.
        """
        operations, ids, counted = corrections
        count = len(time_stamps)
        codes = np.full(count, INSERT, np.uint8) if operations is None else operations.copy()
        names: Sequence[str | None] = [None] * count if ids is None else ids
        place_of_end = inputs.schema.get_field_index(self._end)
        column = inputs.column(place_of_end)
        ends = _integers(column)
        new_ends = _integers(inputs.column(inputs.schema.get_field_index(self._new_end)))
        is_left = np.ones(count, np.bool_)
        for place in np.flatnonzero((codes == INSERT) | (codes == RETRACT)).tolist():
            stamp, name = int(time_stamps[place]), names[place]
            if codes[place] == RETRACT and new_ends[place] is not None:
                is_left[place] = self._move(stamp, name, ends, new_ends[place], place)
                codes[place] = INSERT
            elif name is not None:
                chain = self._chain(name, stamp)
                chain.is_there = bool(codes[place] == INSERT)
                chain.end = ends[place]
                chain.follow()
                ends[place] = chain.end
        left = np.flatnonzero(is_left)
        columns = list(inputs.columns)
        columns[place_of_end] = _column(ends, column.type)
        found = pa.RecordBatch.from_arrays(columns, inputs.schema.names)
        return (
            left,
            found.take(pa.array(left)),
            Corrections(
                codes[left],
                None if ids is None else [ids[one] for one in left.tolist()],
                None if counted is None else counted[left],
            ),
        )

    def _move(
        self, stamp: int, name: str | None, ends: list[int | None], new_end: int | None, place: int
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

    def forget(self, bound: int) -> None:
        """Forget records that begin before a time, as no row of theirs comes any more."""
        while self._by_time and self._by_time[0][0] < bound:
            _, name = heapq.heappop(self._by_time)
            self.broken += len(self._chains.pop(name).links)

    @property
    def byte_count(self) -> int:
        """The number of bytes that it takes, about."""
        return _CHAIN_BYTES * len(self._chains)

    def snapshot(self) -> bytes:
        """Return the state as bytes, for `restore`."""
        chains = [
            [name, one.time_stamp, one.is_there, one.end, list(one.links.items())]
            for name, one in self._chains.items()
        ]
        return json.dumps([self.broken, chains]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            ValueError, TypeError: the bytes are damaged.
        """
        self.broken, chains = json.loads(snapshot)
        for name, stamp, is_there, end, links in chains:
            chain = self._chain(name, stamp)
            chain.is_there, chain.end = is_there, end
            chain.links = {old: new for old, new in links}


def _integers(column: pa.Array) -> list[int | None]:
    """Values of a column of whole numbers or times as integers."""
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    found: list[int | None] = column.to_pylist()
    return found


def _column(integers: list[int | None], kind: pa.DataType) -> pa.Array:
    """A column of such values of a type; whole numbers have 64 bits."""
    if pa.types.is_date32(kind):
        return pa.array(integers, pa.int32()).view(kind)
    found = pa.array(integers, pa.int64())
    return found.view(kind) if pa.types.is_timestamp(kind) else found
