"""Computes which part of a trace is needed to know a formula's values in a range of time.

A range [start, stop) of time-stamps needs the values of the whole formula there. From the formula
down to the atoms, every operator determines where the values of its operands must be known: in its
own interval, and as far beyond its ends as the operator looks. So each subformula has an interval
of time-stamps where its value must be right, and the union of these intervals is read. Either all
events of a time-stamp are read or none.

- ONCE and SINCE[a,b] need b time units more in the past; EVENTUALLY and UNTIL[a,b] need b time
  units more in the future.
- PREVIOUS and NEXT need the event next to the interval. With an upper bound b they need b time
  units more; without one, they need everything up to the nearest time-stamp.
- Without upper bound, `f SINCE[a,*) g` needs its operands a time units back and no further. This is
  its *boundary*. About the time-points before it, a single Boolean is enough: whether
  `f SINCE[0,*) g` holds at the last of them, because a witness there is old enough for every
  time-point of the interval. Likewise, `f UNTIL[a,*) g` has a boundary a time units ahead (1 if a
  is 0), and needs to know whether `f UNTIL[0,*) g` holds at the first time-point from there on.
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
    """Finds the events of a trace that come before and after given time-stamps."""

    def before(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Replace each time-stamp by the greatest one of an event below it.

        Time-stamps that are not above the first of the trace are unchanged.
        """
        ...

    def after(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Replace each time-stamp by the least one of an event above it.

        Time-stamps that are not below the last of the trace are unchanged.
        """
        ...


NO_BOUNDARY = -1
"""Means that a family has no boundary: it needs its operands up to the end of the trace."""


class Needs(NamedTuple):
    """What the ranges need; each array has an item for each range.

    Attributes:
        starts: the first time-stamp of the range itself.
        lasts: the last time-stamp of the range itself.
        first: the time-stamp of the first event to read.
        last: the time-stamp of the last event to read, included.
        boundaries: an array for each family. For SINCE, the least time-stamp where the operands
            must be known; for UNTIL, the least one from which they need not be known; or
            NO_BOUNDARY.
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
    """Compute what each range needs.

    Args:
        program: the compiled formula.
        families: the families of the program.
        starts: where ranges begin, in increasing order. The first is the first time-stamp of the
            trace; each range ends where the next one begins.
        trace: the first and the last time-stamp of the trace.
        neighbours: used only for formulas with PREVIOUS or NEXT without upper bound.
    """
    search = _Search(program, families, starts, trace, neighbours)
    for number in range(len(program.rows) - 1, -1, -1):
        search.visit(number)
    return Needs(search.starts, search.lasts, search.first, search.last, search.boundaries())


class _Search:
    """Computes the interval of each row, from the root down; all are clipped to the trace."""

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
        # where the operands of each family must be known
        self.family_intervals = [(starts, self.lasts) for _ in families.families]
        self.ask(program.root, starts, self.lasts)

    def ask(self, operand: int, first: NDArray[np.int64], last: NDArray[np.int64]) -> None:
        """Note that an operand must be known from first to last."""
        number = operand >> 1
        self.intervals[number] = _union(self.intervals.get(number, (first, last)), first, last)

    def visit(self, number: int) -> None:
        """Ask for the operands of a row; all rows that use it must have been visited."""
        interval = self.intervals.pop(number, None)
        if interval is None:
            # no row uses this one; only the constant can be unused
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
            # Rows of a family share an interval that is enough for all of them.
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
        # both are from 0 to 2^63-1, so nothing can overflow
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
