"""Run policies on a log for the playground, with the machinery of the command."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from mtlmon.checking import LogCheck, TextLog, TraceKeys
from mtlmon.checking.explaining import explain_violations
from mtlmon.checking.shown import Details
from mtlmon.cli.terminal import note
from mtlmon.engine.native import MemoryLimit
from mtlmon.errors import MtlmonError
from mtlmon.policy.written import written_policies
from mtlmon.run.endings import note_skipped, note_waiting
from mtlmon.run.formula_judge import FormulaJudge
from mtlmon.run.judges import Taker
from mtlmon.run.judging import PolicyWork
from mtlmon.run.option_rules import require_no_columns, require_no_keys
from mtlmon.run.policies import assumption_watch, knows_rows, open_source, prepare_messages
from mtlmon.run.report import absent_atoms
from mtlmon.run.reports import time_zone_of, wording_of
from mtlmon.run.steps import has_variables
from mtlmon.serving.findings import Findings, PolicyFindings, StreamFindings, Verdict
from mtlmon.support.option_names import COMMAND
from mtlmon.verdicts.arrays import FALSE, verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.checking.explaining import Violation
    from mtlmon.errors import UndecidedError
    from mtlmon.explanation.proof import Proof
    from mtlmon.policy import PolicyFile
    from mtlmon.run.policy_work import Source
    from mtlmon.run.spec import RunSpec

__all__ = ["KEPT", "explained_by", "found_by", "unnamed_file"]

KEPT = 10_000
"""The violations of a policy that are drawn, and as many of its other verdicts."""

# More events than a log can have.
_ALL_EVENTS = 1 << 62


def found_by(file: PolicyFile, text: str, options: RunSpec) -> tuple[Findings, Exception | None]:
    """Run policies on the log, which is standard input.

    Args:
        file: the policies and streams.
        text: the policy file.
        options: the options of the command, which have adopted the settings of the file.

    Returns:
        What was found, and the error that has ended the run, if any.
    """
    reasons: list[tuple[str, str]] = []
    if has_variables(file):
        from mtlmon.cli.serving_relations import found_relations

        policies, reasons, events, error = found_relations(file, text, options)
        unit, has_dates = options.times.unit, False
    else:
        checking = Checking(file, options)
        error = checking.run() if file.policies else None
        policies, events = checking.policies(), checking.events
        unit, has_dates = checking.unit, checking.has_dates
    streams = None
    if file.streams and error is None:
        options.log.input.seek(0)
        try:
            streams, count, unit, has_dates = stream_findings(file, options)
            events = max(events, count)
        except MtlmonError as failure:
            error = failure
    zone = time_zone_of(file, options.log)
    return Findings(policies, streams, unit, has_dates, zone, events, reasons=reasons), error


def checked(file: PolicyFile, options: RunSpec) -> LogCheck:
    """Return a check of the policies that keeps the numbers of keys.

    Raises:
        RunError: the policies need a table, but the log is text.
    """
    if not options.log.is_table:
        require_no_columns(file, options)
    check = LogCheck(
        file.policies,
        options.judging.mode,
        key=options.log.key_columns,
        verdicts="all",
        resolve=True,
        keep_keys=True,
        max_memory=MemoryLimit(options.limits.max_memory, COMMAND),
        counts_triggered=True,
        rows=knows_rows(file.policies, options.log),
    )
    if not options.log.is_table:
        require_no_keys(check.partitions, file, options)
    return check


class Checking:
    """The run of policies without variables.

    Args:
        file: the policies.
        options: the options of the command.

    Attributes:
        events: how many events were checked.
        unit: the unit of time-stamps, or None.
        has_dates: whether they are dates.
    """

    def __init__(self, file: PolicyFile, options: RunSpec) -> None:
        self.file = file
        self.options = options
        self.events = 0
        self.unit = options.times.time_stamp_unit
        self.has_dates = False
        self._check: LogCheck | None = None
        self._false: list[list[Verdict]] = []
        self._others: list[list[Verdict]] = []
        # for each policy, the violations of each key by its number
        self._violating: list[Counter[int]] = []
        self._keys: TraceKeys | None = None

    def run(self) -> Exception | None:
        """Read the log; return the error that has ended the run, if any."""
        check = self._check = checked(self.file, self.options)
        self._false = [[] for _ in check.policies]
        self._others = [[] for _ in check.policies]
        self._violating = [Counter() for _ in check.policies]
        prepare_messages(check, self.options)
        with closing(open_source(check, self.file, self.options)) as source:
            if check.repeats_ticks:
                source.only_due_ticks()
            if check.row_tracker is not None:
                source.track_rows()
            if not isinstance(source, TextLog):
                self.unit = source.times.resolution or source.times.unit
            watch = assumption_watch(self.file, source, self.options.times)
            output = Taker(lambda _: self._take(check, source))
            judge = FormulaJudge(check, source, output, None, self.options)
            names = [policy.name for policy in check.policies]
            work = PolicyWork([judge], source, {}, self.options, names, watch)
            try:
                for steps in (work.read(), work.end(self.options.times.end_time)):
                    for _ in steps:
                        pass
            except (MtlmonError, OSError) as error:
                work.take()
                return error
            finally:
                if not isinstance(source, TextLog):
                    self.has_dates = not source.times.is_plain
                self.events = check.event_count
                check.close()
            note_skipped(source, self.options.host)
            if source.unseen_atoms or not check.event_count:
                note(absent_atoms(source.unseen_atoms, self.events, lambda: source.seen_names))
            note_waiting(source.waiting_rows, source.row_name, self.options.host)
            self._add_pending(check, source)
        return None

    def _take(self, check: LogCheck, source: Source) -> None:
        """Take the verdicts that have been decided."""
        tracker = check.row_tracker
        rows = None if tracker is None else tracker.found(check.verdicts).rows
        has_lines = tracker is None or all(file.has_lines for file in tracker.files.files)
        parts = check.verdicts.taken()
        records = np.frombuffer(parts[0], verdict_type())
        numbers, policies = (np.frombuffer(part, np.uint32).tolist() for part in parts[1:])
        places = [-1] * len(records) if rows is None else rows.tolist()
        stamps, offsets = records["time_stamp"].tolist(), records["offset"].tolist()
        values = (records["kind"] != FALSE).tolist()
        keys = self._keys = TraceKeys(check.partitions, tuple(source.key_tables))
        for policy, number, stamp, offset, value, row in zip(
            policies, numbers, stamps, offsets, values, places, strict=True
        ):
            text = ""
            if not value:
                self._violating[policy][number] += 1
                if check.messages is not None:
                    text = check.messages.take(policy, number, stamp, offset) or ""
            kept = (self._others if value else self._false)[policy]
            if len(kept) < KEPT:
                line = row if row >= 0 and has_lines else None
                key = keys.text(policy, number)
                kept.append(Verdict(policy, number, stamp, offset, value, line, key, text))

    def _add_pending(self, check: LogCheck, source: Source) -> None:
        """Add the time-points that are undecided at the end of the log."""
        keys = TraceKeys(check.partitions, tuple(source.key_tables))
        for policy, kept in enumerate(self._others):
            for number in check.pending_keys(policy):
                key = keys.text(policy, number)
                for point in check.pending(policy, number):
                    if len(kept) >= 2 * KEPT:
                        break
                    kept.append(
                        Verdict(policy, number, point.time_stamp, point.offset, None, None, key)
                    )

    def policies(self) -> list[PolicyFindings]:
        """Return the verdicts of each policy."""
        check = self._check
        if check is None:
            return []
        return [
            PolicyFindings(
                policy.name,
                written.text,
                policy.text,
                policy.severity,
                sorted([*false, *others], key=lambda one: (one.time_stamp, one.number, one.offset)),
                counts.true,
                counts.false,
                counts.undecided,
                tally.has_failed,
                never_triggered=tally.is_untriggered,
                violating_keys=self._violating_keys(number),
                key_count=self._key_count(number),
            )
            for number, (policy, written, false, others, counts, tally) in enumerate(
                zip(
                    check.policies,
                    written_policies(self.file, self.options.policies.constants),
                    self._false,
                    self._others,
                    check.counts,
                    check.tallies,
                    strict=True,
                )
            )
        ]

    def _violating_keys(self, policy: int) -> dict[str, int]:
        """How many violations each key has that has any."""
        if self._keys is None or not self._keys.has_keys(policy):
            return {}
        text_of = self._keys.text
        return {text_of(policy, key): count for key, count in self._violating[policy].items()}

    def _key_count(self, policy: int) -> int:
        """How many keys there are."""
        check = self._check
        if check is None or self._keys is None or not self._keys.has_keys(policy):
            return 0
        return check.key_counts[check.partitions.of_policies[policy]]


def stream_findings(
    file: PolicyFile, options: RunSpec
) -> tuple[StreamFindings, int, str | None, bool]:
    """Return the values of streams, the number of events, and what is known of their times.

    Raises:
        RunError, MtlmonError: the log cannot be read.
    """
    from mtlmon.cli.plotting import StreamCollector
    from mtlmon.cli.streams import StreamWork, open_streams, require_one_key
    from mtlmon.tables.stream_values import StreamTable

    require_one_key(file, options)
    memory = MemoryLimit(options.limits.max_memory, COMMAND)
    names = tuple(file.streams)
    if not options.log.is_table:
        require_no_columns(file, options, of_streams=True)
    with closing(open_streams(names, file, memory, options)) as source:
        unit, has_dates = options.times.time_stamp_unit, False
        if isinstance(source, TextLog):
            table = StreamTable(names)
        else:
            table = StreamTable(
                names,
                source.partitions[0],
                source.keys,
                source.times,
                lambda: source.guessed_streams,
            )
        collector = StreamCollector(table, names, file)
        work = StreamWork(source, collector, memory, None)
        for _ in work.read():
            pass
        for _ in work.end(options.times.end_time):
            pass
        if not isinstance(source, TextLog):
            unit = source.times.resolution or source.times.unit
            has_dates = not source.times.is_plain
        times, keys, streams = collector.collected()
        return StreamFindings(times.tolist(), keys, streams), source.rows, unit, has_dates


def explained_by(
    file: PolicyFile, wanted: Sequence[Violation], options: RunSpec
) -> Iterator[tuple[Violation, Proof | UndecidedError, str, list[str]]]:
    """Yield verdicts with their proofs, or with the error that says why there is none.

    Args:
        file: the policies, without variables.
        wanted: the verdicts, which need not be violations.
        options: the options of the command.

    Yields:
        The verdict, the proof, the policy and key in words, and the values there.

    Raises:
        RunError, MtlmonError: the log cannot be read.
    """
    check = checked(file, options)
    details = Details(file, check, wanted)
    with closing(open_source(check, file, options, is_for_explanations=True)) as source:
        source.track_rows()
        keys = TraceKeys(check.partitions, tuple(source.key_tables))
        found = explain_violations(
            check,
            wanted,
            source,
            _ALL_EVENTS,
            options.times.end_time,
            details,
            wording=wording_of(file, options.times),
            options=COMMAND,
        )
        for violation, proof in found:
            policy = check.policies[violation.policy]
            parts = [] if policy.name is None else [f"policy {policy.name}"]
            if keys.has_keys(violation.policy):
                parts.append(f"key {keys.text(violation.policy, violation.number)}")
            text = [policy.text] if policy.text else []
            yield violation, proof, ", ".join(parts), [*text, *details.of(violation)]
    check.close()


def unnamed_file() -> BinaryIO:
    """Return a new file in memory; on disk, without a name, where the system has no such files."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("mtlmon"), "w+b")
    return tempfile.TemporaryFile()
