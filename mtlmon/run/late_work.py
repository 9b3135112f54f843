"""The work of runs that correct verdicts as rows come late: what is the same for all policies."""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, cast

from mtlmon.checking import TextLog
from mtlmon.checking.history_check import Bounds
from mtlmon.errors import SnapshotError
from mtlmon.run.endings import note_skipped
from mtlmon.run.failure import VIOLATION, RunError
from mtlmon.run.files import verdicts_of
from mtlmon.run.judges import NoWriter
from mtlmon.run.late_rows import LateFile, late_file, length_units, note_refused
from mtlmon.run.policies import make_pump, statuses, write_report_in_time
from mtlmon.run.policy_work import EventWork
from mtlmon.run.report import absent_atoms, plural
from mtlmon.run.running import run_to_end
from mtlmon.run.snapshot_parts import CORRECTED, joined_parts, split_parts
from mtlmon.text.native import LineOrder

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Protocol

    from mtlmon.checking.text_logs import TextBatch
    from mtlmon.run.files import Writer
    from mtlmon.run.in_order import Reasons
    from mtlmon.run.policy_work import Source
    from mtlmon.run.pump import EndTime
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.event_batch import EventBatch

    class LateCheck(Protocol):
        """A check whose verdicts change as rows come late.

        Whenever an iterator yields, there may be changes to take out.
        """

        @property
        def position(self) -> int:
            """How many rows there have been."""

        @property
        def refused_count(self) -> int:
            """How many rows came too late."""

        @property
        def unmatched(self) -> int:
            """How many retractions found no row."""

        @property
        def is_within_row(self) -> bool:
            """Whether some policies have not had the last batch yet."""

        def feed(self, batch: EventBatch, source: Source) -> Iterator[None]:
            """Take a batch of rows."""

        def pass_time(self, time_stamp: int) -> Iterator[None]:
            """Let time pass without rows."""

        def end(self, source: Source, end_time: EndTime) -> Iterator[None]:
            """End the log."""

        def close(self) -> None:
            """Release what is held."""

        def snapshot(self) -> bytes:
            """Return the state for `restore`."""

        def restore(self, snapshot: bytes) -> None:
            """Go on from a snapshot."""

    class RevisedOutput(Protocol):
        """Takes changes for a report."""

        def write(self, seconds: float, *, is_interrupted: bool) -> None:
            """Write the report on a run that took so many seconds."""

    class LateOutput(Protocol):
        """Converts changes to bytes."""

        @property
        def writer(self) -> Writer:
            """Where the bytes are."""

        def close(self) -> None:
            """Write the end of the file to the writer."""


__all__ = ["LateLines", "LateWork", "bounds_of", "late_lines", "refusal", "run_late_work"]


_STRONG = "--consistency strong, which lets rows wait, works with it"
_ONE_CLOCK = "leave --clock out, and all keys share the time of the log"


def refusal(what: str, *, of_clock: bool = False) -> RunError:
    """Return the error that verdicts cannot be corrected with something.

    Args:
        what: the options or policies.
        of_clock: whether it is a clock for each key that does not work with them. Rows that wait
            have no such clock either, so that is no way out.
    """
    return RunError(
        f"--lateness does not work yet with {what}: {_ONE_CLOCK if of_clock else _STRONG}"
    )


def bounds_of(options: RunSpec, source: Source) -> Bounds:
    """Return how late rows may be, and how long they wait; call this once rows have been read.

    Raises:
        RunError: a length of time does not fit the unit, or rows would wait for refused ones.
        MtlmonError: likewise.
    """
    assert options.times.lateness is not None
    wait = 0 if options.times.wait is None else options.times.wait
    if isinstance(source, TextLog):
        bounds = Bounds(
            length_units(options.times.lateness, "--lateness", options.times.unit, "--unit"),
            length_units(wait, "--wait", options.times.unit, "--unit"),
        )
    else:
        from mtlmon.tables.late_rows import units_of

        bounds = Bounds(
            units_of(options.times.lateness, "lateness", source.times, options.option_names),
            units_of(wait, "wait", source.times, options.option_names),
        )
    if bounds.wait > bounds.lateness:
        raise RunError(
            f"--wait {options.times.wait} is longer than --lateness {options.times.lateness}: "
            "rows would wait for others that are refused"
        )
    return bounds


