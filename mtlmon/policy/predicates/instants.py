"""Parses dates and times in ISO 8601, exactly."""

from __future__ import annotations

import re
from typing import NamedTuple

from mtlmon.policy.predicates import operators as ops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fractions import Fraction

_INSTANT = (
    r"(?a)(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,18}))?)?\s?(Z|z|[+-]\d\d(?::?\d\d)?)?)?"
)


class Form(NamedTuple):
    """How a part of a time is written.

    Attributes:
        pattern: matches texts with which it is in the right order; the beginnings of others, too.
        length: the number of characters.
        hint: how it is written, in words.
    """

    pattern: str
    length: int
    hint: str


_HOURS = r"(?:[01]\d|2[0-3])"
FORMS = {
    ops.WEEKDAY: Form(
        "mon|tue|wed|thu|fri|sat|sun",
        3,
        "the days are mon, tue, wed, thu, fri, sat and sun",
    ),
    ops.DATE: Form(
        r"(?a)\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?",
        10,
        'dates have all their digits, as in "2024-05-01"',
    ),
    ops.TIME_OF_DAY: Form(
        rf"(?a){_HOURS}(?::[0-5]\d(?::[0-5]\d)?)?|24:00(?::00)?",
        8,
        'times of day have all their digits, as in "08:30:00"',
    ),
}
"""How the values of functions of times are written."""


def read_instant(text: str) -> tuple[Fraction, bool] | None:
    """Parse "2024-05-01", "2024-05-01T12:30", "2024-05-01 12:30:00.5+02:00" and the like.

    Returns:
        The nanoseconds since 1970-01-01T00:00, and whether the text has an offset from UTC; or None
        if the text is not a date or a date and time. With an offset, nanoseconds are counted in
        UTC. A date is its midnight.

    >>> read_instant("1970-01-01T02:00:00.5+02:00")
    (Fraction(500000000, 1), True)
    >>> read_instant("noon") is None
    True
    """
    match = re.fullmatch(_INSTANT, text)
    if match is None:
        return None
    # imported on use, as they take 2 ms
    from datetime import date
    from fractions import Fraction

    year, month, day = (int(match[group]) for group in (1, 2, 3))
    hour, minute, second = (int(match[group] or 0) for group in (4, 5, 6))
    zone = _zone_minutes(match[8])
    if hour > 23 or minute > 59 or second > 60 or zone is None:
        return None
    try:
        days = date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return None
    seconds = days * 86400 + hour * 3600 + (minute - zone) * 60 + second
    digits = match[7] or "0"
    fraction = Fraction(int(digits), 10 ** len(digits))
    return (seconds + fraction) * 10**9, match[8] is not None


def _zone_minutes(offset: str | None) -> int | None:
    """The minutes east of UTC, or None if the offset is invalid."""
    if offset is None or offset in "Zz":
        return 0
    hours, minutes = int(offset[1:3]), int(offset[3:].removeprefix(":") or 0)
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (-1 if offset[0] == "-" else 1)
