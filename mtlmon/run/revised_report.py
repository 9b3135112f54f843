"""The report on a run whose verdicts were corrected: what holds at its end, and what changed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from mtlmon.changelog.lines import Kind
from mtlmon.changelog.points import Points
from mtlmon.checking.changes import ChangedAnswers, PolicyChanges
from mtlmon.history.changes import INSERTED, WITHDRAWN
from mtlmon.policy import PolicyFile
from mtlmon.reporting import ReportData
from mtlmon.run.elapsed import Elapsed
from mtlmon.run.findings import INTERRUPTED, ReportedRun, run_facts, save_report
from mtlmon.run.report import plural
from mtlmon.support.snapshot_parts import damaged
from mtlmon.syntax.report import visible
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from mtlmon.changelog.points import Point
    from mtlmon.checking.changes import Bound, Change
    from mtlmon.checking.history_check import HistoryCheck
    from mtlmon.checking.late_checks import LateChecks
    from mtlmon.reporting import PolicyReport, Run
    from mtlmon.run.policy_work import Source
    from mtlmon.run.revised_relation_report import RevisedAnswers
    from mtlmon.run.spec import RunSpec
    from mtlmon.syntax.formula import Formula

__all__ = ["RevisedReport"]

_NOT_EXPLAINED = "Nothing is explained, as the verdicts were corrected while rows came in."
_EXPLAINED_APART = (
    "The violations that hold at the end of the run are explained apart from this report."
)
# So many verdicts that are final are given to a collector at once.
_AT_ONCE = 1 << 14
_VALUES = {TRUE: True, FALSE: False}


class RevisedReport:
    """Takes changes, and writes a report on what remains.

    Args:
        check: the check that corrects verdicts and answers.
        source: the events of the run.
        inputs: the names of the logs.
        options: the options of the run.
        file: the formula or the policies.
    """

    def __init__(
        self,
        check: LateChecks,
        source: Source,
        inputs: list[str],
        options: RunSpec,
        file: Formula | PolicyFile,
    ) -> None:
        self.check = check
        self.source = source
        self.inputs = inputs
        self.options = options
        self.file = file
        self.elapsed = Elapsed()
        self.verdicts: RevisedVerdicts | None = None
        self.answers: RevisedAnswers | None = None
        if check.plain is not None:
            self.verdicts = RevisedVerdicts(check.plain, source, inputs, options, file)
        if check.answers is not None and isinstance(file, PolicyFile):
            from mtlmon.run.revised_relation_report import RevisedAnswers

            self.answers = RevisedAnswers(check.answers, options, file)
        self.kinds = [one for one in (self.verdicts, self.answers) if one is not None]

    def take(self, rows: Sequence[Change]) -> None:
        """Take changes, and bounds below which all of them are final."""
        for row in rows:
            if isinstance(row, PolicyChanges) and self.verdicts is not None:
                self.verdicts.take(row)
            elif isinstance(row, ChangedAnswers) and self.answers is not None:
                self.answers.take(row)
            elif not isinstance(row, PolicyChanges | ChangedAnswers):
                for one in self.kinds:
                    one.settle(row)

    def snapshot(self) -> bytes:
        """Return what has been taken as bytes for `restore`."""
        kinds = [one.snapshot() for one in self.kinds]
        return json.dumps([self.elapsed.snapshot(), kinds]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have been taken.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            elapsed, kinds = json.loads(snapshot)
            self.elapsed.restore(elapsed)
            for one, own in zip(self.kinds, kinds, strict=True):
                one.restore(own)
        except (ValueError, TypeError, LookupError):
            raise damaged() from None

    def write(self, seconds: float, *, is_interrupted: bool) -> None:
        """Write the report on a run that took so many seconds, by the order of the file.

        Raises:
            RunError: the report cannot be written.
        """
        for one in self.kinds:
            one.settle(None)
        if self.verdicts is not None:
            run = self.verdicts.run(seconds)
        else:
            run = run_facts(
                self.file,
                self.options,
                inputs=self.inputs,
                rows=self.check.position,
                skipped=self.source.skipped,
                seconds=self.elapsed.earlier + seconds,
                started=self.elapsed.started,
                last=self.source.clock,
            )
        run = replace(run, remarks=list(self.remarks(is_interrupted=is_interrupted)))
        reports = [report for one in self.kinds for report in one.reports()]
        if isinstance(self.file, PolicyFile):
            names = [policy.name for policy in self.file.policies]
            reports.sort(key=lambda one: names.index(one.name))
        save_report(ReportData(reports, run), self.options.reporting)

    def remarks(self, *, is_interrupted: bool) -> Iterator[str]:
        """Yield the report's remarks about the run as a whole."""
        if is_interrupted:
            yield INTERRUPTED
        name = self.source.row_name
        late, refused = self.check.late_count, self.check.refused_count
        yield f"{name.capitalize()}s that came late: {late:,} taken in, {refused:,} refused."
        if self.verdicts is not None:
            yield from self.verdicts.remarks()
        if self.source.skipped:
            yield f"Skipped {plural(self.source.skipped, name)} that could not be read."
        if self.answers is not None:
            yield from self.answers.remarks()
        if any(one.has_violation for one in self.kinds):
            yield _EXPLAINED_APART if self.options.reporting.explain else _NOT_EXPLAINED


