"""A monitor that remembers its last events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from operator import index
from typing import TYPE_CHECKING, Literal, NamedTuple

from mtlmon._core import Monitor
from mtlmon.analysis.reach import decision_delay
from mtlmon.errors import FormulaError, MtlmonError
from mtlmon.syntax.conditions import written_with_conditions
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.parser import parse
from mtlmon.syntax.printer import atom_text
from mtlmon.testing.seen import SeenNames

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mtlmon._core import Verdict
    from mtlmon.policy import PolicyFile
    from mtlmon.testing.conditions import Conditions
    from mtlmon.testing.relations import RelationalRecording
    from mtlmon.testing.seen import Unknown

    Atoms = Iterable[str] | Mapping[str, object]
    Pair = tuple[int, Collection[str]]

__all__ = [
    "DEFAULT_KEEP",
    "AtEnd",
    "EndTime",
    "Event",
    "Events",
    "Mode",
    "Recording",
    "read_conditions",
    "read_formula",
    "record",
]

Mode = Literal["local", "global", "naive"]
AtEnd = Literal["decided", "undecided-ok", "closed"]
EndTime = int | Literal["last", "inf"] | None

AT_END: tuple[AtEnd, ...] = ("decided", "undecided-ok", "closed")
DEFAULT_KEEP = 10_000


class Event(NamedTuple):
    """A time-point and the atoms that hold there.

    Attributes:
        time_stamp: the time-stamp of the time-point.
        offset: its number within the time-stamp.
        atoms: the names of the atoms.
        number: the number of the event, from 0.
    """

    time_stamp: int
    offset: int
    atoms: frozenset[str]
    number: int = 0


class Events(ABC):
    """The last events that a monitor has seen.

    Args:
        formula: the formula that is monitored.
        names: the names that events should have.
        unit: the unit of the time-stamps, for reports.
        at_end: what the end of the stream means.
        keep: how many events to remember for reports; None means all.
        unknown: what to do about names that no event has, as for `SeenNames`.

    Attributes:
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
        formula: Formula,
        names: Sequence[str],
        *,
        unit: str | None,
        at_end: AtEnd,
        keep: int | None,
        unknown: Unknown,
    ) -> None:
        __tracebackhide__ = True
        if at_end not in AT_END:
            raise MtlmonError(f"at_end is one of {', '.join(map(repr, AT_END))}, not {at_end!r}")
        if keep is not None and keep < 1:
            raise MtlmonError(f"keep is a positive number of events or None, not {keep}")
        self.formula = formula
        self.unit = unit
        self.at_end = at_end
        self.seen = SeenNames(names, unknown)
        self.pairs: deque[Pair] = deque(maxlen=keep)
        self.end_time: EndTime = None
        self.undecided: list[tuple[int, int]] = []

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
        for number, (time_stamp, atoms) in enumerate(self.pairs, first):
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
        values = [] if self.conditions is None else self.conditions.shown(event.number)
        return [*map(atom_text, names), *values]

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
        formula: the formula to monitor, or conditions with the formula about them.
        unit: the unit of the time-stamps, for reports.
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
        formula: Formula | Conditions,
        *,
        unit: str | None = None,
        mode: Mode = "local",
        at_end: AtEnd = "decided",
        keep: int | None = DEFAULT_KEEP,
        unknown: Unknown = None,
    ) -> None:
        __tracebackhide__ = True
        self.conditions = None if isinstance(formula, Formula) else formula
        if self.conditions is not None:
            self.conditions.keep = keep
        if not isinstance(formula, Formula):
            unit = formula.unit or unit
            formula = formula.formula
        try:
            self.monitor = Monitor(formula, mode)
        except MtlmonError as error:
            raise error.with_traceback(None) from None
        super().__init__(formula, self.names, unit=unit, at_end=at_end, keep=keep, unknown=unknown)

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
        from mtlmon.explanation import explain

        events = [(event.time_stamp, event.atoms) for event in self._relevant(time_point)]
        if not events:
            return f"no explanation: it needs more than the last {len(self.pairs):,} events"
        try:
            proof = explain(self.formula, events, time_point, end_time=self.end_time)
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


def read_conditions(
    formula: Formula | str, unit: str | None = None
) -> Formula | Conditions | PolicyFile:
    """Make a formula as `read_formula` does, or conditions from a text that has some.

    A policy with variables is returned as the file that it is in.

    Raises:
        FormulaError, UnitError, TypeError: as `read_formula` does.
        MtlmonError: the text has several policies, or needs more than one trace.
    """
    __tracebackhide__ = True
    if isinstance(formula, Formula):
        if formula.is_first_order:
            formula = written_with_conditions(formula) or str(formula)
        else:
            formula = written_with_conditions(formula) or formula
    try:
        return read_formula(formula, unit)
    except FormulaError:
        if not isinstance(formula, str):
            raise
    from mtlmon.testing.conditions import read_policy

    try:
        return read_policy(formula, unit)
    except MtlmonError as error:
        raise error.with_traceback(None) from None


def record(
    read: Formula | Conditions | PolicyFile,
    *,
    unit: str | None,
    mode: Mode,
    at_end: AtEnd,
    keep: int | None,
    unknown: Unknown,
) -> Recording | RelationalRecording:
    """Make the recording for what `read_conditions` returns; the arguments are those of both."""
    __tracebackhide__ = True
    from mtlmon.policy import PolicyFile

    if not isinstance(read, PolicyFile):
        return Recording(read, unit=unit, mode=mode, at_end=at_end, keep=keep, unknown=unknown)
    from mtlmon.testing.relations import RelationalRecording

    if mode != "local":
        raise MtlmonError(
            f"mode {mode!r} is for policies without variables: leave it out, as there are no "
            "equivalences between valuations"
        )
    return RelationalRecording(read, unit=unit, at_end=at_end, keep=keep, unknown=unknown)


def read_formula(formula: Formula | str, unit: str | None = None) -> Formula:
    """Make a formula for time-stamps in a unit, from a text or a `Formula`.

    Raises:
        FormulaError: the text is not a formula, or a bound is not a whole number of units.
        UnitError: a bound has a unit but the time-stamps have none, or the unit is unknown.
        TypeError: `formula` is neither a text nor a `Formula`.
    """
    __tracebackhide__ = True
    if not isinstance(formula, (str, Formula)):
        raise TypeError(f"a formula is a text or a Formula, not {type(formula).__name__}")
    try:
        if isinstance(formula, str):
            return parse(formula, unit=unit)
        return formula if unit is None else formula.in_unit(unit)
    except MtlmonError as error:
        # A test that shows the error does not need the frames of the parser.
        raise error.with_traceback(None) from None
