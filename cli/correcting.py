"""Check policies on a log whose rows may come late, and correct verdicts: a changelog."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.checking import TextLog, TraceKeys
from mtlmon.checking.changes import ChangeLines
from mtlmon.checking.history_check import Bounds, HistoryCheck
from mtlmon.cli.corrected_reasons import Reasons, require_explainable
from mtlmon.cli.endings import never_triggered, note_skipped
from mtlmon.cli.failure import VIOLATION, Failure, note
from mtlmon.cli.files import open_log, open_verdicts
from mtlmon.cli.late_rows import LateFile, TableOrder, late_file, length_units, note_refused
from mtlmon.cli.option_rules import require_no_columns, require_no_keys
from mtlmon.cli.policies import (
    note_modes,
    open_table_source,
    policies_of,
    require_no_terminal,
    statuses,
    text_atoms,
    write_report,
)
from mtlmon.cli.policy_work import EventWork, NoWriter
from mtlmon.cli.pump import Pump
from mtlmon.cli.report import absent_atoms, correcting_summary, is_violated, plural, progress_for
from mtlmon.cli.running import run_to_end
from mtlmon.cli.signals import Signals
from mtlmon.cli.snapshot_parts import CORRECTED, damaged, joined_parts, split_parts
from mtlmon.engine.native import MemoryLimit
from mtlmon.errors import SnapshotError
from mtlmon.policy import PolicyFile
from mtlmon.support.option_names import COMMAND
from mtlmon.text.native import LineOrder

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping
    from typing import Protocol

    from mtlmon.checking.changes import ChangeOutput
    from mtlmon.checking.text_logs import TextBatch
    from mtlmon.cli.arguments import Options
    from mtlmon.cli.files import Writer
    from mtlmon.cli.policy_work import Source
    from mtlmon.cli.pump import EndTime
    from mtlmon.cli.revised_report import RevisedReport
    from mtlmon.syntax.formula import Formula
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.event_batch import EventBatch

    class TimedCheck(Protocol):
        """A check for which time can pass without events."""

        def pass_time(self, time_stamp: int) -> Iterator[None]:
            """Let time pass; whenever this yields, there may be changes to take out."""


__all__ = [
    "CorrectingWork",
    "LateLines",
    "PassingTime",
    "bounds_of",
    "correct_logs",
    "refusal",
    "require_correctable",
]


# ---- what can be corrected ---------------------------------------------------------------------


def require_correctable(file: Formula | PolicyFile, options: Options) -> None:
    """Raise Failure if verdicts cannot be corrected with these policies and options.

    Args:
        file: the formula or the policies.
        options: the options of the command line.
    """
    refused = {
        "--verdicts first": options.given_verdicts == "first",
        "--rows": options.rows,
        "--idle and --clock key": options.idle is not None and options.clock == "key",
        "--advance-every": options.advance_every is not None,
    }
    for name, is_given in refused.items():
        if is_given:
            raise refusal(name)
    require_explainable(options)
    if options.checkpoint is not None and (options.op or options.id):
        given = "--op" if options.op else "--id"
        raise Failure(
            f"{given} does not work yet with --checkpoint: a later run could not tell whether the "
            "rows before it were read with the same columns"
        )
    if isinstance(file, PolicyFile):
        require_correctable_policies(file, options)


def require_correctable_policies(file: PolicyFile, options: Options) -> None:
    """Raise Failure if verdicts of some policies cannot be corrected."""
    from mtlmon.streams.late_support import late_obstacle, row_relation
    from mtlmon.syntax.report import visible

    if file.assumptions:
        raise refusal("assumptions about the log")
    if any(policy.is_first_order for policy in file.policies):
        from mtlmon.cli.correcting_relations import require_correctable_relations

        require_correctable_relations(file, options)
        return
    for policy in file.policies:
        name = visible(policy.name or "")
        if policy.message is not None and options.output_format != "text":
            raise refusal(f"messages of triggers, as {name}, in tables")
        if (obstacle := late_obstacle(file, policy)) is not None:
            raise refusal(f"{obstacle}, as in policy {name}")
        if options.clock == "key" and (relation := row_relation(file, policy)) is not None:
            raise Failure(
                f"--clock key does not work with relations made of rows of the log, as {relation} "
                f"in policy {name}: rows of any time may still come with other keys, and change "
                "them; leave it out, and all keys share the time of the log"
            )


def refusal(what: str) -> Failure:
    """Return the error that verdicts cannot be corrected with something."""
    return Failure(
        f"--lateness does not work yet with {what}: --consistency strong, which lets rows wait, "
        "works with it"
    )


def bounds_of(options: Options, source: Source) -> Bounds:
    """Return how late rows may be, and how long they wait; call this once rows have been read.

    Raises:
        Failure: a length of time does not fit the unit, or rows would wait for refused ones.
        MtlmonError: likewise.
    """
    assert options.lateness is not None
    wait = 0 if options.wait is None else options.wait
    if isinstance(source, TextLog):
        bounds = Bounds(
            length_units(options.lateness, "--lateness", options.unit, "--unit"),
            length_units(wait, "--wait", options.unit, "--unit"),
        )
    else:
        from mtlmon.tables.late_rows import units_of

        bounds = Bounds(
            units_of(options.lateness, "lateness", source.times, COMMAND),
            units_of(wait, "wait", source.times, COMMAND),
        )
    if bounds.wait > bounds.lateness:
        raise Failure(
            f"--wait {options.wait} is longer than --lateness {options.lateness}: rows would wait "
            "for others that are refused"
        )
    return bounds


# ---- the run -----------------------------------------------------------------------------------


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


class PassingTime:
    """Lets time pass without events for a run that corrects verdicts; a part of such work.

    Attributes:
        check: takes the events.
        source: the log.
        late: finds the lines of a text log that come too late, or takes rows of tables.
    """

    check: TimedCheck
    source: Source
    late: LateLines | LateFile | None
    passed = 0
    # what waits is with the check, which is told of the time
    has_late_rows = False

    @property
    def known_time(self) -> int | None:
        """The largest time so far; None before the first event."""
        return None if self.source.clock is None else max(self.source.clock, self.passed)

    @property
    def times(self) -> Times | None:
        """The notation of times of tables; None for a text log."""
        return None if isinstance(self.source, TextLog) else self.source.times

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

    def take(self) -> None:
        """Take the changes out of the check."""
        raise NotImplementedError


class CorrectingWork(PassingTime, EventWork):
    """Reads the events of a log as they come, checks them, and writes the changes of verdicts.

    Args:
        check: the histories of the policies.
        source: the log.
        output: converts changes to bytes; None if no verdicts are wanted.
        late: finds the lines of a text log that come too late, or is the file that the log writes
            them to; None if nobody wants them.
        logs: the status of the log's files by name.
        options: the options of the command line.
        revised: takes the changes for a report, or None.
    """

    is_stopped = False
    check: HistoryCheck

    def __init__(
        self,
        check: HistoryCheck,
        source: Source,
        output: ChangeOutput | None,
        late: LateLines | LateFile | None,
        logs: Mapping[str, os.stat_result],
        options: Options,
        revised: RevisedReport | None = None,
    ) -> None:
        super().__init__(source, logs)
        self.revised = revised
        self.check = check
        self.output = output
        self.late = late
        self.options = options
        self.writer: Writer = NoWriter() if output is None else output.writer

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
        for _ in self.check.feed(batch, self.source):
            self.take()
            yield

    def end_check(self, end_time: EndTime) -> Iterator[None]:
        """End the log; yield now and then."""
        if isinstance(self.late, LateLines):
            self.late.finish()
        for _ in self.check.end(self.source, end_time):
            self.take()
            yield

    def take(self) -> None:
        """Take the changes out of the check."""
        if self.revised is not None:
            rows = self.check.verdicts.taken()
            self.revised.take(rows)
            for row in rows:
                self.check.verdicts.add(row)
        if self.output is None:
            self.check.verdicts.taken()
        elif len(self.check.verdicts):
            self.output.put(self.check.verdicts)

    def finish(self) -> None:
        """Convert the remaining changes, and write the end of the file to the writer."""
        self.take()
        if self.output is not None:
            self.output.close()

    def close(self) -> None:
        self.check.close()

    def fails(self) -> bool:
        """Whether the exit status is that of a violation, by the verdicts as they are now."""
        check = self.check
        if self.options.fail_on_vacuous and never_triggered(check):
            return True
        return any(
            is_violated(policy, counts, triggered)
            for policy, counts, triggered in zip(
                check.policies, check.counts, check.triggered, strict=True
            )
            if policy.is_at_least(self.options.fail_on)
        )

    def report_end(self) -> None:
        """Mention what the changes do not show."""
        source = self.source
        note_skipped(source)
        note_refused(self.check.refused_count, source.row_name, self.options)
        if self.check.unmatched:
            note(f"{plural(self.check.unmatched, 'retraction')} found no row")
        if self.is_complete and (source.unseen_atoms or not self.event_count):
            names = absent_atoms(source.unseen_atoms, self.event_count, lambda: source.seen_names)
            note(names)

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether `snapshot` can be called: not within a batch, nor at the end."""
        return not self.has_ended and not self.check.is_within_row

    def snapshot(self) -> bytes:
        """Return the settings, check, keys and the size of the late rows as bytes for `restore`."""
        late = self.late.size if isinstance(self.late, LateFile) else 0
        header = b"" if isinstance(self.source, TextLog) else self.source.late_header
        settings = [value for _, value in self.settings()]
        parts = [
            json.dumps([settings, late, header.decode("latin-1")]).encode(),
            self.check.snapshot(),
            *(b"" if keys is None else keys.snapshot() for keys in self.source.key_tables),
        ]
        return joined_parts(CORRECTED, parts)

    def restore(self, snapshot: bytes, output_size: int) -> None:
        """Continue from the snapshot of an earlier run that has written `output_size` bytes.

        Raises:
            SnapshotError: the snapshot is damaged, or belongs to other policies or options.
        """
        text, check, *tables = split_parts(snapshot, CORRECTED, 2)
        settings, late, header = json.loads(text)
        for (what, value), before in zip(self.settings(), settings, strict=True):
            if value != before:
                raise SnapshotError(f"it was made {what}")
        self.check.restore(check)
        if len(tables) != len(self.source.key_tables):
            raise damaged()
        counts = self.check.key_counts
        for keys, table, count in zip(self.source.key_tables, tables, counts, strict=True):
            if keys is not None:
                keys.restore(table)
                if len(keys) < count:
                    raise damaged()
        if isinstance(self.late, LateFile):
            self.late.go_on(late)
        if not isinstance(self.source, TextLog):
            self.source.late_header = header.encode("latin-1")
        if self.output is not None and self.options.output_format != "text":
            self.restore_table(output_size)

    def restore_table(self, output_size: int) -> None:
        """Go on with a table of changes of which so much has been written."""
        from mtlmon.tables.change_tables import ChangeTable
        from mtlmon.tables.outputs import CsvOutput
        from mtlmon.tables.stream_values import JsonRowsOutput

        assert isinstance(self.output, CsvOutput | JsonRowsOutput)
        assert isinstance(self.output.table, ChangeTable)
        self.output.table.know(self.check.bounds)
        if output_size and isinstance(self.output, CsvOutput):
            self.output.has_header = True

    def settings(self) -> list[tuple[str, object]]:
        """Return the settings that must not change, each with the words for an error message."""
        options = self.options
        return [
            ("from tables" if not options.is_table else "from a text log", options.is_table),
            ("with another --output-format", options.output_format),
            ("with other keys", list(map(list, self.check.partitions.columns))),
            ("with another --lateness", str(options.lateness)),
            ("with another --wait", str(options.wait)),
            (f"with{'out' if options.late else ''} --late", options.late is not None),
        ]

    def work_in_small_steps(self, events: int) -> None:
        """Do nothing: a batch is what is read at once."""


