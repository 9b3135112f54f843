"""Count how often the left sides of implications hold, by hidden policies.

For `p IMPLIES q`, a check can have a *companion*, the policy `p` with the same key and time-points.
Companions come after the policies, and the driver monitors them like policies, but keeps none of
their verdicts. There are none unless a summary, a report, a tolerance or `--fail-on-vacuous` asks
for them, and none with checkpoints for a summary alone: snapshots would then depend on whether
there is a terminal.
"""

from __future__ import annotations

from mtlmon.analysis.antecedent import antecedent_of
from mtlmon.policy import Policy
from mtlmon.policy.limits import Triggered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy.limits import PolicyCounts

__all__ = ["Companions"]


class Companions:
    """The hidden policies that count for others how often their left sides hold.

    A companion has the key and the time-points of its policy. Policies with the same left side
    share a companion if they have the same key and are on all rows.

    Args:
        policies: the policies to count for; those that are no implications have no companion.

    Attributes:
        policies: the companions.
        owners: for each companion, the number of the first policy that it counts for.
        numbers: for each policy, the number of its companion, or None.
        are_own: for each policy, whether it itself is the implication.
    """

    def __init__(self, policies: Sequence[Policy]) -> None:
        self.policies: list[Policy] = []
        self.owners: list[int] = []
        self.numbers: list[int | None] = []
        self.are_own: list[bool] = []
        known: dict[object, int] = {}
        for owner, policy in enumerate(policies):
            antecedent = antecedent_of(policy.formula)
            self.are_own.append(antecedent is not None and antecedent.is_own)
            if antecedent is None:
                self.numbers.append(None)
                continue
            left = antecedent.formula
            number = known.setdefault((left, policy.key, policy.clock), len(self.policies))
            self.numbers.append(number)
            if number == len(self.policies):
                self.policies.append(Policy(None, left, left, policy.key, clock=policy.clock))
                self.owners.append(owner)

    def triggered(
        self, counts: Sequence[int], policies: Sequence[PolicyCounts]
    ) -> list[Triggered | None]:
        """Return for each policy how often its left side held.

        Args:
            counts: how often each companion is true.
            policies: the counts of the policies.
        """
        return [
            None
            if number is None
            else Triggered(counts[number], one.false, is_own, None, self.policies[number].formula)
            for number, is_own, one in zip(self.numbers, self.are_own, policies, strict=True)
        ]
