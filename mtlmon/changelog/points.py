"""The time-points of a changelog above its final bound, and what was said of them last."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from mtlmon.changelog.lines import Kind, UnfitLineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

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
        is_withdrawn: whether its event is no time-point any more.
        is_written: whether its Boolean verdict was written, for a changelog without equivalences.
        answers: what was said of values at it, in order, and whether it holds; None if nothing was.
    """

    __slots__ = (
        "answers",
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
        self.answers: dict[bytes, bool] | None = None

    @property
    def is_violated(self) -> bool:
        """Whether some values violate its policy."""
        answers = self.answers or {}
        return any(holds and text.startswith(b" false") for text, holds in answers.items())

    def __str__(self) -> str:
        return f"{self.time_stamp}:{self.offset}"


class Points:
    """Takes in the rows of a changelog.

    Args:
        changed: called with each time-point whose Boolean value changes, with the value before.

    Attributes:
        bound: verdicts below this time-stamp are final, and their time-points are forgotten;
            behind some fields, a larger bound may hold.
        count: the number of time-points that are held.
    """

    def __init__(self, changed: Callable[[Point, bool | None], None] | None = None) -> None:
        self.bound = 0
        self.count = 0
        self._changed = changed
        self._at: dict[int, dict[tuple[bytes, int], Point]] = {}
        self._times: list[int] = []
        # once a bound has fields: these bounds, and the names of time-points behind them
        self._bounds: dict[bytes, int] = {}
        self._names: dict[bytes, list[tuple[int, int]]] | None = None

    @property
    def held_bytes(self) -> int:
        """About how many bytes the time-points take."""
        return self.count * _POINT_BYTES + len(self._times) * _TIME_BYTES

    def snapshot(self) -> list[object]:
        """Return the time-points that are held, without answers, as a value for JSON."""
        points = [one for found in self._at.values() for one in found.values()]
        places = {one: place for place, one in enumerate(points)}
        rows = [
            [
                one.prefix.decode("latin-1"),
                one.time_stamp,
                one.offset,
                one.value,
                None if one.reference is None else places[one.reference],
                one.has_line,
                one.is_withdrawn,
            ]
            for one in points
        ]
        bounds = [[prefix.decode("latin-1"), bound] for prefix, bound in self._bounds.items()]
        return [self.bound, bounds, rows]

    def restore(self, snapshot: list[Any]) -> None:
        """Go on from a snapshot; nothing must have been taken in."""
        bound, bounds, rows = snapshot
        points = []
        for prefix, time_stamp, offset, value, _, has_line, is_withdrawn in rows:
            point = self._point(prefix.encode("latin-1"), time_stamp, offset)
            point.value, point.has_line, point.is_withdrawn = value, has_line, is_withdrawn
            points.append(point)
        for point, (*_, reference, _has_line, _is_withdrawn) in zip(points, rows, strict=True):
            if reference is not None:
                self._attach(point, points[reference])
        self.bound = bound
        for prefix, own in bounds:
            for _ in self.drop(own, prefix.encode("latin-1")):
                pass

    def bound_of(self, prefix: bytes) -> int:
        """The time-stamp below which verdicts behind some fields are final."""
        return max(self.bound, self._bounds.get(prefix, 0))

    def take(self, row: Row) -> Point:
        """Take in a row about a time-point; return the time-point.

        Raises:
            UnfitLineError: the row cannot come after those before it.
        """
        kind, prefix, is_change, time_stamp, offset, value, reference = row
        if isinstance(reference, bytes):
            return self._take_answer(row, reference)
        points = self._at.get(time_stamp)
        point = None if points is None else points.get((prefix, offset))
        if point is None:
            point = self._point(prefix, time_stamp, offset)
        if point.is_withdrawn and kind == Kind.WITHDRAWN:
            raise UnfitLineError(f"{point} is no time-point already")
        if not is_change and point.has_line:
            raise UnfitLineError(f"a second verdict of {point}: changes begin with '!'")
        point.has_line = True
        if point.reference is not None:
            self._detach(point)
        if reference is not None:
            root = self._point(prefix, *reference)
            if root.is_withdrawn:
                raise UnfitLineError(f"{root} is no time-point any more")
            self._attach(point, root)
            value = root.value
        point.is_withdrawn = kind == Kind.WITHDRAWN
        if kind == Kind.GONE:
            if point.value is not value:
                raise UnfitLineError(f"{point} is not {'true' if value else 'false'}")
            # what comes next can be said for the first time
            point.has_line = False
            point.value = value = None
        if value is not point.value:
            self._set(point, value)
        return point

    def _take_answer(self, row: Row, text: bytes) -> Point:
        """Take in what is said of values at a time-point."""
        kind, prefix, is_change, time_stamp, offset, *_ = row
        point = self._point(prefix, time_stamp, offset)
        if point.answers is None:
            point.answers = {}
        holds = point.answers.get(text)
        words = f"{point}{text.decode(errors='replace')}"
        if kind == Kind.NO_ANSWER and not holds:
            raise UnfitLineError(f"nothing said that {words}")
        if kind == Kind.ANSWER and holds:
            raise UnfitLineError(f"{words} was said before")
        if kind == Kind.ANSWER and holds is not None and not is_change:
            raise UnfitLineError(f"a second line {words}: changes begin with '!'")
        # behind what is said already
        point.answers.pop(text, None)
        point.answers[text] = kind == Kind.ANSWER
        return point

    def drop(self, bound: int | None, prefix: bytes = b"") -> Iterator[list[Point]]:
        """Forget the time-points below a bound, or all; yield some at a time, in order of time.

        Args:
            bound: the bound; None for all time-points.
            prefix: the fields of those that are meant; without fields, all are.

        Raises:
            UnfitLineError: the bound is less than the last one.
        """
        before = self.bound_of(prefix)
        if bound is not None and bound < before:
            raise UnfitLineError(f"verdicts below {before} are final already")
        if bound is not None and prefix:
            yield from self._drop_of(prefix, bound)
            return
        if bound is not None:
            self.bound = bound
        while self._times and (bound is None or self._times[0] < bound):
            points = self._at.pop(heappop(self._times), None)
            if points is None:
                # all of that time were forgotten before
                continue
            self.count -= len(points)
            ordered = list(points.values())
            if len(ordered) > 1:
                ordered = [points[name] for name in sorted(points)]
            yield ordered
            for point in ordered:
                # Nothing changes it any more. What follows it keeps its value.
                point.followers = point.reference = None

    def _drop_of(self, prefix: bytes, bound: int) -> Iterator[list[Point]]:
        """Forget the time-points below a bound that have these fields; yield one at a time."""
        if self._names is None:
            self._names = {}
            for time_stamp, points in self._at.items():
                for one, offset in points:
                    self._names.setdefault(one, []).append((time_stamp, offset))
            for names in self._names.values():
                heapify(names)
        self._bounds[prefix] = bound
        names = self._names.get(prefix, [])
        while names and names[0][0] < bound:
            time_stamp, offset = heappop(names)
            found = self._at.get(time_stamp, {})
            point = found.pop((prefix, offset), None)
            if point is None:
                continue
            self.count -= 1
            if not found:
                del self._at[time_stamp]
            yield [point]
            point.followers = point.reference = None

    def _point(self, prefix: bytes, time_stamp: int, offset: int) -> Point:
        points = self._at.get(time_stamp)
        if points is not None and (known := points.get((prefix, offset))) is not None:
            return known
        bound = self.bound_of(prefix)
        if time_stamp < bound:
            raise UnfitLineError(f"verdicts below {bound} are final")
        if points is None:
            points = self._at[time_stamp] = {}
            heappush(self._times, time_stamp)
        if self._names is not None:
            heappush(self._names.setdefault(prefix, []), (time_stamp, offset))
        point = points[prefix, offset] = Point(prefix, time_stamp, offset)
        self.count += 1
        return point

    def _attach(self, point: Point, root: Point) -> None:
        """Make a time-point follow another one."""
        point.reference = root
        if root.followers is None:
            root.followers = {}
        root.followers[point] = None

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