class LateLines:
    """Finds the text of the lines of a text log that the histories refuse, by the same rule.

    Args:
        lateness: how late a line may be, in time units.
        late: the file for the lines.
    """

    def __init__(self, lateness: int, late: LateFile) -> None:
        self.lateness = lateness
        self.lines = LineOrder(lateness)
        self.late = late
        self.scratch = bytearray(1 << 16)

    def push(self, block: memoryview) -> None:
        """Take a block of the log."""
        self.lines.push(block)
        self.write()

    def pass_time(self, time_stamp: int) -> None:
        """Let time pass without a line."""
        if time_stamp > self.lateness:
            self.lines.pass_time(time_stamp - self.lateness)
            self.write()

    def finish(self) -> None:
        """End the log: a last line needs no line feed."""
        self.lines.finish()
        self.write()

    def write(self) -> None:
        while self.lines.take_into(self.scratch):
            pass
        if refused := self.lines.take_refused():
            self.late.write(refused)


def late_lines(options: RunSpec, source: TextLog) -> LateLines | None:
    """Return what finds the lines of a text log that come too late; None if nobody wants them.

    Raises:
        RunError: the file for them cannot be written, or a length of time does not fit.
    """
    # an error about lengths of time is told although nobody wants the lines
    lateness = bounds_of(options, source).lateness
    file = late_file(options)
    if file is None:
        return None
    lines = LateLines(lateness, file)
    source.note_block = lines.push
    return lines


