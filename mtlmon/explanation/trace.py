"""A recorded trace: its events, and what is known about the time after them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Literal, NamedTuple

from mtlmon.engine.native import clock_at_end, is_end_of_time, read_atoms
from mtlmon.errors import EventTypeError, ExplanationError, TimeStampError
from mtlmon.syntax.bounds import require_unit
from mtlmon.syntax.interval import MAXIMUM_BOUND

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mtlmon.explanation.timeline import Timeline
    from mtlmon.syntax.formula import Formula
    from mtlmon.syntax.interval import Interval

    Atoms = Iterable[str] | Mapping[str, object]

__all__ = ["PLAIN", "EndTime", "Trace", "Wording"]

EndTime = int | Literal["last", "inf"] | None


class Wording(NamedTuple):
    """How formulas are written for people.

    Attributes:
        unit: the unit of bounds, which are then written with units; None if it is not known.
        names: the names of subformulas, which are written instead of them.
    """

    unit: str | None = None
    names: Mapping[Formula, str] = {}


PLAIN = Wording()
"""Bounds without units, and no names."""


class Trace:
    """Consecutive time-points of a stream, numbered from 0, and what is known about the rest.

    Attributes:
        time_stamps: the time-stamps of the time-points; they never decrease.
        letters: the atoms that hold at each time-point.
        clock: the least time-stamp that a later event can have.
        is_closed: whether no event follows.
        is_cut: whether there are earlier events, too long ago to matter.
        first_offset: the offset of the first time-point among all of its time-stamp.
        offsets: the offsets of all time-points; None if they are consecutive.
        wording: how explanations write formulas.
    """

    __slots__ = (
        "clock",
        "first_offset",
        "is_closed",
        "is_cut",
        "letters",
        "offsets",
        "time_stamps",
        "wording",
    )

    def __init__(
        self,
        time_stamps: Sequence[int],
        letters: Sequence[Collection[str]],
        end_time: EndTime = None,
        *,
        is_cut: bool = False,
        first_offset: int = 0,
        offsets: Sequence[int] | None = None,
        unit: str | None = None,
        names: Mapping[Formula, str] | None = None,
    ) -> None:
        """Create a trace from time-stamps that are known to be in order.

        Args:
            time_stamps: the time-stamps of the time-points.
            letters: the atoms that hold at each time-point.
            end_time: None (nothing is known about the time after the trace), the time-stamp up to
                and including which it is complete, "last" (its last time-stamp) or "inf" (no event
                ever follows).
            is_cut: whether there are earlier events, too long ago to matter.
            first_offset: the offset of the first time-point among all of its time-stamp.
            offsets: the offsets of all time-points; None if they are consecutive.
            unit: the unit of time-stamps, for explanations; None if it is not known.
            names: the names of subformulas, which explanations show instead of them.
        """
        self.offsets = offsets
        self.wording = Wording(unit, names or {})
        self.time_stamps = time_stamps
        self.letters = letters
        self.is_cut = is_cut
        self.first_offset = first_offset
        last = time_stamps[-1] if time_stamps else 0
        following = clock_at_end(last, end_time)
        self.is_closed = is_end_of_time(following)
        self.clock = last if following is None else following

    @classmethod
    def of(
        cls,
        events: Iterable[tuple[int, Atoms]],
        end_time: EndTime = None,
        *,
        unit: str | None = None,
        names: Mapping[Formula, str] | None = None,
    ) -> Trace:
        """Create a trace from events.

        Args:
            events: pairs of a time-stamp and atoms: the names of those that hold, or a mapping of
                names to whether they hold.
            end_time: what is known about the time after the trace, as for the constructor.
            unit: the unit of time-stamps, a key of `mtlmon.syntax.bounds.UNITS`: explanations show
                bounds and distances in it. None if it is not known.
            names: the names of subformulas, which explanations show instead of them, as those of
                `PolicyFile.named_formulas`.

        Raises:
            UnitError: the unit is unknown.
            TimeStampError: a time-stamp, or `end_time`, is not an integer from 0 to 2^63-1, or
                time-stamps decrease; the message names the event.
            EventTypeError: an event is not such a pair.
        """
        if unit is not None:
            require_unit(unit)
        if end_time not in (None, "last", "inf"):
            _check_time_stamp(end_time, "end_time")
        time_stamps: list[int] = []
        letters: list[Collection[str]] = []
        known: dict[frozenset[str], frozenset[str]] = {}
        for position, event in enumerate(events):
            try:
                time_stamp, atoms = event
            except (TypeError, ValueError):
                raise EventTypeError(
                    f"event {position} is {event!r}: it must be a pair (time_stamp, atoms)",
                    index=position,
                ) from None
            _check_time_stamp(time_stamp, f"the time-stamp of event {position}")
            if time_stamps and time_stamp < time_stamps[-1]:
                raise TimeStampError(
                    f"the time-stamp of event {position} is {time_stamp}, below {time_stamps[-1]} "
                    "of the event before: sort the trace by time"
                )
            try:
                letter = read_atoms(atoms)
            except EventTypeError as error:
                raise EventTypeError(f"event {position}: {error}", index=position) from None
            time_stamps.append(time_stamp)
            letters.append(known.setdefault(letter, letter))
        return cls(time_stamps, letters, end_time, unit=unit, names=names)

    def __len__(self) -> int:
        return len(self.time_stamps)

    @property
    def unit(self) -> str | None:
        """The unit of time-stamps, a key of `mtlmon.syntax.bounds.UNITS`; None if not known."""
        return self.wording.unit

    def name(self, position: int) -> tuple[int, int]:
        """Return the name of a time-point: its time-stamp, and its offset within this."""
        time_stamp = self.time_stamps[position]
        if self.offsets is not None:
            return time_stamp, self.offsets[position]
        first = bisect_left(self.time_stamps, time_stamp)
        return time_stamp, position - first + (0 if first else self.first_offset)

    def position(self, time_stamp: int, offset: int) -> int:
        """Return the position of a time-point.

        Raises:
            ExplanationError: the trace has no such time-point.
        """
        position = bisect_left(self.time_stamps, time_stamp)
        if self.offsets is not None:
            while position < len(self) and self.name(position) < (time_stamp, offset):
                position += 1
        else:
            position += offset - (0 if position else self.first_offset)
        if not 0 <= position < len(self) or self.name(position) != (time_stamp, offset):
            raise ExplanationError(f"the trace has no time-point {time_stamp}:{offset}")
        return position

    def plot(
        self,
        *formulas: Formula | str,
        atoms: Sequence[str] | None = None,
        first: int = 0,
        count: int = 60,
    ) -> Timeline:
        """Draw the atoms of the trace, and the verdicts of formulas, over time.

        Notebooks show the result; `save` writes it to a file.

        Args:
            formulas: formulas, or their texts; monitored from the first time-point on.
            atoms: the atoms to show; by default, those of the formulas, or all if there are none.
            first: the position of the first time-point that is shown.
            count: how many time-points are shown.

        Raises:
            FormulaError: a text is not a formula.
        """
        from mtlmon.explanation.timeline import Timeline

        return Timeline(self, formulas, atoms=atoms, first=first, count=count)

    def may_grow_within(self, interval: Interval, position: int) -> bool:
        """Whether a later event can be at a distance in the interval from a position."""
        if self.is_closed:
            return False
        waited = self.clock - self.time_stamps[position]
        return interval.upper is None or waited <= interval.upper


def _check_time_stamp(value: object, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TimeStampError(f"{what} is {value!r}: it must be an integer from 0 to 2^63-1")
    if not 0 <= value <= MAXIMUM_BOUND:
        raise TimeStampError(f"{what} is {value}: it must be an integer from 0 to 2^63-1")
