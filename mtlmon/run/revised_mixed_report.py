"""The report on policies with variables and others whose verdicts were corrected."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mtlmon.checking.changes import Bound, PolicyChanges
from mtlmon.reporting import ReportData
from mtlmon.run.findings import save_report
from mtlmon.run.revised_relation_report import RevisedRelationReport
from mtlmon.run.revised_report import RevisedReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.checking import TextLog
    from mtlmon.checking.late_mixed import MixedChange, MixedHistories
    from mtlmon.policy import PolicyFile
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents

__all__ = ["RevisedMixedReport"]


class RevisedMixedReport:
    """Takes changes of policies of both kinds, and writes a report on what remains.

    Args:
        check: the check that corrects verdicts and answers.
        source: the events of the run.
        inputs: the names of the logs.
        options: the options of the run.
        file: the policies.
        can_reread: whether the log can be read again, for messages with values.
    """

    def __init__(
        self,
        check: MixedHistories,
        source: TextLog | TableEvents,
        inputs: list[str],
        options: RunSpec,
        file: PolicyFile,
        *,
        can_reread: bool,
    ) -> None:
        self.plain = RevisedReport(
            check.plain, source, inputs, options, file, can_reread=can_reread
        )
        self.others = RevisedRelationReport(check.others, source, inputs, options, file)
        self.options = options
        self.names = [policy.name for policy in file.policies]

    def take(self, rows: Sequence[MixedChange]) -> None:
        """Take changes, and bounds below which all of them are final."""
        for row in rows:
            if isinstance(row, PolicyChanges | Bound):
                self.plain.take([row])
            else:
                self.others.take([row])
            if isinstance(row, Bound):
                self.others.settle(row.time_stamp)

    def write(self, seconds: float, *, is_interrupted: bool) -> None:
        """Write the report on a run that took so many seconds, by the order of the file.

        Raises:
            RunError: the report cannot be written.
        """
        run = self.plain.run(seconds, is_interrupted=is_interrupted)
        self.others.settle(None)
        # both tell the same of the rows
        remarks = [*run.remarks, *self.others.remarks(is_interrupted=is_interrupted)]
        reports = [*self.plain.reports(), *self.others.reports()]
        reports.sort(key=lambda one: self.names.index(one.name))
        run = replace(run, remarks=list(dict.fromkeys(remarks)))
        save_report(ReportData(reports, run), self.options.reporting)
