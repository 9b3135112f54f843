"""How often the left sides of policies with variables were matched: what asks for it, and words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.policy.limits import limit_line, share_remark
from mtlmon.relational.vacuity import matched_by_policy, uncounted
from mtlmon.run.failure import RunError
from mtlmon.run.policies import wants_triggered
from mtlmon.run.report import plural
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.relational import Analysis
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.running import RelationalRun
    from mtlmon.relational.slicing.engine import Engine
    from mtlmon.relational.vacuity import Counting
    from mtlmon.run.spec import RunSpec

__all__ = [
    "counts_left_sides",
    "matched_lines",
    "never_matched",
    "require_counted",
]


def counts_left_sides(file: PolicyFile, options: RunSpec) -> bool:
    """Whether anything depends on how often left sides are matched in the whole log."""
    if options.judging.verdicts == "first":
        return False
    if options.log.signature is not None and not options.judging.negate:
        # the formula asks for valuations
        return False
    policies = [policy for policy in file.policies if policy.is_first_order]
    return wants_triggered(policies, options)


def require_counted(analysis: Analysis, made: Plan, options: RunSpec) -> None:
    """Raise RunError if a left side is not counted, as it cannot be evaluated by itself."""
    words = uncounted(analysis, made) if options.judging.reports_vacuous else None
    if words is not None:
        given = options.judging.vacuous_option
        raise RunError(
            f"{given} {words}, leave the option out, or write the policy in a file of its own"
        )


def never_matched(engine: Counting) -> list[str]:
    """Return the names of the policies whose left side was never matched, as they are written."""
    return [
        _policy_name(engine, number)
        for number, one in matched_by_policy(engine).items()
        if not one.times
    ]


def matched_lines(
    engine: Engine, analysis: Analysis, run: RelationalRun, failed: Sequence[bool]
) -> str:
    """Say of implications how often left sides were matched, and whether limits are kept.

    There is a line for each implication whose left side is counted, and for each policy that may be
    violated so and so often, and an empty line before them.

    Args:
        engine: what has counted that.
        analysis: what is known of the policies.
        run: what has counted violations.
        failed: for each policy, whether it is violated more often than it may be.
    """
    lines = []
    matched = matched_by_policy(engine)
    for number, policy in enumerate(one.policy for one in analysis.policies):
        one = matched.get(number)
        if one is None:
            if policy.has_tolerance:
                found, answered = run.found_points[number], run.answered_points[number]
                lines.append(limit_line(policy, found, answered, has_failed=failed[number]))
            continue
        if not one.times:
            name = _policy_name(engine, number)
            lines.append(f"warning: {name} was never triggered, so nothing was checked")
            continue
        remark = share_remark(one.share, policy, has_failed=failed[number])
        times = plural(one.times, "valuation" if one.has_variables else "time-point")
        name = visible(policy.name or "formula")
        lines.append(f"{name}: {times} triggered, {one.violated:,} violated{remark}")
    return "".join(["\n", *(f"\n{line}" for line in lines)]) if lines else ""


def _policy_name(engine: Counting, number: int) -> str:
    name = engine.plan.named_policies[number].name
    return "the formula" if name is None else f"policy {visible(name)}"
