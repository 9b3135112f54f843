"""Cuts one long trace into ranges of time, which are monitored independently.

The verdicts are the same as those of a single monitor.

A range reads the trace as far beyond its own ends as its formula looks (`needs`). Operators without
upper bound are masked (`masks`): at a boundary, atoms of their own tell them what they would have
found beyond it, one Boolean for each operator (`carries`). Passes over the ranges compute these
Booleans, one pass for each level of nesting of such operators, beginning with the innermost. The
last pass gives the verdicts (`passes`). The caller decides how ranges get their events and where
they are processed; here, a pass is a function of the number of a range and its events.

Why the verdicts are those of a single monitor: by induction over the levels, every subformula has
the same value in a range as in the whole trace wherever the range needs it (`needs`, `masks`). So
the formula itself has the right value within the range. What is undecided at the end of the trace
depends on how monitors combine the remaining obligations. Therefore all ranges that depend on these
are joined into one, the last, which ends where the trace does. Only an UNTIL without upper bound
carries obligations further back: its value at the boundary is then a variable, which stays open in
the earlier ranges. If several are open, `DependencePass` checks that all combinations of their
values are possible. Then a function of these variables that is not constant is not constant as a
function of the remaining obligations either, so a monitor of the whole trace leaves the same
time-points undecided. If some combination is impossible, the trace is not cut.
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
"""A pass that computes findings rather than verdicts."""

# The number of open families up to which independence is checked; each one doubles the monitors.
_MOST_OPEN = 4


def verdict_passes(
    plans: Sequence[Plan],
    run: Callable[[Sequence[SeekingPass]], Sequence[Sequence[Finding]]],
) -> list[VerdictPass]:
    """Prepare the passes that give the verdicts of some policies.

    Args:
        plans: the plan of each policy.
        run: processes the ranges with several passes at once, and returns the findings of each.

    Returns:
        A pass for each plan. Where ranges cannot give the verdicts of a single monitor, the pass
        has another plan, with the trace in one piece.
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
    """The plans with several open families at the end that are not known to be independent."""
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
