"""Sets of numbers without a number in common, which can be united: union-find."""

from __future__ import annotations

__all__ = ["DisjointSets"]


class DisjointSets:
    """Sets of the numbers 0, 1, ..., each known by one of its numbers, its root."""

    def __init__(self) -> None:
        self._parents: list[int] = []

    def add_set(self) -> int:
        """Add a set of one new number, and return that."""
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def root(self, number: int) -> int:
        """Return the root of the set that a number is in."""
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def unite(self, root: int, other: int) -> None:
        """Unite two sets, given by their roots, of which the first stays the root."""
        self._parents[other] = root
