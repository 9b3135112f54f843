"""The ticks at which values change although no row enters or leaves a window.

There are four reasons. A comparison with the time changes when the time has passed a limit, which
is known as soon as the values at a tick are: see `motion`. A stream that reads itself may change at
each tick, until a tick leaves its state as it was. An integral changes as long as a window moves
over what a row has brought, and a sum of ticks as long as not all ticks in the window have the new
value.

So a trace that is due is *awake* from then on: all of its ticks are computed until the end of the
batch. Then it is known when it has to be computed again, if no row comes: at the next tick, at a
later one, or never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.errors import RowError
from mtlmon.policy.predicates.compiling import CompiledExpressions
from mtlmon.streams.ticking import multiples
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.streams.layer import Columns
    from mtlmon.streams.motion import Crossing
    from mtlmon.streams.points import Points
    from mtlmon.streams.recursion import MachineTask

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Numbers = NDArray[np.uint32]
    Flags = NDArray[np.bool_]

_NEVER = np.iinfo(np.int64).max
# Integers of this size and above may soon overflow.
_LARGE = 2**62
# By what part of the numbers in it the result of some operations on floats may be wrong.
_ROUNDING = 2.0**-48
_FORGOTTEN = 2**32 - 1


class Lengths(NamedTuple):
    """For how long a trace stays awake.

    Attributes:
        stay: after a row.
        filling: after a tick that is due.
        linger: after a tick at which values changed without a row.
    """

    stay: int
    filling: int
    linger: int


class Sources:
    """What lets values change at ticks without a row.

    Args:
        crossings: the crossings at ticks, by their period.
        machines: the streams that read themselves, by the period of their ticks.
        lengths: for how long a trace stays awake.
        schema: all columns.
        environment: the time column and the units.

    Attributes:
        periods: the periods of ticks at which something may change.
        lengths: as given.
        lingers: whether a trace stays awake after a tick at which values changed.
    """

    def __init__(
        self,
        crossings: Mapping[int, Sequence[Crossing]],
        machines: Mapping[int, Sequence[MachineTask]],
        lengths: Lengths,
        schema: pa.Schema,
        environment: Environment,
    ) -> None:
        self.lengths = lengths
        self.lingers = lengths.linger > 0 or any(
            machine.linger > 0 for some in machines.values() for machine in some
        )
        self._crossings = {period: some for period, some in crossings.items() if some}
        self._machines = machines
        self.periods = sorted({*self._crossings, *machines})
        unit = environment.unit
        # From then on, the operations on times could overflow.
        self._far = _LARGE if unit is None else _LARGE // UNITS[unit]
        self._compiled: dict[int, CompiledExpressions] = {}
        for period, some in self._crossings.items():
            named = {
                str(number): one.part.origin.with_expression(one.part.expression)
                for number, one in enumerate(some)
            }
            self._compiled[period] = CompiledExpressions(named, schema, environment)

    def changes(self, period: int, columns: Columns, points: Points) -> tuple[Integers, Integers]:
        """Find what follows from the values at the ticks of a period.

        Returns:
            For each tick, the next one at which values may change by themselves, and the last time
            at which they may have done so, or will do at the next tick; -1 for none.
        """
        times = points.ticks_of(period).time_stamps
        nexts = np.minimum(times, _NEVER - period) + period
        following = np.full(len(times), _NEVER)
        moved = np.full(len(times), -1)
        for machine in self._machines.get(period, ()):
            changed = machine.changed
            following[changed] = nexts[changed]
            until = np.minimum(nexts[changed], _NEVER - machine.linger) + machine.linger
            moved[changed] = np.maximum(moved[changed], until)
        if period not in self._crossings:
            return following, moved
        following[times >= self._far - period] = 0
        try:
            found = self._compiled[period].compute(columns[period], len(times))
        except RowError:
            return nexts, times
        for name, crossing in enumerate(self._crossings[period]):
            values = found[str(name)].cast("float64", safe=False)
            is_known = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)
            steps, is_near = _steps(values.fill_null(0.0).to_numpy(), times, period, crossing)
            is_near &= is_known
            moved[is_near] = np.maximum(moved[is_near], times[is_near])
            is_known &= steps < _LARGE
            far = times[is_known] + steps[is_known].astype(np.int64)
            following[is_known] = np.minimum(following[is_known], np.where(far < 0, _NEVER, far))
        # crossings at ticks in between are seen at the next one
        is_some = following < _NEVER - period
        following[is_some] = -(-following[is_some] // period) * period
        return np.maximum(following, nexts), moved


def _steps(
    values: Floats, times: Integers, period: int, crossing: Crossing
) -> tuple[Floats, Flags]:
    """Return for how long values cannot reach 0 at least, and which may just have passed it."""
    lower, upper, slack = motion = crossing.motion
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        sizes = np.abs(values)
        wrong = slack + (sizes + times * motion.fastest) * _ROUNDING
        if crossing.is_limit:
            steps = np.maximum(_LARGE - sizes, 0.0) / motion.fastest
            return steps, np.zeros(len(values), np.bool_)
        steps = np.full(len(values), np.inf)
        if upper > 0:
            below = values <= wrong
            steps[below] = np.maximum(-values - wrong, 0.0)[below] / upper
        if lower < 0:
            above = values >= -wrong
            steps[above] = np.maximum(values - wrong, 0.0)[above] / -lower
        return np.floor(steps), sizes <= period * motion.fastest + wrong


def _later(times: Integers, length: int) -> Integers:
    """Return times that are later by a length, as far as 64 bits go."""
    return np.minimum(times, _NEVER - length) + length


class SelfChanges:
    """Remembers for each trace when its values change next by themselves.

    Its arrays never change in place, so that `undo` is cheap.

    Args:
        sources: what lets values change.
        periods: the periods of all ticks.
    """

    def __init__(self, sources: Sources, periods: Sequence[int]) -> None:
        self._sources = sources
        self._periods = tuple(periods)
        # For each period of the sources, the next tick of each trace; and how long it is awake.
        self._state = tuple(np.empty(0, np.int64) for _ in range(len(sources.periods) + 1))
        self._marked = self._state

    def awake(self, start: int, limit: int) -> int:
        """Return how many traces have ticks from one time on and below another, as far as known."""
        return int(np.count_nonzero(self._begins(start) < limit))

    def time_behind(self, count: int, start: int) -> int:
        """Return a time below which no more than so many traces are awake.

        Args:
            count: how many traces.
            start: all ticks below this time have been computed.
        """
        begins = self._begins(start)
        return _NEVER if count >= len(begins) else int(np.partition(begins, count)[count])

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the state takes."""
        return sum(array.nbytes for array in {id(one): one for one in self._arrays}.values())

    @property
    def bytes_of_trace(self) -> int:
        """The most bytes that the state of a trace takes."""
        return 16 * len(self._state)

    @property
    def _arrays(self) -> list[Integers]:
        return [*self._state, *self._marked]

    def make_room(self, traces: int) -> None:
        """Let there be so many traces at least."""
        more = traces - len(self._state[0])
        if more <= 0:
            return
        rest = [_NEVER] * (len(self._state) - 1) + [-1]
        self._state = tuple(
            np.concatenate([array, np.full(more, value)])
            for array, value in zip(self._state, rest, strict=True)
        )

    def ticks(
        self,
        start: int,
        limit: int,
        dues: tuple[Integers, Numbers],
        rows: tuple[Integers, Numbers],
    ) -> tuple[Integers, Numbers]:
        """Find the ticks of all traces that are awake.

        Args:
            start: all ticks below this time have been computed.
            limit: find the ticks below this time.
            dues: the times of ticks that are due for other reasons, and their traces, for which
                there is room.
            rows: the times of the rows of the batch, and their traces.

        Returns:
            The times and traces of ticks, in order.
        """
        begins = self._begins(start)
        np.minimum.at(begins, dues[1], dues[0])
        stay, filling, _ = self._sources.lengths
        due_stops, stops = _later(dues[0], filling), _later(rows[0], stay)
        *following, until = self._state
        if stay or filling:
            until = until.copy()
            if stay:
                np.maximum.at(until, rows[1], stops)
            if filling:
                np.maximum.at(until, dues[1], due_stops)
            self._state = (*following, until)
        awake = np.flatnonzero(begins < limit)
        first = max(start, int(begins[awake].min(initial=limit)))
        every = multiples(self._periods, first, limit)
        if self._sources.periods:
            is_awake = begins[awake] <= every[:, np.newaxis]
        else:
            is_awake = self._are_staying(every, awake, (*dues, due_stops), (*rows, stops))
        which, own = np.nonzero(is_awake)
        return every[which], awake[own].astype(np.uint32)

    def _are_staying(
        self,
        every: Integers,
        awake: Integers,
        dues: tuple[Integers, Numbers, Integers],
        rows: tuple[Integers, Numbers, Integers],
    ) -> Flags:
        """Return at which ticks traces are awake because of dues and rows, with their ends."""
        # how many reasons begin and end at each tick
        counts = np.zeros((len(every) + 2, len(awake)), np.int64)

        def add(begins: Integers, ends: Integers, columns: Integers) -> None:
            np.add.at(counts, (np.searchsorted(every, begins), columns), 1)
            np.add.at(counts, (np.searchsorted(every, ends, "right"), columns), -1)

        add(dues[0], dues[2], np.searchsorted(awake, dues[1]))
        is_awake = np.isin(rows[1], awake)
        if self._sources.lengths.stay:
            add(rows[0][is_awake], rows[2][is_awake], np.searchsorted(awake, rows[1][is_awake]))
        before = self._marked[-1]
        count = np.searchsorted(awake, len(before))
        until = before[awake[:count]]
        counts[0, :count] += 1
        np.add.at(counts, (np.searchsorted(every, until, "right"), np.arange(count)), -1)
        return np.asarray(counts.cumsum(axis=0)[: len(every)] > 0)

    def _begins(self, start: int) -> Integers:
        """For each trace the time from which on it is awake, as far as known."""
        *following, until = self._state
        found = np.where(until >= start, start, _NEVER)
        for one in following:
            np.minimum(found, one, out=found)
        return found

    def look(self, columns: Columns, points: Points) -> None:
        """Find out when values change next, from those at the ticks of a batch."""
        if not len(points.ticks):
            return
        *following, until = (array.copy() for array in self._state)
        for array, period in zip(following, self._sources.periods, strict=True):
            numbers = points.ticks_of(period).numbers
            ticks, moved = self._sources.changes(period, columns, points)
            # of several ticks of a trace, the last one is assigned last
            array[numbers] = ticks
            if self._sources.lingers:
                is_moved = moved >= 0
                ends = _later(moved[is_moved], self._sources.lengths.linger)
                np.maximum.at(until, numbers[is_moved], ends)
        self._state = (*following, until)

    def begin(self) -> None:
        """Let `undo` return to the present state from now on."""
        self._marked = self._state

    def undo(self) -> None:
        """Return to the state at the last `begin`."""
        self._state = self._marked

    def keep(self, new_numbers: bytes) -> None:
        """Give traces new numbers, in the same order, and forget others."""
        is_kept = np.frombuffer(new_numbers, np.uint32)[: len(self._state[0])] != _FORGOTTEN
        self._state = tuple(array[: len(is_kept)][is_kept] for array in self._state)
        self._marked = self._state

    def emptied(self) -> SelfChanges:
        """Return what begins before the first row."""
        return SelfChanges(self._sources, self._periods)

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        return b"".join(array.tobytes() for array in self._state)

    def restore(self, snapshot: bytes, traces: int) -> None:
        """Continue from a snapshot with so many traces.

        Raises:
            ValueError: the bytes are not a snapshot.
        """
        count = len(self._state)
        if len(snapshot) != 8 * traces * count:
            raise ValueError("not a snapshot of ticks")
        found = np.frombuffer(snapshot, np.int64).reshape(count, traces)
        if traces and (found[:-1].min(initial=0) < 0 or found[-1].min() < -1):
            raise ValueError("not a snapshot of ticks")
        self._state = self._marked = tuple(found)
