"""Read the events of a log for policies, with or without checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mtlmon.checking.sources import NothingYet
from mtlmon.checking.text_logs import TextLog
from mtlmon.run.failure import RunError
from mtlmon.run.report import plural
from mtlmon.support.lean_typing import Generic, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mtlmon.checking.assumptions import AssumptionWatch
    from mtlmon.checking.final_rows import FinalBatch, FinalRows
    from mtlmon.checking.text_logs import LineEvents, TextBatch
    from mtlmon.policy.limits import Tally
    from mtlmon.relational.input.native import RowEvents
    from mtlmon.run.checkpoint import LogMark
    from mtlmon.run.checkpointing import TimeOrder
    from mtlmon.run.event_parts import EventPart
    from mtlmon.run.host import Host
    from mtlmon.run.pump import EndTime
    from mtlmon.run.row_parts import RowPart
    from mtlmon.run.spec import RunSpec
    from mtlmon.tables import TableEvents
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.event_batch import EventBatch

    Source = TextLog | TableEvents

__all__ = ["EventWork", "LogWork", "unreadable"]

_Batch = TypeVar("_Batch", bound="TextBatch | EventBatch")

# After this many rows of a live log, mention the columns that no row has had.
ABSENT_ROWS = 100


class LogWork(ABC, Generic[_Batch]):
    """Reads the batches of a log.

    Args:
        source: the log.
        batches: its batches.
        assumptions: tells what the log breaks; None if nothing is assumed.
        host: is told of that, and of what else is remarkable.

    Attributes:
        is_complete: whether the log has been read to its end.
    """

    def __init__(
        self,
        source: Source,
        batches: Iterator[_Batch],
        assumptions: AssumptionWatch | None,
        host: Host,
    ) -> None:
        self.source = source
        self.host = host
        self.assumptions = assumptions
        self.is_complete = False
        self.batches = batches
        self.has_noted_absent = source.size is not None or isinstance(source, TextLog)
        # the last row of the log, if no line feed ends it
        self.tail: _Batch | None = None
        self.has_ended = False
        # what a later run has to know again; None without checkpoints
        self.part_checked: EventPart | None = None

    @property
    def wait(self) -> Callable[[int], None]:
        """The function to call before reading from a log that may have nothing to read yet."""
        assert self.source.wait is not None
        return self.source.wait

    @wait.setter
    def wait(self, wait: Callable[[int], None]) -> None:
        self.source.wait = wait

    @property
    def bytes_read(self) -> int:
        return self.source.bytes_read

    @property
    def times(self) -> Times | None:
        """The notation of times of tables; None for a text log."""
        return self.source.times

    def next_batch(self) -> _Batch | None:
        """Return the next events, or None at the end of the log.

        Raises:
            RunError: the log cannot be read.
        """
        if self.part_checked is not None:
            self.part_checked.forget_until(self.position)
        try:
            batch = next(self.batches, None)
        except OSError as error:
            raise unreadable(error) from None
        if batch is not None:
            self.note_assumptions(batch)
        return batch

    @property
    def position(self) -> int:
        """How much of the log has been checked, in this and all earlier runs."""
        return self.source.rows

    @property
    @abstractmethod
    def is_stopped(self) -> bool:
        """Whether nothing more of the log is needed."""

    @abstractmethod
    def feed(self, batch: _Batch) -> Iterator[None]:
        """Check a batch in slices."""

    @abstractmethod
    def end_check(self, end_time: EndTime) -> Iterator[None]:
        """End the log, unless the work has stopped; yield now and then."""

    def read(self) -> Iterator[None]:
        """Check the log up to a last row without a line feed; yield now and then."""
        while not self.is_stopped:
            try:
                batch = self.next_batch()
            except NothingYet:
                yield
                continue
            if batch is None:
                return
            if batch.is_tail:
                self.tail = batch
                return
            yield from self.feed(batch)
            self.note_absent()

    def end(self, end_time: EndTime) -> Iterator[None]:
        """Check a last row without a line feed, and end the log; yield now and then."""
        self.has_ended = True
        while self.tail is not None:
            batch, self.tail = self.tail, None
            yield from self.feed(batch)
            if not self.is_stopped:
                self.tail = self.next_batch()
        yield from self.end_check(end_time)
        self.is_complete = not self.is_stopped

    @property
    def has_late_rows(self) -> bool:
        """Whether rows wait for others that come late."""
        return self.source.has_late_rows

    def check_released(self, batches: Iterable[_Batch]) -> None:
        """Check batches whose rows have waited for others that are now too late."""
        for batch in batches:
            self.note_assumptions(batch)
            for _ in self.feed(batch):
                pass
            if self.is_stopped:
                break

    def note_assumptions(self, batch: _Batch) -> None:
        """Mention the assumptions that the events of a batch break."""
        self.emit_broken(batch, self.source)

    def emit_broken(self, batch: _Batch | FinalBatch, source: Source | FinalRows) -> None:
        """Mention the assumptions that events break, with arguments as `AssumptionWatch` takes."""
        if self.assumptions is not None:
            for message in self.assumptions.note(batch, source):
                self.host.note(message)

    def note_absent(self) -> None:
        """Mention columns that are missing from a live log, whose end may never come."""
        source = self.source
        if self.has_noted_absent or isinstance(source, TextLog) or source.rows < ABSENT_ROWS:
            return
        self.has_noted_absent = True
        for message in source.absent_columns:
            self.host.note(message)


class EventWork(LogWork["TextBatch | EventBatch"]):
    """Reads the events of a log up to its last row, and then that row and the end.

    Args:
        source: the log.
        logs: the status of the log's files by name.
        options: the options of the run.
        assumptions: tells which assumptions the log breaks; None if there are none.

    Attributes:
        name: the name of the log in messages.
        event_word: what its events are called.
        events: what reads the lines of a text log, if policies with variables have rows of them.
            The position in the log is a number of bytes, then.
        events_again: returns what reads them once more for streams; None if there are none.
    """

    event_word = "event"
    events: LineEvents | None = None
    events_again: Callable[[], RowEvents] | None = None
    rows_read: RowPart | None = None
    passed_before = 0

    def __init__(
        self,
        source: Source,
        logs: Mapping[str, os.stat_result],
        options: RunSpec,
        assumptions: AssumptionWatch | None = None,
    ) -> None:
        super().__init__(source, iter(source), assumptions, options.host)
        self.options = options
        self.logs_by_name = logs
        self.logs: Iterable[os.stat_result] = logs.values()
        self.name = next(iter(logs)) if len(logs) == 1 else f"the {plural(len(logs), 'log')}"

    @property
    @abstractmethod
    def event_count(self) -> int:
        """The number of events that have been checked, in this and all earlier runs."""

    @property
    @abstractmethod
    def tallies(self) -> list[Tally]:
        """What is counted of each policy whose violations count."""

    def has_violation(self) -> bool:
        """Whether a policy that matters is violated more often than it may be."""
        least = self.options.judging.fail_on
        return any(one.has_failed and one.policy.is_at_least(least) for one in self.tallies)

    def fails(self) -> bool:
        """Whether the exit status is that of a violation."""
        is_vacuous = self.options.judging.fail_on_vacuous and any(
            one.is_untriggered for one in self.tallies
        )
        return is_vacuous or self.has_violation()

    # ---- checkpoints -----------------------------------------------------------------------

    def begin_part(self) -> None:
        """Start with nothing of the log that a later run has to know again."""
        if self.events is None:
            from mtlmon.run.event_parts import EventPart

            self.part_checked = EventPart(self.source)
            return
        from mtlmon.run.row_parts import RowPart

        has_streams = self.events_again is not None
        self.rows_read = RowPart(self.log, self.events, has_streams=has_streams)

    @property
    def log(self) -> TextLog:
        """The text log."""
        assert isinstance(self.source, TextLog)
        return self.source

    @property
    def position(self) -> int:
        """How much of the log has been checked: a number of events, or of bytes."""
        return self.event_count if self.events is None else self.events.rows.position

    @property
    def amount(self) -> str:
        if self.events is not None:
            return f"{self.position:,} bytes"
        return plural(self.event_count, self.event_word)

    @property
    def is_at_event(self) -> bool:
        """Whether the policies with variables have read no more events than the others."""
        events = self.events
        return events is None or (
            self.source.rows == events.rows.point_count and events.rows.is_settled
        )

    @property
    def time_order(self) -> TimeOrder | None:
        """What puts rows into the order of time, and refuses some; None if nothing does."""
        return self.source.time_order

    def settle(self) -> bool:
        """Do nothing: a check is always between two events."""
        return False

    def log_mark(self) -> LogMark:
        """Return how the log up to the position is known again."""
        if self.rows_read is not None:
            return self.rows_read.mark()
        assert self.part_checked is not None
        return self.part_checked.mark(self.event_count)

    def skip(self, mark: LogMark) -> Iterator[None]:
        """Go to the position, or read the log up to there without checking; yield now and then.

        Raises:
            LogEnds: the log is shorter than that.
            LogDiffers: it has other events, or other bytes.
            SnapshotError: the reader of the log cannot go on.
        """
        if self.rows_read is None:
            assert self.part_checked is not None
            yield from self.part_checked.skip(mark, self.event_count)
            return
        again: LineEvents | None = None
        if self.events_again is not None:
            from mtlmon.checking.computed_rows import ComputedEvents

            rows_again = self.events_again()
            again = rows_again
            if isinstance(self.events, ComputedEvents):
                again = self.events.without_rows(rows_again)
        yield from self.rows_read.skip(mark, again)


def unreadable(error: OSError) -> RunError:
    """Convert the error of a log that cannot be read."""
    name = f" {error.filename}" if error.filename else " the log"
    return RunError(f"cannot read{name}: {error.strerror or error}")
