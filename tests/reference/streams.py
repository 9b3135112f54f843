"""The meaning of aggregates and offsets over the rows of one trace, row by row.

Written to be obviously right: every window is collected from all rows and folded from scratch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression
from tests.policy.evaluator import Overflow as PredicateOverflow
from tests.policy.evaluator import evaluate

Value = bool | int | float | str | None
"""A cell; None is null."""

INTEGERS = range(-(2**63), 2**63)


class Overflow(Exception):
    """An integer does not fit into 64 bits."""


def in_window(
    time_stamps: Sequence[int], values: Sequence[Value], row: int, lower: int, upper: int | None
) -> list[Value]:
    """The values, without nulls, of the rows in the window [lower, upper] of a row, in order."""
    return [
        values[j]
        for j in range(row + 1)
        if values[j] is not None
        and time_stamps[row] - time_stamps[j] >= lower
        and (upper is None or time_stamps[row] - time_stamps[j] <= upper)
    ]


def last(values: Sequence[Value], row: int, distance: int) -> Value:
    """The value that is `distance` values below a row."""
    below = [value for value in values[:row] if value is not None]
    return below[-distance] if len(below) >= distance else None


def at(time_stamps: Sequence[int], values: Sequence[Value], row: int, distance: int) -> Value:
    """The last value at or before a time that is `distance` before that of a row."""
    found = in_window(time_stamps, values, row, distance, None)
    return found[-1] if found else None


def fold(aggregate: str, values: list[Value], parameter: float = 0.5) -> Value:
    """The value of an aggregate over a window without nulls; None is null."""
    if aggregate in {"count", "any", "all"}:
        trues = sum(value is True for value in values)
        return {"count": trues, "any": trues > 0, "all": trues == len(values)}[aggregate]
    if aggregate == "distinct":
        return len({canonical(value) for value in values})
    if not values:
        return None
    if aggregate in {"first", "last"}:
        return values[0] if aggregate == "first" else values[-1]
    if aggregate in {"min", "max"}:
        return extreme(values, aggregate == "max")
    if aggregate == "sum":
        return total(values)
    if aggregate == "avg":
        return divided(rounded_total(values), len(values))
    if aggregate in {"var", "stddev"}:
        return spread(values, aggregate)
    return quantile(values, 0.5 if aggregate == "median" else parameter)


def canonical(value: Value) -> Value | tuple[str]:
    """All NaN are one value, and the zeros are one value."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else value + 0.0
    return value


def extreme(values: list[Value], is_max: bool) -> Value:
    """The least or greatest; NaN if there is one, and -0.0 is below 0.0."""
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        return math.nan

    def key(value: Value) -> Any:
        return (value, math.copysign(1.0, value)) if isinstance(value, float) else value

    return max(values, key=key) if is_max else min(values, key=key)


def total(values: list[Value]) -> int | float:
    if all(isinstance(value, int) for value in values):
        found = sum(values)  # type: ignore[arg-type]
        if found not in INTEGERS:
            raise Overflow
        return found
    return rounded_total(values)


def rounded_total(values: list[Value]) -> float:
    """The exact sum, rounded once to the nearest float; with infinities and NaN what IEEE says."""
    special = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    if special:
        return sum(special)
    return rounded(sum((Fraction(value) for value in values), Fraction()))  # type: ignore[arg-type]


