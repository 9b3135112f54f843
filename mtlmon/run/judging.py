"""Move the events of a log through the judges of its policies, and write what they answer."""

from __future__ import annotations

from functools import partial

from mtlmon.checking.text_logs import TextBatch, TextLog
from mtlmon.run.endings import note_skipped, report_untriggered
from mtlmon.run.judges import FirstOfAll
from mtlmon.run.late_rows import note_refused
from mtlmon.run.policy_work import EventWork
from mtlmon.run.report import (
    absent_atoms,
    broken_rows,
    lost_rows,
    memory_row,
    note_unit,
    table,
)
from mtlmon.run.snapshot_parts import ASSUMING, JUDGES, damaged, joined_parts, split_parts
from mtlmon.syntax.report import visible
from mtlmon.text.byte_writer import ByteWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mtlmon.checking.assumptions import AssumptionWatch
    from mtlmon.policy.limits import PolicyCounts, Tally
    from mtlmon.run.checkpoint import LogMark
    from mtlmon.run.files import Writer
    from mtlmon.run.findings import FoundInOrder
    from mtlmon.run.judges import Judge
    from mtlmon.run.people import Outcome
    from mtlmon.run.policy_work import Source
    from mtlmon.run.pump import EndTime
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.violations import Judged

__all__ = ["PolicyWork"]


