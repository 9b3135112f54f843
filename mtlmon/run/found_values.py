"""The violations of policies with variables, for explanations and the report."""

from __future__ import annotations

import heapq
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mtlmon.checking.row_files import RowFile, RowPlace
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.relational.cells import valuation, values_of
from mtlmon.relational.delays import decision_delays
from mtlmon.relational.reasons import Explainer, Violation, explanation_text
from mtlmon.relational.reasons.evidence import LISTED as LISTED_ROWS
from mtlmon.relational.running import HOLDS, HOLDS_FOR
from mtlmon.reporting import Explanation, PolicyReport, UndecidedTimePoint
from mtlmon.reporting import Violation as Reported
from mtlmon.reporting.histogram import TimeHistogram
from mtlmon.run.explained_facts import facts_of, facts_of_explanation
from mtlmon.run.explaining import is_json
from mtlmon.run.findings import LISTED, Found, FoundInOrder
from mtlmon.run.host import WIDTH
from mtlmon.run.report import plural
from mtlmon.run.reports import run_facts
from mtlmon.syntax.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mtlmon.checking.changes import Bound, ChangedAnswers
    from mtlmon.checking.late_valuations import ValuationCheck
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.limits import Tally
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.plan import PolicyPlan
    from mtlmon.relational.reasons.evidence import Explanation as Reasons
    from mtlmon.relational.reasons.evidence import Reader
    from mtlmon.reporting import Run
    from mtlmon.run.explaining import Explanations
    from mtlmon.run.findings import RunOf
    from mtlmon.run.relations import Check

__all__ = ["FoundValues", "RevisedValues"]

INTERVALS = 100
"""How many bars a chart of violations has."""
LISTED_UNDECIDED = 50
"""The undecided time-points of a policy that a report lists."""

_Check = TypeVar("_Check", bound="Check | ValuationCheck")


class FirstFound:
    """How often values violate a policy, at which times, and the first of them, in order.

    Args:
        most: how many of the first are kept.
        unit: the unit of time-stamps.

    Attributes:
        total: how many violations there are.
        first: the first of them; whoever notes them adds them.
        histogram: at which times there are some.
    """

    def __init__(self, most: int, unit: str | None) -> None:
        self.most = most
        self.total = 0
        self.first: list[Any] = []
        self.histogram = TimeHistogram(unit)
        self._last: Sequence[int] = ()
        self._times: list[int] = []

    def note(self, time_stamp: int, *point: int) -> bool:
        """Count a violation at a time-point; return whether it is one of the first."""
        self.total += 1
        if point != self._last:
            self._times.append(time_stamp)
            self._last = point
        return len(self.first) < self.most

    def settle(self) -> None:
        """Put the times of what has been noted into the histogram."""
        import numpy as np

        self.histogram.add(np.array(self._times, np.int64))
        self._times.clear()

    def snapshot(self) -> list[Any]:
        """Return what has been noted as a value for JSON, for `restore`."""
        return [self.total, self.first, self._last, self.histogram.snapshot()]

    def restore(self, snapshot: list[Any], made: Callable[[list[Any]], object]) -> None:
        """Go on from a snapshot; `made` makes one of the first of its members."""
        self.total, first, last, histogram = snapshot
        self.first, self._last = list(map(made, first)), tuple(last)
        self.histogram.restore(histogram)


def _violation(parts: list[Any]) -> Violation:
    time_stamp, offset, policy, point, values = parts
    return Violation(time_stamp, offset, policy, point, tuple(values))


class CollectedValues(Found, Generic[_Check]):
    """Collects the violations of policies with variables.

    Args:
        check: the check that finds violations.
        count: how many policies there are.
        run_of: what the run is about.
    """

    file: PolicyFile

    def __init__(self, check: _Check, count: int, run_of: RunOf) -> None:
        super().__init__(run_of)
        options = self.options
        self.check: _Check = check
        most = options.reporting.explain_limit
        if options.reporting.report is not None:
            most = max(LISTED, most)
        self.found = [FirstFound(most, options.times.time_stamp_unit) for _ in range(count)]
        # how often values were taken back, or given again
        self.removed = [0] * count

    @property
    def total(self) -> int:
        return sum(one.total for one in self.found)

    def policy_report(
        self,
        number: int,
        tally: Tally,
        policy: PolicyPlan | None,
        violations: Sequence[Reported],
        undecided: int,
        undecided_points: Sequence[UndecidedTimePoint] = (),
    ) -> PolicyReport:
        """Return the results of a policy.

        Args:
            number: the number of the policy.
            tally: what is counted of it.
            policy: its plan; None if the log has no rows.
            violations: the first violations.
            undecided: how many time-points are undecided.
            undecided_points: the first of them.
        """
        has_variables = policy is not None and bool(policy.variables)
        report = PolicyReport(
            name=tally.policy.name,
            formula="",
            true=tally.counts.true,
            false=tally.counts.false,
            undecided=undecided,
            timeline=self.found[number].histogram.timeline(None, None, INTERVALS),
            violations=tuple(violations),
            undecided_time_points=tuple(undecided_points),
            valuations=self.found[number].total if has_variables else None,
            text=tally.policy.text,
            severity=tally.policy.severity,
        )
        return self.written.added_to(report, tally)

    def remarks(self) -> Iterator[str]:
        for number, (policy, counts, _, _) in enumerate(self.check.tallies):
            if removed := self.removed[number]:
                whose = f"Policy {policy.name}: " if policy.name else ""
                yield (
                    f"{whose}{plural(removed, 'violation')} taken back; the report shows what "
                    "holds at the end of the run."
                )
            if policy.is_find:
                name = "The find" if policy.name is None else f"Find {policy.name}"
                yield f"{name} matched at {plural(counts.true, 'time-point')}."