def rounded(value: Fraction) -> float:
    """The nearest float; ties go to the even one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def divided(value: float, count: int) -> float:
    return value / count


def spread(values: list[Value], aggregate: str) -> float | None:
    """The variance or standard deviation of a sample; the variance is rounded once."""
    if len(values) < 2:
        return None
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]  # type: ignore[arg-type]
    variance = rounded(Fraction(statistics.variance(exact)))
    return variance if aggregate == "var" else math.sqrt(variance)


def quantile(values: list[Value], share: float) -> float:
    """Linear interpolation at the place (n - 1) * share of the sorted values."""
    floats = [float(value) for value in values]  # type: ignore[arg-type]
    if any(map(math.isnan, floats)):
        return math.nan
    floats.sort(key=lambda value: (value, math.copysign(1.0, value)))
    place = (len(floats) - 1) * share
    below = math.floor(place)
    part = place - below
    low = floats[below]
    if part == 0:
        return low
    high = floats[below + 1]
    if low == high:
        return low
    if math.isinf(high - low):
        return low * (1 - part) + high * part
    return low + (high - low) * part


def integral(
    time_stamps: Sequence[int], values: Sequence[Value], row: int, lower: int, upper: int | None
) -> float | None:
    """The integral of the held value over the window from the first value on, rounded once."""
    end = time_stamps[row] - lower
    known = [
        (time_stamps[j], values[j])
        for j in range(row + 1)
        if values[j] is not None and time_stamps[j] <= end
    ]
    if not known:
        return None
    start = known[0][0] if upper is None else max(known[0][0], time_stamps[row] - upper)
    steps: list[tuple[Value, int]] = []
    for place, (begin, value) in enumerate(known):
        stop = known[place + 1][0] if place + 1 < len(known) else end
        if stop > max(begin, start):
            steps.append((value, stop - max(begin, start)))
    special = [value for value, _ in steps if isinstance(value, float) and not math.isfinite(value)]
    if special:
        return sum(special)
    areas = (Fraction(value) * length for value, length in steps)  # type: ignore[arg-type]
    return rounded(sum(areas, Fraction()))


class Program:
    """Evaluates expressions over streams on the rows of a log, row by row.

    A row on which an integer overflows, in anything that is computed, is no row.
    """

    def __init__(self, wanted: dict[str, Expression], streams: dict[str, StreamText]) -> None:
        self.wanted = wanted
        self.streams = streams
        # everything is computed on every row, needed there or not
        self.nodes: dict[Expression, None] = {}
        open_nodes = list(wanted.values())
        while open_nodes:
            node = open_nodes.pop()
            if node in self.nodes:
                continue
            self.nodes[node] = None
            open_nodes += node.operands
            if node.operator.name == "STREAM":
                stream = streams[str(node.value)]
                open_nodes += [stream.value] if stream.on is None else [stream.value, stream.on]
        self.traces: dict[int, _Trace] = {}

    def row(self, time_stamp: int, trace: int, row: dict[str, Any]) -> dict[str, Any] | None:
        """The values on the next row of the log; None if an integer overflows."""
        known = self.traces.setdefault(trace, _Trace(self.streams))
        known.time_stamps.append(time_stamp)
        known.rows.append(row)
        place = len(known.rows) - 1
        try:
            for node in self.nodes:
                known.value(node, place)
            return {name: known.value(node, place) for name, node in self.wanted.items()}
        except (Overflow, PredicateOverflow):
            known.time_stamps.pop()
            known.rows.pop()
            known.forget(place)
            return None


class _Trace:
    """The rows of one trace, and the values that are known."""

    def __init__(self, streams: dict[str, StreamText]) -> None:
        self.streams = streams
        self.time_stamps: list[int] = []
        self.rows: list[dict[str, Any]] = []
        self.known: dict[tuple[int, int], Any] = {}

    def forget(self, place: int) -> None:
        self.known = {key: value for key, value in self.known.items() if key[1] != place}

    def value(self, node: Expression, place: int) -> Any:
        key = id(node), place
        if key not in self.known:
            self.known[key] = self.computed(node, place)
        return self.known[key]

    def computed(self, node: Expression, place: int) -> Any:
        name = node.operator.name
        if name == "CONSTANT":
            return plain(node.value)
        if name == "STREAM":
            stream = self.streams[str(node.value)]
            found = self.value(stream.value, place)
            if stream.on is None or self.value(stream.on, place) is True:
                return found
            return None
        if name.startswith("WINDOW_") or name == "COUNT_ROWS":
            return self.aggregate(node, place)
        if name in {"LAST", "AT", "HOLD"}:
            return self.offset(node, place)
        return self.operation(node, place)

    def column(self, node: Expression, place: int) -> list[Any]:
        """The values at all rows up to one; from the first on, as recursion needs."""
        return [self.value(node, j) for j in range(place + 1)]

    def aggregate(self, node: Expression, place: int) -> Any:
        interval, parameters, default = node.window
        bounds = interval.lower, interval.upper
        if node.operator.name == "COUNT_ROWS":
            values: list[Any] = [True] * (place + 1)
        elif interval.lower:
            # a window that excludes the present does not ask for the present value
            values = [
                self.value(node.operands[0], j)
                if self.time_stamps[place] - self.time_stamps[j] >= interval.lower
                else None
                for j in range(place + 1)
            ]
        else:
            values = self.column(node.operands[0], place)
        word = node.operator.word
        if word == "integral":
            found: Any = integral(self.time_stamps[: place + 1], values, place, *bounds)
        else:
            window = in_window(self.time_stamps, values, place, *bounds)
            if not window and default is not None:
                return plain(default)
            found = fold(word, window, float(str(parameters[0])) if parameters else 0.5)
        return plain(default) if found is None else found

    def offset(self, node: Expression, place: int) -> Any:
        distance, default = node.offset
        assert isinstance(distance, int)
        (operand,) = node.operands
        if node.operator.name == "LAST":
            found = last([*self.column(operand, place - 1), None], place, distance)
        else:
            values = [
                self.value(operand, j)
                if self.time_stamps[place] - self.time_stamps[j] >= distance
                else None
                for j in range(place + 1)
            ]
            found = at(self.time_stamps, values, place, distance)
        return plain(default) if found is None else found

    def operation(self, node: Expression, place: int) -> Any:
        """The value of an operator on one row, from the values of its operands."""
        row = dict(self.rows[place])
        operands = []
        for number, operand in enumerate(node.operands):
            if operand.operator.name == "CONSTANT":
                operands.append(operand)
            else:
                row[f"operand {number}"] = self.value(operand, place)
                operands.append(Expression(ops.COLUMN, (), f"operand {number}"))
        return evaluate(Expression(node.operator, tuple(operands), node.value), row)


class StreamText(NamedTuple):
    """A stream: its expression, and where it has a value."""

    value: Expression
    on: Expression | None


def plain(value: Any) -> Any:
    """A constant as a value."""
    return float(value) if isinstance(value, Decimal) else value