class RevisedVerdicts(ReportedRun):
    """Takes changes of verdicts, and tells what remains.

    Memory grows with the verdicts that may still change.

    Args:
        check: the check that corrects verdicts.
        source: the events of the run.
        inputs: the names of the logs.
        options: the options of the run.
        file: the formula or the policies.
    """

    def __init__(
        self,
        check: HistoryCheck,
        source: Source,
        inputs: list[str],
        options: RunSpec,
        file: Formula | PolicyFile,
    ) -> None:
        super().__init__(check, source, inputs, options, file)
        self.check = check
        # messages are known as long as verdicts can change
        self.at_once = _AT_ONCE if check.messages is None else 1
        self.points = [Points() for _ in check.policies]
        self.settled: list[list[Point]] = [[] for _ in check.policies]
        # how often a verdict of each policy was changed, and withdrawn
        self.changed = [0] * len(check.policies)
        self.withdrawn = [0] * len(check.policies)
        self.first: int | None = None

    def snapshot(self) -> list[object]:
        """Return what has been taken as a value for JSON, for `restore`."""
        for policy in range(len(self.collectors)):
            self.collect(policy)
        points = [one.snapshot() for one in self.points]
        return [super().snapshot(), points, self.changed, self.withdrawn, self.first]

    def restore(self, snapshot: list[Any]) -> None:
        """Go on from a snapshot; nothing must have been taken."""
        own, points, self.changed, self.withdrawn, self.first = snapshot
        super().restore(own)
        for one, part in zip(self.points, points, strict=True):
            one.restore(part)

    def prefix(self, policy: int, trace: int | None) -> bytes:
        """Return what tells the time-points of a key apart from those of others."""
        return b"" if trace is None or not self.keys.has_keys(policy) else b"%d" % trace

    def take(self, changes: PolicyChanges) -> None:
        """Take the changes of a policy."""
        policy, records = changes.policy, changes.records
        withdrawn = int((records["operation"] == WITHDRAWN).sum())
        self.withdrawn[policy] += withdrawn
        # a violation whose message has changed remains one
        is_changed = (records["operation"] != INSERTED) & (
            (records["kind"] != FALSE) | (records["former"] != FALSE)
        )
        self.changed[policy] += int(is_changed.sum()) - withdrawn
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

    def settle(self, bound: Bound | None) -> None:
        """Give the verdicts that are final, or all, to the collectors."""
        policies = range(len(self.points))
        if bound is not None and bound.policy is not None:
            policies = range(bound.policy, bound.policy + 1)
        for policy in policies:
            settled = self.settled[policy]
            below, prefix = None, b""
            if bound is not None:
                below, prefix = bound.time_stamp, self.prefix(policy, bound.trace)
            for points in self.points[policy].drop(below, prefix):
                settled += points
                if len(settled) >= self.at_once:
                    self.collect(policy)
                    settled = self.settled[policy]

    def collect(self, policy: int) -> None:
        """Count verdicts that are final, and list the first of those that are violations."""
        points, self.settled[policy] = self.settled[policy], []
        collector = self.collectors[policy]
        collector.add_true(sum(point.value is True for point in points))
        wrong = [point for point in points if point.value is False]
        keys = [int(one.prefix) for one in wrong] if self.keys.has_keys(policy) else None
        stamps, offsets = [one.time_stamp for one in wrong], [one.offset for one in wrong]
        collector.add_violations(stamps, offsets, keys)
        if (messages := self.check.messages) is None or not wrong:
            return
        listed = set(collector.first_violations())
        own: Sequence[int | None] = [None] * len(wrong) if keys is None else keys
        for point in zip(stamps, offsets, own, strict=True):
            if point in listed:
                time_stamp, offset, key = point
                message = messages.take(policy, key or 0, time_stamp, offset)
                collector.describe(*point, message=message)

    def run(self, seconds: float) -> Run:
        """Return what the report says of the run as a whole, once all verdicts are final."""
        last = self.source.clock
        for policy, collector in enumerate(self.collectors):
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
            remarks=[],
        )

    def reports(self) -> list[PolicyReport]:
        """Return the results of the policies, after `run`."""
        return [self.policy_report(policy) for policy in range(len(self.collectors))]

    @property
    def has_violation(self) -> bool:
        """Whether a violation has remained."""
        return any(collector.false for collector in self.collectors)

    def remarks(self) -> Iterator[str]:
        """Yield remarks on the verdicts of policies that were changed."""
        for policy, changed, withdrawn in zip(
            self.check.policies, self.changed, self.withdrawn, strict=True
        ):
            if changed or withdrawn:
                whose = f"Policy {visible(policy.name)}: " if policy.name else ""
                text = f"{plural(changed, 'verdict')} changed, {withdrawn:,} withdrawn"
                yield f"{whose}{text}; the report shows what holds at the end of the run."
