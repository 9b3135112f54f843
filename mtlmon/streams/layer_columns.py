"""The columns of the layers, with the parts of expressions and the results of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.expression import (
    ComputedColumn,
    Expression,
    TypedColumn,
    column_of_schema,
)
from mtlmon.streams.instance_ticks import TimeColumn
from mtlmon.streams.layer import Layer, Part, check_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.predicate import Predicate


class Placed(NamedTuple):
    """An expression that reads columns only, and the first layer in which they exist."""

    expression: Expression
    layer: int


class GrowingSchema:
    """Fields as in a `pa.Schema`, to which some are added in place.

    PERF: an Arrow schema is copied whenever a field is appended, which took 0.3 s for 1,000
    windows.

    Attributes:
        names: the names of the fields, in order.
    """

    def __init__(self, fields: Iterable[pa.Field]) -> None:
        self.names: list[str] = []
        self._fields: list[pa.Field] = []
        self._places: dict[str, list[int]] = {}
        for field in fields:
            self.add(field)

    def add(self, field: pa.Field) -> None:
        """Add a field in place."""
        self._places.setdefault(field.name, []).append(len(self.names))
        self.names.append(field.name)
        self._fields.append(field)

    def append(self, field: pa.Field) -> GrowingSchema:
        """Return a copy with another field, as an Arrow schema does."""
        return GrowingSchema([*self._fields, field])

    def field(self, key: str | int) -> pa.Field:
        """Return the field with a name or at a place."""
        return self._fields[self._places[key][0] if isinstance(key, str) else key]

    def get_all_field_indices(self, name: str) -> list[int]:
        """Return the places of all fields with a name."""
        return self._places.get(name, [])

    def get_field_index(self, name: str) -> int:
        """Return the place of the only field with a name; -1 if there is none, or several."""
        places = self._places.get(name, ())
        return places[0] if len(places) == 1 else -1


class LayerColumns:
    """The columns of all layers.

    Attributes:
        schema: the columns of the rows, and those that layers compute.
        inputs: the names of the columns of the rows that expressions read.
        known: the columns of parts and of kernels, and their layers, by time-points and expression.
        prefix: what the names of computed columns begin with.
    """

    def __init__(self, schema: pa.Schema, environment: Environment) -> None:
        self.schema = GrowingSchema(schema)
        self.inputs: list[str] = []
        self.known: dict[tuple[int, Expression], tuple[str, int]] = {}
        self.prefix = _unused_prefix(schema.names)
        self._environment = environment
        self._layers: list[Layer] = []

    def input(self, node: Expression) -> Expression:
        """Return what reads a column of the rows as the values of the type that a node wants."""
        name = column_of_schema(self.schema, node.name)
        self.inputs.append(name)
        if name != node.name:
            return Expression(node.operator, (), ComputedColumn(name, node), node.span)
        if isinstance(node.name, TypedColumn):
            return Expression(node.operator, (), name, node.span)
        return node

    def column(self, placed: Placed, origin: Predicate, period: int) -> tuple[str, int]:
        """Make an expression a column of its layer, with values at some time-points."""
        if (period, placed.expression) in self.known:
            return self.known[period, placed.expression]
        part = Part(placed.expression, origin)
        kind = self.kind(placed.expression, origin)
        column = self.new_column(column_type(kind))
        self.layer(placed.layer).parts.setdefault(period, {})[column] = part
        self.known[period, placed.expression] = column, placed.layer
        return column, placed.layer

    def new_column(self, column_type: pa.DataType) -> str:
        """Add a column that a layer computes, and return its name."""
        name = f"{self.prefix}{len(self.schema.names)}"
        self.schema.add(pa.field(name, column_type))
        return name

    def layer(self, number: int) -> Layer:
        """Return a layer; it is made if there is none yet."""
        while len(self._layers) <= number:
            self._layers.append(Layer())
        return self._layers[number]

    def kind(self, expression: Expression, origin: Predicate) -> Kind:
        """Return the kind of an expression that reads columns only."""
        return self.kinds(expression, origin, self.schema)[id(expression)]

    def kinds(
        self,
        expression: Expression,
        origin: Predicate,
        schema: GrowingSchema,
        is_final: bool = True,
    ) -> Mapping[int, Kind]:
        """Return the kinds of an expression's nodes, by their identity."""
        part = Part(expression, origin)
        return check_part(part, schema, self._environment, is_final=is_final)

    def require(self, expression: Expression, origin: Predicate, wanted: Kind) -> None:
        """Require that an expression that reads columns only has the kind that is declared.

        Raises:
            PolicyError: it has another one.
        """
        check_part(Part(expression, origin), self.schema, self._environment, wanted=wanted)

    def compiled(self) -> list[Layer]:
        """Compile all layers."""
        for layer in self._layers:
            layer.compile(self.schema, self._environment)
        return self._layers

    def time_column(self) -> TimeColumn | None:
        """The time column, if rows have one."""
        name = self._environment.time
        if name is None or name not in self.schema.names:
            return None
        return TimeColumn(name, self.schema.field(name).type, self._environment)


def read(column: str, node: Expression) -> Expression:
    """An expression that reads a computed column in the place of a node."""
    return Expression(ops.ROW_COLUMN, (), ComputedColumn(column, node), node.span)


def standing_for(expression: Expression, node: Expression) -> Expression:
    """An expression in the place of a name; messages about its type are at the name."""
    value = expression.value
    if expression.operator in ops.COLUMNS:
        value = ComputedColumn(expression.name, node)
    return Expression(expression.operator, expression.operands, value, node.span)


def with_operands(node: Expression, operands: list[Placed]) -> Expression:
    """A node that reads columns in the place of its operands."""
    found = tuple(operand.expression for operand in operands)
    if all(one is other for one, other in zip(found, node.operands, strict=True)):
        return node
    return Expression(node.operator, found, node.value, node.span)


def _unused_prefix(names: list[str]) -> str:
    prefix = "value "
    while any(name.startswith(prefix) for name in names):
        prefix += "."
    return prefix
