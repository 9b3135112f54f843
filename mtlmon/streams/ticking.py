"""Ticks of traces, and how they are found between rows.

A tick T is a time-point of every trace that has had a row by then. It comes behind all rows with
time-stamps up to T and before the row that moves the log's clock on; ticks of one time are in the
order of traces. All periods share one tick per trace and time.

Batches are cut so that few ticks are computed at once (`StreamAtoms.piece`). A batch may have ticks
and no rows, and no checkpoint is written until the row that the ticks come before has been checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Numbers = NDArray[np.uint32]

LATEST = 2**63 - 1
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
        kinds: which of them are changes of relations, by the number of these, and under 0 which are
            ticks of periods; None if all of them are.
    """

    time_stamps: Integers
    numbers: Numbers
    places: Integers
    kinds: Mapping[int, NDArray[np.bool_]] | None = None

    def __len__(self) -> int:
        return len(self.time_stamps)

    def chosen(self, which: NDArray[np.bool_] | Integers | slice) -> Ticks:
        """Return some of the ticks."""
        kinds = self.kinds
        if kinds is not None:
            kinds = {kind: ones[which] for kind, ones in kinds.items()}
        return Ticks(self.time_stamps[which], self.numbers[which], self.places[which], kinds)


NO_TICKS = Ticks(np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.int64))


