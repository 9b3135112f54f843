"""What a report says of policies with variables whose answers were corrected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.relational.cells import valuation, values_of
from mtlmon.relational.correcting.points import GONE
from mtlmon.relational.running import HOLDS
from mtlmon.reporting import Violation
from mtlmon.reporting.histogram import TimeHistogram
from mtlmon.run.findings import LISTED
from mtlmon.run.relation_report import INTERVALS, answers_report, find_remark
from mtlmon.run.report import plural
from mtlmon.run.report_policies import WrittenPolicies

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from mtlmon.checking.changes import Bound, ChangedAnswers
    from mtlmon.checking.late_valuations import ValuationCheck
    from mtlmon.policy import PolicyFile
    from mtlmon.reporting import PolicyReport
    from mtlmon.run.spec import RunSpec

__all__ = ["RevisedAnswers"]

_Found = tuple[int, int, str, int]
"""The time-stamp and offset of a violation in the log, its values as text, and the offset that
people see, which is that among the time-points of its key."""


def _found(values: Sequence[Any]) -> _Found:
    time_stamp, offset, text, shown = values
    return time_stamp, offset, text, shown


class RevisedAnswers:
    """Takes changes of answers, and tells what remains.

    Memory grows with the violations that may still go.

    Args:
        check: the check that corrects answers.
        options: the options of the run.
        file: the policies.
    """

    def __init__(self, check: ValuationCheck, options: RunSpec, file: PolicyFile) -> None:
        self.check = check
        self.options = options
        self.written = WrittenPolicies(file, options)
        count = len(check.policies)
        unit = options.times.time_stamp_unit
        # the violations that may still go; those that are final, and the first of them
        self.live: list[set[_Found]] = [set() for _ in range(count)]
        self.totals = [0] * count
        self.first: list[list[_Found]] = [[] for _ in range(count)]
        self.last: list[tuple[int, int] | None] = [None] * count
        self.histograms = [TimeHistogram(unit) for _ in range(count)]
        # how often values were taken back, or given again
        self.removed = [0] * count

    def snapshot(self) -> list[object]:
        """Return what has been taken as a value for JSON, for `restore`."""
        live = [sorted(one) for one in self.live]
        histograms = [one.snapshot() for one in self.histograms]
        return [live, self.totals, self.first, self.last, histograms, self.removed]

    def restore(self, snapshot: list[Any]) -> None:
        """Go on from a snapshot; nothing must have been taken."""
        live, self.totals, first, last, histograms, self.removed = snapshot
        self.live = [{_found(one) for one in own} for own in live]
        self.first = [[_found(one) for one in own] for own in first]
        self.last = [None if one is None else (one[0], one[1]) for one in last]
        for histogram, part in zip(self.histograms, histograms, strict=True):
            histogram.restore(part)

    def take(self, batch: ChangedAnswers) -> None:
        """Take changes."""
        made = self.check.history.plan
        shown = batch.changes
        if self.check.key_points is not None:
            shown = self.check.key_points.renamed(shown)
        for one, renamed in zip(batch.changes, shown, strict=True):
            if one.kind == HOLDS:
                continue
            policy = made.named_policies[one.policy]
            values = valuation(policy, values_of(one.cells, policy.kinds, made.texts), " = ")
            found = one.time_stamp, one.offset, values, renamed.offset
            if one.change == GONE:
                self.live[one.policy].remove(found)
                self.removed[one.policy] += 1
            else:
                self.live[one.policy].add(found)

    def settle(self, bound: Bound | None) -> None:
        """Count the violations that are final, or all, and list the first of them."""
        most = max(LISTED, self.options.reporting.explain_limit)
        for policy, live in enumerate(self.live):
            final = sorted(one for one in live if bound is None or one[0] < bound.time_stamp)
            live.difference_update(final)
            self.totals[policy] += len(final)
            self.first[policy] += final[: most - len(self.first[policy])]
            times = []
            for time_stamp, offset, *_ in final:
                if self.last[policy] != (time_stamp, offset):
                    times.append(time_stamp)
                self.last[policy] = time_stamp, offset
            self.histograms[policy].add(np.array(times, np.int64))

    def reports(self) -> list[PolicyReport]:
        """Return the results of the policies; all violations are final."""
        policies = enumerate(self.check.policies)
        return [self.policy_report(number) for number, one in policies if not one.is_find]

    def policy_report(self, number: int) -> PolicyReport:
        """Return the results of a policy."""
        answered, violated = self.check.answered_points[number], self.check.found_points[number]
        # time-points of one time-stamp may be one, so it is not known how many others there are
        points = answered if self.options.log.time_points == "stamp" else self.check.event_count
        violations = tuple(
            Violation(time_stamp, offset, valuation=values or None)
            for time_stamp, _, values, offset in self.first[number]
        )
        return answers_report(
            self.written,
            self.check.tallies[number],
            true=answered - violated,
            false=violated,
            undecided=max(0, points - answered),
            timeline=self.histograms[number].timeline(None, None, INTERVALS),
            violations=violations,
            valuations=self.totals[number] if self.has_variables(number) else None,
        )

    def has_variables(self, number: int) -> bool:
        """Whether violations of a policy have values."""
        plan = self.check.history.plan if self.check.position else None
        return plan is not None and bool(plan.named_policies[number].variables)

    @property
    def has_violation(self) -> bool:
        """Whether a violation has remained."""
        return any(self.totals)

    def remarks(self) -> Iterator[str]:
        """Yield remarks about the policies."""
        for policy, removed, found in zip(
            self.check.policies, self.removed, self.check.found_points, strict=True
        ):
            if removed:
                whose = f"Policy {policy.name}: " if policy.name else ""
                yield (
                    f"{whose}{plural(removed, 'violation')} taken back; the report shows what "
                    "holds at the end of the run."
                )
            if policy.is_find:
                yield find_remark(policy, found)
