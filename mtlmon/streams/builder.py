"""Splits the expressions of streams into layers that compute whole columns.

The parts of expressions that look at one row are computed by the operations of predicates. An
aggregate or offset is a kernel: it takes the column of its argument, and its results become a
column of their own, which the expressions around it read. Everything has a layer: an expression is
in the first layer behind those of the kernels and streams that it reads.

A column has values at the rows, or at the ticks of a period. Kernels connect them: the argument of
an aggregate may be of rows, and its results of ticks.
"""

from __future__ import annotations

from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import pyarrow as pa

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.compiling import column_type
from mtlmon.policy.predicates.environment import Environment
from mtlmon.policy.predicates.expression import ComputedColumn, Expression, Offset, value_key
from mtlmon.policy.predicates.kinds import joined as joined_kind
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.policy.predicates.predicate import Predicate
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.predicates.time_points import (
    MEMORY,
    ROWS,
    TimePoints,
    exists_at,
    explained,
)
from mtlmon.policy.templates import (
    OF_INSTANCES,
    TemplateError,
    condition_of,
    error_of,
    keys_of,
    lifetime_of,
    parameters_of,
    require_readable,
    require_readable_clauses,
    stream_of,
)
from mtlmon.streams.cells import Texts, cell_kind
from mtlmon.streams.dependencies import Need, in_order, is_recursive, present_order
from mtlmon.streams.instance_ticks import InstanceTicks, InstanceTicksTask, TimeColumn
from mtlmon.streams.instances import (
    Ends,
    Family,
    FamilyTask,
    KeyColumn,
    LookUpTask,
    NullTask,
    OverTask,
    RowsTask,
)
from mtlmon.streams.kernels import Kernel, extent_of
from mtlmon.streams.layer import ChoiceTask, KernelTask, Layer, Part, check_part
from mtlmon.streams.own_windows import OwnKernel
from mtlmon.streams.recursion import Member, Memory, Recursion
from mtlmon.streams.waiting import (
    Held,
    HeldColumn,
    LaterValues,
    WaitError,
    chosen_value,
    default_and_distance,
    split,
)
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.time_points import Conflict
    from mtlmon.policy.templates import Lifetime, Per
    from mtlmon.streams.kernels import Extent
    from mtlmon.streams.layer import Task


class Stream(NamedTuple):
    """A declared stream.

    Attributes:
        value: its expression, with the text that it comes from.
        on: where it has a value; None for all rows.
        kind: the declared kind of its values; None if there is none.
        period: the period of its ticks, in units of time; `ROWS` if it has values at rows.
        per: the expressions that tell instances apart, each with the name of its parameter or None;
            () if there are no instances. With them, `on` is about rows of the instance.
        start: where an instance may begin; None for all rows.
        end: where instances end; None if they do not.
    """

    value: Predicate
    on: Predicate | None = None
    kind: Kind | None = None
    period: int = ROWS
    per: Per = ()
    start: Expression | None = None
    end: Expression | None = None


