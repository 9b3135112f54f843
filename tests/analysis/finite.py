"""The operators on a finite trace after which no event comes, each by its own definition."""

from __future__ import annotations

from mtlmon import Formula
from tests.doors import syntax_operators as ops

Trace = list[tuple[int, frozenset[str]]]


def holds(formula: Formula, trace: Trace, i: int) -> bool:
    """Whether the formula holds at time-point i of the (time-stamp, atoms) pairs."""
    return _column(formula, trace)[i]


def _column(formula: Formula, trace: Trace) -> list[bool]:
    """The formula's value at every time-point."""
    values = [_column(operand, trace) for operand in formula.operands]
    value = _boolean if formula.interval is None else _temporal
    return [value(formula, trace, i, values) for i in range(len(trace))]


def _boolean(formula: Formula, trace: Trace, i: int, values: list[list[bool]]) -> bool:
    operator = formula.operator
    if not values:
        return operator is ops.TRUE or formula.name in trace[i][1]
    first, last = values[0][i], values[-1][i]
    return {
        ops.NOT: not first,
        ops.AND: first and last,
        ops.OR: first or last,
        ops.IMPLIES: not first or last,
        ops.IFF: first == last,
    }[operator]


def _temporal(formula: Formula, trace: Trace, i: int, values: list[list[bool]]) -> bool:
    operator, interval = formula.operator, formula.interval
    assert interval is not None
    first, last = values[0], values[-1]
    ahead = range(i, len(trace)) if operator.is_future else range(i, -1, -1)
    inside = [j for j in ahead if abs(trace[j][0] - trace[i][0]) in interval]
    match operator.name:
        case "NEXT" | "PREVIOUS":
            return any(abs(j - i) == 1 and first[j] for j in inside)
        case "EVENTUALLY" | "ONCE":
            return any(first[j] for j in inside)
        case "ALWAYS" | "HISTORICALLY":
            return all(first[j] for j in inside)
        case "UNTIL":
            return any(last[j] and all(first[i:j]) for j in inside)
        case "SINCE":
            return any(last[j] and all(first[j + 1 : i + 1]) for j in inside)
        case "RELEASE":
            return all(last[j] or any(first[i:j]) for j in inside)
        case "TRIGGER":
            return all(last[j] or any(first[j + 1 : i + 1]) for j in inside)
        case "WEAK_UNTIL":
            return all(first[j] or any(last[i : j + 1]) for j in inside)
    raise AssertionError(operator)
