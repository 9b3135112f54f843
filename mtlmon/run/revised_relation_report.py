"""The report on policies with variables whose answers were corrected: what holds at the end."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.relational.cells import from_cell, value_text
from mtlmon.relational.correcting.points import GONE
from mtlmon.relational.running import HOLDS
from mtlmon.relational.vacuity import is_violated, matched_by_policy
from mtlmon.reporting import PolicyReport, ReportData, Run, Violation
from mtlmon.reporting.histogram import TimeHistogram
from mtlmon.run.findings import INTERRUPTED, LISTED, peak_memory, save_report
from mtlmon.run.report import plural
from mtlmon.run.report_policies import WrittenPolicies, policy_files, settings_of, time_zone_of
from mtlmon.run.revised_report import what_is_explained

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.checking import TextLog
    from mtlmon.checking.late_valuations import ChangedAnswers, ValuationCheck
    from mtlmon.policy import PolicyFile
    from mtlmon.relational.plan import Plan
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents

__all__ = ["RevisedRelationReport"]

_INTERVALS = 100

_Found = tuple[int, int, str, int]
"""The time-stamp and offset of a violation in the log, its values as text, and the offset that
people see, which is that among the time-points of its key."""


class RevisedRelationReport:
    """Takes changes of answers, and writes a report on those that remain.

    Memory grows with the violations that may still go.

    Args:
        check: the check that corrects answers.
        source: the events of the run.
        inputs: the names of the logs.
        options: the options of the run.
        file: the policies.
    """

    def __init__(
        self,
        check: ValuationCheck,
        source: TextLog | TableEvents,
        inputs: Sequence[str],
        options: RunSpec,
        file: PolicyFile,
    ) -> None:
        self.check = check
        self.source = source
        self.inputs = inputs
        self.options = options
        self.file = file
        self.written = WrittenPolicies(file, options)
        self.started = datetime.now(UTC)
        count = len(check.policies)
        unit = options.times.time_stamp_unit
        # the violations that may still go; those that are final, and the first of them
        self.live: list[set[_Found]] = [set() for _ in range(count)]
        self.totals = [0] * count
        self.first: list[list[_Found]] = [[] for _ in range(count)]
        self.last: list[tuple[int, int] | None] = [None] * count
        self.histograms = [TimeHistogram(unit) for _ in range(count)]
        # how often values were taken back, or given again
        self.gone = [0] * count

    def take(self, batches: Sequence[ChangedAnswers]) -> None:
        """Take changes, and bounds below which answers are final."""
        for batch in batches:
            made = self.check.history.plan
            shown = batch.changes
            if self.check.key_points is not None:
                shown = self.check.key_points.renamed(shown)
            for one, renamed in zip(batch.changes, shown, strict=True):
                if one.kind == HOLDS:
                    continue
                values = valuation(made, one.policy, one.cells)
                found = one.time_stamp, one.offset, values, renamed.offset
                if one.change == GONE:
                    self.live[one.policy].remove(found)
                    self.gone[one.policy] += 1
                else:
                    self.live[one.policy].add(found)
            if batch.final_below is not None:
                self.settle(batch.final_below)

    def settle(self, bound: int | None) -> None:
        """Count the violations below a time, or all, and list the first of them."""
        most = max(LISTED, self.options.reporting.explain_limit)
        for policy, live in enumerate(self.live):
            final = sorted(one for one in live if bound is None or one[0] < bound)
            live.difference_update(final)
            self.totals[policy] += len(final)
            self.first[policy] += final[: most - len(self.first[policy])]
            times = []
            for time_stamp, offset, *_ in final:
                if self.last[policy] != (time_stamp, offset):
                    times.append(time_stamp)
                self.last[policy] = time_stamp, offset
            self.histograms[policy].add(np.array(times, np.int64))

    def write(self, seconds: float, *, is_interrupted: bool) -> None:
        """Write the report on a run that took so many seconds.

        Raises:
            RunError: the report cannot be written.
        """
        self.settle(None)
        run = Run(
            inputs=list(self.inputs),
            rows=self.check.position,
            skipped=self.source.skipped,
            seconds=seconds,
            peak_memory=peak_memory(),
            command=shlex.join(["mtlmon", *self.options.reporting.arguments]),
            started=self.started,
            end_time=self.options.times.end_time,
            unit=self.options.times.time_stamp_unit,
            last=self.source.clock,
            remarks=list(self.remarks(is_interrupted=is_interrupted)),
            policy_files=policy_files(self.options.policies),
            settings=settings_of(self.file, self.options),
            time_zone=time_zone_of(self.file, self.options.log),
        )
        save_report(ReportData(self.reports(), run), self.options.reporting)

    def reports(self) -> list[PolicyReport]:
        """Return the results of the policies; all violations are final."""
        policies = enumerate(self.check.policies)
        return [self.policy_report(number) for number, one in policies if not one.is_find]

    def policy_report(self, number: int) -> PolicyReport:
        """Return the results of a policy."""
        policy = self.check.policies[number]
        answered, violated = self.check.answered_points[number], self.check.found_points[number]
        # time-points of one time-stamp may be one, so it is not known how many others there are
        points = answered if self.options.log.time_points == "stamp" else self.check.event_count
        violations = tuple(
            Violation(time_stamp, offset, valuation=values or None)
            for time_stamp, _, values, offset in self.first[number]
        )
        report = PolicyReport(
            name=policy.name,
            text=policy.text,
            severity=policy.severity,
            formula="",
            true=answered - violated,
            false=violated,
            undecided=max(0, points - answered),
            timeline=self.histograms[number].timeline(None, None, _INTERVALS),
            violations=violations,
            valuations=self.totals[number] if self.has_variables(number) else None,
        )
        matched = None
        if self.check.position:
            matched = matched_by_policy(self.check.history).get(number)
        if matched is not None:
            report = replace(report, triggered=matched.times, triggered_share=matched.share)
        has_failed = is_violated(policy, violated, answered, matched)
        return self.written.added_to(report, policy, is_violated=has_failed)

    def has_variables(self, number: int) -> bool:
        """Whether violations of a policy have values."""
        plan = self.check.history.plan if self.check.position else None
        return plan is not None and bool(plan.named_policies[number].variables)

    def remarks(self, *, is_interrupted: bool) -> Iterator[str]:
        """Yield the report's remarks about the run as a whole."""
        if is_interrupted:
            yield INTERRUPTED
        name = self.source.row_name
        late, refused = self.check.late_count, self.check.refused_count
        yield f"{name.capitalize()}s that came late: {late:,} taken in, {refused:,} refused."
        if self.source.skipped:
            yield f"Skipped {plural(self.source.skipped, name)} that could not be read."
        for policy, gone, found in zip(
            self.check.policies, self.gone, self.check.found_points, strict=True
        ):
            if gone:
                whose = f"Policy {policy.name}: " if policy.name else ""
                yield (
                    f"{whose}{plural(gone, 'violation')} taken back; the report shows what holds "
                    "at the end of the run."
                )
            if policy.is_find:
                whose = "The find" if policy.name is None else f"Find {policy.name}"
                yield f"{whose} matched at {plural(found, 'time-point')}."
        if any(self.totals):
            yield what_is_explained(self.options.reporting)


def valuation(made: Plan, policy: int, cells: Sequence[int]) -> str:
    """Return the values of an answer as text."""
    own = made.named_policies[policy]
    return ", ".join(
        f"{name} = {value_text(from_cell(cell, kind, made.texts), kind)}"
        for name, kind, cell in zip(own.variables, own.kinds, cells, strict=True)
    )
