"""Which events are below the largest time-stamp of their trace so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LateEvents"]


class LateEvents:
    """Remembers the largest time-stamp of each trace."""

    def __init__(self) -> None:
        self.latest = np.zeros(0, np.int64)

    def take(
        self, time_stamps: NDArray[np.int64], numbers: NDArray[np.uint32] | None
    ) -> NDArray[np.bool_]:
        """Take the next events; return which of them are late.

        Args:
            time_stamps: their time-stamps, as they come; at least one.
            numbers: the numbers of their traces; None if all are of trace 0.
        """
        if numbers is None:
            # PERF: a log of one trace is half as fast with what is below
            self._make_room(1)
            before = np.maximum.accumulate(np.concatenate([self.latest[:1], time_stamps]))
            self.latest[0] = before[-1]
            return time_stamps < before[:-1]
        traces, trace_of = np.unique(numbers, return_inverse=True)
        self._make_room(int(traces[-1]) + 1)
        # what is known of the traces comes first
        stamps = np.concatenate([self.latest[traces], time_stamps])
        owners = np.concatenate([np.arange(len(traces)), trace_of])
        order = np.argsort(owners, kind="stable")
        # ranks are small, so that those of different traces can be told apart by a multiple
        distinct, ranks = np.unique(stamps, return_inverse=True)
        ranked = (owners * len(stamps) + ranks)[order]
        largest = np.maximum.accumulate(ranked)
        is_late = np.empty(len(stamps), np.bool_)
        is_late[order] = ranked < largest
        ends = np.cumsum(np.bincount(owners)) - 1
        self.latest[traces] = distinct[largest[ends] % len(stamps)]
        return is_late[len(traces) :]

    def pass_time(self, time_stamp: int) -> None:
        """Let time pass in the trace with number 0."""
        self._make_room(1)
        self.latest[0] = max(self.latest[0], time_stamp)

    def _make_room(self, count: int) -> None:
        if count > len(self.latest):
            more = max(count, 2 * len(self.latest)) - len(self.latest)
            self.latest = np.concatenate([self.latest, np.zeros(more, np.int64)])
