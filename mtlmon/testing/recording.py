"""A monitor that remembers its last events."""

from __future__ import annotations

from collections import deque
from operator import index
from typing import TYPE_CHECKING, Literal, NamedTuple

from mtlmon._core import Monitor
from mtlmon.errors import FormulaError, MtlmonError
from mtlmon.syntax.formula import Formula
from mtlmon.syntax.parser import parse
from mtlmon.testing.seen import SeenNames

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mtlmon._core import Verdict
    from mtlmon.testing.conditions import Conditions
    from mtlmon.testing.seen import Unknown

    Atoms = Iterable[str] | Mapping[str, object]
    Pair = tuple[int, Collection[str]]

__all__ = [
    "DEFAULT_KEEP",
    "AtEnd",
    "EndTime",
    "Event",
    "Mode",
    "Recording",
    "read_conditions",
    "read_formula",
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
    """

    time_stamp: int
    offset: int
    atoms: frozenset[str]


class Recording:
    """A monitor and its last events.

    Args:
        formula: the formula to monitor, or conditions with the formula about them.
        unit: the unit of the time-stamps, for reports.
        mode: the mode of the monitor.
        at_end: what the end of the stream means, see `finish`.
        keep: how many events to remember for reports; None means all.
        unknown: what to do about atoms that no event has, as for `SeenNames`.

    Attributes:
        conditions: what computes the atoms that are conditions on values, or None.
        monitor: the monitor.
        pairs: the last events (time_stamp, atoms), in order. Code that steps the monitor directly
            must append its events, and note their names in `seen` while some are missing.
        seen: the names that events have had.
        end_time: what is known about the time after the last event, as for `Monitor.finish`.
        undecided: the time-points that `finish` left open, without equivalents.

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
        if not isinstance(formula, Formula):
            unit = formula.unit or unit
            formula = formula.formula
        if at_end not in AT_END:
            raise MtlmonError(f"at_end is one of {', '.join(map(repr, AT_END))}, not {at_end!r}")
        if keep is not None and keep < 1:
            raise MtlmonError(f"keep is a positive number of events or None, not {keep}")
        self.formula = formula
        self.unit = unit
        self.at_end = at_end
        try:
            self.monitor = Monitor(formula, mode)
        except MtlmonError as error:
            raise error.with_traceback(None) from None
        self.seen = SeenNames(self.names, unknown)
        self.pairs: deque[Pair] = deque(maxlen=keep)
        self.end_time: EndTime = None
        self.undecided: list[tuple[int, int]] = []

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
    def is_complete(self) -> bool:
        """Whether all events so far are still remembered."""
        return len(self.pairs) == self.event_count

    @property
    def clock(self) -> int:
        """The least time-stamp that a later event can have."""
        last = int(self.pairs[-1][0]) if self.pairs else 0
        return max(last, self.end_time + 1) if isinstance(self.end_time, int) else last

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of true, false and undecided time-points, including equivalents."""
        counters = self.monitor.counters
        true, false = counters["true"], counters["false"]
        return true, false, counters["events"] - true - false

    def recent(self) -> list[Event]:
        """Return the last events, beginning with the first whose offset is known."""
        events: list[Event] = []
        skipped = None if self.is_complete else self.pairs[0][0]
        for time_stamp, atoms in self.pairs:
            if time_stamp == skipped:
                continue
            repeated = bool(events) and events[-1].time_stamp == time_stamp
            offset = events[-1].offset + 1 if repeated else 0
            events.append(Event(int(time_stamp), offset, frozenset(atoms)))
        return events

    def step(self, time_stamp: int, atoms: frozenset[str]) -> list[Verdict]:
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
        if self.at_end == "closed":
            end_time = self.end_time = "inf"
        elif end_time == "last":
            self.end_time = max(self.clock - 1, int(self.pairs[-1][0])) if self.pairs else 0
        elif end_time is not None:
            self.end_time = end_time
        verdicts = self.monitor.finish(end_time)
        settled = {(verdict.time_stamp, verdict.offset) for verdict in verdicts}
        self.undecided = [point for point in pending if point not in settled]
        return verdicts


def read_conditions(formula: Formula | str, unit: str | None = None) -> Formula | Conditions:
    """Make a formula as `read_formula` does, or conditions from a text that has some.

    Raises:
        FormulaError, UnitError, TypeError: as `read_formula` does.
        MtlmonError: the text has several policies, or needs more than one trace.
    """
    __tracebackhide__ = True
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
