"""The meaning of later values, `.next(k)` and `.at(+d)`, and when the rows that wait for them go.

Written to be obviously right: whatever looks at no later value is computed by the reference for
streams, and all of a trace is looked through for the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.doors import Expression
from tests.policy.evaluator import Overflow as PredicateOverflow
from tests.reference.aggregates import Overflow
from tests.reference.streams import Program, StreamText, operated, plain


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
        self.nexts: dict[str, Expression] = {}
        for node in wanted.values():
            self.collect(node)
        self.program = Program(self.parts, streams)
        self.rows: list[_Row] = []

    def collect(self, node: Expression) -> None:
        """Find the parts that look at no later value, and the later values."""
        if not self.looks(node):
            if node.operator.name != "CONSTANT":
                self.parts[str(node)] = node
        elif is_later(node):
            self.nexts[str(node)] = node
            self.parts[str(node.operands[0])] = node.operands[0]
        elif node.operator.name == "STREAM":
            stream = self.streams[str(node.value)]
            for part in [stream.value, *([stream.on] if stream.on else [])]:
                self.collect(part)
        else:
            for operand in node.operands:
                self.collect(operand)

    def looks(self, node: Expression) -> bool:
        """Whether an expression looks at later values, also in the streams that it names."""
        if is_later(node):
            return True
        if node.operator.name == "STREAM":
            stream = self.streams[str(node.value)]
            return any(self.looks(one) for one in (stream.value, stream.on) if one is not None)
        return any(self.looks(operand) for operand in node.operands)

    def row(self, time_stamp: int, trace: int, row: dict[str, Any]) -> bool:
        """Take the next row; returns False if an integer overflows in what comes with it."""
        found = self.program.row(time_stamp, trace, row)
        if found is None:
            return False
        self.rows.append(_Row(len(self.rows), time_stamp, trace, found))
        return True

    def removed(self, *, is_end: bool) -> list[Gone]:
        """The rows that have gone, in order; at the end of the log, the others come last."""
        known: list[tuple[int, int]] = []
        waiting: list[int] = []
        latest: dict[int, int | None] = {}
        for row in self.rows:
            before = latest.get(row.trace, 0)
            places = [before]
            for node in self.nexts.values():
                places.append(self.known_at(node, row))
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
            try:
                values = {name: self.value(node, row) for name, node in self.wanted.items()}
            except (Overflow, PredicateOverflow):
                continue
            result.append(Gone(place, row.time_stamp, row.trace, values))
        return result

    def known_at(self, node: Expression, row: _Row) -> int | None:
        """The row of the trace with which a later value is known; None if that has not come."""
        if node.operator.name == "NEXT":
            found = self.later(node, row)
            return None if found is None else found[0]
        # a row that is later than the time up to which the last value counts
        behind = [
            other.place
            for other in self.rows
            if other.trace == row.trace and other.time_stamp > row.time_stamp + length_of(node)
        ]
        return min(behind, default=None)

    def last_until(self, node: Expression, row: _Row) -> Any:
        """The last value up to a later time."""
        name = str(node.operands[0])
        values = [
            other.parts[name]
            for other in self.rows
            if other.trace == row.trace
            and other.time_stamp <= row.time_stamp + length_of(node)
            and other.parts[name] is not None
        ]
        return values[-1] if values else plain(node.offset.default)

    def later(self, node: Expression, row: _Row) -> tuple[int, Any] | None:
        """The row of a later value and the value; None if it has not come."""
        name = str(node.operands[0])
        distance = node.offset.distance
        assert isinstance(distance, int)
        values = [
            (other.place, other.parts[name])
            for other in self.rows
            if other.trace == row.trace
            and other.place > row.place
            and other.parts[name] is not None
        ]
        return values[distance - 1] if len(values) >= distance else None

    def value(self, node: Expression, row: _Row) -> Any:
        """The value of an expression at a row."""
        if node.operator.name == "CONSTANT":
            return plain(node.value)
        if not self.looks(node):
            return row.parts[str(node)]
        if node.operator.name == "AT":
            return self.last_until(node, row)
        if node.operator.name == "NEXT":
            found = self.later(node, row)
            return plain(node.offset.default) if found is None else found[1]
        if node.operator.name == "STREAM":
            stream = self.streams[str(node.value)]
            # the value is computed in any case, and may overflow
            value = self.value(stream.value, row)
            if stream.on is not None and self.value(stream.on, row) is not True:
                return None
            return value
        return operated(node, {}, [self.value(operand, row) for operand in node.operands])


def is_later(node: Expression) -> bool:
    """Whether a node is a value of a later row."""
    name = node.operator.name
    return name == "NEXT" or (name == "AT" and node.offset.is_later)


def length_of(node: Expression) -> int:
    """How much later the time is up to which the last value counts."""
    assert isinstance(node.offset.distance, int)
    return node.offset.distance
