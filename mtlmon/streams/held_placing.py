"""Splits expressions over later values into what rows keep and what is computed where they go.

An expression is split at everything that looks at no later value: such parts are placed like any
other expression, and their values wait with the row. A stream with later values is replaced by what
it stands for; in a stream with `per`, that is a value of the row's own instance, and its parts have
values at the rows of instances. What reads another instance, `s[EXPRESSION]`, needs the values of
the stream at earlier rows, too: so the stream is computed first, a step for each such reading.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import TYPE_CHECKING

from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.expression import Expression, Offset, value_key
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.policy.predicates.time_points import ROWS, is_later
from mtlmon.policy.templates import OF_INSTANCES, stream_of
from mtlmon.streams.cells import cell_kind
from mtlmon.streams.declarations import error_at, is_value
from mtlmon.streams.instances import NumbersTask
from mtlmon.streams.kernels import MOST_DISTANCE, Extent, Kernel, default_of, length_of
from mtlmon.streams.layer_columns import read
from mtlmon.streams.waiting import (
    Held,
    HeldColumn,
    HeldLookUp,
    HeldStep,
    LaterValues,
    WaitError,
    chosen_value,
    needs_itself,
)
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.policy.predicates.expression import Constant
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.streams.cells import Texts
    from mtlmon.streams.declarations import Declarations
    from mtlmon.streams.instances import Family, KeyColumn
    from mtlmon.streams.layer_columns import LayerColumns
    from mtlmon.streams.placing import Placer


class Splitter(ABC):
    """Replaces the parts of expressions that look at no later values, and the later values.

    Streams with later values are replaced by what they stand for. Each part has values where its
    stream has: at rows, or in instances.

    Args:
        declared: the streams.
    """

    def __init__(self, declared: Declarations) -> None:
        self.declared = declared
        self._values = LaterValues(declared.streams, declared.definitions)
        self._open: list[str] = []

    @abstractmethod
    def own(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        """Replace a part that looks at no later value.

        Args:
            node: the part.
            origin: what it is a part of.
            frame: where it has values: `ROWS`, or the number of the rows of instances.
        """

    @abstractmethod
    def later(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        """Replace a later value; see `own`."""

    @abstractmethod
    def looked_up(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        """Replace the value of an instance of a stream with later values; see `own`."""

    @abstractmethod
    def is_own(self, name: str) -> Expression:
        """Return a condition that is true at rows that belong to an instance of a stream."""

    def split(self, origin: Predicate, frame: int) -> Expression:
        """Replace the parts of an expression.

        Args:
            origin: the expression.
            frame: where it has values.

        Raises:
            PolicyError: it cannot look at later values.
        """
        try:
            return self._split(self._values.expanded(origin.expression), origin, frame)
        except WaitError as error:
            raise error_at(origin, error.node, error.message, error.hint) from None
        except NotPossible as error:
            raise error_at(origin, origin.expression, str(error)) from None

    def _split(self, expression: Expression, origin: Predicate, frame: int) -> Expression:
        looks: set[int] = set()
        built: dict[int, Expression] = {}
        for node in postorder(expression):
            if is_later(node) or self._values.name_looks(node):
                looks.add(id(node))
                built[id(node)] = self._replaced(node, origin, frame)
            elif any(id(operand) in looks for operand in node.operands):
                if node.operator in ops.LOOK_UPS:
                    message = f"the key of {node} is a later value, but the record is one now"
                    raise NotPossible(message)
                looks.add(id(node))
                operands = tuple(
                    built[id(one)] if id(one) in looks else self._own(one, origin, frame)
                    for one in node.operands
                )
                built[id(node)] = Expression(node.operator, operands, node.value, node.span)
        found = built.get(id(expression))
        return self._own(expression, origin, frame) if found is None else found

    def _replaced(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        """Replace a later value, or the name of something with later values."""
        if is_later(node):
            _require_near(node)
            found = self.later(node, origin, frame)
        elif node.operator is ops.STREAM:
            found = self.value(node)
        else:
            found = self.looked_up(node, origin, frame)
        if frame < ROWS:
            # rows without an instance have no values, from which integers could overflow
            assert origin.name is not None
            found = chosen_value(self.is_own(origin.name), found, None)
        return found

    def _own(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        return node if node.operator is ops.CONSTANT else self.own(node, origin, frame)

    def value(self, node: Expression) -> Expression:
        """Return what a stream stands for, in instances that of a row's own.

        Args:
            node: what names the stream.
        """
        name = stream_of(node) if node.operator in OF_INSTANCES else node.name
        stream = self.declared.streams[name]
        if name in self._open:
            raise needs_itself(node)
        calls = bool(self.declared.calls_of(name))
        self._values.require_rows(node, stream, calls=calls)
        frame = self.declared.frame(name)
        part, *conditions = self.declared.parts(name)
        self._open.append(name)
        value = self.split(part, frame)
        for on in conditions:
            value = chosen_value(self.split(on, frame), value, None)
        self._open.pop()
        if stream.per:
            value = chosen_value(self.is_own(name), value, None)
        if stream.kind == kinds.FLOAT:
            always = Expression(ops.CONSTANT, (), True, value.span)
            value = chosen_value(always, value, Decimal("0.0"))
        return value


class HeldParts(Splitter):
    """Finds out what expressions of rows that wait need, which has its place before.

    Args:
        declared: the streams.
        wanted: the expressions, by name.

    Attributes:
        wanted: as given.
        parts: the parts that look at no later values, and where they have values.
        templates: the streams with `per` that look at later values.
    """

    def __init__(self, declared: Declarations, wanted: Mapping[str, Predicate]) -> None:
        super().__init__(declared)
        self.wanted = wanted
        self.parts: list[tuple[Predicate, int]] = []
        self.templates: dict[str, None] = {}
        for origin in wanted.values():
            self.split(origin, ROWS)

    def own(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        self.parts.append((origin.with_expression(node), frame))
        return node

    def later(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        return self.own(node.operands[0], origin, frame)

    def looked_up(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        for operand in node.operands:
            self.own(operand, origin, frame)
        return self.value(node)

    def is_own(self, name: str) -> Expression:
        self.templates[name] = None
        return Expression(ops.CONSTANT, (), True)


class HeldPlacer(Splitter):
    """Places what rows that wait keep.

    Args:
        placer: what places their parts.
        declared: the streams.
        columns: the columns of all layers.
        texts: the numbers of texts.
    """

    def __init__(
        self, placer: Placer, declared: Declarations, columns: LayerColumns, texts: Texts
    ) -> None:
        super().__init__(declared)
        self._placer = placer
        self._columns = columns
        self._texts = texts
        self._kept: dict[str, HeldColumn] = {}
        self._later: dict[tuple[str, int, int | None, object, str | None], HeldColumn] = {}
        self._numbers: dict[int, str] = {}
        # for each stream that is looked up, the column of its values, and the step that has them
        self._looked_up: dict[str, tuple[str, int]] = {}
        self._steps: list[HeldStep] = []
        # from which step on everything is known that the present expression reads
        self._step = 0

    def held(self, wanted: Mapping[str, Predicate]) -> Held:
        """Place expressions of rows that wait; what their parts need has a place."""
        expressions = {
            name: origin.with_expression(self.split(origin, ROWS))
            for name, origin in wanted.items()
        }
        return Held(
            [*self._kept.values(), *self._later.values()],
            [*self._steps, HeldStep(expressions, [])],
        )

    def own(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        if node is origin.expression and is_value(origin) and frame == ROWS:
            # at each row, it is that of the row's instance
            name = self.declared.name(node, ROWS, origin)
            source = self._placer.instances.own_value(name, origin)
        else:
            source = self._at_rows(node, origin, frame)
        return read(self._own_column(source, node, origin).result, node)

    def later(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        (argument,) = node.operands
        source = self._at_rows(argument, origin, frame)
        default, distance, length = _default_and_distance(node, self.declared.unit)
        group = family = None
        if frame < ROWS:
            group, (family, _) = self._own_number(frame), self._placer.instances.family(frame)
        key = source, distance, length, value_key(default), group
        if key not in self._later:
            whole = Expression(node.operator, (read(source, argument),), node.value, node.span)
            kinds_of = self._columns.kinds(whole, origin, self._columns.schema)
            kind, found = (cell_kind(kinds_of[id(one)]) for one in (*whole.operands, whole))
            self._later[key] = HeldColumn(
                source,
                self._columns.new_column(column_type(found)),
                kind,
                found,
                distance,
                default,
                str(node),
                self.declared.may_be_null(argument, self._columns.schema),
                length,
                group,
                family,
            )
        return read(self._later[key].result, node)

    def is_own(self, name: str) -> Expression:
        number = self._own_number(self.declared.frame(name))
        node = self.declared.streams[name].value.expression
        return Expression(ops.IS_NOT_NULL, (read(number, node),), None, node.span)

    def looked_up(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        name = stream_of(node)
        rows = self.declared.frame(name)
        value, step = self._values_of(node)
        self._step = max(self._step, step + 1)
        family, _ = self._placer.instances.family(rows)
        keys, layer = self._placer.instances.keys_at_rows(node, family, origin, frame)
        wanted = self._number_column(family, layer, keys)
        held = Expression(ops.HOLD, (read(value, node),), Offset(0), node.span)
        kind = self._columns.kind(held.operands[0], origin)
        kernel = Kernel(held, kind, kind, Extent(0, -1), self._texts)
        family.kernels.append(kernel)
        result = self._columns.new_column(column_type(kernel.kind))
        look_up = HeldLookUp(result, value, self._own_number(rows), wanted, kernel)
        self._steps[step].look_ups.append(look_up)
        return read(result, node)

    def _values_of(self, node: Expression) -> tuple[str, int]:
        """The column of the values of a stream that is looked up, and the step that has them."""
        name = stream_of(node)
        if name not in self._looked_up:
            before, self._step = self._step, 0
            value = self.value(node)
            step, self._step = self._step, before
            stream, _, declared_kind, *_ = self.declared.streams[name]
            if declared_kind is not None:
                self._columns.require(value, stream, declared_kind)
            kind = cell_kind(self._columns.kind(value, stream))
            column = self._columns.new_column(column_type(kind))
            while len(self._steps) <= step:
                self._steps.append(HeldStep({}, []))
            self._steps[step].expressions[column] = stream.with_expression(value)
            self._looked_up[name] = column, step
        return self._looked_up[name]

    def _at_rows(self, node: Expression, origin: Predicate, frame: int) -> str:
        """Make an expression a column of rows."""
        placed = self._placer.place(node, origin, frame)
        return self._placer.instances.at_rows(placed, origin, frame)[0]

    def _own_column(self, source: str, node: Expression, origin: Predicate) -> HeldColumn:
        if source not in self._kept:
            kind = cell_kind(self._columns.kind(read(source, node), origin))
            result = self._columns.new_column(column_type(kind))
            self._kept[source] = HeldColumn(source, result, kind, kind)
        return self._kept[source]

    def _own_number(self, frame: int) -> str:
        """The column of the numbers of the instances that rows belong to."""
        if frame not in self._numbers:
            family, layer = self._placer.instances.family(frame)
            self._numbers[frame] = self._number_column(family, layer + 1, None)
        return self._numbers[frame]

    def _number_column(self, family: Family, layer: int, keys: list[KeyColumn] | None) -> str:
        """Place the numbers of instances, which rows keep; the column where they go."""
        integers = column_type(kinds.INTEGER)
        source, result = (self._columns.new_column(integers) for _ in range(2))
        self._columns.layer(layer).tasks.append(NumbersTask(source, family, keys))
        self._kept[source] = HeldColumn(source, result, kinds.INTEGER, kinds.INTEGER, family=family)
        family.has_waiting = True
        family.table.keep_ended()
        return result


def _require_near(node: Expression) -> None:
    """Require that a later value is not too far away.

    Raises:
        NotPossible: it is.
    """
    distance = node.offset.distance
    if node.operator is ops.NEXT and isinstance(distance, int) and distance > MOST_DISTANCE:
        raise NotPossible(f"next({distance}) looks further than {MOST_DISTANCE} values")


def _default_and_distance(node: Expression, unit: str | None) -> tuple[Constant, int, int | None]:
    """Return the default of a later value, how many values later it is, and how much later.

    Args:
        node: the later value.
        unit: the unit of the time-stamps, if it is known.

    Raises:
        FormulaError: a duration is not a whole number of units.
    """
    if node.operator is ops.AT:
        return default_of(node), 1, length_of(node, unit)
    distance = node.offset.distance
    assert isinstance(distance, int)
    return default_of(node), distance, None
