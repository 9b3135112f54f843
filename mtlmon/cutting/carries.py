"""Computes the values of families at the far side of boundaries.

The effect of a stretch of time-points on the value of `f SINCE[0,*) g` depends only on the last of
its time-points where `g OR NOT f` holds: after it, the value is that of g there, whatever it was
before. If there is no such time-point, the value does not change. The effect on the value of
`f UNTIL[0,*) g` at the time-points before a stretch likewise depends only on the first such
time-point. We call this time-point *decisive*. So stretches compose: if several ranges have parts
of a stretch, its decisive time-point is the latest, or the earliest, of theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.cutting.needs import NO_BOUNDARY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from mtlmon.cutting.plan import Plan

FALSE, TRUE, OPEN = range(3)
"""Values of a family at the far side of a boundary; OPEN is undecided when the trace ends."""

AT_END = -1
"""Used as the stretch of a finding that is the value at the last boundary of a family."""

Carries = dict[int, "NDArray[np.int8]"]
"""For each family, its value at the boundary of each range; meaningless where there is none."""


class Finding(NamedTuple):
    """A decisive time-point, or a value at the end of the trace.

    Attributes:
        family: the number of the family.
        stretch: the number of the stretch between two boundaries, or AT_END.
        time_stamp: the time-stamp of the time-point.
        offset: the number of the time-point within its time-stamp.
        value: FALSE, TRUE or OPEN.
    """

    family: int
    stretch: int
    time_stamp: int
    offset: int
    value: int


class Stretches:
    """The time between the boundaries of a family.

    For SINCE, stretch k lies between the previous boundary, or the beginning of the trace, and
    boundary k. For UNTIL, it lies between boundary k and the next one, or the end of the trace.

    Args:
        family: the number of the family.
        is_future: whether its rows are UNTILs.
        boundaries: its boundaries, in increasing order.
    """

    def __init__(self, family: int, is_future: bool, boundaries: NDArray[np.int64]) -> None:
        self.family = family
        self.is_future = is_future
        self.boundaries = boundaries
        self._found: dict[int, Finding] = {}

    def bounds(self, first: int, last: int) -> tuple[int, int]:
        """Clip an interval of time-stamps, with both ends included, to the stretches."""
        if self.is_future:
            return max(first, int(self.boundaries[0])), last
        return first, min(last, int(self.boundaries[-1]) - 1)

    def add(self, time_stamps: NDArray[np.int64], offsets: NDArray[np.uint64], value: int) -> None:
        """Take candidates for decisive time-points, in any order, all within stretches."""
        stretches = np.searchsorted(self.boundaries, time_stamps, side="right")
        if self.is_future:
            stretches -= 1
        while len(stretches):
            stretch = int(stretches[0])
            is_here = stretches == stretch
            here = time_stamps[is_here]
            time_stamp = here.min() if self.is_future else here.max()
            there = offsets[is_here][here == time_stamp]
            offset = there.min() if self.is_future else there.max()
            self.take(Finding(self.family, stretch, int(time_stamp), int(offset), value))
            rest = ~is_here
            stretches, time_stamps, offsets = stretches[rest], time_stamps[rest], offsets[rest]

    def take(self, finding: Finding) -> None:
        """Take one candidate for a decisive time-point."""
        best = self._found.get(finding.stretch)
        if best is None or (finding[2:4] < best[2:4]) is self.is_future:
            self._found[finding.stretch] = finding

    @property
    def findings(self) -> list[Finding]:
        """The decisive time-point of each stretch that has one."""
        return list(self._found.values())

    def values(self) -> NDArray[np.int8]:
        """Return the value at the far side of each boundary."""
        values = np.zeros(len(self.boundaries), np.int8)
        value = FALSE
        order = range(len(values))
        if self.is_future:
            order = order[::-1]
            if AT_END in self._found:
                # the value at the last boundary, whatever comes after it
                value = values[-1] = self._found[AT_END].value
                order = order[1:]
        for stretch in order:
            finding = self._found.get(stretch)
            value = value if finding is None else finding.value
            values[stretch] = value
        return values


def compose(plan: Plan, findings: Iterable[Finding]) -> Carries:
    """Combine findings into the values of families at boundaries.

    Families without any finding have the value FALSE.
    """
    stretches = {
        number: Stretches(number, plan.families.families[number].is_future, plan.boundaries(number))
        for number in plan.cut()
    }
    for finding in findings:
        stretches[finding.family].take(finding)
    carries = {}
    for number, one in stretches.items():
        places = np.searchsorted(one.boundaries, plan.needs.boundaries[number])
        has_none = plan.needs.boundaries[number] == NO_BOUNDARY
        carries[number] = np.where(has_none, FALSE, one.values()[places])
    return carries
