"""The meaning of streams and their instances over the rows and ticks of traces.

Written to be obviously right, not to be fast; `aggregates` says what each window has.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from tests.doors import Changes, Expression
from tests.doors import predicates_operators as ops
from tests.policy.evaluator import Overflow as PredicateOverflow
from tests.policy.evaluator import evaluate
from tests.reference.aggregates import (
    Overflow,
    at,
    bucket_quantile,
    fold,
    in_window,
    integral,
    last,
    latest,
    line_integral,
)
from tests.reference.relations import Relation


class Program:
    """Evaluates expressions over streams on the rows of a log, row by row.

    A row on which an integer overflows, in anything that is computed, is no row; a tick where one
    does is no tick of its trace. A tick T comes when a row above T does, before that row.

    Args:
        wanted: the expressions.
        streams: the streams.
        periods: for each wanted expression that is evaluated at ticks, their period, or the changes
            of a relation.
        time: the name of a column with the time-stamps, which ticks have, too.
        changes: for each relation when it changes, for which traces.
        relations: the relations that expressions look values up in.
        templates: streams with `per` whose parts are computed, though no wanted expression names
            them.
    """

    def __init__(
        self,
        wanted: dict[str, Expression],
        streams: dict[str, StreamText],
        periods: Mapping[str, Period] | None = None,
        time: str | None = None,
        changes: Mapping[str, Collection[tuple[int, int]]] | None = None,
        relations: Mapping[str, Relation] | None = None,
        templates: Collection[str] = (),
    ) -> None:
        self.time = time
        self.relations = relations or {}
        self.changes = changes or {}
        self.wanted = wanted
        self.streams = streams
        self.period_of = {name: (periods or {}).get(name, ROWS) for name in wanted}
        # everything is computed at all its time-points, needed there or not
        self.waiting: dict[Expression, bool] = {}
        self.nodes: dict[tuple[Expression, Period], None] = {}
        self.nodes_of_instances: dict[str, dict[tuple[Expression, int], None]] = {}
        open_nodes = [(node, self.period_of[name]) for name, node in wanted.items()]
        for name in templates:
            open_nodes += self.add_template(name, streams[name])
        while open_nodes:
            node, period = open_nodes.pop()
            for name in named_streams(node):
                if streams[name].per and name not in self.nodes_of_instances:
                    open_nodes += self.add_template(name, streams[name])
            if node.operator.name == "STREAM":
                if streams[str(node.value)].per:
                    continue
                period = streams[str(node.value)].period
            if (node, period) in self.nodes:
                continue
            self.nodes[node, period] = None
            inner = argument_period(node, streams) if is_memory(node) else period
            open_nodes += [(operand, inner) for operand in own_operands(node)]
            if node.operator.name == "STREAM":
                stream = streams[str(node.value)]
                parts = [stream.value] if stream.on is None else [stream.value, stream.on]
                open_nodes += [(part, stream.period) for part in parts]
        every = [streams[name].period for name in self.nodes_of_instances]
        every += [clock_of(streams[name], streams) for name in self.nodes_of_instances]
        every += [period for _, period in self.nodes if isinstance(period, int)]
        self.periods = sorted({period for period in every if ROWS < period < BEGINNINGS})
        self.own_lengths = {period - BEGINNINGS for period in every if period > BEGINNINGS}
        self.traces: dict[int, _Trace] = {}
        self.row_count = 0
        self.clock: int | None = None
        # time, trace, number of rows before it, and the values with that period
        self.ticks: list[tuple[int, int, int, dict[str, Any]]] = []

    def add_template(self, name: str, stream: StreamText) -> list[tuple[Expression, int]]:
        """Add what is computed in instances; returns what they need of their traces."""
        found = self.nodes_of_instances[name] = {}
        others = [key for key, _ in stream.per]
        others += [one for one in (stream.start, stream.end) if one is not None]
        # they have parameters, so only what they name is computed for itself
        needed = [node for one in others for node in every_node(one) if named_streams(node)]
        parts = [stream.value, *([stream.on] if stream.on else [])]
        open_nodes = [(part, stream.period) for part in parts]
        while open_nodes:
            node, period = open_nodes.pop()
            if (node, period) in found:
                continue
            is_of_trace = named_streams(node) and len(own_operands(node)) == 0
            if is_of_trace and period == clock_of(stream, self.streams):
                needed.append(node)
            found[node, period] = None
            inner = argument_period(node, self.streams) if is_memory(node) else period
            open_nodes += [(operand, inner) for operand in own_operands(node)]
        clock = clock_of(stream, self.streams)
        return [(node, clock) for node in needed if node.operator.name != "INSTANCE"]

    def waits(self, node: Expression) -> bool:
        """Whether an expression looks at later values, which are not known when a row comes."""
        if node not in self.waiting:
            self.waiting[node] = waits(node, self.streams)
        return self.waiting[node]

    def row(self, time_stamp: int, trace: int, row: dict[str, Any]) -> dict[str, Any] | None:
        """The values on the next row of the log; None if an integer overflows."""
        before = {number: len(known.points) for number, known in self.traces.items()}
        ticks = len(self.ticks)
        if self.clock is not None:
            self.tick(time_stamp)
        known = self.traces.get(trace) or _Trace(self, trace)
        try:
            found = self.point(known, time_stamp, row)
        except (Overflow, PredicateOverflow):
            for number, count in before.items():
                self.traces[number].cut(count)
            del self.ticks[ticks:]
            return None
        self.traces[trace] = known
        self.clock = time_stamp
        self.row_count += 1
        return found

    def tick(self, until: int) -> None:
        """The ticks that are not before the last row, and below a time."""
        assert self.clock is not None
        has_ticks = self.periods or self.changes or self.own_lengths
        for time_stamp in range(self.clock, until) if has_ticks else ():
            is_tick = any(time_stamp % period == 0 for period in self.periods)
            for number, known in sorted(self.traces.items()):
                if not (
                    is_tick
                    or known.changes_at(time_stamp)
                    or known.may_have_own_ticks(time_stamp, self.own_lengths)
                ):
                    continue
                try:
                    found = self.point(known, time_stamp, None)
                except (Overflow, PredicateOverflow):
                    known.cut(len(known.points) - 1)
                    continue
                self.ticks.append((time_stamp, number, self.row_count, found))

    def point(self, known: _Trace, time_stamp: int, row: dict[str, Any] | None) -> dict[str, Any]:
        """Add a time-point to a trace; a tick has no row."""
        known.points.append((time_stamp, row))
        place = len(known.points) - 1
        for node, period in self.nodes:
            if known.exists(period, place) and not self.waits(node):
                known.value(node, place)
        for name, nodes in self.nodes_of_instances.items():
            living = known.living(name, place)
            if row is not None:
                living = [known.own_instance(name, place)] if known.has_key(name, place) else []
                living = [own for own in living if own.start is not None]
            for instance in living:
                # what ends it may overflow
                known.is_ended_at_tick(name, place, instance)
            for one, period in nodes:
                for instance in living:
                    if known.exists(period, place, instance) and not self.waits(one):
                        known.value(one, place, instance)
        return {
            name: known.wanted(node, place)
            for name, node in self.wanted.items()
            if known.exists(self.period_of[name], place)
        }


ROWS = 0
# periods from here on are counted by each instance from its beginning
BEGINNINGS = 1 << 64
Period = int | Changes


class Instance(NamedTuple):
    """An instance of a stream, during one of its lives.

    Attributes:
        stream: the name of the stream.
        key: the values that tell it apart.
        start: the place where it began; None where it is not alive.
    """

    stream: str
    key: tuple[Any, ...]
    start: int | None


def is_memory(node: Expression) -> bool:
    """Whether the value of a node depends on other time-points."""
    name = node.operator.name
    return name.startswith("WINDOW_") or name in {"COUNT_ROWS", "LAST", "AT", "HOLD"}


def is_later(node: Expression) -> bool:
    """Whether a node is a value of a later row."""
    name = node.operator.name
    return name == "NEXT" or (name == "AT" and node.offset.is_later)


def waits(node: Expression, streams: dict[str, StreamText]) -> bool:
    """Whether an expression looks at later values, also in the streams that it names."""
    known: set[str] = set()
    expressions = [node]
    while expressions:
        for one in every_node(expressions.pop()):
            if is_later(one):
                return True
            for name in set(named_streams(one)) - known:
                known.add(name)
                stream = streams[name]
                expressions += [stream.value, *([stream.on] if stream.on else [])]
    return False


def argument_period(node: Expression, streams: dict[str, StreamText]) -> int:
    """Where the argument of an aggregate or offset has values: rows, or ticks of a period."""
    return max((read for one in node.operands for read in reads(one, streams)), default=ROWS)


def clock_of(stream: StreamText, streams: dict[str, StreamText]) -> int:
    """The time-points at which instances begin and end: rows, or ticks.

    They are ticks if all that the clauses read has values there. What ends an instance by streams
    of its own is at the ticks of these.
    """
    keys = [key for key, _ in stream.per]
    clauses = [*keys, *([] if stream.start is None else [stream.start])]
    open_nodes = [] if stream.end is None else [stream.end]
    while open_nodes:
        node = open_nodes.pop()
        if node.operator.name == "OR":
            open_nodes += node.operands
        elif not any(
            one.operator.name == "STREAM" and streams[str(one.value)].per
            for one in every_node(node)
        ):
            clauses.append(node)
    found = [read for clause in clauses for read in reads(clause, streams)]
    return max(found, default=ROWS) if stream.period != ROWS and ROWS not in found else ROWS


def is_of_now(name: str, streams: dict[str, StreamText]) -> bool:
    """Whether others read a stream with instances as of their own time, rather than held.

    It is an aggregate of rows, or arithmetic of such, and has no time-points of its own. An
    integral changes all the time, so it is held.
    """
    stream = streams[name]
    if not stream.per or stream.on is not None or stream.period != ROWS:
        return False
    found = False
    open_nodes, seen = [stream.value], {name}
    while open_nodes:
        node = open_nodes.pop()
        word = node.operator.name
        if word.startswith("WINDOW_") or word == "COUNT_ROWS":
            if word == "WINDOW_INTEGRAL" or argument_period(node, streams) != ROWS:
                return False
            if any(is_called(one, streams) for one in node.operands):
                return False
            found = True
        elif word == "STREAM":
            other = streams[str(node.value)]
            own = [key for key, _ in stream.per], stream.start, stream.end
            if ([key for key, _ in other.per], other.start, other.end) != own:
                return False
            if str(node.value) in seen or not is_of_now(str(node.value), streams):
                return False
            found = True
        elif word in {"COLUMN", "LAST", "AT", "HOLD", "NEXT", "OVER", "INSTANCE"}:
            return False
        else:
            open_nodes += node.operands
    return found


def is_called(node: Expression, streams: dict[str, StreamText]) -> bool:
    """Whether a node names a stream whose instances may have values at rows of others."""
    if node.operator.name != "STREAM":
        return False
    stream = streams[str(node.value)]
    names = [name for _, name in stream.per]
    if not stream.per or stream.on is None or stream.period != ROWS:
        return False
    return not all(
        key.operator.name == "CONSTANT" or implies(stream.on, key, name)
        for (key, name) in zip([key for key, _ in stream.per], names, strict=True)
    )


def implies(condition: Expression, key: Expression, name: str | None) -> bool:
    """Whether a condition says, in so many words, that a value behind `per` is that of the row."""
    word = condition.operator.name
    parts = [implies(one, key, name) for one in condition.operands]
    if word in {"AND", "OR"}:
        return any(parts) if word == "AND" else all(parts)
    sides = condition.operands
    return word == "EQUAL" and any(
        one.operator.name == "PARAMETER" and one.value == name and other == key
        for one, other in (sides, sides[::-1])
    )


def longest_window(name: str, streams: dict[str, StreamText]) -> int | None:
    """The longest window of a stream that is read as of now; None if one has no bound."""
    longest = 0
    open_nodes = [streams[name].value]
    while open_nodes:
        node = open_nodes.pop()
        if node.operator.name.startswith("WINDOW_") or node.operator.name == "COUNT_ROWS":
            if node.window.interval.upper is None:
                return None
            longest = max(longest, node.window.interval.upper)
        elif node.operator.name == "STREAM":
            open_nodes.append(streams[str(node.value)].value)
        else:
            open_nodes += node.operands
    return longest


def reads(node: Expression, streams: dict[str, StreamText]) -> list[int]:
    """The time-points of all that an expression reads at its own time-point."""
    if is_memory(node):
        return []
    if node.operator.name == "STREAM":
        return [streams[str(node.value)].period]
    if node.operator.name == "COLUMN":
        return [ROWS]
    return [read for operand in own_operands(node) for read in reads(operand, streams)]


class _Trace:
    """The time-points of one trace, with their rows, and the values that are known."""

    def __init__(self, program: Program, number: int) -> None:
        self.streams = program.streams
        self.time = program.time
        self.number = number
        self.changes = program.changes
        self.relations = program.relations
        self.points: list[tuple[int, dict[str, Any] | None]] = []
        self.known: dict[tuple[int, int, Instance | None], Any] = {}
        # rows where an integer overflows in what waits
        self.left_out: set[int] = set()

    def cut(self, count: int) -> None:
        """Forget all but the first time-points."""
        del self.points[count:]
        self.known = {key: value for key, value in self.known.items() if key[1] < count}

    def changes_at(self, time_stamp: int) -> bool:
        """Whether a relation changes for this trace."""
        return any((time_stamp, self.number) in one for one in self.changes.values())

    def may_have_own_ticks(self, time_stamp: int, lengths: Collection[int]) -> bool:
        """Whether an instance that began at a row may have a tick of its own at a time."""
        ages = [time_stamp - time for time, row in self.points if row is not None]
        return any(age > 0 and age % length == 0 for age in ages for length in lengths)

    def exists(self, period: Period, place: int, instance: Instance | None = None) -> bool:
        """Whether a time-point is a row, a tick of a period, or a change of a relation.

        Some ticks are those of an instance.
        """
        time_stamp, row = self.points[place]
        if isinstance(period, int) and period >= BEGINNINGS:
            if instance is None or instance.start is None or row is not None:
                return False
            age = time_stamp - self.points[instance.start][0]
            return age > 0 and age % (period - BEGINNINGS) == 0
        if isinstance(period, Changes):
            return row is None and (time_stamp, self.number) in self.changes[period.relation]
        if period == ROWS:
            return row is not None
        return row is None and time_stamp % period == 0

    def wanted(self, node: Expression, place: int) -> Any:
        """A wanted value; that of a stream with instances is the value in the row's instance.

        If that has values at ticks, it is the last one.
        """
        name = str(node.value)
        if node.operator.name == "STREAM" and self.streams[name].per:
            own = self.own_instance(name, place)
            if self.streams[name].period == ROWS:
                return self.value(node, place, own)
            return None if own.start is None else self.held(name, own, place)
        return self.value(node, place)

    def value(self, node: Expression, place: int, instance: Instance | None = None) -> Any:
        key = id(node), place, instance
        if key not in self.known:
            self.known[key] = self.computed(node, place, instance)
        return self.known[key]

    def key_at(self, name: str, place: int) -> tuple[Any, ...]:
        """The key of the instance that a row belongs to, alive or not."""
        return tuple(self.value(one, place) for one, _ in self.streams[name].per)

    def clock(self, name: str) -> int:
        """The time-points at which the instances of a stream begin."""
        return clock_of(self.streams[name], self.streams)

    def has_key(self, name: str, place: int) -> bool:
        """Whether a time-point may belong to an instance of a stream."""
        return self.exists(self.clock(name), place)

    def own_instance(self, name: str, place: int) -> Instance:
        return self.instance(name, self.key_at(name, place), place)

    def instance(self, name: str, key: tuple[Any, ...], place: int) -> Instance:
        """An instance at a time-point: it lives from the row or tick that begins it until it ends.

        Time ends it at once, a row and a tick behind themselves.
        """
        stream = self.streams[name]
        start = last = None
        for j in range(place + 1):
            now = self.points[j][0]
            if start is not None and last is not None:
                ages = {"AGE": now - self.points[start][0], "SILENCE": now - last}
                if self.ends_by_time(name, ages):
                    start = None
            is_own = False
            if self.has_key(name, j):
                here = Instance(name, key, None)
                is_own = same_key(self.key_at(name, j), key)
                may_start = stream.start is None or self.value(stream.start, j, here) is True
                if start is None and is_own and may_start:
                    start = j
                if is_own:
                    last = now
            own = Instance(name, key, start)
            if j < place and start is not None and self.is_ended_at_tick(name, j, own):
                start = None
            if (
                j < place
                and self.has_key(name, j)
                and self.is_ended_by(name, j, own, is_own=is_own)
            ):
                start = None
        return Instance(name, key, start)

    def outlives(self, instance: Instance, place: int) -> bool:
        """Whether an instance that was alive is alive behind a row."""
        name = instance.stream
        if self.instance(name, instance.key, place) != instance:
            return False
        is_own = same_key(self.key_at(name, place), instance.key)
        return not self.is_ended_by(name, place, instance, is_own=is_own)

    def is_ended_by(self, name: str, place: int, instance: Instance, *, is_own: bool) -> bool:
        """Whether a row ends an instance behind itself.

        A condition that reads streams of the instance is one of its own rows.
        """
        for end in self.ends_of(name, is_timed=False):
            period = self.own_period_of(name, end)
            if period is not None and period != ROWS:
                continue
            if period is not None:
                ends = is_own and instance.start is not None
                ends = ends and self.value(end, place, instance) is True
            else:
                ends = self.value(end, place, instance._replace(start=None)) is True
            if ends:
                return True
        return False

    def is_ended_at_tick(self, name: str, place: int, instance: Instance) -> bool:
        """Whether a tick of an instance ends it, by what its streams have there."""
        for end in self.ends_of(name, is_timed=False):
            period = self.own_period_of(name, end)
            if period is None or period == ROWS or not self.exists(period, place, instance):
                continue
            if self.value(end, place, instance) is True:
                return True
        return False

    def own_period_of(self, name: str, end: Expression) -> Period | None:
        """The time-points of the streams of the same instance that a condition reads, if any."""
        keys = [key for key, _ in self.streams[name].per]
        periods = [
            self.streams[other].period
            for node in every_node(end)
            if node.operator.name == "STREAM"
            for other in named_streams(node)
            if [key for key, _ in self.streams[other].per] == keys
        ]
        return periods[0] if periods else None

    def ends_of(self, name: str, *, is_timed: bool) -> list[Expression]:
        """The conditions that end instances: those about lengths of time, or the others."""
        end = self.streams[name].end
        found = []
        open_nodes = [] if end is None else [end]
        while open_nodes:
            node = open_nodes.pop()
            if node.operator.name == "OR":
                open_nodes += node.operands
            elif is_timed is any(
                one.operator.name in {"AGE", "SILENCE"} for one in every_node(node)
            ):
                found.append(node)
        return found

    def ends_by_time(self, name: str, ages: dict[str, int]) -> bool:
        """Whether one of the lengths of time ends an instance."""
        for node in self.ends_of(name, is_timed=True):
            sides: list[Any] = [ages.get(one.operator.name, one.value) for one in node.operands]
            left, right = sides
            holds = {
                "GREATER": left > right,
                "GREATER_EQUAL": left >= right,
                "LESS": left < right,
                "LESS_EQUAL": left <= right,
            }
            if holds[node.operator.name]:
                return True
        return False

    def belongs(self, place: int, instance: Instance | None, *, is_own: bool = False) -> bool:
        """Whether a time-point is one that windows and offsets of an instance look at.

        Those of from and until look at the trace. At ticks, streams of the instance have values
        while it is alive; other values are of it where its key has these values.
        """
        if instance is None or instance.start is None:
            return True
        if place < instance.start or (is_own and not self.exists(ROWS, place)):
            return place >= instance.start
        return self.has_key(instance.stream, place) and same_key(
            self.key_at(instance.stream, place), instance.key
        )

    def living(self, name: str, place: int) -> list[Instance]:
        """The instances that are alive."""
        seen: list[tuple[Any, ...]] = []
        for j in range(place + 1):
            if self.has_key(name, j):
                key = self.key_at(name, j)
                if not any(same_key(key, other) for other in seen):
                    seen.append(key)
        found = [self.instance(name, key, place) for key in seen]
        return [one for one in found if one.start is not None]

    def held(self, name: str, instance: Instance, place: int) -> Any:
        """The last value of a stream in an instance."""
        assert instance.start is not None
        values = [
            self.stream(name, j, instance)
            for j in range(instance.start, place + 1)
            if self.exists(self.streams[name].period, j, instance) and j not in self.left_out
        ]
        known = [value for value in values if value is not None]
        return known[-1] if known else None

    def computed(self, node: Expression, place: int, instance: Instance | None) -> Any:
        name = node.operator.name
        if name == "COLUMN" and node.value == self.time:
            return self.points[place][0]
        if name == "CONSTANT":
            return plain(node.value)
        if name == "PARAMETER":
            assert instance is not None
            return instance.key[self.number_of_key(instance.stream, str(node.value))]
        if name == "STREAM":
            return self.stream(str(node.value), place, instance)
        if name == "OVER":
            return self.over(node, place, instance)
        if name == "INSTANCE":
            key = tuple(self.value(operand, place, instance) for operand in node.operands)
            found = self.instance(str(node.value), key, place)
            if found.start is None or not self.is_remembered(str(node.value), found, place):
                return None
            return self.read(str(node.value), found, place)
        if name.startswith("WINDOW_") or name == "COUNT_ROWS":
            return self.aggregate(node, place, instance)
        if is_later(node):
            return self.later(node, place, instance)
        if name in {"LAST", "AT", "HOLD"}:
            return self.offset(node, place, instance)
        if name in {"LOOK_UP", "EXISTS"}:
            return self.looked_up(node, place, instance)
        return self.operation(node, place, instance)

    def looked_up(self, node: Expression, place: int, instance: Instance | None) -> Any:
        """A column of the record that is valid with some values, or whether there is one."""
        bag = self.relations[node.looked_up.relation]
        values = tuple(self.value(operand, place, instance) for operand in node.operands)
        places = [bag.names.index(name) for name in node.looked_up.keys or ()]
        found = [
            row
            for row in bag.snapshot(self.points[place][0]).elements()
            if same_key(tuple(row[one] for one in places), values)
        ]
        if node.operator.name == "EXISTS":
            return bool(found)
        assert len(found) < 2, "several records"
        return found[0][bag.names.index(str(node.looked_up.column))] if found else None

    def stream(self, name: str, place: int, instance: Instance | None) -> Any:
        """The value of a stream; one without instances has the value of the trace."""
        stream = self.streams[name]
        own = None
        if stream.per:
            assert instance is not None
            own = self.instance(name, instance.key, place)
            if own.start is None:
                return None
        assert self.exists(stream.period, place, own)
        if own is not None:
            is_row = stream.period == ROWS
            if is_row and stream.on is None and not same_key(self.key_at(name, place), own.key):
                return None
        if stream.on is not None and self.value(stream.on, place, own) is not True:
            return None
        return self.value(stream.value, place, own)

    def is_remembered(self, name: str, instance: Instance, place: int) -> bool:
        """Whether a row of an instance is in the longest window of a stream as of now."""
        if not is_of_now(name, self.streams):
            return True
        longest = longest_window(name, self.streams)
        times = self.time_stamps(place)
        return longest is None or any(
            self.exists(ROWS, j)
            and self.belongs(j, instance)
            and times[place] - times[j] <= longest
            for j in range(place + 1)
        )

    def read(self, name: str, instance: Instance, place: int) -> Any:
        """The value of a stream in an instance, as others read it: as of now, or held."""
        if is_of_now(name, self.streams):
            return self.now(self.streams[name].value, instance, place)
        return self.held(name, instance, place)

    def now(self, node: Expression, instance: Instance, place: int) -> Any:
        """The value of aggregates, and arithmetic of such, in an instance at any time-point."""
        if node.operator.name == "STREAM":
            return self.now(self.streams[str(node.value)].value, instance, place)
        if is_memory(node) or node.operator.name in {"CONSTANT", "PARAMETER"}:
            return self.value(node, place, instance)
        operands = [self.now(operand, instance, place) for operand in node.operands]
        return operated(node, {}, operands)

    def number_of_key(self, stream: str, name: str) -> int:
        """Which of the values behind `per` has a name, or is that column."""
        per = self.streams[stream].per
        names = [parameter or str(key.value) for key, parameter in per]
        return (
            names.index(name) if name in names else [str(key.value) for key, _ in per].index(name)
        )

    def over(self, node: Expression, place: int, instance: Instance | None) -> Any:
        """An aggregate over the instances that are alive, each with the value that is read.

        With `by`, it is over those that have some values behind `per`.
        """
        name = node.over.stream
        is_read = self.reads_now(node.operands[0])
        living = [
            one
            for one in self.living(name, place)
            if not is_read or self.is_remembered(name, one, place)
        ]
        argument, *by = node.operands
        for group, value in zip(node.over.by, by, strict=True):
            wanted = self.value(value, place, instance)
            number = self.number_of_key(name, group)
            living = [one for one in living if same_key((one.key[number],), (wanted,))]
        if node.over.aggregate == "rank":
            return self.rank(node, living, place, instance)
        if node.over.aggregate == "histogram_quantile":
            number = self.number_of_key(name, "le")
            counts = [self.of_read_values(argument, one, place) for one in living]
            keys = [bound_of(one.key[number]) for one in living]
            share = float(str(node.over.parameters[0]))
            # NaN is no bound, and no count
            buckets = [
                (key, count)
                for key, count in zip(keys, counts, strict=True)
                if count is not None and not math.isnan(key) and not math.isnan(count)
            ]
            return bucket_quantile(buckets, share)
        values = [self.of_read_values(argument, one, place) for one in living]
        parameter = float(str((*node.over.parameters, 0.5)[0]))
        known = [value for value in values if value is not None]
        return fold(node.over.aggregate, known, parameter)

    def rank(
        self, node: Expression, living: list[Instance], place: int, instance: Instance | None
    ) -> int | None:
        """How many instances have larger values than the own one, and 1."""
        name, argument = node.over.stream, node.operands[0]
        key = self.key_at(name, place) if instance is None else instance.key
        if self.exists(ROWS, place):
            key = self.key_at(name, place)
        owner = self.instance(name, key, place)
        if owner.start is None or (
            self.reads_now(argument) and not self.is_remembered(name, owner, place)
        ):
            return None
        own = self.of_read_values(argument, owner, place)
        if own is None or own != own:  # noqa: PLR0124
            return None
        values = [self.of_read_values(argument, one, place) for one in living]
        return 1 + len([value for value in values if value is not None and value > own])

    def reads_now(self, node: Expression) -> bool:
        """Whether an expression reads streams as of now."""
        return any(
            one.operator.name == "STREAM" and is_of_now(str(one.value), self.streams)
            for one in every_node(node)
        )

    def of_read_values(self, node: Expression, instance: Instance, place: int) -> Any:
        """An expression over constants and the values that are read in an instance."""
        if node.operator.name == "CONSTANT":
            return plain(node.value)
        if node.operator.name == "STREAM":
            return self.read(str(node.value), instance, place)
        operands = [self.of_read_values(operand, instance, place) for operand in node.operands]
        return operated(node, {}, operands)

    def time_stamps(self, place: int) -> list[int]:
        return [time_stamp for time_stamp, _ in self.points[: place + 1]]

    def column(
        self,
        node: Expression,
        place: int,
        age: int,
        instance: Instance | None,
        is_below: bool = False,
    ) -> list[Any]:
        """The values of an argument up to a time-point; null where it has none.

        Values that are not old enough are not asked for, nor is the present one with `is_below`.
        """
        period = argument_period(node, self.streams)
        if period == ROWS and instance is not None and instance.start is not None:
            period = self.clock(instance.stream)
        is_own = any(
            name
            for one in node.operands
            for read in every_node(one)
            for name in named_streams(read)
            if self.streams[name].per and read.operator.name == "STREAM"
        )
        times = self.time_stamps(place)
        is_called_for = is_called(node.operands[0], self.streams)

        def looks_at(j: int) -> bool:
            if is_called_for and instance is not None and instance.start is not None:
                # the stream says at which rows it has values
                return j >= instance.start
            return self.belongs(j, instance, is_own=is_own)

        return [
            self.value(node.operands[0], j, instance)
            if self.exists(period, j, instance)
            and looks_at(j)
            and times[place] - times[j] >= age
            and not (is_below and j == place)
            else None
            for j in range(place + 1)
        ]

    def aggregate(self, node: Expression, place: int, instance: Instance | None) -> Any:
        interval, parameters, default, *_ = node.window
        bounds = interval.lower, interval.upper
        if node.operator.name == "COUNT_ROWS":
            rows = ROWS
            if instance is not None and instance.start is not None:
                rows = self.clock(instance.stream)
            values: list[Any] = [
                True if self.exists(rows, j) and self.belongs(j, instance) else None
                for j in range(place + 1)
            ]
        else:
            values = self.column(node, place, interval.lower, instance)
        # in a window, NaN is no value
        values = [None if value != value else value for value in values]  # noqa: PLR0124
        word = node.operator.word
        times = self.time_stamps(place)
        if word == "integral":
            area = line_integral if "linear" in parameters else integral
            found: Any = area(times, values, place, *bounds)
        else:
            window = in_window(times, values, place, *bounds)
            if not window and default is not None:
                return plain(default)
            parameter = float(str(parameters[0])) if parameters else 0.5
            if word == "rate":
                assert interval.upper is not None
                parameter = interval.upper - interval.lower
            found = fold(word, window, parameter)
        return plain(default) if found is None else found

    def offset(self, node: Expression, place: int, instance: Instance | None) -> Any:
        distance, default, _ = node.offset
        assert isinstance(distance, int)
        if node.operator.name == "LAST":
            found = last(self.column(node, place, 0, instance, is_below=True), place, distance)
        elif node.operator.name == "HOLD":
            found = latest(self.column(node, place, 0, instance), place, distance)
        else:
            values = self.column(node, place, distance, instance)
            found = at(self.time_stamps(place), values, place, distance)
        return plain(default) if found is None else found

    def later(self, node: Expression, place: int, instance: Instance | None) -> Any:
        """A value of a later row of the trace, or of the instance as long as it lives."""
        found = []
        for j, (time_stamp, row) in enumerate(self.points):
            if row is not None and (
                instance is None or self.own_instance(instance.stream, j) == instance
            ):
                value = self.value(node.operands[0], j, instance)
                found += [] if value is None else [(j, time_stamp, value)]
        distance, default, *_ = node.offset
        assert isinstance(distance, int)
        if node.operator.name == "NEXT":
            values = [value for j, _, value in found if j > place][distance - 1 : distance]
        else:
            until = self.points[place][0] + distance
            values = [value for _, time_stamp, value in found if time_stamp <= until]
        return values[-1] if values else plain(default)

    def operation(self, node: Expression, place: int, instance: Instance | None) -> Any:
        """The value of an operator on one row, from the values of its operands."""
        operands = [self.value(operand, place, instance) for operand in node.operands]
        return operated(node, self.points[place][1] or {}, operands)


def operated(node: Expression, row: dict[str, Any], values: list[Any]) -> Any:
    """The value of an operator from the values of its operands; constants stay as written."""
    row = dict(row)
    operands = []
    for number, (operand, value) in enumerate(zip(node.operands, values, strict=True)):
        if operand.operator.name == "CONSTANT":
            operands.append(operand)
        else:
            row[f"operand {number}"] = value
            operands.append(Expression(ops.COLUMN, (), f"operand {number}"))
    return evaluate(Expression(node.operator, tuple(operands), node.value), row)


def bound_of(key: Any) -> float:
    """The bound of a bucket; NaN for texts that are no numbers."""
    try:
        return float(key) + 0.0
    except ValueError:
        return math.nan


class StreamText(NamedTuple):
    """A stream: its expression, where it has a value, and its instances.

    Attributes:
        value: its expression.
        on: where it has a value, or None.
        period: the period of its ticks, plus `BEGINNINGS` if each instance counts it from its
            beginning; `ROWS` if it has values at rows.
        per: the expressions that tell instances apart, with the names of parameters.
        start: where an instance may begin, or None.
        end: where an instance ends, or None.
    """

    value: Expression
    on: Expression | None
    period: int = ROWS
    per: tuple[tuple[Expression, str | None], ...] = ()
    start: Expression | None = None
    end: Expression | None = None


def named_streams(node: Expression) -> list[str]:
    """The streams that a node itself names."""
    if node.operator.name == "OVER":
        return [node.over.stream]
    return [str(node.value)] if node.operator.name in {"STREAM", "INSTANCE"} else []


def own_operands(node: Expression) -> tuple[Expression, ...]:
    """The operands that have values where the node has one; what OVER is of is in instances."""
    return node.operands[1:] if node.operator.name == "OVER" else node.operands


def every_node(root: Expression) -> list[Expression]:
    return [root, *(node for operand in root.operands for node in every_node(operand))]


def same_key(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether values are equal, as by `=`: null and NaN equal nothing."""
    return all(
        left is not None and right is not None and left == right
        for left, right in zip(one, other, strict=True)
    )


def plain(value: Any) -> Any:
    """A constant as a value."""
    return float(value) if isinstance(value, Decimal) else value
