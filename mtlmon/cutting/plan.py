"""Where a trace is cut, and what is known about each range."""

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
        program: the formula.
        families: its operators that look as far as the stream goes.
        atoms: the names of the bits of letters, at least those of the program.
        mode: of monitors.
        end_time: what is known about the time after the trace: nothing, a time-stamp up to which
            it is complete, or that no event follows.
        trace: its first and last time-stamp.
        needs: of the ranges.
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
        """How many passes have to find out about boundaries before verdicts can be given."""
        return 1 + max((self.families.families[number].level for number in self.cut()), default=-1)

    def cut(self) -> list[int]:
        """The families with a boundary inside the trace, by number."""
        return [
            number
            for number, boundaries in enumerate(self.needs.boundaries)
            if (boundaries != NO_BOUNDARY).any()
        ]

    def boundaries(self, family: int) -> NDArray[np.int64]:
        """The boundaries of a family inside the trace, each once, in increasing order."""
        all_boundaries = self.needs.boundaries[family]
        found: NDArray[np.int64] = np.unique(all_boundaries[all_boundaries != NO_BOUNDARY])
        return found

    def masked(self, place: int) -> list[int]:
        """The families that have a boundary in a range."""
        return [
            number
            for number, boundaries in enumerate(self.needs.boundaries)
            if boundaries[place] != NO_BOUNDARY
        ]

    def whole(self) -> Plan:
        """The same trace in one piece."""
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
    """Cut a trace.

    What a monitor leaves undecided at the end of a trace must be left undecided in ranges as well.
    So unless no event ever follows, all ranges that depend on the end of the trace are one, the
    last; and where an UNTIL without upper bound stands inside another family, whose operands would
    be undecided arbitrarily far from the end, there is no cut.

    Args:
        trace: the first and the last time-stamp.
        cuts: the time-stamps at which ranges shall begin; those that are not above the first
            time-stamp or above the last are ignored.
        neighbours: asked only for formulas with PREVIOUS or NEXT without upper bound.
        atoms: the names of the bits of letters; those of the program if not given.
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
    """For a trace in one piece, where nothing is beyond what is asked."""

    def before(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        return time_stamps

    def after(self, time_stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        return time_stamps
