"""Queries of relations on logs that go on: records as they become final, or at once as revisions.

They are runs as those of policies are: the same readers, order of time, checkpoints and clocks.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from mtlmon.checking.arrived_rows import ArrivedRows, unnamed_rows
from mtlmon.checking.history_check import Bounds
from mtlmon.engine.native import MemoryLimit
from mtlmon.policy.validity.compared import columns_of_relations_compared
from mtlmon.policy.validity.declared import reads_rows
from mtlmon.relations.declared import columns_to_read
from mtlmon.relations.looking_up import FIRST
from mtlmon.relations.of_rows import ReadRows
from mtlmon.relations.plan_texts import found_plan_text
from mtlmon.relations.records import NO_END
from mtlmon.relations.standing import Revisions, StandingQuery
from mtlmon.run.endings import note_skipped
from mtlmon.run.failure import RunError
from mtlmon.run.files import verdicts_of
from mtlmon.run.late_rows import (
    LateFile,
    corrected_order,
    late_file,
    moved_ends,
    note_incomplete,
    note_refused,
    note_unmoved,
    table_order,
)
from mtlmon.run.late_work import bounds_of
from mtlmon.run.policies import make_pump, open_table_source, statuses
from mtlmon.run.policy_work import EventWork
from mtlmon.run.report import lost_rows, memory_row, plural, table
from mtlmon.run.running import run_to_end
from mtlmon.run.snapshot_parts import QUERY, damaged, joined_parts, require_same, split_parts
from mtlmon.run.table_output import answer_output, continue_table
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.syntax.report import visible
from mtlmon.tables.columns.writings import Writings
from mtlmon.tables.formats.dialect import Dialect
from mtlmon.tables.formats.files import table_sources
from mtlmon.tables.looking_up import columns_of_log
from mtlmon.tables.querying import (
    declared_records,
    environment_of,
    last_time,
    require_relation,
    shown_columns,
)
from mtlmon.tables.record_tables import FinalTable, RevisionTable

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from typing import Any

    from mtlmon.checking.arrived_rows import Arrived
    from mtlmon.checking.text_logs import TextBatch
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.limits import Tally
    from mtlmon.run.pump import EndTime
    from mtlmon.run.running import Steps
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.outputs import RowOutput

__all__ = ["is_standing", "standing_records"]

# stands in for the columns of a relation that reads none: a batch would not know its rows
_NO_COLUMN = "\0"


def is_standing(file: PolicyFile, relation: str, options: RunSpec) -> bool:
    """Whether a query is evaluated while its log is read.

    Args:
        file: the policies that declare the relation.
        relation: its name.
        options: what is asked for.
    """
    if not reads_rows(file.intervals, relation):
        return False
    times, log = options.times, options.log
    asks = times.reorders or times.lateness is not None or times.idle is not None
    asks = asks or options.checkpoint.path is not None or log.follow is not None
    return asks or STANDARD_STREAM in log.paths or log.has_pipe


def standing_records(file: PolicyFile, relation: str, options: RunSpec) -> Steps:
    """Evaluate a relation while its log is read; return the exit status.

    Args:
        file: the policies that declare it.
        relation: its name.
        options: what is asked for.

    Raises:
        RunError: a file cannot be read or written.
        MtlmonError: the relation is invalid, or the log cannot be read.
    """
    require_relation(file, relation)
    memory = MemoryLimit(options.limits.max_memory, options.option_names)
    query = standing_query(file, relation, options, memory)
    late = None
    if options.times.lateness is not None:
        late = late_file(options, keeps=options.checkpoint.path is not None)
    new_end = moved_ends(file, options, relation)
    reader, shown = shown_columns(file, query.columns, file.row_types)
    source = open_table_source(
        options,
        (),
        reader,
        [()],
        memory,
        atoms_of_partitions=[{0: ()}],
        shown=[{0: list(shown.values())}],
        order=table_order(options)
        if late is None and options.times.lateness is None
        else corrected_order(options, late, new_end),
    )
    compared = columns_of_relations_compared(file)
    source.writings = Writings(
        [one for one in query.columns if one in compared - set(file.row_types)]
    )
    if options.output.arrival:
        source.cut_batches()
    with closing(source):
        logs = statuses(source)
        work = QueryWork(query, source, shown, late, logs, options, memory)
        verdicts = verdicts_of(options, logs, keeps=options.checkpoint.path is not None)
        signals = options.host.signals(verdicts, is_held=options.checkpoint.path is not None)
        return (
            yield from run_to_end(
                make_pump(work, verdicts, signals, options),
                host=options.host,
                has_violation=lambda: False,
                report=lambda _, __: work.report_end(),
                summary=work.summary,
                wants_summary=options.reporting.summary,
                end_time=options.times.end_time,
            )
        )


def standing_query(
    file: PolicyFile, relation: str, options: RunSpec, memory: MemoryLimit
) -> StandingQuery:
    """Return what evaluates a relation, with the records of the tables that it reads."""
    log = options.log
    dialect = Dialect(list(log.null_values), log.delimiter, log.quote, log.decimal)
    given: dict[str, Any] = {
        "time": log.time,
        "time_unit": log.time_unit,
        "time_format": log.time_format,
        "time_zone": log.time_zone,
        "resolution": options.times.time_stamp_unit,
        "option_names": options.option_names,
        **dialect._asdict(),
    }
    sources = table_sources(
        log.sources, "lines" if log.pattern else log.format, options.option_names
    )
    columns = columns_to_read(
        file,
        relation,
        (),
        lambda: columns_of_log(sources[0], log.pattern, dialect) if sources else None,
        needs_all=True,
    )
    tables = declared_records(file, relation, given, memory, inputs=log.inputs)
    environment = environment_of(file, given)
    if columns is None:
        raise RunError(
            f"relation {visible(relation)} has all columns of the log, which are not known before "
            "a pipe is read: select some, as in rows select road as road, speed as speed"
        )
    return StandingQuery(ReadRows(file, relation, columns, tables, environment))


class QueryWork(EventWork):
    """Reads a log, and converts the records of a relation.

    Args:
        query: evaluates the relation.
        source: the log.
        shown: what batches call the columns that the relation reads.
        late: the file for rows that come too late, if these are found here.
        logs: the status of the log's files by name.
        options: the options of the run.
        memory: the limit on memory.
    """

    is_stopped = False
    event_word = "row"
    source: TableEvents

    def __init__(
        self,
        query: StandingQuery,
        source: TableEvents,
        shown: Mapping[str, str],
        late: LateFile | None,
        logs: Mapping[str, os.stat_result],
        options: RunSpec,
        memory: MemoryLimit,
    ) -> None:
        super().__init__(source, logs, options)
        self.query = query
        self.shown = shown
        self.late = late
        self.memory = memory
        self.count = 0
        self.refused_count = 0
        self.passed = 0
        self.is_explained = False
        # admits rows that come late; None if rows are in order
        self.arrived: ArrivedRows | None = None
        self.revisions: Revisions | None = None
        self.table: FinalTable = FinalTable(self.columns)
        times = options.times
        if times.lateness is not None and (times.wait is None or times.wait != times.lateness):
            self.revisions = Revisions(query)
            self.table = RevisionTable(self.columns, has_arrival=options.output.arrival)
        self.output: RowOutput[Any] = answer_output(self.table, options.output)
        self.writer = self.output.writer

    def columns(self) -> pa.Schema:
        """The columns of the relation, as far as they are known."""
        if not self.query.is_known:
            # without rows, no column has a type
            self.query.read(self.batch_of({}, 0))
        return self.query.query.result[1]

    @property
    def tallies(self) -> list[Tally]:
        return []

    @property
    def event_count(self) -> int:
        return self.count

    # ---- rows ------------------------------------------------------------------------------

    def read(self) -> Iterator[None]:
        """Take in the log up to a last row without a line feed; yield now and then."""
        if self.late is not None:
            # what an earlier run has written behind its checkpoint comes again
            self.late.begin()
        yield from super().read()

    def feed(self, batch: TextBatch | EventBatch) -> Iterator[None]:
        """Take in the rows of a batch."""
        taken = cast("EventBatch", batch)
        stamps = np.asarray(taken.time_stamps, np.int64)
        if len(stamps):
            inputs = self.batch_of(taken.shown_of(0), len(stamps))
            if self.options.times.lateness is None:
                self.know(inputs)
                rows = unnamed_rows(stamps, inputs)
                self.output.put(self.query.settle(rows, int(stamps[-1])))
            else:
                self.take_in_late(taken, stamps, inputs)
            self.count += len(stamps)
            self.check_memory()
        yield

    def know(self, inputs: pa.RecordBatch) -> None:
        """Let the query get to know rows."""
        self.query.read(inputs)
        self.explain()

    def batch_of(self, shown: Mapping[str, pa.Array], count: int) -> pa.RecordBatch:
        """The columns that are read; without values if they are not given."""
        nothing = pa.nulls(count)
        columns = {one: shown.get(name, nothing) for one, name in self.shown.items()}
        return pa.RecordBatch.from_pydict(columns or {_NO_COLUMN: nothing})

    def take_in_late(
        self, batch: EventBatch, stamps: np.ndarray[Any, np.dtype[np.int64]], inputs: pa.RecordBatch
    ) -> None:
        """Take in rows of which some may be late, or take back others."""
        arrived = self.admission()
        self.know(inputs)
        first = arrived.position
        refused, found = arrived.push(stamps, inputs, batch.corrections)
        if len(refused):
            self.refused_count += len(refused)
            lateness = self.bounds.lateness
            self.source.refuse(
                refused, f"it is more than the lateness, {lateness}, below the largest one so far"
            )
        self.take(found)
        for number, reason in arrived.take_rejected():
            self.source.reject(number - first, reason)

    def admission(self, bounds: Bounds | None = None) -> ArrivedRows:
        """What admits rows, once the unit of the log is known; `bounds` are those of a snapshot."""
        if self.arrived is None:
            self.bounds = bounds or bounds_of(self.options, self.source)
            self.arrived = ArrivedRows(
                lateness=self.bounds.lateness,
                wait=self.bounds.wait,
                equality=self.options.log.op is not None and self.options.log.id is None,
            )
        return self.arrived

    def take(self, found: Arrived, end: int | None = None) -> None:
        """Convert what has changed with rows; `end` is that of the log."""
        bound = found.bound if end is None else NO_END
        if self.revisions is None:
            if self.query.is_known and end is not None:
                self.output.put(self.query.finish(found.rows, end))
            elif self.query.is_known:
                self.output.put(self.query.settle(found.rows, bound))
            return
        now = found.now if end is None else end
        revision = self.revisions.update(found.rows, found.removed, bound, now)
        assert isinstance(self.table, RevisionTable)
        self.table.final = bound if bound not in (0, NO_END) else self.table.final
        self.table.arrival = self.known_time or 0
        if revision is not None:
            self.output.put(revision)

    def check_memory(self) -> None:
        """Count what is held."""
        held = self.query.held_bytes
        held += 0 if self.revisions is None else self.revisions.byte_count
        held += 0 if self.arrived is None else self.arrived.byte_count
        held += self.source.bytes_of_moves
        self.memory.note("relations", held)
        self.memory.check()

    def end_check(self, end_time: EndTime) -> Iterator[None]:
        """End the log: all records are final."""
        if isinstance(end_time, int):
            self.passed = max(self.passed, end_time)
        if self.arrived is not None:
            found = self.arrived.end(end_time)
            self.take(found, last_time(end_time, self.arrived.latest))
        elif self.query.is_known:
            watermark = self.query.query.watermark
            last = None if watermark == FIRST else watermark
            self.output.put(self.query.finish(None, last_time(end_time, last)))
        yield

    def finish(self) -> None:
        """Write the end of the file to the writer."""
        self.output.close()

    def close(self) -> None:
        """Do nothing: the log is closed by those who have opened it."""

    def work_in_small_steps(self, events: int) -> None:
        """Do nothing: a batch is what is read at once."""

    # ---- time without rows -----------------------------------------------------------------

    @property
    def known_time(self) -> int | None:
        """No row is below this time; None before the first one."""
        if self.source.clock is None:
            return None
        closed = 0 if self.arrived is None else self.arrived.closed_below
        return max(self.source.clock, self.source.passed, self.passed_before, self.passed, closed)

    def pass_time(self, time_stamp: int) -> None:
        """Declare that no later row is below a time, which is above the known one."""
        self.passed = time_stamp
        if self.arrived is not None:
            self.take(self.arrived.pass_time(time_stamp))
            return
        if self.query.is_known:
            self.output.put(self.query.settle(None, time_stamp))
        self.source.pass_time(time_stamp)

    def release(self, time_stamp: int) -> bool:
        """Take in the rows that waited, as those below a time come too late from now on."""
        if self.options.times.lateness is None:
            self.check_released(self.source.rows_until(time_stamp))
        return False

    # ---- what is told ----------------------------------------------------------------------

    @property
    def refused(self) -> int:
        """How many rows came too late."""
        return self.source.refused if self.arrived is None else self.refused_count

    def report_end(self) -> None:
        """Mention what the records do not show."""
        source, host = self.source, self.host
        note_skipped(source, host)
        note_refused(self.refused, source.row_name, self.options)
        if self.arrived is not None and self.arrived.unmatched:
            host.note(f"{plural(self.arrived.unmatched, 'retraction')} found no row")
        incomplete = 0 if self.arrived is None else self.arrived.incomplete
        note_incomplete(incomplete, source.row_name, self.options)
        note_unmoved(source.unmoved, self.options)

    def summary(self, seconds: float) -> str:
        """Return counts and the speed of a run that took so many seconds."""
        rows = [("rows", self.count, ""), *lost_rows(self.source, self.refused)]
        rows.append(memory_row(self.memory))
        return table(rows, self.source.rows, "rows", seconds)

    def explain(self) -> None:
        """Say how the relation is evaluated, once columns are known."""
        if self.options.reporting.explain and not self.is_explained:
            self.is_explained = True
            text = found_plan_text(self.query.query.found, self.options.times.resolution)
            self.host.note(f"relation {visible(self.query.name)}, {text}")

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether `snapshot` can be called: not at the end."""
        return not self.has_ended

    def settings(self) -> list[tuple[str, object]]:
        """Return the settings that must not change, each with the words for an error message."""
        options = self.options
        return [
            ("for another relation", self.query.name),
            *options.output.settings,
            ("with another --lateness", str(options.times.lateness)),
            ("with another --wait", str(options.times.wait)),
            ("with another --op", options.log.op),
            ("with another --id", options.log.id),
            ("with another --complete", list(options.log.complete or ())),
            ("with another --new-end", options.log.new_end),
            (f"with{'out' if options.output.arrival else ''} --arrival", options.output.arrival),
            (f"with{'out' if options.times.late else ''} --late", options.times.late is not None),
        ]

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        late = 0 if self.late is None else self.late.size
        told = None
        if isinstance(self.table, RevisionTable):
            told = [self.table.revision, self.table.final]
        bounds = None if self.arrived is None else [self.bounds.lateness, self.bounds.wait]
        settings = [value for _, value in self.settings()]
        head = [settings, self.count, self.refused_count, late, told, bounds]
        parts = [json.dumps(head).encode(), self.source.late_header]
        parts += self.query.snapshot() if self.query.is_known else (b"", b"")
        parts.append(b"" if self.arrived is None else self.arrived.snapshot())
        parts.append(b"" if self.revisions is None else self.revisions.snapshot())
        return joined_parts(QUERY, parts)

    def restore(self, snapshot: bytes, output_size: int) -> None:
        """Continue from the snapshot of an earlier run that has written `output_size` bytes.

        Raises:
            SnapshotError: the snapshot is damaged, or belongs to another query or other options.
        """
        try:
            parts = split_parts(snapshot, QUERY, 6)
            text, header, types, state, arrived, revisions = parts
            settings, self.count, self.refused_count, late, told, bounds = json.loads(text)
        except (ValueError, TypeError):
            raise damaged() from None
        require_same(self.settings(), settings)
        if types:
            self.query.restore(types, state)
        if bounds is not None:
            try:
                self.admission(Bounds(*bounds)).restore(arrived)
                if self.revisions is not None:
                    self.revisions.restore(revisions)
            except (ValueError, TypeError):
                raise damaged() from None
        if isinstance(self.table, RevisionTable):
            self.table.revision, self.table.final = told
        if self.late is not None:
            self.late.resume(late)
        if header and self.options.times.lateness is not None:
            # rows that wait come again from the beginning, and so does what is too late for them
            self.source.late_header = header
        continue_table(self.output, output_size, self.options)
