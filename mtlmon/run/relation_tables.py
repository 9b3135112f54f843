"""Check policies with variables on tables."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from mtlmon.engine.native import MemoryLimit
from mtlmon.relational.analysis import valid_analysis
from mtlmon.relational.atoms import refuse_points, require_rows_of_tables, used_atoms
from mtlmon.run.context import texts_of
from mtlmon.run.endings import note_skipped
from mtlmon.run.event_parts import EventPart
from mtlmon.run.files import position_of_input, verdicts_of
from mtlmon.run.late_rows import note_refused, table_order
from mtlmon.run.policies import assumption_watch, make_pump, open_table_source, statuses
from mtlmon.run.policy_work import SMALLEST_STEP_EVENTS, LogWork, NoWriter
from mtlmon.run.relation_checkpoints import (
    restore_check,
    restored_source,
    snapshot_of,
)
from mtlmon.run.relations import Check, engine_for, points_at_once, tell_findings
from mtlmon.run.report import absent_atoms, broken_rows, plural
from mtlmon.run.running import run_to_end
from mtlmon.run.table_output import continue_table
from mtlmon.support.snapshot_parts import sized, take_sized
from mtlmon.tables.relation_traces import RelationTraces
from mtlmon.tables.relations import shown_arguments

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.checking.counts import PolicyCounts
    from mtlmon.policy import PolicyFile
    from mtlmon.run.checkpoint import LogMark
    from mtlmon.run.files import Writer
    from mtlmon.run.pump import EndTime
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.relations import RelationRows
    from mtlmon.tables.violations import Judged

__all__ = ["check_tables"]


class TableWork(LogWork["EventBatch"]):
    """Reads the rows of tables as time-points, and checks them.

    Args:
        source: the log.
        traces: makes time-points of the rows.
        file: the policies.
        options: the options of the run.
        memory: the memory limit of the run.
        logs: the status of the log's files by name.
    """

    source: TableEvents

    def __init__(
        self,
        source: TableEvents,
        traces: RelationTraces,
        file: PolicyFile,
        options: RunSpec,
        memory: MemoryLimit,
        logs: Mapping[str, os.stat_result],
    ) -> None:
        watch = assumption_watch(file, source, options.times)
        super().__init__(source, iter(source), watch, options.host)
        self.traces = traces
        self.file = file
        self.options = options
        self.memory = memory
        # known once rows have shown the types of the columns
        self.check: Check | None = None
        self.rows: RelationRows | None = None
        self.writer: Writer = NoWriter()
        self.most_points = points_at_once(options.judging)
        # for checkpoints: the log's files, its name in messages, and what a run continues from
        self.logs: Sequence[os.stat_result] = list(logs.values())
        self.name = next(iter(logs)) if len(logs) == 1 else f"the {plural(len(logs), 'log')}"
        self.restored: tuple[bytes, list[bytes], int] | None = None

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
            analysis = valid_analysis(self.file, self.source.schema, self.source.looked_up)
            engine = engine_for(self.file, analysis, self.options)
            self.check = Check(
                engine, self.options, self.memory, self.source.times, analysis=analysis
            )
            self.writer = self.check.output.writer
            self.rows = self.check.rows_of(self.traces, self.source.key_tables)
        return self.check, self.rows

    def feed(self, batch: EventBatch) -> Iterator[None]:
        """Check the rows of a batch; yield now and then."""
        check, rows = self.started()
        check.note_rows(batch)
        rows.load(batch)
        yield from self.advance()

    def advance(self) -> Iterator[None]:
        """Check the rows that are loaded; yield now and then."""
        check, rows = self.started()
        more = True
        while more and not self.is_stopped:
            more = rows.read(self.most_points)
            check.run.advance(keeps_texts=more)
            check.forget_rows()
            yield

    def end_check(self, end_time: EndTime) -> Iterator[None]:
        """Check the rows that wait, and end the log; yield now and then."""
        if self.is_stopped:
            return
        check, rows = self.started()
        rows.load_end()
        yield from self.advance()
        if not self.is_stopped:
            check.run.end(end_time)

    @property
    def counts(self) -> dict[str | None, PolicyCounts]:
        """How many time-points are true, false and undecided so far, by the name of the policy."""
        return {} if self.check is None else self.check.counts

    def require_violations(self) -> None:
        """Do nothing: valuations have no equivalences."""

    def judged(self) -> Judged:
        """Return what the rows of its table are about."""
        return self.started()[0].judged()

    def finish(self) -> None:
        """Convert what is left, and write the end of the file to the writer."""
        if self.check is not None:
            self.check.output.close()

    def close(self) -> None:
        """Do nothing: the source is closed by its opener."""

    # ---- time without rows -----------------------------------------------------------------

    @property
    def known_time(self) -> int | None:
        """No row is below this time; None before the first row, and if none is wanted."""
        if self.source.clock is None or self.check is None or self.is_stopped:
            return None
        return max(self.source.clock, self.source.passed)

    def release(self, time_stamp: int) -> bool:
        """Declare that rows below a time come too late, and check those that waited for it."""
        self.check_released(self.source.rows_until(time_stamp))
        return False

    def pass_time(self, time_stamp: int) -> None:
        """Declare that no later row is below a time, which is above the known one."""
        check, rows = self.started()
        # the rows of the last time-stamp are complete
        rows.load_end()
        for _ in self.advance():
            pass
        check.run.pass_time(time_stamp)
        self.source.pass_time(time_stamp)

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The number of rows of the log that have been checked, in this and all earlier runs."""
        return 0 if self.rows is None else self.rows.row_count

    @property
    def amount(self) -> str:
        rows = self.position
        if self.rows is None and self.restored is not None:
            rows = self.restored[2]
        return plural(rows, "row")

    @property
    def is_settled(self) -> bool:
        return not self.has_ended

    def settle(self) -> bool:
        """Do nothing: all rows that are counted have been checked."""
        return False

    def begin_part(self) -> None:
        """Start with nothing of the log that a later run has to know again."""
        self.source.digests_shown = True
        self.part_checked = EventPart(self.source)

    def log_mark(self) -> LogMark:
        """Return how the rows up to the position are known again."""
        assert self.part_checked is not None
        return self.part_checked.mark(self.position)

    def snapshot(self) -> bytes:
        if self.check is None or self.rows is None:
            return snapshot_of(None, b"", self.options)
        kept = self.rows.snapshot()
        if self.options.log.given is not None:
            # nobody has the rows that are held back, so they are not read again
            kept = sized(kept) + self.rows.held_rows()
        return snapshot_of(self.check, kept, self.options)

    def restore(self, snapshot: bytes, output_size: int) -> None:
        source, run = restored_source(snapshot, self.options)
        if source:
            # the plan needs the types of columns, which are known once rows have been read
            self.restored = source, run, output_size

    def skip(self, mark: LogMark) -> Iterator[None]:
        """Go to the position, or read the rows up to there without checking; yield now and then.

        Raises:
            LogEnds: the log has fewer rows than that.
            LogDiffers: it has other rows.
            SnapshotError: the snapshot is of other policies.
        """
        if self.restored is None:
            return
        source, run, output_size = self.restored
        held = b""
        if self.options.log.given is not None:
            source, held = take_sized(source)
        position = int(source.partition(b" ")[0])
        self.restored = source, run, position
        assert self.part_checked is not None
        yield from self.part_checked.skip(mark, position)
        check, rows = self.started()
        restore_check(check, run)
        rows.restore(source)
        rows.restore_held(held)
        continue_table(check.output, output_size, self.options)

    def work_in_small_steps(self, events: int) -> None:
        self.most_points = min(self.most_points, max(SMALLEST_STEP_EVENTS, events))


