"""How often the left side of an implication with variables holds, from the semantics.

Each valuation of the left side counts once at every time-point at which it satisfies it, whatever
the engine makes of the policy. Nothing here is shared with `mtlmon.analysis.antecedent`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.doors import free_variables, quantified
from tests.doors import syntax_operators as ops
from tests.reference.first_order import answers, violations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon import Formula
    from tests.reference.first_order import Log


class LeftSideCounts(NamedTuple):
    """The counts of a policy on a log.

    Attributes:
        times: how many valuations satisfy the left side, at all time-points together.
        violated: how many violate the policy.
        is_own: whether a valuation violates the policy only where it satisfies the left side.
    """

    times: int
    violated: int
    is_own: bool


def left_side_counts(
    policy: Formula, log: Log, types: Mapping[str, type] | None = None
) -> LeftSideCounts | None:
    """Count what the left side of a policy holds for; None if the policy is no implication.

    Args:
        policy: the policy, without lets.
        log: the log.
        types: the type of the values of each variable.
    """
    reported: set[str] = set()
    inner = policy
    while inner.operator is ops.FORALL:
        reported |= set(quantified(inner))
        inner = inner.operands[0]
    reported |= set(free_variables(inner)[id(inner)])
    is_own = inner.operator is ops.IMPLIES
    while inner.operator in (ops.ALWAYS, ops.HISTORICALLY, ops.FORALL):
        inner = inner.operands[0]
    if inner.operator is not ops.IMPLIES:
        return None
    left = inner.operands[0]
    is_own = is_own and set(free_variables(left)[id(left)]) == reported
    satisfied = answers(left, log, types=types)
    violated = violations(policy, log, types=types)
    return LeftSideCounts(
        sum(len(one.satisfying) for one in satisfied),
        sum(len(one.satisfying) for one in violated),
        is_own,
    )
