"""The policies with variables of a file that has others, and the output of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mtlmon.checking.outputs import TextOutput
from mtlmon.checking.partitions import TraceKeys
from mtlmon.checking.policy_facts import PolicyFacts
from mtlmon.run.relations import Check
from mtlmon.run.table_output import answer_output
from mtlmon.run.time_stamps import iso_times, time_texts
from mtlmon.tables.relation_check import valuation_table
from mtlmon.tables.relations_ahead import RelationsAhead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.checking import LogCheck
    from mtlmon.checking.text_logs import TextBatch
    from mtlmon.drive.native import VerdictRows
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.relational import Analysis
    from mtlmon.relational.native import AnswerBlock
    from mtlmon.relational.slicing.engine import Engine
    from mtlmon.run.people import PeopleOutput
    from mtlmon.run.pump import EndTime
    from mtlmon.run.relations import Output
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.joined_verdicts import JoinedTable
    from mtlmon.tables.outputs import RowOutput
    from mtlmon.tables.relations import RelationRows

    Rows = VerdictRows | AnswerBlock
    MixedOutput = TextOutput | PeopleOutput | RowOutput[Rows]

__all__ = ["Part", "mixed_output"]


class Part:
    """The policies with variables.

    Args:
        engine: evaluates them.
        analysis: what is known of them.
        options: the options of the run.
        memory: the memory limit of the run.
        key_columns: the columns of keys that lines have.
        table: where the rows of all policies are put; None if lines are written.
        output: writes these rows.
        times: the log's notation of times, or None if it has the time-stamps.

    Attributes:
        rows: makes time-points of batches of tables; None if the batches' scanner does.
        run: the run of the engine.
    """

    def __init__(
        self,
        engine: Engine,
        analysis: Analysis,
        options: RunSpec,
        memory: MemoryLimit,
        key_columns: Sequence[str],
        table: JoinedTable | None = None,
        output: MixedOutput | None = None,
        times: Times | None = None,
    ) -> None:
        self.analysis = analysis
        self.ahead = RelationsAhead(engine.plan, by_stamp=options.log.time_points == "stamp")
        options = options.having(verdicts=options.judging.given_verdicts or "false")
        own = None if table is None else cast("Output", output)
        self.check = Check(
            engine,
            options,
            memory,
            times,
            queue=self.ahead.queue,
            output=own,
            key_columns=key_columns,
            analysis=analysis,
        )
        self.run = self.check.run
        if table is not None:
            rows = self.check.point_rows if options.output.rows else None
            table.valuations = valuation_table(engine.plan, times, options.judging.verdicts, rows)
        self.rows: RelationRows | None = None

    def feed(self, batch: TextBatch | EventBatch, position: int) -> list[int]:
        """Check a batch behind so many events; return after how many there are answers."""
        self.check.note_rows(batch)
        if self.run.is_stopped:
            # time-points that have been read already
            self.run.engine.points.take()
            return []
        own = cast("EventBatch | None", None if self.rows is None else batch)
        return self.ahead.feed(self.run, self.rows, own, position)

    def complete(self) -> None:
        """Check what is there of the last time-stamp: no more rows of it come."""
        if not self.run.is_stopped:
            self.ahead.complete(self.run, self.rows)

    def end(self, end_time: EndTime) -> None:
        """End the log."""
        self.complete()
        if not self.run.is_stopped:
            self.run.end(end_time)

    def take(self, position: int | None) -> bytes:
        """Return the lines of the first events, or all."""
        self.check.taker.put(self.ahead.found(position))
        self.check.forget_rows()
        return self.check.output.writer.take()


def mixed_output(
    check: LogCheck, source: TableEvents | None, options: RunSpec
) -> tuple[MixedOutput, JoinedTable | None]:
    """Return what writes the verdicts of all policies, and the table that it writes, if any.

    Args:
        check: the check of the policies without variables.
        source: the tables; None for a text log.
        options: the options of the run.

    Raises:
        RunError: the output is binary, but would go to a terminal.
    """
    names = [policy.name for policy in check.policies]
    keys = TraceKeys(check.partitions, (None,) if source is None else tuple(source.key_tables))
    times = None if source is None else source.times
    if options.output.for_people:
        from mtlmon.run.people import PeopleOutput

        return PeopleOutput(check, keys, time_texts(options, times), options), None
    if options.output.format == "text" or options.judging.verdicts == "none":
        return TextOutput(names, keys, check.row_tracker, iso_times(options, times)), None
    from mtlmon.tables.joined_verdicts import JoinedTable
    from mtlmon.tables.verdicts import VerdictTable

    facts = PolicyFacts(check.policies)
    rows = check.row_tracker
    table = JoinedTable(VerdictTable(names, keys, times, check.messages, rows, facts))
    return answer_output(table, options.output), table
