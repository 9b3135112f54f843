"""Collect the violations of policies with variables, and explain them."""

from __future__ import annotations

import heapq
import os
import stat
from functools import partial
from typing import TYPE_CHECKING, Any

from mtlmon.checking.row_files import RowFile, RowPlace
from mtlmon.relational.cells import valuation, values_of
from mtlmon.relational.reasons import Explainer, Violation, explanation_text
from mtlmon.relational.reasons.evidence import LISTED as LISTED_ROWS
from mtlmon.relational.running import HOLDS, HOLDS_FOR
from mtlmon.run.elapsed import Elapsed
from mtlmon.run.explaining import is_json
from mtlmon.run.failure import RunError
from mtlmon.run.host import WIDTH
from mtlmon.syntax.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.checking.outputs import TimeTexts
    from mtlmon.checking.point_rows import PointRows
    from mtlmon.policy import PolicyFile
    from mtlmon.relational import Analysis
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.reasons.evidence import Explanation, Reader
    from mtlmon.relational.running import AnswerOutput
    from mtlmon.reporting.histogram import TimeHistogram
    from mtlmon.run.explaining import Explanations
    from mtlmon.run.spec import Log, RunSpec

__all__ = [
    "RelationExplanations",
    "RelationFindings",
    "can_reread",
    "require_rereadable",
    "rows_option",
]

LISTED = 100
"""The violations of a policy that a report lists, unless more are to be explained."""


def can_reread(logs: Mapping[str, os.stat_result], log: Log) -> bool:
    """Whether logs can be read a second time: files on disk, and tables that are no streams."""
    is_on_disk = all(stat.S_ISREG(status.st_mode) for status in logs.values())
    return is_on_disk and not log.streams


def require_rereadable(logs: Mapping[str, os.stat_result], options: RunSpec) -> None:
    """Raise RunError if a log cannot be read a second time, which reasons and contexts need."""
    if not (options.reporting.explain or options.reporting.has_context) or can_reread(
        logs, options.log
    ):
        return
    what = "explain" if options.reporting.explain else "show what is around violations"
    if options.log.streams:
        kind = type(options.log.streams[0]).__name__
        raise RunError(
            f"cannot {what}: a {kind} is read only once; give a table of its rows, such as that of "
            "its read_all()"
        )
    name = next(iter(logs)) if len(logs) == 1 else "the log"
    raise RunError(
        f"cannot {what}: {name} cannot be read a second time; save the log to a file first"
    )


