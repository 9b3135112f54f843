"""How often a policy may be violated that says `at most 20%`, and how often it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.errors import ViolationError

if TYPE_CHECKING:
    from mtlmon.policy import Policy
    from mtlmon.testing.recordings import Recordings
    from mtlmon.testing.vacuity import LeftSide

__all__ = ["Limit", "exceeded"]


class Limit:
    """How often a policy may be violated, counted as the command does: over all keys.

    Args:
        recordings: the recordings of the policy.
        left: what monitors the left side of an implication, if anything does.
    """

    def __init__(self, recordings: Recordings, left: LeftSide | None) -> None:
        self._recordings = recordings
        self._left = left
        policy = recordings.subject.policy
        self._policy: Policy | None = None
        if policy is not None and policy.has_tolerance:
            self._policy = policy

    @property
    def is_exceeded_for_good(self) -> bool:
        """Whether the policy is violated too often, whatever follows, if it is violated now.

        Later events can make a share smaller, so only the end decides about it.
        """
        policy = self._policy
        if policy is None:
            return True
        return policy.most is not None and self._false > policy.most

    def judge(self, violation: ViolationError | None) -> ViolationError | None:
        """Return the failure that violations are: None if the policy may be violated so often.

        Args:
            violation: the report of the first violation, or None.
        """
        policy = self._policy
        if violation is None or policy is None:
            return violation
        violated, total = self._false, self._recordings.event_count
        if policy.tolerance is not None and self._left is not None:
            violated, total = self._left.share_of(violated, total)
        if policy.allows(violated, total):
            return None
        return exceeded(policy, violated, total, violation)

    @property
    def _false(self) -> int:
        return sum(one.counts[1] for one in self._recordings)


def exceeded(
    policy: Policy, violated: int, total: int, violation: ViolationError
) -> ViolationError:
    """Return the failure of a policy that is violated more often than it may be.

    Args:
        policy: the policy.
        violated: how often it is violated.
        total: of how many times.
        violation: the report of the first violation.
    """
    # words of policies are loaded for failures only
    from mtlmon.policy.limits import limit_line

    words = limit_line(policy, violated, total, has_failed=True)
    return ViolationError(
        f"{words}; the first one known:\n\n{violation}",
        formula=violation.formula,
        time_point=violation.time_point,
        key=violation.key,
    )
