"""What the checks need to know of a formula, defined again and simply."""

from __future__ import annotations

from functools import cache

from mtlmon import Formula
from tests.doors import syntax_operators as ops

_FOREVER = float("inf")


def latest_decision(formula: Formula) -> int | None:
    """After how many time units every time-point has its verdict; None: no limit.

    This is the future reach with one difference: no subformula's reach counts as less than 0. The
    verdict of `(PREVIOUS[3,3] p) UNTIL[0,5] (PREVIOUS[3,3] q)` depends on nothing more than 2 time
    units ahead, yet only the end of the UNTIL's interval tells that no witness comes any more.
    """
    reach = _reach(formula)
    return None if reach == _FOREVER else int(reach)


@cache
def _reach(formula: Formula) -> float:
    operands = [_reach(operand) for operand in formula.operands]
    if formula.interval is None:
        return max(operands, default=0)
    lower, upper = formula.interval.lower, formula.interval.upper
    if formula.operator.is_future:
        return (_FOREVER if upper is None else upper) + max(operands)
    *left, last = operands
    return max(0, *left, last - lower)


@cache
def is_bounded(formula: Formula) -> bool:
    """Whether every future operator but NEXT has an upper bound."""
    waits = formula.operator.is_future and formula.operator is not ops.NEXT
    own = not waits or (formula.interval is not None and formula.interval.upper is not None)
    return own and all(is_bounded(operand) for operand in formula.operands)


@cache
def atoms_of(formula: Formula) -> frozenset[str]:
    """The names of the atoms."""
    own = [formula.name] if formula.name is not None else []
    return frozenset(own).union(*(atoms_of(operand) for operand in formula.operands))
