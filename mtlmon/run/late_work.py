"""The work of runs that correct verdicts as rows come late."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, cast

from mtlmon.checking.history_check import Bounds
from mtlmon.checking.text_logs import TextLog, order_as_bytes, restore_order
from mtlmon.run.endings import (
    note_left_out,
    note_skipped,
    note_untriggered,
    note_waiting,
    report_untriggered,
)
from mtlmon.run.failure import VIOLATION, RunError
from mtlmon.run.in_order import notes_outcome
from mtlmon.run.judges import NoWriter
from mtlmon.run.late_rows import (
    LateFile,
    TextOrder,
    late_file,
    length_units,
    note_incomplete,
    note_refused,
    note_unmoved,
)
from mtlmon.run.policies import make_pump, write_report_in_time
from mtlmon.run.policy_work import EventWork
from mtlmon.run.report import absent_atoms, corrections_summary, plural
from mtlmon.run.running import run_to_end
from mtlmon.run.snapshot_parts import CORRECTED, damaged, joined_parts, require_same, split_parts

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Protocol

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.assumptions import AssumptionWatch
    from mtlmon.checking.changes import Change
    from mtlmon.checking.final_rows import FinalRows
    from mtlmon.checking.late_checks import LateChecks
    from mtlmon.checking.late_first import FirstViolation
    from mtlmon.checking.text_logs import LineEvents, TextBatch
    from mtlmon.policy.limits import PolicyCounts, Tally
    from mtlmon.run.changed_answers import ChangelogOutput, ChangesOutput
    from mtlmon.run.checkpoint import LogMark
    from mtlmon.run.files import VerdictFile, Writer
    from mtlmon.run.in_order import Reasons
    from mtlmon.run.policy_work import Source
    from mtlmon.run.pump import EndTime
    from mtlmon.run.reports import LateReport
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.text.native import LineOrder

    class Holder(Protocol):
        """Is part of a snapshot."""

        def snapshot(self) -> bytes: ...
        def restore(self, snapshot: bytes, /) -> None: ...


_SIZE = struct.Struct("<Q")

__all__ = ["LateLines", "LateWork", "bounds_of", "late_lines", "run_late_work"]


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


class LateLines(TextOrder):
    """Finds the text of the lines of a text log that the histories refuse, by the same rule.

    Args:
        lateness: how late a line may be, in time units.
        late: the file for the lines.
        joins_lines: as for `TextOrder`.
    """

    late: LateFile

    def __init__(self, lateness: int, late: LateFile, *, joins_lines: bool) -> None:
        super().__init__(lateness, late, joins_lines=joins_lines)
        self.lateness = lateness
        self.scratch = bytearray(1 << 16)

    def pass_time(self, time_stamp: int) -> None:
        """Let time pass without a line."""
        if time_stamp > self.lateness:
            self.lines.pass_time(time_stamp - self.lateness)
            self.take_refused()

    def take_refused(self) -> None:
        while self.lines.take_into(self.scratch):
            pass
        super().take_refused()

    def given_state(self) -> bytes:
        """Return what is known by the lines so far, for `restore_given`."""
        return _SIZE.pack(self.late.size) + order_as_bytes(self.lines)

    def restore_given(self, state: bytes) -> None:
        """Go on from a state; nothing must have come.

        Raises:
            SnapshotError: the file of late lines has lost some.
        """
        # what was written after the snapshot comes again
        self.late.resume(*_SIZE.unpack_from(state))
        restore_order(self.lines, state[_SIZE.size :])


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
    lines = LateLines(lateness, file, joins_lines=options.log.signature is not None)
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
        events: what reads atoms with arguments in a text log; None if nothing does.
        first: finds the first violation, if only that is wanted; else None.
        revised: takes the changes for a report; None if there is none.
        assumptions: tells which assumptions the log breaks; None if there are none.
    """

    # what waits is with the check, which is told of the time
    has_late_rows = False
    passed = 0

    def __init__(
        self,
        check: LateChecks,
        source: Source,
        output: ChangelogOutput | ChangesOutput | None,
        late: LateLines | LateFile | None,
        logs: Mapping[str, os.stat_result],
        options: RunSpec,
        *,
        events: LineEvents | None,
        first: FirstViolation | None,
        revised: LateReport | None,
        assumptions: AssumptionWatch | None = None,
    ) -> None:
        super().__init__(source, logs, options, assumptions)
        self.check = check
        self.output = output
        self.late = late
        self.events = events
        self.first = first
        self.revised = revised
        self.writer: Writer = NoWriter() if output is None else output.writer
        self.final_rows: FinalRows | None = None
        if assumptions is not None:
            # PERF: few files assume anything
            from mtlmon.checking.final_rows import FinalRows

            self.final_rows = FinalRows(
                source.key_tables,
                assumptions.partitions,
                lambda: bounds_of(options, source).lateness,
                equality=options.log.op is not None and options.log.id is None,
                inputs=lambda batch: batch.inputs,
            )

    def note_assumptions(self, batch: TextBatch | EventBatch) -> None:
        """Mention the assumptions that rows break which are final with the events of a batch."""
        if (final := self.final_rows) is not None:
            self.emit_broken(final.push(cast("EventBatch", batch)), final)

    @property
    def is_stopped(self) -> bool:
        return self.first is not None and self.first.is_known

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
        self.check.checks[0].bytes_beside = self.bytes_beside
        for _ in self.check.feed(cast("EventBatch", batch), self.source):
            self.take()
            yield
            if self.is_stopped and not self.check.is_within_row:
                return
        self.pass_closed()

    @property
    def bytes_beside(self) -> int:
        """The number of bytes that are held of rows beside the check."""
        held = 0 if self.final_rows is None else self.final_rows.byte_count
        return held + (0 if isinstance(self.source, TextLog) else self.source.bytes_of_moves)

    def end_check(self, end_time: EndTime) -> Iterator[None]:
        """End the log; yield now and then."""
        if self.is_stopped:
            return
        if isinstance(end_time, int):
            self.passed = max(self.passed, end_time)
        if isinstance(self.late, LateLines):
            self.late.finish()
        for _ in self.check.end(self.source, end_time):
            self.take()
            yield
        if self.first is not None:
            self.put(self.first.end())
        if self.final_rows is not None:
            self.emit_broken(self.final_rows.end(), self.final_rows)

    def take(self) -> None:
        """Take the changes out of the check."""
        rows = self.check.taken()
        if self.revised is not None:
            self.revised.take(rows)
        self.put(rows if self.first is None else self.first.take(rows))

    def put(self, rows: Sequence[Change]) -> None:
        """Convert changes."""
        if self.output is not None and rows:
            known = max(self.source.clock or 0, self.check.closed_below)
            self.output.arrival = max(known, self.passed)
            self.output.put(rows)

    def finish(self) -> None:
        """Convert the remaining changes, and write the end of the file to the writer."""
        self.take()
        if self.output is not None:
            self.output.close()

    def close(self) -> None:
        """End the threads of slices."""
        if self.check.answers is not None:
            self.check.answers.close()

    def report_end(self) -> None:
        """Mention what the changes do not show."""
        source = self.source
        note_skipped(source, self.options.host)
        note_refused(self.check.refused_count, source.row_name, self.options)
        self.report_unmatched()
        if self.is_complete and (source.unseen_atoms or not self.event_count):
            names = absent_atoms(source.unseen_atoms, self.event_count, lambda: source.seen_names)
            self.options.host.note(names)
        if self.is_complete:
            self.note_open_first()
        answers = self.check.answers
        note_left_out(0 if answers is None else answers.left_out, self.host)
        if not self.is_complete:
            return
        if answers is not None:
            from mtlmon.run.relations import write_sample

            write_sample(answers.history.chunked.engine, self.options)
        note_untriggered(self, self.options)
        if self.check.plain is not None:
            note_waiting(self.check.plain.waiting_rows, source.row_name, self.options.host)
        report_untriggered(self, self.options)

    def report_unmatched(self) -> None:
        """Mention retractions that have found no row, and counts that rows have not reached."""
        if self.check.unmatched:
            self.options.host.note(f"{plural(self.check.unmatched, 'retraction')} found no row")
        note_incomplete(self.check.incomplete, self.source.row_name, self.options)
        if not isinstance(self.source, TextLog):
            note_unmoved(self.source.unmoved, self.options)

    def report_corrections(self) -> None:
        """Mention what the run that explains does not know, as it gets the rows that count."""
        if notes_outcome(self.options):
            note_refused(self.check.refused_count, self.source.row_name, self.options)
            self.report_unmatched()

    def note_open_first(self) -> None:
        """Mention the first violation, if it is not known because of an undecided time-point."""
        if self.first is None or self.first.open_before is None:
            return
        (time_stamp, offset), earlier = self.first.open_before
        what, before = "false", f"a time-point of time-stamp {earlier}"
        if self.check.answers is not None:
            what, before = "violated", "a time-point before it"
        self.options.host.note(
            f"{time_stamp}:{offset} is {what}, but {before} is undecided at the end of the log "
            "(see --end-time)"
        )

    @property
    def tallies(self) -> list[Tally]:
        """What is counted of each policy, by the verdicts as they are now."""
        if self.check.answers is not None and self.options.judging.reports_vacuous:
            # a log without rows triggers nothing
            _ = self.check.answers.history
        return [one for check in self.check.checks for one in check.tallies]

    @property
    def counts(self) -> dict[str | None, PolicyCounts]:
        """How many time-points are true, false and undecided, by the name of the policy.

        Raises:
            RunError: verdicts may be equivalent to others, and these are not counted.
        """
        for policy in () if self.check.plain is None else self.check.plain.uncounted:
            name = "the formula" if policy.name is None else policy.name
            raise RunError(
                f"verdicts of {name} may be equivalent to others, which are not counted with "
                "--lateness: add --resolve, or read the summary"
            )
        return {one.policy.name: one.counts for one in self.tallies}

    # ---- time without events ---------------------------------------------------------------

    @property
    def known_time(self) -> int | None:
        """The largest time so far; None before the first event, and if none is wanted."""
        if self.source.clock is None or self.is_stopped:
            return None
        return max(self.source.clock, self.passed, self.check.closed_below)

    def release(self, time_stamp: int) -> bool:
        """Do nothing: rows that wait are released as time passes."""
        return False

    def pass_time(self, time_stamp: int) -> None:
        """Let time pass up to a time, which is above the known one."""
        self.passed = time_stamp
        for _ in self.check.pass_time(time_stamp):
            self.take()
        if self.final_rows is not None:
            self.emit_broken(self.final_rows.pass_time(time_stamp), self.final_rows)
        if isinstance(self.late, LateLines):
            self.late.pass_time(time_stamp)

    def count_events(self, start: int, end: int, count: int) -> None:
        """Let it be known that exactly so many events lie in an interval of time."""
        for _ in self.check.count_events(start, end, count):
            self.take()
        if self.final_rows is not None:
            self.emit_broken(self.final_rows.count_events(start, end, count), self.final_rows)
        self.pass_closed()

    def pass_closed(self) -> None:
        """Let it be as late for lines of text as counts of events have shown."""
        if isinstance(self.late, LateLines):
            self.late.pass_time(self.check.closed_below)

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether `snapshot` can be called: not within a batch, nor at the end."""
        return not (self.has_ended or self.check.is_within_row) and self.is_at_event

    @property
    def time_order(self) -> LineOrder | None:
        """What finds lines that come too late; the check knows by itself how time has passed."""
        return self.late.lines if isinstance(self.late, LateLines) else None

    def skip(self, mark: LogMark) -> Iterator[None]:
        answers = self.check.answers
        if self.rows_read is not None and answers is not None:
            # the last event may be a late one
            yield from self.rows_read.skip(mark, clock=answers.history.leader.now())
            return
        yield from super().skip(mark)
        if answers is not None:
            # what is wrong with the snapshot is said before anything is written
            _ = answers.history

    def snapshot(self) -> bytes:
        """Return the settings, check and the size of the late rows as bytes for `restore`."""
        late = self.late.size if isinstance(self.late, LateFile) else 0
        header = b"" if isinstance(self.source, TextLog) else self.source.late_header
        settings = [value for _, value in self.settings()]
        head = json.dumps([settings, late, header.decode("latin-1")]).encode()
        holders = [*self.keys, *self.holders]
        own = (b"" if one is None else one.snapshot() for one in holders)
        return joined_parts(CORRECTED, [head, self.check.snapshot(), *own])

    def restore(self, snapshot: bytes, output_size: int) -> None:
        """Continue from the snapshot of an earlier run that has written `output_size` bytes.

        Raises:
            SnapshotError: the snapshot is damaged, or belongs to other policies or options.
        """
        text, check, *own = split_parts(snapshot, CORRECTED, 7)
        settings, late, header = json.loads(text)
        require_same(self.settings(), settings)
        holders: list[Holder | None] = [*self.keys, *self.holders]
        if len(own) != len(holders):
            raise damaged()
        # ticks that are computed again have keys
        of_keys = len(self.keys)
        restore_all(holders[:of_keys], own[:of_keys])
        self.check.restore(check)
        restore_all(holders[of_keys:], own[of_keys:])
        counts = [] if self.check.plain is None else self.check.plain.key_counts
        if any(
            table is not None and len(table) < count
            for table, count in zip(self.keys, counts, strict=False)
        ):
            raise damaged()
        if isinstance(self.late, LateFile):
            self.late.resume(late)
        if not isinstance(self.source, TextLog):
            self.source.late_header = header.encode("latin-1")
        if self.output is not None:
            self.output.resume(self.check.bounds, output_size)

    @property
    def holders(self) -> Sequence[Holder | None]:
        """What a snapshot has beside the check and keys."""
        return [self.events, self.first, self.revised, self.assumptions, self.final_rows]

    @property
    def keys(self) -> Sequence[KeyTable | None]:
        """The keys that have numbers: time-points of policies with variables know their own."""
        plain, tables, answers = self.check.plain, self.source.key_tables, self.check.answers
        has_streams = not isinstance(self.source, TextLog) and self.source.streams is not None
        of_answers = has_streams and answers is not None and any(answers.keys)
        if self.final_rows is not None or of_answers:
            return tables
        return [] if plain is None else tables[: len(plain.partitions.columns)]

    def settings(self) -> list[tuple[str, object]]:
        """Return the settings that must not change, each with the words for an error message."""
        options, plain, answers = self.options, self.check.plain, self.check.answers
        kinds = [plain is not None, answers is not None]
        keys = None if plain is None else list(map(list, plain.partitions.columns))
        is_first = options.judging.verdicts == "first"
        has_report = options.reporting.report is not None
        notes = notes_outcome(options)
        # answers that are not wanted are not kept
        verdicts: tuple[str, object] = ("with another --verdicts", options.judging.given_verdicts)
        if answers is None:
            verdicts = (f"with{'out' if is_first else ''} --verdicts first", is_first)
        return [
            ("for policies of another kind", kinds),
            options.log.setting,
            *options.output.settings,
            ("with another --lateness", str(options.times.lateness)),
            ("with another --wait", str(options.times.wait)),
            (f"with{'out' if options.times.late else ''} --late", options.times.late is not None),
            ("with another --op", options.log.op),
            ("with another --id", options.log.id),
            ("with another --complete", list(options.log.complete or ())),
            ("with another --new-end", options.log.new_end),
            ("with other keys", keys),
            ("with other --time-points", options.log.time_points),
            ("with other --slices", options.judging.slices),
            ("with another --slice-seed", options.judging.slice_seed),
            ("with other --statistics", statistics_setting(options)),
            verdicts,
            (f"with{'out' if options.output.rows else ''} --rows", options.output.rows),
            (f"with{'out' if options.output.arrival else ''} --arrival", options.output.arrival),
            (f"with{'out' if has_report else ''} --report", has_report),
            (f"with{'out' if notes else ''} --explain or --context", notes),
        ]

    def work_in_small_steps(self, events: int) -> None:
        """Do nothing: a batch is what is read at once."""


def statistics_setting(options: RunSpec) -> object:
    """Return what was known of the log before it was sliced, as a setting."""
    from mtlmon.run.relations import known_statistics

    known = known_statistics(options)
    if known is None:
        return None
    heavy = sorted([*one, sorted(map(repr, values))] for one, values in known.heavy.items())
    return [dict(known.rates), heavy]


def restore_all(holders: Sequence[Holder | None], parts: Sequence[bytes]) -> None:
    """Let those of some objects that there are go on from parts of a snapshot."""
    for holder, part in zip(holders, parts, strict=True):
        if holder is not None:
            holder.restore(part)


def run_late_work(work: LateWork, verdicts: VerdictFile, reasons: Reasons) -> Steps:
    """Check an open log, correct verdicts, and return the exit status.

    Args:
        work: the log and its policies.
        verdicts: the file for the verdicts.
        reasons: explains the violations that hold at the end, if that is wanted.
    """
    options = work.options
    options.host.take_judging(work)
    signals = options.host.signals(verdicts, is_held=options.checkpoint.path is not None)
    pump = make_pump(work, verdicts, signals, options)

    def report(status: int, seconds: float) -> None:
        if status == VIOLATION:
            reasons.know_outcome(work.check, work.source.clock)
        if status != VIOLATION or not reasons.are_wanted:
            work.report_end()
        else:
            work.report_corrections()
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
        summary=lambda seconds: corrections_summary(
            work.check, work.source, seconds, pump.events_before, work.assumptions
        ),
        wants_summary=options.reporting.summary,
        end_time=options.times.end_time,
    )
