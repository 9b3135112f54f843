"""A monitor that remembers its last events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from operator import index
from typing import TYPE_CHECKING, Literal, NamedTuple

from mtlmon._core import Monitor
from mtlmon.analysis.reach import decision_delay
from mtlmon.errors import MtlmonError
from mtlmon.syntax.printer import atom_text
from mtlmon.testing.seen import SeenNames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mtlmon._core import Verdict
    from mtlmon.syntax.formula import Formula
    from mtlmon.testing.conditions import Conditions
    from mtlmon.testing.seen import Unknown
    from mtlmon.testing.subject import Subject

    Atoms = Iterable[str] | Mapping[str, object]
    Pair = tuple[int, Collection[str]]
    # the number of a trace, and its event
    NumberedPair = tuple[int, Pair]

__all__ = [
    "DEFAULT_KEEP",
    "AtEnd",
    "EndTime",
    "Event",
    "Events",
    "Mode",
    "Recording",
    "require_valid",
]

Mode = Literal["local", "global", "naive"]
AtEnd = Literal["decided", "undecided-ok", "closed"]
EndTime = int | Literal["last", "inf"] | None

AT_END: tuple[AtEnd, ...] = ("decided", "undecided-ok", "closed")
DEFAULT_KEEP = 10_000


def require_valid(at_end: AtEnd, keep: int | None) -> None:
    """Raise MtlmonError if a meaning of the end is unknown, or no events can be kept."""
    __tracebackhide__ = True
    if at_end not in AT_END:
        raise MtlmonError(f"at_end is one of {', '.join(map(repr, AT_END))}, not {at_end!r}")
    if keep is not None and keep < 1:
        raise MtlmonError(f"keep is a positive number of events or None, not {keep}")


class Event(NamedTuple):
    """A time-point and the atoms that hold there.

    Attributes:
        time_stamp: the time-stamp of the time-point.
        offset: its number within the time-stamp.
        atoms: the names of the atoms.
        number: the number of the event in the trace, also where it has several keys, from 0.
    """

    time_stamp: int
    offset: int
    atoms: frozenset[str]
    number: int = 0


class Events(ABC):
    """The last events that a monitor has seen.

    Args:
        subject: what is monitored.
        seen: the names that events should have, and those that they have had.
        at_end: what the end of the stream means.
        keep: how many events to remember for reports; None means all.

    Attributes:
        formula: the formula that is monitored.
        unit: the unit of the time-stamps, for reports.
        key: the values of the key whose events these are, by the columns; {} without a key.
        numbers: the numbers of the last events in the whole trace, from 0, if there is a key.
        place: tells where the event with a number comes from, if that is a table; or None.
        pairs: the last events (time_stamp, atoms), in order.
        seen: the names that events have had.
        end_time: what is known about the time after the last event, as for `Monitor.finish`.
        undecided: the time-points that stay open at the end, without equivalents.
        conditions: what computes the atoms that are conditions on values, or None.

    Raises:
        MtlmonError: `at_end` is unknown, or `keep` is below 1.
    """

    conditions: Conditions | None = None

    def __init__(
        self,
        subject: Subject,
        seen: SeenNames,
        *,
        at_end: AtEnd,
        keep: int | None,
    ) -> None:
        __tracebackhide__ = True
        require_valid(at_end, keep)
        self.formula = subject.formula
        self.title = subject.title
        self.unit = subject.unit
        self.subject = subject
        self.at_end = at_end
        self.seen = seen
        self.key: Mapping[str, object] = {}
        self.numbers: deque[int] | None = None
        self.place: Callable[[int], str | None] | None = None
        self.pairs: deque[Pair] = deque(maxlen=keep)
        self.end_time: EndTime = None
        self.undecided: list[tuple[int, int]] = []

    @property
    def named_formulas(self) -> Mapping[Formula, str]:
        """The names of lets, by what they stand for."""
        file = self.subject.file
        return {} if file is None else file.named_formulas

    @property
    @abstractmethod
    def event_count(self) -> int:
        """The number of events so far."""

    @property
    @abstractmethod
    def counts(self) -> tuple[int, int, int]:
        """The numbers of true, false and undecided time-points, including equivalents."""

    @property
    def is_complete(self) -> bool:
        """Whether all events so far are still remembered."""
        return len(self.pairs) == self.event_count

    @property
    def clock(self) -> int:
        """The least time-stamp that a later event can have."""
        last = int(self.pairs[-1][0]) if self.pairs else 0
        return max(last, self.end_time + 1) if isinstance(self.end_time, int) else last

    def recent(self) -> list[Event]:
        """Return the last events, beginning with the first whose offset is known."""
        events: list[Event] = []
        skipped = None if self.is_complete else self.pairs[0][0]
        first = self.event_count - len(self.pairs)
        numbers = range(first, self.event_count) if self.numbers is None else self.numbers
        for number, (time_stamp, atoms) in zip(numbers, self.pairs, strict=True):
            if time_stamp == skipped:
                continue
            repeated = bool(events) and events[-1].time_stamp == time_stamp
            offset = events[-1].offset + 1 if repeated else 0
            events.append(Event(int(time_stamp), offset, self.letter(atoms), number))
        return events

    def letter(self, atoms: Collection[str]) -> frozenset[str]:
        """The names of what holds at an event."""
        return frozenset(atoms)

    def words(self, event: Event) -> list[str]:
        """What holds at an event, as reports show it, beginning with atoms of the formula."""
        known = set(self.formula.atoms)
        names = sorted(event.atoms, key=lambda name: (name not in known, name))
        values = self.values(event)
        if self.unit is not None:
            # the language of conditions is loaded for failures only
            from mtlmon.policy.predicates.printer import condition_text

            names = [condition_text(name, self.unit) for name in names]
        return [*map(atom_text, names), *values]

    def values(self, event: Event) -> list[str]:
        """The values of conditions at an event, as reports show them."""
        return [] if self.conditions is None else self.conditions.shown(event.number)

    def delay(self) -> int | None:
        """How much later a time-point is decided at the latest; None if there is no limit."""
        return decision_delay(self.formula)

    def instance(self, _time_point: tuple[int, int]) -> tuple[Formula, list[str]]:
        """What a time-point violates: the formula, and the values of its variables as lines."""
        return self.formula, []

    @abstractmethod
    def proof(self, time_point: tuple[int, int]) -> str | None:
        """Why a time-point violates the formula, or why nothing can be said; None for nothing."""

    def _note_end(self, end_time: EndTime) -> EndTime:
        """Remember what is known about the time after the last event; return it."""
        if self.at_end == "closed":
            end_time = self.end_time = "inf"
        elif end_time == "last":
            self.end_time = max(self.clock - 1, int(self.pairs[-1][0])) if self.pairs else 0
        elif end_time is not None:
            self.end_time = end_time
        return end_time


class Recording(Events):
    """A monitor and its last events.

    Args:
        subject: the formula to monitor.
        conditions: what computes the atoms that are conditions, or None.
        mode: the mode of the monitor.
        at_end: what the end of the stream means, see `finish`.
        keep: how many events to remember for reports; None means all.
        unknown: what to do about atoms that no event has, as for `SeenNames`.

    Attributes:
        monitor: the monitor. Code that steps it directly must append its events to `pairs`, and
            note their names in `seen` while some are missing.

    Raises:
        MtlmonError: the mode or `at_end` is unknown, or `keep` is below 1.
    """

    def __init__(
        self,
        subject: Subject,
        conditions: Conditions | None = None,
        *,
        mode: Mode = "local",
        at_end: AtEnd = "decided",
        keep: int | None = DEFAULT_KEEP,
        unknown: Unknown = None,
    ) -> None:
        __tracebackhide__ = True
        self.conditions = conditions
        if conditions is not None:
            conditions.keep = keep
        self.mode = mode
        try:
            self.monitor = Monitor(subject.formula, mode)
        except MtlmonError as error:
            raise error.with_traceback(None) from None
        seen = SeenNames(self.names, unknown)
        super().__init__(subject, seen, at_end=at_end, keep=keep)

    def of_key(self, key: Mapping[str, object]) -> Recording:
        """Return the recording of a new key, which shares the names that have been seen.

        Args:
            key: the values of the key, by the columns.
        """
        keep = self.pairs.maxlen
        found = Recording(
            self.subject, self.conditions, mode=self.mode, at_end=self.at_end, keep=keep
        )
        found.seen = self.seen
        found.place = self.place
        found.key = key
        found.numbers = deque(maxlen=keep)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The names that events should have: atoms of the formula, and values of conditions."""
        if self.conditions is None:
            return self.monitor.atoms
        return tuple(dict.fromkeys([*self.conditions.atoms, *self.conditions.columns]))

    @property
    def event_count(self) -> int:
        """The number of events so far."""
        return self.monitor.counters["events"]

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of true, false and undecided time-points, including equivalents."""
        counters = self.monitor.counters
        true, false = counters["true"], counters["false"]
        return true, false, counters["events"] - true - false

    def step(self, time_stamp: int, atoms: Collection[str]) -> list[Verdict]:
        """Process an event; return the new verdicts.

        Raises:
            TimeStampError: the time-stamp is negative, too large or decreasing.
        """
        verdicts = self.monitor.step(time_stamp, atoms)
        self.pairs.append((time_stamp, atoms))
        if self.seen.missing:
            self.seen.note(atoms)
        return verdicts

    def advance(self, time_stamp: int) -> list[Verdict]:
        """Declare that no later event is below a time-stamp; return the new verdicts.

        Raises:
            TimeStampError: the time-stamp is negative or too large.
        """
        verdicts = self.monitor.advance(time_stamp)
        if self.pairs and time_stamp > self.clock:
            self.end_time = index(time_stamp) - 1
        return verdicts

    def finish(self, end_time: EndTime = None) -> list[Verdict]:
        """End the stream; return the new verdicts, and store in `undecided` what stays open.

        Args:
            end_time: what is known about the time after the last event, as for `Monitor.finish`.
                It is ignored with `at_end="closed"`, which means that no event ever follows.

        Raises:
            TimeStampError: `end_time` is negative or too large.
            MtlmonError: `end_time` has another invalid value.
        """
        pending = [(point.time_stamp, point.offset) for point in self.monitor.pending]
        verdicts = self.monitor.finish(self._note_end(end_time))
        settled = {(verdict.time_stamp, verdict.offset) for verdict in verdicts}
        self.undecided = [point for point in pending if point not in settled]
        return verdicts

    def proof(self, time_point: tuple[int, int]) -> str | None:
        from mtlmon.explanation import Trace, explain

        events = [(event.time_stamp, event.atoms) for event in self._relevant(time_point)]
        if not events:
            return f"no explanation: it needs more than the last {len(self.pairs):,} events"
        try:
            trace = Trace.of(events, self.end_time, unit=self.unit, names=self.named_formulas)
            proof = explain(self.formula, trace, time_point)
            # Leave out the heading, which the report has already.
            return str(proof).partition("\n\n")[2]
        except (MtlmonError, MemoryError) as error:
            return f"no explanation: {error}"

    def _relevant(self, time_point: tuple[int, int]) -> Sequence[Event]:
        """The events that the value at the time-point can depend on; none if some are lost.

        They begin with a whole time-stamp, so that offsets are the same as in the stream.
        """
        events = self.recent()
        past_reach = self.formula.past_reach
        if past_reach is None:
            return events if self.is_complete else []
        # One more time-stamp, as PREVIOUS depends on whether there was an earlier event.
        first = time_point[0] - past_reach - 1
        earlier = [
            n for n, event in enumerate(events) if event.offset == 0 and event.time_stamp <= first
        ]
        if earlier:
            return events[earlier[-1] :]
        return events if self.is_complete else []
