"""Check policies with variables on a log whose rows may come late: a changelog of valuations."""

from __future__ import annotations

from array import array
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mtlmon.checking import TextLog
from mtlmon.checking.conditional_rows import ConditionalRows
from mtlmon.checking.late_partitions import LatePartition
from mtlmon.checking.late_valuations import ValuationCheck
from mtlmon.cli.corrected_reasons import Reasons
from mtlmon.cli.failure import VIOLATION, Failure, note
from mtlmon.cli.files import open_log
from mtlmon.cli.late_rows import LateFile, TableOrder, late_file
from mtlmon.cli.late_work import LateLines, LateWork, bounds_of, refusal, run_late_work
from mtlmon.cli.policies import open_table_source, require_no_terminal
from mtlmon.cli.pump import LogEnds
from mtlmon.cli.relation_readers import computed_atoms, log_events
from mtlmon.cli.relation_vacuity import counts_left_sides, never_matched, require_counted
from mtlmon.cli.relations import require_no_conditions
from mtlmon.cli.report import corrected_answers_summary, plural
from mtlmon.cli.row_lines import row_endings
from mtlmon.cli.snapshot_parts import damaged
from mtlmon.cli.text_checkpoints import LogDigest
from mtlmon.engine.native import MemoryLimit
from mtlmon.policy.needs import needs_of, remembers
from mtlmon.relational.analysis import valid_analysis
from mtlmon.relational.atoms import (
    refuse_points,
    refuse_traces,
    require_rows_of_tables,
    used_atoms,
)
from mtlmon.relational.correcting.points import PointHistory
from mtlmon.relational.native import PointBlock
from mtlmon.relational.output.changed_lines import ChangedAnswerLines
from mtlmon.relational.planning import plan
from mtlmon.support.option_names import COMMAND
from mtlmon.syntax.report import visible
from mtlmon.tables.relations import RelationRows, shown_arguments, table_atoms
from mtlmon.text.byte_writer import ByteWriter

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from mtlmon.checking.history_check import Bounds
    from mtlmon.checking.late_valuations import ChangedAnswers
    from mtlmon.cli.arguments import Options
    from mtlmon.cli.late_work import LateCheck, LateOutput
    from mtlmon.cli.policy_work import Source
    from mtlmon.cli.revised_relation_report import RevisedRelationReport
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.environment import Relation
    from mtlmon.relational.input.native import RowEvents
    from mtlmon.relational.native import RelationalEngine
    from mtlmon.relational.plan import Plan
    from mtlmon.streams.atoms import StreamAtoms
    from mtlmon.tables import TableEvents
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.outputs import CsvOutput, ParquetOutput
    from mtlmon.tables.stream_values import JsonRowsOutput

    TableOutput = (
        CsvOutput[ChangedAnswers] | JsonRowsOutput[ChangedAnswers] | ParquetOutput[ChangedAnswers]
    )

__all__ = ["correct_relations", "require_correctable_relations"]


def require_correctable_relations(file: PolicyFile, options: Options) -> None:
    """Raise Failure if the answers of policies with variables cannot be corrected.

    Args:
        file: the policies, some of which have variables.
        options: the options of the command line.
    """
    if not all(policy.is_first_order for policy in file.policies):
        from mtlmon.cli.correcting_mixed import require_correctable_together

        require_correctable_together(options)
    refused = {
        "--slices": options.slices is not None,
        "--clock key for policies with variables, which are over the whole log": (
            options.clock == "key"
        ),
    }
    for name, is_given in refused.items():
        if is_given:
            raise refusal(name)
    if options.rows and options.time_points == "stamp" and (options.op or options.id):
        given = "--op" if options.op else "--id"
        raise Failure(
            f"--rows does not work with --time-points stamp and {given}: a time-point has the "
            "first of its rows, and another one once that is taken back; leave out --time-points, "
            "and each row is a time-point"
        )


