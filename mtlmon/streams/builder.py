"""Splits the expressions of streams into layers that compute whole columns.

This follows P. Faymonville, B. Finkbeiner, M. Schwenger, H. Torfah, "Real-time Stream-based
Monitoring" (RTLola). An expression is split at all parts that depend on other rows. The rest looks
at one row, and is computed by the operations of predicates, a whole column at a time. An aggregate
or offset is a kernel: it takes the column of its argument, and its results become a column of their
own, which the expressions around it read. Everything has a layer: an expression is in the first
layer behind those of the kernels and streams that it reads. Only streams that read their own
earlier values are computed row by row, by a machine (`recursion`), with the same kernels.

A column has values at the rows, at the ticks of one period, or at the rows of instances. Kernels
connect them: the argument of an aggregate may be of rows, and its results of ticks.

`declarations` resolves names; `placing`, `instance_placing` and `recursion_placing` give
expressions, instances and recursive groups their layer; `layer_columns` has the columns that
connect layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.expression import Expression, value_key
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams.cells import cell_kind
from mtlmon.streams.declarations import Declarations, error_at, is_value
from mtlmon.streams.dependencies import in_order, is_recursive
from mtlmon.streams.layer_columns import GrowingSchema, LayerColumns, read
from mtlmon.streams.placing import Placer
from mtlmon.streams.recursion_placing import RecursionPlacer
from mtlmon.streams.waiting import (
    Held,
    HeldColumn,
    LaterValues,
    WaitError,
    default_and_distance,
    split,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.policy.predicates.time_points import Changes
    from mtlmon.streams.cells import Texts
    from mtlmon.streams.declarations import Stream
    from mtlmon.streams.instance_calls import InstanceCalls
    from mtlmon.streams.instance_nows import InstanceNows
    from mtlmon.streams.instance_ticks import InstanceTicks
    from mtlmon.streams.instances import Family
    from mtlmon.streams.layer import Layer


class HeldPlan(NamedTuple):
    """Expressions of rows that wait, and what they need at rows.

    Attributes:
        expressions: the expressions, without the names of what looks at later values, and what they
            come from, by name.
        parts: the parts that look at no later values.
    """

    expressions: dict[str, tuple[Expression, Predicate]]
    parts: list[Predicate]


class Builder:
    """Splits expressions into layers."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        definitions: Mapping[str, Predicate],
        schema: pa.Schema,
        environment: Environment,
        texts: Texts,
    ) -> None:
        self._declared = Declarations(streams, definitions, environment)
        self._columns = LayerColumns(schema, environment)
        self._placer = Placer(self._declared, self._columns, texts)
        self._recursion = RecursionPlacer(self._placer, self._declared, self._columns, texts)
        self._placer.instances.recursion = self._recursion

    @property
    def schema(self) -> GrowingSchema:
        """The columns of the rows, and those that layers compute."""
        return self._columns.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the rows that expressions read."""
        return self._columns.inputs

    @property
    def periods(self) -> tuple[int, ...]:
        """The periods of all ticks."""
        return self._declared.periods

    @property
    def changes(self) -> Mapping[Changes, int]:
        """The numbers of the changes of relations at which something is wanted."""
        return self._declared.changes

    def number_of(self, changes: Changes) -> int:
        """Return the number of the changes of a relation, in the place of a period."""
        return self._declared.number_of(changes)

    @property
    def families(self) -> list[Family]:
        """The instances of all streams."""
        return self._placer.instances.families

    @property
    def instance_ticks(self) -> list[InstanceTicks]:
        """The ticks of instances."""
        return self._placer.instances.ticks

    @property
    def instance_nows(self) -> list[InstanceNows]:
        """The time-points as of which windows of instances are read."""
        return self._placer.instances.nows

    @property
    def instance_calls(self) -> list[InstanceCalls]:
        """The rows that call instances which they do not belong to."""
        return self._placer.instances.calls

    def streams_in_order(self, roots: Iterable[tuple[Predicate, int]]) -> None:
        """Place the streams that expressions need, each at its time-points."""
        needs = self._declared.needs(roots)
        for group in in_order(needs):
            if is_recursive(group, needs):
                self._recursion.place(group, needs)
            else:
                self._placer.stream(group[0])

    def output(self, predicate: Predicate, period: int) -> str:
        """Place an expression, and return the name of its column."""
        if is_value(predicate):
            # At each row, it is that of the row's instance.
            name = self._declared.name(predicate.expression, period, predicate)
            if name.period < ROWS:
                return self._placer.instances.own_value(name, predicate)
        placed = self._placer.place(predicate.expression, predicate, period)
        return self._columns.column(placed, predicate, period)[0]

    def held(self, plan: HeldPlan) -> Held:
        """Place expressions of rows that wait; what their parts need has a place."""
        own: dict[str, HeldColumn] = {}
        later: dict[tuple[str, int, int | None, object], HeldColumn] = {}
        expressions: dict[str, Predicate] = {}

        def own_value(node: Expression) -> Expression:
            if node is origin.expression:
                source = self.output(origin, ROWS)
            else:
                source, _ = self._columns.column(
                    self._placer.place(node, origin, ROWS), origin, ROWS
                )
            if source not in own:
                kind = cell_kind(self._columns.kind(read(source, node), origin))
                own[source] = HeldColumn(
                    source, self._columns.new_column(column_type(kind)), kind, kind
                )
            return read(own[source].result, node)

        def later_value(node: Expression) -> Expression:
            (argument,) = node.operands
            placed = self._placer.place(argument, origin, ROWS)
            source, _ = self._columns.column(placed, origin, ROWS)
            default, distance, length = default_and_distance(node, self._declared.unit)
            key = source, distance, length, value_key(default)
            if key not in later:
                whole = Expression(node.operator, (read(source, argument),), node.value, node.span)
                kinds_of = self._columns.kinds(whole, origin, self._columns.schema)
                kind, found = (cell_kind(kinds_of[id(one)]) for one in (*whole.operands, whole))
                column = self._columns.new_column(column_type(found))
                later[key] = HeldColumn(
                    source,
                    column,
                    kind,
                    found,
                    distance,
                    default,
                    str(node),
                    self._declared.may_be_null(argument, self._columns.schema),
                    length,
                )
            return read(later[key].result, node)

        for name, (expression, origin) in plan.expressions.items():
            try:
                replaced = split(expression, own_value, later_value)
            except NotPossible as error:
                raise error_at(origin, expression, str(error)) from None
            expressions[name] = origin.with_expression(replaced)
        return Held([*own.values(), *later.values()], expressions)

    def held_plan(self, wanted: Mapping[str, Predicate]) -> HeldPlan:
        """Find out what expressions of rows that wait need."""
        expressions: dict[str, tuple[Expression, Predicate]] = {}
        parts: list[Predicate] = []

        def part(node: Expression) -> Expression:
            parts.append(origin.with_expression(node))
            return node

        def later(node: Expression) -> Expression:
            return part(node.operands[0])

        values = LaterValues(self._declared.streams, self._declared.definitions)
        for name, origin in wanted.items():
            try:
                expression = values.expanded(origin.expression)
                split(expression, part, later)
            except WaitError as error:
                raise error_at(origin, error.node, error.message, error.hint) from None
            except NotPossible as error:
                raise error_at(origin, origin.expression, str(error)) from None
            expressions[name] = expression, origin
        return HeldPlan(expressions, parts)

    def finish(self) -> list[Layer]:
        """Compile all layers."""
        layers = self._columns.compiled()
        self._placer.instances.forget_silent(layers)
        for nows in self.instance_nows:
            nows.find_changes(layers)
        return layers
