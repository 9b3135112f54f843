"""What is known of the far side of boundaries.

What a stretch of time-points does to the value of `f SINCE[0,*) g` is told by the last of its
time-points with `g OR NOT f`: after it the value is that of g there, whatever it was before; if
there is none the value stays as it was. What it does to the value of `f UNTIL[0,*) g` is told by
the first such time-point, for the time-points before it. So stretches compose, and the one
*decisive* time-point of a stretch that several ranges have parts of is the latest, or the earliest,
of theirs.
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
"""Values of a family at the far side of a boundary; OPEN: undecided when the trace ends."""

AT_END = -1
"""The stretch of findings that are values at the last boundary of a family."""

Carries = dict[int, "NDArray[np.int8]"]
"""For each family its value at the boundary of each range; of no meaning where there is none."""


class Finding(NamedTuple):
    """What a range has found out.

    Attributes:
        family: its number.
        stretch: the number of the stretch between two boundaries, or AT_END.
        time_stamp: that of the time-point.
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

    Of SINCE, stretch k is what lies between boundary k and the one before it, or the beginning of
    the trace; of UNTIL, what lies between boundary k and the next, or the end.

    Args:
        boundaries: in increasing order.
    """

    def __init__(self, family: int, is_future: bool, boundaries: NDArray[np.int64]) -> None:
        self.family = family
        self.is_future = is_future
        self.boundaries = boundaries
        self._found: dict[int, Finding] = {}

    def bounds(self, first: int, last: int) -> tuple[int, int]:
        """The part of an interval of time-stamps, ends included, that is in stretches."""
        if self.is_future:
            return max(first, int(self.boundaries[0])), last
        return first, min(last, int(self.boundaries[-1]) - 1)

    def add(self, time_stamps: NDArray[np.int64], offsets: NDArray[np.uint64], value: int) -> None:
        """Decisive time-points, in any order, all in stretches."""
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
        """One decisive time-point."""
        best = self._found.get(finding.stretch)
        if best is None or (finding[2:4] < best[2:4]) is self.is_future:
            self._found[finding.stretch] = finding

    @property
    def findings(self) -> list[Finding]:
        """The decisive time-point of each stretch that has one."""
        return list(self._found.values())

    def values(self) -> NDArray[np.int8]:
        """The value at the far side of each boundary."""
        values = np.zeros(len(self.boundaries), np.int8)
        value = FALSE
        order = range(len(values))
        if self.is_future:
            order = order[::-1]
            if AT_END in self._found:
                # at the last boundary, whatever comes after it
                value = values[-1] = self._found[AT_END].value
                order = order[1:]
        for stretch in order:
            finding = self._found.get(stretch)
            value = value if finding is None else finding.value
            values[stretch] = value
        return values


def compose(plan: Plan, findings: Iterable[Finding]) -> Carries:
    """The values of families, those that there are findings of or that nothing decides."""
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
