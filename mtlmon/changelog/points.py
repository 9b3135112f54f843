"""The time-points of a changelog above its final bound, and what was said of them last."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from mtlmon.changelog.lines import Kind, UnfitLineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtlmon.changelog.lines import Row

__all__ = ["Point", "Points"]

# What a time-point takes with its place in a dictionary, and that dictionary, for each time-stamp:
# measured with tracemalloc.
_POINT_BYTES = 240
_TIME_BYTES = 240


class Point:
    """A time-point.

    Attributes:
        prefix: the fields before its name, each with the tab behind it.
        time_stamp: its time-stamp.
        offset: its place among the time-points of that time-stamp.
        value: its Boolean verdict, also by an equivalence; None while it is open.
        reference: the time-point that it is equivalent to, or None.
        followers: those that are equivalent to it; None if none ever was.
        has_line: whether there was a line about it.
        is_withdrawn: whether its event was retracted.
        is_written: whether its Boolean verdict was written, for a changelog without equivalences.
    """

    __slots__ = (
        "followers",
        "has_line",
        "is_withdrawn",
        "is_written",
        "offset",
        "prefix",
        "reference",
        "time_stamp",
        "value",
    )

    def __init__(self, prefix: bytes, time_stamp: int, offset: int) -> None:
        self.prefix = prefix
        self.time_stamp = time_stamp
        self.offset = offset
        self.value: bool | None = None
        self.reference: Point | None = None
        self.followers: dict[Point, None] | None = None
        self.has_line = False
        self.is_withdrawn = False
        self.is_written = False

    def __str__(self) -> str:
        return f"{self.time_stamp}:{self.offset}"


class Points:
    """Takes in the rows of a changelog.

    Args:
        changed: called with each time-point whose Boolean value changes, with the value before.

    Attributes:
        bound: verdicts below this time-stamp are final, and their time-points are forgotten.
        count: the number of time-points that are held.
    """

    def __init__(self, changed: Callable[[Point, bool | None], None] | None = None) -> None:
        self.bound = 0
        self.count = 0
        self._changed = changed
        self._at: dict[int, dict[tuple[bytes, int], Point]] = {}
        self._times: list[int] = []

    @property
    def held_bytes(self) -> int:
        """About how many bytes the time-points take."""
        return self.count * _POINT_BYTES + len(self._times) * _TIME_BYTES

    def take(self, row: Row) -> Point:
        """Take in a row about a time-point; return the time-point.

        Raises:
            UnfitLineError: the row cannot come after those before it.
        """
        kind, prefix, is_change, time_stamp, offset, value, reference = row
        points = self._at.get(time_stamp)
        point = None if points is None else points.get((prefix, offset))
        if point is None:
            point = self._point(prefix, time_stamp, offset)
        if point.is_withdrawn:
            raise UnfitLineError(f"the event of {point} was retracted: no line about it can follow")
        if not is_change and point.has_line:
            raise UnfitLineError(f"a second verdict of {point}: changes begin with '!'")
        point.has_line = True
        if point.reference is not None:
            self._detach(point)
        if reference is not None:
            root = self._point(prefix, *reference)
            if root.is_withdrawn:
                raise UnfitLineError(f"the event of {root} was retracted")
            point.reference = root
            if root.followers is None:
                root.followers = {}
            root.followers[point] = None
            value = root.value
        point.is_withdrawn = kind == Kind.WITHDRAWN
        if value is not point.value:
            self._set(point, value)
        return point

    def drop(self, bound: int | None) -> Iterator[list[Point]]:
        """Forget the time-points below a bound, or all; yield those of each time in order.

        Raises:
            UnfitLineError: the bound is less than the last one.
        """
        if bound is not None and bound < self.bound:
            raise UnfitLineError(f"verdicts below {self.bound} are final already")
        if bound is not None:
            self.bound = bound
        while self._times and (bound is None or self._times[0] < bound):
            points = self._at.pop(heappop(self._times))
            self.count -= len(points)
            ordered = list(points.values())
            if len(ordered) > 1:
                ordered = [points[name] for name in sorted(points)]
            yield ordered
            for point in ordered:
                # Nothing changes it any more. What follows it keeps its value.
                point.followers = point.reference = None

    def _point(self, prefix: bytes, time_stamp: int, offset: int) -> Point:
        points = self._at.get(time_stamp)
        if points is None:
            if time_stamp < self.bound:
                raise UnfitLineError(f"verdicts below {self.bound} are final")
            points = self._at[time_stamp] = {}
            heappush(self._times, time_stamp)
        name = (prefix, offset)
        point = points.get(name)
        if point is None:
            point = points[name] = Point(prefix, time_stamp, offset)
            self.count += 1
        return point

    def _detach(self, point: Point) -> None:
        """Make a time-point follow no other."""
        if point.reference is not None and point.reference.followers is not None:
            del point.reference.followers[point]
        point.reference = None

    def _set(self, point: Point, value: bool | None) -> None:
        """Give a time-point a value, and those that follow it."""
        waiting = [point]
        for one in waiting:
            if one.value is not value:
                before, one.value = one.value, value
                if self._changed is not None:
                    self._changed(one, before)
                waiting += one.followers or ()
