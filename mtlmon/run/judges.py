"""What judges the events of a log: the policies of a file that are evaluated in one way.

Those without variables are formulas (`formula_judge`), those with variables are relational
(`relation_judge`). A run has a list of judges, in the order in which they tell what an event has
answered. The first one sets the pace: the others take each batch before it, and hold their answers
back until it has come as far. So lines come event by event, whatever the batches are.
"""

from __future__ import annotations

from abc import abstractmethod

from mtlmon.support.lean_typing import NamedTuple, Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from mtlmon.checking.row_files import RowPlace
    from mtlmon.checking.text_logs import TextBatch
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.errors import MtlmonError
    from mtlmon.policy.limits import Tally
    from mtlmon.run.files import Writer
    from mtlmon.run.findings import FoundInOrder
    from mtlmon.run.people import Outcome
    from mtlmon.run.pump import EndTime
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.violations import Judged

    # a time-stamp and an offset
    Point = tuple[int, int]

__all__ = ["SMALLEST_STEP_EVENTS", "FirstOfAll", "Judge", "NoWriter", "Taker", "Told"]


SMALLEST_STEP_EVENTS = 1 << 8


class NoWriter:
    """Stands in for a writer when no verdicts are wanted; it is always empty."""

    def __len__(self) -> int:
        return 0

    def take(self) -> bytes:
        return b""

    def flush(self, file_descriptor: int, /) -> None:
        """Write nothing."""


class Taker(NoWriter):
    """Takes what judges find as it is, in the place of an output.

    Args:
        put: takes the `VerdictRows` of policies without variables, and the `AnswerBlock` of others.
        wants_messages: whether it takes the messages of triggers, too.
    """

    lines = None

    def __init__(self, put: Callable[[Any], None], *, wants_messages: bool = False) -> None:
        self.writer = self
        self.put = put
        self.wants_messages = wants_messages

    def close(self) -> None:
        """Do nothing: what is taken needs no end."""


class Told(NamedTuple):
    """An answer about a time-point, for a program that shows it.

    Attributes:
        policy: the name of the policy.
        number: the number of the trace; 0 for a policy with variables.
        time_stamp: the time-stamp of the time-point.
        offset: the number of the time-point within its time-stamp.
        value: false for a violation, else true; None while that is undecided.
        row: the line of its row, or its number in a file without lines; None for ticks, and if rows
            are not known.
        key: the key of the trace as text; empty without keys.
        text: the message of a trigger, or the values of variables; empty if there are none.
    """

    policy: str | None
    number: int
    time_stamp: int
    offset: int
    value: bool | None
    row: int | None = None
    key: str = ""
    text: str = ""


