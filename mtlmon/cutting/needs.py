"""What of a trace has to be read to know a formula's values in a range of time.

A range [start, stop) of time-stamps asks for the values of the whole formula there. From there down
to the atoms, every operator says where the values of its operands must be known: within the range,
and as far beyond its ends as the operator looks. So each subformula has an interval of time-stamps
where its value must be right; what is read of the trace is the union of them. All events of a
time-stamp are read or none.

- ONCE, SINCE[a,b] ask b time units further back, EVENTUALLY, UNTIL[a,b] further ahead.
- PREVIOUS and NEXT ask for the event next to the interval: with an upper bound that many time
  units further, without one up to the nearest time-stamp there is.
- Without upper bound, `f SINCE[a,*) g` asks for its operands a time units back and no further: its
  *boundary*. All that it has to know of the time-points before is whether `f SINCE[0,*) g` holds at
  the last of them, one Boolean: a witness there is old enough for every time-point of the interval.
  In the same way `f UNTIL[a,*) g` has a boundary a time units ahead (1 if a is 0) and has to know
  whether `f UNTIL[0,*) g` holds at the first time-point from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from mtlmon.cutting.families import AND, ATOM, FALSE, NEXT, PREVIOUS, SINCE, UNTILS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.cutting.families import Families
    from mtlmon.engine.native import Program


class Neighbours(Protocol):
    """Knows the time-stamps of a trace."""

    def before(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each the greatest time-stamp of an event below it; what is not above the first
        time-stamp stays as it is.
        """
        ...

    def after(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each the least time-stamp of an event above it; what is not below the last
        time-stamp stays as it is.
        """
        ...


NO_BOUNDARY = -1
"""Stands for the boundary of a family that asks for its operands up to the end of the trace."""


class Needs(NamedTuple):
    """What ranges need, an array item for each.

    Attributes:
        starts: the first time-stamp of each range itself.
        lasts: the last time-stamp of each range itself.
        first: the time-stamp of the first event to be read for each range.
        last: the time-stamp of the last event to be read, included.
        boundaries: of each family: for SINCE the least time-stamp that operands must be known at,
            for UNTIL the least one that they need not be known at, or NO_BOUNDARY.
    """

    starts: NDArray[np.int64]
    lasts: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    boundaries: list[NDArray[np.int64]]


def find_needs(
    program: Program,
    families: Families,
    starts: NDArray[np.int64],
    trace: tuple[int, int],
    neighbours: Neighbours,
) -> Needs:
    """What each range needs.

    Args:
        starts: where ranges begin, in increasing order, the first at the trace's first time-stamp;
            each ends where the next one begins.
        trace: the first and the last time-stamp of the trace.
        neighbours: asked only for formulas with PREVIOUS or NEXT without upper bound.
    """
    search = _Search(program, families, starts, trace, neighbours)
    for number in range(len(program.rows) - 1, -1, -1):
        search.visit(number)
    return Needs(search.starts, search.lasts, search.first, search.last, search.boundaries())


class _Search:
    """Intervals of rows, from the root down; none leaves the trace."""

    def __init__(
        self,
        program: Program,
        families: Families,
        starts: NDArray[np.int64],
        trace: tuple[int, int],
        neighbours: Neighbours,
    ) -> None:
        self.rows = program.rows
        self.families = families
        self.trace_first, self.trace_last = trace
        self.neighbours = neighbours
        self.starts = starts
        self.lasts = np.append(starts[1:] - 1, np.int64(self.trace_last))
        self.first = starts.copy()
        self.last = self.lasts.copy()
        self.intervals: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        # of each family where its operands must be known
        self.family_intervals = [(starts, self.lasts) for _ in families.families]
        self.ask(program.root, starts, self.lasts)

    def ask(self, operand: int, first: NDArray[np.int64], last: NDArray[np.int64]) -> None:
        """An operand must be known from first to last."""
        number = operand >> 1
        self.intervals[number] = _union(self.intervals.get(number, (first, last)), first, last)

    def visit(self, number: int) -> None:
        """Ask for the operands of a row, after all that ask for the row itself."""
        interval = self.intervals.pop(number, None)
        if interval is None:
            # only the constant has no use
            return
        first, last = interval
        np.minimum(self.first, first, out=self.first)
        np.maximum(self.last, last, out=self.last)
        operation, left, right, lower, upper, _ = self.rows[number]
        place = self.families.of_row.get(number)
        if place is not None:
            family = self.families.families[place]
            if family.is_future:
                last = self.later(last, max(lower - 1, 0))
            else:
                first = self.earlier(first, max(lower - 1, 0))
            # Rows of a family share the interval of the one that needs most.
            first, last = _union(self.family_intervals[place], first, last)
            self.family_intervals[place] = first, last
            if number != family.rows[0]:
                return
        elif operation == PREVIOUS:
            first = self.neighbours.before(first) if upper is None else self.earlier(first, upper)
        elif operation == NEXT:
            last = self.neighbours.after(last) if upper is None else self.later(last, upper)
        elif operation == SINCE and upper is not None:
            first = self.earlier(first, upper)
        elif operation in UNTILS and upper is not None:
            last = self.later(last, upper)
        if operation not in (ATOM, FALSE):
            self.ask(left, first, last)
        if operation in (AND, SINCE, *UNTILS):
            self.ask(right, first, last)

    def earlier(self, time_stamps: NDArray[np.int64], distance: int) -> NDArray[np.int64]:
        # both from 0 to 2^63-1, so that nothing overflows
        found: NDArray[np.int64] = np.maximum(time_stamps - distance, self.trace_first)
        return found

    def later(self, time_stamps: NDArray[np.int64], distance: int) -> NDArray[np.int64]:
        rest = self.trace_last - time_stamps
        found: NDArray[np.int64] = time_stamps + np.minimum(rest, distance)
        return found

    def boundaries(self) -> list[NDArray[np.int64]]:
        found = []
        for family, (first, last) in zip(
            self.families.families, self.family_intervals, strict=True
        ):
            if family.is_future:
                inside = last < self.trace_last
                found.append(np.where(inside, last + inside, NO_BOUNDARY))
            else:
                found.append(np.where(first > self.trace_first, first, NO_BOUNDARY))
        return found


def _union(
    interval: tuple[NDArray[np.int64], NDArray[np.int64]],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.minimum(interval[0], first), np.maximum(interval[1], last)
