"""How often the left sides of policies with variables were matched, as an engine counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from mtlmon.relational.closed import looks_ahead_without_bound
from mtlmon.relational.preparation import left_sides
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from mtlmon.policy import Policy
    from mtlmon.relational.analysis import Analysis
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.slicing.engine import Engine

__all__ = [
    "Counting",
    "Matched",
    "Unmatched",
    "is_violated",
    "matched_by_policy",
    "uncounted",
    "unmatched",
]


class Counting(Protocol):
    """Counts how often left sides are matched: an engine, or several in turn."""

    @property
    def plan(self) -> Plan: ...
    @property
    def counted_valuations(self) -> dict[int, tuple[int, int]]: ...


class Matched(NamedTuple):
    """How many valuations have matched the left side of a policy.

    Attributes:
        times: how many, each counted at every time-point; time-points if there are no variables.
        violated: how many valuations have violated the policy.
        is_own: whether only those that have matched can violate the policy.
        has_variables: whether the left side has variables.
    """

    times: int
    violated: int
    is_own: bool
    has_variables: bool

    @property
    def share(self) -> float | None:
        """The share of them that violates the policy, from 0 to 1; None if that says nothing."""
        return self.violated / self.times if self.is_own and self.times else None


def matched_by_policy(engine: Counting) -> dict[int, Matched]:
    """Return what is counted of each policy, by its number."""
    counts = engine.counted_valuations
    return {
        one.policy: Matched(*counts[one.policy], one.is_own, one.has_variables)
        for one in engine.plan.counted
    }


class Unmatched(NamedTuple):
    """A policy whose left side no valuation has matched.

    Attributes:
        number: its number.
        policy: the policy.
        left: its left side as text.
    """

    number: int
    policy: Policy
    left: str


def unmatched(analysis: Analysis, engine: Engine) -> list[Unmatched]:
    """Return the policies whose left side is counted, but was never matched."""
    matched = matched_by_policy(engine)
    return [
        Unmatched(one.policy, analysis.policies[one.policy].policy, one.written)
        for one in left_sides(analysis)
        if one.policy in matched and not matched[one.policy].times
    ]


def is_violated(policy: Policy, found: int, answered: int, matched: Matched | None) -> bool:
    """Whether a policy is violated more often than it may be.

    A share is one of the valuations that match the left side of an implication, if these are
    counted and only they can violate it; else of all time-points.

    Args:
        policy: the policy.
        found: the number of time-points that violate it.
        answered: the number of time-points that are decided.
        matched: how many valuations match its left side, if that is counted.
    """
    if policy.tolerance is not None and matched is not None and matched.is_own:
        return not policy.allows(matched.violated, matched.times)
    return not policy.allows(found, answered)


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