class FoundValues(CollectedValues["Check"], FoundInOrder):
    """Passes answers of a run over rows in order on, and collects the violations.

    Args:
        check: the check, which has ended where explanations and reports are made.
        run_of: what the run is about.
        reader: returns what reads the log once more.

    Attributes:
        rows: the row of each time-point with a violation that is kept.
    """

    def __init__(self, check: Check, run_of: RunOf, reader: Callable[[], Reader]) -> None:
        super().__init__(check, len(check.plan.named_policies), run_of)
        self.reader = reader
        self.policies = check.plan.named_policies
        self.rows: dict[int, RowPlace] = {}

    def put(self, answers: AnswerBlock) -> None:
        """Take answers."""
        point_rows, texts = self.check.point_rows, self.check.plan.texts
        for answer in answers.take():
            answers.add(*answer)
            policy, kind, time_stamp, offset, point, cells = answer
            if kind in (HOLDS, HOLDS_FOR) or self.policies[policy].is_find:
                continue
            found = self.found[policy]
            # those of a policy come in the order of time-points
            if found.note(time_stamp, point):
                values = values_of(cells, self.policies[policy].kinds, texts)
                found.first.append(Violation(time_stamp, offset, policy, point, values))
                if point_rows is not None and point not in self.rows:
                    self.rows[point] = point_rows.place_of(point)
        for found in self.found:
            found.settle()
        self.check.output.put(answers)

    @property
    def chosen(self) -> list[Violation]:
        every = (one for own in self.found for one in own.first)
        limit = self.options.reporting.explain_limit
        return heapq.nsmallest(limit, every, key=lambda one: (one.point, one.policy))

    def snapshot(self) -> list[Any]:
        rows = [(point, *row) for point, row in self.rows.items()]
        return [super().snapshot(), rows, [one.snapshot() for one in self.found]]

    def restore(self, snapshot: list[Any]) -> None:
        elapsed, rows, found = snapshot
        super().restore(elapsed)
        self.rows = {point: RowPlace(RowFile(*file), row) for point, file, row in rows}
        for one, own in zip(self.found, found, strict=True):
            one.restore(own, _violation)

    # ---- explanations ----------------------------------------------------------------------

    def reasons(self, chosen: Sequence[Violation]) -> list[Reasons]:
        """Read the log again, and find what explains violations."""
        options = self.options
        has_all_rows = options.output.rows or is_json(options.reporting.explain_output)
        explainer = Explainer(
            self.file,
            self.check.analysis,
            self.reader(),
            options.times.end_time,
            skips_overflows=options.log.on_error == "skip",
            most_rows=None if has_all_rows else LISTED_ROWS,
        )
        return explainer.explain(chosen)

    def text(self, found: Reasons, written: str, **layout: Any) -> str:
        """Return an explanation of a policy as text; `layout` is that of `explanation_text`."""
        options = self.options
        # for MonPoly's files, the option would name lines
        has_option = not options.output.rows and options.log.signature is None
        return explanation_text(
            found,
            self.policies[found.violation.policy],
            written,
            self.check.analysis.relations,
            unit=options.times.time_stamp_unit,
            rows_option="--rows" if has_option else None,
            **layout,
        )

    def explained(self, chosen: Sequence[Violation]) -> Iterator[Callable[[Explanations], None]]:
        for found in self.reasons(chosen):
            yield partial(self.add_explanation, found=found)

    def places_of(self, chosen: Sequence[Violation]) -> list[RowPlace | None]:
        return [self.rows[one.point] for one in chosen]

    def add_explanation(self, explanations: Explanations, found: Reasons) -> None:
        """Add what `reasons` has found for a violation."""
        violation, unit = found.violation, self.options.times.time_stamp_unit
        policy, relations = self.policies[violation.policy], self.check.analysis.relations
        declared = self.check.analysis.policies[violation.policy].policy
        text = partial(self.text, found, to_text(declared.written, unit=unit))
        row = self.rows.get(violation.point)
        if explanations.is_json:
            variables = zip(policy.variables, policy.kinds, strict=True)
            own = facts_of_explanation(found, variables, relations, text(width=WIDTH), unit)
            explanations.add_facts(facts_of(policy, *violation[:2], row) | own)
            return
        title = None if policy.name is None else f"policy {policy.name}"
        details = self.details(declared, violation.time_stamp, row)
        explanations.add(text, title, details)

    # ---- the report ------------------------------------------------------------------------

    def run(self, seconds: float) -> Run:
        run = self.check.run
        last = None if run.is_stopped else run.clock
        return run_facts(self, seconds, rows=self.source.rows, last=last)

    def reports(self) -> list[PolicyReport]:
        why = self.explanations() if self.can_reread else {}
        is_stopped = self.check.run.is_stopped
        reports = []
        for number, tally in enumerate(self.check.tallies):
            if tally.policy.is_find:
                continue
            policy = self.policies[number]
            undecided = 0 if is_stopped else tally.counts.undecided
            violations = [
                Reported(
                    one.time_stamp,
                    one.offset,
                    explanation=why.get(one),
                    valuation=valuation(policy, one.values, " = ") or None,
                    row=str(self.rows[one.point]) if self.rows else None,
                )
                for one in self.found[number].first
            ]
            points = list(self.undecided(number, undecided))
            reports.append(self.policy_report(number, tally, policy, violations, undecided, points))
        return reports

    def explanations(self) -> dict[Violation, Explanation]:
        """Explain the first violations of each policy."""
        limit = self.options.reporting.explain_limit
        found = {}
        for one in self.reasons([one for own in self.found for one in own.first[:limit]]):
            # the valuation stands before it, and the formula above
            before = 2 if self.policies[one.violation.policy].variables else 1
            shown = "\n".join(self.text(one, "").split("\n")[before:]).strip("\n")
            found[one.violation] = Explanation(f"<pre>{escape(shown)}</pre>")
        return found

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


