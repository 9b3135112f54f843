"""Words for how often a policy is violated that may be violated so and so often."""

from __future__ import annotations

from mtlmon.syntax.report import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.policy.definitions import Policy

__all__ = ["limit_line", "share_remark"]


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
