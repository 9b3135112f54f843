"""The ticks at which relations change, and those of periods beside them.

All changes of relations are computed, and policies take them by time like other ticks, but repeat
none. Ticks of one time and trace are one, and say of which kinds they are. With keys, each change
has the values of the keys, which the table of keys turns into the numbers of traces without adding
any. In a program, the changes of a relation have a number from `CHANGES` on in the place of a
period, because only the time exists there; kernels have no panes for them. Rows that are held back
for relations do not hold back the ticks below them. If time passes without rows, a step of time
ends after the next change, as it does after the next tick of a period (`EventSource.next_change`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.streams.due_ticks import DueTicks
from mtlmon.streams.ticking import NO_TICKS, Begins, Ticking, Ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Changes
    from mtlmon.streams.layer import Columns
    from mtlmon.streams.points import Points

    Integers = NDArray[np.int64]
    Numbers = NDArray[np.uint32]

_LATEST = 2**63 - 1


class TraceChanges(NamedTuple):
    """The changes of a relation as time-points of traces.

    Attributes:
        times: when it changes, for which keys.
        find: returns the numbers of traces with some keys, no number that a trace has for unknown
            ones; None if there is one trace.
    """

    times: Changes
    find: Callable[[Sequence[pa.Array]], Numbers] | None

    def between(self, start: int, limit: int) -> tuple[Integers, Numbers]:
        """Return the changes from one time on below another: their times and traces."""
        times, keys = self.times.between(start, limit)
        if self.find is None or not len(times):
            return times, np.zeros(len(times), np.uint32)
        return times, self.find(keys)


class ChangeTicks:
    """Finds the ticks between rows, as `Ticking` does: the changes of relations, and others.

    Args:
        sources: the changes, by the numbers of these time-points.
        periodic: finds the ticks of periods; None if there are none.
        done: all changes below this time have been found.
        begins: which traces have had a row.

    Attributes:
        periodic: as given.
        done: as given.
    """

    def __init__(
        self,
        sources: Mapping[int, TraceChanges],
        periodic: Ticking | DueTicks | None,
        done: int = 0,
        begins: Begins | None = None,
    ) -> None:
        self._sources = dict(sources)
        self.periodic = periodic
        self.done = done
        self._begins = Begins() if begins is None else begins

    @property
    def trace_count(self) -> int:
        """The number of traces that have had a row."""
        return self._begins.trace_count

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the state takes."""
        periodic = 0 if self.periodic is None else self.periodic.held_bytes
        return self._begins.held_bytes + periodic

    def ticks(
        self, time_stamps: Integers, numbers: Numbers | None, until: int | None
    ) -> tuple[Ticks, ChangeTicks]:
        """Find the ticks that come before the last of some rows; see `Ticking.ticks`."""
        count = len(time_stamps)
        limit = until if until is not None else int(time_stamps[-1]) if count else self.done
        kinds: list[tuple[int, Ticks]] = []
        periodic = self.periodic
        if periodic is not None:
            found, periodic = periodic.ticks(time_stamps, numbers, until)
            kinds.append((0, found))
        if not count and not self.trace_count:
            return NO_TICKS, self
        start = self._start(time_stamps)
        following = self._begins.behind(time_stamps, numbers)
        for frame, source in self._sources.items():
            times, traces = source.between(start, limit)
            kinds.append((frame, self._begins.begun(times, traces, time_stamps, numbers)))
        done = max(self.done, limit)
        return _merged(kinds), ChangeTicks(self._sources, periodic, done, following)

    def look(self, columns: Columns, points: Points) -> None:
        """Find out from values at ticks of periods when these change; see `DueTicks.look`."""
        if isinstance(self.periodic, DueTicks):
            self.periodic.look(columns, points)

    def tick_counts(self, time_stamps: Integers, numbers: Numbers | None) -> Integers:
        """Return, for each of the next rows, how many ticks there are before it at most."""
        counts = np.zeros(len(time_stamps), np.int64)
        if self.periodic is not None:
            counts = counts + self.periodic.tick_counts(time_stamps, numbers)
        start = self._start(time_stamps)
        for source in self._sources.values():
            times, _ = source.times.between(start, int(time_stamps[-1]))
            counts += np.searchsorted(times, time_stamps)
        return counts

    def time_behind(self, count: int) -> int:
        """Return a time below which there are about so many ticks, and one if there is any."""
        count //= len(self._sources) + 1
        found = _LATEST if self.periodic is None else self.periodic.time_behind(count)
        for source in self._sources.values():
            times, _ = source.times.between(self.done, found)
            if len(times) > count:
                found = min(found, int(times[count]) + 1)
        return found

    def next_change(self, start: int, limit: int) -> int | None:
        """Return the first time from one on below another at which a relation changes, or None."""
        if start >= limit:
            return None
        found = [source.times.between(start, limit)[0][:1] for source in self._sources.values()]
        return min((int(times[0]) for times in found if len(times)), default=None)

    def begin(self) -> None:
        """Let `undo` return to the present state from now on."""
        if self.periodic is not None:
            self.periodic.begin()

    def undo(self) -> None:
        """Return to the state at the last `begin`."""
        if self.periodic is not None:
            self.periodic.undo()

    def clear_settled(self, flags: NDArray[np.uint8]) -> None:
        """Clear the flags of traces that have ticks."""
        self._begins.clear(flags)

    def kept(self, new_numbers: bytes) -> ChangeTicks:
        """Return what goes on with new numbers of traces; see `StreamProgram.keep`."""
        periodic = None if self.periodic is None else self.periodic.kept(new_numbers)
        begins = self._begins.kept(new_numbers)
        return ChangeTicks(self._sources, periodic, self.done, begins)

    def followed_by_all(self) -> ChangeTicks:
        """Return what finds all ticks from here on."""
        periodic = self.periodic
        if isinstance(periodic, DueTicks):
            periodic = periodic.followed_by_all()
        return ChangeTicks(self._sources, periodic, self.done, self._begins)

    def emptied(self) -> ChangeTicks:
        """Return what begins before the first row."""
        return ChangeTicks(
            self._sources, None if self.periodic is None else self.periodic.emptied()
        )

    def snapshot(self) -> bytes:
        """Return what is remembered as bytes for `restored`."""
        periodic = b"" if self.periodic is None else self.periodic.snapshot()
        own = self.done.to_bytes(8, "little") + self._begins.snapshot()
        return len(own).to_bytes(8, "little") + own + periodic

    def restored(self, snapshot: bytes) -> ChangeTicks:
        """Return what a snapshot remembers.

        Raises:
            ValueError: the bytes are not a snapshot.
        """
        size = int.from_bytes(snapshot[:8], "little")
        own, periodic = snapshot[8 : 8 + size], snapshot[8 + size :]
        done = int.from_bytes(own[:8], "little")
        is_whole = 8 <= size == len(own) and done <= _LATEST
        if not is_whole or (self.periodic is None and periodic):
            raise ValueError("not a snapshot of ticks")
        return ChangeTicks(
            self._sources,
            None if self.periodic is None else self.periodic.restored(periodic),
            done,
            Begins.restored(own[8:]),
        )

    def _start(self, time_stamps: Integers) -> int:
        return self.done if self._begins.is_any or not len(time_stamps) else int(time_stamps[0])


def _merged(kinds: Sequence[tuple[int, Ticks]]) -> Ticks:
    """Return ticks of several kinds in one order; those of one time and trace are one tick."""
    times = np.concatenate([ticks.time_stamps for _, ticks in kinds])
    numbers = np.concatenate([ticks.numbers for _, ticks in kinds])
    places = np.concatenate([ticks.places for _, ticks in kinds])
    order = np.lexsort((numbers, times))
    is_new = np.ones(len(order), np.bool_)
    before, after = order[:-1], order[1:]
    is_new[1:] = (times[before] != times[after]) | (numbers[before] != numbers[after])
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(is_new) - 1
    firsts = order[is_new]
    kind_of: dict[int, NDArray[np.bool_]] = {}
    begin = 0
    for frame, ticks in kinds:
        kind_of[frame] = np.zeros(len(firsts), np.bool_)
        kind_of[frame][group[begin : begin + len(ticks)]] = True
        begin += len(ticks)
    kind_of.setdefault(0, np.zeros(len(firsts), np.bool_))
    return Ticks(times[firsts], numbers[firsts], places[firsts], kind_of)
