"""The policies with variables and without of a file, as one piece of work on a log."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from mtlmon.checking import LogCheck, TextLog
from mtlmon.checking.computed_rows import ComputedEvents
from mtlmon.errors import MtlmonError
from mtlmon.relational.analysis import valid_analysis
from mtlmon.run.endings import report_end
from mtlmon.run.mixed_part import Part
from mtlmon.run.policies import assumption_watch
from mtlmon.run.policy_work import PolicyWork
from mtlmon.run.relation_checkpoints import restore_check, restored_source, snapshot_of
from mtlmon.run.relations import engine_for
from mtlmon.run.report import plural, policies_summary
from mtlmon.run.row_parts import RowPart
from mtlmon.run.snapshot_parts import MIXED, damaged, joined_parts, split_parts
from mtlmon.support.snapshot_parts import sized, take_sized
from mtlmon.tables.first_of_both import FirstOfBoth
from mtlmon.tables.outputs import ByteWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import stat_result

    from mtlmon.checking.explaining import Violation
    from mtlmon.checking.text_logs import TextBatch
    from mtlmon.policy import PolicyFile
    from mtlmon.relational.input.native import RowEvents
    from mtlmon.relational.reasons import Violation as Violating
    from mtlmon.relational.reasons.evidence import Reader
    from mtlmon.run.checkpoint import LogMark
    from mtlmon.run.findings import Findings
    from mtlmon.run.mixed_part import MixedOutput
    from mtlmon.run.people import Outcome
    from mtlmon.run.policy_work import Source
    from mtlmon.run.pump import EndTime
    from mtlmon.run.relation_findings import RelationFindings
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.joined_verdicts import JoinedTable
    from mtlmon.tables.relation_traces import RelationTraces

    # returns what reads the log again, up to a number of time-points
    ReaderFor = Callable[[int], Reader]


__all__ = ["MixedTableWork", "MixedTextWork", "MixedWork"]


class MixedWork(PolicyWork):
    """Reads the events of a log, and checks the policies of both kinds.

    Args:
        check: the check of the policies without variables.
        source: the log.
        part: the policies with variables; None until the types of columns are known, if their plan
            needs them.
        outputs: what `mixed_output` has returned.
        findings: collects violations of the policies without variables, if they are wanted.
        logs: the status of the log's files by name.
        options: the options of the run.
        file: the policies.
        reader_for: returns what reads the log once more for the policies with variables.
    """

    def __init__(
        self,
        check: LogCheck,
        source: Source,
        part: Part | None,
        outputs: tuple[MixedOutput, JoinedTable | None],
        findings: Findings | None,
        logs: Mapping[str, stat_result],
        options: RunSpec,
        file: PolicyFile,
        reader_for: ReaderFor,
    ) -> None:
        output, self.table = outputs
        watch = assumption_watch(file, source, options.times)
        super().__init__(check, source, output, findings, logs, options, watch)
        self.file = file
        self.reader_for = reader_for
        self.lines = output
        self.part = part
        self.joined = ByteWriter()
        self.writer = self.joined
        # the rest of a batch that the policies with variables have taken in
        self.rest: Iterator[None] = iter(())
        self.is_within_batch = False
        # how many events came after the one at which the policies without variables stopped
        self.events_after_stop = 0
        self.first: FirstOfBoth | None = None
        if options.judging.verdicts == "first":
            self.first = FirstOfBoth(
                check,
                has_keys=any(table is not None for table in source.key_tables),
                by_stamp=options.log.time_points == "stamp",
            )

    @abstractmethod
    def known_part(self) -> Part:
        """Return the policies with variables, also if no row has shown the types of columns."""

    def steps_of(self, batch: TextBatch | EventBatch) -> Iterator[None]:
        part, position = self.known_part(), self.event_count
        error, until = None, len(batch.time_stamps)
        try:
            cuts = part.feed(batch, position)
        except MtlmonError as failed:
            if part.ahead.error is None:
                raise
            error = failed
            # what comes before the time-point is told, and its cause may be in a later batch
            until = max(0, part.ahead.sound_events(part.run) - position)
            cuts = [*part.ahead.cuts(position), until]
        is_sound = error is None or until >= len(batch.time_stamps)
        self.rest = self.steps_to_end(batch, cuts, None if is_sound else until)
        # not `yield from`: what is left of the batch must outlive this generator, for `settle`
        for _ in self.rest:
            yield
        if error is not None and not is_sound and not self.is_stopped:
            raise error

    @property
    def is_stopped(self) -> bool:
        return self.first is not None and self.first.is_known

    @property
    def event_count(self) -> int:
        return self.check.position + self.events_after_stop

    def look_for_first(self) -> None:
        """If only the first violation is wanted, find out whether it is known."""
        if self.first is not None:
            self.first.look(self.known_part().run)

    def steps_to_end(
        self, batch: TextBatch | EventBatch, cuts: Sequence[int], until: int | None
    ) -> Iterator[None]:
        """Check a batch that the policies with variables have taken in.

        Args:
            batch: the batch.
            cuts: after how many of its events there are answers.
            until: how many of its events are checked; None for all. It is one of the cuts.
        """
        self.is_within_batch = True
        events = self.event_count + len(batch.time_stamps)
        end = None if until is None else self.check.position + until
        if not self.check.is_stopped and until != 0:
            for _ in self.check.feed(batch, self.source, cuts):
                yield
                if self.check.position == end:
                    break
        if self.check.is_stopped:
            self.events_after_stop = events - self.check.position
        self.is_within_batch = False
        self.look_for_first()
        yield

    def take(self) -> None:
        """Take the lines of all policies, up to the events that all have seen.

        If only the first violation is wanted, those are not taken that may not be the first.
        """
        first = self.first
        if first is None or (first.is_known and not first.has_variables):
            super().take()
            self.joined.write(self.lines.writer.take())
        if self.part is not None and (first is None or first.has_variables):
            self.joined.write(self.part.take(None if first else self.check.position))

    def end(self, end_time: EndTime) -> Iterator[None]:
        """Check a last row without a line feed, and end the log; yield now and then."""
        yield from super().end(end_time)
        if self.part is not None and not self.is_stopped:
            self.part.end(end_time)
            self.look_for_first()
            self.is_complete = not self.is_stopped

    def finish(self) -> None:
        """Convert what is left, and write the end of the file to the writer."""
        if self.table is not None:
            # the columns of a log without rows
            self.known_part()
        # after an error or a signal, no answers of events that other policies have not seen
        self.take()
        self.lines.close()
        self.joined.write(self.lines.writer.take())

    # ---- what is told at the end -----------------------------------------------------------

    def has_violation(self) -> bool:
        first = self.first if self.is_stopped else None
        # the other policies may have seen more events than it took to know the first violation
        if (first is None or not first.has_variables) and super().has_violation():
            return True
        if self.part is None or (first is not None and not first.has_variables):
            return False
        return self.part.check.has_violation(self.file)

    def fails(self) -> bool:
        if self.options.judging.fail_on_vacuous and self.part is not None:
            return self.part.check.fails(self.file) or super().fails()
        return super().fails()

    def open_first(self) -> tuple[str, str] | None:
        if self.first is None or self.part is None:
            return None
        found = self.first.candidate(self.part.run)
        if found is None:
            return None
        return f"{found[0]}:{found[1]} is violated", "a time-point before it"

    def outcome(self) -> Outcome:
        own = super().outcome()
        other = self.known_part().check.outcome()
        return own if other is None else own.joined(other)

    def report_end(self) -> None:
        report_end(self)
        if self.part is not None:
            rows = self.part.rows
            if rows is not None and rows.left_out:
                what = plural(rows.left_out, "row")
                self.options.host.note(
                    f"left out {what} of atoms, because an argument is null or not a number"
                )
            self.part.check.report_end()

    def summary(self, seconds: float) -> str:
        lines = policies_summary(self.check, self.source, seconds, self.assumptions)
        if self.part is None:
            return lines
        return f"{lines}\n\n{self.part.check.counts_table()}"

    def found(self) -> tuple[Findings, RelationFindings]:
        """Return the violations of each kind of policies, which are collected."""
        others = self.known_part().check.findings
        assert self.findings is not None
        assert others is not None
        return self.findings, others

    def chosen(self) -> list[Violation | Violating]:
        """Return the first violations, by time-stamp; those without variables come first."""
        findings, others = self.found()
        chosen: list[Violation | Violating] = [*findings.chosen, *others.chosen]
        chosen.sort(key=lambda one: one.time_stamp)
        return chosen[: self.options.reporting.explain_limit]

    def show_context(self, again: Callable[[], Source]) -> None:
        from mtlmon.checking.explaining import Violation
        from mtlmon.run.context import rows_of_violations, show_rows, texts_of

        findings, others = self.found()
        chosen = self.chosen()
        own = [one for one in chosen if isinstance(one, Violation)]
        of_others = [one for one in chosen if not isinstance(one, Violation)]
        with closing(again()) as log:
            rows = rows_of_violations(self.check, own, log)
            places = rows.places | {others.rows[one.point] for one in of_others}
            ticks = sum(rows.of(one) is None for one in own)
            total = findings.total + others.total
            show_rows(places, texts_of(log), self.options, total, ticks)

    def explain(self, again: Callable[[], Source]) -> None:
        """Explain the first violations, by time-stamp; those without variables come first."""
        from mtlmon.checking.explaining import Violation
        from mtlmon.run.explaining import explanations_for
        from mtlmon.run.relation_findings import RelationExplanations

        part = self.known_part()
        findings, others = self.found()
        limit = self.options.reporting.explain_limit
        chosen = self.chosen()
        explanations = explanations_for(self.options)
        with closing(again()) as log:
            own = [one for one in chosen if isinstance(one, Violation)]
            proofs = dict(findings.explained(own, log))
        explained = RelationExplanations(
            others, self.file, part.analysis, self.reader(), self.options
        )
        of_others = [one for one in chosen if not isinstance(one, Violation)]
        reasons = iter(explained.explainer.explain(of_others))
        for violation in chosen:
            if isinstance(violation, Violation):
                findings.add_explanation(explanations, violation, proofs[violation])
            else:
                explained.add_found(explanations, next(reasons))
        explanations.finish(findings.total + others.total, limit)

    def reader(self) -> Reader:
        """Return what reads the log once more for the policies with variables."""
        return self.reader_for(self.known_part().check.engine.point_count)

    def write_report(
        self, again: Callable[[], Source], seconds: float, *, is_interrupted: bool
    ) -> None:
        """Write the report, with the policies in the order of the file."""
        from mtlmon.reporting import ReportData
        from mtlmon.run.findings import NOT_EXPLAINED, save_report
        from mtlmon.run.relation_report import RelationReport

        part = self.known_part()
        findings, others = self.found()
        run = findings.run(seconds, is_interrupted=is_interrupted)
        relations = RelationReport(
            part.check,
            others,
            self.file,
            part.analysis,
            self.options,
            run.inputs,
            self.source.rows,
            self.source.skipped,
        )
        reports = findings.reports(again)
        reports += relations.reports(self.reader() if findings.can_reread else None)
        names = [policy.name for policy in self.file.policies]
        reports.sort(key=lambda one: names.index(one.name))
        remarks = [*run.remarks, *relations.matches()]
        if others.total and not findings.can_reread and NOT_EXPLAINED not in remarks:
            remarks.append(NOT_EXPLAINED)
        save_report(ReportData(reports, replace(run, remarks=remarks)), self.options.reporting)

    # ---- time without events ---------------------------------------------------------------

    def pass_time(self, time_stamp: int) -> None:
        """Declare that no later event is below a time, which is above the known one.

        What time decides comes in the order in which it does, of policies without variables first.
        """
        part = self.known_part()
        part.complete()
        self.take()
        run = part.run
        clock = -1
        while clock < time_stamp and not self.is_stopped:
            clock = time_stamp
            if not self.check.is_stopped:
                clock = self.check.next_due(self.source, time_stamp)
            if not run.is_stopped:
                clock = min(clock, run.next_due(time_stamp))
            if not self.check.is_stopped:
                for _ in self.check.pass_time(self.source, clock):
                    self.take()
            run.pass_time(clock)
            self.look_for_first()
            self.take()
        self.source.pass_time(time_stamp)

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        return super().is_settled and not self.is_within_batch

    def settle(self) -> bool:
        """Take a step towards the end of the batch; return whether there may be more."""
        for _ in self.rest:
            self.take()
            return True
        return False

    @abstractmethod
    def source_state(self) -> bytes:
        """What is known of the log for the policies with variables, as bytes."""

    def snapshot(self) -> bytes:
        if self.part is None:
            own = snapshot_of(None, b"", self.options)
        else:
            own = snapshot_of(self.part.check, self.source_state(), self.options)
        parts = [super().snapshot(), own]
        if self.first is not None:
            parts += [str(self.events_after_stop).encode(), self.first.snapshot()]
        return joined_parts(MIXED, parts)

    def restored(self, snapshot: bytes, output_size: int) -> tuple[bytes, list[bytes]]:
        """Restore the policies without variables; return the parts of the snapshot of the others.

        Raises:
            SnapshotError: the snapshot is damaged, or belongs to other policies or options.
        """
        own, others, *first = split_parts(snapshot, MIXED, 2)
        super().restore(own, output_size)
        restored = restored_source(others, self.options)
        if len(first) != (0 if self.first is None else 2) or (first and not first[0].isdigit()):
            raise damaged()
        if self.first is not None:
            self.events_after_stop = int(first[0])
            self.first.restore(first[1])
        return restored


class MixedTextWork(MixedWork):
    """Likewise, for text logs, whose position is a number of bytes.

    Args:
        events: reads the log for both kinds of policies.
        events_again: returns what reads it again for streams; None if there are none.
    """

    def __init__(
        self,
        check: LogCheck,
        source: TextLog,
        part: Part,
        outputs: tuple[MixedOutput, JoinedTable | None],
        findings: Findings | None,
        logs: Mapping[str, stat_result],
        options: RunSpec,
        file: PolicyFile,
        reader_for: ReaderFor,
        events: RowEvents | ComputedEvents,
        events_again: Callable[[], RowEvents] | None,
    ) -> None:
        super().__init__(check, source, part, outputs, findings, logs, options, file, reader_for)
        self.log = source
        self.events = events
        self.events_again = events_again

    def begin_part(self) -> None:
        self.rows_read = RowPart(self.log, self.events, has_streams=self.events_again is not None)

    def known_part(self) -> Part:
        assert self.part is not None
        return self.part

    def feed(self, batch: TextBatch | EventBatch) -> Iterator[None]:
        # not the mark before an unfinished line
        if len(batch.time_stamps) or cast("TextBatch", batch).ticks:
            yield from super().feed(batch)

    @property
    def position(self) -> int:
        return self.events.rows.position

    @property
    def amount(self) -> str:
        return f"{self.position:,} bytes"

    @property
    def is_settled(self) -> bool:
        # those with variables take in a block at once, the others in pieces with few ticks
        is_taken = self.log.rows == self.events.rows.point_count
        return super().is_settled and is_taken and self.events.rows.is_settled

    def log_mark(self) -> LogMark:
        return self.rows_read.mark()

    def source_state(self) -> bytes:
        return self.events.snapshot()

    def restore(self, snapshot: bytes, output_size: int) -> None:
        source, run = self.restored(snapshot, output_size)
        # another file is said to be one before its relations are compared
        restore_check(self.known_part().check, run)
        self.events.restore(source)

    def skip(self, mark: LogMark) -> Iterator[None]:
        again: RowEvents | ComputedEvents | None = None
        if self.events_again is not None:
            again = rows_again = self.events_again()
            if isinstance(self.events, ComputedEvents):
                again = self.events.without_rows(rows_again)
        yield from self.rows_read.skip(mark, again)


class MixedTableWork(MixedWork):
    """Likewise, for tables.

    Args:
        traces: makes time-points of the rows for the policies with variables.
    """

    def __init__(
        self,
        check: LogCheck,
        source: TableEvents,
        outputs: tuple[MixedOutput, JoinedTable | None],
        findings: Findings | None,
        logs: Mapping[str, stat_result],
        options: RunSpec,
        file: PolicyFile,
        reader_for: ReaderFor,
        traces: RelationTraces,
    ) -> None:
        super().__init__(check, source, None, outputs, findings, logs, options, file, reader_for)
        self.traces = traces
        self.kept: tuple[bytes, list[bytes]] | None = None
        source.digests_shown = True

    def known_part(self) -> Part:
        if self.part is None:
            self.part = self.new_part()
        return self.part

    def new_part(self) -> Part:
        """Make the policies with variables for the types of columns that rows have shown."""
        assert not isinstance(self.source, TextLog)
        analysis = valid_analysis(self.file, self.source.schema, self.source.looked_up)
        engine = engine_for(self.file, analysis, self.options)
        times = self.source.times
        part = Part(
            engine,
            analysis,
            self.options,
            self.check.memory,
            self.check.partitions.all_columns,
            self.table,
            self.lines,
            times,
        )
        part.rows = part.check.rows_of(self.traces, self.source.key_tables)
        return part

    def source_state(self) -> bytes:
        assert self.part is not None
        assert self.part.rows is not None
        kept = self.part.rows.snapshot()
        return sized(kept) + self.part.rows.held_rows()

    def restore(self, snapshot: bytes, output_size: int) -> None:
        # the plan needs the types of columns, which are known once rows have been read
        self.kept = self.restored(snapshot, output_size)

    def skip(self, mark: LogMark) -> Iterator[None]:
        yield from super().skip(mark)
        assert self.kept is not None
        source, run = self.kept
        if source:
            part = self.known_part()
            assert part.rows is not None
            restore_check(part.check, run)
            kept, held = take_sized(source)
            part.rows.restore(kept)
            part.rows.restore_held(held)
            part.ahead.restore(part.rows, self.event_count, part.run.point_count)
