"""Places expressions in layers.

An expression is in the first layer behind those of the kernels and streams that it reads.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.expression import Expression
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.policy.predicates.time_points import CHANGES, MEMORY, ROWS, exists_at
from mtlmon.streams.declarations import NAMED, error_at
from mtlmon.streams.instance_placing import InstancePlacer
from mtlmon.streams.kernels import Kernel
from mtlmon.streams.layer import ChoiceTask, KernelTask
from mtlmon.streams.layer_columns import Placed, read, standing_for, with_operands
from mtlmon.streams.own_machines import MachineKernel
from mtlmon.streams.own_windows import OwnKernel
from mtlmon.streams.waiting import chosen_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.streams.cells import Texts
    from mtlmon.streams.declarations import Declarations, Name
    from mtlmon.streams.layer import Task
    from mtlmon.streams.layer_columns import LayerColumns


_KERNELS = {ops.WINDOW_OWN: OwnKernel, ops.MACHINE: MachineKernel}


class Placer:
    """Places expressions in layers.

    Attributes:
        known: what streams and definitions stand for.
        instances: the instances of streams.
    """

    def __init__(self, declared: Declarations, columns: LayerColumns, texts: Texts) -> None:
        self.known: dict[Name, Placed] = {}
        self.instances = InstancePlacer(self, declared, columns, texts)
        self._declared = declared
        self._columns = columns
        self._texts = texts

    def place(self, expression: Expression, origin: Predicate, period: int) -> Placed:
        """Replace everything with a memory by columns of some time-points, and find the layer."""
        results: dict[tuple[int, int], Placed] = {}
        for node, points in self.nodes(expression, origin, period):
            if (id(node), points) in results:
                continue
            if node.operator is ops.OVER:
                values = [results[id(operand), points] for operand in node.operands[1:]]
                results[id(node), points] = self.instances.over(node, values, origin, points)
                continue
            inner = points
            if node.operator in MEMORY:
                inner = self._declared.argument_period(node, origin, points)
            operands = [results[id(operand), inner] for operand in node.operands]
            layer = max(
                (operand.layer for operand in operands), default=self.instances.first_layer(points)
            )
            if node.operator in NAMED:
                placed = self._named(node, origin, points)
            elif node.operator is ops.PARAMETER:
                placed = self.instances.parameter(node, origin, points)
            elif node.operator is ops.INSTANCE:
                placed = self.instances.instance(node, operands, origin, points)
            elif node.operator in MEMORY:
                placed = self.kernel(node, operands, origin, inner, points)
            else:
                read = self._columns.input(node) if node.operator in ops.COLUMNS else node
                placed = Placed(with_operands(read, operands), layer)
            results[id(node), points] = placed
        return results[id(expression), period]

    def nodes(
        self, expression: Expression, origin: Predicate, period: int
    ) -> Iterator[tuple[Expression, int]]:
        """Yield the nodes with their time-points, each after its operands, but not that of OVER."""
        stack = [(expression, period, False)]
        seen: set[tuple[int, int]] = set()
        while stack:
            node, points, is_done = stack.pop()
            if is_done:
                yield node, points
            elif (id(node), points) not in seen:
                seen.add((id(node), points))
                stack.append((node, points, True))
                inner = points
                if node.operator in MEMORY:
                    inner = self._declared.argument_period(node, origin, points)
                # what OVER is of has time-points of its own
                own = node.operands[1:] if node.operator is ops.OVER else node.operands
                stack += [(operand, inner, False) for operand in reversed(own)]

    def _named(self, node: Expression, origin: Predicate, period: int) -> Placed:
        """Place what a name stands for at some time-points where it has values."""
        name = self._declared.name(node, period, origin)
        placed = self.known[name]
        trace = self._declared.of_trace(period)
        if name.period > ROWS and period < ROWS < trace:
            # ticks at which instances begin
            found = self._named(node, origin, trace)
            column, layer = self._columns.column(found, origin, trace)
            return Placed(read(column, node), max(layer + 1, self.instances.first_layer(period)))
        if name.period == period:
            return Placed(standing_for(placed.expression, node), placed.layer)
        if name.period < ROWS and self._declared.calls(period):
            return self.instances.at_calls(placed, node, origin, name.period, period)
        if name.period < ROWS:
            column, layer = self.instances.at_rows(placed, origin, name.period)
            return Placed(read(column, node), max(layer, self.instances.first_layer(period)))
        if self._declared.period_of(period) <= ROWS:
            column, layer = self._columns.column(placed, origin, name.period)
            return Placed(read(column, node), max(layer + 1, self.instances.first_layer(period)))
        assert exists_at(name.period, self._declared.period_of(period))
        column, layer = self._columns.column(placed, origin, name.period)
        chosen = self._columns.known.get((period, read(column, node)))
        if chosen is None:
            layer = max(layer, self.instances.first_layer(period))
            copied = self._columns.new_column(self._columns.schema.field(column).type)
            self._columns.layer(layer).tasks.append(ChoiceTask(copied, column, name.period, period))
            chosen = self._columns.known[period, read(column, node)] = copied, layer + 1
        return Placed(read(chosen[0], node), chosen[1])

    def kernel(
        self,
        node: Expression,
        operands: list[Placed],
        origin: Predicate,
        argument_period: int,
        period: int,
    ) -> Placed:
        """Place an aggregate or offset whose operands have a place."""
        extent = self._declared.extent(node, origin)
        replaced = with_operands(node, operands)
        if (period, replaced) not in self._columns.known:
            kinds_of = self._columns.kinds(replaced, origin, self._columns.schema)
            arguments: list[str] = []
            layer, kind = self.instances.first_layer(period), kinds.NULL
            for operand in operands:
                argument, own_layer = self._columns.column(operand, origin, argument_period)
                arguments.append(argument)
                layer = max(layer, own_layer)
                kind = kinds_of[id(operand.expression)]
            if node.operator is ops.MACHINE:
                # it keeps objects, and no value of an argument
                kind = kinds.NULL
                if argument_period != period:
                    hint = "declare it: stream NAME = machine(...), and read NAME.hold()"
                    message = "a machine has values where its rows are, and not at ticks"
                    raise error_at(origin, node, message, hint)
            try:
                make = _KERNELS.get(node.operator, Kernel)
                own_period = self._declared.period_of(period)
                if own_period >= CHANGES:
                    # panes are for ticks at the multiples of a period
                    own_period = 0
                kernel = make(node, kind, kinds_of[id(replaced)], extent, self._texts, own_period)
            except NotPossible as error:
                raise error_at(origin, node, str(error)) from None
            column = self._columns.new_column(column_type(kernel.kind))
            task = KernelTask(column, kernel, tuple(arguments), argument_period, period)
            if extent.distance and argument_period > ROWS:
                (read_at_ticks,) = node.operands
                task.may_be_null = self._declared.may_be_null(read_at_ticks, None)
            self.add_task(task, layer)
            self._columns.known[period, replaced] = column, layer + 1
        column, layer = self._columns.known[period, replaced]
        return Placed(read(column, node), layer)

    def add_task(self, task: Task, layer: int) -> None:
        """Add a task for the rows of traces or instances, or for ticks, to a layer."""
        self._columns.layer(layer).tasks.append(task)
        if task.period < ROWS:
            self.instances.family(task.period)[0].kernels += task.kernels

    def stream(self, name: Name) -> None:
        """Place a stream or definition; what it needs has a place."""
        if name in self.known:
            # it was placed with its instances, as it says where these end
            return
        period = name.period
        if period < ROWS and name in self._declared.ending(period):
            self.instances.family(period)
            return
        part, *conditions = self._declared.parts(name.name)
        if name in self._declared.found_as_of_now:
            now = self._declared.found_as_of_now[name]
            self.known[name] = self.instances.own_rows(now, part, period)
            return
        placed = self.place(part.expression, part, period)
        stream = self._declared.streams.get(name.name)
        if stream is not None and stream.kind is not None:
            self._columns.require(placed.expression, part, stream.kind)
        for on in conditions:
            where = self.place(on.expression, on, period)
            self._columns.kind(where.expression, on)
            chosen = chosen_value(where.expression, placed.expression, None)
            placed = Placed(chosen, max(placed.layer, where.layer))
        if stream is not None and stream.kind == kinds.FLOAT:
            # what is written as an integer becomes a float, too
            always = Expression(ops.CONSTANT, (), True, part.expression.span)
            placed = Placed(chosen_value(always, placed.expression, Decimal("0.0")), placed.layer)
        self.known[name] = placed
