"""One long trace cut into ranges of time that are monitored apart: the verdicts of one monitor.

A range reads as much of the trace beyond its ends as its formula looks there (`needs`). Operators
that look as far as the stream goes are masked (`masks`): at a boundary they are told by atoms of
their own what they would have found beyond it, one Boolean each (`carries`). Passes over the ranges
find these out, one pass for each level of nesting of such operators, the innermost first, and then
give the verdicts (`passes`). How ranges get their events, and where they are worked on, is for
others to say; here a pass is a function of the number of a range and its events.

Why the verdicts are those of one monitor: by induction over the levels, in each range every
subformula has its value of the whole trace wherever the range needs it (`needs`, `masks`), and so
has the formula within the range. What is undecided at the end of the trace depends on how monitors
combine the obligations that are left; all ranges that these can reach are therefore one, the last,
which ends as the trace does. Only an UNTIL without upper bound carries them further back: its value
at the boundary is then a variable, that is left open in the ranges before. If several are open, it
is made sure that all their combinations are possible (`DependencePass`): then a function of them
that is not constant as a function of variables is not constant as one of what is left at the end
either, and a monitor of the whole trace leaves undecided just the same. If not, the trace is not
cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.cutting.carries import OPEN, compose
from mtlmon.cutting.passes import DependencePass, LevelPass, VerdictPass
from mtlmon.cutting.plan import Plan, make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtlmon.cutting.carries import Carries, Finding

__all__ = ["DependencePass", "LevelPass", "Plan", "VerdictPass", "make_plan", "verdict_pass"]

# Families whose independence is looked into; each one more doubles the monitors that do so.
_MOST_OPEN = 4


def verdict_pass(
    plan: Plan, run: Callable[[LevelPass | DependencePass], Iterable[Finding]]
) -> VerdictPass:
    """The pass that gives the verdicts.

    Args:
        plan: the ranges.
        run: calls a pass for every range, and returns what all of them have found.

    Returns:
        The pass; its plan is another one, the trace in one piece, where ranges cannot give the
        verdicts of one monitor.
    """
    findings: list[Finding] = []
    carries: Carries = {}
    for level in range(plan.levels):
        findings += run(LevelPass(plan, level, carries))
        carries = compose(plan, findings)
    is_open = [number for number, values in carries.items() if (values == OPEN).any()]
    if len(is_open) > 1 and (
        len(is_open) > _MOST_OPEN or list(run(DependencePass(plan, carries, is_open)))
    ):
        return VerdictPass(plan.whole(), {})
    return VerdictPass(plan, carries)
