"""The meaning of later values, `.next(k)` and `.at(+d)`, and when the rows that wait for them go.

Written to be obviously right: the reference for streams looks at all of a trace for them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.doors import Expression
from tests.policy.evaluator import Overflow as PredicateOverflow
from tests.reference.aggregates import Overflow
from tests.reference.streams import Program, StreamText, is_later, named_streams, waits


class Gone(NamedTuple):
    """A row that no longer waits.

    Attributes:
        place: how many rows come before the row that lets it go; all of them at the end of the log.
        time_stamp: its time-stamp.
        trace: its trace.
        values: the values of the expressions.
    """

    place: int
    time_stamp: int
    trace: int
    values: dict[str, Any]


class _Row(NamedTuple):
    place: int
    time_stamp: int
    trace: int
    place_in_trace: int
    parts: dict[str, Any]


class LaterProgram:
    """Evaluates expressions over later values on the rows of a log.

    Args:
        wanted: the expressions; all of them wait for the later values of each.
        streams: the streams.
    """

    def __init__(self, wanted: dict[str, Expression], streams: dict[str, StreamText]) -> None:
        self.streams = streams
        self.wanted = wanted
        self.parts: dict[str, Expression] = {}
        # the later values, with the stream of whose instances they are
        self.nexts: dict[tuple[str, str | None], Expression] = {}
        # the streams that look at later values
        self.later: dict[str, None] = {}
        for node in wanted.values():
            self.collect(node)
        templates = [name for name in self.later if streams[name].per]
        self.program = Program(self.parts, streams, templates=templates)
        self.rows: list[_Row] = []

    def collect(self, node: Expression, template: str | None = None) -> None:
        """Find the parts that look at no later value, and the later values.

        Args:
            node: the expression.
            template: the stream with `per` that it is a part of, if there is one.
        """
        if not waits(node, self.streams):
            if node.operator.name != "CONSTANT" and template is None:
                self.parts[str(node)] = node
        elif is_later(node):
            self.nexts[str(node), template] = node
            if template is None:
                self.parts[str(node.operands[0])] = node.operands[0]
        else:
            for operand in node.operands:
                self.collect(operand, template)
            for name in named_streams(node):
                self.later[name] = None
                stream = self.streams[name]
                for part in [stream.value, *([stream.on] if stream.on else [])]:
                    self.collect(part, name if stream.per else None)

    def row(self, time_stamp: int, trace: int, row: dict[str, Any]) -> bool:
        """Take the next row; returns False if an integer overflows in what comes with it."""
        found = self.program.row(time_stamp, trace, row)
        if found is None:
            return False
        place = len(self.program.traces[trace].points) - 1
        self.rows.append(_Row(len(self.rows), time_stamp, trace, place, found))
        return True

    def removed(self, *, is_end: bool) -> list[Gone]:
        """The rows that have gone, in order; at the end of the log, the others come last."""
        known: list[tuple[int, int]] = []
        waiting: list[int] = []
        latest: dict[int, int | None] = {}
        for row in self.rows:
            before = latest.get(row.trace, 0)
            places = [before]
            for (_, template), node in self.nexts.items():
                places.append(self.known_at(node, row, template))
            if any(place is None for place in places):
                latest[row.trace] = None
                waiting.append(row.place)
            else:
                latest[row.trace] = max(place for place in places if place is not None)
                known.append((latest[row.trace] or 0, row.place))
        order = sorted(known)
        if is_end:
            order += [(len(self.rows), place) for place in waiting]
        result = []
        for place, number in order:
            row = self.rows[number]
            trace = self.program.traces[row.trace]
            try:
                self.compute_streams(row)
                values = {
                    name: trace.wanted(node, row.place_in_trace)
                    for name, node in self.wanted.items()
                }
            except (Overflow, PredicateOverflow):
                trace.left_out.add(row.place_in_trace)
                continue
            result.append(Gone(place, row.time_stamp, row.trace, values))
        return result

    def compute_streams(self, row: _Row) -> None:
        """Compute all streams that look at later values, which may overflow where none is read."""
        trace, place = self.program.traces[row.trace], row.place_in_trace
        for name in self.later:
            stream = self.streams[name]
            own = trace.own_instance(name, place) if stream.per else None
            if own is None or own.start is not None:
                for part in [stream.value, *([stream.on] if stream.on else [])]:
                    trace.value(part, place, own)

    def known_at(self, node: Expression, row: _Row, template: str | None) -> int | None:
        """The row of the trace with which a later value is known; None if that has not come."""
        name, distance = str(node.operands[0]), node.offset.distance
        assert isinstance(distance, int)
        if node.operator.name == "AT":
            # a row that is later than the time up to which the last value counts
            places = [
                other.place
                for other in self.rows
                if other.trace == row.trace and other.time_stamp > row.time_stamp + distance
            ]
            return min(places, default=None)
        if template is not None:
            return self.known_in_instance(node, row, template)
        places = [
            other.place
            for other in self.rows
            if other.trace == row.trace
            and other.place > row.place
            and other.parts[name] is not None
        ]
        return places[distance - 1] if len(places) >= distance else None

    def known_in_instance(self, node: Expression, row: _Row, template: str) -> int | None:
        """The row with which the instance has had so many values more, or has ended."""
        trace = self.program.traces[row.trace]
        own = trace.own_instance(template, row.place_in_trace)
        if own.start is None:
            return row.place
        left = node.offset.distance
        assert isinstance(left, int)
        for other in self.rows:
            if other.trace != row.trace or other.place < row.place:
                continue
            place = other.place_in_trace
            if other.place > row.place and trace.own_instance(template, place) == own:
                left -= trace.value(node.operands[0], place, own) is not None
            if left == 0 or not trace.outlives(own, place):
                return other.place
        return None
