"""Check policies with variables and others on one log, in one pass.

The lines come event by event, as if all policies were of one kind: those of policies without
variables, then those of the others.
"""

from __future__ import annotations

import sys
from array import array
from contextlib import closing
from typing import TYPE_CHECKING, cast

from mtlmon.checking import LogCheck, TextLog
from mtlmon.checking.outputs import TextOutput
from mtlmon.checking.partitions import TraceKeys
from mtlmon.cli.failure import Failure, note
from mtlmon.cli.files import open_log, open_verdicts
from mtlmon.cli.policies import (
    assumption_watch,
    has_messages,
    is_violated,
    note_modes,
    open_table_source,
    report_end,
    require_no_keys,
    statuses,
    text_atoms,
)
from mtlmon.cli.policy_work import PolicyWork
from mtlmon.cli.pump import Pump
from mtlmon.cli.relation_tables import rows_of_batches
from mtlmon.cli.relations import Check, engine_for, require_no_conditions, valid_analysis
from mtlmon.cli.report import is_terminal, plural, policies_summary, progress_for
from mtlmon.cli.running import run_to_end
from mtlmon.cli.signals import Signals
from mtlmon.engine.native import MemoryLimit
from mtlmon.relational.atoms import (
    cell_word,
    is_first_order,
    named_rows,
    require_rows_of_tables,
    used_atoms,
)
from mtlmon.relational.input.native import RowEvents, RowScanner
from mtlmon.relational.native import AnswerBlock
from mtlmon.relational.output.native import AnswerQueue
from mtlmon.support.option_names import COMMAND
from mtlmon.tables.outputs import ByteWriter
from mtlmon.tables.relations import shown_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import stat_result

    from mtlmon.checking.text_logs import TextBatch
    from mtlmon.cli.arguments import Options
    from mtlmon.cli.policy_work import Source
    from mtlmon.cli.pump import EndTime
    from mtlmon.cli.relations import Output
    from mtlmon.drive.native import VerdictRows
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relational.slicing.engine import Engine
    from mtlmon.tables import TableEvents
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.events import EventBatch
    from mtlmon.tables.joined_verdicts import JoinedTable
    from mtlmon.tables.outputs import CsvOutput, ParquetOutput
    from mtlmon.tables.relations import RelationRows
    from mtlmon.tables.stream_values import JsonRowsOutput

    Rows = VerdictRows | AnswerBlock
    MixedOutput = TextOutput | CsvOutput[Rows] | ParquetOutput[Rows] | JsonRowsOutput[Rows]

__all__ = ["check_mixed"]


def check_mixed(file: PolicyFile, options: Options) -> int:
    """Check the policies on the log; return the exit status.

    Args:
        file: the policies, some of which have variables.
        options: the options of the command line, which `check_relations` has accepted.

    Raises:
        Failure: a file cannot be read or written, or an option does not work for such files.
        MtlmonError: a line or row cannot be read, or an engine has reached a limit.
    """
    check_mixed_options(options)
    options.verdicts = options.given_verdicts or "all"
    memory = MemoryLimit(options.max_memory, COMMAND)
    check = LogCheck(
        [policy for policy in file.policies if not is_first_order(policy)],
        options.mode,
        key=options.key_columns,
        bdd=options.bdd,
        verdicts=options.verdicts,
        resolve=options.resolve,
        advance_every=options.advance_every,
        max_memory=memory,
        threads=options.threads,
        has_whole=True,
    )
    if not options.is_table:
        require_no_keys(check, options)
    note_modes(check, options)
    if options.is_table:
        return check_mixed_tables(file, check, options, memory)
    return check_mixed_text(file, check, options, memory)


def check_mixed_options(options: Options) -> None:
    """Raise Failure if an option does not work for files with policies of both kinds."""
    given = {
        "--checkpoint": options.checkpoint is not None,
        "--explain": options.explain,
        "--report": options.report is not None,
        "--verdicts first": options.given_verdicts == "first",
        "--time-points stamp": options.time_points == "stamp",
    }
    for name, is_given in given.items():
        if is_given:
            raise Failure(
                f"{name} does not work yet for a file with policies with variables and without: "
                "write them in two files"
            )


