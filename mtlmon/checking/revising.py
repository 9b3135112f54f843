"""Keeps the relations of a log's rows up to date for all partitions that look values up there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtlmon.checking.late_partitions import LatePartition
    from mtlmon.relations.revised import Changed, RevisedRelations

__all__ = ["Revising"]


class Revising:
    """Lets relations know of the rows of a log, once for all partitions.

    All partitions take in the same rows, and the one that asks first says which.

    Args:
        relations: the relations.

    Attributes:
        relations: as given.
    """

    def __init__(self, relations: RevisedRelations) -> None:
        self.relations = relations
        self._looking: list[LatePartition] = []
        self._changed: Sequence[Changed] = ()

    def add(self, partitions: Iterable[LatePartition], *, ask_first: bool) -> None:
        """Get to know partitions, and whether they ask before others or behind them."""
        found = [late for late in partitions if late.relations]
        self._looking = [*found, *self._looking] if ask_first else [*self._looking, *found]

    def changed(self, late: LatePartition, *, is_end: bool = False) -> Sequence[Changed]:
        """Return what changes in relations with the rows that a partition can judge now.

        Args:
            late: the partition.
            is_end: whether no more rows come.
        """
        if not late.relations:
            return ()
        if late is self._looking[0]:
            # all have computed the last rows; whether a relation changes at a time depends on what
            # is valid just before
            self.relations.forget(min(one.computed_from for one in self._looking) - 1)
            self._changed = late.revise(self.relations, is_end=is_end)
        return self._changed
