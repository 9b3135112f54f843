"""The offsets of rows within their time-stamps, trace by trace, over all batches of a log.

A policy on rows where a condition holds gets these rows only, but its verdicts have their offsets
among all rows. `Streams.run` sets the offset in the state before each event; the engine stores
names of time-points as they are, so gaps make no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.support.snapshot_parts import damaged

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST = np.iinfo(np.int64).min

__all__ = ["RowOffsets", "SuccessiveOffsets"]


class RowOffsets:
    """Numbers the rows of each trace that have one time-stamp: 0, 1, ...

    Only the rows of the last time-stamp so far are remembered.
    """

    def __init__(self) -> None:
        self._clock = -1
        # for each trace with rows at that time-stamp, how many
        self._counts: dict[int, int] = {}

    def offsets(
        self, time_stamps: NDArray[np.int64], numbers: NDArray[np.uint32]
    ) -> NDArray[np.uint32]:
        """Return the offsets of the next rows, which are not remembered."""
        count = len(time_stamps)
        found = np.zeros(count, np.int64)
        if not count:
            return found.astype(np.uint32)
        if (time_stamps[1:] == time_stamps[:-1]).any():
            order = np.lexsort((numbers, time_stamps))
            times, traces = time_stamps[order], numbers[order]
            is_first = np.ones(count, np.bool_)
            is_first[1:] = (times[1:] != times[:-1]) | (traces[1:] != traces[:-1])
            places = np.arange(count)
            found[order] = places - np.maximum.accumulate(np.where(is_first, places, 0))
        for row in range(int(np.searchsorted(time_stamps, self._clock, "right"))):
            found[row] += self._counts.get(int(numbers[row]), 0)
        return found.astype(np.uint32)

    def add(
        self,
        time_stamps: NDArray[np.int64],
        numbers: NDArray[np.uint32],
        offsets: NDArray[np.uint32],
    ) -> None:
        """Remember rows, whose offsets are known."""
        if not len(time_stamps):
            return
        last = int(time_stamps[-1])
        if last != self._clock:
            self._clock, self._counts = last, {}
        first = int(np.searchsorted(time_stamps, last))
        own = numbers[first:].tolist()
        for number, offset in zip(own, offsets[first:].tolist(), strict=True):
            self._counts[number] = offset + 1

    @property
    def traces(self) -> list[int]:
        """The traces whose rows are remembered."""
        return list(self._counts)

    def keep(self, numbers: bytes) -> None:
        """Give traces new numbers, as `KeyTable.keep` does; none that is remembered goes."""
        renumbered = np.frombuffer(numbers, np.uint32)
        self._counts = {int(renumbered[one]): count for one, count in self._counts.items()}

    def snapshot(self) -> bytes:
        """Return what is remembered as bytes for `restore`."""
        pairs = [value for pair in self._counts.items() for value in pair]
        return np.array([len(self._counts), self._clock, *pairs], np.int64).tobytes()

    def restore(self, snapshot: bytes) -> int:
        """Continue from a snapshot at the beginning of some bytes; return its length.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        values = np.frombuffer(snapshot[: len(snapshot) // 8 * 8], np.int64)
        if len(values) < 2 or not 0 <= values[0] <= (len(values) - 2) // 2:
            raise damaged()
        end = 2 + 2 * int(values[0])
        self._clock = int(values[1])
        self._counts = dict(zip(values[2:end:2].tolist(), values[3:end:2].tolist(), strict=True))
        return 8 * end


class SuccessiveOffsets:
    """Numbers the rows of each time-stamp, for traces that come one after the other."""

    def __init__(self) -> None:
        # the time-stamp of the last row, and how many rows its trace has had there
        self._last = -1, 0

    def taken(
        self, time_stamps: NDArray[np.int64], starts: NDArray[np.integer]
    ) -> NDArray[np.uint32]:
        """Return the offsets of the next rows, and remember these rows.

        Args:
            time_stamps: their time-stamps, which do not decrease within a trace.
            starts: the indices of the rows with which another trace begins.
        """
        count = len(time_stamps)
        if not count:
            return np.empty(0, np.uint32)
        is_first = np.ones(count, np.bool_)
        is_first[1:] = time_stamps[1:] != time_stamps[:-1]
        is_first[0] = time_stamps[0] != self._last[0]
        is_first[starts] = True
        places = np.arange(count)
        begins = np.where(is_first, places, _LEAST)
        if not is_first[0]:
            begins[0] = -self._last[1]
        found: NDArray[np.int64] = places - np.maximum.accumulate(begins)
        self._last = int(time_stamps[-1]), int(found[-1]) + 1
        return found.astype(np.uint32)