def require_correctable_atoms(
    file: PolicyFile, names: Sequence[str], shown: Mapping[str, Sequence[str]]
) -> None:
    """Raise Failure if what rows are depends on other rows in ways that cannot be corrected.

    Args:
        file: the policies.
        names: the atoms that they use.
        shown: for each atom, the names of its arguments in `PolicyFile.shown`.
    """
    from mtlmon.streams.late_support import row_relation_of

    for name in names:
        for argument in shown.get(name, ()):
            if remembers(file, file.shown[argument]):
                raise refusal(f"arguments that depend on other rows, as one of {visible(name)}")
        if name not in file.atoms:
            continue
        if (relation := row_relation_of(file, [name])) is not None:
            raise refusal(
                f"atoms of policies with variables that look values up in {visible(relation)}, "
                f"which is made of rows, as {visible(name)}"
            )
        if needs_of(file, [name]).later_values:
            raise refusal(
                f"atoms of policies with variables that read later rows, next(...), as "
                f"{visible(name)}"
            )


class Conditions(NamedTuple):
    """Atoms that depend on other rows.

    Attributes:
        streams: computes them.
        inputs: returns the columns that it reads of a batch.
        marked: whether they have rows only if these are added, as in text logs.
    """

    streams: StreamAtoms
    inputs: Callable[[Any], pa.RecordBatch | None]
    marked: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the atoms."""
        return self.streams.names_of(0)


def conditions_of_tables(source: TableEvents) -> Conditions | None:
    """Return what computes atoms of tables that depend on other rows; None if none do."""
    if source.streams is None or not source.streams.names_of(0):
        return None
    return Conditions(source.streams, lambda batch: batch.inputs, marked=False)


class ChangedOutput:
    """Writes changes, once the policies have a plan.

    Args:
        check: the check.
        source: the log.
        options: the options of the command line.
    """

    def __init__(self, check: ValuationCheck, source: Source, options: Options) -> None:
        self.writer = ByteWriter()
        self.check = check
        self.source = source
        self.options = options

    @property
    def times(self) -> Times | None:
        """The notation of times of tables; None for a text log."""
        return None if isinstance(self.source, TextLog) else self.source.times


class AnswerOutput(ChangedOutput):
    """Writes changes as the lines of a changelog.

    The other arguments are those of `ChangedOutput`.

    Args:
        key_count: as for `ChangedAnswerLines`.
    """

    def __init__(
        self, check: ValuationCheck, source: Source, options: Options, key_count: int = 0
    ) -> None:
        super().__init__(check, source, options)
        self.key_count = key_count
        self.lines: ChangedAnswerLines | None = None

    def put(self, batches: Sequence[ChangedAnswers]) -> None:
        """Write what batches have changed."""
        if self.lines is None:
            from mtlmon.cli.time_stamps import iso_times

            times = iso_times(self.options, self.times)
            self.lines = ChangedAnswerLines(self.check.history.plan, times, self.key_count)
        origins = self.check.origins
        for batch in batches:
            tails = None
            if origins is not None:
                origins.find(batch.changes)
                numbers = np.arange(len(batch.changes), dtype=np.uint64)
                tails = row_endings(origins.of(numbers), origins.files)
            self.writer.write(b"".join(self.lines.lines(batch.changes, tails)))
            if batch.final_below is not None and self.options.verdicts != "first":
                self.writer.write(self.lines.bound(batch.final_below))

    def close(self) -> None:
        """Do nothing: lines need no end."""


class TableOfAnswers(ChangedOutput):
    """Writes changes as tables."""

    def __init__(self, check: ValuationCheck, source: Source, options: Options) -> None:
        super().__init__(check, source, options)
        # for tables that an earlier run has begun: whether anything is written, and its bound
        self.goes_on = False
        self.final: int | None = None
        self.made: TableOutput | None = None

    @property
    def output(self) -> TableOutput:
        """What writes the rows."""
        if self.made is None:
            from mtlmon.tables.change_tables import CHANGE_COLUMNS
            from mtlmon.tables.changed_valuations import ChangedValuations
            from mtlmon.tables.outputs import CsvOutput, ParquetOutput
            from mtlmon.tables.relation_check import valuation_table
            from mtlmon.tables.stream_values import JsonRowsOutput

            made = self.check.history.plan
            origins = self.check.origins
            rows = valuation_table(
                made, self.times, self.options.verdicts, origins, more=CHANGE_COLUMNS
            )
            table = ChangedValuations(made, rows, self.final)
            if self.options.output_format == "jsonl":
                self.made = JsonRowsOutput(table)
            elif self.options.output_format == "csv":
                self.made = CsvOutput(table)
                self.made.has_header = self.goes_on
            else:
                self.made = ParquetOutput(table)
        return self.made

    def put(self, batches: Sequence[ChangedAnswers]) -> None:
        """Write what batches have changed."""
        for batch in batches:
            if self.check.origins is not None:
                self.check.origins.find(batch.changes)
            self.output.put(batch)
        self.writer.write(self.output.writer.take())

    def close(self) -> None:
        """Write the end of the file."""
        self.output.close()
        self.writer.write(self.output.writer.take())


class RelationWork(LateWork):
    """Checks policies with variables, and perhaps others.

    The other arguments are those of `LateWork`.

    Args:
        answers: checks those with variables.
        events: what reads a text log; None for tables.
    """

    def __init__(
        self,
        check: LateCheck,
        answers: ValuationCheck,
        source: Source,
        events: RowEvents | None,
        output: LateOutput | None,
        late: LateLines | LateFile | None,
        logs: Mapping[str, os.stat_result],
        options: Options,
    ) -> None:
        super().__init__(check, source, output, late, logs, options)
        self.answers = answers
        self.events = events
        self.digest = LogDigest()

    def fails(self) -> bool:
        if self.options.fail_on_vacuous and self.never_matched():
            return True
        least = self.options.fail_on
        return any(
            has_failed and policy.is_at_least(least)
            for policy, has_failed in zip(self.answers.policies, self.answers.failed, strict=True)
        )

    def never_matched(self) -> list[str]:
        """The names of the policies whose left side was never matched."""
        return never_matched(self.answers.history)

    def report_end(self) -> None:
        """Mention what the changes do not show."""
        super().report_end()
        made = self.answers.rows
        if isinstance(made, RelationRows) and made.left_out:
            rows = plural(made.left_out, "row")
            note(f"left out {rows} of atoms, as an argument is null or no number")
        if self.options.fail_on_vacuous and self.is_complete:
            for name in self.never_matched():
                note(f"{name} was never triggered (--fail-on-vacuous)")

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def log(self) -> TextLog:
        """The text log."""
        assert isinstance(self.source, TextLog)
        return self.source

    def begin_digest(self) -> None:
        if self.events is None:
            super().begin_digest()
            return
        before = self.log.note_block

        def note_block(block: memoryview) -> None:
            if before is not None:
                before(block)
            self.digest.add(block)
            self.digest.up_to(min(self.position, self.log.bytes_read))

        self.log.note_block = note_block
        self.log.marks_end = True

    @property
    def position(self) -> int:
        return self.event_count if self.events is None else self.events.rows.position

    @property
    def amount(self) -> str:
        return super().amount if self.events is None else f"{self.position:,} bytes"

    @property
    def is_settled(self) -> bool:
        """Whether `snapshot` can be called: not within a batch, nor at the end."""
        if self.has_ended or self.check.is_within_row:
            return False
        return self.events is None or (
            self.log.rows == self.events.rows.point_count and self.events.rows.is_settled
        )

    def log_digest(self) -> bytes:
        return super().log_digest() if self.events is None else self.digest.up_to(self.position)

    def skip(self) -> Iterator[None]:
        if self.events is None:
            yield from super().skip()
            # what is wrong with the snapshot is said before anything is written
            _ = self.answers.history
            return
        count, events = self.position, self.events
        if self.log.size is not None and self.log.size < count:
            raise LogEnds
        yield from self.log.skip_bytes(count, events.rows.point_count, events.last_time_stamp)
        if self.log.bytes_read < count:
            raise LogEnds

    def own_parts(self) -> Sequence[bytes]:
        return [b"" if self.events is None else self.events.snapshot()]

    def restore_own(self, parts: Sequence[bytes]) -> None:
        if len(parts) != 1:
            raise damaged()
        if self.events is not None:
            self.events.restore(parts[0])

    def settings(self) -> list[tuple[str, object]]:
        return [
            *super().settings(),
            ("with other --time-points", self.options.time_points),
            ("with another --verdicts", self.options.given_verdicts),
            (f"with{'out' if self.options.rows else ''} --rows", self.options.rows),
        ]


class CorrectedRelations(RelationWork):
    """Checks policies with variables only; the arguments are those of `RelationWork`."""

    check: ValuationCheck
    output: AnswerOutput | TableOfAnswers | None
    revised: RevisedRelationReport | None

    def take(self) -> None:
        """Take the changes out of the check."""
        changes = self.check.taken()
        if self.revised is not None:
            self.revised.take(self.check.all_taken())
        if self.output is not None and changes:
            self.output.put(changes)

    @property
    def is_stopped(self) -> bool:
        return self.check.is_stopped

    def open_first(self) -> tuple[str, str] | None:
        if self.check.open_first is None:
            return None
        time_stamp, offset = self.check.open_first
        return f"{time_stamp}:{offset} is violated", "a time-point before it"

    def restore_output(self, size: int) -> None:
        if isinstance(self.output, TableOfAnswers):
            self.output.goes_on = size > 0
            self.output.final = self.check.bounds


def prepared(options: Options, engine: RelationalEngine) -> None:
    """Let an engine keep the limits that the options set."""
    engine.skips_overflows = options.on_error == "skip"
    if options.max_rows is not None:
        engine.most_rows = options.max_rows
        engine.limit_name = "--max-rows"


def correct_relations(file: PolicyFile, options: Options) -> int:
    """Check policies with variables on the logs, correct answers, and return the exit status.

    Args:
        file: what `require_correctable_relations` accepts.
        options: likewise.

    Raises:
        Failure: a file cannot be read or written, or a length of time does not fit.
        MtlmonError: a line or row cannot be read, or the engine has reached a limit.
    """
    options.for_people = False
    refuse_traces(file)
    counts = counts_left_sides(file, options)

    def plan_for(
        schema: pa.Schema | None = None, looked_up: Mapping[str, Relation] | None = None
    ) -> Plan:
        analysis = valid_analysis(file, schema, looked_up)
        made = plan(file, analysis, counts_triggered=counts)
        if options.fail_on_vacuous:
            require_counted(file, analysis, made)
        return made

    # what is wrong whatever the log is, is said before it is opened
    first = plan_for()
    reasons = Reasons(file, options)
    if options.time_points == "stamp":
        refuse_points(file)
    if not all(policy.is_first_order for policy in file.policies):
        from mtlmon.cli.correcting_mixed import correct_mixed

        options.verdicts = options.given_verdicts or "all"
        status = correct_mixed(file, options, plan_for, first, reasons)
    elif options.is_table:
        status = correct_tables(file, options, plan_for, reasons)
    else:
        require_no_conditions(file, options)
        status = correct_text(file, options, first, reasons)
    return reasons.tell() if status == VIOLATION and reasons.are_told else status


def history_for(
    made: Plan,
    bounds: Bounds,
    options: Options,
    check: ValuationCheck,
    conditions: Conditions | None = None,
) -> PointHistory:
    """Return the history of a log.

    Args:
        made: the plan of the policies.
        bounds: how late events may be.
        options: the options of the command line.
        check: gets the history.
        conditions: the atoms that depend on other rows; None if none do.
    """
    has_operations = options.op is not None or options.id is not None
    equality = options.op is not None and options.id is None
    conditional: list[int] = []
    if conditions is not None:
        numbers = {atom.name: number for number, atom in enumerate(made.named_atoms)}
        conditional = [numbers[name] for name in conditions.names]
        late = LatePartition(
            conditions.streams,
            0,
            (),
            has_keys=False,
            lateness=bounds.lateness,
            wait=bounds.wait,
            clock="all",
            equality=equality,
        )
        marked = conditional if conditions.marked else ()
        check.conditional = ConditionalRows(late, conditions.inputs, marked)
    return PointHistory(
        made,
        lateness=bounds.lateness,
        wait=bounds.wait,
        equality=equality,
        corrects=has_operations,
        by_stamp=options.time_points == "stamp",
        wants_holding=options.given_verdicts in ("all", "boolean"),
        keeps_found=options.given_verdicts == "first",
        prepare=lambda engine: prepared(options, engine),
        listener=check.origins,
        admission=check.conditional,
        conditional=conditional,
    )


def valuation_check(
    file: PolicyFile,
    options: Options,
    bounds: Callable[[], Bounds],
    make: Callable[[Bounds], PointHistory],
    rows_of: Callable[[PointHistory], RelationRows] | None,
    memory: MemoryLimit,
) -> ValuationCheck:
    """Return the check of the policies with variables; the arguments are those of its class."""
    return ValuationCheck(
        file,
        bounds,
        make,
        rows_of,
        memory=memory,
        unmatched="error" if options.on_error == "stop" else "count",
        wants_first=options.verdicts == "first",
        tracks_rows=options.rows,
        keeps_all=options.report is not None,
    )


def correct_tables(
    file: PolicyFile,
    options: Options,
    plan_for: Callable[[pa.Schema, Mapping[str, Relation]], Plan],
    reasons: Reasons,
) -> int:
    """Do the same for tables."""
    names = used_atoms(file)
    require_rows_of_tables(file, names)
    shown = shown_arguments(file, names)
    require_correctable_atoms(file, names, shown)
    memory = MemoryLimit(options.max_memory, COMMAND)
    late = late_file(options, keeps=options.checkpoint is not None)
    source = open_table_source(
        options,
        names,
        file,
        [()],
        memory,
        shown=[{0: [one for some in shown.values() for one in some]}],
        order=TableOrder(
            None,
            None if late is None else late.write,
            in_any_order=True,
            operation=options.op,
            id=options.id,
        ),
    )

    def make(bounds: Bounds) -> PointHistory:
        made = plan_for(source.schema, source.looked_up)
        return history_for(made, bounds, options, check, conditions_of_tables(source))

    def rows_of(history: PointHistory) -> RelationRows:
        made = history.plan
        conditions = conditions_of_tables(source)
        names = () if conditions is None else conditions.names
        return RelationRows(table_atoms(made, shown, names), history.arrivals, made.texts)

    check = valuation_check(
        file, options, lambda: bounds_of(options, source), make, rows_of, memory
    )
    with closing(source):
        return run_corrections(file, check, source, None, late, options, reasons)


def correct_text(file: PolicyFile, options: Options, made: Plan, reasons: Reasons) -> int:
    """Do the same for a text log."""
    log = open_log(options.log)
    memory = MemoryLimit(options.max_memory, COMMAND)
    check = valuation_check(
        file,
        options,
        lambda: bounds_of(options, source),
        lambda bounds: history_for(made, bounds, options, check, conditions),
        None,
        memory,
    )
    block = PointBlock(array("I", made.atoms))
    events, conditions = read_text(file, made, block, log.name, options)
    source = TextLog(
        log.descriptor,
        log.name,
        events.atoms,
        skip_errors=options.on_error == "skip",
        memory=memory,
        events=events,
        in_any_order=True,
    )
    check.history.arrivals = block
    late = None
    if (found := late_file(options)) is not None:
        late = LateLines(bounds_of(options, source).lateness, found)
        source.note_block = late.push
    with closing(source):
        return run_corrections(file, check, source, events, late, options, reasons)


def read_text(
    file: PolicyFile,
    made: Plan,
    points: PointBlock,
    name: str,
    options: Options,
    marks: Sequence[str] = (),
) -> tuple[RowEvents, Conditions | None]:
    """Return what reads a text log into time-points, and what computes atoms, if that is needed.

    Args:
        file: the policies.
        made: the plan of those with variables.
        points: gets the time-points.
        name: the name of the log in messages.
        options: the options of the command line.
        marks: the atoms of the log that events have for other policies.
    """
    if computed := computed_atoms(file, made):
        require_correctable_atoms(file, list(computed), {})
    events, streams = log_events(file, made, points, name, options, marks)
    if streams is None:
        return events, None
    return events, Conditions(streams.atoms, streams.inputs, marked=True)


def run_corrections(
    file: PolicyFile,
    check: ValuationCheck,
    source: Source,
    events: RowEvents | None,
    late: LateLines | LateFile | None,
    options: Options,
    reasons: Reasons,
) -> int:
    """Check an open log, correct answers, and return the exit status."""

    def make(logs: Mapping[str, os.stat_result]) -> CorrectedRelations:
        output: AnswerOutput | TableOfAnswers | None = None
        if options.verdicts != "none":
            if options.output_format == "text":
                output = AnswerOutput(check, source, options)
            else:
                require_no_terminal(options)
                output = TableOfAnswers(check, source, options)
        work = CorrectedRelations(check, check, source, events, output, late, logs, options)
        if options.report is not None:
            from mtlmon.cli.findings import check_findings
            from mtlmon.cli.revised_relation_report import RevisedRelationReport

            check_findings(options, logs, can_reread=False)
            work.revised = RevisedRelationReport(check, source, list(logs), options, file)
        return work

    if options.rows:
        source.track_rows()

    def summary(seconds: float, events_before: int) -> str:
        return corrected_answers_summary(check, source, seconds, events_before)

    return run_late_work(source, options, reasons, make, summary)
