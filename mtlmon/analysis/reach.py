"""How far in time a verdict depends on the stream.

All reaches follow one scheme: an operator that looks the way of the reach adds its upper bound, one
that looks the other way takes off its lower bound. With FR for future reach, b for the upper and a
for the lower bound:

- an atom or constant 0, a Boolean operator the maximum of its operands;
- NEXT[a,b] f: b + FR(f); f UNTIL[a,b] g: b + max(FR(f), FR(g));
- PREVIOUS[a,b] f: FR(f) - a; f SINCE[a,b] g: max(FR(f), FR(g) - a).

Derived operators are taken by their definitions. Reaches may exceed the largest time-stamp.

The reach of a subformula may be negative: what it looks at is over by then. But whether there is a
time-point to look from shows only at that time-point: `(PREVIOUS[3,3] p) UNTIL[0,5] (PREVIOUS[3,3]
q)` has the future reach 2, yet an event 3 time units ahead can make it true at last. So
`decision_delay` and `past_reach` count no subformula's reach as less than 0.
"""

from __future__ import annotations

from mtlmon.analysis.desugar import desugar
from mtlmon.syntax import operators as ops
from mtlmon.syntax.traversal import postorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.syntax.formula import Formula


def future_reach(formula: Formula) -> int | None:
    """The future reach as the literature defines it, in time units; None if there is no limit.

    At least 0. A NEXT without upper bound has no limit: the next event may be any time away.
    """
    return _reach(formula, forwards=True, may_be_negative=True)


def decision_delay(formula: Formula) -> int | None:
    """How long after a time-point its verdict may depend on the stream; None: without limit.

    In time units. Events later than that do not change the verdict, whatever they are.
    """
    return _reach(formula, forwards=True, may_be_negative=False)


def past_reach(formula: Formula) -> int | None:
    """How long before a time-point its verdict may depend on the stream; None: without limit.

    In time units. Events earlier than that do not change the verdict, whatever they are.
    """
    return _reach(formula, forwards=False, may_be_negative=False)


def is_bounded(formula: Formula) -> bool:
    """Whether every future operator but NEXT has an upper bound.

    NEXT waits for one event whatever its interval, and does not make a formula unbounded.
    """
    return not any(
        node.operator.is_future
        and node.operator is not ops.NEXT
        and node.interval is not None
        and not node.interval.is_bounded
        for node in postorder(formula)
    )


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
    # The last operand holds at a distance of at least the lower bound, the other one between.
    return _maximum([*operands[:-1], _sum(operands[-1], -interval.lower)])


def _maximum(reaches: list[int | None]) -> int | None:
    finite = [reach for reach in reaches if reach is not None]
    return max(finite) if len(finite) == len(reaches) else None


def _sum(reach: int | None, bound: int | None) -> int | None:
    return None if reach is None or bound is None else reach + bound
