"""The violations of policies without variables, for explanations and the report."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from mtlmon.changelog.lines import Kind
from mtlmon.changelog.points import Points
from mtlmon.checking.explaining import Violation, explain_violations
from mtlmon.checking.partitions import TraceKeys
from mtlmon.errors import UndecidedError
from mtlmon.history.changes import INSERTED, WITHDRAWN
from mtlmon.policy import PolicyFile
from mtlmon.reporting import Collector
from mtlmon.run.explaining import is_json
from mtlmon.run.findings import LISTED, Found, FoundInOrder
from mtlmon.run.host import WIDTH
from mtlmon.run.report import plural
from mtlmon.run.reports import run_facts, wording_of
from mtlmon.syntax.report import visible
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE, verdict_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from mtlmon.changelog.points import Point
    from mtlmon.checking.changes import Bound, PolicyChanges
    from mtlmon.checking.history_check import HistoryCheck
    from mtlmon.checking.log_check import LogCheck
    from mtlmon.checking.row_files import RowPlace
    from mtlmon.checking.shown import Details
    from mtlmon.checking.violation_rows import ViolationRows
    from mtlmon.explanation.proof import Proof
    from mtlmon.reporting import PolicyReport, Run
    from mtlmon.run.explaining import Explanations
    from mtlmon.run.findings import RunOf, Source

__all__ = ["FoundVerdicts", "RevisedVerdicts"]

# a reader of messages beside the output
_OF_REPORT = 1
# So many verdicts that are final are given to a collector at once.
_AT_ONCE = 1 << 14
_VALUES = {TRUE: True, FALSE: False}

_Check = TypeVar("_Check", bound="LogCheck | HistoryCheck")


class CollectedVerdicts(Found, Generic[_Check]):
    """Collects the violations of policies without variables.

    Args:
        check: the check that finds violations.
        run_of: what the run is about.
    """

    def __init__(self, check: _Check, run_of: RunOf) -> None:
        super().__init__(run_of)
        self.check: _Check = check
        self.keys = TraceKeys.of_log(check.partitions, self.source.key_tables)
        self.collectors = [
            Collector(
                policy.written,
                policy.name,
                number=number,
                unit=self.options.times.time_stamp_unit,
                violations=max(LISTED, self.options.reporting.explain_limit),
                text=policy.text,
                severity=policy.severity,
            )
            for number, policy in enumerate(check.policies, 1)
        ]

    def snapshot(self) -> list[Any]:
        return [super().snapshot(), [one.snapshot() for one in self.collectors]]

    def restore(self, snapshot: list[Any]) -> None:
        elapsed, found = snapshot
        super().restore(elapsed)
        for collector, one in zip(self.collectors, found, strict=True):
            collector.restore(one)

    @property
    def total(self) -> int:
        return sum(collector.false for collector in self.collectors)

    def add(
        self,
        policy: int,
        time_stamps: NDArray[np.int64],
        offsets: NDArray[np.uint64],
        numbers: NDArray[np.uint32],
        message_of: Callable[[int, int, int, int], str | None] | None,
    ) -> None:
        """Take violations of a policy, with their messages while these are known."""
        collector = self.collectors[policy]
        keys = numbers if self.keys.has_keys(policy) else None
        collector.add_violations(time_stamps, offsets, keys)
        if message_of is None or self.check.policies[policy].message is None:
            return
        listed = set(collector.first_violations())
        every = zip(numbers.tolist(), time_stamps.tolist(), offsets.tolist(), strict=True)
        for number, time_stamp, offset in every:
            message = message_of(policy, number, time_stamp, offset)
            _, point = self.place_of(Violation(policy, number, time_stamp, offset))
            if message is not None and point in listed:
                collector.describe(*point, message=message)

    def place_of(self, violation: Violation) -> tuple[Collector, tuple[int, int, int | None]]:
        """Return the collector of a violation, and its time-stamp, offset and key there."""
        policy, number, time_stamp, offset = violation
        key = number if self.keys.has_keys(policy) else None
        return self.collectors[policy], (time_stamp, offset, key)

    def facts(self, seconds: float, *, rows: int, first: int | None, last: int | None) -> Run:
        """Return what the report says of the run as a whole.

        Args:
            seconds: the duration of the run.
            rows: how many events have been checked.
            first: the time-stamp of the earliest event.
            last: the time-stamp of the latest event.
        """
        columns, key_counts = self.check.partitions.columns, self.check.key_counts
        return run_facts(
            self,
            seconds,
            rows=rows,
            mode=", ".join(dict.fromkeys(self.check.modes)),
            first=first,
            last=last,
            keys=key_counts[0] if len(key_counts) == 1 and columns[0] else None,
            key_columns=columns[0] if len(columns) == 1 else (),
        )

    def policy_reports(self) -> list[PolicyReport]:
        """Return the results of the policies, with their keys if these are different."""
        partitions, counts = self.check.partitions, self.check.key_counts
        reports = []
        for policy, tally in enumerate(self.check.tallies):
            partition, collector = partitions.of_policies[policy], self.collectors[policy]
            columns = partitions.columns[partition]
            text_of = partial(self.keys.text, policy) if self.keys.has_keys(policy) else None
            if text_of is None or len(partitions.columns) == 1:
                report = collector.report(text_of)
            else:
                count = counts[partition]
                report = collector.report(text_of, key_columns=columns, key_count=count)
            reports.append(self.written.added_to(report, tally, columns))
        return reports


class FoundVerdicts(CollectedVerdicts["LogCheck"], FoundInOrder):
    """Collects the violations of a run over rows in order.

    Args:
        check: the check that finds violations.
        run_of: what the run is about.
        again: opens the log once more.
    """

    def __init__(self, check: LogCheck, run_of: RunOf, again: Callable[[], Source]) -> None:
        super().__init__(check, run_of)
        self.again = again
        self.shown: Details | None = None
        self.rows: ViolationRows | None = None

    def take(self) -> None:
        """Take the violations that the check has collected."""
        if not len(self.check.violations):
            return
        parts = self.check.violations.taken()
        records = np.frombuffer(parts[0], verdict_type())
        numbers, policies = (np.frombuffer(part, np.uint32) for part in parts[1:])
        message_of = None
        if self.check.messages is not None and not self.can_reread:
            # otherwise, they are found later, with the rows and values
            message_of = partial(self.check.messages.take, reader=_OF_REPORT)
        for policy in range(len(self.collectors)):
            is_own = policies == policy
            if is_own.any():
                own = records[is_own]
                self.add(policy, own["time_stamp"], own["offset"], numbers[is_own], message_of)

    @property
    def chosen(self) -> list[Violation]:
        limit = self.options.reporting.explain_limit
        first = sorted(
            (time_stamp, policy, key or 0, offset)
            for policy, collector in enumerate(self.collectors)
            for time_stamp, offset, key in collector.first_violations(limit)
        )[:limit]
        return [Violation(policy, key, stamp, offset) for stamp, policy, key, offset in first]

    # ---- explanations ----------------------------------------------------------------------

    def explained(self, chosen: Sequence[Violation]) -> Iterator[Callable[[Explanations], None]]:
        if not chosen:
            return
        with closing(self.again()) as log:
            found = dict(self.proofs(list(chosen), log))
        for violation in chosen:
            yield partial(self.add_explanation, violation=violation, proof=found[violation])

    def places_of(self, chosen: Sequence[Violation]) -> list[RowPlace | None]:
        if not chosen:
            return []
        from mtlmon.checking.violation_rows import ViolationRows

        rows = ViolationRows(self.check, chosen)
        with closing(self.again()) as log:
            for batch in log:
                if rows.is_complete:
                    break
                rows.note(batch)
        return [rows.of(one) for one in chosen]

    def add_explanation(
        self, explanations: Explanations, violation: Violation, proof: Proof | UndecidedError
    ) -> None:
        """Add what `proofs` has found for a violation."""
        policy = self.check.policies[violation.policy]
        key = {}
        if self.keys.has_keys(violation.policy):
            key["key"] = self.keys.text(violation.policy, violation.number)
        row = None if self.rows is None else self.rows.of(violation)
        if explanations.is_json:
            from mtlmon.run.explained_facts import facts_of, facts_of_proof

            shown = None if self.shown is None else self.shown.shown(violation)
            facts = facts_of(policy, violation.time_stamp, violation.offset, row, **key)
            explanations.add_facts(facts | facts_of_proof(proof, shown, WIDTH))
            return
        names = {"policy": policy.name} if policy.name is not None else {}
        title = ", ".join(f"{what} {name}" for what, name in (names | key).items()) or None
        if isinstance(proof, UndecidedError):
            explanations.remark(f"{title}: {proof}" if title else str(proof))
            return
        details = self.details(policy, violation.time_stamp, row)
        details += [] if self.shown is None else self.shown.of(violation)
        explanations.add(proof.to_text, title, details, proof)

    def proofs(
        self, violations: list[Violation], source: Source, noted: Sequence[Violation] = ()
    ) -> Iterator[tuple[Violation, Proof | UndecidedError]]:
        """Yield each violation with its proof, or with the error that says why there is none.

        Args:
            violations: the violations to explain.
            source: the log, from its beginning.
            noted: others of which only rows and values are wanted.
        """
        from mtlmon.run.policies import has_values

        all_of_them = [*violations, *noted]
        if isinstance(self.file, PolicyFile) and all_of_them and has_values(self.file):
            from mtlmon.checking.shown import Details

            self.shown = Details(
                self.file,
                self.check,
                all_of_them,
                has_columns=self.options.reporting.report is not None,
                has_all_rows=self.options.output.rows,
                keeps_all_rows=is_json(self.options.reporting.explain_output),
                rows_option="--rows",
                unit=self.options.times.time_stamp_unit,
            )
        if source.tracks_rows:
            from mtlmon.checking.violation_rows import ViolationRows

            self.rows = ViolationRows(self.check, all_of_them)
        return explain_violations(
            self.check,
            violations,
            source,
            self.check.event_count,
            self.options.times.end_time,
            self.shown,
            self.rows,
            noted,
            wording_of(self.file, self.options.times),
            options=self.options.option_names,
        )

    # ---- the report ------------------------------------------------------------------------

    @property
    def last(self) -> int | None:
        """The last time-stamp of the log, if it was read to its end."""
        return None if self.check.is_stopped else self.source.clock

    def run(self, seconds: float) -> Run:
        rows = self.check.event_count if self.check.is_stopped else self.source.rows
        first = self.check.first_time_stamp
        return self.facts(seconds, rows=rows, first=first, last=self.last)

    def reports(self) -> list[PolicyReport]:
        first, last = self.check.first_time_stamp, self.last
        for policy, collector in enumerate(self.collectors):
            collector.add_true(self.check.counts[policy].true)
            if first is not None and last is not None:
                collector.cover(first, last)
            if self.check.is_stopped:
                # More events were read than count, so the undecided time-points are not known.
                collector.undecided = self.check.counts[policy].undecided
                continue
            for number in self.check.pending_keys(policy):
                key = number if self.keys.has_keys(policy) else None
                collector.add_pending(self.check.pending(policy, number), key)
        if self.can_reread:
            with closing(self.again()) as log:
                self.explain_in_report(log)
        return self.policy_reports()

    def explain_in_report(self, source: Source) -> None:
        """Add explanations of the first violations of each policy to the report."""
        listed = [
            [
                Violation(policy, key or 0, time_stamp, offset)
                for time_stamp, offset, key in collector.first_violations()
            ]
            for policy, collector in enumerate(self.collectors)
        ]
        limit = self.options.reporting.explain_limit
        explained = [one for own in listed for one in own[:limit]]
        noted = [one for own in listed for one in own[limit:]]
        for violation, proof in self.proofs(explained, source, noted):
            collector, point = self.place_of(violation)
            collector.explain(*point, proof)
        for violation in (*explained, *noted):
            collector, point = self.place_of(violation)
            shown = None if self.shown is None else self.shown.shown(violation)
            row = None if self.rows is None else self.rows.of(violation)
            collector.describe(
                *point,
                row=None if row is None else str(row),
                message=None if shown is None else shown.message,
                values=() if shown is None else shown.named_values,
                rows_of_values={} if shown is None else shown.rows_of_values,
            )


class RevisedVerdicts(CollectedVerdicts["HistoryCheck"]):
    """Takes changes of verdicts where rows come late, and collects what remains.

    Memory grows with the verdicts that may still change.
    """

    def __init__(self, check: HistoryCheck, run_of: RunOf) -> None:
        super().__init__(check, run_of)
        # messages are known as long as verdicts can change
        self.at_once = _AT_ONCE if check.messages is None else 1
        self.points = [Points() for _ in check.policies]
        self.settled: list[list[Point]] = [[] for _ in check.policies]
        # how often a verdict of each policy was changed, and withdrawn
        self.changed = [0] * len(check.policies)
        self.withdrawn = [0] * len(check.policies)
        self.first: int | None = None

    def snapshot(self) -> list[Any]:
        for policy in range(len(self.collectors)):
            self.collect(policy)
        points = [one.snapshot() for one in self.points]
        return [super().snapshot(), points, self.changed, self.withdrawn, self.first]

    def restore(self, snapshot: list[Any]) -> None:
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
        """Collect the verdicts that are final, or all."""
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
        self.collectors[policy].add_true(sum(point.value is True for point in points))
        wrong = [point for point in points if point.value is False]
        messages = self.check.messages
        self.add(
            policy,
            np.array([one.time_stamp for one in wrong], np.int64),
            np.array([one.offset for one in wrong], np.uint64),
            np.array([int(one.prefix or 0) for one in wrong], np.uint32),
            None if messages is None else messages.take,
        )

    def run(self, seconds: float) -> Run:
        first, last = self.first, self.source.clock
        return self.facts(seconds, rows=self.check.position, first=first, last=last)

    def reports(self) -> list[PolicyReport]:
        last = self.source.clock
        for policy, collector in enumerate(self.collectors):
            self.collect(policy)
            events = self.check.counts[policy].events
            collector.undecided = events - collector.true - collector.false
            if self.first is not None and last is not None:
                collector.cover(self.first, last)
        return self.policy_reports()

    def remarks(self) -> Iterator[str]:
        for policy, changed, withdrawn in zip(
            self.check.policies, self.changed, self.withdrawn, strict=True
        ):
            if changed or withdrawn:
                whose = f"Policy {visible(policy.name)}: " if policy.name else ""
                text = f"{plural(changed, 'verdict')} changed, {withdrawn:,} withdrawn"
                yield f"{whose}{text}; the report shows what holds at the end of the run."
