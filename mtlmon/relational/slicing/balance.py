"""Finds out when slices have become uneven, and how rows would be spread more evenly.

What is known of a log when it is sliced may be nothing; then its first rows are looked at. A value
may become frequent later, so the rows of each slice are counted. When the largest slice gets many
more rows than the mean, the next rows are looked at. Statistics of these rows make another plan,
which is taken if it spreads the same rows better.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from mtlmon.relational.cells import to_cell, values_of
from mtlmon.relational.native import PointBlock, Router, SplitBlock, Splitter, Timeline
from mtlmon.relational.slicing.routing import routing_of
from mtlmon.relational.slicing.slicer import plan_slices
from mtlmon.relational.slicing.statistics import RowCounts, Statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.policy import PolicyFile
    from mtlmon.relational.analysis import Analysis
    from mtlmon.relational.cells import Value
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.slicing.slices import Slicing

__all__ = ["Balance"]

WINDOW = 1 << 17
SAMPLE = 1 << 12
UNEVEN = 1.5
BETTER = 0.8


class Balance:
    """Counts the rows of slices, and proposes other slices.

    Args:
        file: the policies.
        analysis: what is known of them.
        counts_triggered: whether left sides are counted.

    Attributes:
        window: after how many rows, in all slices, they are compared; it doubles each time that
            others are looked for, so that this costs little in a long log.
        sample: how many rows are looked at then.
    """

    def __init__(
        self, file: PolicyFile, analysis: Analysis, *, counts_triggered: bool = False
    ) -> None:
        self._counts_triggered = counts_triggered
        self.window = WINDOW
        self.sample = SAMPLE
        self._file = file
        self._analysis = analysis
        self._counts: list[int] = []
        self._rows: list[tuple[int, tuple[Value, ...]]] | None = None

    def begin(self, slicing: Slicing) -> None:
        """Count from the start, as the slices are new ones."""
        self._counts = []
        self._rows = [] if slicing.statistics == Statistics() else None

    def note(self, counts: Sequence[int]) -> None:
        """Count rows that the slices have got."""
        self._counts = [
            one + more for one, more in zip(self._counts or [0] * len(counts), counts, strict=True)
        ]
        total = sum(self._counts)
        if self._rows is not None or total < self.window:
            return
        if max(self._counts) > UNEVEN * total / len(self._counts):
            self._rows = []
            self.window *= 2
        self._counts = []

    def look(self, points: PointBlock, made: Plan) -> bool:
        """Look at rows that have not been split yet, if other slices may be better.

        Args:
            points: the rows.
            made: the plan of a slice.

        Returns:
            Whether enough rows have been seen for a proposal.
        """
        if self._rows is None:
            return False
        # values rather than cells, as the numbers of texts change
        for atom, cells in points.sample(self.sample - len(self._rows)):
            kinds = made.named_atoms[atom].kinds
            self._rows.append((atom, values_of(cells, kinds, made.texts)))
        return len(self._rows) >= self.sample

    def proposal(self, slicing: Slicing, made: Plan) -> Slicing | None:
        """Return slices that spread the rows that were seen better, or None.

        Args:
            slicing: the present slices.
            made: the plan of a slice.
        """
        rows, self._rows = self._rows or [], None
        counts = RowCounts(slicing.slices)
        for number, atom in enumerate(made.named_atoms):
            if own := [values for one, values in rows if one == number]:
                counts.add(atom.name, own)
        found = plan_slices(
            self._file,
            self._analysis,
            slicing.slices,
            statistics=counts.statistics,
            seed=slicing.seed,
            exposed=slicing.exposed,
            counts_triggered=self._counts_triggered,
        )
        if found.digest() == slicing.digest():
            return None
        wanted = BETTER * _largest(slicing, made, rows)
        return found if _largest(found, made, rows) < wanted else None


def _largest(slicing: Slicing, made: Plan, rows: Sequence[tuple[int, tuple[Value, ...]]]) -> int:
    """How many of the rows the slice gets that gets most."""
    points = PointBlock(array("I", made.atoms))
    cells = []
    for atom, values in rows:
        kinds = made.named_atoms[atom].kinds
        own = [to_cell(value, kind, made.texts) for value, kind in zip(values, kinds, strict=True)]
        cells.append((atom, [one for one in own if one is not None]))
    points.add(0, cells)
    router = Router(routing_of(slicing, made), made.texts)
    splitter = Splitter(router, Timeline(made), [False] * slicing.slices)
    split = SplitBlock(splitter, array("I", made.atoms))
    splitter.split(points, split)
    return max(split.row_counts)
