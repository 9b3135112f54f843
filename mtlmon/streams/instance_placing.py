"""Places the instances of streams, and what reads them: parameters, OVER and `s[EXPRESSION]`."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.expression import Expression, Offset
from mtlmon.policy.predicates.kinds import joined as joined_kind
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.policy.predicates.time_points import MEMORY, ROWS
from mtlmon.policy.templates import OF_INSTANCES, grouped_by, key_numbers, parameters_of
from mtlmon.streams.cells import cell_kind
from mtlmon.streams.declarations import NAMED, NOW, error_at
from mtlmon.streams.forgetting import of_remembered, silence_to_forget
from mtlmon.streams.instance_calls import (
    CallColumns,
    InstanceCalls,
    SameRowsTask,
)
from mtlmon.streams.instance_groups import InstanceBounds, InstanceGroups
from mtlmon.streams.instance_nows import InstanceNows, OwnRowsTask
from mtlmon.streams.instance_ticks import InstanceTicks
from mtlmon.streams.instances import (
    Ends,
    Family,
    FamilyTask,
    InstancePointsTask,
    KeyColumn,
    LookUpTask,
    NullTask,
    OverTask,
    RowsTask,
)
from mtlmon.streams.layer_columns import Placed, read, with_operands
from mtlmon.streams.ticks_of_ends import TicksOfEnds
from mtlmon.streams.waiting import chosen_value
from mtlmon.syntax.traversal import postorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.policy.templates import Lifetime
    from mtlmon.streams.cells import Texts
    from mtlmon.streams.declarations import Declarations, Name, Stream
    from mtlmon.streams.layer import Layer
    from mtlmon.streams.layer_columns import LayerColumns
    from mtlmon.streams.placing import Placer
    from mtlmon.streams.recursion import MachineTask
    from mtlmon.streams.recursion_placing import RecursionPlacer

# What does not have one value for each instance, whatever the row.
_NOT_HELD = {ops.PARAMETER, *NAMED, *OF_INSTANCES, *ops.COLUMNS, *MEMORY}


# The kinds of values that are bounds of buckets.
_BOUNDS = {"integer", "float", "text"}


class InstancePlacer:
    """Places the instances of streams in layers.

    Args:
        placer: what places the expressions that instances depend on.
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
        # The families that have a place, and their layers, by the numbers of their rows.
        self._placed_families: dict[int, tuple[Family, int]] = {}
        self._instance_ticks: dict[int, InstanceTicks] = {}
        self._nows: dict[int, InstanceNows] = {}
        # Where rows call instances, and the layers in which that is found.
        self._calls: dict[int, tuple[InstanceCalls, int]] = {}
        self.recursion: RecursionPlacer

    @property
    def families(self) -> list[Family]:
        """The instances of all streams."""
        return [family for family, _ in self._placed_families.values()]

    @property
    def ticks(self) -> list[InstanceTicks]:
        """The ticks of instances."""
        return list(self._instance_ticks.values())

    @property
    def nows(self) -> list[InstanceNows]:
        """The time-points as of which windows of instances are read."""
        return list(self._nows.values())

    @property
    def calls(self) -> list[InstanceCalls]:
        """The rows that call instances which they do not belong to."""
        return [calls for calls, _ in self._calls.values()]

    def forget_silent(self, layers: Sequence[Layer]) -> None:
        """Forget instances whose windows have emptied, if that makes no difference."""
        for family, _ in self._placed_families.values():
            lifetime = family.lifetime
            if lifetime.start is not None or lifetime.age or lifetime.own_end is not None:
                # the next row would begin no instance, or one with another age
                continue
            if self._declared.counts_from_beginning(lifetime) or lifetime.clock != ROWS:
                continue
            if family.calls or family.has_waiting:
                # rows of others have values in it, or later ones in what is null there
                continue
            frames = {
                period: frame
                for (one, period), frame in self._declared.frames.items()
                if one == lifetime
            }
            length = silence_to_forget(layers, {*frames.values()}, frames.get(NOW))
            if length is not None:
                family.table.forget_silent(length)

    def family(self, frame: int) -> tuple[Family, int]:
        """The family whose time-points have a number, and the layer in which these are found."""
        lifetime, period = self._declared.lifetime_and_period(frame)
        if period == NOW:
            family, layer = self.family(self._declared.frame_of(lifetime, ROWS))
            if frame not in self._nows:
                nows = self._nows[frame] = InstanceNows(frame, family)
                family.nows.append(nows)
                self._columns.layer(layer).tasks.append(InstancePointsTask(nows))
            return family, layer
        if period < ROWS:
            if frame not in self._calls:
                self._calls[frame] = self._new_calls(frame, lifetime)
            calls, layer = self._calls[frame]
            return calls.family, layer
        if period != ROWS:
            family, layer = self.family(self._declared.frame_of(lifetime, ROWS))
            if frame not in self._instance_ticks:
                time = self._columns.time_column()
                ticks = InstanceTicks(frame, family, period, time)
                family.own_ticks.append(ticks)
                self._instance_ticks[frame] = ticks
                self._columns.layer(layer).tasks.append(InstancePointsTask(ticks))
            return family, layer
        if frame not in self._placed_families:
            stream = self._declared.stream_of(frame)
            self._placed_families[frame] = self._new_family(frame, stream, lifetime)
        return self._placed_families[frame]

    def _new_calls(self, frame: int, lifetime: Lifetime) -> tuple[InstanceCalls, int]:
        """Place the rows that call instances; returns them, and their layer."""
        rows = self._declared.frame_of(lifetime, ROWS)
        family, layer = self.family(rows)
        origin = self._declared.stream_of(rows).value

        def row_column(expression: Expression) -> KeyColumn:
            nonlocal layer
            placed = self._placer.place(expression, origin, ROWS)
            column, lowest = self._columns.column(placed, origin, ROWS)
            layer = max(layer, lowest)
            return KeyColumn(column, self._columns.kind(placed.expression, origin))

        found = []
        for call in self._declared.calls(frame):
            keys = [row_column(key) for key in call.keys]
            for one, key, node in zip(keys, family.keys, call.keys, strict=False):
                self._require_comparable(one, key, origin, node)
            where = None if call.where is None else row_column(call.where).name
            found.append(CallColumns(tuple(keys), where))
        calls = InstanceCalls(frame, family, found)
        family.calls.append(calls)
        self._columns.layer(layer).tasks.append(InstancePointsTask(calls))
        return calls, layer

    def _new_family(self, frame: int, stream: Stream, lifetime: Lifetime) -> tuple[Family, int]:
        """Place the instances of a stream; returns them, and their layer."""
        layer = 0

        origin = stream.value

        def key_column(expression: Expression) -> KeyColumn:
            nonlocal layer
            placed = self._placer.place(expression, origin, lifetime.clock)
            column, lowest = self._columns.column(placed, origin, lifetime.clock)
            layer = max(layer, lowest)
            return KeyColumn(column, self._columns.kind(placed.expression, origin))

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
            family = Family(
                origin.name or "",
                frame,
                keys,
                start,
                ends,
                self._texts,
                lifetime,
                has_births=self._declared.counts_from_beginning(lifetime),
            )
        except NotPossible as error:
            raise error_at(origin, lifetime.keys[0], str(error)) from None
        ending: MachineTask | None = None
        order: list[Name] = []
        for points, end in self._declared.own_ends(lifetime).items():
            task, members, lowest = self.recursion.ending(points, end)
            layer = max(layer, lowest)
            family.kernels += task.kernels
            if points == frame:
                ending, order = task, members
            else:
                period = self._declared.period_of(points)
                family.ticks_of_ends = TicksOfEnds(points, frame, period, task, lifetime.clock)
        for name, port in zip(order, ending.outputs if ending else (), strict=False):
            part = self._declared.parts(name.name)[0]
            self._placer.known[name] = Placed(read(port.name, part.expression), layer + 1)
        self._columns.layer(layer).tasks.append(FamilyTask(family, ending))
        return family, layer

    def _require_comparable(
        self, one: KeyColumn, key: KeyColumn, origin: Predicate, node: Expression
    ) -> None:
        """Raise an error if values of a column cannot be those of a key."""
        joined = joined_kind(one.kind, key.kind)
        if joined is None or (one.kind.name == "time" and one.kind != key.kind):
            message = f"the value after per is {key.kind.words}, but this is {one.kind.words}"
            raise error_at(origin, node, message, "both must have the same type")

    def parameter(self, node: Expression, origin: Predicate, frame: int) -> Placed:
        """Place a parameter: the value after `per`."""
        assert origin.name is not None
        number = parameters_of(self._declared.streams[origin.name].per)[node.name]
        key = self.family(frame)[0].keys[number]
        lifetime, period = self._declared.lifetime_and_period(frame)
        if period == ROWS:
            return Placed(read(key.name, node), self.first_layer(frame))
        # the value at the last row of the instance
        rows = self._declared.frame_of(lifetime, ROWS)
        placed = Placed(read(key.name, node), self.first_layer(rows))
        held = Expression(ops.HOLD, (node,), Offset(0), node.span)
        return self._placer.kernel(held, [placed], origin, rows, frame)

    def at_rows(self, placed: Placed, origin: Predicate, frame: int) -> tuple[str, int]:
        """Make an expression of instances a column of rows, null for rows without an instance."""
        if frame >= ROWS:
            return self._columns.column(placed, origin, frame)
        column, layer = self._columns.column(placed, origin, frame)
        key = read(column, placed.expression)
        trace = self._declared.of_trace(frame)
        if (trace, key) not in self._columns.known:
            self._columns.layer(layer).tasks.append(RowsTask(column, frame, trace))
            self._columns.known[trace, key] = column, layer + 1
        return self._columns.known[trace, key]

    def instance(
        self, node: Expression, operands: list[Placed], origin: Predicate, period: int
    ) -> Placed:
        """Place `s[EXPRESSION]`."""
        name = self._declared.name_of_instances(node)
        family, _ = self.family(name.period)
        replaced = with_operands(node, operands)
        key_of = (period, replaced)
        if key_of not in self._columns.known:
            keys, layer = self._key_values(operands, family, origin, node, period)
            points = self._reading_points(period)
            self._columns.known[key_of] = self._looked_up(name, keys, layer, origin, points)
        column, layer = self._columns.known[key_of]
        return Placed(read(column, node), max(layer, self.first_layer(period)))

    def keys_at_rows(
        self, node: Expression, family: Family, origin: Predicate, frame: int
    ) -> tuple[list[KeyColumn], int]:
        """Place the key of `s[EXPRESSION]` at rows; its columns and a layer behind the instances.

        Args:
            node: what reads the instance.
            family: the instances.
            origin: the expression that it is a part of.
            frame: where that has values: `ROWS`, or the number of the rows of instances.
        """
        operands = [self._placer.place(operand, origin, frame) for operand in node.operands]
        keys, layer = self._key_values(operands, family, origin, node, frame)
        return keys, max(layer, self.family(family.frame)[1] + 1)

    def _key_values(
        self,
        operands: list[Placed],
        family: Family,
        origin: Predicate,
        node: Expression,
        period: int,
    ) -> tuple[list[KeyColumn], int]:
        """Place the values of a key; its columns and a layer where they are known."""
        found = [
            self._key_value(operand, key, origin, node, period)
            for operand, key in zip(operands, family.keys, strict=True)
        ]
        return [key for key, _ in found], max(lowest for _, lowest in found)

    def _reading_points(self, period: int) -> int:
        """Where instances are read: in instances, or at rows or ticks of the trace."""
        if self._declared.calls(period) or not self._declared.is_of_rows(period):
            return period
        return self._declared.of_trace(period)

    def _looked_up(
        self, name: Name, keys: list[KeyColumn], layer: int, origin: Predicate, period: int
    ) -> tuple[str, int]:
        """Place the held value of one instance at rows or ticks; its column and layer."""
        family, lowest = self.family(name.period)
        layer = max(layer, lowest)
        held = self._placer.known[name]
        kind = self._columns.kind(held.expression, origin)
        argument_period = ROWS
        is_of_now = may_become_null = self._declared.period_of(name.period) == NOW
        if is_of_now:
            self._nows[name.period].periods.add(max(ROWS, self._declared.period_of(period)))
            stream = self._declared.streams[name.name].value
            remembered = of_remembered(stream.expression, name.name, self._declared)
            may_become_null = self._declared.may_be_null(remembered, None)
            if remembered is not stream.expression:
                where = self._placer.place(remembered.operands[0], stream, name.period)
                chosen = chosen_value(where.expression, held.expression, None)
                held = Placed(chosen, max(held.layer, where.layer))
        if self._declared.period_of(name.period) != ROWS or period != ROWS:
            argument_period = name.period
            value, lowest = self._columns.column(held, origin, name.period)
        else:
            value, lowest = self.at_rows(held, origin, name.period)
        layer = max(layer, lowest)
        column = self._columns.new_column(column_type(cell_kind(kind)))
        task = LookUpTask(
            column,
            family,
            keys,
            value,
            kind,
            self._texts,
            argument_period,
            period,
            may_become_null=may_become_null,
        )
        self._columns.layer(layer).tasks.append(task)
        family.kernels += task.kernels
        return column, layer + 1

    def own_value(self, name: Name, origin: Predicate) -> str:
        """Place the value of each row's own instance, at ticks the last; the name of its column."""
        if self._declared.is_of_rows(name.period):
            return self.at_rows(self._placer.known[name], origin, name.period)[0]
        family, layer = self.family(name.period)
        return self._looked_up(name, family.keys, layer, origin, family.lifetime.clock)[0]

    def own_rows(self, name: Name, origin: Predicate, frame: int) -> Placed:
        """Place values as of now at the rows of the instances themselves."""
        column, layer = self._columns.column(self._placer.known[name], origin, name.period)
        chosen = self._columns.new_column(self._columns.schema.field(column).type)
        self._columns.layer(layer).tasks.append(OwnRowsTask(chosen, column, name.period, frame))
        return Placed(read(chosen, origin.expression), layer + 1)

    def at_calls(
        self, placed: Placed, node: Expression, origin: Predicate, own: int, frame: int
    ) -> Placed:
        """Place values in instances where rows call these; null where there are none.

        Args:
            placed: the values.
            node: what reads them.
            origin: the expression that it is a part of.
            own: the number of their time-points: rows or other calls of the same instances.
            frame: that of the calls.
        """
        column, layer = self._columns.column(placed, origin, own)
        found = read(column, node)
        if (frame, found) not in self._columns.known:
            layer = max(layer, self.first_layer(frame))
            chosen = self._columns.new_column(self._columns.schema.field(column).type)
            self._columns.layer(layer).tasks.append(SameRowsTask(chosen, column, own, frame))
            self._columns.known[frame, found] = chosen, layer + 1
        chosen, layer = self._columns.known[frame, found]
        return Placed(read(chosen, node), layer)

    def over(
        self, node: Expression, values: list[Placed], origin: Predicate, period: int
    ) -> Placed:
        """Place an aggregate over the instances of a stream, or a group with some values."""
        frame = self._declared.frame_of_over(node)
        own_period = self._declared.period_of(frame)
        points = self._reading_points(period)
        if self._declared.calls(points) and not values and node.over.aggregate != "rank":
            # it is the same for all instances that the row calls
            points = ROWS
        known_as = points, with_operands(node, [Placed(node.operands[0], 0), *values])
        if known_as not in self._columns.known:
            family, _ = self.family(frame)
            groups, keys, layer_of_keys = self._groups(family, node, values, origin, period)
            bounds = self._bounds(family, node, origin)
            if node.over.aggregate == "rank":
                self._require_owner(family, node, origin, points)
            placed = self._placer.place(self._held_argument(node, origin, frame), origin, frame)
            first = None
            over = node.over._replace(by=())
            whole = Expression(ops.OVER, (placed.expression,), over, node.span)
            kind = self._columns.kinds(whole, origin, self._columns.schema)[id(placed.expression)]
            is_at_rows = own_period == ROWS == points
            if is_at_rows:
                column, layer = self.at_rows(placed, origin, frame)
            else:
                column, layer = self._columns.column(placed, origin, frame)
            if own_period > ROWS or self._declared.calls(frame):
                first, lowest = self._before_ticks(node, kind, origin, frame)
                layer = max(layer, lowest)
            elif own_period == NOW:
                self._nows[frame].periods.add(max(ROWS, self._declared.period_of(points)))
            layer = max(layer, layer_of_keys)
            argument_period = ROWS if is_at_rows else frame
            result = f"{self._columns.prefix}{len(self._columns.schema.names)}"
            try:
                task = OverTask(
                    result,
                    node,
                    family,
                    column,
                    kind,
                    self._texts,
                    argument_period,
                    points,
                    first,
                    groups,
                    keys,
                    bounds,
                )
            except NotPossible as error:
                raise error_at(origin, node, str(error)) from None
            self._columns.new_column(column_type(task.kind))
            self._columns.layer(layer).tasks.append(task)
            self._columns.known[known_as] = result, layer + 1
        column, layer = self._columns.known[known_as]
        return Placed(read(column, node), max(layer, self.first_layer(period)))

    def _groups(
        self,
        family: Family,
        node: Expression,
        values: list[Placed],
        origin: Predicate,
        period: int,
    ) -> tuple[InstanceGroups | None, list[KeyColumn], int]:
        """Place the values behind `by`; the groups, the columns of the values, and their layer."""
        if not values:
            return None, [], 0
        numbers = grouped_by(node, self._declared.streams[node.over.stream].per)
        assert numbers is not None
        found = [
            self._key_value(value, family.keys[number], origin, operand, period)
            for value, number, operand in zip(values, numbers, node.operands[1:], strict=True)
        ]
        keys = [key for key, _ in found]
        return family.groups(numbers), keys, max(layer for _, layer in found)

    def _bounds(self, family: Family, node: Expression, origin: Predicate) -> InstanceBounds | None:
        """The bounds of buckets, which histograms need."""
        if node.over.aggregate != "histogram_quantile":
            return None
        number = key_numbers(self._declared.streams[node.over.stream].per).get("le")
        kind = None if number is None else family.keys[number].kind
        if number is None or kind is None or kind.name not in _BOUNDS:
            message = "histogram_quantile needs the upper bounds of buckets, a number or text le"
            hint = f"declare it: stream {node.over.stream} = ... per le, or per EXPRESSION as le"
            raise error_at(origin, node, message, hint)
        return InstanceBounds(family.table, number, kind, self._texts)

    def _require_owner(
        self, family: Family, node: Expression, origin: Predicate, points: int
    ) -> None:
        """Require that a rank is read at rows, or at ticks of the instances themselves."""
        is_own = points < ROWS and self.family(points)[0] is family
        if not is_own and (points != ROWS or family.lifetime.clock != ROWS):
            message = f"a rank is of an instance of {node.over.stream}, and there is none here"
            hint = (
                "read it at rows, or in a stream with every and the same per, from and until, and "
                "that by over"
            )
            raise error_at(origin, node, message, hint)

    def _key_value(
        self, placed: Placed, key: KeyColumn, origin: Predicate, node: Expression, period: int
    ) -> tuple[KeyColumn, int]:
        """Place a value of a key that is looked for; its column and layer."""
        if self._reading_points(period) == ROWS:
            column, layer = self.at_rows(placed, origin, period)
        else:
            column, layer = self._columns.column(placed, origin, period)
        found = KeyColumn(column, self._columns.kind(placed.expression, origin))
        self._require_comparable(found, key, origin, node)
        return found, layer

    def _before_ticks(
        self, node: Expression, kind: Kind, origin: Predicate, frame: int
    ) -> tuple[str, int]:
        """Place the argument of OVER for an instance that has had no tick; its column and layer."""
        argument = node.operands[0]
        clock = self._declared.lifetime_and_period(frame)[0].clock
        built: dict[int, Expression] = {}
        for one in postorder(argument):
            operands = tuple(built[id(operand)] for operand in one.operands)
            built[id(one)] = Expression(one.operator, operands, one.value, one.span)
            if one.operator is ops.STREAM:
                value = self._placer.known[self._declared.name(one, frame, origin)].expression
                found = column_type(cell_kind(self._columns.kind(value, origin)))
                column = self._columns.new_column(found)
                self._columns.layer(0).tasks.append(NullTask(column, found, clock))
                built[id(one)] = read(column, one)
        always = Expression(ops.CONSTANT, (), True, node.span)
        placed = Placed(built[id(argument)], 1)
        if kind.name == "float":
            # what is written as an integer becomes a float, too
            placed = Placed(chosen_value(always, placed.expression, Decimal("0.0")), 1)
        return self._columns.column(placed, origin, clock)

    def _held_argument(self, node: Expression, origin: Predicate, frame: int) -> Expression:
        """The argument of OVER, with the held values of streams, but windows as of now."""
        argument = node.operands[0]
        lifetime, period = self._declared.lifetime_and_period(frame)
        at_now = period == NOW
        is_called = bool(self._declared.calls(frame))
        own = self._declared.frame(node.over.stream)
        built: dict[int, Expression] = {}
        for one in postorder(argument):
            operands = tuple(built[id(operand)] for operand in one.operands)
            is_own = one.operator is ops.STREAM and (
                self._declared.has_instances(one.name, lifetime)
                and not self._declared.is_of_now(one.name)
                if is_called
                else self._declared.frame(one.name) == own
            )
            if is_own and at_now and self._declared.is_of_now(one.name):
                built[id(one)] = one
            elif is_own:
                built[id(one)] = Expression(ops.HOLD, (one,), Offset(0), one.span)
            elif one.operator in _NOT_HELD:
                message = "over looks at values of instances and constants only"
                hint = (
                    "declare a stream with the same clauses per, from and until for the rest, "
                    f"and write {node.over.aggregate}(... over STREAM)"
                )
                raise error_at(origin, one, message, hint)
            else:
                built[id(one)] = Expression(one.operator, operands, one.value, one.span)
        if at_now and self._declared.is_of_now(node.over.stream):
            return of_remembered(built[id(argument)], node.over.stream, self._declared)
        return built[id(argument)]

    def first_layer(self, period: int) -> int:
        """The first layer in which time-points are known; those of instances follow from rows."""
        if period >= ROWS:
            return 0
        return self.family(period)[1] + 1
