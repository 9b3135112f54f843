"""The streams and definitions of a program, and what names stand for where they are used.

A stream has time-points of its own. A definition has those where it is used, so it may stand for
different values at rows and at ticks. The rows of instances, and the ticks of instances, have
numbers below zero in the place of a period, one for each lifetime; so do the time-points at which
windows over the rows of instances are read as of now (see `NOW`). The changes of a relation have a
number from `CHANGES` on, and periods of ticks that instances count from their beginnings one from
`BEGINNINGS` on.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import PolicyError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.machine_code import NotPossible
from mtlmon.policy.predicates.printer import column_text
from mtlmon.policy.predicates.time_points import (
    BEGINNINGS,
    CHANGES,
    MEMORY,
    ROWS,
    TimePoints,
    explained,
)
from mtlmon.policy.templates import (
    OF_INSTANCES,
    Call,
    TemplateError,
    condition_and_calls,
    error_of,
    joined,
    keys_of,
    lifetime_of,
    require_readable,
    require_readable_clauses,
    stream_of,
)
from mtlmon.streams.dependencies import Need
from mtlmon.streams.kernels import extent_of
from mtlmon.streams.nulls import may_be_null
from mtlmon.syntax.report import formula_error
from mtlmon.syntax.traversal import operands_of_nested, postorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.policy.predicates.expression import Expression
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.predicate import Predicate
    from mtlmon.policy.predicates.time_points import Changes, Conflict
    from mtlmon.policy.templates import Lifetime, Per
    from mtlmon.streams.kernels import Extent

# What stands for an expression.
NAMED = {ops.STREAM, ops.ATOM, ops.LET}
EXAMPLE = "last[0,1m](x)"
# What has the same value in an instance wherever its windows have the same: all but these.
_NOT_OF_NOW = {*NAMED, *OF_INSTANCES, *ops.COLUMNS, *ops.OFFSETS.values(), *ops.LOOK_UPS}

NOW = -1
"""Stands for a period where windows are read: at the rows of instances, and where others read them.

A stream with `per` that is an aggregate, or arithmetic of such, changes as rows leave its windows.
So what reads it from outside reads it as of its own time, rather than as it was at the last row.
"""

_CALLS = -2
"""Numbers up to this stand for a period where rows call instances; see `templates.Call`."""


class Stream(NamedTuple):
    """A declared stream.

    Attributes:
        value: its expression, with the text that it comes from.
        on: where it has a value; None for all rows.
        kind: the declared kind of its values; None if there is none.
        period: the period of its ticks, in units of time; `ROWS` if it has values at rows. From
            `BEGINNINGS` on, each instance counts it from its beginning.
        per: the expressions that tell instances apart, each with the name of its parameter or None;
            () if there are no instances.
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


class Name(NamedTuple):
    """A stream, or a definition at the time-points where it is used.

    Attributes:
        name: its name.
        period: its time-points: `ROWS`, a period, or the number of the rows or ticks of instances,
            or of the changes of a relation.
    """

    name: str
    period: int


