"""Collect the violations of a run, for explanations and the report."""

from __future__ import annotations

import os
import resource
import shlex
import sys
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.checking import TextLog, TraceKeys
from mtlmon.checking.explaining import Violation, explain_violations
from mtlmon.errors import ReportError, UndecidedError
from mtlmon.reporting import Collector, PolicyReport, ReportData, Run, write_report
from mtlmon.run.elapsed import Elapsed
from mtlmon.run.explaining import check_file, is_json
from mtlmon.run.failure import RunError, WriteFailure
from mtlmon.run.host import WIDTH
from mtlmon.run.relation_findings import require_rereadable
from mtlmon.run.report import plural
from mtlmon.run.report_policies import (
    WrittenPolicies,
    policy_files,
    settings_of,
    time_zone_of,
    wording_of,
)
from mtlmon.run.time_stamps import time_texts
from mtlmon.support.extras import load_extra
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from mtlmon.checking import LogCheck
    from mtlmon.checking.history_check import HistoryCheck
    from mtlmon.checking.outputs import TimeTexts
    from mtlmon.checking.shown import Details
    from mtlmon.checking.violation_rows import ViolationRows
    from mtlmon.explanation.proof import Proof
    from mtlmon.policy import PolicyFile
    from mtlmon.run.explaining import Explanations
    from mtlmon.run.spec import Reporting, RunSpec
    from mtlmon.syntax.formula import Formula
    from mtlmon.tables import TableEvents

__all__ = [
    "Findings",
    "ReportedRun",
    "check_all_findings",
    "check_findings",
    "run_facts",
    "save_report",
]

STOPPED_EARLY = (
    "The log was read up to the earliest violation, and only that is shown (--verdicts first)."
)
INTERRUPTED = "The run was interrupted: the log may go on."
LISTED = 100
"""The violations of a policy that a report lists, unless more are to be explained."""

# a reader of messages beside the output
_OF_REPORT = 1

NOT_EXPLAINED = "Nothing is explained, as the log could not be read a second time."


def check_all_findings(
    options: RunSpec,
    logs: Mapping[str, os.stat_result],
    source: TextLog | TableEvents | None = None,
) -> None:
    """Fail early if explanations, a report or rows around violations are wanted and not possible.

    Args:
        options: the options of the run.
        logs: the status of the log's files by name.
        source: the log; None for a text log.

    Raises:
        RunError, MtlmonError: as `check_findings`, or a log is not a file whose rows are text.
    """
    check_findings(options, logs)
    if options.reporting.has_context:
        from mtlmon.run.context import check_context

        check_context(source, options.log)


def check_findings(options: RunSpec, logs: Mapping[str, os.stat_result]) -> None:
    """Fail early if explanations or a report are not possible.

    Raises:
        RunError: the log cannot be read again, or a file to write has another use.
        MtlmonError: a package that reports need is not installed.
    """
    require_rereadable(logs, options)
    others = [*options.log.paths, *options.policies.files, options.output.path]
    if options.reporting.explain_output is not None:
        check_file(options.reporting.explain_output, "the explanations", others, logs.values())
    if options.reporting.report is not None:
        load_extra("jinja2", "report")
        others.append(options.reporting.explain_output)
        check_file(options.reporting.report, "the report", others, logs.values())
        check_place(options.reporting.report)


def run_facts(file: Formula | PolicyFile, options: RunSpec, **facts: Any) -> Run:
    """Return what a report says of a run as a whole.

    Args:
        file: the formula or the policies.
        options: the options of the run.
        facts: what these do not say, as `Run` has it.
    """
    return Run(
        peak_memory=peak_memory(),
        command=shlex.join(["mtlmon", *options.reporting.arguments]),
        end_time=options.times.end_time,
        unit=options.times.time_stamp_unit,
        policy_files=policy_files(options.policies),
        settings=settings_of(file, options),
        time_zone=time_zone_of(file, options.log),
        **facts,
    )


