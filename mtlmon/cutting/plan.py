"""Decides where to cut a trace, and describes the ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from mtlmon.cutting.families import Families, find_families
from mtlmon.cutting.needs import NO_BOUNDARY, Needs, find_needs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from mtlmon.cutting.needs import Neighbours
    from mtlmon.engine.native import Program

EndTime = int | Literal["last", "inf"] | None
Mode = Literal["local", "global", "naive"]


class Plan(NamedTuple):
    """A trace cut into ranges of time; picklable.

    Attributes:
        program: the compiled formula.
        families: the operators of the program that have no upper bound.
        atoms: the names of the bits of letters; these include the atoms of the program.
        mode: the mode of the monitors.
        end_time: what is known about the time after the trace: nothing, a time-stamp up to which
            it is complete, or that no event follows.
        trace: the first and the last time-stamp of the trace.
        needs: what each range has to read.
    """

    program: Program
    families: Families
    atoms: tuple[str, ...]
    mode: Mode
    end_time: int | Literal["inf"] | None
    trace: tuple[int, int]
    needs: Needs

    @property
    def range_count(self) -> int:
        """How many ranges there are."""
        return len(self.needs.starts)

    @property
    def is_closed(self) -> bool:
        """Whether every time-point has a Boolean value when the trace ends."""
        return self.end_time == "inf"

    @property
    def levels(self) -> int:
        """How many passes over boundaries are needed before the pass that gives verdicts."""
        return 1 + max((self.families.families[number].level for number in self.cut()), default=-1)

    def cut(self) -> list[int]:
        """Return the numbers of the families that have a boundary inside the trace."""
        return [
            number
            for number, boundaries in enumerate(self.needs.boundaries)
            if (boundaries != NO_BOUNDARY).any()
        ]

    def boundaries(self, family: int) -> NDArray[np.int64]:
        """Return the distinct boundaries of a family inside the trace, in increasing order."""
        all_boundaries = self.needs.boundaries[family]
        found: NDArray[np.int64] = np.unique(all_boundaries[all_boundaries != NO_BOUNDARY])
        return found

    def masked(self, place: int) -> list[int]:
        """Return the numbers of the families that have a boundary for the range `place`."""
        return [
            number
            for number, boundaries in enumerate(self.needs.boundaries)
            if boundaries[place] != NO_BOUNDARY
        ]

    def whole(self) -> Plan:
        """Return a plan for the same trace in one piece."""
        program, mode, end_time, trace = self.program, self.mode, self.end_time, self.trace
        return make_plan(program, mode, end_time, trace, (), _NoNeighbours(), self.atoms)


def make_plan(
    program: Program,
    mode: Mode,
    end_time: EndTime,
    trace: tuple[int, int],
    cuts: Iterable[int],
    neighbours: Neighbours,
    atoms: tuple[str, ...] | None = None,
) -> Plan:
    """Plan how to cut a trace.

    Time-points that a monitor leaves undecided at the end of a trace must stay undecided in ranges
    too. So unless no event ever follows, all ranges that depend on the end of the trace are joined
    into one, the last. If an UNTIL without upper bound is inside another family, the operands of
    that family would be undecided arbitrarily far from the end, and the trace is not cut.

    Args:
        program: the compiled formula.
        mode: the mode of the monitors.
        end_time: what is known about the time after the trace.
        trace: the first and the last time-stamp.
        cuts: the time-stamps where ranges begin; those outside the trace, and its first time-stamp,
            are ignored.
        neighbours: used only for formulas with PREVIOUS or NEXT without upper bound.
        atoms: the names of the bits of letters; by default the atoms of the program.
    """
    families = find_families(program)
    first, last = trace
    if end_time == "last":
        end_time = last
    inside = {cut for cut in cuts if first < cut <= last}
    if end_time != "inf" and families.is_stacked:
        inside = set()
    starts = np.array([first, *sorted(inside)], np.int64)
    needs = find_needs(program, families, starts, trace, neighbours)
    if end_time != "inf":
        settled = int(np.searchsorted(needs.last, last))
        if settled + 1 < len(starts):
            needs = find_needs(program, families, starts[: settled + 1], trace, neighbours)
    return Plan(program, families, atoms or program.atoms, mode, end_time, trace, needs)


class _NoNeighbours:
    """The neighbours for a trace in one piece, where no range ends inside the trace."""

    def before(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        return time_stamps

    def after(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        return time_stamps
