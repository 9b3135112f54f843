"""How often policies are judged, triggered and violated, and how often they may be violated."""

from __future__ import annotations

from mtlmon.support.lean_typing import NamedTuple
from mtlmon.syntax.report import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtlmon.policy.definitions import Policy
    from mtlmon.syntax.formula import Formula

__all__ = [
    "PolicyCounts",
    "Tally",
    "Triggered",
    "limit_line",
    "never_triggered",
    "policy_name",
    "tallies_of",
]


class PolicyCounts(NamedTuple):
    """The counts of one policy, including equivalents.

    With variables, a time-point is false if some values violate the policy there. It is true for a
    `find` if some values fulfil it.

    Attributes:
        events: the number of time-points.
        true: time-points that were decided to be true.
        false: time-points that were decided to be false.
    """

    events: int
    true: int
    false: int

    @property
    def undecided(self) -> int:
        """The number of time-points that have no verdict."""
        return self.events - self.true - self.false


class Triggered(NamedTuple):
    """How often the left side of an implication held.

    Attributes:
        times: at how many time-points; if it has variables, how many valuations have matched it,
            each counted at every time-point.
        violated: how many time-points, or valuations, have violated the policy.
        is_own: whether only those that have matched can violate the policy; otherwise operators
            such as ALWAYS are around the implication.
        has_variables: for a policy with variables, whether the left side has some; else None.
        left: the left side.
    """

    times: int
    violated: int
    is_own: bool
    has_variables: bool | None
    left: Formula | str

    @property
    def share(self) -> float | None:
        """The share of them that violates the policy, from 0 to 1; None if that says nothing."""
        return self.violated / self.times if self.is_own and self.times else None

    def words(self, policy: Policy, open_count: int, *, has_failed: bool) -> str:
        """Say how often the left side held, and how often its policy is violated."""
        if not self.times:
            return f"warning: {policy_name(policy)} was never triggered, so nothing was checked"
        remark = share_remark(self.share, policy, has_failed=has_failed)
        held, still_open = f"{self.times:,}", f", {open_count:,} open"
        if self.has_variables is not None:
            noun = "valuation" if self.has_variables else "time-point"
            held, still_open = f"{held} {noun}{'' if self.times == 1 else 's'}", ""
        name = visible(policy.name or "formula")
        return f"{name}: {held} triggered, {self.violated:,} violated{remark}{still_open}"


class Tally(NamedTuple):
    """What is counted of a policy.

    Attributes:
        policy: the policy.
        counts: its time-points.
        triggered: how often its left side held; None if it has none, or that is not counted.
        total: how many time-points a share of violations is of.
    """

    policy: Policy
    counts: PolicyCounts
    triggered: Triggered | None
    total: int

    @property
    def share_of(self) -> tuple[int, int]:
        """How many violations a share is of, and of how many.

        If the policy is an implication whose left side is counted, these are the time-points, or
        valuations, at which the left side held.
        """
        if self.triggered is not None and self.triggered.is_own:
            return self.triggered.violated, self.triggered.times
        return self.counts.false, self.total

    @property
    def has_failed(self) -> bool:
        """Whether the policy is violated more often than it may be."""
        policy = self.policy
        of_all = self.counts.false, self.total
        found = of_all if policy.tolerance is None else self.share_of
        return not policy.is_find and not policy.allows(*found)

    @property
    def is_untriggered(self) -> bool:
        """Whether the left side is known to have held nowhere."""
        return self.triggered is not None and not self.triggered.times

    @property
    def line(self) -> str | None:
        """How often the left side held, and whether a limit is kept; None if there is neither."""
        if self.triggered is not None:
            open_count = self.counts.undecided
            return self.triggered.words(self.policy, open_count, has_failed=self.has_failed)
        if self.policy.has_tolerance:
            false, total = self.counts.false, self.total
            return limit_line(self.policy, false, total, has_failed=self.has_failed)
        return None


def tallies_of(
    policies: Sequence[Policy],
    counts: Sequence[PolicyCounts],
    triggered: Sequence[Triggered | None],
    *,
    of_decided: bool = False,
) -> list[Tally]:
    """Return what is counted of each policy.

    Args:
        policies: the policies.
        counts: the time-points of each.
        triggered: how often the left side of each held.
        of_decided: whether a share is one of the time-points that are decided; else, of all.
    """
    return [
        Tally(policy, one, left, one.true + one.false if of_decided else one.events)
        for policy, one, left in zip(policies, counts, triggered, strict=True)
    ]


def never_triggered(tallies: Iterable[Tally]) -> list[str]:
    """Return the names of the policies whose left side held nowhere, as they are written."""
    return [policy_name(one.policy) for one in tallies if one.is_untriggered]


def policy_name(policy: Policy) -> str:
    """Return the name of a policy for messages."""
    return "the formula" if policy.name is None else f"policy {visible(policy.name)}"


def limit_line(policy: Policy, violated: int, total: int, *, has_failed: bool) -> str:
    """Say how often a policy is violated.

    Args:
        policy: the policy.
        violated: how often it is violated.
        total: of how many times.
        has_failed: whether that is more often than it may be.
    """
    share = violated / total if total else None
    remark = share_remark(share, policy, has_failed=has_failed)
    return f"{visible(policy.name or 'formula')}: {violated:,} of {total:,} violated{remark}"


def share_remark(share: float | None, policy: Policy, *, has_failed: bool) -> str:
    """Say how often a policy is violated and may be, behind a space; nothing if neither is known.

    Args:
        share: the share of violations, between 0 and 1; None if it is not one that counts.
        policy: the policy.
        has_failed: whether it is violated more often than it may be.
    """
    remarks = [] if share is None else [f"{100 * share:.1f}%"]
    if policy.has_tolerance:
        remarks.append(f"{policy.tolerance_text}{': too many' if has_failed else ''}")
    return f" ({', '.join(remarks)})" if remarks else ""