class ReportedRun:
    """What a report says of a run: facts, and the results of each policy.

    Args:
        check: the check that finds violations.
        source: the events of the run.
        inputs: the names of the logs.
        options: the options of the run.
        file: the formula or the policies.
    """

    def __init__(
        self,
        check: LogCheck | HistoryCheck,
        source: TextLog | TableEvents,
        inputs: list[str],
        options: RunSpec,
        file: Formula | PolicyFile,
    ) -> None:
        self.file = file
        self.tallied = check
        self.source = source
        self.keys = TraceKeys.of_log(check.partitions, source.key_tables)
        self.inputs = inputs
        self.options = options
        self.written = (
            WrittenPolicies(file, options) if options.reporting.report is not None else None
        )
        self.collectors = [
            Collector(
                policy.written,
                policy.name,
                number=number,
                unit=options.times.time_stamp_unit,
                violations=max(LISTED, options.reporting.explain_limit),
                text=policy.text,
                severity=policy.severity,
            )
            for number, policy in enumerate(check.policies, 1)
        ]
        self.elapsed = Elapsed()

    def snapshot(self) -> list[object]:
        """Return what has been found as a value for JSON, for `restore`."""
        return [*self.elapsed.snapshot(), [one.snapshot() for one in self.collectors]]

    def restore(self, snapshot: list[Any]) -> None:
        """Continue with what an earlier run has found."""
        *elapsed, found = snapshot
        self.elapsed.restore(elapsed)
        for collector, one in zip(self.collectors, found, strict=True):
            collector.restore(one)

    def facts(
        self,
        *,
        rows: int,
        seconds: float,
        mode: str,
        first: int | None,
        last: int | None,
        remarks: list[str],
    ) -> Run:
        """Return what the report says of the run as a whole.

        Args:
            rows: how many events have been checked.
            seconds: the duration of the run.
            mode: the modes of the monitors.
            first: the time-stamp of the earliest event.
            last: the time-stamp of the latest event.
            remarks: sentences about the run.
        """
        columns, key_counts = self.tallied.partitions.columns, self.tallied.key_counts
        return run_facts(
            self.file,
            self.options,
            inputs=self.inputs,
            rows=rows,
            skipped=self.source.skipped,
            seconds=self.elapsed.earlier + seconds,
            mode=mode,
            started=self.elapsed.started,
            first=first,
            last=last,
            keys=key_counts[0] if len(key_counts) == 1 and columns[0] else None,
            key_columns=columns[0] if len(columns) == 1 else (),
            remarks=remarks,
        )

    def policy_report(self, policy: int) -> PolicyReport:
        """Return the results of a policy, with its keys if policies have different ones."""
        assert self.written is not None
        partitions = self.tallied.partitions
        columns = partitions.columns[partitions.of_policies[policy]]
        tally = self.tallied.tallies[policy]
        return self.written.added_to(self.keyed_report(policy), tally, columns)

    def keyed_report(self, policy: int) -> PolicyReport:
        """Return the results of a policy without how often its left side held."""
        collector = self.collectors[policy]
        if not self.keys.has_keys(policy):
            return collector.report()
        text_of = partial(self.keys.text, policy)
        partitions = self.tallied.partitions
        if len(partitions.columns) == 1:
            return collector.report(text_of)
        partition = partitions.of_policies[policy]
        columns, count = partitions.columns[partition], self.tallied.key_counts[partition]
        return collector.report(text_of, key_columns=columns, key_count=count)


