"""What explains the violations of a run that corrects verdicts: those that hold at its end.

At the end, verdicts are those of the rows that count: they came in time, and were not taken back.
So these rows are checked once more, in the order of time, and what that run explains is the
explanation. If no row can be taken back, a run that lets rows wait finds them, and time-points have
the same names, so its messages are those of the report. Else the run notes which rows do not count.
"""

from __future__ import annotations

import os
from copy import copy
from typing import TYPE_CHECKING

from mtlmon.policy import PolicyFile
from mtlmon.run.files import position_of_input, rewind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mtlmon.checking.late_checks import LateChecks
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import Reporting, RunSpec
    from mtlmon.syntax.formula import Formula

__all__ = ["Reasons", "notes_outcome"]


def notes_outcome(options: RunSpec) -> bool:
    """Whether a run notes which rows count, as those that come in time are not all that do."""
    log = options.log
    # keys of tables only
    is_by_key = options.times.clock == "key" and log.is_table
    return wants_reasons(options.reporting) and (bool(log.op or log.id) or is_by_key)


def _in_order(options: RunSpec) -> RunSpec:
    """Return the options of a run that lets rows wait, where these correct verdicts."""
    return options.having(
        wait=options.times.lateness,
        lateness=None,
        knows_counts=True,
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
        check_again: checks the log with options, as `check_logs` does.

    Attributes:
        are_wanted: whether violations are explained, where there are some. The run that does it
            mentions what is wrong with the log, too.
    """

    def __init__(
        self,
        file: Formula | PolicyFile,
        options: RunSpec,
        check_again: Callable[[RunSpec], Steps] | None = None,
    ) -> None:
        self._check_again = check_again
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
        rewind(options.log, self.start_of_input)
        if self._check_again is not None:
            return self._check_again(options)
        from mtlmon.run.policies import check_logs

        return check_logs(self.file, options)
