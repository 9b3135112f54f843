"""Formulas of the past as expressions, so that conditions and streams can use named formulas.

Windows have the intervals of temporal operators, so `ONCE[I] p` is `any[I](p)` and
`HISTORICALLY[I] p` is `all[I](p)`. For the others, rows are numbered by `count[0,*]()`:
`f SINCE[I] g` holds if the last row in the interval where g holds is no earlier than the last row
where f does not.
"""

from __future__ import annotations

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.expression import Expression, Offset, Window
from mtlmon.syntax import operators as temporal
from mtlmon.syntax.interval import Interval
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.syntax.formula import Formula

_TRUE = Expression(ops.CONSTANT, (), True)
_FALSE = Expression(ops.CONSTANT, (), False)
_NULL = Expression(ops.CONSTANT, (), None)
_ROW = Expression(ops.COUNT_ROWS, (), Window(Interval.FULL))


def future_operator(formula: Formula) -> Formula | None:
    """Return a subformula whose operator looks ahead, or None if there is none."""
    return next((node for node in postorder(formula) if node.operator.is_future), None)


def as_expression(formula: Formula, value_of: Callable[[str], Expression]) -> Expression:
    """Return the expression that is true where the formula holds, and false elsewhere.

    Args:
        formula: a formula without future operators, whose intervals are in time units.
        value_of: returns an expression that is true where an atom holds; it can be null elsewhere.
    """
    found: dict[int, Expression] = {}
    for node in postorder(formula):
        operands = [found[id(operand)] for operand in node.operands]
        if node.operator is temporal.ATOM:
            assert node.name is not None
            found[id(node)] = Expression(ops.COALESCE, (value_of(node.name), _FALSE))
        elif node.operator.is_temporal:
            assert node.interval is not None
            found[id(node)] = _TEMPORAL[node.operator](node.interval, *operands)
        else:
            found[id(node)] = _LOGICAL[node.operator](*operands)
    return found[id(formula)]


def _not(value: Expression) -> Expression:
    return Expression(ops.NOT, (value,))


def _and(left: Expression, right: Expression) -> Expression:
    return Expression(ops.AND, (left, right))


def _or(left: Expression, right: Expression) -> Expression:
    return Expression(ops.OR, (left, right))


def _implies(left: Expression, right: Expression) -> Expression:
    return _or(_not(left), right)


def _iff(left: Expression, right: Expression) -> Expression:
    return Expression(ops.EQUAL, (left, right))


def _once(interval: Interval, value: Expression) -> Expression:
    return Expression(ops.WINDOW_ANY, (value,), Window(interval))


def _historically(interval: Interval, value: Expression) -> Expression:
    return Expression(ops.WINDOW_ALL, (value,), Window(interval))


def _rows_within(limit: int) -> Expression:
    return Expression(ops.COUNT_ROWS, (), Window(Interval(0, limit)))


def _previous(interval: Interval, value: Expression) -> Expression:
    held = Expression(ops.LAST, (value,), Offset(1, False))
    if interval.upper is not None:
        two = Expression(ops.CONSTANT, (), 2)
        is_near = Expression(ops.GREATER_EQUAL, (_rows_within(interval.upper), two))
        held = _and(held, is_near)
    if interval.lower:
        two = Expression(ops.CONSTANT, (), 2)
        is_far = Expression(ops.LESS, (_rows_within(interval.lower - 1), two))
        held = _and(held, is_far)
    return held


def _since(interval: Interval, left: Expression, right: Expression) -> Expression:
    witness = Expression(ops.IF, (right, _ROW, _NULL))
    last_witness = Expression(ops.WINDOW_MAX, (witness,), Window(interval))
    gap = Expression(ops.IF, (left, _NULL, _ROW))
    last_gap = Expression(ops.HOLD, (gap,), Offset(0, 0))
    is_unbroken = Expression(ops.GREATER_EQUAL, (last_witness, last_gap))
    return Expression(ops.COALESCE, (is_unbroken, _FALSE))


def _trigger(interval: Interval, left: Expression, right: Expression) -> Expression:
    return _not(_since(interval, _not(left), _not(right)))


_LOGICAL: dict[temporal.Operator, Callable[..., Expression]] = {
    temporal.TRUE: lambda: _TRUE,
    temporal.FALSE: lambda: _FALSE,
    temporal.NOT: _not,
    temporal.AND: _and,
    temporal.OR: _or,
    temporal.IMPLIES: _implies,
    temporal.IFF: _iff,
}
_TEMPORAL: dict[temporal.Operator, Callable[..., Expression]] = {
    temporal.ONCE: _once,
    temporal.HISTORICALLY: _historically,
    temporal.PREVIOUS: _previous,
    temporal.SINCE: _since,
    temporal.TRIGGER: _trigger,
}