class Findings(ReportedRun):
    """Collects the violations of a run for explanations and the report.

    Args:
        check: the check that finds violations.
        source: the events of the run.
        inputs: the names of the logs.
        options: the options of the run.
        can_reread: whether the log can be read again.
        file: the formula or the policies.
    """

    def __init__(
        self,
        check: LogCheck,
        source: TextLog | TableEvents,
        inputs: list[str],
        options: RunSpec,
        *,
        can_reread: bool,
        file: Formula | PolicyFile,
    ) -> None:
        super().__init__(check, source, inputs, options, file)
        self.check = check
        self.details: Details | None = None
        self.rows: ViolationRows | None = None
        self.times: TimeTexts | None = time_texts(options, source.times)
        self.can_reread = can_reread

    def take(self) -> None:
        """Take the violations that the check has collected."""
        if not len(self.check.violations):
            return
        parts = self.check.violations.taken()
        records = np.frombuffer(parts[0], verdict_type())
        numbers, policies = (np.frombuffer(part, np.uint32) for part in parts[1:])
        for policy, collector in enumerate(self.collectors):
            is_own = policies == policy
            if is_own.any():
                own = records[is_own]
                keys = numbers[is_own] if self.keys.has_keys(policy) else None
                collector.add_violations(own["time_stamp"], own["offset"], keys)
                if self.check.messages is not None and not self.can_reread:
                    self._note_messages(policy, own, numbers[is_own])

    def _note_messages(
        self, policy: int, records: NDArray[np.void], numbers: NDArray[np.uint32]
    ) -> None:
        """Keep the messages of the violations that the report lists, while they are known.

        If the log can be read again, they are found then, with the rows and values.
        """
        messages, collector = self.check.messages, self.collectors[policy]
        if messages is None or self.check.policies[policy].message is None:
            return
        listed = set(collector.first_violations())
        stamps, offsets = records["time_stamp"].tolist(), records["offset"].tolist()
        for number, stamp, offset in zip(numbers.tolist(), stamps, offsets, strict=True):
            _, point = self.place_of(Violation(policy, number, stamp, offset))
            message = messages.take(policy, number, stamp, offset, _OF_REPORT)
            if message is not None and point in listed:
                collector.describe(*point, message=message)

    @property
    def chosen(self) -> list[Violation]:
        """The first violations of all policies, in order."""
        limit = self.options.reporting.explain_limit
        first = sorted(
            (time_stamp, policy, key or 0, offset)
            for policy, collector in enumerate(self.collectors)
            for time_stamp, offset, key in collector.first_violations(limit)
        )[:limit]
        return [Violation(policy, key, stamp, offset) for stamp, policy, key, offset in first]

    @property
    def total(self) -> int:
        """The number of violations of all policies."""
        return sum(collector.false for collector in self.collectors)

    def add_explanation(
        self, explanations: Explanations, violation: Violation, proof: Proof | UndecidedError
    ) -> None:
        """Add what `explained` has found for a violation."""
        if explanations.is_json:
            explanations.add_facts(self.facts_of(violation, proof))
            return
        title = self.title(violation)
        if isinstance(proof, UndecidedError):
            explanations.remark(f"{title}: {proof}" if title else str(proof))
        else:
            text = self.check.policies[violation.policy].text
            details = self.details_of(violation)
            explanations.add(proof, title, [text, *details] if text else details)

    def facts_of(self, violation: Violation, proof: Proof | UndecidedError) -> dict[str, object]:
        """Return what explains a violation to programs, with all rows."""
        from mtlmon.run.explained_facts import facts_of_proof

        policy = self.check.policies[violation.policy]
        facts: dict[str, object] = {"policy": policy.name, "text": policy.text or None}
        if self.keys.has_keys(violation.policy):
            facts["key"] = self.keys.text(violation.policy, violation.number)
        facts |= {"time": violation.time_stamp, "offset": violation.offset}
        row = None if self.rows is None else self.rows.of(violation)
        shown = None if self.details is None else self.details.shown(violation)
        return facts | facts_of_proof(proof, row, shown, WIDTH)

    def title(self, violation: Violation) -> str | None:
        """Return the policy and the key of a violation, or None if it has neither."""
        parts = []
        name = self.check.policies[violation.policy].name
        if name is not None:
            parts.append(f"policy {name}")
        if self.keys.has_keys(violation.policy):
            parts.append(f"key {self.keys.text(violation.policy, violation.number)}")
        return ", ".join(parts) or None

    def explained(
        self,
        violations: list[Violation],
        source: TextLog | TableEvents,
        noted: Sequence[Violation] = (),
    ) -> Iterator[tuple[Violation, Proof | UndecidedError]]:
        """Yield each violation with its proof, or with the error that says why there is none.

        Args:
            violations: the violations to explain.
            source: the log, from its beginning.
            noted: others of which only rows and values are wanted.
        """
        from mtlmon.policy import PolicyFile
        from mtlmon.run.policies import has_values

        all_of_them = [*violations, *noted]
        if isinstance(self.file, PolicyFile) and all_of_them and has_values(self.file):
            from mtlmon.checking.shown import Details

            self.details = Details(
                self.file,
                self.check.policies,
                self.check.partitions.of_policies,
                self.check.clocks,
                all_of_them,
                has_columns=self.options.reporting.report is not None,
                has_all_rows=self.options.output.rows,
                keeps_all_rows=is_json(self.options.reporting.explain_output),
                rows_option="--rows",
                unit=self.options.times.time_stamp_unit,
            )
        if source.tracks_rows:
            from mtlmon.checking.violation_rows import ViolationRows

            partitions = self.check.partitions.of_policies
            self.rows = ViolationRows(partitions, self.check.clocks, all_of_them)
        return explain_violations(
            self.check.policies,
            self.check.atoms,
            violations,
            source,
            self.check.event_count,
            self.options.times.end_time,
            self.check.partitions.of_policies,
            self.check.clocks,
            self.details,
            self.rows,
            noted,
            wording_of(self.file, self.options.times),
            options=self.options.option_names,
        )

    def details_of(self, violation: Violation) -> list[str]:
        """Return the time, row, message and values of a violation that is explained."""
        row = None if self.rows is None else self.rows.of(violation)
        details = [] if self.details is None else self.details.of(violation)
        if self.times is not None and not self.times.is_plain:
            details = [f"time {self.times.texts([violation.time_stamp])[0]}", *details]
        return details if row is None else [f"at {row}", *details]

    def reports(self, again: Callable[[], TextLog | TableEvents]) -> list[PolicyReport]:
        """Return the results of the policies; `again` opens the log once more."""
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
            with closing(again()) as log:
                self.explain_in_report(log)
        return [self.policy_report(policy) for policy in range(len(self.collectors))]

    @property
    def last(self) -> int | None:
        """The last time-stamp of the log, if it was read to its end."""
        return None if self.check.is_stopped else self.source.clock

    def run(self, seconds: float, *, is_interrupted: bool) -> Run:
        """Return what the report says of the run, which took so many seconds."""
        return self.facts(
            rows=self.check.event_count if self.check.is_stopped else self.source.rows,
            seconds=seconds,
            mode=", ".join(dict.fromkeys(one.mode for one in self.check.monitors)),
            first=self.check.first_time_stamp,
            last=self.last,
            remarks=list(self.remarks(is_interrupted=is_interrupted)),
        )

    def remarks(self, *, is_interrupted: bool) -> Iterator[str]:
        """Yield the report's remarks about the run as a whole."""
        if is_interrupted:
            yield INTERRUPTED
        if self.check.is_stopped:
            yield STOPPED_EARLY
        if self.source.skipped:
            skipped = plural(self.source.skipped, self.source.row_name)
            yield f"Skipped {skipped} that could not be read."
        if self.source.points_left_out:
            ticks = plural(self.source.points_left_out, "time-point")
            yield f"Left out {ticks} at which integers overflow."
        if self.total and not self.can_reread:
            yield NOT_EXPLAINED

    def explain_in_report(self, source: TextLog | TableEvents) -> None:
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
        for violation, proof in self.explained(explained, source, noted):
            collector, point = self.place_of(violation)
            collector.explain(*point, proof)
        for violation in (*explained, *noted):
            collector, point = self.place_of(violation)
            shown = None if self.details is None else self.details.shown(violation)
            row = None if self.rows is None else self.rows.of(violation)
            collector.describe(
                *point,
                row=None if row is None else str(row),
                message=None if shown is None else shown.message,
                values=() if shown is None else shown.named_values,
                rows_of_values={} if shown is None else shown.rows_of_values,
            )

    def place_of(self, violation: Violation) -> tuple[Collector, tuple[int, int, int | None]]:
        """Return the collector of a violation, and its time-stamp, offset and key there."""
        policy, number, time_stamp, offset = violation
        key = number if self.keys.has_keys(policy) else None
        return self.collectors[policy], (time_stamp, offset, key)


def save_report(data: ReportData, reporting: Reporting) -> None:
    """Write a report.

    Raises:
        WriteFailure: it cannot be written.
    """
    assert reporting.report is not None
    try:
        write_report(data, reporting.report)
    except ReportError as error:
        raise WriteFailure(str(error)) from None


def check_place(path: str) -> None:
    """Check that a file could exist at a path.

    Raises:
        RunError: there is no such directory, or the path is a directory.
    """
    directory = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(directory):
        raise RunError(f"cannot write {path}: there is no directory {directory}")
    if os.path.isdir(path):
        raise RunError(f"cannot write {path}: it is a directory")


def peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
