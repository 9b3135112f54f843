"""Time-stamps that programs give."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from mtlmon.errors import EventTypeError, TimeStampError

__all__ = ["LARGEST_TIME_STAMP", "checked_time_stamp"]

LARGEST_TIME_STAMP = 2**63 - 1


def checked_time_stamp(value: object) -> int:
    """Return a time-stamp as an integer of Python.

    Raises:
        EventTypeError: it is no integer.
        TimeStampError: it is negative, or does not fit 64 bits.
    """
    __tracebackhide__ = True
    # PERF: a protocol takes microseconds to look for, longer than a step of a monitor
    if type(value) is int and 0 <= value <= LARGEST_TIME_STAMP:
        return value
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise EventTypeError(f"time-stamps are integers, not {value!r}")
    number = index(value)
    if not 0 <= number <= LARGEST_TIME_STAMP:
        raise TimeStampError(f"time-stamp {number} is not between 0 and 2^63-1")
    return number
