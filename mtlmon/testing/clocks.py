"""Clocks give time-stamps to events that have none of their own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from mtlmon.errors import MtlmonError
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from collections.abc import Callable

    Clock = Literal["monotonic", "wall"] | Callable[[], int]

__all__ = ["make_clock"]


def make_clock(clock: Clock, unit: str) -> Callable[[], int]:
    """Return a function that returns the time as a whole number of units.

    Args:
        clock: "monotonic" counts from now, and "wall" from 1970; a function is returned as it is.
        unit: the unit, a key of `mtlmon.syntax.bounds.UNITS`.

    Raises:
        MtlmonError: `clock` has another value.
    """
    if callable(clock):
        return clock
    length = UNITS[unit]
    if clock == "monotonic":
        start = time.monotonic_ns()
        return lambda: (time.monotonic_ns() - start) // length
    if clock == "wall":
        return lambda: time.time_ns() // length
    raise MtlmonError(f"a clock is 'monotonic', 'wall' or a function, not {clock!r}")
