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

from typing import TYPE_CHECKING, TypeAlias

from mtlmon.cutting.carries import OPEN, compose
from mtlmon.cutting.passes import DependencePass, LevelPass, VerdictPass
from mtlmon.cutting.plan import Plan, make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtlmon.cutting.carries import Carries, Finding

__all__ = [
    "DependencePass",
    "LevelPass",
    "Plan",
    "SeekingPass",
    "VerdictPass",
    "make_plan",
    "verdict_passes",
]

SeekingPass: TypeAlias = LevelPass | DependencePass
"""A pass that finds something out."""

# Families whose independence is looked into; each one more doubles the monitors that do so.
_MOST_OPEN = 4


def verdict_passes(
    plans: Sequence[Plan],
    run: Callable[[Sequence[SeekingPass]], Sequence[Sequence[Finding]]],
) -> list[VerdictPass]:
    """The passes that give the verdicts of some policies.

    Args:
        plans: of each policy.
        run: goes over the ranges with several passes at once, and returns what each has found.

    Returns:
        A pass for each plan. Its plan is another one, the trace in one piece, where ranges cannot
        give the verdicts of one monitor.
    """
    findings: list[list[Finding]] = [[] for _ in plans]
    carries: list[Carries] = [{} for _ in plans]
    for level in range(max((plan.levels for plan in plans), default=0)):
        numbers = [number for number, plan in enumerate(plans) if level < plan.levels]
        found = run([LevelPass(plans[number], level, carries[number]) for number in numbers])
        for number, more in zip(numbers, found, strict=True):
            findings[number] += more
            carries[number] = compose(plans[number], findings[number])
    dependent = _dependent(plans, carries, run)
    return [
        VerdictPass(plan.whole(), {}) if number in dependent else VerdictPass(plan, carries[number])
        for number, plan in enumerate(plans)
    ]


def _dependent(
    plans: Sequence[Plan],
    carries: Sequence[Carries],
    run: Callable[[Sequence[SeekingPass]], Sequence[Sequence[Finding]]],
) -> set[int]:
    """The plans with families that are open at the end and cannot be told apart by variables."""
    open_families = [
        [family for family, values in one.items() if (values == OPEN).any()] for one in carries
    ]
    dependent = {
        number for number, families in enumerate(open_families) if len(families) > _MOST_OPEN
    }
    doubtful = [
        number for number, families in enumerate(open_families) if 1 < len(families) <= _MOST_OPEN
    ]
    if doubtful:
        found = run(
            [DependencePass(plans[one], carries[one], open_families[one]) for one in doubtful]
        )
        dependent.update(
            number for number, impossible in zip(doubtful, found, strict=True) if impossible
        )
    return dependent
