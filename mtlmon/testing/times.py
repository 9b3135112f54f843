"""Reads the times of events: integers as they are, and times of Python, counted in a unit."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, SupportsIndex

from mtlmon.errors import EventTypeError, TimeStampError
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    TimeStamp = SupportsIndex | float | datetime | timedelta

__all__ = ["TimeReader"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class TimeReader:
    """Turns times into integers.

    Args:
        unit: the unit of the time-stamps, one of ns, us, ms, s, m, h and d, or None.
        zone: the name of the time zone of dates and times that have none, or None.
    """

    def __init__(self, unit: str | None, zone: str | None = None) -> None:
        self.unit = unit
        self.zone = zone

    def read(self, time: TimeStamp) -> SupportsIndex:
        """Return a time as an integer, rounded down to the unit.

        Args:
            time: an integer, which is returned as it is; a float, which counts seconds, as
                `time.time()` and `time.monotonic()` return them; a datetime, counted from 1970; or
                a timedelta.

        Raises:
            TimeStampError: the time has no time zone, or is infinite or no number.
            EventTypeError: it is no integer, and there is no unit.
        """
        __tracebackhide__ = True
        if isinstance(time, float):
            length = self._length(time, "floats count seconds, as time.monotonic() does")
            if not math.isfinite(time):
                raise TimeStampError(f"time-stamp {time!r} is not a time")
            # A float of today's time is exact to less than a microsecond.
            exact = round(time * 1e9) if self.unit == "ns" else round(time * 1e6) * 1000
            return exact // length
        if isinstance(time, datetime):
            length = self._length(time, "dates count from 1970")
            return _nanoseconds(self._in_zone(time) - _EPOCH) // length
        if isinstance(time, timedelta):
            return _nanoseconds(time) // self._length(time, "it is converted")
        return time

    def at_event(self, time: Any, number: int) -> Any:
        """Return the time of an event as an integer; what is no time is returned as it is.

        Raises:
            TimeStampError, EventTypeError: as `read` does, with the number of the event.
        """
        __tracebackhide__ = True
        if type(time) is int:
            return time
        try:
            return self.read(time)
        except (TimeStampError, EventTypeError) as error:
            raise type(error)(f"event {number}: {error}", index=number) from None

    def _length(self, time: object, what: str) -> int:
        """The length of the unit in nanoseconds."""
        __tracebackhide__ = True
        if self.unit is None:
            raise EventTypeError(
                f"a time-stamp is an integer, not {time!r}; with a unit, as in unit='ms', {what}"
            )
        return UNITS[self.unit]

    def _in_zone(self, time: datetime) -> datetime:
        __tracebackhide__ = True
        if time.utcoffset() is not None:
            return time
        if self.zone is None:
            raise TimeStampError(
                f"time-stamp {time!r} has no time zone: make it with datetime.now(UTC), or declare "
                'one in the policy, as in zone "Europe/Berlin"'
            )
        from zoneinfo import ZoneInfo

        return time.replace(tzinfo=ZoneInfo(self.zone))


def _nanoseconds(length: timedelta) -> int:
    return length // _MICROSECOND * 1000
