"""Places streams that read their own earlier values, or each other's, as one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.policy.predicates.time_points import MEMORY, ROWS
from mtlmon.policy.templates import OF_INSTANCES
from mtlmon.streams.declarations import NAMED, error_at
from mtlmon.streams.dependencies import present_order
from mtlmon.streams.layer_columns import Placed, read
from mtlmon.streams.recursion import Member, Memory, Recursion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.streams.cells import Texts
    from mtlmon.streams.declarations import Declarations, Name
    from mtlmon.streams.dependencies import Need
    from mtlmon.streams.layer_columns import LayerColumns
    from mtlmon.streams.placing import Placer


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
            for part in self._declared.parts_of_lifetime(name.name):
                if any(need.name in group for need in self._declared.names(part, ROWS)):
                    message = f"stream {name.name} needs its own values to know its instances"
                    hint = "per, from and until are about columns, atoms and other streams"
                    raise error_at(part, part.expression, message, hint)
        period = group[0].period
        for other in group:
            if other.period != period and min(period, other.period) < ROWS:
                self._refuse_circle(group[0], other)
        order = present_order(group, needs)
        rest = [name for name in group if name not in order]
        if rest:
            where = "row" if self._declared.is_of_rows(rest[0].period) else "tick"
            self._refuse([name.name for name in rest], where)
        own = {name: f"{self._columns.prefix}own {number}" for number, name in enumerate(order)}
        members: list[Member] = []
        memories: dict[tuple[int, int, Expression], Memory] = {}
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

        found = [*memories.values()]
        try:
            recursion = Recursion(
                members,
                found,
                self._columns.schema,
                self._column_periods,
                self._columns.kinds,
                self._texts,
            )
        except NotPossible as error:
            part = self._declared.parts(order[0].name)[0]
            raise error_at(part, part.expression, str(error)) from None
        columns = [self._columns.new_column(column_type(kind)) for kind in recursion.kinds]
        self._placer.add_task(recursion.task(columns), layer)
        for name, column in zip(order, columns, strict=True):
            part = self._declared.parts(name.name)[0]
            value = read(column, part.expression)
            stream = self._declared.streams.get(name.name)
            if stream is not None and stream.kind is not None:
                self._columns.require(value, part, stream.kind)
            self._placer.known[name] = Placed(value, layer + 1)

    def _over_columns(
        self,
        part: Predicate,
        period: int,
        own: Mapping[Name, str],
        memories: dict[tuple[int, int, Expression], Memory],
    ) -> tuple[Expression, int]:
        """Replace what does not depend on a group by columns, and its memories likewise.

        Args:
            part: an expression of the group.
            period: its time-points.
            own: the columns that stand for the streams of the group.
            memories: the aggregates and offsets that were found so far; more are added.

        Returns:
            The expression, and the layer of the columns.
        """
        layer = 0
        # None for what does not depend on the group.
        replaced: dict[tuple[int, int], Expression | None] = {}

        def over_columns(node: Expression, points: int) -> Expression:
            nonlocal layer
            found = replaced[id(node), points]
            if found is not None:
                return found
            if node.operator is ops.CONSTANT:
                return node
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
            inner = points
            if node.operator in MEMORY:
                inner = self._declared.argument_period(node, part, points)
            if node.operator in NAMED and (name := self._declared.name(node, points, part)) in own:
                replaced[id(node), points] = read(own[name], node)
            elif node.operator is ops.OVER or all(
                replaced[id(operand), inner] is None for operand in node.operands
            ):
                replaced[id(node), points] = None
            else:
                operands = tuple(over_columns(operand, inner) for operand in node.operands)
                found = Expression(node.operator, operands, node.value, node.span)
                if node.operator in MEMORY:
                    key = points, inner, found
                    if key not in memories:
                        column = f"{self._columns.prefix}kept {len(memories)}"
                        extent = self._declared.extent(node, part)
                        memories[key] = Memory(column, node, extent, found, part, points, inner)
                    found = read(memories[key].column, node)
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
