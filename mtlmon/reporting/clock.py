"""Formats time-stamps for people: as dates if possible, otherwise as numbers with their unit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Clock", "Tick", "counts_from_1970"]

_SECOND = UNITS["s"]
_DAY = UNITS["d"]
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
# The beginnings of the years 2000 and 2100, and the last second that has a date, since 1970.
_2000 = 946_684_800
_2100 = 4_102_444_800
_LAST_SECOND = 253_402_300_799

# Distances of ticks between a second and a day, in seconds.
_CLOCK_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600),
)
_DURATIONS = ("d", "h", "m", "s", "ms", "us", "ns")


def counts_from_1970(unit: str | None, time_stamps: Iterable[int]) -> bool:
    """Whether all time-stamps, counted in this unit from 1970, lie between 2000 and 2100."""
    if unit is None:
        return False
    length = UNITS[unit]
    times = list(time_stamps)
    return bool(times) and all(_2000 <= time * length // _SECOND < _2100 for time in times)


class Tick(NamedTuple):
    """A mark on an axis of time.

    Attributes:
        time_stamp: the place of the mark.
        label: its label.
        date: the second line of the label, or "".
    """

    time_stamp: int
    label: str
    date: str


class Clock:
    """Formats time-stamps and durations.

    Args:
        unit: the unit of the time-stamps, a key of `mtlmon.syntax.bounds.UNITS`, or None.
        epoch: whether they count from the beginning of 1970 in UTC.
        zone: the time zone of dates, a name of IANA; None is UTC.

    Attributes:
        zone_name: the name of the zone.
    """

    def __init__(self, unit: str | None, *, epoch: bool, zone: str | None = None) -> None:
        self.zone_name = zone or "UTC"
        self._zone = UTC if zone is None else ZoneInfo(zone)
        self.unit = unit
        self.length = UNITS[unit] if unit is not None else 1
        self.has_dates = epoch and unit is not None

    def date(self, time_stamp: int) -> tuple[str, str] | None:
        """Return the date and the time of day in the precision of the unit.

        Returns None if time-stamps are not dates, or if this one is beyond the year 9999.
        """
        seconds, fraction = divmod(time_stamp * self.length, _SECOND)
        if not self.has_dates or seconds > _LAST_SECOND:
            return None
        try:
            moment = (_1970 + timedelta(seconds=seconds)).astimezone(self._zone)
        except OverflowError:
            return None
        time = f"{moment:%H:%M:%S}"
        digits = {"ms": 3, "us": 6, "ns": 9}.get(self.unit or "", 0)
        if digits:
            time += f".{fraction:09d}"[: digits + 1]
        return f"{moment:%Y-%m-%d}", time

    def machine_text(self, time_stamp: int) -> str | None:
        """Return the value of the HTML attribute `datetime`, or None if there is no date."""
        date = self.date(time_stamp)
        if date is None:
            return None
        # the attribute allows at most three digits of a second
        offset = self._offset(time_stamp)
        minutes = abs(offset) // 60
        written = f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
        return f"{date[0]}T{date[1][:12]}{written if offset else 'Z'}"

    def _offset(self, time_stamp: int) -> int:
        """The seconds by which clocks in the zone are ahead of UTC."""
        moment = _1970 + timedelta(seconds=time_stamp * self.length // _SECOND)
        ahead = moment.astimezone(self._zone).utcoffset()
        return 0 if ahead is None else ahead // timedelta(seconds=1)

    def text(self, time_stamp: int) -> str:
        """Return a time-stamp in full."""
        date = self.date(time_stamp)
        if date is not None:
            return " ".join(date)
        return f"{time_stamp} {self.unit}" if self.unit else str(time_stamp)

    def duration(self, length: int) -> str:
        """Return a number of time units, in the largest unit that divides it."""
        if self.unit is None:
            return f"{length:,}"
        nanoseconds = length * self.length
        for unit in _DURATIONS:
            if nanoseconds and nanoseconds % UNITS[unit] == 0:
                return f"{nanoseconds // UNITS[unit]:,} {unit}"
        return f"{length:,} {self.unit}"

    def interval(self, first: int, last: int) -> str:
        """Return a range of time-stamps; both ends are included."""
        if first == last:
            return self.text(first)
        start, end = self.date(first), self.date(last)
        if start is not None and end is not None and start[0] == end[0]:
            return f"{start[0]} {start[1]} to {end[1]}"
        if start is None and self.unit:
            return f"{first} to {last} {self.unit}"
        return f"{self.text(first)} to {self.text(last)}"

    def ticks(self, first: int, last: int, most: int) -> list[Tick]:
        """Return at most `most` marks between two time-stamps, at round times."""
        # by so much local times are ahead; they are what is round
        ahead = self._ahead(first)
        step = next(
            step
            for step in self._steps()
            if (last + ahead) // step - -(-(first + ahead) // step) + 1 <= most
        )
        ticks: list[Tick] = []
        before = ""
        for time_stamp in range(-(-(first + ahead) // step) * step - ahead, last + 1, step):
            date = self.date(time_stamp)
            if date is None:
                ticks.append(Tick(time_stamp, self.text(time_stamp), ""))
            elif step * self.length >= _DAY:
                # an hour before or after midnight, where clocks have been changed since
                noon = self.date(time_stamp + _DAY // 2 // self.length) if ahead else None
                ticks.append(Tick(time_stamp, (noon or date)[0], ""))
            else:
                # show each date once, below the time
                time = date[1][:5] if step * self.length % UNITS["m"] == 0 else date[1]
                ticks.append(Tick(time_stamp, time, date[0] if date[0] != before else ""))
                before = date[0]
        return ticks

    def _ahead(self, time_stamp: int) -> int:
        """How many time units local time is ahead of UTC, if that is a whole number of them."""
        if self.date(time_stamp) is None:
            return 0
        units, rest = divmod(self._offset(time_stamp) * _SECOND, self.length)
        return 0 if rest else units

    def _steps(self) -> Iterator[int]:
        """Round distances in time units, in increasing order."""
        if not self.has_dates:
            yield from _decimal()
            return
        for step in self._time_steps():
            if step % self.length == 0:
                yield step // self.length

    def _time_steps(self) -> Iterator[int]:
        """Round distances in nanoseconds, in increasing order."""
        for step in _decimal():
            if step >= _SECOND:
                break
            yield step
        for seconds in _CLOCK_STEPS:
            yield seconds * _SECOND
        for days in _decimal():
            yield days * _DAY


def _decimal() -> Iterator[int]:
    for exponent in count():
        for digit in (1, 2, 5):
            yield digit * 10**exponent
