"""The report on a run whose verdicts were corrected: what holds at its end, and what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mtlmon.changelog.lines import Kind
from mtlmon.changelog.points import Points
from mtlmon.checking.changes import PolicyChanges
from mtlmon.history.changes import INSERTED, WITHDRAWN
from mtlmon.policy import PolicyFile
from mtlmon.reporting import ReportData
from mtlmon.run.findings import INTERRUPTED, ReportedRun, save_report
from mtlmon.run.in_order import messages_in_order, why_without_values
from mtlmon.run.report import plural
from mtlmon.syntax.report import visible
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.changelog.points import Point
    from mtlmon.checking import TextLog
    from mtlmon.checking.changes import Bound
    from mtlmon.checking.history_check import HistoryCheck
    from mtlmon.reporting import PolicyReport, Run
    from mtlmon.run.in_order import Named
    from mtlmon.run.spec import Reporting, RunSpec
    from mtlmon.syntax.formula import Formula
    from mtlmon.tables import TableEvents

__all__ = ["RevisedReport", "what_is_explained"]

_NOT_EXPLAINED = "Nothing is explained, as the verdicts were corrected while rows came in."
_EXPLAINED_APART = (
    "The violations that hold at the end of the run are explained apart from this report."
)
# So many verdicts that are final are given to a collector at once.
_AT_ONCE = 1 << 14
_VALUES = {TRUE: True, FALSE: False}


def what_is_explained(reporting: Reporting) -> str:
    """Return the remark of a report with violations on whether they are explained."""
    return _EXPLAINED_APART if reporting.explain else _NOT_EXPLAINED


class RevisedReport(ReportedRun):
    """Takes changes of verdicts, and writes a report on the verdicts that remain.

    Memory grows with the verdicts that may still change.

    Args:
        check: the check that corrects verdicts.
        source: the events of the run.
        inputs: the names of the logs.
        options: the options of the run.
        file: the formula or the policies.
        can_reread: whether the log can be read again, for messages with values.
    """

    def __init__(
        self,
        check: HistoryCheck,
        source: TextLog | TableEvents,
        inputs: list[str],
        options: RunSpec,
        file: Formula | PolicyFile,
        *,
        can_reread: bool,
    ) -> None:
        super().__init__(check, source, inputs, options, file)
        self.check = check
        self.no_values = why_without_values(options, can_reread=can_reread)
        self.points = [Points() for _ in check.policies]
        self.settled: list[list[Point]] = [[] for _ in check.policies]
        # how often a verdict of each policy was changed, and withdrawn
        self.changed = [0] * len(check.policies)
        self.withdrawn = [0] * len(check.policies)
        self.first: int | None = None

    def take(self, rows: Sequence[PolicyChanges | Bound]) -> None:
        """Take changes, and bounds below which verdicts are final."""
        for row in rows:
            if isinstance(row, PolicyChanges):
                self.take_changes(row)
                continue
            policies = range(len(self.points)) if row.policy is None else (row.policy,)
            for policy in policies:
                self.settle(policy, row.time_stamp, self.prefix(policy, row.trace))

    def prefix(self, policy: int, trace: int | None) -> bytes:
        """Return what tells the time-points of a key apart from those of others."""
        return b"" if trace is None or not self.keys.has_keys(policy) else b"%d" % trace

    def take_changes(self, changes: PolicyChanges) -> None:
        """Take the changes of a policy."""
        policy, records = changes.policy, changes.records
        withdrawn = int((records["operation"] == WITHDRAWN).sum())
        self.withdrawn[policy] += withdrawn
        self.changed[policy] += int((records["operation"] != INSERTED).sum()) - withdrawn
        if len(records):
            first = int(records["time_stamp"].min())
            self.first = first if self.first is None else min(first, self.first)
        points = self.points[policy]
        for record in records.tolist():
            time_stamp, offset, *reference, kind, operation, _, trace = record
            points.take(
                (
                    Kind.WITHDRAWN if operation == WITHDRAWN else Kind.VERDICT,
                    self.prefix(policy, trace),
                    True,
                    time_stamp,
                    offset,
                    _VALUES.get(kind),
                    (reference[0], reference[1]) if kind == EQUIVALENT else None,
                )
            )

    def settle(self, policy: int, bound: int | None, prefix: bytes = b"") -> None:
        """Give the verdicts of a policy that are final to its collector."""
        settled = self.settled[policy]
        for points in self.points[policy].drop(bound, prefix):
            settled += points
            if len(settled) >= _AT_ONCE:
                self.collect(policy)

    def collect(self, policy: int) -> None:
        """Count verdicts that are final, and list the first of those that are violations."""
        points, self.settled[policy] = self.settled[policy], []
        collector = self.collectors[policy]
        collector.add_true(sum(point.value is True for point in points))
        wrong = [point for point in points if point.value is False]
        keys = None
        if self.keys.has_keys(policy):
            keys = [int(point.prefix) for point in wrong]
        stamps, offsets = [one.time_stamp for one in wrong], [one.offset for one in wrong]
        collector.add_violations(stamps, offsets, keys)

    def write(self, seconds: float, *, is_interrupted: bool) -> None:
        """Write the report on a run that took so many seconds.

        Raises:
            RunError: the report cannot be written.
        """
        run = self.run(seconds, is_interrupted=is_interrupted)
        save_report(ReportData(self.reports(), run), self.options.reporting)

    def run(self, seconds: float, *, is_interrupted: bool) -> Run:
        """Return what the report says of the run as a whole; no changes follow."""
        last = self.source.clock
        for policy, collector in enumerate(self.collectors):
            self.settle(policy, None)
            self.collect(policy)
            events = self.check.counts[policy].events
            collector.undecided = events - collector.true - collector.false
            if self.first is not None and last is not None:
                collector.cover(self.first, last)
        return self.facts(
            rows=self.check.position,
            seconds=seconds,
            mode=", ".join(dict.fromkeys(self.check.modes)),
            first=self.first,
            last=last,
            remarks=list(self.remarks(is_interrupted=is_interrupted)),
        )

    def reports(self) -> list[PolicyReport]:
        """Return the results of the policies, after `run`."""
        reports = [self.policy_report(policy) for policy in range(len(self.collectors))]
        messages = self.messages()
        found = []
        for policy, report, known in zip(self.check.policies, reports, messages, strict=True):
            text = None if policy.message is None else policy.message.text
            shown = (
                replace(one, message=known.get((one.time_stamp, one.offset, one.key), text))
                for one in report.violations
            )
            found.append(replace(report, violations=tuple(shown)))
        return found

    def messages(self) -> Sequence[Mapping[Named, str]]:
        """Return messages with values of the violations that are listed."""
        policies = self.check.policies
        has_values = any(
            policy.message is not None and policy.message.text is None and collector.false
            for policy, collector in zip(policies, self.collectors, strict=True)
        )
        if not has_values or self.no_values is not None or not isinstance(self.file, PolicyFile):
            return [{} for _ in policies]
        return messages_in_order(self.file, policies, self.options)

    def remarks(self, *, is_interrupted: bool) -> Iterator[str]:
        """Yield the report's remarks about the run as a whole."""
        if is_interrupted:
            yield INTERRUPTED
        name = self.source.row_name
        late, refused = self.check.late_count, self.check.refused_count
        yield f"{name.capitalize()}s that came late: {late:,} taken in, {refused:,} refused."
        for policy, changed, withdrawn in zip(
            self.check.policies, self.changed, self.withdrawn, strict=True
        ):
            if changed or withdrawn:
                whose = f"Policy {visible(policy.name)}: " if policy.name else ""
                text = f"{plural(changed, 'verdict')} changed, {withdrawn:,} withdrawn"
                yield f"{whose}{text}; the report shows what holds at the end of the run."
        if self.source.skipped:
            yield f"Skipped {plural(self.source.skipped, name)} that could not be read."
        if any(collector.false for collector in self.collectors):
            yield what_is_explained(self.options.reporting)
        if self.no_values is not None:
            for policy, collector in zip(self.check.policies, self.collectors, strict=True):
                message = policy.message
                if message is not None and message.text is None and collector.false:
                    whose = f" of policy {visible(policy.name)}" if policy.name else ""
                    yield f"The messages{whose} are left out, because {self.no_values}."
