"""The clause `for D`: what fails for a shorter time is no violation."""

from __future__ import annotations

from mtlmon.syntax import operators as ops
from mtlmon.syntax.bounds import make_interval
from mtlmon.syntax.formula import TRUE, Formula
from mtlmon.syntax.rewrite import with_operands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.syntax.durations import Duration
    from mtlmon.syntax.operators import Operator


def lasting(formula: Formula, length: int | Duration) -> Formula:
    """Return the formula that fails where another one has failed for some time.

    It fails at a time-point t if the other one fails at all time-points from t - length to t, and
    one is at or before t - length. With variables, that is so for each of their values.

    >>> from mtlmon import parse
    >>> print(lasting(parse("up"), 5))
    (ONCE[0,5] up) OR NOT ONCE[5,*) true
    """
    if formula.operator is ops.FORALL:
        return with_operands(formula, (lasting(formula.operands[0], length),))
    span = None if formula.span is None else formula.span.made()
    window = make_interval(0, length)

    def made(operator: Operator, *operands: Formula) -> Formula:
        interval = window if operator in (ops.ONCE, ops.HISTORICALLY) else None
        return Formula(operator, operands, interval, None, span)

    begun = Formula(ops.ONCE, (TRUE,), make_interval(length, None), None, span)
    if not formula.is_first_order:
        return made(ops.OR, made(ops.ONCE, formula), made(ops.NOT, begun))
    # what fails now says which values the variables take
    fails = made(ops.NOT, formula)
    lasts = made(ops.AND, made(ops.AND, fails, made(ops.HISTORICALLY, fails)), begun)
    return made(ops.NOT, lasts)
