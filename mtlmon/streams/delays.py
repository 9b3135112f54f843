"""When rows make a difference to values at ticks, found from the layers of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.environment import NOTHING
from mtlmon.policy.predicates.expression import columns
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams.layer import ChoiceTask, KernelTask
from mtlmon.streams.motion import Motions
from mtlmon.streams.recursion import MachineTask
from mtlmon.streams.self_changes import SelfChanges, Sources
from mtlmon.streams.time_changes import TimeChanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.streams.kernels import Kernel
    from mtlmon.streams.layer import Layer, Part

# With more delays, it is cheaper to compute all ticks.
_MOST_DELAYS = 64


class Delays:
    """After how much time rows make a difference to values at ticks, and what else does.

    Attributes:
        delays: the delays; 0 is among them, because the first row of a trace begins its ticks.
        bounds: the bounds of all windows.
        motions: how values change with the time alone.
        machines: the streams that read themselves, by the period of their ticks.
        stay: for how long values may go on to change after a row.
        time_delays: after how much time a change makes a difference that is not due to a row.
    """

    def __init__(self, motions: Motions) -> None:
        self.delays = {0}
        self.bounds = {0}
        self.motions = motions
        self.machines: dict[int, list[MachineTask]] = {}
        self.stay = 0
        self.time_delays = {0}

    def add(self, kernel: Kernel) -> None:
        """Add the delays of a window or offset over rows."""
        lower, upper, _ = kernel.extent
        self.delays.add(lower)
        self.bounds.add(lower)
        if upper >= 0:
            self.delays.add(upper + 1)
            self.bounds.add(upper)

    def add_integral(self, kernel: Kernel) -> bool:
        """Add the delays of an integral over rows.

        It grows at each tick from the one at which a row enters the window. When the row is no
        later than the window, the value that the row brought is held throughout the window, and the
        integral stays as it is.

        Returns:
            Whether the window ends.
        """
        lower, upper, _ = kernel.extent
        if upper < 0:
            return False
        self.delays |= {lower, upper}
        self.bounds |= {lower, upper}
        self.stay = max(self.stay, upper)
        return True

    def shift(self, length: int) -> None:
        """Add delays that are longer by a length of time."""
        self.delays |= {delay + length for delay in self.delays}
        self.time_delays |= {delay + length for delay in self.time_delays}
        self.bounds.add(length)

    def join(self, other: Delays) -> None:
        """Add the delays of others."""
        self.delays |= other.delays
        self.bounds |= other.bounds

    @property
    def has_own_changes(self) -> bool:
        """Whether values may change for a trace at other times than after delays."""
        return bool(self.machines or self.stay or any(self.motions.crossings.values()))

    def time_changes(
        self, periods: Sequence[int], schema: pa.Schema, environment: Environment
    ) -> TimeChanges | None:
        """Return what finds the ticks at which values of time change for all traces, if any do."""
        slow = self.motions.slow
        if not slow:
            return None
        return TimeChanges(slow, self.time_delays, periods, schema, environment)

    def self_changes(
        self, periods: Sequence[int], schema: pa.Schema, environment: Environment
    ) -> SelfChanges | None:
        """Return what finds the other ticks at which values of a trace change, if any do."""
        if not self.has_own_changes:
            return None
        # what reads a value at ticks of another period does so later
        linger = max(self.time_delays) + (max(periods) if len(periods) > 1 else 0)
        stay = self.stay + linger if self.stay else 0
        crossings = self.motions.crossings
        sources = Sources(crossings, self.machines, stay, linger, schema, environment)
        return SelfChanges(sources, periods)


def delays_of(
    layers: Sequence[Layer],
    motions: Motions,
    outputs: Iterable[tuple[int, str]],
    of_instances: Mapping[int, tuple[int, Delays | None]],
    *,
    can_leave_out: bool = False,
) -> Delays | None:
    """Return when rows make a difference to the values at ticks; None if other things do, too.

    Other things are the time of a tick as such, where it is compared with nothing, windows of
    earlier ticks, and integrals without a beginning. Parts such as `hour(ts) >= 22` rarely change,
    and do so for all traces at once. A value a certain time ago changes that much later, if ticks
    of its stream coincide with those of the result; `.last()` is that one period ago, and
    `.last(2)` that two periods ago if the argument is never null. If delays are found, the kernels
    of such offsets are made ones of `.at()`, as these need not see every tick.

    Args:
        layers: the layers of a program, which has had no rows.
        motions: finds how values change with the time alone; nothing has been added to it.
        outputs: the columns that are wanted, with their periods.
        of_instances: for the numbers of ticks of instances their period, and when rows make a
            difference to the values there.
        can_leave_out: whether ticks may be left out, so that `.last(2)` may be any ticks ago.
    """
    found = Delays(motions)
    of_last: list[tuple[Kernel, int]] = []
    for layer in layers:
        for period, parts in layer.parts.items():
            if period > ROWS and not motions.add(period, parts):
                return None
        for task in layer.tasks:
            argument, period = task.argument_period, task.period
            if isinstance(task, ChoiceTask):
                motions.copy(task.argument, argument, task.result, period)
                continue
            if argument in of_instances and period > ROWS:
                own_period, delays = of_instances[argument]
                if delays is None or period % own_period:
                    return None
                found.join(delays)
                continue
            if max(period, argument) <= ROWS:
                continue
            if not isinstance(task, KernelTask | MachineTask):
                return None
            if any((argument, name) in motions.moving for name in task.reads):
                return None
            if isinstance(task, MachineTask):
                if not task.can_rest:
                    return None
                found.machines.setdefault(period, []).append(task)
                continue
            (kernel,) = task.kernels
            operator = kernel.node.operator
            if argument == ROWS and operator is ops.WINDOW_INTEGRAL:
                if not found.add_integral(kernel):
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
    if of_instances and found.has_own_changes:
        return None
    if any(output in motions.moving for output in outputs):
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
    found = Delays(Motions(NOTHING, pa.schema([])))
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