class Part:
    """The policies with variables.

    Args:
        engine: evaluates them.
        options: the options of the command line.
        memory: the memory limit of the run.
        key_count: how many columns of keys the policies without variables have.
        table: where the rows of all policies are put; None if lines are written.
        output: writes these rows.
        times: the log's notation of times, or None if it has the time-stamps.

    Attributes:
        rows: makes time-points of batches of tables; None if the batches' scanner does.
    """

    def __init__(
        self,
        engine: Engine,
        options: Options,
        memory: MemoryLimit,
        key_count: int,
        table: JoinedTable | None = None,
        output: MixedOutput | None = None,
        times: Times | None = None,
    ) -> None:
        widths = array("I", [len(one.variables) for one in engine.plan.named_policies])
        self.queue = AnswerQueue(widths)
        self.ready = AnswerBlock(widths)
        options.verdicts = options.given_verdicts or "false"
        if table is not None:
            from mtlmon.tables.valuations import ValuationTable

            policies = engine.plan.named_policies
            table.valuations = ValuationTable(
                [one.name for one in policies],
                [
                    tuple(zip(one.variables, map(cell_word, one.kinds), strict=True))
                    for one in policies
                ],
                engine.plan.texts,
                times,
                has_true=options.verdicts in {"all", "boolean"},
            )
        own = None if table is None else cast("Output", output)
        self.check = Check(
            engine, options, memory, queue=self.queue, output=own, key_count=key_count
        )
        options.verdicts = options.given_verdicts or "all"
        self.rows: RelationRows | None = None

    def feed(self, batch: TextBatch | EventBatch) -> list[int]:
        """Check a batch; return after how many events there are answers."""
        before = self.check.engine.point_count
        if self.rows is None:
            self.check.run.advance()
        else:
            self.rows.load(batch)  # type: ignore[arg-type]
            more = True
            while more:
                more = self.rows.read()
                self.check.run.advance(keeps_texts=more or len(self.queue) > 0)
        return [known - before for known in self.queue.known()]

    def take(self, position: int | None = None) -> bytes:
        """Return the lines of the first events, or of all that is answered."""
        self.queue.take(self.ready, (1 << 64) - 1 if position is None else position)
        self.check.output.put(self.ready)
        return self.check.output.writer.take()


def mixed_output(
    check: LogCheck, source: TableEvents | None, options: Options
) -> tuple[MixedOutput, JoinedTable | None]:
    """Return what writes the verdicts of all policies, and the table that it writes, if any.

    Args:
        check: the check of the policies without variables.
        source: the tables; None for a text log.
        options: the options of the command line.

    Raises:
        Failure: the output is binary, but would go to a terminal, or it would have messages.
    """
    names = [policy.name for policy in check.policies]
    keys = None if source is None else TraceKeys(check.partitions, tuple(source.key_tables))
    if options.output_format == "text" or options.given_verdicts == "none":
        return TextOutput(names, keys), None
    if has_messages(check, options):
        raise Failure(
            "messages of triggers do not work yet beside policies with variables: write text, or "
            "two files of policies"
        )
    is_parquet = options.output_format == "parquet"
    if is_parquet and options.output is None and is_terminal(sys.stdout):
        raise Failure("cannot write Parquet to a terminal: add -o FILE")
    from mtlmon.tables.joined_verdicts import JoinedTable
    from mtlmon.tables.outputs import CsvOutput, ParquetOutput
    from mtlmon.tables.stream_values import JsonRowsOutput
    from mtlmon.tables.verdicts import VerdictTable

    table = JoinedTable(VerdictTable(names, keys, None if source is None else source.times))
    if options.output_format == "jsonl":
        return JsonRowsOutput(table), table
    return (ParquetOutput(table) if is_parquet else CsvOutput(table)), table


class MixedWork(PolicyWork):
    """Reads the events of a log, and checks the policies of both kinds.

    Args:
        check: the check of the policies without variables.
        source: the log.
        parts: returns the policies with variables, whose plan needs the types of columns.
        logs: the status of the log's files by name.
        options: the options of the command line.
        file: the policies.
    """

    def __init__(
        self,
        check: LogCheck,
        source: Source,
        part: Part | None,
        outputs: tuple[MixedOutput, JoinedTable | None],
        logs: Mapping[str, stat_result],
        options: Options,
        file: PolicyFile,
    ) -> None:
        output, self.table = outputs
        watch = assumption_watch(file, source, options)
        super().__init__(check, source, output, None, logs, options, watch)
        self.lines = output
        self.part = part
        self.joined = ByteWriter()
        self.writer = self.joined

    def make_part(self) -> Part:
        """Make the policies with variables once the types of columns are known."""
        raise NotImplementedError

    def feed(self, batch: TextBatch | EventBatch) -> Iterator[None]:
        """Check the events of a batch; yield now and then."""
        if self.part is None:
            self.part = self.make_part()
        cuts = self.part.feed(batch)
        for _ in self.check.feed(batch, self.source, cuts):
            self.take()
            yield

    def take(self) -> None:
        """Take the lines of all policies, up to the events that all have seen."""
        super().take()
        self.joined.write(self.lines.writer.take())
        if self.part is not None:
            self.joined.write(self.part.take(self.check.position))

    def end(self, end_time: EndTime) -> Iterator[None]:
        """Check a last row without a line feed, and end the log; yield now and then."""
        yield from super().end(end_time)
        if self.part is not None:
            self.part.check.run.end(end_time)

    def finish(self) -> None:
        """Convert what is left, and write the end of the file to the writer."""
        if self.part is None and self.table is not None:
            # the columns of a log without rows
            self.part = self.make_part()
        self.take()
        if self.part is not None:
            self.joined.write(self.part.take())
        self.lines.close()
        self.joined.write(self.lines.writer.take())


