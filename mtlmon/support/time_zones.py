"""Time zones of times that are written without an offset."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

from mtlmon.errors import MtlmonError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

__all__ = ["REPEATED", "TimeZone", "offsets_at", "read_time_zone"]

REPEATED = ("first", "second")
"""Which one of two hours with the same local times is meant, if it is said."""

_EPOCH = datetime(1970, 1, 1)
_DAY = 86_400
_LAST_YEAR = 9998


class TimeZone(NamedTuple):
    """A time zone.

    Attributes:
        name: a name of IANA.
        repeated: which one of two hours with the same local times is meant: "first" or "second";
            None if that follows from the order of rows.
    """

    name: str
    repeated: str | None = None

    def __str__(self) -> str:
        return self.name if self.repeated is None else f"{self.name} {self.repeated}"


def read_time_zone(text: str) -> TimeZone:
    """Read `Europe/Berlin`, `Europe/Berlin first` or `Europe/Berlin second`.

    Raises:
        MtlmonError: there is no such zone.
    """
    name, _, repeated = text.strip().partition(" ")
    repeated = repeated.strip()
    try:
        _zone(name)
    except (OSError, ValueError, KeyError):
        raise MtlmonError(
            f"there is no time zone {name!r}: zones are called as in the IANA database, as "
            "Europe/Berlin"
        ) from None
    if repeated and repeated not in REPEATED:
        raise MtlmonError(
            f"behind the time zone {name} is {repeated!r}: write 'first' or 'second' for times of "
            "the hour that occurs twice when clocks are put back"
        )
    return TimeZone(name, repeated or None)


def offsets_at(name: str, local: int) -> tuple[int, int, list[int], list[int]]:
    """Return the offsets of a zone around a local time.

    Args:
        name: a name of IANA.
        local: the seconds of the local time since 1970, if it were in UTC.

    Returns:
        The first and the last local second for which these are all offsets, the instants from which
        each offset holds, in order, and the offsets in seconds. The first one holds before, too.
    """
    year = (_EPOCH + timedelta(seconds=local)).year
    return _offsets_in(name, min(year, _LAST_YEAR))


@cache
def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


@cache
def _offsets_in(name: str, year: int) -> tuple[int, int, list[int], list[int]]:
    """Return the offsets around a year; of the last years, all have those of their first one."""
    zone = _zone(name)

    def offset_at(second: int) -> int:
        found = datetime.fromtimestamp(second, UTC).astimezone(zone).utcoffset()
        assert found is not None
        return found // timedelta(seconds=1)

    first, last = (
        (datetime(one, 1, 1) - _EPOCH) // timedelta(seconds=1) for one in (year, year + 1)
    )
    # Offsets are less than a day.
    start = first - 2 * _DAY
    starts, offsets = [start], [offset_at(start)]
    for day in range(start + _DAY, last + 3 * _DAY, _DAY):
        if (offset := offset_at(day)) == offsets[-1]:
            continue
        # the first second with another offset than that of the day before
        begin = day - _DAY
        before = offsets[-1]
        change = begin + bisect_right(
            range(begin, day), False, key=lambda at: offset_at(at) != before
        )
        starts.append(change)
        offsets.append(offset)
    return first, last - 1 if year < _LAST_YEAR else 2**62, starts, offsets
