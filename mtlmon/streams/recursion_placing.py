"""Places streams that read their own earlier values, or each other's, as one machine.

A machine rests when a tick leaves its state unchanged, which it finds out by the values of the tick
before. Therefore `.last(3)` of a stream itself is three steps of `.last()`, and `.at(-1m)` has a
`.last()` beside it (`Memories`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.expression import Expression, Offset
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.policy.predicates.time_points import MEMORY, ROWS
from mtlmon.policy.templates import OF_INSTANCES, with_keys
from mtlmon.streams.declarations import EXAMPLE, NAMED, error_at
from mtlmon.streams.dependencies import present_order
from mtlmon.streams.kernels import Extent
from mtlmon.streams.layer_columns import Placed, read
from mtlmon.streams.recursion import Member, Memory, Recursion
from mtlmon.streams.waiting import chosen_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.policy.predicates.expression import Constant
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.streams.cells import Texts
    from mtlmon.streams.declarations import Declarations, Name
    from mtlmon.streams.dependencies import Need
    from mtlmon.streams.layer_columns import LayerColumns
    from mtlmon.streams.placing import Placer
    from mtlmon.streams.recursion import MachineTask

# A value up to so many ticks ago is that many values of the tick before.
_MOST_STEPS = 8


class RecursionPlacer:
    """Places groups of streams that need themselves.

    Args:
        placer: what places the expressions that a group reads.
        declared: the streams.
        columns: the columns of all layers.
        texts: the texts of machines and kernels.
    """

    def __init__(
        self, placer: Placer, declared: Declarations, columns: LayerColumns, texts: Texts
    ) -> None:
        self._placer = placer
        self._declared = declared
        self._columns = columns
        self._texts = texts
        # The time-points of the columns that machines read.
        self._column_periods: dict[str, int] = {}

    def place(self, group: list[Name], needs: Mapping[Name, list[Need[Name]]]) -> None:
        """Place streams that read their own earlier values."""
        for name in group:
            for part, points in self._declared.parts_of_lifetime(name.name):
                if any(need.name in group for need in self._declared.names(part, points)):
                    message = f"stream {name.name} needs its own values to know its instances"
                    hint = "per, from and until are about columns, atoms and other streams"
                    raise error_at(part, part.expression, message, hint)
        period = group[0].period
        for other in group:
            if other.period != period and min(period, other.period) < ROWS:
                self._refuse_circle(group[0], other)
        order = self._ordered(group, needs)
        own = {name: f"{self._columns.prefix}own {number}" for number, name in enumerate(order)}
        members: list[Member] = []
        memories = Memories(self._columns.prefix)
        layer = 0
        for name in order:
            layer = max(layer, self._placer.instances.first_layer(name.period))
            parts = self._declared.parts(name.name)
            replaced = []
            for part in parts:
                expression, lowest = self._over_columns(part, name.period, own, memories)
                layer = max(layer, lowest)
                replaced.append(expression)
            on = replaced[1] if len(replaced) > 1 else None
            members.append(Member(own[name], replaced[0], on, parts, name.period))

        task = self._task(members, memories)
        self._placer.add_task(task, layer)
        columns = [port.name for port in task.outputs]
        for name, column in zip(order, columns, strict=True):
            part = self._declared.parts(name.name)[0]
            value = read(column, part.expression)
            stream = self._declared.streams.get(name.name)
            if stream is not None and stream.kind is not None:
                self._columns.require(value, part, stream.kind)
            self._placer.known[name] = Placed(value, layer + 1)

    def ending(self, frame: int, end: Predicate) -> tuple[MachineTask, list[Name], int]:
        """Make the machine of the streams that say where instances end.

        It computes all that looks at other time-points of the instance, as it is not known before
        which these are.

        Args:
            frame: the number of the rows or ticks of instances at which the streams have values.
            end: the condition that ends them.

        Returns:
            The machine, the streams whose values are its outputs, before the condition, and the
            layer of what it reads.
        """
        group = self._declared.ending_by(frame, end)
        needs = {
            name: [
                need
                for part in self._declared.parts(name.name)
                for need in self._declared.names(part, frame)
            ]
            for name in group
        }
        order = self._ordered(group, needs)
        own = {name: f"{self._columns.prefix}own {number}" for number, name in enumerate(order)}
        members: list[Member] = []
        memories = Memories(self._columns.prefix)
        layer = 0
        per = self._declared.stream_of(frame).per
        rows = self._declared.frame_of(self._declared.lifetime_and_period(frame)[0], ROWS)
        # nothing but streams of the instance has values at its ticks
        outside: dict[int, int | None] = {frame: None, rows: self._declared.of_trace(rows)}
        for name in [*order, None]:
            parts = [end] if name is None else self._declared.parts(name.name)
            replaced = []
            for part in parts:
                is_at_ticks = frame != rows
                keyed = part.with_expression(
                    with_keys(part.expression, per, is_at_ticks=is_at_ticks)
                )
                expression, lowest = self._over_columns(keyed, frame, own, memories, outside)
                layer = max(layer, lowest)
                replaced.append(expression)
            column = f"{self._columns.prefix}end" if name is None else own[name]
            on = replaced[1] if len(replaced) > 1 else None
            members.append(Member(column, replaced[0], on, parts, frame))
        return self._task(members, memories), order, layer

    def _ordered(self, group: list[Name], needs: Mapping[Name, list[Need[Name]]]) -> list[Name]:
        """Sort the streams of a group so that each comes after those whose value it needs."""
        order = present_order(group, needs)
        rest = [name for name in group if name not in order]
        if rest:
            where = "row" if self._declared.is_of_rows(rest[0].period) else "tick"
            self._refuse([name.name for name in rest], where)
        return order

    def _task(self, members: list[Member], memories: Memories) -> MachineTask:
        """Make the machine of some streams, whose columns are new."""
        try:
            recursion = Recursion(
                members,
                memories.all,
                self._columns.schema,
                self._column_periods,
                self._columns.kinds,
                self._texts,
            )
        except NotPossible as error:
            part = members[0].origins[0]
            raise error_at(part, part.expression, str(error)) from None
        return recursion.task(
            [self._columns.new_column(column_type(kind)) for kind in recursion.kinds]
        )

    def _over_columns(
        self,
        part: Predicate,
        period: int,
        own: Mapping[Name, str],
        memories: Memories,
        outside: Mapping[int, int | None] | None = None,
    ) -> tuple[Expression, int]:
        """Replace what does not depend on a group by columns, and its memories likewise.

        Args:
            part: an expression of the group.
            period: its time-points.
            own: the columns that stand for the streams of the group.
            memories: the aggregates and offsets that were found so far; more are added.
            outside: for time-points that are not known before, those of columns that stand for
                them, or None where no columns do.

        Returns:
            The expression, and the layer of the columns.
        """
        layer = 0
        outside = outside or {}
        # None for what does not depend on the group.
        replaced: dict[tuple[int, int], Expression | None] = {}

        def over_columns(node: Expression, points: int) -> Expression:
            nonlocal layer
            found = replaced[id(node), points]
            if found is not None:
                return found
            if node.operator is ops.CONSTANT:
                return node
            known = outside.get(points, points)
            if known is None:
                message = f"{node} has no value at the ticks that end an instance"
                raise error_at(part, node, message, f"take a window of rows there, as in {EXAMPLE}")
            points = known
            column, lowest = self._columns.column(
                self._placer.place(node, part, points), part, points
            )
            self._column_periods[column] = points
            layer = max(layer, lowest)
            return read(column, node)

        for node, points in self._placer.nodes(part.expression, part, period):
            if node.operator in OF_INSTANCES and self._declared.name_of_instances(node) in own:
                message = "a stream cannot depend on other instances of itself"
                raise error_at(part, node, message, "name an instance of another stream")
            if node.operator in OF_INSTANCES and outside.get(points, points) is None:
                message = f"{node} reads other instances, which cannot end an instance at its ticks"
                raise error_at(part, node, message, "let it end by values of its own, or by age()")
            inner = points
            if node.operator in MEMORY:
                inner = self._declared.argument_period(node, part, points)
            if (
                node.operator is ops.LAST
                and inner != points
                and (outside.get(inner) or ROWS) > ROWS
            ):
                message = f"{node} in what ends an instance may be of the same tick"
                hint = f"write {node.operands[0]}.hold(), or .hold(1) for the value before"
                raise error_at(part, node, message, hint)
            if node.operator in NAMED and (name := self._declared.name(node, points, part)) in own:
                replaced[id(node), points] = read(own[name], node)
            elif node.operator is ops.OVER:
                if any(replaced[id(operand), inner] is not None for operand in node.operands[1:]):
                    message = "a stream cannot choose a group of instances by its own values"
                    raise error_at(part, node, message, "name a value of the row behind by")
                replaced[id(node), points] = None
            elif (
                all(replaced[id(operand), inner] is None for operand in node.operands)
                and not (node.operator in MEMORY and inner in outside)
                and (outside.get(points, points) is not None or not node.operands)
            ):
                replaced[id(node), points] = None
            else:
                operands = tuple(over_columns(operand, inner) for operand in node.operands)
                written = node
                if node.operator is ops.COUNT_ROWS:
                    # what a machine counts has a value
                    operands = (Expression(ops.CONSTANT, (), True, node.span),)
                    written = Expression(ops.WINDOW_COUNT, operands, node.value, node.span)
                found = Expression(written.operator, operands, node.value, node.span)
                if node.operator in MEMORY:
                    extent = self._declared.extent(node, part)
                    are_apart = self._declared.is_of_rows(points) != self._declared.is_of_rows(
                        inner
                    )
                    found = memories.column(
                        written, extent, found, part, points, inner, are_apart=are_apart
                    )
                replaced[id(node), points] = found
        return over_columns(part.expression, period), layer

    def _refuse_circle(self, one: Name, other: Name) -> NoReturn:
        """Raise the error of streams that need each other, but not all in the same instances."""
        predicate = self._declared.parts(one.name)[0]
        message = f"streams {one.name} and {other.name} read each other, but not per instance"
        hint = "per, from, until and every must be the same for streams that read each other"
        raise error_at(predicate, predicate.expression, message, hint)

    def _refuse(self, names: list[str], where: str) -> NoReturn:
        """Raise the error of streams that need their own values at the same row or tick."""
        predicate = self._declared.parts(names[0])[0]
        if len(names) == 1:
            message = f"stream {names[0]} needs its own value at the same {where}"
        else:
            message = f"streams {', '.join(names)} need each other at the same {where}"
        hint = f"write {names[0]}.last(or: 0) for the value at an earlier {where}"
        raise error_at(predicate, predicate.expression, message, hint)


class Memories:
    """The aggregates and offsets of a group, written so that streams at ticks can rest.

    A stream rests when a tick leaves its state as it was, which is easily seen where all memories
    keep one value: `.last()`. So `x.last(3)` becomes `x.last().last().last()`, where the last two
    only take a value at ticks where x has one. `x.hold(1)` is `x.last()` at such a tick, and
    `x.last(2)` at others. Beside `x.at(-1m)` there is `x.last()`, which tells
    at which ticks x changes.

    Args:
        prefix: what the names of columns begin with.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._found: dict[tuple[int, int, Expression], Memory] = {}

    @property
    def all(self) -> list[Memory]:
        """The memories, each after those in its argument."""
        return [*self._found.values()]

    def column(
        self,
        node: Expression,
        extent: Extent,
        whole: Expression,
        origin: Predicate,
        period: int,
        argument_period: int,
        *,
        are_apart: bool = False,
    ) -> Expression:
        """Add a memory, if it is new, and return what reads its results; see `Memory`."""
        argument = whole.operands[0] if whole.operands else whole
        is_at_ticks = period == argument_period > ROWS
        if is_at_ticks and node.operator in {ops.AT, ops.HOLD} and not extent.distance:
            self._last(node, argument, None, origin, period)
        if is_at_ticks and 1 < extent.distance <= _MOST_STEPS:
            found = self._earlier(node, argument, extent.distance, origin, period)
            if node.operator is ops.LAST:
                return found
            nearer = self._earlier(node, argument, extent.distance - 1, origin, period)
            return Expression(ops.IF, (_has_value(argument), nearer, found), None, node.span)
        key = period, argument_period, whole
        if key not in self._found:
            column = f"{self._prefix}kept {len(self._found)}"
            self._found[key] = Memory(
                column, node, extent, whole, origin, period, argument_period, are_apart
            )
        return read(self._found[key].column, node)

    def _earlier(
        self,
        node: Expression,
        argument: Expression,
        distance: int,
        origin: Predicate,
        period: int,
    ) -> Expression:
        """Add an earlier value of an argument at ticks, from the last one of each value on."""
        value = argument
        for _ in range(distance - 1):
            before = self._last(node, value, None, origin, period)
            value = chosen_value(_has_value(argument), before, None)
        return self._last(node, value, node.offset.default, origin, period)

    def _last(
        self,
        node: Expression,
        argument: Expression,
        default: Constant,
        origin: Predicate,
        period: int,
    ) -> Expression:
        """Add the last value of an argument at ticks, for an offset as written."""
        offset = Offset(1, default)
        last = Expression(ops.LAST, node.operands, offset, node.span)
        whole = Expression(ops.LAST, (argument,), offset, node.span)
        return self.column(last, Extent(0, -1, 1), whole, origin, period, period)


def _has_value(argument: Expression) -> Expression:
    return Expression(ops.IS_NOT_NULL, (argument,), None, argument.span)
