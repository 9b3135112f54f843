"""Streams as a program: an order in which whole columns are computed.

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
from math import inf
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from mtlmon.errors import PolicyError, RowError, SnapshotError, TickError
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.compiling import column_type
from mtlmon.policy.predicates.environment import NOTHING, Environment
from mtlmon.policy.predicates.expression import Expression, Offset
from mtlmon.policy.predicates.kinds import joined as joined_kind
from mtlmon.policy.predicates.predicate import Predicate
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.predicates.time_points import (
    MEMORY,
    ROWS,
    TimePoints,
    exists_at,
    explained,
    words_of,
)
from mtlmon.policy.templates import (
    OF_INSTANCES,
    TemplateError,
    condition_of,
    error_of,
    keys_of,
    lifetime_of,
    parameters_of,
    refuse_ticks_of_instances,
    require_readable,
    require_readable_clauses,
    stream_of,
)
from mtlmon.streams.cells import Texts, cell_kind
from mtlmon.streams.dependencies import Need, in_order, is_recursive, present_order
from mtlmon.streams.instances import (
    Ends,
    Family,
    FamilyTask,
    KeyColumn,
    LookUpTask,
    OverTask,
    RowsTask,
)
from mtlmon.streams.kernels import Kernel, NotPossible, extent_of
from mtlmon.streams.layer import ChoiceTask, KernelTask, Layer, LayerError, Part, check_part
from mtlmon.streams.points import NO_TICKS, Points, Ticking, tick_times
from mtlmon.streams.recursion import Member, Memory, Recursion
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.expression import Constant
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.time_points import Conflict
    from mtlmon.policy.templates import Lifetime, Per
    from mtlmon.streams import native
    from mtlmon.streams.kernels import Extent
    from mtlmon.streams.layer import Task
    from mtlmon.streams.points import Ticks


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


class _Builder:
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
        # The numbers of families, which are negative, and the families that have a place.
        self._per = {name: stream.per for name, stream in streams.items()}
        self._frames: dict[Lifetime, int] = {}
        self._placed_families: dict[int, tuple[Family, int]] = {}

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
        return [one.keys for one, frame in self._frames.items() if frame in self._placed_families]

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
                return self._at_rows(self._known[name], predicate, name.period)[0]
        placed = self._place(predicate.expression, predicate, period)
        return self._column(placed, predicate, period)[0]

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
        if on is not None and stream.per:
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
        """The number of the family that a stream belongs to; `ROWS` if it has no instances."""
        stream = self._streams[name]
        if not stream.per:
            return ROWS
        with self._template_errors(stream.value):
            if stream.period != ROWS:
                refuse_ticks_of_instances(name, stream.value.expression)
            lifetime = lifetime_of(stream.per, stream.start, stream.end)
        return self._frames.setdefault(lifetime, -1 - len(self._frames))

    def _names(self, predicate: Predicate, period: int) -> list[Need[_Name]]:
        """The streams and definitions that an expression names, if it is evaluated somewhere."""
        conflict = self._time_points.conflict(predicate.expression, max(period, ROWS))
        if conflict is not None:
            raise self._conflict(predicate, conflict)
        if period > ROWS:
            self._periods[period] = None
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
                name = self._name_of_instances(node)
                found[Need(name, is_past)] = None
                if node.operator is ops.OVER:
                    period = name.period
            if node.operator in MEMORY:
                is_past = is_past or self._extent(node, predicate).excludes_present
                period = self._argument_period(node, predicate, period)
            stack += [(operand, is_past, period) for operand in node.operands]
        return list(found)

    def _name(self, node: Expression, period: int, predicate: Predicate) -> _Name:
        """What a name stands for; a stream has time-points of its own."""
        known = self._streams if node.operator is ops.STREAM else self._definitions
        if node.name not in known:
            raise self._error(predicate, node, f"{node.name} is not defined")
        if node.operator is not ops.STREAM:
            # An instance reads what is true of the trace.
            return _Name(node.name, max(period, ROWS))
        stream = self._streams[node.name]
        return _Name(node.name, self._frame(node.name) if stream.per else stream.period)

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
        if period != ROWS:
            word = node.operator.word
            message = f"{word} in a stream with per is about rows, but its argument has ticks"
            raise self._error(origin, node, message, "take the aggregate in a stream without per")
        return own

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
            if other.period != period:
                self._refuse_circle(group[0], other)
        order = present_order(group, needs)
        rest = [name.name for name in group if name not in order]
        if rest:
            self._refuse(rest)
        own = {name: f"{self._prefix}own {number}" for number, name in enumerate(order)}
        members: list[Member] = []
        memories: dict[Expression, Memory] = {}
        layer = self._first_layer(period)
        for name in order:
            parts = self._parts(name.name)
            replaced = []
            for part in parts:
                expression, lowest = self._over_columns(part, period, own, memories)
                layer = max(layer, lowest)
                replaced.append(expression)
            on = replaced[1] if len(replaced) > 1 else None
            members.append(Member(own[name], replaced[0], on, parts))

        found = [*memories.values()]
        try:
            recursion = Recursion(members, found, self.schema, self._kinds, self._texts)
        except NotPossible as error:
            part = self._parts(order[0].name)[0]
            raise self._error(part, part.expression, str(error)) from None
        columns = [self._new_column(column_type(kind)) for kind in recursion.kinds]
        self._add_task(recursion.task(columns, period), layer)
        for name, column in zip(order, columns, strict=True):
            node = self._parts(name.name)[0].expression
            self._known[name] = _Placed(_read(column, node), layer + 1)

    def _refuse_circle(self, one: _Name, other: _Name) -> NoReturn:
        """Raise the error of streams that need each other at different time-points."""
        predicate = self._parts(one.name)[0]
        if min(one.period, other.period) < ROWS:
            message = f"streams {one.name} and {other.name} read each other, but not per instance"
            hint = "per, from and until must be the same for streams that read each other"
            raise self._error(predicate, predicate.expression, message, hint)
        message = (
            f"{one.name} is {words_of(one.period)} and {other.name} is {words_of(other.period)}, "
            "but they read each other"
        )
        hint = "streams that read each other need the same time-points"
        raise self._error(predicate, predicate.expression, message, hint)

    def _over_columns(
        self,
        part: Predicate,
        period: int,
        own: Mapping[_Name, str],
        memories: dict[Expression, Memory],
    ) -> tuple[Expression, int]:
        """Replace what does not depend on a group by columns, and its memories likewise.

        Args:
            part: an expression of the group.
            period: the time-points of the group.
            own: the columns that stand for the streams of the group.
            memories: the aggregates and offsets that were found so far; more are added.

        Returns:
            The expression, and the layer of the columns.
        """
        layer = 0
        # None for what does not depend on the group.
        replaced: dict[int, Expression | None] = {}

        def over_columns(node: Expression) -> Expression:
            nonlocal layer
            found = replaced[id(node)]
            if found is not None:
                return found
            if node.operator is ops.CONSTANT:
                return node
            column, lowest = self._column(self._place(node, part, period), part, period)
            layer = max(layer, lowest)
            return _read(column, node)

        for node in postorder(part.expression):
            if node.operator in OF_INSTANCES and self._name_of_instances(node) in own:
                message = "a stream cannot depend on other instances of itself"
                raise self._error(part, node, message, "name an instance of another stream")
            if node.operator in _NAMED and (name := self._name(node, period, part)) in own:
                replaced[id(node)] = _read(own[name], node)
            elif all(replaced[id(operand)] is None for operand in node.operands):
                replaced[id(node)] = None
            else:
                if (
                    node.operator in MEMORY
                    and (argument := self._argument_period(node, part, period)) != period
                ):
                    message = (
                        f"the argument of {node.operator.word} is {words_of(argument)}, "
                        f"but reads the stream itself, which is {words_of(period)}"
                    )
                    raise self._error(part, node, message, "make the argument a stream")
                operands = tuple(over_columns(operand) for operand in node.operands)
                found = Expression(node.operator, operands, node.value, node.span)
                if node.operator in MEMORY:
                    if found not in memories:
                        column = f"{self._prefix}kept {len(memories)}"
                        extent = self._extent(node, part)
                        memories[found] = Memory(column, node, extent, found, part)
                    found = _read(memories[found].column, node)
                replaced[id(node)] = found
        return over_columns(part.expression), layer

    def _refuse(self, names: list[str]) -> NoReturn:
        """Raise the error of streams that need their own values at the same row."""
        predicate = self._parts(names[0])[0]
        if len(names) == 1:
            message = f"stream {names[0]} needs its own value at the same row"
        else:
            message = f"streams {', '.join(names)} need each other at the same row"
        hint = f"write {names[0]}.last(or: 0) for the value at an earlier row"
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
            chosen = _chosen(where.expression, placed.expression, None)
            placed = _Placed(chosen, max(placed.layer, where.layer))
        if stream is not None and stream.kind is kinds.FLOAT:
            # what is written as an integer becomes a float, too
            always = Expression(ops.CONSTANT, (), True, part.expression.span)
            placed = _Placed(_chosen(always, placed.expression, Decimal("0.0")), placed.layer)
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
        """The family with a number, and its layer."""
        if frame not in self._placed_families:
            lifetime = next(one for one, number in self._frames.items() if number == frame)
            stream = next(
                stream
                for name, stream in self._streams.items()
                if stream.per and self._frame(name) == frame
            )
            self._placed_families[frame] = self._new_family(frame, stream, lifetime)
        return self._placed_families[frame]

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
        return _Placed(_read(key.name, node), self._first_layer(frame))

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
        if period > ROWS:
            if any(operand.operator is not ops.CONSTANT for operand in node.operands):
                message = f"an instance of {column_text(node.name)} is looked up at rows"
                raise self._error(origin, node, message, f"declare a stream: stream x = {node}")
            return self._place(_at_last_row(node), origin, period)
        family, layer = self._family(name.period)
        replaced = _with_operands(node, operands)
        key_of = (min(period, ROWS), replaced)
        if key_of not in self._columns:
            keys = []
            for operand, key in zip(operands, family.keys, strict=True):
                column, lowest = self._at_rows(operand, origin, period)
                layer = max(layer, lowest)
                keys.append(KeyColumn(column, self._kind(operand.expression, origin)))
                self._require_comparable(keys[-1], key, origin, node)
            held = self._known[name]
            kind = self._kind(held.expression, origin)
            value, lowest = self._at_rows(held, origin, name.period)
            layer = max(layer, lowest)
            column = self._new_column(column_type(cell_kind(kind)))
            task = LookUpTask(column, family, keys, value, kind, self._texts)
            self._layer(layer).tasks.append(task)
            family.kernels += task.kernels
            self._columns[key_of] = column, layer + 1
        column, layer = self._columns[key_of]
        return _Placed(_read(column, node), max(layer, self._first_layer(period)))

    def _over(self, node: Expression, origin: Predicate, period: int) -> _Placed:
        """Place an aggregate over the instances of a stream."""
        if period > ROWS:
            return self._place(_at_last_row(node), origin, period)
        if (ROWS, node) not in self._columns:
            frame = self._name_of_instances(node).period
            family, _ = self._family(frame)
            placed = self._place(self._held(node, origin, frame), origin, frame)
            whole = Expression(ops.OVER, (placed.expression,), node.value, node.span)
            kind = self._kinds(whole, origin, self.schema)[id(placed.expression)]
            column, layer = self._at_rows(placed, origin, frame)
            result = f"{self._prefix}{len(self.schema.names)}"
            try:
                task = OverTask(result, node, family, column, kind, self._texts)
            except NotPossible as error:
                raise self._error(origin, node, str(error)) from None
            self._new_column(column_type(task.kind))
            self._layer(layer).tasks.append(task)
            self._columns[ROWS, node] = result, layer + 1
        column, layer = self._columns[ROWS, node]
        return _Placed(_read(column, node), max(layer, self._first_layer(period)))

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
        self, expression: Expression, origin: Predicate, schema: pa.Schema
    ) -> Mapping[int, Kind]:
        return check_part(Part(expression, origin), schema, self._environment)

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
                kernel = Kernel(node, kind, kinds_of[id(replaced)], extent, self._texts)
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


class _Placed(NamedTuple):
    """An expression that reads columns only, and the first layer in which they exist."""

    expression: Expression
    layer: int


_NAMED = {ops.STREAM, ops.ATOM, ops.LET}
# What does not have one value for each instance, whatever the row.
_NOT_HELD = {ops.PARAMETER, *_NAMED, *OF_INSTANCES, *ops.COLUMNS, *MEMORY}
_MAGIC = b"MTLMON-STREAMS-2"
_DIGEST_BYTES = 8
_FORGOTTEN = 2**32 - 1
# More ticks than a batch can have.
_MANY_TICKS = 2**30
# With so many texts, those that no state has are looked for first.
_MANY_TEXTS = 65_536


def _is_value(wanted: Predicate) -> bool:
    """Whether the value of a stream as such is wanted, rather than an expression that reads it."""
    return wanted.expression.operator is ops.STREAM and wanted.role == "stream"


def _at_last_row(node: Expression) -> Expression:
    """The value of a node at the last row, null if it is null there."""
    is_known = Expression(ops.IS_NOT_NULL, (node,), None, node.span)
    was_known, value = (
        Expression(ops.HOLD, (one,), Offset(0), node.span) for one in (is_known, node)
    )
    return _chosen(was_known, value, None)


def _with_operands(node: Expression, operands: list[_Placed]) -> Expression:
    found = tuple(operand.expression for operand in operands)
    if all(one is other for one, other in zip(found, node.operands, strict=True)):
        return node
    return Expression(node.operator, found, node.value, node.span)


def _chosen(where: Expression, value: Expression, other: Constant) -> Expression:
    """An expression with a value where a condition holds, and another one elsewhere."""
    rest = Expression(ops.CONSTANT, (), other, value.span)
    return Expression(ops.IF, (where, value, rest), None, value.span)


def _read(column: str, node: Expression) -> Expression:
    """An expression that reads a computed column in the place of a node."""
    return Expression(ops.ROW_COLUMN, (), column, node.span)


def _unused_prefix(names: list[str]) -> str:
    prefix = "value "
    while any(name.startswith(prefix) for name in names):
        prefix += "."
    return prefix


def _digest(body: bytes) -> bytes:
    from hashlib import blake2b

    return blake2b(body, digest_size=_DIGEST_BYTES).digest()


def _parts(body: bytes) -> Iterator[bytes]:
    """The parts of a snapshot, each behind its length."""
    place = 0
    while place < len(body):
        size = int.from_bytes(body[place : place + 8], "little")
        place += 8
        yield body[place : place + size]
        place += size


def _no_flags(count: int) -> NDArray[np.bool_]:
    return np.zeros(count, np.bool_)


class StreamProgram:
    """Computes expressions over streams, batch after batch, for many traces.

    Args:
        wanted: the expressions to compute, by name. Names in them are resolved: a STREAM is one of
            `streams`, an ATOM or LET one of `definitions`.
        streams: the declared streams by name.
        schema: the schema of all batches; columns that no expression names may differ.
        definitions: what the names of atoms and lets stand for.
        environment: the unit of the time-stamps, which is needed if intervals or distances have
            units, and for functions of time the time column and the zone.
        periods: for each name in `wanted` whose values are wanted at ticks, their period in units
            of time.

    Attributes:
        columns: the names of the columns that are read.
        types: the type of the result for each name in `wanted`.
        periods: the periods of all ticks, also those that only streams have.

    Raises:
        PolicyError: a column does not exist, a type does not fit, a stream needs its own value at
            the same row, or an operator is not supported.
        FormulaError: a duration is not a whole number of units.
    """

    def __init__(
        self,
        wanted: Mapping[str, Predicate],
        streams: Mapping[str, Stream],
        schema: pa.Schema,
        definitions: Mapping[str, Predicate] | None = None,
        environment: Environment = NOTHING,
        periods: Mapping[str, int] | None = None,
    ) -> None:
        self._texts = Texts()
        found = {name: (periods or {}).get(name, ROWS) for name in wanted}
        builder = _Builder(streams, definitions or {}, schema, environment, self._texts)
        builder.streams_in_order((wanted[name], period) for name, period in found.items())
        outputs = {name: builder.output(wanted[name], period) for name, period in found.items()}
        self._layers = builder.finish()
        self._outputs = {name: (found[name], column) for name, column in outputs.items()}
        self.periods = builder.periods
        self._ticking = self._marked_ticking = Ticking(self.periods)
        self._points: Points | None = None
        self._environment = environment
        self._schema = schema
        self._kernels = [
            kernel for layer in self._layers for task in layer.tasks for kernel in task.kernels
        ]
        self._families = builder.families
        self._instances = builder.instances
        of_instances = {id(kernel) for family in self._families for kernel in family.kernels}
        # Those to whose state the numbers of traces matter.
        self._of_traces = [kernel for kernel in self._kernels if id(kernel) not in of_instances]
        # Constants of machines; they keep their numbers.
        self._constant_texts = len(self._texts)
        self._most_texts = _MANY_TEXTS
        self._clock = 0
        self._marked_clock = 0
        self.columns = tuple(dict.fromkeys(builder.columns))
        self.types = {name: builder.schema.field(column).type for name, column in outputs.items()}

    def evaluate(
        self,
        batch: pa.RecordBatch,
        time_stamps: NDArray[np.int64],
        numbers: NDArray[np.uint32] | None = None,
        until: int | None = None,
    ) -> dict[str, pa.Array]:
        """Compute all wanted expressions for the next rows, and remember the rows.

        The ticks below the last row are computed, too. `tick_count` tells how many these are.

        Args:
            batch: the rows, with the columns of the schema.
            time_stamps: their time-stamps, contiguous; they must not decrease, over all batches.
            numbers: for each row, the number of its trace, contiguous; None if there is only one
                trace. Numbers should be dense, as memory is needed for all below the largest.
            until: no further row is below this time, which is above the last row: compute all ticks
                below it.

        Returns:
            For each name in `wanted` an array as long as the batch, or with a value for each of
            `ticks_of` its period. Conditions keep their nulls.

        Raises:
            RowError: integers overflow in some rows. These rows must be left out: `evaluate` is to
                be called again with the other rows of the batch. The state is as before the call.
            TickError: integers overflow at a tick. The state is as before the call.
            ValueError: a column is missing or has another type than in the schema, or time-stamps
                decrease.
        """
        self.commit()
        if len(self._texts) >= self._most_texts:
            # most of them may be of rows that have left
            self._forget_texts()
        ticks = NO_TICKS
        following = self._ticking
        if self.periods:
            ticks, following = self._ticking.ticks(time_stamps, numbers, until)
        points = Points(time_stamps, numbers, ticks, self._clock)
        try:
            found = self._attempt(batch, points)
        except _Refused as refused:
            self._reject(batch, points, refused)
        except BaseException:
            self.undo()
            raise
        self._ticking = following
        return found

    def _reject(self, batch: pa.RecordBatch, points: Points, refused: _Refused) -> NoReturn:
        """Raise the error of the rows or the tick of a batch at which integers overflow."""
        while refused.has_memory or refused.period != ROWS:
            # It overflows if no earlier row does, which would have been left out before.
            self.undo()
            index, period = refused.error.rows[0], refused.period
            points_of, points = points, points.before(period, index)
            batch = batch.slice(0, points.row_count)
            try:
                self._attempt(batch, points)
            except _Refused as earlier:
                refused = earlier
            except BaseException:
                self.undo()
                raise
            else:
                self.undo()
                error = refused.error
                if period == ROWS:
                    raise RowError(error.reason, rows=(index,), atom=error.atom) from None
                tick = points_of.ticks_of(period)
                place, time_stamp = int(tick.places[index]), int(tick.time_stamps[index])
                raise TickError(error.reason, place=place, time_stamp=time_stamp) from None
        self.undo()
        raise refused.error from None

    def ticks_of(self, period: int) -> Ticks:
        """Return the ticks of a period that the last call of `evaluate` has computed."""
        return NO_TICKS if self._points is None else self._points.ticks_of(period)

    @property
    def points(self) -> Points:
        """The rows and ticks that the last call of `evaluate` has computed."""
        assert self._points is not None
        return self._points

    def tick_count(
        self, time_stamps: NDArray[np.int64], numbers: NDArray[np.uint32] | None
    ) -> NDArray[np.int64]:
        """Return how many ticks `evaluate` computes at most before each of the next rows.

        Args:
            time_stamps: the time-stamps of the rows, at least one.
            numbers: the numbers of their traces, as for `evaluate`.
        """
        if not self.periods:
            return np.zeros(len(time_stamps), np.int64)
        traces = 1 if numbers is None else int(numbers.max()) + 1
        counts = self._ticking.tick_count(time_stamps)
        return np.minimum(counts, _MANY_TICKS) * max(traces, len(self._ticking.has_row))

    @property
    def ticks_end(self) -> float:
        """A time below which all ticks have been computed; infinity if there are no ticks."""
        return self._ticking.done if self._ticking.has_row.any() else inf

    def time_behind(self, count: int) -> int | None:
        """Return a time below which all traces have about so many ticks from now on.

        Each trace has at least one. None if there are no ticks.
        """
        if not self._ticking.has_row.any():
            return None
        return self._ticking.time_behind(count // max(1, len(self._ticking.has_row)))

    def commit(self) -> None:
        """Let `undo` return to the present state from now on; `evaluate` begins with it."""
        self._marked_clock = self._clock
        self._marked_ticking = self._ticking
        for kernel in self._natives():
            kernel.begin()
        for family in self._families:
            family.begin()

    def undo(self) -> None:
        """Return to the state before the last call of `evaluate`."""
        self._clock = self._marked_clock
        self._ticking = self._marked_ticking
        for kernel in self._natives():
            kernel.undo()
        for family in self._families:
            family.undo()

    def settled(self, count: int) -> NDArray[np.bool_]:
        """Find the traces that can be forgotten.

        The state of such a trace is that of a new one, and time alone does not change it. Where
        there are ticks, no trace that has had a row is settled, as its ticks go on.

        Args:
            count: the number of traces.

        Returns:
            For each trace whether it is settled.
        """
        flags = np.ones(count, np.uint8)
        for kernel in _natives(self._of_traces):
            kernel.settled(flags)
        for family in self._families:
            family.table.settled(flags)
        if self.periods:
            has_row = self._ticking.has_row[:count]
            flags[: len(has_row)] &= ~has_row
        return flags.view(np.bool_)

    def keep(self, new_numbers: bytes) -> None:
        """Give traces new numbers, in the same order, and forget others.

        Args:
            new_numbers: 32-bit integers, indexed by the current number; 2^32-1 for traces to
                forget.
        """
        for kernel in _natives(self._of_traces):
            kernel.keep(new_numbers)
        for family in self._families:
            family.compact(new_numbers)
        if self.periods:
            numbers = np.frombuffer(new_numbers, np.uint32)
            is_kept = numbers[: len(self._ticking.has_row)] != _FORGOTTEN
            has_row = self._ticking.has_row[: len(is_kept)][is_kept]
            self._ticking = Ticking(self.periods, self._ticking.done, has_row)
        self._marked_clock = self._clock
        self._marked_ticking = self._ticking

    def forget_all(self) -> None:
        """Return to the state before the first row; time-stamps may be smaller from now on.

        The streams must not have instances.
        """
        assert not self._families
        for kernel in self._natives():
            kernel.forget_all()
        self._keep_texts(_no_flags(len(self._texts)), [])
        self._clock = self._marked_clock = 0
        self._ticking = self._marked_ticking = Ticking(self.periods)

    @property
    def settled_from(self) -> int | None:
        """The least time-stamp at which all traces are settled if no row comes before it.

        Rows from there on have the same values as if there had been none before. It is None if
        something is remembered for ever.
        """
        if self.settled(1).all():
            return 0
        ages = [kernel.settling_age for kernel in self._kernels]
        known = [age for age in ages if age is not None]
        has_end = len(known) == len(ages) and not self.periods and not self._families
        return self._clock + max(known) + 1 if has_end else None

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the state takes."""
        traces = len(self._ticking.has_row)
        return (
            self._texts.held_bytes
            + traces
            + sum(kernel.held_bytes for kernel in self._natives())
            + sum(family.held_bytes for family in self._families)
        )

    @property
    def living_instances(self) -> int:
        """The number of instances of streams with `per` that are alive, of all traces."""
        return sum(family.table.living for family in self._families)

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        self._forget_texts()
        parts = [self._clock.to_bytes(8, "little"), self._texts.snapshot()]
        parts.append("\n".join(self._kinds).encode())
        parts.append(self._ticking.snapshot())
        parts += [kernel.snapshot() for kernel in self._natives()]
        parts += [part for family in self._families for part in family.snapshot()]
        body = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        return _MAGIC + _digest(body) + body

    def restore(self, snapshot: bytes) -> None:
        """Continue from the snapshot of a program with the same arguments, whatever this one had.

        If the streams have instances, this program must be new.

        Raises:
            SnapshotError: the bytes are not a snapshot, are damaged, or belong to another program.
                This program must not be used after that.
            MtlmonError: the streams have instances, and rows were evaluated before.
        """
        head = len(_MAGIC) + _DIGEST_BYTES
        body = snapshot[head:]
        if not snapshot.startswith(_MAGIC):
            raise SnapshotError("this is not a snapshot of streams")
        if snapshot[len(_MAGIC) : head] != _digest(body):
            raise SnapshotError("the snapshot is damaged: its digest does not fit its content")
        parts = list(_parts(body))
        natives = list(self._natives())
        count = 4 + len(natives) + sum(family.part_count for family in self._families)
        if len(parts) != count or len(parts[0]) != 8 or not self._fit(parts[2]):
            raise SnapshotError("the snapshot is of other streams")
        self._clock = int.from_bytes(parts[0], "little")
        self._texts.restore(parts[1])
        self._most_texts = max(_MANY_TEXTS, 2 * len(self._texts))
        try:
            self._ticking = self._ticking.restored(parts[3])
        except ValueError:
            raise SnapshotError("the snapshot is of other streams") from None
        for one in self._kernels:
            one.rank_texts()
        rest = iter(parts[4:])
        for kernel in natives:
            kernel.restore(next(rest))
        for family in self._families:
            family.restore([next(rest) for _ in range(family.part_count)])
        self.commit()

    @property
    def _kinds(self) -> list[str]:
        """The kind of the values that each kernel keeps, and of the keys of instances."""
        found = [kernel.argument for kernel in self._kernels]
        found += [key.kind for family in self._families for key in family.keys]
        return [f"{kind.name} {kind.unit}" for kind in found]

    @property
    def kernels(self) -> list[tuple[Kernel, int]]:
        """The kernels, which hold the state, with the time-points of their arguments."""
        return [
            (kernel, task.argument_period)
            for layer in self._layers
            for task in layer.tasks
            for kernel in task.kernels
        ]

    @property
    def instances(self) -> list[tuple[Expression, ...]]:
        """The expressions that tell instances apart, for each set of instances."""
        return self._instances

    def _fit(self, written: bytes) -> bool:
        """Whether values of the kinds in a snapshot can be kept here; nulls are no values."""
        found = written.decode(errors="replace").split("\n") if written else []
        own_kinds = self._kinds
        return len(found) == len(own_kinds) and all(
            kind == own or kind.startswith("null ")
            for kind, own in zip(found, own_kinds, strict=True)
        )

    def _forget_texts(self) -> None:
        """Forget the texts that no state has."""
        with_texts = [kernel.native for kernel in self._kernels if kernel.argument.name == "text"]
        for family in self._families:
            family.compact()
        holders: list[native.Kernel | native.Instances] = [*with_texts]
        holders += [family.table for family in self._families]
        is_kept = _no_flags(len(self._texts))
        for holder in holders:
            holder.mark_texts(is_kept.view(np.uint8))
        self._keep_texts(is_kept, holders)
        self._most_texts = max(_MANY_TEXTS, 2 * len(self._texts))

    def _keep_texts(
        self, is_kept: NDArray[np.bool_], holders: Sequence[native.Kernel | native.Instances]
    ) -> None:
        """Forget texts, but no constants; those that hold others get the new numbers."""
        is_kept[: self._constant_texts] = True
        if is_kept.all():
            return
        numbers = self._texts.keep(is_kept)
        for holder in holders:
            holder.renumber_texts(numbers)
        for kernel in self._kernels:
            kernel.rank_texts()

    def _natives(self) -> Iterator[native.Kernel]:
        return _natives(self._kernels)

    def _attempt(self, batch: pa.RecordBatch, points: Points) -> dict[str, pa.Array]:
        columns: dict[int, dict[str, pa.Array]] = {period: {} for period in self.periods}
        columns |= {family.frame: {} for family in self._families}
        columns[ROWS] = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
        time = self._environment.time
        if time in self.columns and time is not None:
            kind = self._schema.field(time).type
            for period in self.periods:
                time_stamps = points.ticks_of(period).time_stamps
                columns[period][time] = tick_times(time_stamps, kind, self._environment)
        for number, layer in enumerate(self._layers):
            try:
                layer.run(columns, points)
            except LayerError as found:
                raise _Refused(number > 0 or found.has_memory, found.period, found.error) from None
        self._clock = points.clock
        self._points = points
        return {name: columns[period][column] for name, (period, column) in self._outputs.items()}


def _natives(kernels: Iterable[Kernel]) -> Iterator[native.Kernel]:
    for kernel in kernels:
        yield from kernel.natives


class _Refused(Exception):
    """The error of a row or tick, where it was found, and whether it may depend on other rows."""

    def __init__(self, has_memory: bool, period: int, error: RowError) -> None:
        super().__init__(has_memory, period, error)
        self.has_memory = has_memory
        self.period = period
        self.error = error
