"""Write the report of a run of policies with variables."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.relational.delays import decision_delays
from mtlmon.relational.reasons import explanation_text
from mtlmon.reporting import (
    Explanation,
    PolicyReport,
    UndecidedTimePoint,
    Violation,
)
from mtlmon.run.findings import (
    INTERRUPTED,
    NOT_EXPLAINED,
    STOPPED_EARLY,
    run_facts,
)
from mtlmon.run.relation_findings import rows_option
from mtlmon.run.report import plural
from mtlmon.run.report_policies import WrittenPolicies

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.policy import Policy, PolicyFile
    from mtlmon.policy.limits import Tally
    from mtlmon.relational import Analysis
    from mtlmon.relational.reasons import Violation as Violating
    from mtlmon.relational.reasons.evidence import Reader
    from mtlmon.reporting import Run
    from mtlmon.run.relation_findings import RelationFindings
    from mtlmon.run.relations import Check
    from mtlmon.run.spec import RunSpec

__all__ = ["INTERVALS", "RelationReport", "answers_report", "find_remark"]

INTERVALS = 100
"""How many bars a chart of violations has."""
LISTED_UNDECIDED = 50
"""The undecided time-points of a policy that a report lists."""


def answers_report(written: WrittenPolicies, tally: Tally, **found: Any) -> PolicyReport:
    """Return the results of a policy with variables.

    Args:
        written: the policies as their files write them.
        tally: what is counted of the policy.
        found: the members of `PolicyReport` about its time-points.
    """
    policy = tally.policy
    report = PolicyReport(
        name=policy.name, text=policy.text, severity=policy.severity, formula="", **found
    )
    return written.added_to(report, tally)


def find_remark(policy: Policy, count: int) -> str:
    """Return the remark that a find has matched at so many time-points."""
    name = "The find" if policy.name is None else f"Find {policy.name}"
    return f"{name} matched at {plural(count, 'time-point')}."


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
        return answers_report(
            self.written,
            self.check.tallies[number],
            true=answered - violated,
            false=violated,
            undecided=undecided,
            timeline=findings.histograms[number].timeline(None, None, INTERVALS),
            violations=violations,
            undecided_time_points=tuple(self.undecided(number, undecided)),
            valuations=findings.totals[number] if policy.variables else None,
        )

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
        for number, one in enumerate(self.analysis.policies):
            if not self.findings.are_violations[number]:
                yield find_remark(one.policy, self.check.run.found_points[number])
        if self.findings.total and self.read is None:
            yield NOT_EXPLAINED