class Declarations:
    """The streams and definitions of a program.

    Attributes:
        streams: the streams by name.
        definitions: the definitions by name.
        unit: the unit of the time-stamps, or None if it is not known.
        found_as_of_now: streams at the rows of their instances whose values are among those as of
            now, and the latter.
    """

    def __init__(
        self,
        streams: Mapping[str, Stream],
        definitions: Mapping[str, Predicate],
        environment: Environment,
    ) -> None:
        self.streams = streams
        self.definitions = definitions
        self.unit = environment.unit
        self._time_points = TimePoints(
            {name: stream.period for name, stream in streams.items()},
            lambda name: definitions[name].expression if name in definitions else None,
            environment.time,
        )
        self._periods: dict[int, None] = {}
        self._per = {name: stream.per for name, stream in streams.items()}
        # The numbers of the rows and ticks of instances, which are negative.
        self._frames: dict[tuple[Lifetime, int], int] = {}
        self._of_now: dict[str, bool] = {}
        self.found_as_of_now: dict[Name, Name] = {}
        self._changes: dict[Changes, int] = {}
        # What rows call, with the numbers that stand for it in the place of a period.
        self._calls: dict[tuple[Call, ...], int] = {}

    @property
    def periods(self) -> tuple[int, ...]:
        """The periods of all ticks."""
        return tuple(self._periods)

    @property
    def changes(self) -> Mapping[Changes, int]:
        """The numbers of the changes of relations."""
        return self._changes

    def number_of(self, changes: Changes) -> int:
        """The number of the changes of a relation."""
        return self._changes.setdefault(changes, CHANGES + len(self._changes))

    def counts_from_beginning(self, lifetime: Lifetime) -> bool:
        """Whether instances with a lifetime have ticks that they count from their beginnings."""
        return any(one == lifetime and period >= BEGINNINGS for one, period in self._frames)

    @property
    def frames(self) -> Mapping[tuple[Lifetime, int], int]:
        """The numbers of the rows and ticks of instances, by their lifetime and period."""
        return self._frames

    def needs(
        self, roots: Iterable[tuple[Predicate, int]], templates: Iterable[str] = ()
    ) -> dict[Name, list[Need[Name]]]:
        """Find the streams and definitions that expressions need, and what these need.

        Args:
            roots: the expressions, and where they have values.
            templates: streams of which only the instances are needed.
        """
        found: dict[Name, list[Need[Name]]] = {}
        open_names: list[Name] = []
        for template in templates:
            name = Name(template, self.frame(template))
            self._require_readable(name)
            needs = [
                need for part in self.parts_of_lifetime(template) for need in self.names(*part)
            ]
            open_names += [need.name for need in [*needs, *self._needs_at_ends(name)]]
        for root, period in roots:
            if period < ROWS or not is_value(root):
                keys = () if period >= ROWS else self.lifetime_and_period(period)[0].keys
                with template_errors(root):
                    require_readable(root.expression, keys, self._per)
                open_names += [need.name for need in self.names(root, period)]
            elif self.streams[root.expression.name].per:
                open_names.append(self.name(root.expression, ROWS, root))
            else:
                open_names += [need.name for need in self.names(root, period)]
        while open_names:
            name = open_names.pop()
            if name not in found:
                self._require_readable(name)
                parts = [(part, name.period) for part in self.parts(name.name)]
                parts += self.parts_of_lifetime(name.name)
                ending = self._ending_of(name)
                # where the instances have their place, these have theirs
                found[name] = [
                    need for part in parts for need in self.names(*part) if need.name not in ending
                ]
                found[name] += self._needs_at_ends(name)
                open_names += [need.name for need in found[name]]
        for name in found:
            if name in self._ending_of(name):
                continue
            if ROWS == self.period_of(name.period) > name.period and self.is_of_now(name.name):
                now = Name(name.name, self.now_of(name.period))
                if now in found and not _reaches(found, now, name):
                    found[name] = [Need(now, False)]
                    self.found_as_of_now[name] = now
        return found

    def _ending_of(self, name: Name) -> list[Name]:
        """The streams that say where the instances of a stream end, if it has instances."""
        stream = self.streams.get(name.name)
        if stream is None or not stream.per:
            return []
        return self.ending(self.frame_of(self.lifetime(stream), ROWS))

    def _needs_at_ends(self, name: Name) -> list[Need[Name]]:
        """What is needed to say by values of its instances where those of a stream end."""
        stream = self.streams.get(name.name)
        if stream is None or not stream.per:
            return []
        found: list[Need[Name]] = []
        for frame, end in self.own_ends(self.lifetime(stream)).items():
            members = self.ending_by(frame, end)
            parts = [end, *(part for member in members for part in self.parts(member.name))]
            needs = [need for part in parts for need in self.names(part, frame)]
            found += [need for need in needs if need.name not in members]
        return found

    def _require_readable(self, name: Name) -> None:
        """Require that the expressions of a stream or definition say which instances they read."""
        stream = self.streams.get(name.name)
        for part in self.parts(name.name):
            with template_errors(part):
                keys = () if stream is None else keys_of(stream.per)
                require_readable(part.expression, keys, self._per)
        if stream is not None:
            with template_errors(stream.value):
                require_readable_clauses(stream, self._per)

    def parts(self, name: str) -> list[Predicate]:
        """The value of a stream or definition, and where it exists."""
        if name not in self.streams:
            return [self.definitions[name]]
        stream = self.streams[name]
        on = stream.on
        if on is not None and stream.per and stream.period == ROWS:
            condition, _ = condition_and_calls(stream.per, on.expression, self._per)
            on = None if condition is None else on.with_expression(condition)
        return [stream.value] if on is None else [stream.value, on]

    def parts_of_lifetime(self, name: str) -> list[tuple[Predicate, int]]:
        """What says when instances of a stream begin and end, and which ones rows call.

        Each part comes with where it is evaluated.
        """
        if name not in self.streams:
            return []
        stream = self.streams[name]
        if not stream.per:
            return []
        lifetime = self.lifetime(stream)
        found = lifetime.expressions
        for call in self.calls_of(name):
            found += [*call.keys, *([] if call.where is None else [call.where])]
        return [(stream.value.with_expression(one), lifetime.clock) for one in found]

    def calls_of(self, name: str) -> tuple[Call, ...]:
        """The instances of a stream that rows call; () if these are only their own."""
        stream = self.streams[name]
        if not stream.per or stream.on is None or stream.period != ROWS:
            return ()
        return condition_and_calls(stream.per, stream.on.expression, self._per)[1]

    def frame(self, name: str) -> int:
        """The number of the time-points of a stream's instances; `ROWS` if it has none."""
        stream = self.streams[name]
        if not stream.per:
            return ROWS
        return self._frame_of_calls(self.lifetime(stream), self.calls_of(name), stream.period)

    def _frame_of_calls(self, lifetime: Lifetime, calls: tuple[Call, ...], period: int) -> int:
        if calls:
            period = self._calls.setdefault(calls, _CALLS - len(self._calls))
        return self.frame_of(lifetime, period)

    def calls(self, frame: int) -> tuple[Call, ...]:
        """The instances that rows call, whose time-points have a number; () if no others are."""
        period = self.period_of(frame)
        return next((calls for calls, number in self._calls.items() if number == period), ())

    def lifetime(self, stream: Stream) -> Lifetime:
        """What says when the instances of a stream begin and end."""
        with template_errors(stream.value):
            found = lifetime_of(stream.per, stream.start, stream.end, self._per)
        return found._replace(clock=self._clock(found, stream))

    def _clock(self, lifetime: Lifetime, stream: Stream) -> int:
        """Where the instances of a stream begin and end: at rows, or at ticks of the trace.

        They are ticks if all that the clauses read has values there, and the stream has, too.
        """
        reads = [read for one in lifetime.expressions for read in self._time_points.reads(one)]
        if stream.period == ROWS or not reads or any(read.period == ROWS for read in reads):
            return ROWS
        for read in reads:
            if read.node.operator is ops.STREAM and self.streams[read.node.name].per:
                name = column_text(read.node.name)
                message = f"stream {name} has a value for each of its instances"
                hint = f"at ticks, the clauses name one, as in {name}[...], or all, by over"
                raise error_at(stream.value, read.node, message, hint)
        period, _ = self._time_points.common_period(lifetime.expressions)
        assert isinstance(period, int)
        return period

    def clock_of(self, name: str) -> int:
        """Where the instances of a stream begin and end; see `Lifetime`."""
        return self.lifetime(self.streams[name]).clock

    def of_trace(self, points: int) -> int:
        """The time-points of the trace that stand for some: the rows of instances are among them.

        Instances may begin at ticks, which are what rows are for others.
        """
        if points >= ROWS:
            return points
        lifetime, period = self.lifetime_and_period(points)
        return lifetime.clock if period == ROWS else ROWS

    def ending(self, frame: int) -> list[Name]:
        """The streams at the rows of instances whose values say where these end.

        Raises:
            PolicyError: one of them does not have values at these rows.
        """
        lifetime, period = self.lifetime_and_period(frame)
        end = self.own_ends(lifetime).get(frame) if period == ROWS else None
        return [] if end is None else self.ending_by(frame, end)

    def own_ends(self, lifetime: Lifetime) -> dict[int, Predicate]:
        """What ends instances by values of their own streams, by the time-points of these.

        Raises:
            PolicyError: these are ticks of several periods.
        """
        found: dict[int, Predicate] = {}
        if lifetime.own_end is None:
            return found
        origin = self.stream_of(self.frame_of(lifetime, ROWS)).value
        for condition in operands_of_nested(lifetime.own_end, ops.OR):
            node = next(
                one
                for one in postorder(condition)
                if one.operator is ops.STREAM and self.streams[one.name].per
            )
            frame = self.frame_of(lifetime, self.streams[node.name].period)
            if self.calls_of(node.name):
                message = f"until reads {node.name}, which has values at rows of other instances"
                hint = f"read a stream that has its value: stream NAME = {node.name}.hold() per ..."
                raise error_at(origin, node, message, hint)
            parts = [found[frame].expression] if frame in found else []
            either = joined(ops.OR, [*parts, condition])
            assert either is not None
            found[frame] = origin.with_expression(either)
            if sum(self.period_of(one) > ROWS for one in found) > 1:
                message = f"until reads ticks of several periods, those of {node.name} among them"
                hint = "streams that end instances at ticks have the same clause every"
                raise error_at(origin, node, message, hint)
        return found

    def ending_by(self, frame: int, end: Predicate) -> list[Name]:
        """The streams with some time-points of instances that a condition reads.

        Raises:
            PolicyError: one of them does not have values at these time-points.
        """
        found: dict[Name, None] = {}
        open_parts = [end]
        while open_parts:
            part = open_parts.pop()
            for node in postorder(part.expression):
                if node.operator is not ops.STREAM or not self.streams[node.name].per:
                    continue
                name = Name(node.name, self.frame(node.name))
                if name.period != frame:
                    where = "rows" if self.is_of_rows(frame) else "ticks"
                    message = f"until needs {node.name}, which is not of the same {where}"
                    hint = (
                        f"what ends instances has values at their {where}, and the same clauses "
                        "per, from and until"
                    )
                    raise error_at(part, node, message, hint)
                if name not in found:
                    found[name] = None
                    open_parts += self.parts(node.name)
        return list(found)

    def stream_of(self, frame: int) -> Stream:
        """The first stream of instances."""
        lifetime, _ = self.lifetime_and_period(frame)
        return next(
            stream
            for stream in self.streams.values()
            if stream.per and self.lifetime(stream) == lifetime
        )

    def frame_of(self, lifetime: Lifetime, period: int) -> int:
        """The number of the rows or the ticks of instances."""
        return self._frames.setdefault((lifetime, period), -1 - len(self._frames))

    def lifetime_and_period(self, frame: int) -> tuple[Lifetime, int]:
        """What instances have time-points with a number, and the period of these."""
        return next(one for one, number in self._frames.items() if number == frame)

    def period_of(self, frame: int) -> int:
        """The period of time-points, also of instances; `ROWS` if they are rows, or `NOW`."""
        return frame if frame >= ROWS else self.lifetime_and_period(frame)[1]

    def is_of_rows(self, frame: int) -> bool:
        """Whether time-points are rows, of traces or of instances, and not ticks."""
        return self.period_of(frame) <= ROWS

    def is_of_now(self, name: str) -> bool:
        """Whether a stream with instances is read as of the time of reading, rather than held.

        It is an aggregate over rows of the instance, or arithmetic of such, and does not say where
        it has values. An integral goes on to change between all rows, so it is held.
        """
        if name not in self._of_now:
            # one that reads itself is not
            self._of_now[name] = False
            self._of_now[name] = self._has_windows_only(name)
        return self._of_now[name]

    def _has_windows_only(self, name: str) -> bool:
        stream = self.streams[name]
        if not stream.per or stream.period != ROWS or len(self.parts(name)) > 1:
            return False
        frame = self.frame(name)
        has_window = False
        stack = [stream.value.expression]
        while stack:
            node = stack.pop()
            if node.operator in ops.WINDOWS:
                period, _ = self._time_points.argument_period(node)
                if node.operator in {ops.WINDOW_INTEGRAL, ops.MACHINE} or period != ROWS:
                    return False
                if any(map(self._called, node.operands)):
                    return False
                has_window = True
                continue
            if node.operator is ops.STREAM:
                other = self.streams.get(node.name)
                if other is None or not other.per or self.frame(node.name) != frame:
                    return False
                if not self.is_of_now(node.name):
                    return False
                has_window = True
            elif node.operator in _NOT_OF_NOW:
                return False
            stack += node.operands
        return has_window

    def _called(self, node: Expression) -> bool:
        """Whether a node names a stream that has values in the instances that rows call."""
        return node.operator is ops.STREAM and bool(self.calls_of(node.name))

    def now_of(self, frame: int) -> int:
        """The number of the time-points where windows of some instances are read as of now."""
        return self.frame_of(self.lifetime_and_period(frame)[0], NOW)

    def names(self, predicate: Predicate, period: int) -> list[Need[Name]]:
        """The streams and definitions that an expression names, if it is evaluated somewhere."""
        own_period = self.period_of(period)
        where = next(
            (one for one, frame in self._changes.items() if frame == period),
            max(own_period, ROWS),
        )
        conflict = self._time_points.conflict(predicate.expression, where)
        if conflict is not None:
            raise self._conflict(predicate, conflict)
        if ROWS < own_period < CHANGES:
            self._periods[own_period] = None
        found: dict[Need[Name], None] = {}
        seen: set[tuple[int, bool, int]] = set()
        stack = [(predicate.expression, False, period)]
        while stack:
            node, is_past, period = stack.pop()
            if (id(node), is_past, period) in seen:
                continue
            seen.add((id(node), is_past, period))
            if node.operator in NAMED:
                found[Need(self.name(node, period, predicate), is_past)] = None
            elif node.operator in OF_INSTANCES:
                self._require_known_time(node, period, predicate)
                found[Need(self.name_of_instances(node), is_past)] = None
                if node.operator is ops.OVER:
                    stack += [(operand, is_past, period) for operand in node.operands[1:]]
                    stack.append((node.operands[0], is_past, self.frame_of_over(node)))
                    continue
            if node.operator in MEMORY:
                is_past = is_past or self.extent(node, predicate).excludes_present
                inner = self.argument_period(node, predicate, period)
                # rows and ticks never coincide
                is_past = is_past or (
                    self.is_of_rows(inner) != self.is_of_rows(period)
                    and self.of_trace(inner) == ROWS
                )
                period = inner
            stack += [(operand, is_past, period) for operand in node.operands]
        return list(found)

    def _require_known_time(self, node: Expression, period: int, predicate: Predicate) -> None:
        """Refuse to read windows as of ticks that only instances have."""
        read = self.name_of_instances(node).period
        if node.operator is ops.OVER:
            read = self.frame_of_over(node)
        if self.period_of(read) == NOW and self.period_of(period) >= BEGINNINGS:
            name = stream_of(node)
            message = f"windows of {name} are not read at ticks that an instance counts for itself"
            hint = f"read a stream with every: stream NAME = {name} per ... every 10s"
            raise error_at(predicate, node, message, hint)

    def name(self, node: Expression, period: int, predicate: Predicate) -> Name:
        """What a name stands for; a stream has time-points of its own."""
        known = self.streams if node.operator is ops.STREAM else self.definitions
        if node.name not in known:
            raise error_at(predicate, node, f"{node.name} is not defined")
        # an instance reads what is true of the trace
        name = Name(node.name, self.of_trace(period))
        if node.operator is ops.STREAM:
            stream = self.streams[node.name]
            name = Name(node.name, self.frame(node.name) if stream.per else stream.period)
            if self.period_of(period) == NOW and self.is_of_now(node.name):
                name = Name(node.name, period)
        own_period = self.period_of(period)
        self._require_same_instances(node, name.period, period, predicate)
        is_of_trace = name.period > ROWS and own_period % name.period == 0
        if period < ROWS < own_period and name.period != period and not is_of_trace:
            message = f"{node.name} has no value at the ticks of an instance"
            hint = (
                f"take a window of rows there, as in {EXAMPLE}, or read streams with the same "
                "per, from, until and every"
            )
            raise error_at(predicate, node, message, hint)
        return name

    def _require_same_instances(
        self, node: Expression, read: int, period: int, predicate: Predicate
    ) -> None:
        """Refuse to read streams where rows call instances, if these begin or end elsewhere."""
        if max(read, period) >= ROWS or not (self.calls(read) or self.calls(period)):
            return
        if self.lifetime_and_period(read)[0] != self.lifetime_and_period(period)[0]:
            message = f"the instances of {node.name} begin or end at other rows"
            hint = (
                "where on is about rows of others, streams that read each other have the same "
                "clauses per, from and until"
            )
            raise error_at(predicate, node, message, hint)

    def name_of_instances(self, node: Expression) -> Name:
        """The stream whose instances a node reads, at the time-points that it reads."""
        name = stream_of(node)
        frame = self.frame(name)
        return Name(name, self.now_of(frame) if self.is_of_now(name) else frame)

    def frame_of_over(self, node: Expression) -> int:
        """The number of the time-points at which the argument of OVER has values."""
        frame = self.frame(node.over.stream)
        lifetime, period = self.lifetime_and_period(frame)
        own = [
            one.name
            for one in postorder(node.operands[0])
            if one.operator is ops.STREAM and self.has_instances(one.name, lifetime)
        ]
        if any(self.frame(name) == frame and self.is_of_now(name) for name in own):
            return self.now_of(frame)
        called = {name: self.calls_of(name) for name in [node.over.stream, *own]}
        if period <= ROWS and any(called.values()):
            # their values change at the rows that call an instance in one of the streams
            call = Call(lifetime.keys)
            calls = dict.fromkeys(one for some in called.values() for one in some or (call,))
            return self._frame_of_calls(lifetime, tuple(calls), ROWS)
        return frame

    def has_instances(self, name: str, lifetime: Lifetime) -> bool:
        """Whether a stream of rows has the instances with a lifetime."""
        stream = self.streams.get(name)
        if stream is None or not stream.per or stream.period > ROWS:
            return False
        return self.lifetime(stream) == lifetime

    def argument_period(self, node: Expression, origin: Predicate, own: int) -> int:
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
        lifetime, own_period = self.lifetime_and_period(own)
        names = [read.node for one in node.operands for read in self._time_points.reads(one)]
        if period == ROWS and names and lifetime.clock != ROWS:
            message = f"instances of {origin.name} begin at ticks, so they have no rows"
            hint = f"declare a stream at these ticks, stream NAME = {node} every ..., and read it"
            raise error_at(origin, node, message, hint)
        called = [one for part in node.operands for one in postorder(part) if self._called(one)]
        if period == ROWS and called:
            name = called[0].name
            if called == [*node.operands]:
                frame = self.frame(name)
                self._require_same_instances(called[0], frame, own, origin)
                return frame
            message = f"{node} looks at {name}, which has values at rows of other instances"
            hint = (
                f"declare it with the same clauses, as stream NAME = {node.operands[0]} ..., and "
                "look at that"
            )
            raise error_at(origin, node, message, hint)
        is_of_trace = all(
            one.operator is not ops.STREAM or not self.streams[one.name].per for one in names
        )
        is_at_clock = lifetime.clock != ROWS and lifetime.clock % max(period, 1) == 0
        if period == ROWS or (is_at_clock and is_of_trace):
            return self.frame_of(lifetime, ROWS)
        frame = self.frame_of(lifetime, period)
        is_own = all(
            name.operator is ops.STREAM and self.frame(name.name) == frame for name in names
        )
        if is_own and own_period in {ROWS, period}:
            return frame
        word = node.operator.word
        message = f"{word} in a stream with per looks at rows or ticks of the instance only"
        hint = "its argument can be about rows, or streams with the same per, from, until and every"
        raise error_at(origin, node, message, hint)

    def _conflict(self, predicate: Predicate, conflict: Conflict) -> PolicyError:
        what = "this" if predicate.name is None else f"{predicate.role} {predicate.name}"
        message, hint = explained(conflict, what, self.unit)
        return error_at(predicate, conflict.read.node, message, hint)

    def extent(self, node: Expression, origin: Predicate) -> Extent:
        """How far an aggregate or offset looks."""
        try:
            return extent_of(node, self.unit)
        except NotPossible as error:
            raise error_at(origin, node, str(error)) from None

    def may_be_null(self, expression: Expression, schema: pa.Schema | None) -> bool:
        """Whether an expression may be null; see `nulls.may_be_null`."""
        return may_be_null(expression, self.streams, self.definitions, schema)


def _reaches(needs: Mapping[Name, list[Need[Name]]], start: Name, wanted: Name) -> bool:
    """Whether a stream needs another one, directly or not."""
    seen = {start}
    stack = [start]
    while stack:
        for need in needs[stack.pop()]:
            if need.name == wanted:
                return True
            if need.name not in seen:
                seen.add(need.name)
                stack.append(need.name)
    return False


@contextmanager
def template_errors(origin: Predicate) -> Iterator[None]:
    """Give the errors of templates a place in the text of an expression."""
    try:
        yield
    except TemplateError as error:
        raise error_of(error, origin.text, origin.source) from None


def error_at(
    origin: Predicate, node: Expression, message: str, hint: str | None = None
) -> PolicyError:
    """Make an error about a node of an expression, with its place in the text."""
    place = 0 if node.span is None else node.span.start
    error = formula_error(
        origin.text, place, message, source=origin.source, hint=hint, kind=PolicyError
    )
    assert isinstance(error, PolicyError)
    return error


def is_value(wanted: Predicate) -> bool:
    """Whether the value of a stream as such is wanted, rather than an expression that reads it."""
    return wanted.expression.operator is ops.STREAM and wanted.role == "stream"