def check_tables(file: PolicyFile, options: RunSpec) -> Steps:
    """Check the policies on tables; return the exit status."""
    names = used_atoms(file)
    require_rows_of_tables(file, names)
    if options.log.time_points == "stamp":
        refuse_points(file)
    shown = shown_arguments(file, names)
    memory = MemoryLimit(options.limits.max_memory, options.option_names)
    traces = RelationTraces(file, shown)
    has_checkpoints = options.checkpoint.path is not None
    start_of_input = position_of_input(options.log)
    with closing(
        open_table_source(
            options,
            names,
            file,
            traces.columns,
            memory,
            shown=traces.shown,
            order=table_order(options),
        )
    ) as source:
        logs = statuses(source)
        verdicts = verdicts_of(options, logs, keeps=has_checkpoints)
        if options.output.for_people:
            # what writes the lines escapes what does not print
            verdicts.lines = None
            source.track_rows()
        work = TableWork(source, traces, file, options, memory, logs)
        options.host.take_judging(work)
        signals = options.host.signals(verdicts, is_held=has_checkpoints)
        if options.tracks_rows:
            source.track_rows()
        if options.reporting.needs_violations:
            from mtlmon.run.relation_findings import check_explained

            check_explained(options, logs, source)
        pump = make_pump(work, verdicts, signals, options)

        def report(status: int, seconds: float) -> None:
            if work.is_complete:
                work.started()[0].show_outcome(source.rows)
            note_skipped(source, options.host)
            note_refused(source.refused, source.row_name, options)
            if work.left_out:
                rows = plural(work.left_out, "row")
                options.host.note(
                    f"left out {rows} of atoms, because an argument is null or not a number"
                )
            if work.is_complete and (source.unseen_atoms or not source.rows):
                options.host.note(
                    absent_atoms(source.unseen_atoms, source.rows, lambda: source.seen_names)
                )
            if work.check is None:
                return
            work.check.report_end()
            if work.is_complete:
                work.check.tell_untriggered()
            if work.check.findings is not None:
                from mtlmon.run.relation_readers import table_reader

                analysis = valid_analysis(file, source.schema, source.looked_up)
                read = table_reader(
                    options,
                    file,
                    names,
                    shown,
                    memory,
                    work.check.engine.point_count,
                    start_of_input,
                )
                facts = source.rows, source.skipped
                end = status, seconds, signals
                texts = texts_of(source)
                tell_findings(work.check, file, analysis, read, options, logs, facts, end, texts)

        def summary(seconds: float) -> str:
            check, _ = work.started()
            counts = [("rows", source.rows, ""), ("time-points", check.engine.point_count, "")]
            if source.skipped:
                counts.append(("skipped", source.skipped, "that cannot be read"))
            if source.refused:
                counts.append(("too late", source.refused, "that were not checked"))
            if work.left_out:
                counts.append(("left out", work.left_out, "rows of atoms, without a value"))
            counts += broken_rows(work.assumptions)
            return check.summary(counts, "rows", seconds)

        return (
            yield from run_to_end(
                pump,
                host=options.host,
                has_violation=lambda: work.check is not None and work.check.fails(file),
                report=report,
                summary=summary,
                wants_summary=options.reporting.summary,
                end_time=options.times.end_time,
            )
        )