class Judge(Protocol):
    """Some policies of a file, which take the events of a log.

    Attributes:
        is_stopped: whether nothing more is needed, as the first violation is known.
        position: how many events have been taken, in this and all earlier runs.
        error: what `take_ahead` has failed at.
        event_word: what events are called.
        memory: the memory limit of the run.
    """

    error: MtlmonError | None = None
    event_word: str = "event"
    memory: MemoryLimit

    # ---- the work --------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_stopped(self) -> bool: ...

    @property
    @abstractmethod
    def position(self) -> int: ...

    @property
    def event_count(self) -> int:
        """How many events count for what is told."""
        return self.position

    @property
    def keys_forgotten(self) -> int:
        """How many keys had nothing left to remember."""
        return 0

    @property
    @abstractmethod
    def writer(self) -> Writer:
        """What has the bytes of answers that have been taken."""

    @abstractmethod
    def feed(self, batch: TextBatch | EventBatch, cuts: Sequence[int]) -> Iterator[None]:
        """Take a batch; yield now and then, and after so many of its events."""

    def take_ahead(
        self, batch: TextBatch | EventBatch, position: int
    ) -> tuple[list[int], int | None]:
        """Take a batch at once, and hold answers back.

        Args:
            batch: the batch.
            position: how many events come before it.

        Returns:
            After how many of its events there are answers, and how many come before the one that
            this has failed at, if it has. `error` says why, then.
        """
        for _ in self.feed(batch, ()):
            pass
        return [], None

    @abstractmethod
    def take(self, position: int | None) -> None:
        """Convert to bytes what the first events of the log have answered, or all."""

    def complete(self) -> Iterator[None]:
        """Take in what waits for other rows of the last time-stamp, as none come."""
        return iter(())

    @abstractmethod
    def next_due(self, limit: int) -> int:
        """Return a time before which time alone decides nothing, up to a limit."""

    @abstractmethod
    def pass_time(self, time_stamp: int) -> Iterator[None]:
        """Declare that no later event is below a time."""

    @abstractmethod
    def end(self, end_time: EndTime) -> Iterator[None]:
        """End the log, unless this has stopped; yield now and then."""

    def know_columns(self) -> None:
        """Get to know the columns of a table, although the log may have no rows."""
        return None

    @abstractmethod
    def finish(self) -> None:
        """Write the end of the file to the writer, once all answers have been taken."""

    def close(self) -> None:
        """Release what is held for reading."""
        return None

    @abstractmethod
    def work_in_small_steps(self, events: int) -> None:
        """Yield after about this many events."""

    # ---- the first violation ---------------------------------------------------------------

    @property
    @abstractmethod
    def first_point(self) -> Point | None:
        """The earliest violation found so far, if only the first one is wanted; or None."""

    @property
    def events_to_first(self) -> int:
        """How many events of the log it took to find it; 0 if that says nothing to others."""
        return 0

    @abstractmethod
    def can_precede(self, point: Point, parts: int, *, or_meet: bool, seen: int) -> bool:
        """Whether a violation may still be found that comes before a time-point.

        Args:
            point: the time-point.
            parts: how much of a time-point is compared: 1 for the time-stamp alone.
            or_meet: whether one at the time-point comes before it as well.
            seen: how many events it took to find the violation at the time-point.
        """

    def forget_untaken(self) -> None:
        """Forget the rows of answers that nobody takes before the first violation is known."""
        return None

    @abstractmethod
    def hold_first(self) -> None:
        """Do not tell the first violation before `emit_first`, as it may not be that of all."""

    @abstractmethod
    def emit_first(self) -> None:
        """Put the first violation among the answers."""

    @abstractmethod
    def open_first(self) -> tuple[str, str] | None:
        """Return the earliest violation and what is undecided before it, in words; or None."""

    # ---- what is told ----------------------------------------------------------------------

    @property
    @abstractmethod
    def tallies(self) -> list[Tally]:
        """What is counted of each policy so far."""

    @abstractmethod
    def judged(self) -> Judged:
        """Return what batches of answers are about."""

    @abstractmethod
    def told(self, found: Any) -> Iterator[Told]:
        """Yield the answers that a `Taker` has been given, which are removed from there."""

    @abstractmethod
    def undecided(self, policy: int, most: int) -> Iterator[Told]:
        """Yield the first undecided time-points of a policy; of equivalent ones, the earliest.

        Args:
            policy: the number of the policy among those of this judge.
            most: how many at most.
        """

    @abstractmethod
    def key_count(self, policy: int) -> int:
        """How many keys a policy, by its number here, has; 0 if it is not one for each key."""

    def require_violations(self) -> None:
        """Raise RunError if violations can be in other answers."""
        return None

    @abstractmethod
    def outcome(self) -> Outcome:
        """Return what came out of a run over the whole log."""

    @abstractmethod
    def report_end(self, *, is_complete: bool) -> None:
        """Mention what the answers do not show, after a log that was read to its end or not."""

    @abstractmethod
    def log_rows(self, events: tuple[str, int, str]) -> list[tuple[str, int, str]]:
        """Return the first rows of a summary, if this sets the pace; `events` is the first one."""

    @abstractmethod
    def own_rows(self) -> list[tuple[str, int, str]]:
        """Return more rows of a summary."""

    @abstractmethod
    def summary(self) -> tuple[list[tuple[str, int, str]], str]:
        """Return the counts of policies for a summary: as its last rows, and as text below."""

    @property
    def first_row(self) -> RowPlace | None:
        """The row of the earliest violation, if the rows of violations are known."""
        return None

    # ---- violations that are collected -----------------------------------------------------

    @property
    @abstractmethod
    def found(self) -> FoundInOrder | None:
        """The violations, for explanations, contexts and a report; None if none are wanted."""

    # ---- checkpoints -----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether there can be a snapshot between two steps."""
        return True

    @abstractmethod
    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""

    @abstractmethod
    def restore(self, snapshot: bytes, output_size: int) -> None:
        """Continue from a snapshot of a run that has written so many bytes.

        Raises:
            SnapshotError: the snapshot is damaged, or belongs to other policies or options.
        """

    def resume(self, event_count: int) -> None:
        """Continue behind so many events, once the log is there."""
        return None


class FirstOfAll:
    """Finds out whether the first violation of one judge is the first of all.

    Each judge finds its own first violation. It is the first of all if no other judge can still
    find one before it. Time-points are in the order of time-stamp and offset, and at one of them,
    judges are in the order of the list. If they have no common order within a time-stamp, that of
    the list holds there.

    Args:
        judges: the judges, of which the first violation is wanted.
        has_common_order: whether time-points of one time-stamp have the same order for all.

    Attributes:
        emitted: the judge that has told the first violation; None until it is known.
    """

    def __init__(self, judges: Sequence[Judge], *, has_common_order: bool) -> None:
        self._judges = judges
        self._parts = 2 if has_common_order else 1
        self.emitted: Judge | None = None
        for judge in judges:
            judge.hold_first()

    def look(self) -> None:
        """Find out whether the first violation is known, after a batch; if so, let it be told.

        Judges that do not set the pace may have seen events of later batches, too.
        """
        if self.emitted is not None:
            return
        for judge in self._judges:
            judge.forget_untaken()
        for judge in self._judges:
            point = judge.first_point
            if judge.is_stopped and point is not None and not self._comes_after(judge, point):
                self.emitted = judge
                judge.emit_first()
                return

    def _comes_after(self, judge: Judge, point: Point) -> bool:
        """Whether another judge may find a violation before that of a judge."""
        place = self._judges.index(judge)
        return any(
            other.can_precede(
                point, self._parts, or_meet=number < place, seen=judge.events_to_first
            )
            for number, other in enumerate(self._judges)
            if number != place
        )

    def words(self) -> tuple[str, str] | None:
        """Return the first violation and what is undecided before it, in words; or None."""
        points = [judge.first_point for judge in self._judges]
        found = min((one for one in points if one is not None), default=None)
        if self.emitted is not None or found is None:
            return None
        return f"{found[0]}:{found[1]} is violated", "a time-point before it"

    def snapshot(self) -> bytes:
        """Return what is known as bytes for `restore`, beside snapshots of the judges."""
        return b"" if self.emitted is None else b"%d" % self._judges.index(self.emitted)

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot; the first violation has been told if it is known."""
        self.emitted = self._judges[int(snapshot)] if snapshot else None
