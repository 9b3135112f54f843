"""The rows of a log that come late, in the order of time, once nothing about them can change.

What counts rows in the order of time can take these, as if the log had been in order: they are
those that came in time and were not taken back, and traces are numbered by their first row.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mtlmon.history.following import IS_REMOVED, LeadingHistory
from mtlmon.history.operations import NO_CORRECTIONS
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.sources import EventBatch
    from mtlmon.history.following import Found

__all__ = ["FinalBatch", "FinalRows"]

# What has come is put in order when it is so large a part of what is held.
_SHARE = 16


class FinalBatch(NamedTuple):
    """Consecutive rows in the order of time.

    Attributes:
        time_stamps: their time-stamps.
        numbers: for some partitions, the number of each row's trace.
    """

    time_stamps: NDArray[np.int64]
    numbers: dict[int, NDArray[np.uint32]]

    @property
    def instances(self) -> Sequence[Mapping[str, int]]:
        """Nothing, as streams are computed in another order."""
        return ()

    def numbers_of(self, partition: int) -> NDArray[np.uint32] | None:
        """Return the number of each row's trace in a partition; None if it has one trace."""
        return self.numbers.get(partition)


class _Numbered:
    """The keys of a partition by the numbers that its traces have in the order of time."""

    def __init__(self, keys: KeyTable) -> None:
        self.keys = keys
        self.numbers: dict[int, int] = {}
        self.traces: list[int] = []

    def key(self, number: int) -> tuple[str, ...]:
        return self.keys.key(self.traces[number])

    def of(self, traces: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return numbers of rows in the order of time, by those that their traces have."""
        distinct, first, which = np.unique(traces, return_index=True, return_inverse=True)
        for place in np.argsort(first).tolist():
            self.add(int(distinct[place]))
        return np.array([self.numbers[trace] for trace in distinct.tolist()], np.uint32)[which]

    def add(self, trace: int) -> None:
        if trace not in self.numbers:
            self.numbers[trace] = len(self.traces)
            self.traces.append(trace)


class FinalRows:
    """Takes the rows of a log as they come, and returns those that are final, in order.

    Args:
        key_tables: for each partition of the log the keys of its traces, None if it has one.
        partitions: the numbers of the partitions whose traces are told.
        lateness: returns how late rows may be; called once the first have been read.
        equality: whether rows without ids can be taken back.
        inputs: returns the columns that streams read of a batch, if rows can be taken back.

    Attributes:
        key_tables: for each partition that is told, its keys by the numbers that batches have;
            None for others.
    """

    def __init__(
        self,
        key_tables: Sequence[KeyTable | None],
        partitions: Sequence[int],
        lateness: Callable[[], int],
        *,
        equality: bool,
        inputs: Callable[[Any], pa.RecordBatch | None],
    ) -> None:
        self._inputs = inputs
        self._numbered = {
            partition: _Numbered(table)
            for partition in partitions
            if (table := key_tables[partition]) is not None
        }
        self._partitions = range(len(key_tables))
        self._given_lateness = lateness
        self._equality = equality
        self._lateness: int | None = None
        self._leader: LeadingHistory | None = None
        # rows that can still go, or have others before them: time-stamp, offset, and the number of
        # the trace in each partition; those that have come last, and the names of those that go
        self._held = self._no_rows
        self._come: list[NDArray[np.int64]] = []
        self._removed: set[tuple[int, int]] = set()

    @property
    def key_tables(self) -> list[_Numbered | None]:
        return [self._numbered.get(partition) for partition in self._partitions]

    @property
    def _no_rows(self) -> NDArray[np.int64]:
        return np.empty((0, 2 + len(self._numbered)), np.int64)

    def _begin(self, lateness: int) -> LeadingHistory:
        self._lateness = lateness
        self._leader = LeadingHistory(lateness=lateness, equality=self._equality)
        return self._leader

    # ---- rows ------------------------------------------------------------------------------

    def push(self, batch: EventBatch) -> FinalBatch:
        """Take the next rows of the log; return those that are final, and were not before."""
        stamps = np.asarray(batch.time_stamps, np.int64)
        if not len(stamps):
            return self._batch(self._no_rows)
        leader = self._leader or self._begin(self._given_lateness())
        first = int(leader.numbers_of_next(1)[0])
        corrections = batch.corrections or NO_CORRECTIONS
        texts = self._texts_of(batch) if corrections.takes_back else None
        _, found = leader.admit(stamps, texts, None, corrections)
        columns = [
            np.zeros(len(stamps)) if numbers is None else numbers
            for numbers in map(batch.numbers_of, self._numbered)
        ]
        self._take(found, first, columns)
        # PERF: a row at a time, putting all in order again for each would be slow
        changed = sum(map(len, self._come)) + len(self._removed)
        if changed * _SHARE < len(self._held):
            return self._batch(self._no_rows)
        return self._final(leader)

    def _texts_of(self, batch: EventBatch) -> Iterator[str]:
        """For each row a text of all that is read of it, by which equal rows are found."""
        # PERF: importing Arrow takes longer than small logs
        from mtlmon.arrays.canonical import canonical_cells

        columns: list[Sequence[object]] = []
        inputs = self._inputs(batch)
        arrays = [] if inputs is None else list(inputs.columns)
        for partition in self._partitions:
            arrays += batch.shown_of(partition).values()
            columns.append(batch.letters_of(partition).tolist())
            if (numbers := batch.numbers_of(partition)) is not None:
                columns.append(numbers.tolist())
        columns += map(canonical_cells, arrays)
        return map(repr, zip(*columns, strict=True))

    def _take(self, found: Found, first: int, columns: Sequence[NDArray[np.generic]]) -> None:
        """Take in what has become of rows, of which those that come begin with a number."""
        for (placed, withdrawn), _ in found:
            self._removed.update(
                zip(withdrawn["time_stamp"].tolist(), withdrawn["offset"].tolist(), strict=True)
            )
            stays = placed[placed["flags"] & IS_REMOVED == 0]
            places = (stays["number"] - np.uint64(first)).astype(np.intp)
            fields = [stays["time_stamp"], stays["offset"], *(one[places] for one in columns)]
            self._come.append(np.stack([one.astype(np.int64) for one in fields], axis=1))

    def pass_time(self, time_stamp: int) -> FinalBatch:
        """Let time pass without a row; return the rows that are final then."""
        if self._leader is None:
            return self._batch(self._no_rows)
        self._leader.let_time_pass(time_stamp)
        return self._final(self._leader)

    def count_events(self, start: int, end: int, count: int) -> FinalBatch:
        """Let it be known that so many rows lie in an interval; return what is final then."""
        if self._leader is None:
            return self._batch(self._no_rows)
        self._leader.count_events(start, end, count)
        return self._final(self._leader)

    def end(self) -> FinalBatch:
        """Return all rows that are left: no more come."""
        self._put_in_order()
        rows, self._held = self._held, self._no_rows
        return self._batch(rows)

    def _final(self, leader: LeadingHistory) -> FinalBatch:
        bound = leader.admits_from() or 0
        self._put_in_order()
        count = int(np.searchsorted(self._held[:, 0], bound))
        rows, self._held = self._held[:count], self._held[count:]
        return self._batch(rows)

    def _put_in_order(self) -> None:
        if not (self._come or self._removed):
            return
        rows = np.concatenate([self._held, *self._come])
        if self._removed:
            names = zip(rows[:, 0].tolist(), rows[:, 1].tolist(), strict=True)
            rows = rows[[name not in self._removed for name in names]]
        self._held = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        self._come, self._removed = [], set()

    def _batch(self, rows: NDArray[np.int64]) -> FinalBatch:
        numbers = {
            partition: numbered.of(rows[:, 2 + place])
            for place, (partition, numbered) in enumerate(self._numbered.items())
        }
        return FinalBatch(rows[:, 0], numbers)

    @property
    def byte_count(self) -> int:
        """The number of bytes that rows take, about."""
        if self._leader is None:
            return 0
        held: int = self._leader.counter("held_bytes")
        return held + self._held.nbytes + sum(one.nbytes for one in self._come)

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state between two batches as bytes for `restore`."""
        self._put_in_order()
        traces = [one.traces for one in self._numbered.values()]
        head = json.dumps([self._lateness, traces]).encode()
        leader = b"" if self._leader is None else self._leader.snapshot()
        return joined_parts([head, self._held.tobytes(), leader])

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            SnapshotError: the bytes are damaged.
        """
        try:
            head, rows, leader = split_parts(snapshot)
            lateness, traces = json.loads(head)
            for numbered, known in zip(self._numbered.values(), traces, strict=True):
                for trace in known:
                    numbered.add(trace)
            self._held = np.frombuffer(rows, np.int64).reshape(-1, self._no_rows.shape[1])
            if lateness is not None:
                self._begin(lateness).restore(leader)
        except (ValueError, TypeError, KeyError):
            raise damaged() from None
