"""Check policies with variables on tables."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.cli.failure import note
from mtlmon.cli.files import open_verdicts
from mtlmon.cli.policies import assumption_watch, note_skipped, open_table_source, statuses
from mtlmon.cli.policy_work import LogWork, NoWriter
from mtlmon.cli.pump import Pump
from mtlmon.cli.relations import Check, valid_analysis
from mtlmon.cli.report import absent_atoms, plural, progress_for
from mtlmon.cli.running import run_to_end
from mtlmon.cli.signals import Signals
from mtlmon.engine.native import MemoryLimit
from mtlmon.relational.atoms import refuse_points, require_rows_of_tables, used_atoms
from mtlmon.relational.planning import plan
from mtlmon.support.option_names import COMMAND
from mtlmon.tables.relations import RelationRows, shown_arguments, table_atoms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.cli.arguments import Options
    from mtlmon.cli.files import Writer
    from mtlmon.cli.pump import EndTime
    from mtlmon.policy import PolicyFile
    from mtlmon.relational.plan import Plan
    from mtlmon.tables import TableEvents
    from mtlmon.tables.events import EventBatch

__all__ = ["check_tables", "rows_of_batches"]


class TableWork(LogWork["EventBatch"]):
    """Reads the rows of tables as time-points, and checks them.

    Args:
        source: the log.
        shown: for each atom, the names that batches show the values of its arguments under.
        file: the policies.
        options: the options of the command line.
    """

    source: TableEvents

    def __init__(
        self,
        source: TableEvents,
        shown: dict[str, list[str]],
        file: PolicyFile,
        options: Options,
        memory: MemoryLimit,
    ) -> None:
        super().__init__(source, iter(source), assumption_watch(file, source, options))
        self.shown = shown
        self.file = file
        self.options = options
        self.memory = memory
        # known once rows have shown the types of the columns
        self.check: Check | None = None
        self.rows: RelationRows | None = None
        self.tail: EventBatch | None = None
        self.writer: Writer = NoWriter()

    @property
    def is_stopped(self) -> bool:
        return self.check is not None and self.check.run.is_stopped

    @property
    def event_count(self) -> int:
        return self.source.rows

    @property
    def left_out(self) -> int:
        """How many rows atoms lack, as an argument has no value."""
        return 0 if self.rows is None else self.rows.left_out

    def started(self) -> tuple[Check, RelationRows]:
        """Return the check and what makes time-points, which need the types of columns."""
        if self.check is None or self.rows is None:
            made = plan(self.file, valid_analysis(self.file, self.source.schema))
            self.check = Check(made, self.options, self.memory, self.source.times)
            self.writer = self.check.output.writer
            self.rows = rows_of_batches(made, self.check, self.shown, self.options)
        return self.check, self.rows

    def read(self) -> Iterator[None]:
        """Check the log up to a last row without a line feed; yield now and then."""
        while not self.is_stopped and (batch := self.next_batch()) is not None:
            if batch.is_tail:
                self.tail = batch
                return
            yield from self.feed(batch)
            self.note_absent()

    def feed(self, batch: EventBatch) -> Iterator[None]:
        """Check the rows of a batch; yield now and then."""
        _, rows = self.started()
        rows.load(batch)
        yield from self.advance()

    def advance(self) -> Iterator[None]:
        """Check the rows that are loaded; yield now and then."""
        check, rows = self.started()
        more = True
        while more and not self.is_stopped:
            more = rows.read()
            check.run.advance(keeps_texts=more)
            yield

    def end(self, end_time: EndTime) -> Iterator[None]:
        """Check a last row without a line feed, and end the log; yield now and then."""
        while self.tail is not None:
            batch, self.tail = self.tail, None
            yield from self.feed(batch)
            if not self.is_stopped:
                self.tail = self.next_batch()
        if not self.is_stopped:
            check, rows = self.started()
            rows.load_end()
            yield from self.advance()
            if not self.is_stopped:
                check.run.end(end_time)
        self.is_complete = not self.is_stopped

    def finish(self) -> None:
        """Convert what is left, and write the end of the file to the writer."""
        if self.check is not None:
            self.check.output.close()

    def close(self) -> None:
        """Do nothing: the source is closed by its opener."""


def rows_of_batches(
    made: Plan, check: Check, shown: Mapping[str, Sequence[str]], options: Options
) -> RelationRows:
    """Return what makes time-points of batches.

    Args:
        made: the plan of the policies.
        check: takes the time-points.
        shown: for each atom, the names that batches show the values of its arguments under.
        options: the options of the command line.
    """
    by_stamp = options.time_points == "stamp"
    atoms = table_atoms(made, shown)
    return RelationRows(atoms, check.engine.points, made.texts, by_stamp=by_stamp)


def check_tables(file: PolicyFile, options: Options) -> int:
    """Check the policies on tables; return the exit status."""
    names = used_atoms(file)
    require_rows_of_tables(file, names)
    if options.time_points == "stamp":
        refuse_points(file)
    shown = shown_arguments(file, names)
    memory = MemoryLimit(options.max_memory, COMMAND)
    every_shown = [one for some in shown.values() for one in some]
    with closing(
        open_table_source(options, names, file, [()], memory, shown=[{0: every_shown}])
    ) as source:
        logs = statuses(source)
        verdicts = open_verdicts(options.output, logs, options.formula_file)
        work = TableWork(source, shown, file, options, memory)
        progress = progress_for(source.size or 0, verdicts, options)
        pump = Pump(work, verdicts, Signals(verdicts), progress)

        def report(_status: int, _seconds: float) -> None:
            note_skipped(source)
            if work.left_out:
                rows = plural(work.left_out, "row")
                note(f"left out {rows} of atoms, as an argument is null or no number")
            if work.is_complete and source.unseen_atoms:
                note(absent_atoms(source.unseen_atoms, source.rows, lambda: source.seen_names))
            if work.check is not None:
                work.check.report_end()

        def summary(seconds: float) -> str:
            check, rows = work.started()
            counts = [("rows", source.rows, ""), ("time-points", rows.point_count, "")]
            if source.skipped:
                counts.append(("skipped", source.skipped, "that cannot be read"))
            if work.left_out:
                counts.append(("left out", work.left_out, "rows of atoms, without a value"))
            return check.summary(counts, "rows", seconds)

        return run_to_end(
            pump,
            has_violation=lambda: work.check is not None and work.check.has_violation(file),
            report=report,
            summary=summary,
            wants_summary=options.summary,
            end_time=options.end_time,
        )
