"""Late rows that several policies share, each of which has few that make a difference to it.

One history admits the rows and gives them their names. Policies get those that have some of their
atoms, and hear how far time has passed; for the others, the verdict is known (`fixed_verdict`), and
nobody wants it. So what a row costs depends on how many policies it concerns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.history.following import LeadingHistory, SharingHistory

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from mtlmon.checking.clocks import EndTime
    from mtlmon.checking.sources import EventBatch
    from mtlmon.history.following import Found, Passed
    from mtlmon.policy.definitions import Clock

__all__ = ["LEAST_SHARING", "SharedRows"]

LEAST_SHARING = 3
"""So many policies of a partition share its rows.

PERF: three policies took 0.87 of the time where a row concerned few of them, and 100 policies 0.24
of the time and 0.1 of the memory; two whose atoms hold at most rows took 1.05.
"""


class SharedRows:
    """The rows of a partition, which cannot be retracted and do not wait.

    Args:
        partition: the number of the partition.
        lateness: how much later than the largest time-stamp so far a row may come.
        shown: the kinds of verdicts that are wanted.

    Attributes:
        leader: admits the rows.
        passed_over: how many rows `emit` has not told last, and the kind of their verdict.
    """

    passed_over = 0, 0

    def __init__(self, partition: int, lateness: int, shown: Collection[int]) -> None:
        self._partition = partition
        self._shown = shown
        self.leader = LeadingHistory(lateness=lateness)
        # the rows that were taken last
        self._batch: EventBatch | None = None
        self._offsets = np.empty(0, np.uint64)
        self._is_admitted = np.empty(0, np.uint8)
        self._touched = np.empty(0, np.uint32)
        # how many rows are admitted
        self._count = 0
        self._passed: list[Passed] = []

    def push(self, batch: EventBatch, inputs: object = None) -> NDArray[np.int64]:
        """Take the next rows; return the indices of those that come too late."""
        count = len(batch.time_stamps)
        first = self.leader.numbers_of_next(1)[0]
        numbers = batch.numbers_of(self._partition)
        stamps = np.asarray(batch.time_stamps, np.int64)
        refused, found = self.leader.admit(stamps, None, numbers)
        self._note(found)
        self._batch = batch
        placed = np.concatenate([one.placed for one, _ in found])
        places = (placed["number"] - first).astype(np.intp)
        self._offsets, self._is_admitted = np.zeros(count, np.uint64), np.zeros(count, np.uint8)
        self._offsets[places], self._is_admitted[places] = placed["offset"], 1
        self._touched = np.unique(placed["trace"])
        self._count = len(placed)
        return refused

    def pass_time(self, time_stamp: int) -> None:
        """Let time pass without a row."""
        self._note(self.leader.passed_by(time_stamp))

    def count_events(self, start: int, end: int, count: int) -> bool:
        """Take in how many rows an interval has; return whether that is not too late."""
        is_taken, found = self.leader.let_count(start, end, count)
        self._note(found)
        return is_taken

    def finish(self, end_time: EndTime) -> None:
        """End the log."""
        self._note(self.leader.ended(end_time))

    def _note(self, found: Found) -> None:
        """Note how far time passes without a row, and that there are no more rows."""
        self._batch = None
        self._passed = [passed for _, passed in found if passed is not None]

    def emit(self, history: SharingHistory, clock: Clock | None = None) -> None:
        """Let the history of a policy hear of the rows that were taken last, and of time."""
        kind, taken, count = history.fixed_verdict, 0, 0
        if self._batch is not None:
            count = self._count
            taken = history.follow_some(
                self._batch.events_of(history.atoms, self._partition),
                self._batch.numbers_of(self._partition),
                (self._offsets, self._is_admitted, self._touched),
                self.leader,
                is_sparse=kind is not None and kind not in self._shown,
            )
        self.passed_over = count - taken, kind or 0
        history.keep_time(self.leader)
        for passed in self._passed:
            history.pass_time(*passed)

    def snapshot(self) -> bytes:
        """Return the state between two batches as bytes, for `restore`."""
        return self.leader.snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come."""
        self.leader.restore(snapshot)

    @property
    def byte_count(self) -> int:
        """The number of bytes that the rows take, about."""
        return self.leader.counter("held_bytes") + self.leader.counter("state_bytes")