class RelationFindings:
    """Passes answers on, and keeps the first violations of each policy.

    Args:
        plan: the plan of the policies.
        output: takes the answers.
        options: the options of the run.
        counts_matches: whether the matches of finds are violations.
        point_rows: the rows of time-points; None if they are not wanted.

    Attributes:
        are_violations: for each policy whether what it finds are violations.
        first: the first violations of each policy.
        totals: how many violations each policy has.
        histograms: for a report, at which times each policy is violated; else empty.
        times: writes times in explanations; None for time-stamps.
    """

    def __init__(
        self,
        plan: Plan,
        output: AnswerOutput,
        options: RunSpec,
        *,
        counts_matches: bool = False,
        point_rows: PointRows | None = None,
    ) -> None:
        self.point_rows = point_rows
        # the row of each time-point with a violation that is kept
        self.rows: dict[int, RowPlace] = {}
        self.plan = plan
        self.are_violations = [counts_matches or not one.is_find for one in plan.named_policies]
        self.output = output
        self.times: TimeTexts | None = None
        self.limit = options.reporting.explain_limit
        self.kept = self.limit if options.reporting.report is None else max(LISTED, self.limit)
        self.first: list[list[Violation]] = [[] for _ in plan.named_policies]
        self.totals = [0] * len(self.first)
        self.elapsed = Elapsed()
        self.skips_overflows = options.log.on_error == "skip"
        self.histograms: list[TimeHistogram] = []
        if options.reporting.report is not None:
            from mtlmon.reporting.histogram import TimeHistogram

            unit = options.times.time_stamp_unit
            self.histograms = [TimeHistogram(unit) for _ in self.first]
        # for each policy, the time-point that was counted last
        self.last = [-1] * len(self.first)

    def put(self, answers: AnswerBlock) -> None:
        """Take answers."""
        policies = self.plan.named_policies
        stamps: list[list[int]] = [[] for _ in policies]
        for answer in answers.take():
            answers.add(*answer)
            policy, kind, time_stamp, offset, point, cells = answer
            if kind in (HOLDS, HOLDS_FOR) or not self.are_violations[policy]:
                continue
            self.totals[policy] += 1
            if point != self.last[policy]:
                stamps[policy].append(time_stamp)
            self.last[policy] = point
            # those of a policy come in the order of time-points
            if len(self.first[policy]) < self.kept:
                values = values_of(cells, policies[policy].kinds, self.plan.texts)
                self.first[policy].append(Violation(time_stamp, offset, policy, point, values))
                if self.point_rows is not None and point not in self.rows:
                    self.rows[point] = self.point_rows.place_of(point)
        if self.histograms:
            import numpy as np

            for histogram, own in zip(self.histograms, stamps, strict=True):
                histogram.add(np.array(own, np.int64))
        self.output.put(answers)

    def valuation(self, violation: Violation) -> str | None:
        """Return the values of a violation as text; None if the policy has no variables."""
        policy = self.plan.named_policies[violation.policy]
        return valuation(policy, violation.values, " = ") or None

    def explainer(
        self, file: PolicyFile, analysis: Analysis, read: Reader, options: RunSpec
    ) -> Explainer:
        """Return what explains violations; the arguments are those of `explain`."""
        return Explainer(
            file,
            analysis,
            read,
            options.times.end_time,
            skips_overflows=self.skips_overflows,
            most_rows=None
            if options.output.rows or is_json(options.reporting.explain_output)
            else LISTED_ROWS,
        )

    @property
    def chosen(self) -> list[Violation]:
        """The first violations of all policies, in order."""
        return heapq.nsmallest(
            self.limit,
            (one for own in self.first for one in own),
            key=lambda one: (one.point, one.policy),
        )

    @property
    def total(self) -> int:
        """The number of violations of all policies."""
        return sum(self.totals)

    def snapshot(self) -> list[object]:
        """Return what is kept, for `restore`."""
        return [
            *self.elapsed.snapshot(),
            self.totals,
            self.first,
            [(point, *row) for point, row in self.rows.items()],
            [one.snapshot() for one in self.histograms],
        ]

    def restore(self, snapshot: list[Any]) -> None:
        """Continue with what an earlier run has kept."""
        *elapsed, self.totals, first, rows, histograms = snapshot
        self.elapsed.restore(elapsed)
        self.rows = {point: RowPlace(RowFile(*file), row) for point, file, row in rows}
        self.first = [
            [
                Violation(stamp, offset, policy, point, tuple(values))
                for stamp, offset, policy, point, values in own
            ]
            for own in first
        ]
        for histogram, one in zip(self.histograms, histograms, strict=True):
            histogram.restore(one)


def rows_option(options: RunSpec) -> str | None:
    """Return the option that lets all rows be named, if that is not so."""
    # for MonPoly's files, it would name lines
    return None if options.output.rows or options.log.signature is not None else "--rows"


class RelationExplanations:
    """The explanations of violations.

    Args:
        findings: the violations of a run.
        file: the policies.
        analysis: what is known of them.
        read: reads the log once more.
        options: the options of the run.
    """

    def __init__(
        self,
        findings: RelationFindings,
        file: PolicyFile,
        analysis: Analysis,
        read: Reader,
        options: RunSpec,
    ) -> None:
        self.times = findings.times
        self.policies = findings.plan.named_policies
        self.analysis = analysis
        self.unit = options.times.time_stamp_unit
        self.rows = findings.rows
        self.rows_option = rows_option(options)
        self.explainer = findings.explainer(file, analysis, read, options)

    def add_found(self, explanations: Explanations, found: Explanation) -> None:
        """Add what the explainer has found for a violation."""
        number = found.violation.policy
        policy = self.policies[number]
        text = partial(
            explanation_text,
            found,
            policy,
            to_text(self.analysis.policies[number].policy.written, unit=self.unit),
            self.analysis.relations,
            unit=self.unit,
            rows_option=self.rows_option,
        )
        row = self.rows.get(found.violation.point)
        if explanations.is_json:
            from mtlmon.run.explained_facts import facts_of_explanation

            violation = found.violation
            variables = zip(policy.variables, policy.kinds, strict=True)
            explanations.add_facts(
                {
                    "policy": policy.name,
                    "text": policy.text or None,
                    "time": violation.time_stamp,
                    "offset": violation.offset,
                    **facts_of_explanation(
                        found, row, variables, self.analysis.relations, text(width=WIDTH), self.unit
                    ),
                }
            )
            return
        title = None if policy.name is None else f"policy {policy.name}"
        details = [policy.text] if policy.text else []
        if row is not None:
            details.append(f"at {row}")
        if self.times is not None and not self.times.is_plain:
            details.append(f"time {self.times.texts([found.violation.time_stamp])[0]}")
        explanations.add_text(text, title, details)
