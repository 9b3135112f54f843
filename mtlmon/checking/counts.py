"""How many time-points of a policy are true, false or undecided."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.relational.running import RelationalRun

__all__ = ["PolicyCounts", "Triggered", "counts_of"]


class PolicyCounts(NamedTuple):
    """The counts of one policy, including equivalents.

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
        times: at how many time-points.
        is_own: whether the policy itself is the implication, so that only these time-points can
            violate it; otherwise operators such as ALWAYS are around the implication.
    """

    times: int
    is_own: bool


def counts_of(run: RelationalRun) -> dict[str | None, PolicyCounts]:
    """Return the counts of policies with variables, by the name of the policy.

    A time-point is false if some values violate the policy there. It is true for a `find` if some
    values fulfil it.
    """
    counts: dict[str | None, PolicyCounts] = {}
    policies = run.engine.plan.named_policies
    for one, answered, found in zip(policies, run.answered_points, run.found_points, strict=True):
        others = answered - found
        true, false = (found, others) if one.is_find else (others, found)
        counts[one.name] = PolicyCounts(run.point_count, true, false)
    return counts
