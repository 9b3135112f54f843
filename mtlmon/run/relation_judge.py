"""The policies with variables of a run: a relational engine, its output and what it has found.

On tables, the plan needs the types of columns, so the engine is there once rows have been read.
Beside other policies, the engine takes each batch first, and its answers wait (`WaitingAnswers`)
until the others have come as far. Within a batch it is ahead of them.

Nothing has to be settled before a snapshot: the engine has read all time-points that a source has
made. The place is a number of bytes or rows; rows of a time-stamp that are held back
(`--time-points stamp`) are read again. For tables, the state is restored once the rows before the
place have been read, and the values of arguments are part of the log's digest. With `--verdicts
first`, the engine pauses where something is found, so that counts do not depend on blocks.
"""

from __future__ import annotations

import json
from itertools import repeat
from typing import TYPE_CHECKING, cast

from mtlmon.errors import MtlmonError, SnapshotError
from mtlmon.relational.analysis import valid_analysis
from mtlmon.relational.atoms import refuse_points, require_rows_of_tables, used_atoms
from mtlmon.relational.cells import from_cell, value_text
from mtlmon.relational.native import RelationalEngine
from mtlmon.relational.planning import plan
from mtlmon.relational.running import HOLDS_FOR, VIOLATED
from mtlmon.run.endings import note_left_out
from mtlmon.run.judges import SMALLEST_STEP_EVENTS, Judge, NoWriter, Told
from mtlmon.run.policies import asks_for_triggered
from mtlmon.run.relation_readers import (
    dropped_events,
    table_reader,
    text_events,
    text_reader,
)
from mtlmon.run.relations import Check, engine_for, points_at_once
from mtlmon.run.report import answer_counts, policy_remarks
from mtlmon.run.snapshot_parts import RELATIONS, joined_parts, require_same, split_parts
from mtlmon.run.table_output import answer_output, continue_table
from mtlmon.support.snapshot_parts import sized, take_sized

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import stat_result
    from typing import Any

    import pyarrow as pa

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.partitions import Partitions
    from mtlmon.checking.text_logs import LineEvents, TextBatch, TextLog
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.limits import Tally
    from mtlmon.policy.predicates.environment import Relation as LookedUp
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relational import Analysis
    from mtlmon.relational.input.native import RowEvents
    from mtlmon.relational.native import AnswerBlock, PointBlock
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.reasons.evidence import Reader
    from mtlmon.relational.slicing.engine import Engine
    from mtlmon.run.files import Writer
    from mtlmon.run.found_values import FoundValues
    from mtlmon.run.judges import Point
    from mtlmon.run.people import Outcome, PeopleAnswers
    from mtlmon.run.pump import EndTime
    from mtlmon.run.relations import Output
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents
    from mtlmon.tables.answer_table import AnswerTable
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.outputs import RowOutput
    from mtlmon.tables.relation_traces import RelationTraces
    from mtlmon.tables.relations import RelationRows
    from mtlmon.tables.valuations import ValuationTable
    from mtlmon.tables.violations import Judged
    from mtlmon.tables.waiting_answers import WaitingAnswers

__all__ = ["RelationJudge"]

# PERF: how many events of a text log are read at once, at least. With a fourth of these, a run over
# millions of them takes 3% longer.
LEAST_EVENTS = 1 << 12


