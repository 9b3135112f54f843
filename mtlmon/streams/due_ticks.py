"""The ticks at which values may change; in between, each trace keeps those of its last due tick.

A value at a tick is found from rows by windows and offsets. So it can only change when a row enters
a window or leaves it, which is known as soon as the row comes: see `native.Dues`.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.errors import SnapshotError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import columns
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams import native
from mtlmon.streams.layer import ChoiceTask, KernelTask, Part
from mtlmon.streams.ticking import NO_TICKS, Ticking, Ticks, all_ticks
from mtlmon.streams.time_changes import slow_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.streams.kernels import Kernel
    from mtlmon.streams.layer import Layer
    from mtlmon.streams.time_changes import TimeChanges

    Integers = NDArray[np.int64]
    Numbers = NDArray[np.uint32]

_LATEST = 2**63 - 1
# With more delays, it is cheaper to compute all ticks.
_MOST_DELAYS = 64
# PERF: an integral over 60 s at ticks of 1 s took 1.1 s instead of 17.5 s where 2,000 keys had 10
# rows each in 60,000 s, but 3.4 s instead of 0.8 s where each had a row at each of 300 ticks; over
# 10 s, it took 1.1 s instead of 0.8 s there.
_MOST_STEPS = 16
# More ticks than a batch can have.
_MANY_TICKS = 2**62


class Delays:
    """After how much time rows make a difference to values at ticks.

    Attributes:
        delays: the delays; 0 is among them, because the first row of a trace begins its ticks.
        bounds: the bounds of all windows.
        of_time: parts of expressions that depend on time alone, by the period of their ticks.
        time_delays: after how much time changes of these make a difference.
    """

    def __init__(self) -> None:
        self.delays = {0}
        self.bounds = {0}
        self.of_time: dict[int, list[Part]] = {}
        self.time_delays = {0}

    def add(self, kernel: Kernel) -> None:
        """Add the delays of a window or offset over rows."""
        lower, upper, _ = kernel.extent
        self.delays.add(lower)
        self.bounds.add(lower)
        if upper >= 0:
            self.delays.add(upper + 1)
            self.bounds.add(upper)

    def add_integral(self, kernel: Kernel, period: int) -> bool:
        """Add the delays of an integral over rows at the ticks of a period.

        It grows at each tick from the one at which a row enters the window. When the row is no
        later than the window, the value that the row brought is held throughout the window, and the
        integral stays as it is.

        Returns:
            Whether the window is short enough.
        """
        lower, upper, _ = kernel.extent
        if upper < 0 or (upper - lower) // period > _MOST_STEPS:
            return False
        self.delays |= {*range(lower, upper, period), upper}
        self.bounds |= {lower, upper}
        return True

    def shift(self, length: int) -> None:
        """Add delays that are longer by a length of time."""
        self.delays |= {delay + length for delay in self.delays}
        self.time_delays |= {delay + length for delay in self.time_delays}
        self.bounds.add(length)

    def add_times(self, period: int, parts: Iterable[Part], time: str | None) -> bool:
        """Add what depends on time alone in expressions at ticks.

        Returns:
            Whether that stays the same for many ticks.
        """
        for part in parts:
            if time not in columns(part.expression):
                continue
            assert time is not None
            slow = slow_parts(part.expression, time)
            if slow is None:
                return False
            self.of_time.setdefault(period, []).extend(
                Part(expression, part.origin) for expression in slow
            )
        return True

    def join(self, other: Delays) -> None:
        """Add the delays of others."""
        self.delays |= other.delays
        self.bounds |= other.bounds


def delays_of(
    layers: Sequence[Layer],
    time: str | None,
    of_instances: Mapping[int, tuple[int, Delays | None]],
    *,
    can_leave_out: bool = False,
) -> Delays | None:
    """Return when rows make a difference to the values at ticks; None if other things do, too.

    Other things are the time of a tick as such, windows of earlier ticks, and integrals over many
    ticks, as they change at all of them. Parts such as `hour(ts) >= 22` rarely change, and do so
    for all traces at once. A value a certain time ago changes that much later, if ticks of its
    stream coincide with those of the result; `.last()` is that one period ago, and `.last(2)` that
    two periods ago if the argument is never null. If delays are found, the kernels of such offsets
    are made ones of `.at()`, as these need not see every tick.

    Args:
        layers: the layers of a program, which has had no rows.
        time: the name of the time column, if there is one.
        of_instances: for the numbers of ticks of instances their period, and when rows make a
            difference to the values there.
        can_leave_out: whether ticks may be left out, so that `.last(2)` may be any ticks ago.
    """
    found = Delays()
    of_last: list[tuple[Kernel, int]] = []
    for layer in layers:
        for period, parts in layer.parts.items():
            if period > ROWS and not found.add_times(period, parts.values(), time):
                return None
        for task in layer.tasks:
            argument, period = task.argument_period, task.period
            if argument in of_instances and period > ROWS:
                own_period, delays = of_instances[argument]
                if delays is None or period % own_period:
                    return None
                found.join(delays)
                continue
            if max(period, argument) <= ROWS or isinstance(task, ChoiceTask):
                continue
            if not isinstance(task, KernelTask):
                return None
            (kernel,) = task.kernels
            operator = kernel.node.operator
            if argument == ROWS and operator is ops.WINDOW_INTEGRAL:
                if not found.add_integral(kernel, period):
                    return None
            elif argument == ROWS:
                found.add(kernel)
            else:
                ago = _time_ago(
                    kernel, argument, period, has_gaps=can_leave_out or task.may_be_null
                )
                if ago is None:
                    return None
                if operator is ops.LAST:
                    of_last.append((kernel, ago))
                if period != ROWS:
                    found.shift(ago)
    if any(delays is None for _, delays in of_instances.values()):
        return None
    if len(found.delays) > _MOST_DELAYS:
        return None
    for kernel, ago in of_last:
        kernel.look_back(ago)
    return found


def _time_ago(kernel: Kernel, argument: int, period: int, *, has_gaps: bool) -> int | None:
    """Return how long before a result the value is that an offset of ticks reads.

    Args:
        kernel: the offset.
        argument: the time-points of its argument.
        period: those of its results.
        has_gaps: whether the argument may have no value at a tick, so that `.last(2)` may be any
            ticks ago.

    Returns:
        A length of time; None if not only this matters.
    """
    operator, extent = kernel.node.operator, kernel.extent
    if argument <= ROWS:
        return None
    if operator is ops.LAST and (extent.distance == 1 or not has_gaps):
        ago = extent.distance * argument
        if period == ROWS:
            # The last tick that a row sees is up to one period below the row.
            ago = 0 if extent.distance == 1 else ago - argument + 1
    elif operator in {ops.AT, ops.HOLD}:
        ago = extent.lower
    else:
        return None
    is_known = period == ROWS or (period % argument == 0 and ago % argument == 0)
    return ago if is_known else None


def delays_of_instances(layers: Sequence[Layer], time: str | None, frame: int) -> Delays | None:
    """Return when rows make a difference to values at ticks of instances; see `delays_of`.

    Args:
        layers: the layers of a program.
        time: the name of the time column, if there is one.
        frame: the number of these ticks.
    """
    found = Delays()
    for layer in layers:
        if _reads(layer.parts.get(frame, {}).values(), time):
            return None
        for task in layer.tasks:
            argument, period = task.argument_period, task.period
            if frame not in {argument, period}:
                continue
            operators = {kernel.node.operator for kernel in task.kernels}
            if period != frame:
                # what is held between ticks, in the instance or from outside of it
                if not operators <= {ops.AT, ops.HOLD}:
                    return None
            elif argument == frame:
                if not isinstance(task, KernelTask) or operators != {ops.HOLD}:
                    return None
            elif ops.WINDOW_INTEGRAL in operators:
                return None
            else:
                for kernel in task.kernels:
                    found.add(kernel)
    return found


def _reads(parts: Iterable[Part], column: str | None) -> bool:
    return any(column in columns(part.expression) for part in parts)


class DueTicks:
    """Finds the due ticks between rows, as `Ticking` finds all ticks.

    Args:
        periods: the periods, in units of time.
        delays: when rows make a difference.
        changes: finds the ticks at which time makes a difference to all traces; None if it makes
            none.

    Attributes:
        periods: as given.
        done: all due ticks below this time have been found.
    """

    def __init__(
        self, periods: Sequence[int], delays: Delays, changes: TimeChanges | None = None
    ) -> None:
        self._changes = changes
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
        return self._native.held_bytes

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
        return self._native.most_bytes(traces, rows, batch, ticks)

    def ticks(
        self, time_stamps: Integers, numbers: Numbers | None, until: int | None
    ) -> tuple[Ticks, DueTicks]:
        """Find the due ticks that come before the last of some rows; see `Ticking.ticks`."""
        count = len(time_stamps)
        limit = until if until is not None else int(time_stamps[-1]) if count else self.done
        changes = None
        if self._changes is not None and (count or self.trace_count):
            start = self.done if self.trace_count else int(time_stamps[0])
            begun = np.ones(self.trace_count, np.bool_)
            changes, _ = all_ticks(self._changes.between(start, limit), begun, time_stamps, numbers)
        self._native.add(native.Batch(time_stamps, numbers, count))
        self.done = max(self.done, limit)
        times, traces = (
            np.frombuffer(found, kind)
            for found, kind in zip(self._native.find(limit), (np.int64, np.uint32), strict=True)
        )
        if changes is not None and len(changes):
            times = np.concatenate([times, changes.time_stamps])
            traces = np.concatenate([traces, changes.numbers])
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
        return counts

    def time_behind(self, count: int) -> int:
        """Return a time below which about so many ticks are due.

        There is at least one if any is, and if not too many ticks come before it.
        """
        time = self._native.time_behind(count)
        if self._changes is None:
            return time
        horizon = self._changes.horizon(self.done)
        changes = self._changes.between(self.done, horizon)
        place = max(1, count // max(1, self.trace_count)) - 1
        return min(time, int(changes[place]) + 1 if place < len(changes) else horizon)

    def begin(self) -> None:
        """Let `undo` return to the present state from now on."""
        self._native.begin()
        self._marked_done = self.done

    def undo(self) -> None:
        """Return to the state at the last `begin`."""
        self._native.undo()
        self.done = self._marked_done

    def clear_settled(self, flags: NDArray[np.uint8]) -> None:
        """Clear the flags of traces that have ticks."""
        flags[: self.trace_count] = 0

    def kept(self, new_numbers: bytes) -> DueTicks:
        """Return what goes on with new numbers of traces; see `StreamProgram.keep`."""
        self._native.keep(new_numbers)
        return self

    def followed_by_all(self) -> Ticking:
        """Return what finds all ticks from here on."""
        return Ticking(self.periods, self.done, np.ones(self.trace_count, np.bool_))

    def emptied(self) -> DueTicks:
        """Return what begins before the first row."""
        return DueTicks(self.periods, self._delays, self._changes)

    def snapshot(self) -> bytes:
        """Return what is remembered as bytes for `restored`."""
        return self.done.to_bytes(8, "little") + self._native.snapshot()

    def restored(self, snapshot: bytes) -> DueTicks:
        """Return what a snapshot remembers.

        Raises:
            ValueError: the bytes are not a snapshot.
        """
        found = self.emptied()
        found.done = int.from_bytes(snapshot[:8], "little")
        if len(snapshot) < 8 or found.done > _LATEST:
            raise ValueError("not a snapshot of ticks")
        try:
            found._native.restore(snapshot[8:])
        except SnapshotError as error:
            raise ValueError(str(error)) from None
        found.begin()
        return found
