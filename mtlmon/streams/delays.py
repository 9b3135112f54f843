"""When rows make a difference to values at ticks, found from the layers of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.environment import NOTHING
from mtlmon.policy.predicates.expression import columns
from mtlmon.policy.predicates.time_points import CHANGES, ROWS
from mtlmon.streams.instances import FamilyTask, LookUpTask, NullTask, OverTask
from mtlmon.streams.layer import ChoiceTask, KernelTask
from mtlmon.streams.motion import Motions
from mtlmon.streams.recursion import MachineTask
from mtlmon.streams.repeated_ticks import REPEATABLE, delay_of
from mtlmon.streams.self_changes import Lengths, SelfChanges, Sources
from mtlmon.streams.time_changes import TimeChanges
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.streams.instances import Family
    from mtlmon.streams.kernels import Kernel
    from mtlmon.streams.layer import Layer, Part, Task

# With more delays, it is cheaper to compute all ticks.
_MOST_DELAYS = 64
_READS_TRACE = "an instance reads streams of its trace at its ticks"


class Obstacle(NamedTuple):
    """Why values at ticks may change at other times than those that are known.

    Attributes:
        reason: what lets them change, in words.
        node: the aggregate or offset that does so, if it is one.
        stream: the stream whose expression does so, if it is one.
    """

    reason: str
    node: Expression | None = None
    stream: str | None = None


class Delays:
    """After how much time rows make a difference to values at ticks, and what else does.

    Attributes:
        obstacles: why it is not known at which ticks values may change; empty if it is.
        delays: the delays; 0 is among them, because the first row of a trace begins its ticks.
        bounds: the bounds of all windows.
        motions: how values change with the time alone.
        machines: the streams that read themselves, by the period of their ticks.
        stay: for how long values may go on to change after a row.
        filling: for how long windows of ticks may go on to change after a tick at which what they
            look at changed.
        time_delays: after how much time a change makes a difference that is not due to a row.
    """

    def __init__(self, motions: Motions) -> None:
        self.obstacles: list[Obstacle] = []
        self.delays = {0}
        self.bounds = {0}
        self.motions = motions
        self.machines: dict[int, list[MachineTask]] = {}
        self.stay = 0
        self.filling = 0
        self.time_delays = {0}
        # what reads ticks, and becomes something else if some are left out
        self._of_last: list[tuple[Kernel, int]] = []
        self._windows: list[KernelTask] = []
        self._stepping: list[KernelTask] = []
        self._filling_below = 0

    def begin_layer(self) -> None:
        """Begin with windows that may look at the results of all those before."""
        self._filling_below = self.filling

    def add(self, kernel: Kernel) -> None:
        """Add the delays of a window or offset over rows."""
        lower, upper, *_ = kernel.extent
        self.delays.add(lower)
        self.bounds.add(lower)
        if upper >= 0:
            self.delays.add(upper + 1)
            self.bounds.add(upper)

    def add_integral(self, kernel: Kernel) -> bool:
        """Add the delays of an integral over rows.

        It grows at each tick from the one at which a row enters the window. When the row is no
        later than the window, the value that the row brought is held throughout the window, and the
        integral stays as it is. One below lines has no value from then on.

        Returns:
            Whether the window ends.
        """
        lower, upper, *_ = kernel.extent
        if upper < 0:
            return False
        self.delays |= {lower, upper}
        if ops.LINEAR in kernel.node.window.parameters:
            self.delays.add(upper + 1)
        self.bounds |= {lower, upper}
        self.stay = max(self.stay, upper)
        return True

    def add_task(self, task: KernelTask, *, can_leave_out: bool) -> None:
        """Add the delays of a window or offset at ticks, or over ticks; see `delays_of`."""
        (kernel,) = task.kernels
        node, extent = kernel.node, kernel.extent
        argument, period = task.argument_period, _without_changes(task.period)
        if argument == ROWS and node.operator is ops.WINDOW_INTEGRAL:
            if not self.add_integral(kernel):
                self.obstacles.append(Obstacle(f"{node} goes back without limit", node))
            return
        if argument == ROWS:
            self.add(kernel)
            return
        is_repeatable = (
            node.operator in REPEATABLE
            and argument > ROWS
            and period > ROWS
            and not period % argument
            and not 0 <= extent.upper < delay_of(kernel, argument)
        )
        if is_repeatable and not can_leave_out:
            delay = delay_of(kernel, argument)
            if extent.upper >= 0 or delay:
                self._windows.append(task)
            last = extent.upper // argument * argument
            if delay:
                self.shift(delay, *([last] if extent.upper >= 0 else []))
                return
            if extent.upper >= 0:
                self.shift(last)
            if extent.lower:
                self.shift(argument)
            return
        can_step = (
            argument > ROWS
            and period > ROWS
            and not period % argument
            and kernel.can_step_over_ticks(argument)
        )
        if can_step and not can_leave_out:
            self._stepping.append(task)
            last = extent.upper // argument * argument
            self.filling = max(self.filling, self._filling_below + last)
            return
        has_gaps = can_leave_out or task.may_be_null
        ago = _time_ago(kernel, argument, task.period, has_gaps=has_gaps)
        if ago is None:
            reason = _reason_of_ticks(kernel, has_gaps, is_repeatable or can_step)
            self.obstacles.append(Obstacle(f"{node} {reason}", node))
            return
        if extent.distance:
            self._of_last.append((kernel, ago))
        if period != ROWS:
            self.shift(ago)

    def change_kernels(self) -> None:
        """Let windows and offsets over ticks do without those that are left out."""
        for kernel, ago in self._of_last:
            kernel.look_back(ago)
        for task in self._windows:
            task.repeat_ticks()
        for task in self._stepping:
            for kernel in task.kernels:
                kernel.step_over_ticks(task.argument_period)

    def shift(self, *lengths: int) -> None:
        """Add delays that are longer by each of some lengths of time."""
        self.delays |= {delay + length for delay in self.delays for length in lengths}
        self.time_delays |= {delay + length for delay in self.time_delays for length in lengths}
        self.bounds |= {*lengths}

    def end_instances(self, family: Family, periods: Sequence[int]) -> None:
        """Add the lengths of time after which instances end, for ticks of some periods."""
        if family.ticks_of_ends is not None:
            self.obstacles.append(Obstacle("instances end by their values at ticks"))
        lifetime = family.lifetime
        if lifetime.clock != ROWS:
            self.obstacles.append(Obstacle("instances begin at ticks"))
        for length in filter(None, (lifetime.age, lifetime.silence)):
            self.delays.add(length)
            # `> 10m` is one unit more, but rows between two ticks make the same difference
            is_multiple = all(not length % period for period in periods)
            self.bounds.add(length if is_multiple else length - 1)

    def join(self, other: Delays) -> None:
        """Add the delays of others."""
        self.delays |= other.delays
        self.bounds |= other.bounds

    @property
    def has_own_changes(self) -> bool:
        """Whether values may change for a trace at other times than after delays."""
        is_moving = any(self.motions.crossings.values())
        return bool(self.machines or self.stay or self.filling or is_moving)

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
        later = max(periods) if len(periods) > 1 else 0
        # such values are read at the next tick of a longer period, too
        filling = self.filling + later if self.filling else 0
        linger = max(self.time_delays) + self.filling + later
        stay = self.stay + linger if self.stay else 0
        crossings = self.motions.crossings
        lengths = Lengths(stay, filling, linger)
        sources = Sources(crossings, self.machines, lengths, schema, environment)
        return SelfChanges(sources, periods)


def delays_of(
    layers: Sequence[Layer],
    motions: Motions,
    outputs: Iterable[tuple[int, str]],
    of_instances: Mapping[int, tuple[int, Delays]],
    *,
    can_leave_out: bool = False,
) -> Delays:
    """Return when rows make a difference to the values at ticks, or what else does.

    What else does is an obstacle: the time of a tick as such, where it is compared with nothing,
    windows of earlier ticks, and integrals without a beginning. Parts such as `hour(ts) >= 22`
    rarely change, and do so for all traces at once. A value a certain time ago changes that much
    later, if ticks of its stream coincide with those of the result; `.last()` is that one period
    ago, and `.last(2)` that two periods ago if the argument is never null. If there are no
    obstacles, the kernels of such offsets are made ones of `.at()`, as these need not see every
    tick.

    Args:
        layers: the layers of a program, which has had no rows.
        motions: finds how values change with the time alone; nothing has been added to it.
        outputs: the columns that are wanted, with their periods.
        of_instances: for the numbers of ticks of instances their period, 0 if they count it from
            their beginnings, and when rows make a difference to the values there.
        can_leave_out: whether ticks may be left out, so that `.last(2)` may be any ticks ago.
    """
    found = Delays(motions)
    parts_of = {
        (period, name): part
        for layer in layers
        for period, parts in layer.parts.items()
        for name, part in parts.items()
    }
    for layer in layers:
        found.begin_layer()
        for period, parts in layer.parts.items():
            if ROWS < period < CHANGES:
                found.obstacles += [
                    _of_part(part, "changes with the time at ticks that are not known")
                    for part in motions.add(period, parts)
                ]
                found.obstacles += _of_look_ups(parts.values())
        for task in layer.tasks:
            argument, period = task.argument_period, _without_changes(task.period)
            if isinstance(task, ChoiceTask) and period < ROWS:
                found.obstacles.append(Obstacle(_READS_TRACE))
            elif isinstance(task, ChoiceTask):
                motions.copy(task.argument, argument, task.result, period)
            elif argument in of_instances and period > ROWS:
                own_period, delays = of_instances[argument]
                if not own_period:
                    reason = "instances with ticks from their beginnings are read at ticks"
                    found.obstacles.append(Obstacle(reason))
                elif period % own_period:
                    reason = f"instances with ticks every {own_period} are read at other ticks"
                    found.obstacles.append(Obstacle(reason))
                found.join(delays)
            elif max(period, argument) <= ROWS:
                continue
            elif isinstance(task, FamilyTask | NullTask):
                # `end_instances` knows of them
                continue
            elif not isinstance(task, KernelTask | MachineTask):
                found.obstacles.append(Obstacle("instances of rows are read at ticks"))
            elif any((argument, name) in motions.moving for name in task.reads):
                found.obstacles += _of_moving(task)
            elif isinstance(task, MachineTask):
                if not task.can_rest:
                    found.obstacles += _of_machine(task)
                found.machines.setdefault(period, []).append(task)
            else:
                found.add_task(task, can_leave_out=can_leave_out)
    for _, delays in of_instances.values():
        found.obstacles += delays.obstacles
    if of_instances and found.has_own_changes:
        reason = "instances are read beside values that change without rows"
        found.obstacles.append(Obstacle(reason))
    for output in outputs:
        if output in motions.moving:
            part = parts_of.get(output)
            reason = "changes at every tick"
            found.obstacles.append(
                Obstacle(f"a value {reason}") if part is None else _of_part(part, reason)
            )
    if len(found.delays) > _MOST_DELAYS:
        reason = f"rows make a difference after more than {_MOST_DELAYS} lengths of time"
        found.obstacles.append(Obstacle(reason))
    if not found.obstacles:
        found.change_kernels()
    return found


def _of_part(part: Part, reason: str) -> Obstacle:
    origin = part.origin
    stream = origin.name if origin.role == "stream" else None
    return Obstacle(f"{part.expression} {reason}", None, stream)


def _of_look_ups(parts: Iterable[Part]) -> list[Obstacle]:
    return [
        _of_part(part, "changes with the records of a relation")
        for part in parts
        if any(node.operator in ops.LOOK_UPS for node in postorder(part.expression))
    ]


def _of_moving(task: KernelTask | MachineTask) -> list[Obstacle]:
    return [
        Obstacle(f"{kernel.node} takes a value that changes at every tick", kernel.node)
        for kernel in task.kernels
    ]


def _of_machine(task: MachineTask) -> list[Obstacle]:
    """Say why streams that read themselves do not rest."""
    kernels = [one for one in task.kernels if not one.can_rest] or task.kernels
    return [Obstacle(f"a stream reads itself by {one.node}", one.node) for one in kernels]


def _time_ago(kernel: Kernel, argument: int, period: int, *, has_gaps: bool) -> int | None:
    """Return how long before a result the value is that an offset of ticks reads.

    Args:
        kernel: the offset.
        argument: the time-points of its argument.
        period: those of its results.
        has_gaps: whether the argument may have no value at a tick, so that `.last(2)` and
            `.hold(1)` may be any ticks ago.

    Returns:
        A length of time; None if not only this matters.
    """
    operator, extent = kernel.node.operator, kernel.extent
    if argument <= ROWS:
        return None
    if extent.distance == 1 or (extent.distance and not has_gaps):
        ago = (extent.distance - 1) * argument
        if period == ROWS:
            # The last tick that a row sees is up to one period below the row.
            ago += 0 if extent.distance == 1 else 1
        elif operator is ops.LAST:
            # A change sees the tick at its own time, too, which is not below it.
            ago += 1 if period >= CHANGES else argument
    elif kernel.keeps_latest:
        ago = extent.lower
    else:
        return None
    period = _without_changes(period)
    is_known = period == ROWS or (period % argument == 0 and ago % argument == 0)
    return ago if is_known else None


def _without_changes(period: int) -> int:
    """Return time-points with `ROWS` in the place of changes, which are at any time as rows are."""
    return ROWS if period >= CHANGES else period


def _reason_of_ticks(kernel: Kernel, has_gaps: bool, is_repeatable: bool) -> str:
    """Say why it is not known how long before a result the ticks are that a kernel reads."""
    operator = kernel.node.operator
    if is_repeatable:
        return "looks at ticks of which some may be left out"
    if has_gaps and kernel.extent.distance > 1:
        return "passes over ticks that have no value"
    if operator in ops.OFFSETS.values():
        return "is not at ticks of its stream"
    return "looks at ticks"


def delays_of_instances(layers: Sequence[Layer], time: str | None, frame: int, rows: int) -> Delays:
    """Return when rows make a difference to values at ticks of instances; see `delays_of`.

    Args:
        layers: the layers of a program.
        time: the name of the time column, if there is one.
        frame: the number of these ticks.
        rows: that of the rows of the instances.
    """
    found = Delays(Motions(NOTHING, pa.schema([])))

    def refuse(task: Task, reason: str) -> None:
        found.obstacles += [
            Obstacle(f"{kernel.node} {reason}", kernel.node) for kernel in task.kernels
        ] or [Obstacle(f"a value {reason}")]

    for layer in layers:
        found.obstacles += [
            _of_part(part, "changes with the time")
            for part in layer.parts.get(frame, {}).values()
            if time in columns(part.expression)
        ]
        found.obstacles += _of_look_ups(layer.parts.get(frame, {}).values())
        for task in layer.tasks:
            argument, period = task.argument_period, task.period
            if frame not in {argument, period}:
                continue
            operators = {kernel.node.operator for kernel in task.kernels}
            if period == frame and isinstance(task, LookUpTask | OverTask):
                found.obstacles.append(Obstacle("an instance reads others at its ticks"))
            elif period == frame and isinstance(task, ChoiceTask):
                found.obstacles.append(Obstacle(_READS_TRACE))
            elif period != frame:
                # what is held between ticks, in the instance or from outside of it
                if not all(kernel.keeps_latest for kernel in task.kernels):
                    refuse(task, "looks at ticks of an instance")
            elif argument == frame:
                is_held = operators == {ops.HOLD} and task.kernels[0].keeps_latest
                if not isinstance(task, KernelTask) or not is_held:
                    refuse(task, "looks at earlier ticks of an instance")
            elif argument < ROWS and argument != rows:
                refuse(task, "changes in an instance at rows of others")
            elif ops.WINDOW_INTEGRAL in operators:
                refuse(task, "changes in an instance without rows")
            else:
                for kernel in task.kernels:
                    found.add(kernel)
    return found
