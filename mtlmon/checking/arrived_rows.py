"""The rows of a log as they come: which of them count, and which are taken back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.arrays.canonical import canonical_cells
from mtlmon.checking.row_pool import RowPool, staying
from mtlmon.history.following import LeadingHistory, taken_back
from mtlmon.history.operations import NO_CORRECTIONS
from mtlmon.streams.late_snapshots import rows_as_bytes, rows_of_bytes
from mtlmon.streams.named_rows import NO_NAMES, Names, Rows
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.checking.clocks import EndTime
    from mtlmon.history.following import Found
    from mtlmon.history.operations import Corrections

__all__ = ["Arrived", "ArrivedRows", "unnamed_rows"]


class Arrived(NamedTuple):
    """What has become of rows.

    Attributes:
        rows: those that count from now on, in the order of time; None if none has ever come.
        removed: the names of earlier ones that were taken back.
        bound: below this time, no row comes or goes any more.
        now: the largest time so far of rows that do not wait.
    """

    rows: Rows | None
    removed: Names
    bound: int
    now: int


class ArrivedRows:
    """Admits the rows of a log of one trace.

    Args:
        lateness: how late rows may be.
        wait: how long they wait for others before they count.
        equality: whether rows without ids can be taken back.
    """

    def __init__(self, *, lateness: int, wait: int, equality: bool) -> None:
        self._leader = LeadingHistory(lateness=lateness, wait=wait, equality=equality)
        self._wait = wait
        self._pool = RowPool()

    @property
    def position(self) -> int:
        """How many rows have come, also of those that are refused."""
        return int(self._leader.numbers_of_next(1)[0])

    @property
    def latest(self) -> int | None:
        """The largest time-stamp so far, also of rows that wait."""
        return self._leader.now()

    @property
    def unmatched(self) -> int:
        """How many retractions have found no row."""
        return self._leader.counter("unmatched")

    def push(
        self,
        time_stamps: NDArray[np.int64],
        inputs: pa.RecordBatch,
        corrections: Corrections | None,
    ) -> tuple[NDArray[np.int64], Arrived]:
        """Take the next rows of the log.

        Args:
            time_stamps: their time-stamps.
            inputs: their columns, by which equal rows are found.
            corrections: what the rows do; None if all insert events.

        Returns:
            The indices of those that come too late, and what has become of rows.
        """
        corrections = corrections or NO_CORRECTIONS
        texts = _texts_of(inputs) if corrections.takes_back else None
        numbers = self._leader.numbers_of_next(len(time_stamps))
        self._pool.add(numbers, unnamed_rows(time_stamps, inputs))
        refused, found = self._leader.admit(time_stamps, texts, None, corrections)
        return refused, self._arrived(found)

    def take_rejected(self) -> list[tuple[int, str]]:
        """Return the rows since the last call that contradict counts: their numbers, and why."""
        return self._leader.take_rejected()

    @property
    def incomplete(self) -> int:
        """In how many intervals fewer rows have come than were counted."""
        return self._leader.counter("incomplete")

    @property
    def closed_below(self) -> int:
        """The time below which all rows are known by their counts; 0 if there is none."""
        return self._leader.closed_below

    def count_rows(self, start: int, end: int, count: int) -> tuple[bool, Arrived]:
        """Let it be known that so many rows lie in an interval; return whether not too late."""
        is_taken, found = self._leader.let_count(start, end, count)
        return is_taken, self._arrived(found)

    def pass_time(self, time_stamp: int) -> Arrived:
        """Let time pass without a row."""
        return self._arrived(self._leader.passed_by(time_stamp))

    def end(self, end_time: EndTime) -> Arrived:
        """End the log: no row waits any more."""
        return self._arrived(self._leader.ended(end_time))

    def _arrived(self, found: Found) -> Arrived:
        bound = self._leader.admits_from() or 0
        now = max((self._leader.now() or 0) - self._wait, bound)
        if not self._pool.count and not any(len(one.withdrawn) for one, _ in found):
            return Arrived(None, NO_NAMES, bound, now)
        placed = np.concatenate([one.placed for one, _ in found])
        withdrawn = np.concatenate([one.withdrawn for one, _ in found])
        rows, flags, _, _ = self._pool.take(placed)
        if self._leader.waiting:
            self._pool.keep(self._leader.waiting_numbers())
        else:
            self._pool.clear()
        if len(withdrawn):
            withdrawn = taken_back(rows.by_name, withdrawn, flags)
        names = Names(withdrawn["time_stamp"], withdrawn["trace"], withdrawn["offset"])
        return Arrived(staying(rows, flags)[0], names, bound, now)

    @property
    def byte_count(self) -> int:
        """The number of bytes that it takes, about."""
        held: int = self._leader.counter("held_bytes")
        return held + self._pool.byte_count

    def snapshot(self) -> bytes:
        """Return the state as bytes, for `restore`."""
        parts = [self._leader.snapshot()]
        if self._pool.count:
            numbers, rows = self._pool.parts()
            parts += [json.dumps(numbers.tolist()).encode(), rows_as_bytes(rows)]
        return joined_parts(parts)

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            SnapshotError, ValueError: the bytes are damaged.
        """
        leader, *waiting = split_parts(snapshot)
        self._leader.restore(leader)
        if waiting:
            numbers, rows = waiting
            self._pool.add(np.array(json.loads(numbers), np.uint64), rows_of_bytes(rows, 0))


def unnamed_rows(time_stamps: NDArray[np.int64], inputs: pa.RecordBatch) -> Rows:
    """Return rows of one trace, without atoms, and with 0 for their offsets."""
    count = len(time_stamps)
    traces, offsets = np.zeros(count, np.uint32), np.zeros(count, np.uint64)
    return Rows(inputs, time_stamps, traces, offsets, np.zeros((count, 0), np.bool_))


def _texts_of(inputs: pa.RecordBatch) -> Iterator[str]:
    """For each row, a text of what is in it: a NaN equals no other one, but its text does."""
    columns = list(map(canonical_cells, inputs.columns))
    return map(repr, zip(*columns, strict=True)) if columns else iter(["()"] * inputs.num_rows)