def correct_logs(file: Formula | PolicyFile, options: Options) -> int:
    """Check the policies on the logs, correct verdicts, and return the exit status.

    Args:
        file: what `require_correctable` accepts.
        options: likewise.

    Raises:
        Failure: a file cannot be read or written, or a length of time does not fit.
        MtlmonError: a line or row cannot be read, or the engine has reached a limit.
    """
    if isinstance(file, PolicyFile) and not options.is_table:
        require_no_columns(file, options)
    policies = policies_of(file)
    counts_triggered = any(policy.tolerance is not None for policy in policies)
    reasons = Reasons(file, options)
    check = HistoryCheck(
        policies,
        # all modes have the same Boolean verdicts, this one for every time-point
        "naive" if options.resolve else options.mode,
        lambda: bounds_of(options, source),
        memory=MemoryLimit(options.max_memory, COMMAND),
        clock=options.clock or "all",
        key=options.key_columns,
        bdd=options.bdd,
        counts_triggered=(
            options.fail_on_vacuous or counts_triggered or options.report is not None
        ),
        equality=options.op is not None and options.id is None,
        unmatched="error" if options.on_error == "stop" else "count",
    )
    if not options.resolve:
        note_modes(policies, check.modes, options)
    if not options.is_table:
        require_no_keys(check.partitions, file, options)
    late: LateLines | LateFile | None = None
    source: Source
    if options.is_table:
        late = found = late_file(options, keeps=options.checkpoint is not None)
        source = open_table_source(
            options,
            check.atoms,
            file if isinstance(file, PolicyFile) else None,
            check.partitions.columns,
            check.memory,
            atoms_of_partitions=check.atoms_of_partitions,
            order=TableOrder(
                None,
                None if found is None else found.write,
                in_any_order=True,
                operation=options.op,
                id=options.id,
            ),
        )
        check.streams, check.inputs = source.streams, lambda batch: batch.inputs
        check.relations = source.relations
    else:
        log = open_log(options.log)
        atoms, streams = text_atoms(
            check.atoms, check.atoms_of_partitions, file, log.name, {}, options.on_error
        )
        if streams is not None:
            check.streams, check.inputs = streams.atoms, streams.inputs
        source = TextLog(
            log.descriptor,
            log.name,
            atoms,
            skip_errors=options.on_error == "skip",
            memory=check.memory,
            in_any_order=True,
        )
        bounds = bounds_of(options, source)
        if (found := late_file(options)) is not None:
            late = LateLines(bounds.lateness, found)
            source.note_block = late.push
    with closing(source):
        status = run_corrections(check, source, late, options, file, reasons)
    return reasons.tell() if status == VIOLATION and reasons.are_told else status


