"""Answers of policies with variables that wait until other policies have come as far."""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.relational.native import AnswerBlock
from mtlmon.relational.output.native import AnswerQueue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.relational.plan import Plan

__all__ = ["WaitingAnswers"]

_ALL = (1 << 64) - 1


class WaitingAnswers:
    """Keeps answers, each with how many time-points had been read when it was found.

    If all rows of one time-stamp are one time-point, that is complete with the first row of a later
    one, so this counts the rows of time-stamps.

    Args:
        made: the plan of the policies.
        by_stamp: whether it is so.

    Attributes:
        queue: takes the answers of a run of these policies.
    """

    def __init__(self, made: Plan, *, by_stamp: bool = False) -> None:
        widths = array("I", [len(one.variables) for one in made.named_policies])
        self.queue = AnswerQueue(widths)
        self._ready = AnswerBlock(widths)
        self._by_stamp = by_stamp
        self._row_count = 0
        # the time-stamp of which there are rows, and which is not complete
        self._last: int | None = None
        # how many time-stamps are complete, and for those behind them the rows that it takes
        self._complete = 0
        self._ends: deque[int] = deque()

    def restore(self, row_count: int, complete: int, last: int | None) -> None:
        """Continue behind some rows of a log, all of whose answers have been taken.

        Args:
            row_count: the number of rows.
            complete: the number of time-points that are complete.
            last: the time-stamp behind these, of which there are rows; None if there are none.
        """
        self._row_count, self._complete, self._last = row_count, complete, last

    def add(self, stamps: NDArray[np.int64]) -> None:
        """Note the next rows."""
        if not self._by_stamp or not len(stamps):
            return
        before = stamps[0] if self._last is None else self._last
        firsts = np.flatnonzero(np.diff(stamps, prepend=before))
        self._ends.extend((firsts + (self._row_count + 1)).tolist())
        self._last = int(stamps[-1])
        self._row_count += len(stamps)

    def complete(self) -> None:
        """Note that no more rows of the last time-stamp come."""
        if self._last is not None:
            self._ends.append(self._row_count)
            self._last = None

    def cuts(self) -> list[int]:
        """Return after how many events of the log there are answers."""
        return [self._end_of(count) for count in self.queue.known()]

    def events_before(self, point_count: int) -> int:
        """Return how many events the log has before the one that completes so many time-points."""
        return max(0, self._end_of(point_count) - 1) if self._by_stamp else point_count - 1

    def found(self, position: int | None = None) -> AnswerBlock:
        """Return what the first events of the log have answered, or all; the caller takes it."""
        if position is not None and self._by_stamp:
            while self._ends and self._ends[0] <= position:
                self._ends.popleft()
                self._complete += 1
            position = self._complete
        self.queue.take(self._ready, _ALL if position is None else position)
        return self._ready

    def _end_of(self, count: int) -> int:
        """Return after how many events the first `count` time-points are complete."""
        if not self._by_stamp:
            return count
        return self._ends[count - self._complete - 1] if count > self._complete else 0
