"""Choose how policies are checked on a log, by what they are and what is asked for."""

from __future__ import annotations

from mtlmon.run.failure import RunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

    from mtlmon.policy import PolicyFile
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.syntax.formula import Formula

__all__ = ["for_host", "has_variables", "require_runnable", "steps_of"]


def has_variables(file: Formula | PolicyFile) -> TypeGuard[PolicyFile]:
    """Whether some policies have variables."""
    from mtlmon.syntax.formula import Formula

    return not isinstance(file, Formula) and any(one.is_first_order for one in file.policies)


def require_runnable(file: Formula | PolicyFile, options: RunSpec) -> None:
    """Raise RunError if options do not work with the policies, or FormulaError likewise."""
    from mtlmon.syntax.formula import Formula

    if options.times.lateness is not None:
        from mtlmon.run.correcting import require_correctable

        require_correctable(file, options)
    if options.judging.fail_on is not None and not isinstance(file, Formula):
        require_severities(file)
    if has_variables(file):
        return
    given = {
        "--time-points": options.log.time_points != "row",
        "--max-rows": options.limits.max_rows is not None,
        "--slices": options.judging.slices is not None,
    }
    for name, is_given in given.items():
        if is_given:
            raise RunError(f"{name} is for policies with variables: leave it out")


def require_severities(file: PolicyFile) -> None:
    """Raise RunError if --fail-on cannot compare the severity of a policy."""
    from mtlmon.support.severities import SEVERITIES
    from mtlmon.syntax.report import visible

    for policy in file.policies:
        if policy.severity is not None and policy.severity not in SEVERITIES:
            raise RunError(
                f"policy {visible(policy.name or '')} has severity {visible(policy.severity)}, "
                f"which --fail-on cannot compare: write {', '.join(SEVERITIES[:-1])} or "
                f"{SEVERITIES[-1]}"
            )


def steps_of(file: Formula | PolicyFile, options: RunSpec) -> Steps:
    """Return the run of policies over a log.

    Args:
        file: the policies, which `require_runnable` has accepted.
        options: what is asked for.
    """
    if options.times.lateness is not None:
        from mtlmon.run.correcting import correct

        return correct(file, options)
    if has_variables(file):
        options = options.having(verdicts=options.judging.given_verdicts or "false")
    options = for_host(options)
    policy = sole_policy(file, options) if can_be_direct(options) else None
    if policy is not None:
        # importing the native modules takes longer than parsing the formula
        from mtlmon.run.text_monitoring import can_monitor, monitor_log

        if can_monitor(*policy, options):
            return monitor_log(*policy, options)
    from mtlmon.run.policies import check_logs

    return check_logs(file, options)


def can_be_direct(options: RunSpec) -> bool:
    """Whether the output of a single policy may be written as the log is read."""
    if options.log.is_table or options.passes_time:
        return False
    return options.output.format in ("text", "jsonl")


def sole_policy(file: Formula | PolicyFile, options: RunSpec) -> tuple[str | None, Formula] | None:
    """Return the name, or None, and the formula of the only policy of a text log.

    Returns:
        None if there are several policies, or the output shows more than a name and a formula.
    """
    from mtlmon.syntax.formula import Formula

    if isinstance(file, Formula):
        return None, file
    if len(file.policies) > 1:
        return None
    (policy,) = file.policies
    has_more = bool(file.predicates or file.assumptions or policy.key or policy.clock)
    has_more = has_more or policy.has_tolerance or policy.is_first_order
    if options.output.format == "jsonl":
        has_more = has_more or bool(policy.severity or policy.text or policy.message)
    return None if has_more else (policy.name, policy.formula)


def for_host(options: RunSpec) -> RunSpec:
    """Settle whether violations are written for a person."""
    return options.having(for_people=options.host.is_for_people(options))
