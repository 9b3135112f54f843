"""Write the report of a run of policies with variables."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.relational.delays import decision_delays
from mtlmon.relational.reasons import explanation_text
from mtlmon.relational.vacuity import is_violated, matched_by_policy
from mtlmon.reporting import (
    Explanation,
    PolicyReport,
    ReportData,
    UndecidedTimePoint,
    Violation,
)
from mtlmon.run.findings import (
    INTERRUPTED,
    NOT_EXPLAINED,
    STOPPED_EARLY,
    run_facts,
    save_report,
)
from mtlmon.run.relation_findings import rows_option
from mtlmon.run.report import plural
from mtlmon.run.report_policies import WrittenPolicies

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.relational import Analysis
    from mtlmon.relational.reasons import Violation as Violating
    from mtlmon.relational.reasons.evidence import Reader
    from mtlmon.reporting import Run
    from mtlmon.run.relation_findings import RelationFindings
    from mtlmon.run.relations import Check
    from mtlmon.run.spec import RunSpec

__all__ = ["RelationReport"]

_INTERVALS = 100
LISTED_UNDECIDED = 50
"""The undecided time-points of a policy that a report lists."""


class RelationReport:
    """The report of a run of policies with variables.

    Args:
        check: the check, which has ended.
        findings: its violations.
        file: the policies.
        analysis: what is known of them.
        options: the options of the run.
        inputs: the names of the logs.
        facts: how many rows or lines have been read, how many could not be, and what one is called.
        read: reads the log once more; None if that is not possible.
    """

    def __init__(
        self,
        check: Check,
        findings: RelationFindings,
        file: PolicyFile,
        analysis: Analysis,
        options: RunSpec,
        inputs: Sequence[str],
        facts: tuple[int, int, str],
        read: Reader | None,
    ) -> None:
        self.check = check
        self.findings = findings
        self.file = file
        self.analysis = analysis
        self.options = options
        self.written = WrittenPolicies(file, options)
        self.inputs = inputs
        self.rows, self.skipped, self.row_name = facts
        self.read = read

    def write(self, seconds: float, *, is_interrupted: bool) -> None:
        """Write the report on a run that took so many seconds.

        Raises:
            WriteFailure: the report cannot be written.
        """
        run = self.run(seconds, is_interrupted=is_interrupted)
        save_report(ReportData(self.reports(), run), self.options.reporting)

    def run(self, seconds: float, *, is_interrupted: bool) -> Run:
        """Return what the report says of the run."""
        return run_facts(
            self.file,
            self.options,
            inputs=self.inputs,
            rows=self.rows,
            skipped=self.skipped,
            seconds=self.findings.elapsed.earlier + seconds,
            started=self.findings.elapsed.started,
            last=None if self.check.run.is_stopped else self.check.run.clock,
            remarks=list(self.remarks(is_interrupted=is_interrupted)),
        )

    def reports(self) -> list[PolicyReport]:
        """Return the results of the policies."""
        texts = {} if self.read is None else self.explanations(self.read)
        return [
            self.policy_report(number, texts)
            for number, is_policy in enumerate(self.findings.are_violations)
            if is_policy
        ]

    def explanations(self, read: Reader) -> dict[Violating, Explanation]:
        """Explain the first violations of each policy."""
        limit = self.options.reporting.explain_limit
        chosen = [one for own in self.findings.first for one in own[:limit]]
        explainer = self.findings.explainer(self.file, self.analysis, read, self.options)
        found = {}
        for one in explainer.explain(chosen):
            policy = self.check.plan.named_policies[one.violation.policy]
            text = explanation_text(
                one,
                policy,
                "",
                self.analysis.relations,
                unit=self.options.times.time_stamp_unit,
                rows_option=rows_option(self.options),
            )
            # the valuation stands before it, and the formula above
            lines = text.split("\n")[2 if policy.variables else 1 :]
            shown = "\n".join(lines).strip("\n")
            found[one.violation] = Explanation(f"<pre>{escape(shown)}</pre>")
        return found

    def policy_report(self, number: int, texts: Mapping[Violating, Explanation]) -> PolicyReport:
        """Return the results of a policy."""
        run, findings = self.check.run, self.findings
        answered, violated = run.answered_points[number], run.found_points[number]
        policy = self.check.plan.named_policies[number]
        declared = self.analysis.policies[number].policy
        histogram = findings.histograms[number]
        undecided = 0 if run.is_stopped else run.point_count - answered
        violations = tuple(
            Violation(
                one.time_stamp,
                one.offset,
                explanation=texts.get(one),
                valuation=findings.valuation(one),
                row=str(findings.rows[one.point]) if findings.rows else None,
            )
            for one in findings.first[number]
        )
        report = PolicyReport(
            name=policy.name,
            text=declared.text,
            severity=declared.severity,
            formula="",
            true=answered - violated,
            false=violated,
            undecided=undecided,
            timeline=histogram.timeline(None, None, _INTERVALS),
            violations=violations,
            undecided_time_points=tuple(self.undecided(number, undecided)),
            valuations=findings.totals[number] if policy.variables else None,
        )
        matched = matched_by_policy(self.check.engine).get(number)
        if matched is not None:
            report = replace(report, triggered=matched.times, triggered_share=matched.share)
        has_failed = is_violated(declared, violated, answered, matched)
        return self.written.added_to(report, declared, is_violated=has_failed)

    def undecided(self, policy: int, count: int) -> Iterator[UndecidedTimePoint]:
        """Yield the first time-points of the log that a policy has no answer for.

        Args:
            policy: the number of the policy.
            count: how many there are.
        """
        delay = decision_delays(self.check.plan)[policy]
        most = min(count, LISTED_UNDECIDED)
        for time_stamp, offset in self.check.engine.waiting_points(policy, most):
            until = None if delay is None else min(time_stamp + delay, LARGEST)
            yield UndecidedTimePoint(time_stamp, offset, until=until)

    def remarks(self, *, is_interrupted: bool) -> Iterator[str]:
        """Yield the remarks about the run as a whole."""
        if is_interrupted:
            yield INTERRUPTED
        if self.check.run.is_stopped:
            yield STOPPED_EARLY
        if self.skipped:
            yield f"Skipped {plural(self.skipped, self.row_name)} that could not be read."
        yield from self.matches()
        if self.findings.total and self.read is None:
            yield NOT_EXPLAINED

    def matches(self) -> Iterator[str]:
        """Yield how often finds have matched."""
        run = self.check.run
        for number, one in enumerate(self.check.plan.named_policies):
            found = run.found_points[number]
            if not self.findings.are_violations[number]:
                name = "The find" if one.name is None else f"Find {one.name}"
                yield f"{name} matched at {plural(found, 'time-point')}."
