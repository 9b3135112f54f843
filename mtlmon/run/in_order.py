"""What explains the violations of a run that corrects verdicts: those that hold at its end.

At the end, verdicts are those of the rows that came in time, in the order of time, under the same
names. So these rows are checked once more as a run checks them that lets rows wait, and what that
run explains is the explanation, and its messages are those of the report.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.checking import LogCheck
from mtlmon.engine.native import MemoryLimit
from mtlmon.policy import PolicyFile
from mtlmon.run.failure import RunError
from mtlmon.run.files import STANDARD_INPUT, position_of_input
from mtlmon.support.refusals import refused
from mtlmon.support.standard_input import STANDARD_STREAM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.policy import Policy
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import Reporting, RunSpec
    from mtlmon.syntax.formula import Formula

__all__ = ["Named", "Reasons", "messages_in_order", "require_explainable", "why_without_values"]

Named = tuple[int, int, str | None]
"""The time-stamp and offset of a violation, and its key."""


def require_explainable(options: RunSpec) -> None:
    """Raise RunError if the rows of a log are not those that a run without corrections checks.

    Args:
        options: the options of the run.
    """
    if not wants_reasons(options.reporting):
        return
    what = "--explain" if options.reporting.explain else "--context"
    name = _what_forbids_reasons(options)
    if name is not None:
        raise RunError(refused("explain, corrections", option=what, given=name))


def _what_forbids_reasons(options: RunSpec) -> str | None:
    """Return the option with which rows in order are others than those of the run; or None."""
    others = {
        "--op": options.log.op is not None,
        "--id": options.log.id is not None,
        "--clock key": options.times.clock == "key",
    }
    return next((name for name, is_given in others.items() if is_given), None)


def _in_order(options: RunSpec) -> RunSpec:
    """Return the options of a run that lets rows wait, where these correct verdicts."""
    return options.having(
        wait=options.times.lateness,
        lateness=None,
        clock=None,
        output=None,
        output_format="text",
        checkpoint=None,
        checkpoint_every=None,
        resume=False,
        report=None,
        resolve=False,
        summary=False,
        progress=False,
    )


def wants_reasons(reporting: Reporting) -> bool:
    """Whether violations are explained, or shown with the rows around them."""
    return reporting.explain or reporting.has_context


class Reasons:
    """Explains the violations at the end of a run.

    Args:
        file: the formula or the policies.
        options: the options of the run.

    Attributes:
        are_explained: whether violations are explained, where there are some. The run that does it
            mentions what is wrong with the log, too.
    """

    def __init__(self, file: Formula | PolicyFile, options: RunSpec) -> None:
        self.file = file
        self.options = options
        self.start_of_input = position_of_input(options.log)
        self.are_explained = wants_reasons(options.reporting)

    def check(self, logs: Mapping[str, os.stat_result]) -> None:
        """Fail early if the log cannot be read again, or the file for explanations not written.

        Raises:
            RunError: it is so.
        """
        if self.are_explained:
            from mtlmon.run.findings import check_findings

            check_findings(self.options, logs)

    def emit(self) -> Steps:
        """Check the log once more, and explain its violations; return the exit status.

        Raises:
            RunError: the log cannot be read, or the explanations cannot be written.
            MtlmonError: likewise.
        """
        options = _in_order(self.options)
        if options.judging.verdicts == "first":
            # that run stops where it knows the violation, too, which has been written
            options = options.having(output=os.devnull)
        else:
            options = options.having(verdicts="none", given_verdicts="none")
        if self.start_of_input is not None:
            os.lseek(STANDARD_INPUT, self.start_of_input, os.SEEK_SET)
        from mtlmon.run.policies import check_logs

        return check_logs(self.file, options)


def why_without_values(options: RunSpec, *, can_reread: bool) -> str | None:
    """Return why messages with values are not known, in words; None if they are."""
    if not can_reread or STANDARD_STREAM in options.log.paths:
        return "the log could not be read again"
    forbidden = _what_forbids_reasons(options)
    return None if forbidden is None else f"rows in order are others with {forbidden}"


def messages_in_order(
    file: PolicyFile, policies: Sequence[Policy], options: RunSpec
) -> list[dict[Named, str]]:
    """Check the rows that came in time once more, in order, for the messages of violations.

    Args:
        file: the policies.
        policies: those of its policies that have no variables.
        options: the options of the run, with which the log can be read again.

    Returns:
        The messages of the first violations of each policy.

    Raises:
        RunError, MtlmonError: the log cannot be read.
    """
    from mtlmon.run.findings import Findings
    from mtlmon.run.policies import open_source, prepare_messages

    # for a program that reads messages
    options = _in_order(options).having(output_format="jsonl", verdicts="false")
    check = LogCheck(
        policies,
        options.judging.mode,
        key=options.log.key_columns,
        bdd=options.judging.bdd,
        verdicts="none",
        collect=True,
        max_memory=MemoryLimit(options.limits.max_memory, options.option_names),
    )
    prepare_messages(check, options)
    with closing(open_source(check, file, options)) as source:
        if check.repeats_ticks:
            source.only_due_ticks()
        findings = Findings(check, source, [], options, can_reread=False, file=file)
        for _ in check.run(source, options.times.end_time):
            findings.take()
        reports = [findings.keyed_report(number) for number in range(len(policies))]
    return [
        {
            (one.time_stamp, one.offset, one.key): one.message
            for one in report.violations
            if one.message is not None
        }
        for report in reports
    ]
