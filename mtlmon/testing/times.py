"""Reads the times of events: integers as they are, and times of Python, counted in a unit."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, SupportsIndex

from mtlmon.errors import EventTypeError, TimeStampError
from mtlmon.support.time_zones import read_time_zone
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
        zone: the time zone of dates and times that have none, as for `read_time_zone`, or None. Of
            an hour that occurs twice, the second one is meant if that is said, by the zone or by
            the `fold` of the time, and else if the time read before is later than the first one.
    """

    def __init__(self, unit: str | None, zone: str | None = None) -> None:
        self.unit = unit
        self.zone = None if zone is None else read_time_zone(zone)
        # what was read last
        self._before: datetime | None = None

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
            self._before = self._in_zone(time)
            return _nanoseconds(self._before - _EPOCH) // length
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
                'one in the policy, as in time zone "Europe/Berlin"'
            )
        from zoneinfo import ZoneInfo

        zone = ZoneInfo(self.zone.name)
        times = [time.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
        offsets = [one.utcoffset() or timedelta(0) for one in times]
        first, second = (one.astimezone(UTC) for one in times)
        if offsets[0] < offsets[1]:
            raise TimeStampError(
                f"time-stamp {time!r} does not exist in {zone}: clocks are put forward there"
            )
        is_second = self.zone.repeated == "second" or bool(time.fold)
        if self.zone.repeated is None and self._before is not None:
            is_second = is_second or self._before > first
        return second if is_second else first


def _nanoseconds(length: timedelta) -> int:
    return length // _MICROSECOND * 1000
