"""Notices numbers of times that are probably counted in another unit."""

from __future__ import annotations

from mtlmon.syntax.bounds import UNITS

__all__ = ["implausible_time"]

_YEAR = 31_556_952 * 10**9
# Times of logs are not later, and those that count from 1970 are mostly in the years behind.
_LAST_YEAR = 2500
_USUAL = range(1990, 2200)
# Seconds from 2001 to 2039; as milliseconds they are within the first 26 days, as few clocks are.
_SECONDS = range(10**9, 22 * 10**8)


def implausible_time(time: int, unit: str) -> str | None:
    """Return a sentence if a time is implausible for its unit, with the unit that may be meant.

    Args:
        time: the largest time of a log, as a number of units since 1970.
        unit: the unit.
    """
    year = _year(time, unit)
    if unit == "ms" and time in _SECONDS:
        meant = "s"
    elif year > _LAST_YEAR:
        meant = next((one for one in ("s", "ms", "us", "ns") if _year(time, one) in _USUAL), "")
    else:
        return None
    kind = f": in {meant} it would be in {_year(time, meant)}" if meant else ""
    return f"the unit of times is {unit}, by which {time} is in the year {year}{kind}"


def _year(time: int, unit: str) -> int:
    return 1970 + time * UNITS[unit] // _YEAR