def open_report(
    check: HistoryCheck,
    source: Source,
    logs: Mapping[str, os.stat_result],
    options: Options,
    file: Formula | PolicyFile,
) -> RevisedReport | None:
    """Return what makes the report, if one is wanted.

    Raises:
        Failure: its file has another use, or cannot be written.
        MtlmonError: a package that reports need is not installed.
    """
    if options.report is None:
        return None
    from mtlmon.cli.findings import check_findings
    from mtlmon.cli.revised_report import RevisedReport

    check_findings(options, logs, can_reread=False)
    return RevisedReport(check, source, list(logs), options, file)


def run_corrections(
    check: HistoryCheck,
    source: Source,
    late: LateLines | LateFile | None,
    options: Options,
    file: Formula | PolicyFile,
    reasons: Reasons,
) -> int:
    """Check an open log, correct verdicts, and return the exit status."""
    logs = statuses(source)
    reasons.check(logs)
    keeps = options.checkpoint is not None
    verdicts = open_verdicts(options.output, logs, options.formula_files, keeps=keeps)
    revised = open_report(check, source, logs, options, file)
    output = make_output(check, source, options)
    work = CorrectingWork(check, source, output, late, logs, options, revised)
    progress = progress_for(source.size or 0, verdicts, options)
    signals = Signals(verdicts, is_held=keeps)
    pump = Pump(work, verdicts, signals, progress)
    if options.idle is not None:
        from mtlmon.cli.idle import IdlePump

        pump = IdlePump(work, verdicts, signals, progress, options.idle, options.unit)
    if keeps:
        from mtlmon.cli.checkpointing import CheckpointingPump

        work.begin_digest()
        pump = CheckpointingPump(work, verdicts, signals, progress, options)

    def report(status: int, seconds: float) -> None:
        if status != VIOLATION or not reasons.are_told:
            work.report_end()
        if revised is not None:
            write_report(
                lambda is_interrupted: revised.write(seconds, is_interrupted=is_interrupted),
                status,
                signals,
                options,
            )

    return run_to_end(
        pump,
        has_violation=work.fails,
        report=report,
        summary=lambda seconds: correcting_summary(check, source, seconds, pump.events_before),
        wants_summary=options.summary,
        end_time=options.end_time,
    )


