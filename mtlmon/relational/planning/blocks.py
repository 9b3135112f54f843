"""Blocks while they are written, and what a part of a query looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.relational.plan import StepPlan

Names = frozenset[str]


class Scope:
    """The part of a query that is planned: which states and atoms it looks at.

    Attributes:
        owner: tells the states of one late block from those of others; None for early blocks.
        states: the states that are looked at, each behind those it needs.
        atoms: the atoms that are looked at.
    """

    def __init__(self, owner: object | None) -> None:
        self.owner = owner
        self.states: dict[int, None] = {}
        self.atoms: dict[int, None] = {}


class Block:
    """A block while it is written.

    Attributes:
        columns: the column of each variable.
        width: the number of columns.
        steps: the steps so far.
    """

    def __init__(self, columns: Mapping[str, int], width: int) -> None:
        self.columns = dict(columns)
        self.width = width
        self.given = width
        self.steps: list[StepPlan] = []

    @property
    def bound(self) -> Names:
        return frozenset(self.columns)

    def match(self, names: Sequence[str]) -> tuple[list[tuple[int, int]], dict[str, int]]:
        """Compare the columns of a source, which are variables, with those of the block.

        Args:
            names: the variables of the source's columns.

        Returns:
            The columns of the block and of the source that must be equal, and the new variables,
            with their columns of the source.
        """
        keys: list[tuple[int, int]] = []
        taken: dict[str, int] = {}
        for place, name in enumerate(names):
            if name in self.columns:
                keys.append((self.columns[name], place))
            else:
                taken[name] = place
        return keys, taken

    def add(self, step: StepPlan, *new: str) -> None:
        """Add a step, which adds columns for new variables."""
        for name in new:
            self.columns[name] = self.width
            self.width += 1
        assert step.width == self.width, step
        self.steps.append(step)