class Begins:
    """Which traces have had a row; it never changes in place.

    Args:
        has_row: for each trace whether it has.
    """

    __slots__ = ("_has_row",)

    def __init__(self, has_row: NDArray[np.bool_] | None = None) -> None:
        self._has_row = np.zeros(0, np.bool_) if has_row is None else has_row

    @property
    def trace_count(self) -> int:
        """The number of traces, up to the last one that has had a row."""
        return len(self._has_row)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that this takes."""
        return len(self._has_row)

    @property
    def is_any(self) -> bool:
        """Whether any trace has had a row."""
        return bool(self._has_row.any())

    def behind(self, time_stamps: Integers, numbers: Numbers | None) -> Begins:
        """Return what is so behind some rows."""
        return Begins(self._places(time_stamps, numbers) < _NEVER)

    def begun(
        self, times: Integers, traces: Numbers, time_stamps: Integers, numbers: Numbers | None
    ) -> Ticks:
        """Return those of some ticks whose traces have had a row by then.

        Args:
            times: the times of the ticks, in order.
            traces: the numbers of their traces; those above all numbers have had no row.
            time_stamps: the time-stamps of the next rows.
            numbers: the numbers of their traces; None if there is only one.
        """
        begins = np.append(self._places(time_stamps, numbers), _NEVER)
        places = np.searchsorted(time_stamps, times, "right")
        which = begins[np.minimum(traces, len(begins) - 1)] < places
        return Ticks(times[which], traces[which], places[which])

    def at_all(self, times: Integers, time_stamps: Integers, numbers: Numbers | None) -> Ticks:
        """Return the ticks at some times, in order, of all traces that have had a row by then.

        The other arguments are those of `begun`.
        """
        if not len(times):
            return NO_TICKS
        places = np.searchsorted(time_stamps, times, "right")
        begins = self._places(time_stamps, numbers)
        which, traces = np.nonzero(begins < places[:, np.newaxis])
        return Ticks(times[which], traces.astype(np.uint32), places[which])

    def _places(self, time_stamps: Integers, numbers: Numbers | None) -> Integers:
        """For each trace the place of its first row; -1 if that was before."""
        begins = np.where(self._has_row, -1, _NEVER)
        return _with_rows(begins, numbers, len(time_stamps)) if len(time_stamps) else begins

    def clear(self, flags: NDArray[np.uint8]) -> None:
        """Clear the flags of traces that have had a row."""
        has_row = self._has_row[: len(flags)]
        flags[: len(has_row)] &= ~has_row

    def kept(self, new_numbers: bytes) -> Begins:
        """Return what is so with new numbers of traces; see `StreamProgram.keep`."""
        numbers = np.frombuffer(new_numbers, np.uint32)
        is_kept = numbers[: len(self._has_row)] != _FORGOTTEN
        return Begins(self._has_row[: len(is_kept)][is_kept])

    def snapshot(self) -> bytes:
        """Return this as bytes for `restored`."""
        return self._has_row.astype(np.uint8).tobytes()

    @classmethod
    def restored(cls, snapshot: bytes) -> Begins:
        """Return what a snapshot remembers.

        Raises:
            ValueError: the bytes are not a snapshot.
        """
        has_row = np.frombuffer(snapshot, np.uint8)
        if len(has_row) and has_row.max() > 1:
            raise ValueError("not a snapshot of ticks")
        return cls(has_row.astype(np.bool_))


class Ticking:
    """Finds the ticks between rows; what it remembers is small and never changes in place.

    Attributes:
        periods: the periods, in units of time.
        done: all ticks below this time have been found.
        begins: which traces have had a row.
    """

    __slots__ = ("begins", "done", "periods")

    def __init__(self, periods: Sequence[int], done: int = 0, begins: Begins | None = None) -> None:
        self.periods = tuple(sorted(periods))
        self.done = done
        self.begins = Begins() if begins is None else begins

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
        if not count and not self.trace_count:
            return NO_TICKS, self
        start = self._start(int(time_stamps[0]) if count else limit)
        times = multiples(self.periods, start, limit)
        found = self.begins.at_all(times, time_stamps, numbers)
        following = self.begins.behind(time_stamps, numbers)
        return found, Ticking(self.periods, max(self.done, limit), following)

    @property
    def trace_count(self) -> int:
        """The number of traces that have had a row."""
        return self.begins.trace_count

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the state takes."""
        return self.begins.held_bytes

    def tick_counts(self, time_stamps: Integers, numbers: Numbers | None) -> Integers:
        """Return, for each of the next rows, how many ticks there are before it at most.

        Ticks of two periods at one time count twice.
        """
        start = self._start(int(time_stamps[0]))
        counts = np.zeros(len(time_stamps), np.int64)
        for period in self.periods:
            counts += np.maximum(0, -(-time_stamps // period) - -(-start // period))
        traces = 1 if numbers is None else int(numbers.max()) + 1
        return np.minimum(counts, _MANY_TICKS) * max(traces, self.trace_count)

    def time_behind(self, count: int) -> int:
        """Return a time below which there are about so many ticks; each trace has at least one."""
        if not self.periods:
            return LATEST
        least = self.periods[0]
        count //= max(1, self.trace_count) * len(self.periods)
        return (-(-self.done // least) + max(1, count)) * least

    def begin(self) -> None:
        """Do nothing: the state before is kept as it is."""

    def undo(self) -> None:
        """Do nothing: the state before is kept as it is."""

    def clear_settled(self, flags: NDArray[np.uint8]) -> None:
        """Clear the flags of traces that have ticks."""
        self.begins.clear(flags)

    def kept(self, new_numbers: bytes) -> Ticking:
        """Return what goes on with new numbers of traces; see `StreamProgram.keep`."""
        return Ticking(self.periods, self.done, self.begins.kept(new_numbers))

    def emptied(self) -> Ticking:
        """Return what begins before the first row."""
        return Ticking(self.periods)

    def _start(self, first: int) -> int:
        return self.done if self.begins.is_any else first

    def snapshot(self) -> bytes:
        """Return what is remembered as bytes for `restored`."""
        return self.done.to_bytes(8, "little") + self.begins.snapshot()

    def restored(self, snapshot: bytes) -> Ticking:
        """Return what a snapshot remembers, for these periods.

        Raises:
            ValueError: the bytes are not a snapshot.
        """
        done = int.from_bytes(snapshot[:8], "little")
        if len(snapshot) < 8 or done > LATEST:
            raise ValueError("not a snapshot of ticks")
        return Ticking(self.periods, done, Begins.restored(snapshot[8:]))


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
    if not periods:
        return np.empty(0, np.int64)
    found = [np.arange(-(-start // period) * period, limit, period) for period in periods]
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))
