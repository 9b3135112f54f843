"""Clocks: where the time-stamps of events come from that do not bring their own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from mtlmon.errors import MtlmonError

if TYPE_CHECKING:
    from collections.abc import Callable

    Clock = Literal["monotonic", "wall"] | Callable[[], int]

__all__ = ["NANOSECONDS", "make_clock"]

NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3_600 * 1_000_000_000,
    "d": 86_400 * 1_000_000_000,
}
"""The length of every unit of time."""


def make_clock(clock: Clock, unit: str) -> Callable[[], int]:
    """A function that tells the time as a whole number of units.

    Args:
        clock: "monotonic" counts from now on, "wall" from 1970 on; a function tells the time
            itself.
        unit: a key of `NANOSECONDS`.

    Raises:
        MtlmonError: the clock is none of these.
    """
    if callable(clock):
        return clock
    length = NANOSECONDS[unit]
    if clock == "monotonic":
        start = time.monotonic_ns()
        return lambda: (time.monotonic_ns() - start) // length
    if clock == "wall":
        return lambda: time.time_ns() // length
    raise MtlmonError(f"a clock is 'monotonic', 'wall' or a function, not {clock!r}")
