"""An upper estimate of what a monitor has to keep.

The estimate counts what may be live at once in the worst log. Let b be the upper and a the lower
bound of an operator's interval; time-stamps are integers, so b + 1 of them are at most b apart.

- Each UNTIL has at most one obligation per distinct time-stamp not more than b ago: b + 1. Without
  upper bound all whose interval has begun are one: a + 1. NEXT has one.
- Each SINCE remembers at most one value per distinct time-stamp not more than b ago: b + 1. Without
  upper bound all of age a and more are one: a + 1. PREVIOUS remembers one.
- Pending time-points of one time-stamp are kept apart only if they are different functions of the
  obligations they hang on, and n obligations have 2^(2^n) - 2 functions that are not constant. A
  time-point hangs on one obligation per UNTIL and NEXT, all of its own time-stamp. When a past
  operator looks at a future one, it may hang on those of other time-stamps as well: on all.
  Time that passes changes equal functions alike, so it never makes new differences.
- Without a bound on the future, time-points of all time-stamps are compared, and n is all.
"""

from __future__ import annotations

from mtlmon.analysis.desugar import desugar
from mtlmon.analysis.reach import is_bounded
from mtlmon.syntax import operators as ops
from mtlmon.syntax.traversal import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.interval import Interval

_FEW_CHOICES = 4


class StateBound:
    """Upper estimates; see the module's text for what they rest on.

    Attributes:
        witnesses: values that SINCE and PREVIOUS remember.
        obligations: what UNTIL and NEXT wait for.
        choices: the number of obligations that pending entries can be functions of.
        is_bounded: whether the formula is, and so entries are per distinct time-stamp.
        entries: pending entries per distinct time-stamp, or in all if unbounded; None if that is
            too large a number to say: 2^(2^choices).
    """

    __slots__ = ("choices", "entries", "is_bounded", "obligations", "witnesses")

    def __init__(self, witnesses: int, obligations: int, choices: int, is_bounded: bool) -> None:
        self.witnesses = witnesses
        self.obligations = obligations
        self.choices = choices
        self.is_bounded = is_bounded
        self.entries = 2 ** (2**choices) - 2 if choices <= _FEW_CHOICES else None


def state_bound(formula: Formula) -> StateBound:
    """The estimate for modes local and global; mode naive keeps every time-point apart."""
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
    bounded = is_bounded(formula)
    choices = futures if bounded and not past_over_future else obligations
    return StateBound(witnesses, obligations, choices, bounded)


def _time_stamps(interval: Interval) -> int:
    """The most distinct time-stamps that an operator with that interval tells apart."""
    return 1 + (interval.lower if interval.upper is None else interval.upper)
