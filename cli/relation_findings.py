"""Collect the violations of policies with variables, and explain them."""

from __future__ import annotations

import heapq
import os
import stat
from functools import partial
from typing import TYPE_CHECKING, Any

from mtlmon.cli.explaining import Explanations, check_file
from mtlmon.cli.failure import Failure
from mtlmon.cli.report import plural
from mtlmon.relational.cells import from_cell
from mtlmon.relational.reasons import Explainer, Violation, explanation_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.cli.arguments import Options
    from mtlmon.policy import PolicyFile
    from mtlmon.relational import Analysis
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.reasons.evidence import Reader
    from mtlmon.relational.running import AnswerOutput

__all__ = ["RelationFindings", "check_explained", "explain"]

_VIOLATED = 0


def check_explained(options: Options, logs: Mapping[str, os.stat_result]) -> None:
    """Fail early if explanations are asked for and not possible.

    Raises:
        Failure: the log cannot be read again, or a file to write has another use.
    """
    if not options.explain:
        return
    if not all(stat.S_ISREG(status.st_mode) for status in logs.values()):
        name = next(iter(logs)) if len(logs) == 1 else "the log"
        raise Failure(
            f"cannot explain: {name} cannot be read a second time; save the log to a file first"
        )
    if options.explain_output is not None:
        others = [*options.logs, options.formula_file, options.output]
        check_file(options.explain_output, "the explanations", others, logs.values())


class RelationFindings:
    """Passes answers on, and keeps the first violations of each policy.

    Args:
        plan: the plan of the policies.
        output: takes the answers.
        limit: how many violations to keep, of all policies together.
    """

    def __init__(self, plan: Plan, output: AnswerOutput, limit: int) -> None:
        self.plan = plan
        self.output = output
        self.limit = limit
        self.first: list[list[Violation]] = [[] for _ in plan.named_policies]
        self.total = 0

    def put(self, answers: AnswerBlock) -> None:
        """Take answers."""
        policies = self.plan.named_policies
        taken = answers.take()
        for answer in taken:
            answers.add(*answer)
            policy, kind, time_stamp, offset, point, cells = answer
            if kind != _VIOLATED:
                continue
            self.total += 1
            # those of a policy come in the order of time-points
            if len(self.first[policy]) < self.limit:
                kinds = policies[policy].kinds
                values = tuple(
                    from_cell(cell, one, self.plan.texts)
                    for cell, one in zip(cells, kinds, strict=True)
                )
                self.first[policy].append(Violation(time_stamp, offset, policy, point, values))
        self.output.put(answers)

    @property
    def chosen(self) -> list[Violation]:
        """The first violations of all policies, in order."""
        return heapq.nsmallest(
            self.limit,
            (one for own in self.first for one in own),
            key=lambda one: (one.point, one.policy),
        )

    def snapshot(self) -> list[object]:
        """Return what is kept, for `restore`."""
        return [self.total, self.first]

    def restore(self, snapshot: tuple[int, list[list[list[Any]]]]) -> None:
        """Continue with what an earlier run has kept."""
        self.total, first = snapshot
        self.first = [
            [
                Violation(stamp, offset, policy, point, tuple(values))
                for stamp, offset, policy, point, values in own
            ]
            for own in first
        ]


def explain(
    findings: RelationFindings,
    file: PolicyFile,
    analysis: Analysis,
    read: Reader,
    options: Options,
) -> None:
    """Explain the first violations, to standard error or to a file.

    Args:
        findings: the violations.
        file: the policies.
        analysis: what is known of them.
        read: reads the log once more.
        options: the options of the command line.
    """
    explainer = Explainer(file, analysis, read, options.end_time)
    explanations = Explanations(options.explain_output)
    policies = findings.plan.named_policies
    for found in explainer.explain(findings.chosen):
        policy = policies[found.violation.policy]
        written = str(analysis.policies[found.violation.policy].policy.written)

        text = partial(
            explanation_text,
            found,
            policy,
            written,
            analysis.relations,
            unit=options.resolution or options.unit,
        )
        explanations.add_text(text, None if policy.name is None else f"policy {policy.name}")
    if findings.total > options.explain_limit:
        explanations.remark(
            f"explained {plural(options.explain_limit, 'violation')}; there are more "
            "(--explain-limit)"
        )
    explanations.write()