class LateWork(EventWork):
    """Reads the events of a log as they come, checks them, and writes the changes of verdicts.

    Args:
        check: takes the events.
        source: the log.
        output: converts changes to bytes; None if none are wanted.
        late: finds the lines of a text log that come too late, or is the file that the log writes
            them to; None if nobody wants them.
        logs: the status of the log's files by name.
        options: the options of the run.
    """

    # what waits is with the check, which is told of the time
    has_late_rows = False
    passed = 0
    # what takes the changes for a report
    revised: RevisedOutput | None = None
    check: LateCheck
    output: LateOutput | None

    def __init__(
        self,
        check: LateCheck,
        source: Source,
        output: LateOutput | None,
        late: LateLines | LateFile | None,
        logs: Mapping[str, os.stat_result],
        options: RunSpec,
    ) -> None:
        super().__init__(source, logs, options.host)
        self.check = check
        self.output = output
        self.late = late
        self.options = options
        self.writer: Writer = NoWriter() if output is None else output.writer

    @property
    @abstractmethod
    def is_stopped(self) -> bool:
        """Whether the first violation is known, if only that is wanted."""

    @property
    def event_count(self) -> int:
        return self.check.position

    def read(self) -> Iterator[None]:
        """Check the log up to a last row without a line feed; yield now and then."""
        if isinstance(self.late, LateFile):
            self.late.begin()
        yield from super().read()

    def feed(self, batch: TextBatch | EventBatch) -> Iterator[None]:
        """Check the events of a batch; yield now and then."""
        for _ in self.check.feed(cast("EventBatch", batch), self.source):
            self.take()
            yield
            if self.is_stopped and not self.check.is_within_row:
                return

    def end_check(self, end_time: EndTime) -> Iterator[None]:
        """End the log; yield now and then."""
        if self.is_stopped:
            return
        if isinstance(self.late, LateLines):
            self.late.finish()
        for _ in self.check.end(self.source, end_time):
            self.take()
            yield

    @abstractmethod
    def take(self) -> None:
        """Take the changes out of the check."""

    @abstractmethod
    def fails(self) -> bool:
        """Whether the exit status is that of a violation, by the verdicts as they are now."""

    def finish(self) -> None:
        """Convert the remaining changes, and write the end of the file to the writer."""
        self.take()
        if self.output is not None:
            self.output.close()

    def close(self) -> None:
        self.check.close()

    def report_end(self) -> None:
        """Mention what the changes do not show."""
        source = self.source
        note_skipped(source, self.options.host)
        note_refused(self.check.refused_count, source.row_name, self.options)
        if self.check.unmatched:
            self.options.host.note(f"{plural(self.check.unmatched, 'retraction')} found no row")
        if self.is_complete and (source.unseen_atoms or not self.event_count):
            names = absent_atoms(source.unseen_atoms, self.event_count, lambda: source.seen_names)
            self.options.host.note(names)
        open_first = self.open_first() if self.is_complete else None
        if open_first is not None:
            first, earlier = open_first
            self.options.host.note(
                f"{first}, but {earlier} is undecided at the end of the log (see --end-time)"
            )

    @abstractmethod
    def open_first(self) -> tuple[str, str] | None:
        """Return the first violation, and the undecided time-points before it, as words.

        None unless only the first violation is wanted, and is not known at the end of the log.
        """

    # ---- time without events ---------------------------------------------------------------

    @property
    def known_time(self) -> int | None:
        """The largest time so far; None before the first event, and if none is wanted."""
        if self.source.clock is None or self.is_stopped:
            return None
        return max(self.source.clock, self.passed)

    def release(self, time_stamp: int) -> bool:
        """Do nothing: rows that wait are released as time passes."""
        return False

    def pass_time(self, time_stamp: int) -> None:
        """Let time pass up to a time, which is above the known one."""
        self.passed = time_stamp
        for _ in self.check.pass_time(time_stamp):
            self.take()
        if isinstance(self.late, LateLines):
            self.late.pass_time(time_stamp)

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether `snapshot` can be called."""

    def snapshot(self) -> bytes:
        """Return the settings, check and the size of the late rows as bytes for `restore`."""
        late = self.late.size if isinstance(self.late, LateFile) else 0
        header = b"" if isinstance(self.source, TextLog) else self.source.late_header
        settings = [value for _, value in self.settings()]
        head = json.dumps([settings, late, header.decode("latin-1")]).encode()
        return joined_parts(CORRECTED, [head, self.check.snapshot(), *self.own_parts()])

    def restore(self, snapshot: bytes, output_size: int) -> None:
        """Continue from the snapshot of an earlier run that has written `output_size` bytes.

        Raises:
            SnapshotError: the snapshot is damaged, or belongs to other policies or options.
        """
        text, check, *own = split_parts(snapshot, CORRECTED, 2)
        settings, late, header = json.loads(text)
        if len(settings) != len(self.settings()):
            raise SnapshotError("it was made for policies of another kind")
        for (what, value), before in zip(self.settings(), settings, strict=True):
            if value != before:
                raise SnapshotError(f"it was made {what}")
        self.check.restore(check)
        self.restore_own(own)
        if isinstance(self.late, LateFile):
            self.late.go_on(late)
        if not isinstance(self.source, TextLog):
            self.source.late_header = header.encode("latin-1")
        self.restore_output(output_size)

    @abstractmethod
    def own_parts(self) -> Sequence[bytes]:
        """Return what `restore_own` takes."""

    @abstractmethod
    def restore_own(self, parts: Sequence[bytes]) -> None:
        """Restore what the check does not hold.

        Raises:
            SnapshotError: the parts are damaged.
        """

    @abstractmethod
    def restore_output(self, size: int) -> None:
        """Go on with an output of which so many bytes have been written."""

    def settings(self) -> list[tuple[str, object]]:
        """Return the settings that must not change, each with the words for an error message."""
        options = self.options
        return [
            (
                "from tables" if not options.log.is_table else "from a text log",
                options.log.is_table,
            ),
            *options.output.settings,
            ("with another --lateness", str(options.times.lateness)),
            ("with another --wait", str(options.times.wait)),
            (f"with{'out' if options.times.late else ''} --late", options.times.late is not None),
            ("with another --op", options.log.op),
            ("with another --id", options.log.id),
        ]

    @property
    def first_setting(self) -> tuple[str, object]:
        """The setting of `settings` that says whether only the first violation is wanted."""
        is_first = self.options.judging.verdicts == "first"
        return f"with{'out' if is_first else ''} --verdicts first", is_first

    def work_in_small_steps(self, events: int) -> None:
        """Do nothing: a batch is what is read at once."""


def run_late_work(
    source: Source,
    options: RunSpec,
    reasons: Reasons,
    make: Callable[[Mapping[str, os.stat_result]], LateWork],
    summary: Callable[[float, int], str],
) -> Steps:
    """Check an open log, correct verdicts, and return the exit status.

    Args:
        source: the log.
        options: the options of the run.
        reasons: explains the violations that hold at the end, if that is wanted.
        make: makes the work, from the status of the log's files by name.
        summary: makes the summary, from the seconds of the run and the number of events before it.
    """
    logs = statuses(source)
    reasons.check(logs)
    keeps = options.checkpoint.path is not None
    verdicts = verdicts_of(options, logs, keeps=keeps)
    work = make(logs)
    signals = options.host.signals(verdicts, is_held=keeps)
    pump = make_pump(work, verdicts, signals, options)

    def report(status: int, seconds: float) -> None:
        if status != VIOLATION or not reasons.are_told:
            work.report_end()
        if (revised := work.revised) is not None:
            write_report_in_time(
                lambda is_interrupted: revised.write(seconds, is_interrupted=is_interrupted),
                status,
                signals,
                options,
            )

    return run_to_end(
        pump,
        host=options.host,
        has_violation=work.fails,
        report=report,
        summary=lambda seconds: summary(seconds, pump.events_before),
        wants_summary=options.reporting.summary,
        end_time=options.times.end_time,
    )