class PolicyWork(EventWork):
    """Moves the events of a log through the judges of its policies.

    Args:
        judges: the policies, in the order in which they tell what an event has answered.
        source: the log.
        logs: the status of the log's files by name.
        options: the options of the run.
        names: the names of the policies, in the order of the file.
        assumptions: tells which assumptions the log breaks; None if there are none.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        source: Source,
        logs: Mapping[str, os.stat_result],
        options: RunSpec,
        names: Sequence[str | None],
        assumptions: AssumptionWatch | None = None,
    ) -> None:
        super().__init__(source, logs, options, assumptions)
        self.judges = judges
        self.pace, *self.others = judges
        self.event_word = self.pace.event_word
        self.names = names
        self.keys_forgotten = 0
        # the answers of several judges, in order
        self.merged = ByteWriter() if self.others else None
        # the rest of a batch that the others have taken
        self.rest: Iterator[None] = iter(())
        self.is_within_batch = False
        # how many events came after the one at which the first judge stopped
        self.events_after_stop = 0
        self.first: FirstOfAll | None = None
        if self.others and options.judging.given_verdicts == "first":
            has_keys = any(table is not None for table in source.key_tables)
            by_stamp = options.log.time_points == "stamp"
            self.first = FirstOfAll(judges, has_common_order=not has_keys and not by_stamp)

    @property
    def writer(self) -> Writer:
        return self.pace.writer if self.merged is None else self.merged

    @property
    def is_stopped(self) -> bool:
        if self.others:
            return self.first is not None and self.first.emitted is not None
        return self.pace.is_stopped

    @property
    def event_count(self) -> int:
        return self.pace.position + self.events_after_stop

    # ---- the work --------------------------------------------------------------------------

    def feed(self, batch: TextBatch | EventBatch) -> Iterator[None]:
        """Check the events of a batch; yield now and then."""
        steps = self.steps_of_all(batch) if self.others else self.pace.feed(batch, ())
        for _ in steps:
            self.take()
            yield
        if self.assumptions is not None:
            forgotten = sum(judge.keys_forgotten for judge in self.judges)
            if forgotten != self.keys_forgotten:
                self.assumptions.forget_keys()
            self.keys_forgotten = forgotten

    def steps_of_all(self, batch: TextBatch | EventBatch) -> Iterator[None]:
        """Let the judges check a batch; there may be answers to take out after each step."""
        position, count = self.event_count, len(batch.time_stamps)
        if isinstance(batch, TextBatch) and not count and not batch.ticks:
            # the mark before an unfinished line
            return
        cuts: list[int] = []
        until, error = count, None
        for judge in self.others:
            own, sound = judge.take_ahead(batch, position)
            cuts += own
            if sound is not None and sound < until:
                until, error = sound, judge.error
        self.rest = self.steps_to_end(batch, cuts, None if error is None else until)
        # not `yield from`: what is left of the batch must outlive this generator, for `settle`
        for _ in self.rest:
            yield
        if error is not None and not self.is_stopped:
            raise error

    def steps_to_end(
        self, batch: TextBatch | EventBatch, cuts: Sequence[int], until: int | None
    ) -> Iterator[None]:
        """Let the first judge check a batch that the others have taken.

        Args:
            batch: the batch.
            cuts: after how many of its events there are answers.
            until: how many of its events are checked; None for all. It is one of the cuts.
        """
        self.is_within_batch = True
        pace, events = self.pace, self.event_count + len(batch.time_stamps)
        end = None if until is None else pace.position + until
        if not pace.is_stopped and until != 0:
            for _ in pace.feed(batch, cuts):
                yield
                if pace.position == end:
                    break
        if pace.is_stopped:
            self.events_after_stop = events - pace.position
        self.is_within_batch = False
        self.look_for_first()
        yield

    def look_for_first(self) -> None:
        """If only the first violation of several judges is wanted, find out if it is known."""
        if self.first is not None:
            self.first.look()

    @property
    def emission(self) -> Sequence[Judge]:
        """The judges whose violations count: all, or the one that has told the first violation."""
        emitted = None if self.first is None else self.first.emitted
        return self.judges if emitted is None else [emitted]

    def take(self) -> None:
        """Take the answers of the judges, up to the events that all have seen."""
        if self.first is not None and self.first.emitted is None:
            return
        position = self.pace.position if self.first is None and self.others else None
        for judge in self.emission:
            judge.take(position)
            if self.merged is not None:
                self.merged.write(judge.writer.take())

    def end_check(self, end_time: EndTime) -> Iterator[None]:
        """End the log; yield now and then."""
        if self.is_stopped:
            return
        for judge in self.judges:
            for _ in judge.end(end_time):
                self.take()
                yield
        self.look_for_first()

    def finish(self) -> None:
        """Convert the remaining answers, and write the end of the file to the writer."""
        for judge in self.judges:
            judge.know_columns()
        # after an error or a signal, no answers of events that other policies have not seen
        self.take()
        for judge in self.judges:
            judge.finish()
            if self.merged is not None:
                self.merged.write(judge.writer.take())

    def close(self) -> None:
        for judge in self.judges:
            judge.close()

    # ---- time without events ---------------------------------------------------------------

    @property
    def known_time(self) -> int | None:
        """No event is below this time; None before the first event, and if none is wanted."""
        if self.source.clock is None or self.is_stopped:
            return None
        return max(self.source.clock, self.source.passed, self.passed_before)

    def pass_time(self, time_stamp: int) -> None:
        """Declare that no later event is below a time, which is above the known one.

        What time decides comes in the order in which it does, and then in that of the judges.
        """
        for judge in self.judges:
            for _ in judge.complete():
                self.take()
        self.take()
        clock = -1
        while clock < time_stamp and not self.is_stopped:
            clock = time_stamp
            running = [judge for judge in self.judges if not judge.is_stopped]
            if self.others:
                clock = min((judge.next_due(time_stamp) for judge in running), default=clock)
            for judge in running:
                for _ in judge.pass_time(clock):
                    self.take()
            self.look_for_first()
            self.take()
        self.source.pass_time(time_stamp)

    def release(self, time_stamp: int) -> bool:
        """Declare that rows below a time come too late; return whether others can be read now.

        Rows of tables that waited for it are checked at once.
        """
        if isinstance(self.source, TextLog):
            return self.source.release(time_stamp)
        self.check_released(self.source.rows_until(time_stamp))
        return False

    # ---- what is told ----------------------------------------------------------------------

    @property
    def counts(self) -> dict[str | None, PolicyCounts]:
        """How many time-points are true, false and undecided so far, by the name of the policy.

        Those of policies with variables are known once rows have been read. If only the first
        violation of several judges is wanted, the counts may include rows that were read with it.
        """
        found = {one.policy.name: one.counts for judge in self.judges for one in judge.tallies}
        return {name: found[name] for name in self.names if name in found}

    def judged(self) -> Judged:
        """Return what the rows of its table are about."""
        return self.others[-1].judged() if self.others else self.pace.judged()

    def require_violations(self) -> None:
        """Raise RunError if violations can be in equivalences."""
        for judge in self.judges:
            judge.require_violations()

    @property
    def tallies(self) -> list[Tally]:
        return [one for judge in self.emission for one in judge.tallies]

    def outcome(self) -> Outcome:
        """Return what came out of the run over the whole log."""
        own = self.pace.outcome()
        for judge in self.others:
            own = own.joined(judge.outcome())
        return own

    def open_first(self) -> tuple[str, str] | None:
        """Return the earliest violation, and the undecided time-points before it, as words.

        None unless only the first violation is wanted, and is not known at the end of the log.
        """
        return self.pace.open_first() if self.first is None else self.first.words()

    def report_end(self) -> None:
        """Mention what the answers do not show, such as skipped rows and undecided time-points."""
        source, host = self.source, self.host
        note_skipped(source, host)
        if isinstance(source, TextLog):
            note_unit(source.clock, self.options.times.unit, host)
        note_refused(source.refused, source.row_name, self.options)
        count = self.pace.event_count
        if self.is_complete and (source.unseen_atoms or not count):
            host.note(absent_atoms(source.unseen_atoms, count, lambda: source.seen_names))
        for judge in self.judges:
            judge.report_end(is_complete=self.is_complete)
        if not self.is_complete:
            return
        if (found := self.open_first()) is not None:
            first, earlier = found
            host.note(f"{first}, but {earlier} is undecided at the end of the log (see --end-time)")
        for judge in self.judges:
            report_untriggered(judge, self.options)

    def summary(self, seconds: float) -> str:
        """Return counts and the speed of a run that took so many seconds."""
        what = "rows"
        if isinstance(self.source, TextLog):
            what = "events" if self.options.log.signature is None else "time-points"
        # If only the first violation was wanted, more events may have been read than count.
        count = self.pace.event_count if self.pace.is_stopped else self.source.rows
        rows = self.pace.log_rows((what, count, ""))
        rows += lost_rows(self.source)
        rows += [row for judge in self.judges for row in judge.own_rows()]
        rows += broken_rows(self.assumptions)
        rows.append(memory_row(self.pace.memory))
        text = ""
        for judge in self.judges:
            own, below = judge.summary()
            rows += own
            text += below
        # the outcome for a person says so, too
        is_emitted = len(self.judges) > 1 or self.options.output.for_people
        first = None if is_emitted else self.pace.first_row
        if first is not None:
            text += f"\n\nfirst violation at {visible(str(first))}"
        return f"{table(rows, count, what, seconds)}{text}"

    # ---- violations that are collected -----------------------------------------------------

    @property
    def found(self) -> list[FoundInOrder]:
        """The violations of each kind of policies, for explanations, contexts and a report."""
        return [judge.found for judge in self.judges if judge.found is not None]

    def chosen(self) -> list[tuple[FoundInOrder, Any]]:
        """Return the first violations, by time-stamp, each with those that it is among."""
        every = [(found, one) for found in self.found for one in found.chosen]
        every.sort(key=lambda own: own[1].time_stamp)
        return every[: self.options.reporting.explain_limit]

    @property
    def total(self) -> int:
        """How many violations there are."""
        return sum(found.total for found in self.found)

    def explain(self) -> None:
        """Explain the first violations, to standard error or to a file."""
        from mtlmon.run.explaining import explanations_for

        explanations, chosen = explanations_for(self.options), self.chosen()
        explained = {
            found: found.explained([one for own, one in chosen if own is found])
            for found in self.found
        }
        for found, _ in chosen:
            next(explained[found])(explanations)
        explanations.finish(self.total, self.options.reporting.explain_limit)

    def show_context(self) -> None:
        """Show the rows around the first violations."""
        from mtlmon.run.context import show_rows, texts_of

        chosen = self.chosen()
        places = [
            place
            for found in self.found
            for place in found.places_of([one for own, one in chosen if own is found])
        ]
        of_rows = [place for place in places if place is not None]
        ticks = len(places) - len(of_rows)
        show_rows(of_rows, texts_of(self.source), self.options, self.total, ticks)

    def write_report(self, seconds: float, *, is_interrupted: bool) -> None:
        """Write the report on a run that took so many seconds."""
        from mtlmon.run.reports import remarks_of, save_report

        found, is_stopped = self.found, any(judge.is_stopped for judge in self.judges)
        remarks = partial(remarks_of, found, is_interrupted=is_interrupted, is_stopped=is_stopped)
        save_report(found, self.names, remarks, seconds)

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether `snapshot` can be called: not between the ticks before a row, nor at the end."""
        is_between = not (self.has_ended or self.is_within_batch)
        return is_between and self.is_at_event and all(one.is_settled for one in self.judges)

    def settle(self) -> bool:
        """Take a step towards the end of the batch; return whether there may be more."""
        for _ in self.rest:
            self.take()
            return True
        return False

    def skip(self, mark: LogMark) -> Iterator[None]:
        """Go to the position, or read the events up to there without checking; yield now and then.

        Raises:
            LogEnds: the log has fewer events than that.
            LogDiffers: it has other events.
            SnapshotError: the reader of the log cannot go on.
        """
        yield from super().skip(mark)
        for judge in self.judges:
            judge.resume(self.event_count)

    def snapshot(self) -> bytes:
        """Return the states of the judges as bytes for `restore`."""
        parts = [judge.snapshot() for judge in self.judges]
        if self.first is not None:
            parts += [str(self.events_after_stop).encode(), self.first.snapshot()]
        of_judges = joined_parts(JUDGES, parts) if self.others else parts[0]
        if self.assumptions is None:
            return of_judges
        return joined_parts(ASSUMING, [self.assumptions.snapshot(), of_judges])

    def restore(self, snapshot: bytes, output_size: int) -> None:
        """Continue from the snapshot of an earlier run that has written `output_size` bytes.

        Raises:
            SnapshotError: the snapshot is damaged, or belongs to other policies or options.
        """
        if snapshot.startswith(ASSUMING):
            # what is assumed may have changed: then it is counted from here on
            assumed, snapshot = split_parts(snapshot, ASSUMING, 2)
            if self.assumptions is not None:
                self.assumptions.restore(assumed)
        count, parts = len(self.judges), [snapshot]
        if self.others:
            parts = split_parts(snapshot, JUDGES, count)
            first = parts[count:]
            if len(first) != (0 if self.first is None else 2) or (first and not first[0].isdigit()):
                raise damaged()
        for judge, part in zip(self.judges, parts[:count], strict=True):
            judge.restore(part, output_size)
        self.keys_forgotten = sum(judge.keys_forgotten for judge in self.judges)
        if self.first is not None:
            self.events_after_stop = int(parts[count])
            self.first.restore(parts[count + 1])

    def work_in_small_steps(self, events: int) -> None:
        """Yield after about this many events."""
        for judge in self.judges:
            judge.work_in_small_steps(events)
