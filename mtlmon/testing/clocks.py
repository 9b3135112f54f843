"""Clocks: where the time-stamps of events come from that do not bring their own."""

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
    """A function that tells the time as a whole number of units.

    Args:
        clock: "monotonic" counts from now on, "wall" from 1970 on; a function tells the time
            itself.
        unit: a key of `mtlmon.syntax.bounds.UNITS`.

    Raises:
        MtlmonError: the clock is none of these.
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