class RelationJudge(Judge):
    """Checks policies with variables, and converts the answers to bytes.

    Args:
        file: the policies.
        options: the options of the run.
        memory: the memory limit of the run.
        start: where the log begins in standard input, if that is the log.
        others: how other policies divide the log into traces; None if there are no others.
        analysis: what is known of the policies before a log is read; None if it is to be found.

    Attributes:
        names: the atoms of tables that the policies use.
        traces: makes time-points of the rows of tables; None for a text log.
        events: what reads a text log; None for tables.
        source: the log, once it is open.
    """

    event_word = "row"
    traces: RelationTraces | None = None
    events: LineEvents | None = None
    source: TextLog | TableEvents | None = None

    def __init__(
        self,
        file: PolicyFile,
        options: RunSpec,
        memory: MemoryLimit,
        start: int | None,
        others: Partitions | None,
        analysis: Analysis | None = None,
    ) -> None:
        self.file = file
        self.options = options.having(verdicts=options.judging.given_verdicts or "false")
        self.memory = memory
        self.start = start
        self.has_others = others is not None
        # the columns of keys that answers have; None for those of these policies
        self.key_columns = None if others is None else others.all_columns
        self.most_points = points_at_once(options.judging)
        self.names = used_atoms(file)
        # what others write to as well, if it is a table, and that table
        self.output: Output | None = None
        self.table: AnswerTable | None = None
        self.valuations: ValuationTable | None = None
        self.engine: Engine | None = None
        self.check: Check | None = None
        # for tables, it is made once the types of columns are known
        self.analysis = None if options.log.is_table else analysis
        self.rows: RelationRows | None = None
        self.waiting: WaitingAnswers | None = None
        # what a run continues from: of the log, of the check, and how much is written
        self.restored: tuple[bytes, list[bytes], int] | None = None
        self.logs: Mapping[str, stat_result] = {}
        if options.log.is_table:
            # here and below on use: text logs need neither numpy nor Arrow
            from mtlmon.tables.relation_traces import RelationTraces
            from mtlmon.tables.relations import shown_arguments

            require_rows_of_tables(file, self.names)
            if options.log.time_points == "stamp":
                refuse_points(file)
            self.shown = shown_arguments(file, self.names)
            self.traces = RelationTraces(
                file, self.shown, None if others is None else others.columns
            )

    def share(self, table: AnswerTable) -> RowOutput[Any]:
        """Write to the table of policies without variables as well; return what writes it."""
        self.table = table
        output = self.output = answer_output(table, self.options.output)
        return output

    def prepared(self) -> Engine:
        """Return the engine, although no row may have shown the types of columns."""
        if self.engine is None:
            tables = self.tables
            if self.analysis is None:
                typed: tuple[pa.Schema | None, Mapping[str, LookedUp] | None] = (None, None)
                if tables is not None and tables.schema is not None:
                    # relations of rows have columns once rows do
                    typed = tables.schema, tables.looked_up
                self.analysis = valid_analysis(self.file, *typed)
            self.engine = engine_for(self.file, self.analysis, self.options)
        return self.engine

    def known(self) -> Check:
        """Return the check, which begins with the first rows, or at the end of a log without."""
        if self.check is None:
            engine, tables, options = self.prepared(), self.tables, self.options
            assert self.analysis is not None
            times = None if tables is None else tables.times
            if self.has_others:
                from mtlmon.tables.waiting_answers import WaitingAnswers

                by_stamp = options.log.time_points == "stamp"
                self.waiting = WaitingAnswers(engine.plan, by_stamp=by_stamp)
            self.check = Check(
                engine,
                options,
                self.memory,
                self.analysis,
                times,
                find=self.find,
                queue=None if self.waiting is None else self.waiting.queue,
                output=self.output,
                key_columns=self.key_columns,
            )
            if self.table is not None:
                from mtlmon.tables.valuations import valuation_table

                rows = self.check.point_rows if options.output.rows else None
                wanted = options.judging.verdicts
                self.valuations = valuation_table(engine.plan, times, wanted, rows)
                self.table.add(self.valuations)
            if tables is not None:
                assert self.traces is not None
                self.rows = self.check.rows_of(self.traces, tables.key_tables)
        return self.check

    # ---- how the log is read ---------------------------------------------------------------

    def open(self, source: TextLog | TableEvents, logs: Mapping[str, stat_result]) -> None:
        """Get the log, before its first event, and the status of its files by name."""
        self.source = source
        self.logs = logs
        if self.traces is None:
            engine, options = self.known().engine, self.options
            if not (self.has_others or isinstance(engine, RelationalEngine)):
                # a reader of a pipe waits for answers, and a checkpoint for all of them
                has_rows = options.tracks_rows or options.output.for_people
                is_read = cast("TextLog", source).is_regular
                engine.is_ahead = is_read and options.checkpoint.path is None and not has_rows
        elif self.options.checkpoint.path is not None:
            cast("TableEvents", source).digests_shown = True

    @property
    def tables(self) -> TableEvents | None:
        """The log, if it consists of tables."""
        return cast("TableEvents | None", self.source) if self.traces is not None else None

    @property
    def partitions(self) -> list[tuple[str, ...]]:
        """The key columns of each partition of tables."""
        assert self.traces is not None
        return self.traces.columns

    def add_to(
        self, needed: Sequence[dict[When, list[str]]], shown: Sequence[dict[When, list[str]]]
    ) -> None:
        """Add what these policies need of each partition of tables: atoms, and values to show."""
        assert self.traces is not None
        self.traces.add_atoms(needed, self.names)
        self.traces.add_shown(shown)

    def read_text(self, name: str, marks: Sequence[str]) -> LineEvents:
        """Return what reads the text log of this name, whose events have more atoms, `marks`."""
        if self.events is not None:
            return self.read_text_again(name)
        engine = self.prepared()
        own = engine.plan, engine.points, name
        self.events = self.events_for(*own, marks if self.has_others else None)
        if not self.has_others:
            self.events.scanner.most_events = max(self.most_points, LEAST_EVENTS)
        return self.events

    def events_for(
        self, made: Plan, points: PointBlock, name: str, marks: Sequence[str] | None = None
    ) -> LineEvents:
        """Return what reads the text log of this name into time-points; as `text_events`."""
        return text_events(self.file, made, points, name, self.options, self.memory, marks)

    def read_text_again(self, name: str) -> RowEvents:
        """Return what reads it once more for others, without the rows of these policies."""
        assert self.analysis is not None
        assert self.events is not None
        made = plan(self.file, self.analysis)
        return dropped_events(self.file, made, name, self.options.log, self.events.atoms)

    def reader(self) -> Reader:
        """Return what reads the log once more for explanations."""
        most = self.known().engine.point_count
        log = self.options, self.file
        if self.traces is None:
            return text_reader(self.events_for, self.options, most, self.start)
        return table_reader(*log, self.names, self.shown, self.memory, most, self.start)

    # ---- the work --------------------------------------------------------------------------

    @property
    def is_stopped(self) -> bool:
        return self.check is not None and self.check.run.is_stopped

    @property
    def position(self) -> int:
        if self.events is not None:
            return 0 if self.check is None else self.check.run.point_count
        if self.rows is not None:
            return self.rows.row_count
        if self.restored is None:
            return 0
        source = take_sized(self.restored[0])[0] if self.holds_rows else self.restored[0]
        return int(source.partition(b" ")[0])

    @property
    def writer(self) -> Writer:
        return NoWriter() if self.check is None else self.check.output.writer

    def feed(self, batch: TextBatch | EventBatch, cuts: Sequence[int]) -> Iterator[None]:
        check = self.known()
        check.note_rows(cast("EventBatch", batch))
        if self.rows is not None:
            self.rows.load(cast("EventBatch", batch))
            yield from self.advance()
            return
        # what reads a text log has made time-points already
        check.run.advance()
        yield

    def advance(self) -> Iterator[None]:
        """Check the rows that are loaded; yield now and then."""
        check, rows = self.known(), self.rows
        assert rows is not None
        more = True
        while more and not self.is_stopped:
            more = rows.read(self.most_points)
            is_behind = self.waiting is not None and len(self.waiting.queue) > 0
            check.run.advance(keeps_texts=more or is_behind)
            check.forget_rows()
            yield

    def take_ahead(
        self, batch: TextBatch | EventBatch, position: int
    ) -> tuple[list[int], int | None]:
        check = self.known()
        check.note_rows(cast("EventBatch", batch))
        if self.is_stopped:
            # time-points that have been read already
            check.engine.points.take()
            return [], None
        assert self.waiting is not None
        if self.error is None:
            try:
                self.take_batch(batch)
            except MtlmonError as error:
                if check.engine.failure is None:
                    raise
                self.error = error
        cuts = [count - position for count in self.waiting.cuts()]
        if self.error is None:
            return cuts, None
        # what comes before the time-point is told, and its cause may be in a later batch
        until = max(0, self.waiting.events_before(check.engine.point_count) - position)
        return [*cuts, until], until

    def take_batch(self, batch: TextBatch | EventBatch) -> None:
        """Take in a batch; its time-points may be there already, and those of later ones."""
        if self.rows is None:
            self.known().run.advance()
            return
        import numpy as np

        assert self.waiting is not None
        self.waiting.add(np.asarray(batch.time_stamps))
        self.rows.load(cast("EventBatch", batch))
        for _ in self.advance():
            pass

    def take(self, position: int | None) -> None:
        if self.check is None:
            return
        if self.waiting is not None:
            self.check.taker.put(self.waiting.found(position))
        self.check.forget_rows()

    def complete(self) -> Iterator[None]:
        self.known()
        if self.rows is not None and not self.is_stopped:
            self.rows.load_end()
            yield from self.advance()
            if self.waiting is not None:
                self.waiting.complete()

    def next_due(self, limit: int) -> int:
        return self.known().run.next_due(limit)

    def pass_time(self, time_stamp: int) -> Iterator[None]:
        self.known().run.pass_time(time_stamp)
        yield

    def end(self, end_time: EndTime) -> Iterator[None]:
        if self.is_stopped:
            return
        yield from self.complete()
        if not self.is_stopped:
            self.known().run.end(end_time)
            yield

    def know_columns(self) -> None:
        if self.table is not None:
            self.known()

    def finish(self) -> None:
        if self.check is not None and self.table is None:
            self.check.run.settle()
            self.check.output.close()

    def work_in_small_steps(self, events: int) -> None:
        self.most_points = min(self.most_points, max(SMALLEST_STEP_EVENTS, events))
        if self.events is not None and not self.has_others:
            reader = self.events.scanner
            reader.most_events = min(reader.most_events, self.most_points)

    # ---- the first violation ---------------------------------------------------------------

    @property
    def first_point(self) -> Point | None:
        return None if self.check is None else self.check.run.first_point

    @property
    def events_to_first(self) -> int:
        by_stamp = self.options.log.time_points == "stamp"
        return 0 if by_stamp else self.known().run.point_count

    def can_precede(self, point: Point, parts: int, *, or_meet: bool, seen: int) -> bool:
        run = self.known().run
        own = run.first_point if run.is_stopped else run.earliest_open()
        if own is None:
            return False
        return own[:parts] < point[:parts] or (or_meet and own[:parts] == point[:parts])

    def hold_first(self) -> None:
        """Do nothing: a check that has others beside it waits for `emit_first`."""

    def emit_first(self) -> None:
        self.known().run.emit_first()

    def open_first(self) -> tuple[str, str] | None:
        # the check mentions it at the end
        return None

    # ---- what is told ----------------------------------------------------------------------

    @property
    def tallies(self) -> list[Tally]:
        return [] if self.check is None else self.check.tallies

    def judged(self) -> Judged:
        check, table = self.known(), self.table
        if table is None:
            return check.judged()
        from mtlmon.tables.violations import Judged

        return Judged(self.file.policies, table.message, self.valuations, table.key_columns)

    def told(self, found: AnswerBlock) -> Iterator[Told]:
        import numpy as np

        check = self.known()
        made, tracked = check.plan, check.point_rows
        rows: Iterable[int | None] = repeat(None)
        if tracked is not None:
            rows = tracked.of(np.frombuffer(found.points(), np.uint64)).rows.tolist()
        for answer, row in zip(found.take(), rows, strict=False):
            policy, kind, time_stamp, offset, _, cells = answer
            own = made.named_policies[policy]
            width = len(own.key)
            # where nothing violates a policy, there is only the key
            known = cells[:width] if kind == HOLDS_FOR else cells
            values = [shown_value(*one, made.texts) for one in zip(known, own.kinds, strict=False)]
            named = zip(own.variables[width:], values[width:], strict=False)
            key, text = ", ".join(values[:width]), ", ".join(map(" = ".join, named))
            yield Told(own.name, 0, time_stamp, offset, kind != VIOLATED, row, key, text)

    def undecided(self, policy: int, most: int) -> Iterator[Told]:
        if self.check is not None:
            name = self.check.plan.named_policies[policy].name
            for point in self.check.engine.waiting_points(policy, most):
                yield Told(name, 0, *point, None)

    def key_count(self, policy: int) -> int:
        key = self.known().plan.named_policies[policy].key
        if not key:
            return 0
        assert self.source is not None
        return len(self.source.key_tables[self.partitions.index(key)] or ())

    def outcome(self) -> Outcome:
        return cast("PeopleAnswers", self.known().output).outcome(self.tallies)

    @property
    def left_out(self) -> int:
        """How many rows atoms lack, as an argument has no value."""
        return 0 if self.rows is None else self.rows.left_out

    def report_end(self, *, is_complete: bool) -> None:
        note_left_out(self.left_out, self.options.host)
        if self.check is not None:
            self.check.report_end()

    def log_rows(self, events: tuple[str, int, str]) -> list[tuple[str, int, str]]:
        if self.events is not None:
            return [events]
        return [events, ("time-points", self.known().engine.point_count, "")]

    def own_rows(self) -> list[tuple[str, int, str]]:
        left_out = ("left out", self.left_out, "rows of atoms, without a value")
        return [left_out] if self.left_out else []

    def summary(self) -> tuple[list[tuple[str, int, str]], str]:
        if self.check is None:
            return [], ""
        return [], f"\n\n{answer_counts(self.tallies)}{policy_remarks(self.tallies)}"

    @property
    def found(self) -> FoundValues | None:
        return self.known().found

    def find(self, check: Check) -> FoundValues:
        """Return what collects the violations of a check, once the log is there."""
        from mtlmon.run.findings import RunOf
        from mtlmon.run.found_values import FoundValues

        assert self.source is not None
        run_of = RunOf(self.file, self.source, self.logs, self.options)
        return FoundValues(check, run_of, self.reader)

    # ---- checkpoints -----------------------------------------------------------------------

    def snapshot(self) -> bytes:
        kept = [value for _, value in settings_of(self.options)]
        settings = json.dumps([*kept, self.options.judging.slices]).encode()
        state = [] if self.check is None else self.check.snapshot()
        return joined_parts(RELATIONS, [settings, self.known_of_log(), *state])

    def known_of_log(self) -> bytes:
        """Return what is known of the log, as bytes."""
        if self.events is not None:
            return self.events.snapshot()
        if self.rows is None:
            return b""
        kept = self.rows.snapshot()
        # otherwise, rows that wait for others of their time-stamp are behind the position
        return sized(kept) + self.rows.held_rows() if self.holds_rows else kept

    @property
    def holds_rows(self) -> bool:
        """Whether rows that wait for others of their time-stamp are part of a snapshot."""
        return self.has_others or self.options.log.given is not None

    def restore(self, snapshot: bytes, output_size: int) -> None:
        settings, source, *state = split_parts(snapshot, RELATIONS, 2)
        *kept, slices = json.loads(settings)
        require_same(settings_of(self.options), kept)
        if slices is not None and self.options.judging.slices is None:
            raise SnapshotError(
                f"it was made with --slices {slices}, so add --slices N; any number will do"
            )
        if self.events is not None:
            # another file is said to be one before its relations are compared
            self.known().restore(state)
            self.events.restore(source)
            if not self.has_others:
                continue_table(self.known().output, output_size, self.options)
        elif source:
            # the plan needs the types of columns, which are known once rows have been read
            self.restored = source, state, output_size

    def resume(self, event_count: int) -> None:
        if self.restored is None:
            return
        source, state, output_size = self.restored
        check = self.known()
        check.restore(state)
        assert self.rows is not None
        kept, held = take_sized(source) if self.holds_rows else (source, b"")
        self.rows.restore(kept)
        self.rows.restore_held(held)
        if self.waiting is None:
            continue_table(check.output, output_size, self.options)
            return
        self.waiting.restore(event_count, check.run.point_count, self.rows.held_stamp)


def shown_value(cell: int, kind: Kind, texts: KeyTable) -> str:
    """Return a value as a program shows it."""
    value = from_cell(cell, kind, texts)
    return value_text(value, kind) if kind.name == "time" else str(value)


def settings_of(options: RunSpec) -> list[tuple[str, object]]:
    """Return the settings that must not change, each with the words for an error message."""
    # a policy `at most 1%` lets them be counted as well, but then its plan is another one
    counts = (
        options.log.signature is None
        and options.judging.verdicts != "first"
        and asks_for_triggered(options)
    )
    return [
        options.log.setting,
        (
            "from another kind of log" if options.log.signature else "from a log of MonPoly",
            options.log.signature is not None,
        ),
        *options.output.settings,
        *options.reporting.settings,
        ("with another --verdicts", options.judging.verdicts),
        ("with other --time-points", options.log.time_points),
        (f"with{'out' if options.output.rows else ''} --rows", options.output.rows),
        (
            f"{'without' if counts else 'with'} counting how often left sides are matched "
            "(--fail-on-vacuous, --report)",
            counts,
        ),
    ]
