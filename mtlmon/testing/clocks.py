"""Clocks give time-stamps to events that have none of their own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, SupportsIndex

from mtlmon.errors import MtlmonError
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.testing.times import TimeReader, TimeStamp

    Clock = Literal["monotonic", "wall"] | Callable[[], TimeStamp]

__all__ = ["make_clock"]


def make_clock(clock: Clock, unit: str, times: TimeReader) -> Callable[[], SupportsIndex]:
    """Return a function that returns the time as a whole number of units.

    Args:
        clock: "monotonic" counts from now, and "wall" from 1970; what a function returns is read
            as a time.
        unit: the unit, a key of `mtlmon.syntax.bounds.UNITS`.
        times: reads times that are no integers.

    Raises:
        MtlmonError: `clock` has another value.
    """
    if callable(clock):
        return lambda: times.read(clock())
    length = UNITS[unit]
    if clock == "monotonic":
        start = time.monotonic_ns()
        return lambda: (time.monotonic_ns() - start) // length
    if clock == "wall":
        return lambda: time.time_ns() // length
    raise MtlmonError(f"a clock is 'monotonic', 'wall' or a function, not {clock!r}")
