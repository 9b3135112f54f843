"""The ticks at which values may change; in between, each trace keeps those of its last due tick.

Values at ticks change when a row enters or leaves a window, which is known as soon as the row
comes: see `native.Dues`. Only these ticks are computed, unless values change at times that cannot
be known (`delays`). There are other reasons for a change:

- Conditions on the time alone are computed once for all traces. When such a condition changes, all
  traces are due (`time_changes`).
- Differences between the time and values of a trace change at a known rate, so it is known when a
  comparison can change next (`motion`).
- A stream that reads itself may change at each tick (`self_changes`).
- A window such as `max` gets the last tick that was left out (`repeated_ticks`), and a sum over
  ticks goes by the numbers of ticks (`tick_windows`).

A tick that an error removes cannot be repeated, so from there on all ticks are computed and given
to policies (`give_all_ticks`).
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.errors import SnapshotError
from mtlmon.streams import native
from mtlmon.streams.ticking import NO_TICKS, Begins, Ticking, Ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.streams.delays import Delays
    from mtlmon.streams.layer import Columns
    from mtlmon.streams.points import Points
    from mtlmon.streams.self_changes import SelfChanges
    from mtlmon.streams.time_changes import TimeChanges

    Integers = NDArray[np.int64]
    Numbers = NDArray[np.uint32]

_LATEST = 2**63 - 1
# More ticks than a batch can have.
_MANY_TICKS = 2**62
_MOST_TIMES = 2**30


class DueTicks:
    """Finds the due ticks between rows, as `Ticking` finds all ticks.

    Args:
        periods: the periods, in units of time.
        delays: when rows make a difference.
        changes: finds the ticks at which time makes a difference to all traces; None if it makes
            none.
        own: finds the ticks at which values of a trace change by themselves; None if they do not.

    Attributes:
        periods: as given.
        done: all due ticks below this time have been found.
    """

    def __init__(
        self,
        periods: Sequence[int],
        delays: Delays,
        changes: TimeChanges | None = None,
        own: SelfChanges | None = None,
    ) -> None:
        self._changes = changes
        self._own = own
        self.periods = tuple(sorted(periods))
        self.done = 0
        self._marked_done = 0
        self._delays = delays
        self._native = native.Dues(sorted(delays.delays), self.periods, self.grain)

    @property
    def trace_count(self) -> int:
        """The number of traces that have had a row."""
        return self._native.trace_count

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the state takes."""
        own = 0 if self._own is None else self._own.held_bytes
        return self._native.held_bytes + own

    @property
    def longest_delay(self) -> int:
        """For how long a row is kept at most."""
        return max(self._delays.delays) + max(self.periods)

    @property
    def grain(self) -> int:
        """Of rows of a trace between two multiples of this, and of those at one, one is kept."""
        return gcd(*self.periods, *self._delays.bounds)

    def most_bytes(self, traces: int, rows: int, batch: int, ticks: int) -> int:
        """Return the most bytes that the state takes; see `native.Dues.most_bytes`."""
        own = 0 if self._own is None else self._own.bytes_of_trace * traces
        return self._native.most_bytes(traces, rows, batch, ticks) + own

    def ticks(
        self, time_stamps: Integers, numbers: Numbers | None, until: int | None
    ) -> tuple[Ticks, DueTicks]:
        """Find the due ticks that come before the last of some rows; see `Ticking.ticks`."""
        count = len(time_stamps)
        limit = until if until is not None else int(time_stamps[-1]) if count else self.done
        changes = None
        if self._changes is not None and (count or self.trace_count):
            start = self.done if self.trace_count else int(time_stamps[0])
            begins = Begins(np.ones(self.trace_count, np.bool_))
            times = self._changes.between(start, limit)
            changes = begins.at_all(times, time_stamps, numbers)
        begin = self.done if self.trace_count or not count else int(time_stamps[0])
        self._native.add(native.Batch(time_stamps, numbers, count))
        self.done = max(self.done, limit)
        times, traces = (
            np.frombuffer(found, kind)
            for found, kind in zip(self._native.find(limit), (np.int64, np.uint32), strict=True)
        )
        of_rows = len(times)
        if changes is not None and len(changes):
            times = np.concatenate([times, changes.time_stamps])
            traces = np.concatenate([traces, changes.numbers])
        if self._own is not None:
            self._own.make_room(self.trace_count)
            own = np.zeros(count, np.uint32) if numbers is None else numbers
            times, traces = self._own.ticks(begin, limit, (times, traces), (time_stamps, own))
        elif len(times) > of_rows:
            order = np.lexsort((traces, times))
            times, traces = times[order], traces[order]
            is_new = (np.diff(times, prepend=-1) != 0) | (np.diff(traces, prepend=0) != 0)
            times, traces = times[is_new], traces[is_new]
        if not len(times):
            return NO_TICKS, self
        # PERF: ticks of one time are many; looking for each of them took 15 ns a row
        firsts = np.flatnonzero(np.diff(times, prepend=-1))
        places = np.searchsorted(time_stamps, times[firsts], "right")
        return Ticks(times, traces, places.repeat(np.diff(firsts, append=len(times)))), self

    def look(self, columns: Columns, points: Points) -> None:
        """Find out from values at ticks when those of each trace change by themselves."""
        if self._own is not None:
            self._own.look(columns, points)

    def tick_counts(self, time_stamps: Integers, numbers: Numbers | None) -> Integers:
        """Return, for each of the next rows, how many ticks are due before it at most."""
        counts = np.empty(len(time_stamps), np.int64)
        self._native.counts(native.Batch(time_stamps, numbers, len(time_stamps)), counts)
        if self._changes is not None and len(time_stamps):
            start = self.done if self.trace_count else int(time_stamps[0])
            horizon = self._changes.horizon(start)
            changes = self._changes.between(start, min(horizon, int(time_stamps[-1])))
            traces = max(self.trace_count, 1 if numbers is None else int(numbers.max()) + 1)
            counts += np.searchsorted(changes, time_stamps) * traces
            counts[time_stamps > horizon] = _MANY_TICKS
        if self._own is not None and len(time_stamps):
            return self._counts_awake(counts, time_stamps, numbers)
        return counts

    def _counts_awake(
        self, dues: Integers, time_stamps: Integers, numbers: Numbers | None
    ) -> Integers:
        """Return, for each of the next rows, how many ticks of awake traces there are at most."""
        assert self._own is not None
        start = int(time_stamps[0])
        if self.trace_count:
            start = max(self.done, min(start, self._next_time))
        traces = max(self.trace_count, 1 if numbers is None else int(numbers.max()) + 1)
        awake = self._own.awake(start, int(time_stamps[-1]))
        # a trace that is due stays awake to the end of the batch
        traces_awake = np.minimum(dues + awake, traces)
        ticks = np.zeros(len(time_stamps), np.int64)
        for period in self.periods:
            ticks += np.maximum(0, -(-time_stamps // period) - -(-start // period))
        return traces_awake * np.minimum(ticks, _MOST_TIMES)

    @property
    def _next_time(self) -> int:
        """A time below which no tick is due, and no trace awake."""
        assert self._own is not None
        return min(self._native.time_behind(0) - 1, self._own.time_behind(0, self.done))

    def time_behind(self, count: int) -> int:
        """Return a time below which about so many ticks are due.

        There is at least one if any is, and if not too many ticks come before it.
        """
        time = self._native.time_behind(count)
        if self._own is not None:
            time = self._time_behind_awake(count)
        if self._changes is None:
            return time
        horizon = self._changes.horizon(self.done)
        changes = self._changes.between(self.done, horizon)
        place = max(1, count // max(1, self.trace_count)) - 1
        return min(time, int(changes[place]) + 1 if place < len(changes) else horizon)

    def _time_behind_awake(self, count: int) -> int:
        """Return a time below which about so many ticks are due, or belong to awake traces.

        More traces that become due leave less time, so this tries several numbers of them.
        """
        assert self._own is not None
        least, kinds = self.periods[0], len(self.periods)
        begin = max(self.done, self._next_time)
        if begin >= _LATEST - 1:
            return _LATEST
        first = -(-begin // least)
        found = (first + max(1, count // (kinds * max(1, self.trace_count)))) * least
        dues = 1
        while dues < min(count, self.trace_count):
            limit = min(self._native.time_behind(dues), self._own.time_behind(dues, self.done))
            ticks = max(1, count // (2 * dues * kinds))
            found = max(found, min(limit, (first + ticks) * least))
            dues *= 4
        return min(found, _LATEST)

    def begin(self) -> None:
        """Let `undo` return to the present state from now on."""
        self._native.begin()
        if self._own is not None:
            self._own.begin()
        self._marked_done = self.done

    def undo(self) -> None:
        """Return to the state at the last `begin`."""
        self._native.undo()
        if self._own is not None:
            self._own.undo()
        self.done = self._marked_done

    def clear_settled(self, flags: NDArray[np.uint8]) -> None:
        """Clear the flags of traces that have ticks."""
        flags[: self.trace_count] = 0

    def kept(self, new_numbers: bytes) -> DueTicks:
        """Return what goes on with new numbers of traces; see `StreamProgram.keep`."""
        self._native.keep(new_numbers)
        if self._own is not None:
            self._own.keep(new_numbers)
        return self

    def followed_by_all(self) -> Ticking:
        """Return what finds all ticks from here on."""
        return Ticking(self.periods, self.done, Begins(np.ones(self.trace_count, np.bool_)))

    def emptied(self) -> DueTicks:
        """Return what begins before the first row."""
        own = None if self._own is None else self._own.emptied()
        return DueTicks(self.periods, self._delays, self._changes, own)

    def snapshot(self) -> bytes:
        """Return what is remembered as bytes for `restored`."""
        parts = [self._native.snapshot(), b""]
        if self._own is not None:
            parts[1] = self._own.snapshot()
        numbers = (self.done, len(parts[0]))
        return b"".join([*(number.to_bytes(8, "little") for number in numbers), *parts])

    def restored(self, snapshot: bytes) -> DueTicks:
        """Return what a snapshot remembers.

        Raises:
            ValueError: the bytes are not a snapshot.
        """
        found = self.emptied()
        done, size = (int.from_bytes(snapshot[place : place + 8], "little") for place in (0, 8))
        body, own = snapshot[16 : 16 + size], snapshot[16 + size :]
        if len(snapshot) < 16 or len(body) < size or done > _LATEST:
            raise ValueError("not a snapshot of ticks")
        found.done = done
        try:
            found._native.restore(body)
        except SnapshotError as error:
            raise ValueError(str(error)) from None
        if found._own is not None:
            found._own.restore(own, found.trace_count)
        elif own:
            raise ValueError("not a snapshot of ticks")
        found.begin()
        return found
