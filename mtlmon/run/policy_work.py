"""Run the events of a log through the policies of a check, with or without checkpoints."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from mtlmon.checking import TextLog
from mtlmon.checking.sources import NothingYet
from mtlmon.errors import SnapshotError
from mtlmon.run.endings import never_triggered, report_end
from mtlmon.run.event_parts import EventPart
from mtlmon.run.failure import RunError
from mtlmon.run.report import is_violated, plural, policies_summary
from mtlmon.run.snapshot_parts import POLICIES, damaged, joined_parts, split_parts
from mtlmon.run.table_output import continue_table
from mtlmon.syntax.report import visible

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mtlmon.checking import LogCheck
    from mtlmon.checking.assumptions import AssumptionWatch
    from mtlmon.checking.counts import PolicyCounts
    from mtlmon.checking.outputs import Output
    from mtlmon.checking.text_logs import TextBatch
    from mtlmon.drive.native import VerdictRows
    from mtlmon.run.checkpoint import LogMark
    from mtlmon.run.files import Writer
    from mtlmon.run.findings import Findings
    from mtlmon.run.host import Host
    from mtlmon.run.people import Outcome
    from mtlmon.run.pump import EndTime
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.outputs import BatchOutput
    from mtlmon.tables.verdicts import VerdictTable
    from mtlmon.tables.violations import Judged

    Source = TextLog | TableEvents

__all__ = ["EventWork", "LogWork", "NoWriter", "PolicyWork", "unreadable"]

_Batch = TypeVar("_Batch", bound="TextBatch | EventBatch")

# After this many rows of a live log, mention the columns that no row has had.
ABSENT_ROWS = 100
SMALLEST_STEP_EVENTS = 1 << 8

LEAST_PARTS = 3
"""How many parts a snapshot has at least."""


class NoWriter:
    """Stands in for a writer when no verdicts are wanted; it is always empty."""

    def __len__(self) -> int:
        return 0

    def take(self) -> bytes:
        return b""

    def flush(self, file_descriptor: int, /) -> None:
        """Write nothing."""


class LogWork(ABC, Generic[_Batch]):
    """Reads the batches of a log.

    Args:
        source: the log.
        batches: its batches.
        assumptions: tells what the log breaks; None if nothing is assumed.
        host: is told of that, and of what else is remarkable.

    Attributes:
        is_complete: whether the log has been read to its end.
    """

    def __init__(
        self,
        source: Source,
        batches: Iterator[_Batch],
        assumptions: AssumptionWatch | None,
        host: Host,
    ) -> None:
        self.source = source
        self.host = host
        self.assumptions = assumptions
        self.is_complete = False
        self.batches = batches
        self.has_noted_absent = source.size is not None or isinstance(source, TextLog)
        # the last row of the log, if no line feed ends it
        self.tail: _Batch | None = None
        self.has_ended = False
        # what a later run has to know again; None without checkpoints
        self.part_checked: EventPart | None = None

    @property
    def wait(self) -> Callable[[int], None]:
        """The function to call before reading from a log that may have nothing to read yet."""
        assert self.source.wait is not None
        return self.source.wait

    @wait.setter
    def wait(self, wait: Callable[[int], None]) -> None:
        self.source.wait = wait

    @property
    def bytes_read(self) -> int:
        return self.source.bytes_read

    @property
    def times(self) -> Times | None:
        """The notation of times of tables; None for a text log."""
        return self.source.times

    def next_batch(self) -> _Batch | None:
        """Return the next events, or None at the end of the log.

        Raises:
            RunError: the log cannot be read.
        """
        if self.part_checked is not None:
            self.part_checked.forget_until(self.position)
        try:
            batch = next(self.batches, None)
        except OSError as error:
            raise unreadable(error) from None
        if batch is not None:
            self.note_assumptions(batch)
        return batch

    @property
    def position(self) -> int:
        """How much of the log has been checked, in this and all earlier runs."""
        return self.source.rows

    @property
    @abstractmethod
    def is_stopped(self) -> bool:
        """Whether nothing more of the log is needed."""

    @abstractmethod
    def feed(self, batch: _Batch) -> Iterator[None]:
        """Check a batch in slices."""

    @abstractmethod
    def end_check(self, end_time: EndTime) -> Iterator[None]:
        """End the log, unless the work has stopped; yield now and then."""

    def read(self) -> Iterator[None]:
        """Check the log up to a last row without a line feed; yield now and then."""
        while not self.is_stopped:
            try:
                batch = self.next_batch()
            except NothingYet:
                yield
                continue
            if batch is None:
                return
            if batch.is_tail:
                self.tail = batch
                return
            yield from self.feed(batch)
            self.note_absent()

    def end(self, end_time: EndTime) -> Iterator[None]:
        """Check a last row without a line feed, and end the log; yield now and then."""
        self.has_ended = True
        while self.tail is not None:
            batch, self.tail = self.tail, None
            yield from self.feed(batch)
            if not self.is_stopped:
                self.tail = self.next_batch()
        yield from self.end_check(end_time)
        self.is_complete = not self.is_stopped

    @property
    def has_late_rows(self) -> bool:
        """Whether rows wait for others that come late."""
        return self.source.has_late_rows

    def check_released(self, batches: Iterable[_Batch]) -> None:
        """Check batches whose rows have waited for others that are now too late."""
        for batch in batches:
            self.note_assumptions(batch)
            for _ in self.feed(batch):
                pass
            if self.is_stopped:
                break

    def note_assumptions(self, batch: _Batch) -> None:
        """Mention the assumptions that the events of a batch break."""
        if self.assumptions is not None:
            for message in self.assumptions.note(batch, self.source):
                self.host.note(message)

    def note_absent(self) -> None:
        """Mention columns that are missing from a live log, whose end may never come."""
        source = self.source
        if self.has_noted_absent or isinstance(source, TextLog) or source.rows < ABSENT_ROWS:
            return
        self.has_noted_absent = True
        for message in source.absent_columns:
            self.host.note(message)


class EventWork(LogWork["TextBatch | EventBatch"]):
    """Reads the events of a log up to its last row, and then that row and the end.

    Args:
        source: the log.
        logs: the status of the log's files by name.
        host: is told what is remarkable.
        assumptions: tells which assumptions the log breaks; None if there are none.

    Attributes:
        name: the name of the log in messages.
    """

    def __init__(
        self,
        source: Source,
        logs: Mapping[str, os.stat_result],
        host: Host,
        assumptions: AssumptionWatch | None = None,
    ) -> None:
        super().__init__(source, iter(source), assumptions, host)
        self.logs_by_name = logs
        self.logs: Iterable[os.stat_result] = logs.values()
        self.name = next(iter(logs)) if len(logs) == 1 else f"the {plural(len(logs), 'log')}"

    @property
    @abstractmethod
    def event_count(self) -> int:
        """The number of events that have been checked, in this and all earlier runs."""

    # ---- checkpoints -----------------------------------------------------------------------

    def begin_part(self) -> None:
        """Start with nothing of the log that a later run has to know again."""
        self.part_checked = EventPart(self.source)

    @property
    def position(self) -> int:
        """The number of events of the log that have been checked, in this and all earlier runs."""
        return self.event_count

    @property
    def amount(self) -> str:
        return plural(self.event_count, "event")

    def settle(self) -> bool:
        """Do nothing: a check is always between two events."""
        return False

    def log_mark(self) -> LogMark:
        """Return how the events up to the position are known again."""
        assert self.part_checked is not None
        return self.part_checked.mark(self.event_count)

    def skip(self, mark: LogMark) -> Iterator[None]:
        """Go to the position, or read the events up to there without checking; yield now and then.

        Raises:
            LogEnds: the log has fewer events than that.
            LogDiffers: it has other events.
            SnapshotError: the reader of the log cannot go on.
        """
        assert self.part_checked is not None
        yield from self.part_checked.skip(mark, self.event_count)


class PolicyWork(EventWork):
    """Reads the events of a log, checks them, and converts the verdicts to bytes.

    Args:
        check: the check that monitors the events.
        source: the log.
        output: converts verdicts to bytes; None if no verdicts are wanted.
        findings: collects violations for explanations and the report; None if neither is wanted.
        logs: the status of the log's files by name.
        options: the options of the command line.
        assumptions: tells which assumptions the log breaks; None if there are none.

    Attributes:
        is_complete: whether the log has been read to its end.
        name: the name of the log in messages.
    """

    def __init__(
        self,
        check: LogCheck,
        source: Source,
        output: Output | None,
        findings: Findings | None,
        logs: Mapping[str, os.stat_result],
        options: RunSpec,
        assumptions: AssumptionWatch | None = None,
    ) -> None:
        super().__init__(source, logs, options.host, assumptions)
        self.keys_forgotten = 0
        self.check = check
        self.output = output
        self.findings = findings
        self.options = options
        self.writer: Writer = NoWriter() if output is None else output.writer
        if output is not None and output.lines is not None:
            check.deliver_to(output.lines)

    @property
    def is_stopped(self) -> bool:
        return self.check.is_stopped

    @property
    def event_count(self) -> int:
        return self.check.position

    # ---- the work --------------------------------------------------------------------------

    def feed(self, batch: TextBatch | EventBatch) -> Iterator[None]:
        """Check the events of a batch; yield now and then."""
        for _ in self.steps_of(batch):
            self.take()
            yield
        forgotten = sum(self.check.keys_forgotten)
        if self.assumptions is not None and forgotten != self.keys_forgotten:
            self.assumptions.forget_keys()
        self.keys_forgotten = forgotten

    def steps_of(self, batch: TextBatch | EventBatch) -> Iterator[None]:
        """Check the events of a batch; there may be verdicts to take out after each step."""
        return self.check.feed(batch, self.source)

    def end_check(self, end_time: EndTime) -> Iterator[None]:
        """End the log; yield now and then."""
        if not self.check.is_stopped:
            for _ in self.check.end(self.source, end_time):
                self.take()
                yield

    def take(self) -> None:
        """Take the verdicts and violations out of the check."""
        if self.findings is not None:
            self.findings.take()
        if self.output is not None and len(self.check.verdicts):
            self.output.put(self.check.verdicts)

    def finish(self) -> None:
        """Convert the remaining verdicts, and write the end of the file to the writer."""
        self.take()
        if self.output is not None:
            self.output.close()

    def close(self) -> None:
        self.check.close()

    # ---- time without events ---------------------------------------------------------------

    @property
    def known_time(self) -> int | None:
        """No event is below this time; None before the first event, and if none is wanted."""
        if self.source.clock is None or self.is_stopped:
            return None
        return max(self.source.clock, self.source.passed)

    def pass_time(self, time_stamp: int) -> None:
        """Declare that no later event is below a time, which is above the known one."""
        for _ in self.check.pass_time(self.source, time_stamp):
            self.take()
        self.source.pass_time(time_stamp)

    def release(self, time_stamp: int) -> bool:
        """Declare that rows below a time come too late; return whether others can be read now.

        Rows of tables that waited for it are checked at once.
        """
        if isinstance(self.source, TextLog):
            return self.source.release(time_stamp)
        self.check_released(self.source.rows_until(time_stamp))
        return False

    # ---- what is told ----------------------------------------------------------------------

    @property
    def counts(self) -> dict[str | None, PolicyCounts]:
        """How many time-points are true, false and undecided so far, by the name of the policy."""
        names = (policy.name for policy in self.check.policies)
        return dict(zip(names, self.check.counts, strict=True))

    def judged(self) -> Judged:
        """Return what the rows of its table are about."""
        from mtlmon.tables.violations import Judged

        table = cast("VerdictTable", cast("BatchOutput[VerdictRows]", self.output).table)
        return Judged(self.check.policies, "message", keys=table.key_columns)

    def require_violations(self) -> None:
        """Raise RunError if violations can be in equivalences."""
        if not self.check.has_all_violations:
            raise RunError(
                "violations() needs the verdict of every row, also where it follows from an "
                "equivalence: add resolve=True, or mode='naive', and leave out verdicts='none'"
            )

    def has_violation(self) -> bool:
        """Whether a policy that matters is violated more often than it may be."""
        check = self.check
        return any(
            is_violated(policy, counts, triggered)
            for policy, counts, triggered in zip(
                check.policies, check.counts, check.triggered, strict=True
            )
            if policy.is_at_least(self.options.judging.fail_on)
        )

    def fails(self) -> bool:
        """Whether the exit status is that of a violation."""
        if self.options.judging.fail_on_vacuous and never_triggered(self.check):
            return True
        return self.has_violation()

    def outcome(self) -> Outcome:
        """Return what came out of the run over the whole log."""
        from mtlmon.run.people import outcome_of

        return outcome_of(self.check)

    def report_end(self) -> None:
        """Mention what the verdicts do not show."""
        report_end(self)

    def open_first(self) -> tuple[str, str] | None:
        """Return the earliest violation, and the undecided time-points before it, as words.

        None unless only the first violation is wanted, and is not known at the end of the log.
        """
        if self.check.open_first is None:
            return None
        first, earliest = self.check.open_first
        return (
            f"{first.time_stamp}:{first.offset} is false",
            f"a time-point of time-stamp {earliest}",
        )

    def explain(self, again: Callable[[], Source]) -> None:
        """Explain the first violations; `again` opens the log once more."""
        assert self.findings is not None
        with closing(again()) as log:
            self.findings.explain(log)

    def show_context(self, again: Callable[[], Source]) -> None:
        """Show the rows around the first violations; `again` opens the log once more."""
        from mtlmon.run.context import show_context

        assert self.findings is not None
        with closing(again()) as log:
            show_context(self.findings, log, self.options)

    def write_report(
        self, again: Callable[[], Source], seconds: float, *, is_interrupted: bool
    ) -> None:
        """Write the report; the arguments are those of `Findings.write_report`."""
        assert self.findings is not None
        self.findings.write_report(again, seconds, is_interrupted=is_interrupted)

    def summary(self, seconds: float) -> str:
        """Return counts and the speed of a run that took so many seconds."""
        text = policies_summary(self.check, self.source, seconds, self.assumptions)
        tracker = self.check.row_tracker
        first = None if tracker is None else tracker.first_violation
        # the outcome for a person says so, too
        if first is None or self.options.output.for_people:
            return text
        return f"{text}\n\nfirst violation at {visible(str(first[1]))}"

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether `snapshot` can be called: not between the ticks before a row, nor at the end."""
        return not self.has_ended and not self.check.is_within_row

    def snapshot(self) -> bytes:
        """Return the settings, check, keys and findings as bytes for `restore`."""
        findings = None if self.findings is None else self.findings.snapshot()
        settings = [value for _, value in self.settings()]
        parts = [
            json.dumps(settings).encode(),
            self.check.snapshot(),
            json.dumps(findings).encode(),
            *(b"" if keys is None else keys.snapshot() for keys in self.source.key_tables),
        ]
        return joined_parts(POLICIES, parts)

    def restore(self, snapshot: bytes, output_size: int) -> None:
        """Continue from the snapshot of an earlier run that has written `output_size` bytes.

        Raises:
            SnapshotError: the snapshot is damaged, or belongs to other policies or options.
        """
        settings, check, findings, *tables = split_parts(snapshot, POLICIES, LEAST_PARTS)
        for (what, value), before in zip(self.settings(), json.loads(settings), strict=True):
            if value != before:
                raise SnapshotError(f"it was made {what}")
        self.check.restore(check)
        if self.check.needs_all_ticks:
            self.source.only_due_ticks(False)
        if len(tables) != len(self.source.key_tables):
            raise damaged()
        counts = self.check.key_counts
        for keys, table, count in zip(self.source.key_tables, tables, counts, strict=True):
            if keys is not None:
                keys.restore(table)
                if len(keys) < count:
                    raise damaged()
        if self.findings is not None:
            self.findings.restore(json.loads(findings))
        continue_table(self.output, output_size, self.options)

    def settings(self) -> list[tuple[str, object]]:
        """Return the settings that must not change, each with the words for an error message."""
        options = self.options
        return [
            (
                "from tables" if not options.log.is_table else "from a text log",
                options.log.is_table,
            ),
            ("with another --output-format", options.output.format),
            ("with other keys", list(map(list, self.check.partitions.columns))),
            (
                f"with{'out' if options.reporting.explain else ''} --explain",
                options.reporting.explain,
            ),
        ]

    def work_in_small_steps(self, events: int) -> None:
        """Yield after about this many events."""
        self.check.slice_events = min(self.check.slice_events, max(SMALLEST_STEP_EVENTS, events))


def unreadable(error: OSError) -> RunError:
    """Convert the error of a log that cannot be read."""
    name = f" {error.filename}" if error.filename else " the log"
    return RunError(f"cannot read{name}: {error.strerror or error}")