class MixedTableWork(MixedWork):
    """Likewise, for tables.

    Args:
        shown: for each atom, the names that batches show the values of its arguments under.
    """

    def __init__(
        self,
        check: LogCheck,
        source: TableEvents,
        shown: dict[str, list[str]],
        logs: Mapping[str, stat_result],
        options: Options,
        file: PolicyFile,
    ) -> None:
        outputs = mixed_output(check, source, options)
        super().__init__(check, source, None, outputs, logs, options, file)
        self.file = file
        self.shown = shown

    def make_part(self) -> Part:
        assert not isinstance(self.source, TextLog)
        analysis = valid_analysis(self.file, self.source.schema)
        engine = engine_for(self.file, analysis, self.options)
        times = self.source.times
        key_count = len(self.check.partitions.all_columns)
        part = Part(
            engine, self.options, self.check.memory, key_count, self.table, self.lines, times
        )
        whole = self.check.partitions.columns.index(())
        part.rows = rows_of_batches(
            part.check.plan, part.check, self.shown, self.options, partition=whole
        )
        return part


def check_mixed_text(
    file: PolicyFile, check: LogCheck, options: Options, memory: MemoryLimit
) -> int:
    """Check the policies on a text log; return the exit status."""
    require_no_conditions(file, options)
    log = open_log(options.log)
    atoms, streams = text_atoms(check, file, log.name, {}, options.on_error)
    if streams is not None:
        raise Failure(
            "atoms and streams that are computed cannot be run together with policies with "
            "variables on a text log yet: write them in two files"
        )
    outputs = lines, table = mixed_output(check, None, options)
    engine = engine_for(file, valid_analysis(file, None), options)
    part = Part(engine, options, memory, 0, table, lines)
    made = part.check.plan
    rows = RowScanner(
        named_rows(made),
        part.check.engine.points,
        made.texts,
        path=log.name,
        skip_errors=options.on_error == "skip",
        marks=atoms,
    )
    source = TextLog(log.descriptor, log.name, atoms, memory=memory, events=RowEvents(rows))
    work = MixedWork(check, source, part, outputs, statuses(source), options, file)
    return run_mixed(work, file, options)


def check_mixed_tables(
    file: PolicyFile, check: LogCheck, options: Options, memory: MemoryLimit
) -> int:
    """Check the policies on tables; return the exit status."""
    names = used_atoms(file)
    require_rows_of_tables(file, names)
    shown = shown_arguments(file, names)
    every_shown = [one for some in shown.values() for one in some]
    whole = check.partitions.columns.index(())
    needed = check.atoms_of_partitions
    needed[whole][0] = list(dict.fromkeys([*needed[whole].get(0, ()), *names]))
    shown_of_partitions: list[dict[When, list[str]]] = [{} for _ in needed]
    shown_of_partitions[whole][0] = every_shown
    with closing(
        open_table_source(
            options,
            list(dict.fromkeys([*check.atoms, *names])),
            file,
            check.partitions.columns,
            memory,
            atoms_of_partitions=needed,
            shown=shown_of_partitions,
        )
    ) as source:
        work = MixedTableWork(check, source, shown, statuses(source), options, file)
        return run_mixed(work, file, options)


def run_mixed(work: MixedWork, file: PolicyFile, options: Options) -> int:
    """Run the work; return the exit status."""
    check, source = work.check, work.source
    verdicts = open_verdicts(options.output, statuses(source), options.formula_file)
    pump = Pump(
        work, verdicts, Signals(verdicts), progress_for(source.size or 0, verdicts, options)
    )

    def has_violation() -> bool:
        if any(map(is_violated, check.policies, check.counts)):
            return True
        return work.part is not None and work.part.check.has_violation(file)

    def report(_status: int, _seconds: float) -> None:
        report_end(work)
        if work.part is not None:
            rows = work.part.rows
            if rows is not None and rows.left_out:
                what = plural(rows.left_out, "row")
                note(f"left out {what} of atoms, as an argument is null or no number")
            work.part.check.report_end()

    def summary(seconds: float) -> str:
        lines = policies_summary(check, source, seconds, work.assumptions)
        if work.part is None:
            return lines
        return f"{lines}\n\n{work.part.check.counts_table()}"

    return run_to_end(
        pump,
        has_violation=has_violation,
        report=report,
        summary=summary,
        wants_summary=options.summary,
        end_time=options.end_time,
    )