def make_output(check: HistoryCheck, source: Source, options: Options) -> ChangeOutput | None:
    """Return the converter of changes to bytes, or None if no verdicts are wanted.

    Raises:
        Failure: the output is binary, but would go to a terminal.
    """
    if options.verdicts == "none":
        return None
    names = [policy.name for policy in check.policies]
    keys = TraceKeys(check.partitions, tuple(source.key_tables))
    times = None if isinstance(source, TextLog) else source.times
    if options.output_format == "text":
        from mtlmon.cli.time_stamps import iso_times

        return ChangeLines(names, keys, options.verdicts, iso_times(options, times))
    require_no_terminal(options)
    from mtlmon.checking.policy_facts import PolicyFacts
    from mtlmon.tables.change_tables import CHANGE_COLUMNS, ChangeTable
    from mtlmon.tables.outputs import CsvOutput, ParquetOutput
    from mtlmon.tables.stream_values import JsonRowsOutput
    from mtlmon.tables.verdicts import VerdictTable

    facts = PolicyFacts(check.policies)
    verdicts = VerdictTable(names, keys, times, facts=facts, more=CHANGE_COLUMNS)
    table = ChangeTable(verdicts, options.verdicts)
    outputs: dict[str, Callable[[ChangeTable], ChangeOutput]] = {
        "jsonl": JsonRowsOutput,
        "csv": CsvOutput,
        "parquet": ParquetOutput,
    }
    return outputs[options.output_format](table)
