"""Ticks of traces, and how they are found between rows.

A tick T is a time-point of every trace that has had a row by then. It comes behind all rows with
time-stamps up to T and before the row that moves the log's clock on; ticks of one time are in the
order of traces. All periods share one tick per trace and time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Numbers = NDArray[np.uint32]

_LATEST = 2**63 - 1
# Begin of a trace that has had no row.
_NEVER = np.iinfo(np.int64).max
# The number of a trace that is forgotten.
_FORGOTTEN = 2**32 - 1
# More ticks than a batch can have.
_MANY_TICKS = 2**30


class Ticks(NamedTuple):
    """Ticks, in order.

    Attributes:
        time_stamps: their times.
        numbers: the numbers of their traces.
        places: the index of the row of the batch that each comes before; the number of rows for
            ticks behind the last one.
    """

    time_stamps: Integers
    numbers: Numbers
    places: Integers

    def __len__(self) -> int:
        return len(self.time_stamps)

    def chosen(self, which: NDArray[np.bool_] | Integers | slice) -> Ticks:
        """Return some of the ticks."""
        return Ticks(self.time_stamps[which], self.numbers[which], self.places[which])


NO_TICKS = Ticks(np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.int64))


class Ticking:
    """Finds the ticks between rows; what it remembers is small and never changes in place.

    Attributes:
        periods: the periods, in units of time.
        done: all ticks below this time have been found.
        has_row: for each trace whether it has had a row.
    """

    __slots__ = ("done", "has_row", "periods")

    def __init__(
        self, periods: Sequence[int], done: int = 0, has_row: NDArray[np.bool_] | None = None
    ) -> None:
        self.periods = tuple(sorted(periods))
        self.done = done
        self.has_row = np.zeros(0, np.bool_) if has_row is None else has_row

    def ticks(
        self, time_stamps: Integers, numbers: Numbers | None, until: int | None
    ) -> tuple[Ticks, Ticking]:
        """Find the ticks that come before the last of some rows.

        Args:
            time_stamps: the time-stamps of the next rows.
            numbers: the numbers of their traces; None if there is only one.
            until: find all ticks below this time, which is no smaller than the time-stamps; None
                for the ticks below the last time-stamp.

        Returns:
            The ticks, and what goes on behind them.
        """
        count = len(time_stamps)
        limit = until if until is not None else int(time_stamps[-1]) if count else self.done
        if not count and not len(self.has_row):
            return NO_TICKS, self
        start = self._start(int(time_stamps[0]) if count else limit)
        times = multiples(self.periods, start, limit)
        found, has_row = all_ticks(times, self.has_row, time_stamps, numbers)
        return found, Ticking(self.periods, max(self.done, limit), has_row)

    @property
    def trace_count(self) -> int:
        """The number of traces that have had a row."""
        return len(self.has_row)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the state takes."""
        return len(self.has_row)

    def tick_counts(self, time_stamps: Integers, numbers: Numbers | None) -> Integers:
        """Return, for each of the next rows, how many ticks there are before it at most.

        Ticks of two periods at one time count twice.
        """
        start = self._start(int(time_stamps[0]))
        counts = np.zeros(len(time_stamps), np.int64)
        for period in self.periods:
            counts += np.maximum(0, -(-time_stamps // period) - -(-start // period))
        traces = 1 if numbers is None else int(numbers.max()) + 1
        return np.minimum(counts, _MANY_TICKS) * max(traces, len(self.has_row))

    def time_behind(self, count: int) -> int:
        """Return a time below which there are about so many ticks; each trace has at least one."""
        least = self.periods[0]
        count //= max(1, len(self.has_row)) * len(self.periods)
        return (-(-self.done // least) + max(1, count)) * least

    def begin(self) -> None:
        """Do nothing: the state before is kept as it is."""

    def undo(self) -> None:
        """Do nothing: the state before is kept as it is."""

    def clear_settled(self, flags: NDArray[np.uint8]) -> None:
        """Clear the flags of traces that have ticks."""
        has_row = self.has_row[: len(flags)]
        flags[: len(has_row)] &= ~has_row

    def kept(self, new_numbers: bytes) -> Ticking:
        """Return what goes on with new numbers of traces; see `StreamProgram.keep`."""
        numbers = np.frombuffer(new_numbers, np.uint32)
        is_kept = numbers[: len(self.has_row)] != _FORGOTTEN
        return Ticking(self.periods, self.done, self.has_row[: len(is_kept)][is_kept])

    def emptied(self) -> Ticking:
        """Return what begins before the first row."""
        return Ticking(self.periods)

    def _start(self, first: int) -> int:
        return self.done if self.has_row.any() else first

    def snapshot(self) -> bytes:
        """Return what is remembered as bytes for `restored`."""
        return self.done.to_bytes(8, "little") + self.has_row.astype(np.uint8).tobytes()

    def restored(self, snapshot: bytes) -> Ticking:
        """Return what a snapshot remembers, for these periods.

        Raises:
            ValueError: the bytes are not a snapshot.
        """
        done = int.from_bytes(snapshot[:8], "little")
        has_row = np.frombuffer(snapshot[8:], np.uint8)
        if len(snapshot) < 8 or done > _LATEST or (len(has_row) and has_row.max() > 1):
            raise ValueError("not a snapshot of ticks")
        return Ticking(self.periods, done, has_row.astype(np.bool_))


def all_ticks(
    times: Integers,
    has_row: NDArray[np.bool_],
    time_stamps: Integers,
    numbers: Numbers | None,
) -> tuple[Ticks, NDArray[np.bool_]]:
    """Return the ticks at some times of all traces that have had a row by then.

    Args:
        times: the times, in order.
        has_row: for each trace whether it has had a row before the batch.
        time_stamps: the time-stamps of the rows of the batch.
        numbers: the numbers of their traces; None if there is only one.

    Returns:
        The ticks, and for each trace whether it has had a row by the end of the batch.
    """
    begins = np.where(has_row, -1, _NEVER)
    if len(time_stamps):
        begins = _with_rows(begins, numbers, len(time_stamps))
    if not len(times):
        return NO_TICKS, begins < _NEVER
    places = np.searchsorted(time_stamps, times, "right")
    which, traces = np.nonzero(begins < places[:, np.newaxis])
    ticks = Ticks(times[which], traces.astype(np.uint32), places[which])
    return ticks, begins < _NEVER


def _with_rows(begins: Integers, numbers: Numbers | None, count: int) -> Integers:
    """Set the first rows of traces that have had no row."""
    highest = 0 if numbers is None else int(numbers.max())
    if highest < len(begins) and (begins < 0).all():
        return begins
    found = np.full(max(highest + 1, len(begins)), _NEVER)
    found[: len(begins)] = begins
    if numbers is None:
        found[0] = min(found[0], 0)
        return found
    rows = np.arange(count - 1, -1, -1)
    first = np.full(len(found), _NEVER)
    # of several rows of a trace, the earliest one is assigned last
    first[numbers[::-1]] = rows
    earliest: Integers = np.minimum(found, first)
    return earliest


def multiples(periods: Sequence[int], start: int, limit: int) -> Integers:
    """Return the multiples of some periods from one time on and below another, sorted."""
    found = [np.arange(-(-start // period) * period, limit, period) for period in periods]
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))
