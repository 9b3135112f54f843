"""How far in time a verdict depends on the stream.

All reaches are computed in the same way: an operator that looks in the direction of the reach adds
its upper bound, and an operator that looks the other way subtracts its lower bound. The future
reach FR, with the upper bound b and the lower bound a, is:

- 0 for atoms and constants, and the maximum over the operands for Boolean operators;
- NEXT[a,b] f: b + FR(f); f UNTIL[a,b] g: b + max(FR(f), FR(g));
- PREVIOUS[a,b] f: FR(f) - a; f SINCE[a,b] g: max(FR(f), FR(g) - a).

Derived operators are replaced by their definitions. A reach can exceed the largest time-stamp.

The reach of a subformula is negative if all that it looks at lies in the past. But whether there
is a time-point to look from is known only at that time-point: `(PREVIOUS[3,3] p) UNTIL[0,5]
(PREVIOUS[3,3] q)` has the future reach 2, yet an event 3 time units ahead can still make it true.
So `decision_delay` and `past_reach` replace a negative reach of a subformula by 0.
"""

from __future__ import annotations

from mtlmon.analysis.desugar import desugar
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.syntax.formula import Formula


def future_reach(formula: Formula) -> int | None:
    """Return the future reach as the literature defines it.

    Returns:
        The reach in time units, at least 0, or None if there is no limit. A NEXT without upper
        bound has no limit, as the next event may come at any time.
    """
    return _reach(formula, forwards=True, may_be_negative=True)


def decision_delay(formula: Formula) -> int | None:
    """Return for how long after a time-point its verdict depends on the stream.

    Returns:
        The time in time units, or None if there is no limit. Later events cannot change the
        verdict.
    """
    # most policies of a large file look back only
    return _reach(formula, forwards=True, may_be_negative=False) if formula.looks_ahead else 0


def past_reach(formula: Formula) -> int | None:
    """Return for how long before a time-point its verdict depends on the stream.

    Returns:
        The time in time units, or None if there is no limit. Earlier events cannot change the
        verdict.
    """
    return _reach(formula, forwards=False, may_be_negative=False)


def _reach(formula: Formula, *, forwards: bool, may_be_negative: bool) -> int | None:
    kernel = desugar(formula)
    reach_of: dict[int, int | None] = {}
    for node in postorder(kernel):
        operands = [reach_of[id(operand)] for operand in node.operands]
        reach = _step(node, operands, forwards)
        if reach is not None and (node is kernel or not may_be_negative):
            reach = max(0, reach)
        reach_of[id(node)] = reach
    return reach_of[id(kernel)]


def _step(node: Formula, operands: list[int | None], forwards: bool) -> int | None:
    operator, interval = node.operator, node.interval
    if not operands:
        return 0
    if interval is None:
        return _maximum(operands)
    if operator.is_future is forwards:
        return _sum(_maximum(operands), interval.upper)
    # The last operand holds at least the lower bound away; the other one holds from there on.
    return _maximum([*operands[:-1], _sum(operands[-1], -interval.lower)])


def _maximum(reaches: list[int | None]) -> int | None:
    finite = [reach for reach in reaches if reach is not None]
    return max(finite) if len(finite) == len(reaches) else None


def _sum(reach: int | None, bound: int | None) -> int | None:
    return None if reach is None or bound is None else reach + bound
