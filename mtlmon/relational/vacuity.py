"""How often the left sides of policies with variables were matched, as an engine counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mtlmon.policy.limits import Triggered
from mtlmon.relational.closed import looks_ahead_without_bound
from mtlmon.relational.preparation import left_sides
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from mtlmon.relational.analysis import Analysis
    from mtlmon.relational.plan import Plan

__all__ = [
    "Counting",
    "matched_by_policy",
    "uncounted",
]


class Counting(Protocol):
    """Counts how often left sides are matched: an engine, or several in turn."""

    @property
    def plan(self) -> Plan: ...
    @property
    def counted_valuations(self) -> dict[int, tuple[int, int]]: ...


def matched_by_policy(engine: Counting) -> dict[int, Triggered]:
    """Return how often the left side of each policy was matched, by its number."""
    counts = engine.counted_valuations
    return {
        one.policy: Triggered(*counts[one.policy], one.is_own, one.has_variables, one.written)
        for one in engine.plan.counted
    }


def uncounted(analysis: Analysis, made: Plan) -> str | None:
    """Say why the left side of a policy is not counted; None if all of them are.

    Args:
        analysis: what is known of the policies.
        made: their plan, which counts left sides.
    """
    counted = {one.policy for one in made.counted}
    for left in left_sides(analysis):
        if left.policy in counted:
            continue
        name = made.named_policies[left.policy].name
        policy = "the policy" if name is None else f"policy {visible(name)}"
        if looks_ahead_without_bound(left.formula):
            why = "it looks ahead without bound; give its operators bounds"
        else:
            why = "by itself, it does not bind its variables; add an atom that does"
        return f"cannot tell how often the left side of {policy} holds: {why}"
    return None
