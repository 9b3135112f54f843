"""How many time-points of a policy are true, false or undecided."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PolicyCounts", "Triggered"]


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
