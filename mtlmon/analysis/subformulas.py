"""Counts over the subformulas of a formula."""

from __future__ import annotations

from mtlmon.analysis.desugar import desugar
from mtlmon.syntax import operators as ops
from mtlmon.syntax.traversal import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.interval import Interval


def subformula_count(formula: Formula) -> int:
    """Return the number of distinct subformulas, including the formula; nothing is desugared."""
    return len(number(formula)[0])


def skewed_count(formula: Formula) -> int:
    """Return the number of distinct interval-skewed subformulas of the desugared formula.

    These are the subformulas, and for each `f SINCE[I] g` and `f UNTIL[I] g` among them also
    `f SINCE[I-n] g` and `f UNTIL[I-n] g` for every n up to the largest constant of I, where I-n is
    {x-n | x in I, x >= n}. Equal ones count once (Basin, Bhatt, Traytel: Almost event-rate
    independent monitoring of metric temporal logic, TACAS 2017). The running time does not depend
    on the size of the bounds.
    """
    kernel, number_of = number(desugar(formula))
    count = 0
    intervals: dict[tuple[object, ...], list[Interval]] = {}
    for node in kernel:
        if node.interval is not None and node.operator in (ops.SINCE, ops.UNTIL):
            left, right = node.operands
            operands = (node.operator, number_of[id(left)], number_of[id(right)])
            intervals.setdefault(operands, []).append(node.interval)
        else:
            count += 1
    return count + sum(map(_skewings, intervals.values()))


def _skewings(intervals: Iterable[Interval]) -> int:
    """The number of distinct intervals that result from skewing the given ones.

    Skewing first moves a window [a,b] down to the lower bound 0, keeping its width b-a, and then
    shrinks it to [0,0]. So windows of one width have the lower bounds 1 to the largest a, and
    windows with the lower bound 0 have all widths up to the largest. A window without upper bound
    only moves down to [0,*).
    """
    farthest: dict[int | None, int] = {}
    for interval in intervals:
        width = None if interval.upper is None else interval.upper - interval.lower
        farthest[width] = max(farthest.get(width, 0), interval.lower)
    finite = [width for width in farthest if width is not None]
    count = sum(farthest.values())
    if finite:
        count += max(finite) + 1
    if None in farthest:
        count += 1
    return count
