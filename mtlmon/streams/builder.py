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

from typing import TYPE_CHECKING

from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams.declarations import Declarations, is_value
from mtlmon.streams.dependencies import in_order, is_recursive
from mtlmon.streams.held_placing import HeldParts, HeldPlacer
from mtlmon.streams.layer_columns import GrowingSchema, LayerColumns
from mtlmon.streams.placing import Placer
from mtlmon.streams.recursion_placing import RecursionPlacer

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
    from mtlmon.streams.waiting import Held


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
        self._texts = texts
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

    def streams_in_order(
        self, roots: Iterable[tuple[Predicate, int]], templates: Iterable[str] = ()
    ) -> None:
        """Place the streams that expressions need, each at its time-points.

        Args:
            roots: the expressions, and where they have values.
            templates: streams of which only the instances are needed.
        """
        needs = self._declared.needs(roots, templates)
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

    def held_parts(self, wanted: Mapping[str, Predicate]) -> HeldParts:
        """Find out what expressions of rows that wait need."""
        return HeldParts(self._declared, wanted)

    def held(self, parts: HeldParts) -> Held:
        """Place expressions of rows that wait; what their parts need has a place."""
        placer = HeldPlacer(self._placer, self._declared, self._columns, self._texts)
        return placer.held(parts.wanted)

    def finish(self) -> list[Layer]:
        """Compile all layers."""
        layers = self._columns.compiled()
        self._placer.instances.forget_silent(layers)
        for nows in self.instance_nows:
            nows.find_changes(layers)
        return layers
