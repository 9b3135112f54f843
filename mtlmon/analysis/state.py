"""An upper bound on the size of a monitor's state.

The bound counts what can be live at the same time in the worst log. Let b be the upper and a the
lower bound of an operator's interval. Time-stamps are integers, so at most b + 1 of them fit into
a window of length b.

- An UNTIL has at most one obligation for each distinct time-stamp of the last b time units: b + 1.
  Without upper bound, all obligations whose interval has begun are the same: a + 1. A NEXT has
  one obligation.
- A SINCE remembers at most one value for each distinct time-stamp of the last b time units: b + 1.
  Without upper bound, all values of age a or more are the same: a + 1. A PREVIOUS remembers one.
- Pending time-points of one time-stamp are kept separately only if they are different functions of
  the obligations they depend on, and n obligations have 2^(2^n) - 2 functions that are not
  constant. A time-point depends on one obligation for each UNTIL and NEXT, all of its own
  time-stamp. If a past operator contains a future one, it can depend on all obligations.
  Functions that are equal stay equal as time passes.
- If the formula is unbounded, time-points of all time-stamps are compared, and n is the number of
  all obligations.
"""

from __future__ import annotations

from mtlmon.analysis.desugar import desugar
from mtlmon.syntax import operators as ops
from mtlmon.syntax.traversal import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.interval import Interval

_FEW_CHOICES = 4


class StateBound:
    """Upper bounds on the parts of the state; the module's docstring says how they are found.

    Attributes:
        witnesses: the number of values that SINCE and PREVIOUS remember.
        obligations: the number of obligations that UNTIL and NEXT wait for.
        choices: the number of obligations that pending entries can be functions of.
        is_bounded: whether the formula is bounded, so that `entries` is per distinct time-stamp.
        entries: the number of pending entries, per distinct time-stamp if `is_bounded` and in all
            otherwise; None if it is about 2^(2^choices) and too large to compute.
    """

    __slots__ = ("choices", "entries", "is_bounded", "obligations", "witnesses")

    def __init__(self, witnesses: int, obligations: int, choices: int, is_bounded: bool) -> None:
        self.witnesses = witnesses
        self.obligations = obligations
        self.choices = choices
        self.is_bounded = is_bounded
        self.entries = 2 ** (2**choices) - 2 if choices <= _FEW_CHOICES else None


def state_bound(formula: Formula) -> StateBound:
    """Return the bound for the modes local and global.

    There is no such bound for the mode naive, which keeps every time-point separately.
    """
    kernel, number_of = number(desugar(formula))
    witnesses = obligations = futures = 0
    looks_ahead: list[bool] = []
    past_over_future = False
    for node in kernel:
        operator, interval = node.operator, node.interval
        below = any(looks_ahead[number_of[id(operand)]] for operand in node.operands)
        looks_ahead.append(below or operator.is_future)
        if interval is None:
            continue
        is_step = operator in (ops.PREVIOUS, ops.NEXT)
        live = 1 if is_step else _time_stamps(interval)
        if operator.is_past:
            witnesses += live
            past_over_future |= below
        else:
            obligations += live
            futures += 1
    bounded = formula.is_bounded
    choices = futures if bounded and not past_over_future else obligations
    return StateBound(witnesses, obligations, choices, bounded)


def _time_stamps(interval: Interval) -> int:
    """How many distinct time-stamps an operator with this interval distinguishes at most."""
    return 1 + (interval.lower if interval.upper is None else interval.upper)
