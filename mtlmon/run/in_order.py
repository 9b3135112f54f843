"""What explains the violations of a run that corrects verdicts: those that hold at its end.

At the end, verdicts are those of the rows that count: they came in time, and were not taken back.
So these rows are checked once more, in the order of time, and what that run explains is the
explanation. If no row can be taken back, a run that lets rows wait finds them, and time-points have
the same names, so its messages are those of the report. Else the run notes which rows do not count.
"""

from __future__ import annotations

import os
from contextlib import closing
from copy import copy
from typing import TYPE_CHECKING

from mtlmon.checking import LogCheck
from mtlmon.engine.native import MemoryLimit
from mtlmon.policy import PolicyFile
from mtlmon.run.files import STANDARD_INPUT, position_of_input
from mtlmon.support.standard_input import STANDARD_STREAM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.checking.late_checks import LateChecks
    from mtlmon.policy import Policy
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import Reporting, RunSpec
    from mtlmon.syntax.formula import Formula

__all__ = ["Named", "Reasons", "messages_in_order", "notes_outcome", "why_without_values"]

Named = tuple[int, int, str | None]
"""The time-stamp and offset of a violation, and its key."""


def notes_outcome(options: RunSpec) -> bool:
    """Whether a run notes which rows count, as those that come in time are not all that do."""
    return wants_reasons(options.reporting) and _given_corrections(options) is not None


def _given_corrections(options: RunSpec) -> str | None:
    """Return the option with which not all rows that come in time count; None without one."""
    others = {
        "--op": options.log.op is not None,
        "--id": options.log.id is not None,
        # keys of tables only
        "--clock key": options.times.clock == "key" and options.log.is_table,
    }
    return next((name for name, is_given in others.items() if is_given), None)


def _in_order(options: RunSpec) -> RunSpec:
    """Return the options of a run that lets rows wait, where these correct verdicts."""
    return options.having(
        wait=options.times.lateness,
        lateness=None,
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
        are_wanted: whether violations are explained, where there are some. The run that does it
            mentions what is wrong with the log, too.
    """

    def __init__(self, file: Formula | PolicyFile, options: RunSpec) -> None:
        if isinstance(file, PolicyFile) and file.assumptions:
            # the run that corrects verdicts says which ones the log breaks
            file = copy(file)
            file.assumptions = ()
        self.file = file
        self.options = options
        self.start_of_input = position_of_input(options.log)
        self.are_wanted = wants_reasons(options.reporting)
        self._notes_outcome = notes_outcome(options)

    def check(self, logs: Mapping[str, os.stat_result]) -> None:
        """Fail early if the log cannot be read again, or the file for explanations not written.

        Raises:
            RunError: it is so.
        """
        if self.are_wanted:
            from mtlmon.run.findings import check_findings

            check_findings(self.options, logs)

    def know_outcome(self, check: LateChecks, clock: int | None) -> None:
        """Take which rows count at the end of the run; call this before `emit`.

        Args:
            check: the check, which has ended.
            clock: the largest time-stamp of the log.
        """
        if not self._notes_outcome or clock is None:
            return
        counting = check.counting
        if counting is None:
            self.are_wanted = False
            self.options.host.note(
                "violations are not explained: some rows count for policies with one key, and not "
                "for those with another"
            )
            return
        end_time = self.options.times.end_time
        if end_time is None:
            # rows that are taken back, or only let time pass, have shown it
            end_time = max(check.last_time(), clock if self._has_ticks else 0) - 1
        elif end_time == "last":
            end_time = clock
        self.options = self.options.having(
            counting=counting, end_time=end_time if end_time == "inf" or end_time >= 0 else None
        )

    @property
    def _has_ticks(self) -> bool:
        policies = self.file.policies if isinstance(self.file, PolicyFile) else ()
        return any(one.clock is not None and one.clock.has_ticks for one in policies)

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
    forbidden = _given_corrections(options)
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