class _Name(NamedTuple):
    """A stream, or a definition at the time-points where it is used.

    Attributes:
        name: its name.
        period: its time-points: `ROWS`, a period, or the number of a family.
    """

    name: str
    period: int


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
        self.schema = schema
        self.columns: list[str] = []
        self._streams = streams
        self._definitions = definitions
        self._environment = environment
        self._texts = texts
        self._layers: list[Layer] = []
        # What streams and definitions stand for.
        self._known: dict[_Name, _Placed] = {}
        # The columns of parts and of kernels, by their time-points.
        self._columns: dict[tuple[int, Expression], tuple[str, int]] = {}
        self._prefix = _unused_prefix(schema.names)
        self._time_points = TimePoints(
            {name: stream.period for name, stream in streams.items()},
            lambda name: definitions[name].expression if name in definitions else None,
            environment.time,
        )
        self._periods: dict[int, None] = {}
        # The time-points of the columns that machines read.
        self._column_periods: dict[str, int] = {}
        # The numbers of families, which are negative, and the families that have a place.
        self._per = {name: stream.per for name, stream in streams.items()}
        self._frames: dict[tuple[Lifetime, int], int] = {}
        self._placed_families: dict[int, tuple[Family, int]] = {}
        self._instance_ticks: dict[int, InstanceTicks] = {}

    @property
    def periods(self) -> tuple[int, ...]:
        """The periods of all ticks."""
        return tuple(self._periods)

    @property
    def families(self) -> list[Family]:
        """The instances of all streams."""
        return [family for family, _ in self._placed_families.values()]

    @property
    def instances(self) -> list[tuple[Expression, ...]]:
        """The expressions that tell instances apart, for each family."""
        return [
            one.keys for (one, _), frame in self._frames.items() if frame in self._placed_families
        ]

    @property
    def instance_ticks(self) -> list[InstanceTicks]:
        """The ticks of instances."""
        return list(self._instance_ticks.values())

    def streams_in_order(self, roots: Iterable[tuple[Predicate, int]]) -> None:
        """Place the streams that expressions need, each at its time-points."""
        needs = self._needs(roots)
        for group in in_order(needs):
            if is_recursive(group, needs):
                self._recursive(group, needs)
            else:
                self._stream(group[0])

    def output(self, predicate: Predicate, period: int) -> str:
        """Place an expression, and return the name of its column."""
        if _is_value(predicate):
            # At each row, it is that of the row's instance.
            name = self._name(predicate.expression, period, predicate)
            if name.period < ROWS:
                return self._own_value(name, predicate)
        placed = self._place(predicate.expression, predicate, period)
        return self._column(placed, predicate, period)[0]

    def held(self, plan: HeldPlan) -> Held:
        """Place expressions of rows that wait; what their parts need has a place."""
        own: dict[str, HeldColumn] = {}
        later: dict[tuple[str, int, object], HeldColumn] = {}
        expressions: dict[str, Predicate] = {}
        values = LaterValues(self._streams, self._definitions)

        def own_value(node: Expression) -> Expression:
            if node is origin.expression:
                source = self.output(origin, ROWS)
            else:
                source, _ = self._column(self._place(node, origin, ROWS), origin, ROWS)
            if source not in own:
                kind = cell_kind(self._kind(_read(source, node), origin))
                own[source] = HeldColumn(source, self._new_column(column_type(kind)), kind, kind)
            return _read(own[source].result, node)

        def later_value(node: Expression) -> Expression:
            (argument,) = node.operands
            placed = self._place(argument, origin, ROWS)
            source, _ = self._column(placed, origin, ROWS)
            default, distance = default_and_distance(node)
            key = source, distance, value_key(default)
            if key not in later:
                whole = Expression(node.operator, (_read(source, argument),), node.value, node.span)
                kinds_of = self._kinds(whole, origin, self.schema)
                kind, found = (cell_kind(kinds_of[id(one)]) for one in (*whole.operands, whole))
                column = self._new_column(column_type(found))
                later[key] = HeldColumn(
                    source,
                    column,
                    kind,
                    found,
                    distance,
                    default,
                    str(node),
                    values.may_be_null(argument, self.schema),
                )
            return _read(later[key].result, node)

        for name, (expression, origin) in plan.expressions.items():
            try:
                replaced = split(expression, own_value, later_value)
            except NotPossible as error:
                raise self._error(origin, expression, str(error)) from None
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

        values = LaterValues(self._streams, self._definitions)
        for name, origin in wanted.items():
            try:
                expression = values.expanded(origin.expression)
                split(expression, part, later)
            except WaitError as error:
                raise self._error(origin, error.node, error.message, error.hint) from None
            except NotPossible as error:
                raise self._error(origin, origin.expression, str(error)) from None
            expressions[name] = expression, origin
        return HeldPlan(expressions, parts)

    def finish(self) -> list[Layer]:
        """Compile all layers."""
        for layer in self._layers:
            layer.compile(self.schema, self._environment)
        return self._layers

    def _needs(self, roots: Iterable[tuple[Predicate, int]]) -> dict[_Name, list[Need[_Name]]]:
        """Find the streams and definitions that expressions need, and what these need."""
        found: dict[_Name, list[Need[_Name]]] = {}
        open_names: list[_Name] = []
        for root, period in roots:
            if not _is_value(root):
                with self._template_errors(root):
                    require_readable(root.expression, (), self._per)
                open_names += [need.name for need in self._names(root, period)]
            elif self._streams[root.expression.name].per:
                open_names.append(self._name(root.expression, ROWS, root))
            else:
                open_names += [need.name for need in self._names(root, period)]
        while open_names:
            name = open_names.pop()
            if name not in found:
                self._require_readable(name)
                parts = [(part, name.period) for part in self._parts(name.name)]
                parts += [(part, ROWS) for part in self._parts_of_lifetime(name.name)]
                found[name] = [need for part in parts for need in self._names(*part)]
                open_names += [need.name for need in found[name]]
        return found

    def _require_readable(self, name: _Name) -> None:
        """Require that the expressions of a stream or definition say which instances they read."""
        stream = self._streams.get(name.name)
        for part in self._parts(name.name):
            with self._template_errors(part):
                keys = () if stream is None else keys_of(stream.per)
                require_readable(part.expression, keys, self._per)
        if stream is not None:
            with self._template_errors(stream.value):
                require_readable_clauses(stream, self._per)

    def _parts(self, name: str) -> list[Predicate]:
        """The value of a stream or definition, and where it exists."""
        if name not in self._streams:
            return [self._definitions[name]]
        stream = self._streams[name]
        on = stream.on
        if on is not None and stream.per and stream.period == ROWS:
            with self._template_errors(on):
                condition = condition_of(stream.per, on.expression)
            on = None if condition is None else on.with_expression(condition)
        return [stream.value] if on is None else [stream.value, on]

    def _parts_of_lifetime(self, name: str) -> list[Predicate]:
        """What says when instances of a stream begin and end."""
        if name not in self._streams:
            return []
        stream = self._streams[name]
        found = [*keys_of(stream.per), stream.start, stream.end]
        return [stream.value.with_expression(one) for one in found if one is not None]

    @contextmanager
    def _template_errors(self, origin: Predicate) -> Iterator[None]:
        """Give the errors of templates a place in the text of an expression."""
        try:
            yield
        except TemplateError as error:
            raise error_of(error, origin.text, origin.source) from None

    def _frame(self, name: str) -> int:
        """The number of the time-points of a stream's instances; `ROWS` if it has none."""
        stream = self._streams[name]
        return self._frame_of(self._lifetime(stream), stream.period) if stream.per else ROWS

    def _lifetime(self, stream: Stream) -> Lifetime:
        with self._template_errors(stream.value):
            return lifetime_of(stream.per, stream.start, stream.end)

    def _frame_of(self, lifetime: Lifetime, period: int) -> int:
        """The number of the rows or the ticks of instances."""
        return self._frames.setdefault((lifetime, period), -1 - len(self._frames))

    def _lifetime_and_period(self, frame: int) -> tuple[Lifetime, int]:
        """What instances have time-points with a number, and the period of these."""
        return next(one for one, number in self._frames.items() if number == frame)

    def _period_of(self, frame: int) -> int:
        """The period of time-points, also of instances; `ROWS` if they are rows."""
        return frame if frame >= ROWS else self._lifetime_and_period(frame)[1]

    def _is_of_rows(self, frame: int) -> bool:
        return self._period_of(frame) == ROWS

    def _names(self, predicate: Predicate, period: int) -> list[Need[_Name]]:
        """The streams and definitions that an expression names, if it is evaluated somewhere."""
        own_period = self._period_of(period)
        conflict = self._time_points.conflict(predicate.expression, own_period)
        if conflict is not None:
            raise self._conflict(predicate, conflict)
        if own_period > ROWS:
            self._periods[own_period] = None
        found: dict[Need[_Name], None] = {}
        seen: set[tuple[int, bool, int]] = set()
        stack = [(predicate.expression, False, period)]
        while stack:
            node, is_past, period = stack.pop()
            if (id(node), is_past, period) in seen:
                continue
            seen.add((id(node), is_past, period))
            if node.operator in _NAMED:
                found[Need(self._name(node, period, predicate), is_past)] = None
            elif node.operator in OF_INSTANCES:
                if period < ROWS < self._period_of(period):
                    message = "a stream with per and every cannot read other instances"
                    hint = f"read {node} in a stream without per"
                    raise self._error(predicate, node, message, hint)
                name = self._name_of_instances(node)
                found[Need(name, is_past)] = None
                if node.operator is ops.OVER:
                    period = name.period
            if node.operator in MEMORY:
                is_past = is_past or self._extent(node, predicate).excludes_present
                inner = self._argument_period(node, predicate, period)
                # rows and ticks never coincide
                is_past = is_past or self._is_of_rows(inner) != self._is_of_rows(period)
                period = inner
            stack += [(operand, is_past, period) for operand in node.operands]
        return list(found)

    def _name(self, node: Expression, period: int, predicate: Predicate) -> _Name:
        """What a name stands for; a stream has time-points of its own."""
        known = self._streams if node.operator is ops.STREAM else self._definitions
        if node.name not in known:
            raise self._error(predicate, node, f"{node.name} is not defined")
        name = _Name(node.name, max(period, ROWS))  # an instance reads what is true of the trace
        if node.operator is ops.STREAM:
            stream = self._streams[node.name]
            name = _Name(node.name, self._frame(node.name) if stream.per else stream.period)
        if period < ROWS < self._period_of(period) and name.period != period:
            message = f"{node.name} has no value at the ticks of an instance"
            hint = (
                f"take a window of rows there, as in {_EXAMPLE}, or read streams with the same "
                "per, from, until and every"
            )
            raise self._error(predicate, node, message, hint)
        return name

    def _name_of_instances(self, node: Expression) -> _Name:
        """The stream whose instances a node reads."""
        return _Name(stream_of(node), self._frame(stream_of(node)))

    def _argument_period(self, node: Expression, origin: Predicate, own: int) -> int:
        """The time-points of the argument of an aggregate or offset.

        Args:
            node: the aggregate or offset.
            origin: the expression that it is a part of.
            own: its own time-points.
        """
        period, _ = self._time_points.argument_period(node)
        assert isinstance(period, int)
        if own >= ROWS:
            return period
        lifetime, own_period = self._lifetime_and_period(own)
        if period == ROWS:
            return self._frame_of(lifetime, ROWS)
        frame = self._frame_of(lifetime, period)
        names = [read.node for one in node.operands for read in self._time_points.reads(one)]
        is_own = all(
            name.operator is ops.STREAM and self._frame(name.name) == frame for name in names
        )
        if is_own and own_period in {ROWS, period}:
            return frame
        word = node.operator.word
        message = f"{word} in a stream with per looks at rows or ticks of the instance only"
        hint = "its argument can be about rows, or streams with the same per, from, until and every"
        raise self._error(origin, node, message, hint)

    def _conflict(self, predicate: Predicate, conflict: Conflict) -> PolicyError:
        what = "this" if predicate.name is None else f"{predicate.role} {predicate.name}"
        message, hint = explained(conflict, what)
        return self._error(predicate, conflict.read.node, message, hint)

    def _recursive(self, group: list[_Name], needs: Mapping[_Name, list[Need[_Name]]]) -> None:
        """Place streams that read their own earlier values."""
        for name in group:
            for part in self._parts_of_lifetime(name.name):
                if any(need.name in group for need in self._names(part, ROWS)):
                    message = f"stream {name.name} needs its own values to know its instances"
                    hint = "per, from and until are about columns, atoms and other streams"
                    raise self._error(part, part.expression, message, hint)
        period = group[0].period
        for other in group:
            if other.period != period and min(period, other.period) < ROWS:
                self._refuse_circle(group[0], other)
        order = present_order(group, needs)
        rest = [name for name in group if name not in order]
        if rest:
            where = "row" if self._is_of_rows(rest[0].period) else "tick"
            self._refuse([name.name for name in rest], where)
        own = {name: f"{self._prefix}own {number}" for number, name in enumerate(order)}
        members: list[Member] = []
        memories: dict[tuple[int, int, Expression], Memory] = {}
        layer = 0
        for name in order:
            layer = max(layer, self._first_layer(name.period))
            parts = self._parts(name.name)
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
                members, found, self.schema, self._column_periods, self._kinds, self._texts
            )
        except NotPossible as error:
            part = self._parts(order[0].name)[0]
            raise self._error(part, part.expression, str(error)) from None
        columns = [self._new_column(column_type(kind)) for kind in recursion.kinds]
        self._add_task(recursion.task(columns), layer)
        for name, column in zip(order, columns, strict=True):
            node = self._parts(name.name)[0].expression
            self._known[name] = _Placed(_read(column, node), layer + 1)

    def _refuse_circle(self, one: _Name, other: _Name) -> NoReturn:
        """Raise the error of streams that need each other, but not all in the same instances."""
        predicate = self._parts(one.name)[0]
        message = f"streams {one.name} and {other.name} read each other, but not per instance"
        hint = "per, from, until and every must be the same for streams that read each other"
        raise self._error(predicate, predicate.expression, message, hint)

    def _over_columns(
        self,
        part: Predicate,
        period: int,
        own: Mapping[_Name, str],
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
            column, lowest = self._column(self._place(node, part, points), part, points)
            self._column_periods[column] = points
            layer = max(layer, lowest)
            return _read(column, node)

        for node, points in self._nodes(part.expression, part, period):
            if node.operator in OF_INSTANCES and self._name_of_instances(node) in own:
                message = "a stream cannot depend on other instances of itself"
                raise self._error(part, node, message, "name an instance of another stream")
            inner = points
            if node.operator in MEMORY:
                inner = self._argument_period(node, part, points)
            if node.operator in _NAMED and (name := self._name(node, points, part)) in own:
                replaced[id(node), points] = _read(own[name], node)
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
                        column = f"{self._prefix}kept {len(memories)}"
                        extent = self._extent(node, part)
                        memories[key] = Memory(column, node, extent, found, part, points, inner)
                    found = _read(memories[key].column, node)
                replaced[id(node), points] = found
        return over_columns(part.expression, period), layer

    def _refuse(self, names: list[str], where: str) -> NoReturn:
        """Raise the error of streams that need their own values at the same row or tick."""
        predicate = self._parts(names[0])[0]
        if len(names) == 1:
            message = f"stream {names[0]} needs its own value at the same {where}"
        else:
            message = f"streams {', '.join(names)} need each other at the same {where}"
        hint = f"write {names[0]}.last(or: 0) for the value at an earlier {where}"
        raise self._error(predicate, predicate.expression, message, hint)

    def _stream(self, name: _Name) -> None:
        """Place a stream or definition; what it needs has a place."""
        period = name.period
        part, *conditions = self._parts(name.name)
        placed = self._place(part.expression, part, period)
        stream = self._streams.get(name.name)
        for on in conditions:
            where = self._place(on.expression, on, period)
            self._kind(where.expression, on)
            chosen = chosen_value(where.expression, placed.expression, None)
            placed = _Placed(chosen, max(placed.layer, where.layer))
        if stream is not None and stream.kind is kinds.FLOAT:
            # what is written as an integer becomes a float, too
            always = Expression(ops.CONSTANT, (), True, part.expression.span)
            placed = _Placed(chosen_value(always, placed.expression, Decimal("0.0")), placed.layer)
        self._known[name] = placed

    def _place(self, expression: Expression, origin: Predicate, period: int) -> _Placed:
        """Replace everything with a memory by columns of some time-points, and find the layer."""
        results: dict[tuple[int, int], _Placed] = {}
        for node, points in self._nodes(expression, origin, period):
            if (id(node), points) in results:
                continue
            if node.operator is ops.OVER:
                results[id(node), points] = self._over(node, origin, points)
                continue
            inner = points
            if node.operator in MEMORY:
                inner = self._argument_period(node, origin, points)
            operands = [results[id(operand), inner] for operand in node.operands]
            layer = max((operand.layer for operand in operands), default=self._first_layer(points))
            if node.operator in _NAMED:
                placed = self._named(node, origin, points)
            elif node.operator is ops.PARAMETER:
                placed = self._parameter(node, origin, points)
            elif node.operator is ops.INSTANCE:
                placed = self._instance(node, operands, origin, points)
            elif node.operator in MEMORY:
                placed = self._kernel(node, operands, origin, inner, points)
            else:
                if node.operator in ops.COLUMNS:
                    self.columns.append(node.name)
                placed = _Placed(_with_operands(node, operands), layer)
            results[id(node), points] = placed
        return results[id(expression), period]

    def _nodes(
        self, expression: Expression, origin: Predicate, period: int
    ) -> Iterator[tuple[Expression, int]]:
        """Yield the nodes with their time-points, each after its operands, but none inside OVER."""
        stack = [(expression, period, False)]
        seen: set[tuple[int, int]] = set()
        while stack:
            node, points, is_done = stack.pop()
            if is_done:
                yield node, points
            elif (id(node), points) not in seen:
                seen.add((id(node), points))
                stack.append((node, points, True))
                if node.operator is ops.OVER:
                    continue
                inner = points
                if node.operator in MEMORY:
                    inner = self._argument_period(node, origin, points)
                stack += [(operand, inner, False) for operand in reversed(node.operands)]

    def _named(self, node: Expression, origin: Predicate, period: int) -> _Placed:
        """Place what a name stands for at some time-points where it has values."""
        name = self._name(node, period, origin)
        placed = self._known[name]
        if name.period == period:
            return placed
        if name.period < ROWS:
            column, layer = self._at_rows(placed, origin, name.period)
            return _Placed(_read(column, node), max(layer, self._first_layer(period)))
        if period < ROWS:
            column, layer = self._column(placed, origin, name.period)
            return _Placed(_read(column, node), max(layer + 1, self._first_layer(period)))
        assert exists_at(name.period, period)
        column, layer = self._column(placed, origin, name.period)
        chosen = self._columns.get((period, _read(column, node)))
        if chosen is None:
            copied = self._new_column(self.schema.field(column).type)
            self._layer(layer).tasks.append(ChoiceTask(copied, column, name.period, period))
            chosen = self._columns[period, _read(column, node)] = copied, layer + 1
        return _Placed(_read(chosen[0], node), chosen[1])

    def _first_layer(self, period: int) -> int:
        """The first layer in which time-points are known; those of instances follow from rows."""
        if period >= ROWS:
            return 0
        return self._family(period)[1] + 1

    def _family(self, frame: int) -> tuple[Family, int]:
        """The family whose rows or ticks have a number, and the layer in which these are found."""
        lifetime, period = self._lifetime_and_period(frame)
        if period != ROWS:
            family, layer = self._family(self._frame_of(lifetime, ROWS))
            if frame not in self._instance_ticks:
                ticks = InstanceTicks(frame, family, period)
                family.ticks.append(ticks)
                self._instance_ticks[frame] = ticks
                time = self._time_column()
                self._layer(layer).tasks.append(InstanceTicksTask(ticks, time))
            return family, layer
        if frame not in self._placed_families:
            stream = next(
                stream
                for stream in self._streams.values()
                if stream.per and self._lifetime(stream) == lifetime
            )
            self._placed_families[frame] = self._new_family(frame, stream, lifetime)
        return self._placed_families[frame]

    def _time_column(self) -> TimeColumn | None:
        """The time column, if rows have one."""
        name = self._environment.time
        if name is None or name not in self.schema.names:
            return None
        return TimeColumn(name, self.schema.field(name).type, self._environment)

    def _new_family(self, frame: int, stream: Stream, lifetime: Lifetime) -> tuple[Family, int]:
        """Place the instances of a stream; returns them, and their layer."""
        layer = 0

        origin = stream.value

        def key_column(expression: Expression) -> KeyColumn:
            nonlocal layer
            placed = self._place(expression, origin, ROWS)
            column, lowest = self._column(placed, origin, ROWS)
            layer = max(layer, lowest)
            return KeyColumn(column, self._kind(placed.expression, origin))

        keys = [key_column(key) for key in lifetime.keys]
        start = None if lifetime.start is None else key_column(lifetime.start).name
        ends = None
        if lifetime.has_end:
            condition = None if lifetime.end is None else key_column(lifetime.end).name
            end_keys = [key_column(one) for one in lifetime.end_keys]
            for one, key, node in zip(end_keys, keys, lifetime.end_keys, strict=False):
                self._require_comparable(one, key, origin, node)
            ends = Ends(condition, end_keys or None)
        try:
            family = Family(frame, keys, start, ends, self._texts)
        except NotPossible as error:
            raise self._error(origin, lifetime.keys[0], str(error)) from None
        self._layer(layer).tasks.append(FamilyTask(family))
        return family, layer

    def _require_comparable(
        self, one: KeyColumn, key: KeyColumn, origin: Predicate, node: Expression
    ) -> None:
        """Raise an error if values of a column cannot be those of a key."""
        joined = joined_kind(one.kind, key.kind)
        if joined is None or (one.kind.name == "time" and one.kind != key.kind):
            message = f"the value after per is {key.kind.words}, but this is {one.kind.words}"
            raise self._error(origin, node, message, "both must have the same type")

    def _parameter(self, node: Expression, origin: Predicate, frame: int) -> _Placed:
        """Place a parameter: the value after `per`."""
        assert origin.name is not None
        number = parameters_of(self._streams[origin.name].per)[node.name]
        key = self._family(frame)[0].keys[number]
        lifetime, period = self._lifetime_and_period(frame)
        if period == ROWS:
            return _Placed(_read(key.name, node), self._first_layer(frame))
        # the value at the last row of the instance
        rows = self._frame_of(lifetime, ROWS)
        placed = _Placed(_read(key.name, node), self._first_layer(rows))
        held = Expression(ops.HOLD, (node,), Offset(0), node.span)
        return self._kernel(held, [placed], origin, rows, frame)

    def _at_rows(self, placed: _Placed, origin: Predicate, frame: int) -> tuple[str, int]:
        """Make an expression of instances a column of rows, null for rows without an instance."""
        if frame >= ROWS:
            return self._column(placed, origin, frame)
        column, layer = self._column(placed, origin, frame)
        key = _read(column, placed.expression)
        if (ROWS, key) not in self._columns:
            self._layer(layer).tasks.append(RowsTask(column, frame))
            self._columns[ROWS, key] = column, layer + 1
        return self._columns[ROWS, key]

    def _instance(
        self, node: Expression, operands: list[_Placed], origin: Predicate, period: int
    ) -> _Placed:
        """Place `s[EXPRESSION]`."""
        name = self._name_of_instances(node)
        at_ticks = self._period_of(name.period) > ROWS
        if period > ROWS and not at_ticks:
            if any(operand.operator is not ops.CONSTANT for operand in node.operands):
                message = f"an instance of {column_text(node.name)} is looked up at rows"
                raise self._error(origin, node, message, f"declare a stream: stream x = {node}")
            return self._place(_at_last_row(node), origin, period)
        family, _ = self._family(name.period)
        replaced = _with_operands(node, operands)
        key_of = (period, replaced)
        if key_of not in self._columns:
            layer = 0
            keys = []
            for operand, key in zip(operands, family.keys, strict=True):
                column, lowest = self._at_rows(operand, origin, period)
                layer = max(layer, lowest)
                keys.append(KeyColumn(column, self._kind(operand.expression, origin)))
                self._require_comparable(keys[-1], key, origin, node)
            self._columns[key_of] = self._looked_up(name, keys, layer, origin, max(period, ROWS))
        column, layer = self._columns[key_of]
        return _Placed(_read(column, node), max(layer, self._first_layer(period)))

    def _looked_up(
        self, name: _Name, keys: list[KeyColumn], layer: int, origin: Predicate, period: int
    ) -> tuple[str, int]:
        """Place the held value of one instance at rows or ticks; its column and layer."""
        family, lowest = self._family(name.period)
        layer = max(layer, lowest)
        held = self._known[name]
        kind = self._kind(held.expression, origin)
        argument_period = ROWS
        if self._period_of(name.period) > ROWS:
            argument_period = name.period
            value, lowest = self._column(held, origin, name.period)
        else:
            value, lowest = self._at_rows(held, origin, name.period)
        layer = max(layer, lowest)
        column = self._new_column(column_type(cell_kind(kind)))
        task = LookUpTask(column, family, keys, value, kind, self._texts, argument_period, period)
        self._layer(layer).tasks.append(task)
        family.kernels += task.kernels
        return column, layer + 1

    def _own_value(self, name: _Name, origin: Predicate) -> str:
        """Place the value of each row's own instance, at ticks the last; the name of its column."""
        if self._period_of(name.period) == ROWS:
            return self._at_rows(self._known[name], origin, name.period)[0]
        family, layer = self._family(name.period)
        return self._looked_up(name, family.keys, layer, origin, ROWS)[0]

    def _over(self, node: Expression, origin: Predicate, period: int) -> _Placed:
        """Place an aggregate over the instances of a stream."""
        frame = self._name_of_instances(node).period
        at_ticks = self._period_of(frame) > ROWS
        if period > ROWS and not at_ticks:
            return self._place(_at_last_row(node), origin, period)
        points = max(period, ROWS)
        if (points, node) not in self._columns:
            family, _ = self._family(frame)
            placed = self._place(self._held(node, origin, frame), origin, frame)
            first = None
            whole = Expression(ops.OVER, (placed.expression,), node.value, node.span)
            kind = self._kinds(whole, origin, self.schema)[id(placed.expression)]
            if at_ticks:
                column, layer = self._column(placed, origin, frame)
                first, lowest = self._before_ticks(node, kind, origin, frame)
                layer = max(layer, lowest)
            else:
                column, layer = self._at_rows(placed, origin, frame)
            argument_period = frame if at_ticks else ROWS
            result = f"{self._prefix}{len(self.schema.names)}"
            try:
                task = OverTask(
                    result, node, family, column, kind, self._texts, argument_period, points, first
                )
            except NotPossible as error:
                raise self._error(origin, node, str(error)) from None
            self._new_column(column_type(task.kind))
            self._layer(layer).tasks.append(task)
            self._columns[points, node] = result, layer + 1
        column, layer = self._columns[points, node]
        return _Placed(_read(column, node), max(layer, self._first_layer(period)))

    def _before_ticks(
        self, node: Expression, kind: Kind, origin: Predicate, frame: int
    ) -> tuple[str, int]:
        """Place the argument of OVER for an instance that has had no tick; its column and layer."""
        (argument,) = node.operands
        built: dict[int, Expression] = {}
        for one in postorder(argument):
            operands = tuple(built[id(operand)] for operand in one.operands)
            built[id(one)] = Expression(one.operator, operands, one.value, one.span)
            if one.operator is ops.STREAM:
                value = self._known[self._name(one, frame, origin)].expression
                found = column_type(cell_kind(self._kind(value, origin)))
                column = self._new_column(found)
                self._layer(0).tasks.append(NullTask(column, found))
                built[id(one)] = _read(column, one)
        always = Expression(ops.CONSTANT, (), True, node.span)
        placed = _Placed(built[id(argument)], 1)
        if kind.name == "float":
            # what is written as an integer becomes a float, too
            placed = _Placed(chosen_value(always, placed.expression, Decimal("0.0")), 1)
        return self._column(placed, origin, ROWS)

    def _held(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        """The argument of OVER, with the held values of streams."""
        (argument,) = node.operands
        built: dict[int, Expression] = {}
        for one in postorder(argument):
            operands = tuple(built[id(operand)] for operand in one.operands)
            if one.operator is ops.STREAM and self._frame(one.name) == frame:
                built[id(one)] = Expression(ops.HOLD, (one,), Offset(0), one.span)
            elif one.operator in _NOT_HELD:
                message = "over looks at values of instances and constants only"
                hint = (
                    "declare a stream with the same clauses per, from and until for the rest, "
                    f"and write {node.over.aggregate}(... over STREAM)"
                )
                raise self._error(origin, one, message, hint)
            else:
                built[id(one)] = Expression(one.operator, operands, one.value, one.span)
        return built[id(argument)]

    def _extent(self, node: Expression, origin: Predicate) -> Extent:
        try:
            return extent_of(node, self._environment.unit)
        except NotPossible as error:
            raise self._error(origin, node, str(error)) from None

    def _kind(self, expression: Expression, origin: Predicate) -> Kind:
        return self._kinds(expression, origin, self.schema)[id(expression)]

    def _kinds(
        self,
        expression: Expression,
        origin: Predicate,
        schema: pa.Schema,
        is_final: bool = True,
    ) -> Mapping[int, Kind]:
        part = Part(expression, origin)
        return check_part(part, schema, self._environment, is_final=is_final)

    def _kernel(
        self,
        node: Expression,
        operands: list[_Placed],
        origin: Predicate,
        argument_period: int,
        period: int,
    ) -> _Placed:
        extent = self._extent(node, origin)
        replaced = _with_operands(node, operands)
        if (period, replaced) not in self._columns:
            kinds_of = self._kinds(replaced, origin, self.schema)
            argument, layer, kind = None, self._first_layer(period), kinds.NULL
            for operand in operands:
                argument, layer = self._column(operand, origin, argument_period)
                kind = kinds_of[id(operand.expression)]
            try:
                make = OwnKernel if node.operator is ops.WINDOW_OWN else Kernel
                own_period = self._period_of(period)
                kernel = make(node, kind, kinds_of[id(replaced)], extent, self._texts, own_period)
            except NotPossible as error:
                raise self._error(origin, node, str(error)) from None
            column = self._new_column(column_type(kernel.kind))
            task = KernelTask(column, kernel, argument, argument_period, period)
            self._add_task(task, layer)
            self._columns[period, replaced] = column, layer + 1
        column, layer = self._columns[period, replaced]
        return _Placed(_read(column, node), layer)

    def _add_task(self, task: Task, layer: int) -> None:
        """Add a task for the rows of traces or instances, or for ticks, to a layer."""
        self._layer(layer).tasks.append(task)
        if task.period < ROWS:
            self._family(task.period)[0].kernels += task.kernels

    def _column(self, placed: _Placed, origin: Predicate, period: int) -> tuple[str, int]:
        """Make an expression a column of its layer, with values at some time-points."""
        if (period, placed.expression) in self._columns:
            return self._columns[period, placed.expression]
        part = Part(placed.expression, origin)
        kind = self._kind(placed.expression, origin)
        column = self._new_column(column_type(kind))
        self._layer(placed.layer).parts.setdefault(period, {})[column] = part
        self._columns[period, placed.expression] = column, placed.layer
        return column, placed.layer

    def _new_column(self, column_type: pa.DataType) -> str:
        name = f"{self._prefix}{len(self.schema.names)}"
        self.schema = self.schema.append(pa.field(name, column_type))
        return name

    def _layer(self, number: int) -> Layer:
        while len(self._layers) <= number:
            self._layers.append(Layer())
        return self._layers[number]

    def _error(
        self, origin: Predicate, node: Expression, message: str, hint: str | None = None
    ) -> PolicyError:
        place = 0 if node.span is None else node.span.start
        error = formula_error(
            origin.text, place, message, source=origin.source, hint=hint, kind=PolicyError
        )
        assert isinstance(error, PolicyError)
        return error


class HeldPlan(NamedTuple):
    """Expressions of rows that wait, and what they need at rows.

    Attributes:
        expressions: the expressions, without the names of what looks at later values, and what they
            come from, by name.
        parts: the parts that look at no later values.
    """

    expressions: dict[str, tuple[Expression, Predicate]]
    parts: list[Predicate]


class _Placed(NamedTuple):
    """An expression that reads columns only, and the first layer in which they exist."""

    expression: Expression
    layer: int


_NAMED = {ops.STREAM, ops.ATOM, ops.LET}
_EXAMPLE = "last[0,1m](x)"
# What does not have one value for each instance, whatever the row.
_NOT_HELD = {ops.PARAMETER, *_NAMED, *OF_INSTANCES, *ops.COLUMNS, *MEMORY}


def _is_value(wanted: Predicate) -> bool:
    """Whether the value of a stream as such is wanted, rather than an expression that reads it."""
    return wanted.expression.operator is ops.STREAM and wanted.role == "stream"


def _at_last_row(node: Expression) -> Expression:
    """The value of a node at the last row, null if it is null there."""
    is_known = Expression(ops.IS_NOT_NULL, (node,), None, node.span)
    was_known, value = (
        Expression(ops.HOLD, (one,), Offset(0), node.span) for one in (is_known, node)
    )
    return chosen_value(was_known, value, None)


def _with_operands(node: Expression, operands: list[_Placed]) -> Expression:
    found = tuple(operand.expression for operand in operands)
    if all(one is other for one, other in zip(found, node.operands, strict=True)):
        return node
    return Expression(node.operator, found, node.value, node.span)


def _read(column: str, node: Expression) -> Expression:
    """An expression that reads a computed column in the place of a node."""
    return Expression(ops.ROW_COLUMN, (), ComputedColumn(column, node), node.span)


def _unused_prefix(names: list[str]) -> str:
    prefix = "value "
    while any(name.startswith(prefix) for name in names):
        prefix += "."
    return prefix
