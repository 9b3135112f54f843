"""Counts time-stamps in intervals that widen as the range of time grows.

Widths come from a fixed series in which each divides the next, and intervals begin at multiples of
their width. So each interval lies within an interval of the next width, counts can be added up
exactly, and the result depends only on the time-stamps, not on how they were batched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.reporting.data import Timeline
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["TimeHistogram", "widths"]

_SECOND = UNITS["s"]
# The widths between a second and a day, in seconds.
_CLOCK_WIDTHS = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600)
_DAY = 86400
# At least twice as many as the intervals that are shown, so that these fit any range.
_CAPACITY = 512


def widths(unit: str | None) -> Iterator[int]:
    """Yield the infinite series of widths in time units; each is a divisor of the next.

    Args:
        unit: the unit of the time-stamps, a key of `mtlmon.syntax.bounds.UNITS`; with None, the
            widths are 1, 5, 10, 50, 100, ...
    """
    if unit is None:
        yield from _decimal(1)
        return
    length = UNITS[unit]
    for width in _time_widths():
        if width % length == 0:
            yield width // length


def _decimal(first: int) -> Iterator[int]:
    while True:
        yield first
        yield 5 * first
        first *= 10


def _time_widths() -> Iterator[int]:
    """The series of widths in nanoseconds."""
    for width in _decimal(1):
        if width >= _SECOND:
            break
        yield width
    for seconds in _CLOCK_WIDTHS:
        yield seconds * _SECOND
    yield from _decimal(_DAY * _SECOND)


class TimeHistogram:
    """Counts time-stamps in bounded memory.

    Args:
        unit: the unit of the time-stamps, for widths such as minutes and hours, or None.
    """

    def __init__(self, unit: str | None = None) -> None:
        self._widths = widths(unit)
        self._width = next(self._widths)
        self._first: int | None = None
        self._last = 0
        # the start of the first interval that is counted, in widths
        self._start = 0
        self._counts: NDArray[np.int64] = np.zeros(0, np.int64)
        self._unit = unit

    def add(self, time_stamps: NDArray[np.int64]) -> None:
        """Count time-stamps, in any order."""
        if not len(time_stamps):
            return
        self._make_room(int(time_stamps.min()), int(time_stamps.max()))
        # This cannot overflow: time-stamps, and the distances between them, are at most 2^63-1.
        indices = time_stamps // self._width - self._start
        self._counts += np.bincount(indices, minlength=len(self._counts))

    def timeline(self, first: int | None, last: int | None, most: int) -> Timeline | None:
        """Return the counts in at most `most` intervals, or None if nothing was counted.

        Args:
            first: a time-stamp that the timeline has to cover, if one is known.
            last: likewise, at the end.
            most: the largest number of intervals.
        """
        if self._first is None:
            return None
        first = self._first if first is None else min(first, self._first)
        last = self._last if last is None else max(last, self._last)
        series = widths(self._unit)
        width = next(series)
        while width < self._width or last // width - first // width >= most:
            width = next(series)
        start = first // width
        counts = [0] * (last // width - start + 1)
        for index, count in enumerate(self._counts.tolist()):
            if count:
                counts[(self._start + index) * self._width // width - start] += count
        return Timeline(start * width, width, tuple(counts))

    def snapshot(self) -> list[object]:
        """Return the counts as a value for JSON, for `restore`."""
        return [self._width, self._first, self._last, self._start, self._counts.tolist()]

    def restore(self, snapshot: list[Any]) -> None:
        """Continue with the counts of another histogram with the same unit; this one is new."""
        width, self._first, self._last, self._start, counts = snapshot
        while self._width < width:
            self._width = next(self._widths)
        self._counts = np.array(counts, np.int64)

    def _make_room(self, first: int, last: int) -> None:
        """Widen intervals until these time-stamps and all earlier ones fit into the counts."""
        if self._first is not None:
            first, last = min(first, self._first), max(last, self._last)
            if (first, last) == (self._first, self._last):
                return
        before = self._width
        while last // self._width - first // self._width >= _CAPACITY:
            self._width = next(self._widths)
        start = first // self._width
        counts = np.zeros(last // self._width - start + 1, np.int64)
        ratio = self._width // before
        for index, count in enumerate(self._counts.tolist()):
            counts[(self._start + index) // ratio - start] += count
        self._start, self._counts = start, counts
        self._first, self._last = first, last
