"""The last row of a trace before a tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.checking.row_files import RowPlace
    from mtlmon.checking.sources import EventBatch

__all__ = ["LastRow", "LastRows"]


class LastRow(NamedTuple):
    """A row.

    Attributes:
        time_stamp: its time-stamp.
        place: where it is, or None if the log does not tell.
    """

    time_stamp: int
    place: RowPlace | None


class LastRows:
    """Finds the last rows of some traces, batch by batch.

    Args:
        traces: the numbers of the traces.
    """

    def __init__(self, traces: Sequence[int]) -> None:
        self._traces = traces
        # by trace, the last row of the batches before this one
        self._before: dict[int, LastRow] = {}
        self._batch: EventBatch | None = None
        # one number for each row of the batch: its trace, and then its place
        self._places = np.zeros(0, np.int64)
        self._size = 1

    def add(self, batch: EventBatch, partition: int, count: int) -> None:
        """Go on to the first `count` rows of the next batch."""
        for number in self._traces:
            row = self.before(number, self._size - 1)
            if row is not None:
                self._before[number] = row
        own = batch.numbers_of(partition)
        traces = np.zeros(count, np.int64) if own is None else np.asarray(own[:count], np.int64)
        self._batch = batch
        self._size = count + 1
        self._places = np.sort(traces * self._size + np.arange(count))

    def before(self, trace: int, place: int) -> LastRow | None:
        """Return the last row of a trace below a place of the batch; None if there is none."""
        found = int(np.searchsorted(self._places, trace * self._size + place)) - 1
        if found < 0 or self._places[found] // self._size != trace:
            return self._before.get(trace)
        assert self._batch is not None
        index = int(self._places[found] % self._size)
        origins = self._batch.origins
        return LastRow(
            int(self._batch.time_stamps[index]), None if origins is None else origins.place(index)
        )
