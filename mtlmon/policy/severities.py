"""The words for how serious a violation is, in their order."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.policy.definitions import Policy

__all__ = ["SEVERITIES", "is_at_least"]

SEVERITIES = ("info", "low", "medium", "high", "critical")


def is_at_least(policy: Policy, severity: str | None) -> bool:
    """Whether a policy is as serious as one of `SEVERITIES`; None is below all of them.

    A policy that does not say how serious it is counts as serious. Its severity, if it has one,
    must be one of these words.
    """
    if severity is None or policy.severity is None:
        return True
    return SEVERITIES.index(policy.severity) >= SEVERITIES.index(severity)