class RevisedValues(CollectedValues["ValuationCheck"]):
    """Takes changes of answers where rows come late, and collects what remains.

    A violation has its time-stamp, its offset in the log, its values as text, and the offset that
    people see, which is that among the time-points of its key. Memory grows with the violations
    that may still go.

    Args:
        check: the check that corrects answers.
        run_of: what the run is about.
    """

    def __init__(self, check: ValuationCheck, run_of: RunOf) -> None:
        super().__init__(check, len(check.policies), run_of)
        # the violations that may still go
        self.live: list[set[tuple[int, int, str, int]]] = [set() for _ in check.policies]

    def snapshot(self) -> list[Any]:
        live, found = [sorted(one) for one in self.live], [one.snapshot() for one in self.found]
        return [super().snapshot(), live, found, self.removed]

    def restore(self, snapshot: list[Any]) -> None:
        elapsed, live, found, self.removed = snapshot
        super().restore(elapsed)
        self.live = [{(one[0], one[1], one[2], one[3]) for one in own} for own in live]
        for one, own in zip(self.found, found, strict=True):
            one.restore(own, tuple)

    def take(self, batch: ChangedAnswers) -> None:
        """Take changes."""
        # PERF: rows in order need no histories
        from mtlmon.relational.correcting.points import GONE

        made = self.check.history.plan
        shown = self.check.history.renamed(batch.changes)
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
        """Collect the violations that are final, or all."""
        for live, found in zip(self.live, self.found, strict=True):
            final = sorted(one for one in live if bound is None or one[0] < bound.time_stamp)
            live.difference_update(final)
            for one in final:
                if found.note(one[0], *one[:2]):
                    found.first.append(one)
            found.settle()

    def run(self, seconds: float) -> Run:
        return run_facts(self, seconds, rows=self.check.position, last=self.source.clock)

    def reports(self) -> list[PolicyReport]:
        plan = self.check.history.plan if self.check.position else None
        reports = []
        for number, (tally, found) in enumerate(zip(self.check.tallies, self.found, strict=True)):
            if not tally.policy.is_find:
                policy = None if plan is None else plan.named_policies[number]
                violations = [
                    Reported(time_stamp, offset, valuation=values or None)
                    for time_stamp, _, values, offset in found.first
                ]
                undecided = max(0, tally.counts.undecided)
                reports.append(self.policy_report(number, tally, policy, violations, undecided))
        return reports
