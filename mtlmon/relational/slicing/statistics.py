"""Statistics of a log for slicing: how many rows atoms have, and which values are frequent.

Statistics are collected part by part and merged; each needs a bounded amount of memory, whatever
the number of different values is.
"""

from __future__ import annotations

from collections import Counter
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.relational.cells import Value

__all__ = ["Frequent", "RowCounts", "Statistics"]


class Statistics(NamedTuple):
    """What is known about a log when it is sliced. By default, all atoms are equally frequent.

    Attributes:
        rates: the number of rows of each atom, by name, in any unit.
        heavy: the frequent values of arguments, by the atom's name and the argument's number, from
            0 on.
    """

    rates: Mapping[str, float] = {}
    heavy: Mapping[tuple[str, int], frozenset[Value]] = {}

    def rate(self, atom: str) -> float:
        """The rate of an atom; that of an atom that is not mentioned is the mean of the others."""
        if atom in self.rates:
            return self.rates[atom]
        return sum(self.rates.values()) / len(self.rates) if self.rates else 1.0


class Frequent:
    """The most frequent values of a column: a summary of the kind that SpaceSaving makes.

    No count is too low, and none is too high by more than `total / room`. So a value that occurs
    more often than that is always among those that are kept.

    Args:
        room: how many values are kept.
        counts: how often each value occurs.

    Attributes:
        total: how many values there were.
    """

    def __init__(self, room: int, counts: Mapping[Value, int] | None = None) -> None:
        if room < 1:
            raise ValueError("room is at least 1")
        counts = {} if counts is None else counts
        self.room = room
        self.total = sum(counts.values())
        self._counts = self._kept(counts)

    def merge(self, other: Frequent) -> None:
        """Add the values of another part of the column.

        Raises:
            ValueError: the other one keeps another number of values.
        """
        if other.room != self.room:
            raise ValueError(f"{other.room} values are kept, not {self.room}")
        own, others = self._least, other._least
        self._counts = self._kept(
            {
                value: self._counts.get(value, own) + other._counts.get(value, others)
                for value in {**self._counts, **other._counts}
            }
        )
        self.total += other.total

    def above(self, threshold: float) -> frozenset[Value]:
        """The values that may occur more often than a threshold of at least `total / room`."""
        return frozenset(value for value, count in self._counts.items() if count > threshold)

    @property
    def _least(self) -> int:
        """How often a value that is not kept can have occurred at most."""
        return 0 if len(self._counts) < self.room else min(self._counts.values())

    def _kept(self, counts: Mapping[Value, int]) -> dict[Value, int]:
        return {
            value: counts[value]
            for value in nlargest(self.room, counts, key=lambda one: counts[one])
        }


class RowCounts:
    """Collects statistics of rows.

    Args:
        slices: the number of slices: a value is frequent if more than this part of the rows of an
            atom have it.
        precision: how many values are kept for each frequent one that there can be.
    """

    def __init__(self, slices: int, precision: int = 8) -> None:
        self.slices = slices
        self._room = max(1, slices * precision)
        self._rows: dict[str, int] = {}
        self._columns: dict[tuple[str, int], Frequent] = {}

    def add(self, atom: str, rows: Iterable[Sequence[Value]]) -> None:
        """Add rows of an atom; many at once take less time than one by one."""
        rows = list(rows)
        self.add_counted(atom, len(rows), [Counter(column) for column in zip(*rows, strict=True)])

    def add_counted(self, atom: str, rows: int, columns: Sequence[Mapping[Value, int]]) -> None:
        """Add rows of an atom, of which only the counts of the values in each column are known."""
        self._rows[atom] = self._rows.get(atom, 0) + rows
        for place, counts in enumerate(columns):
            self._merge((atom, place), Frequent(self._room, counts))

    def merge(self, other: RowCounts) -> None:
        """Add the rows of another part of the log."""
        for atom, count in other._rows.items():
            self._rows[atom] = self._rows.get(atom, 0) + count
        for key, column in other._columns.items():
            self._merge(key, column)

    @property
    def statistics(self) -> Statistics:
        """The statistics of the rows so far."""
        heavy = {}
        for (atom, place), column in self._columns.items():
            if found := column.above(self._rows[atom] / self.slices):
                heavy[atom, place] = found
        return Statistics({atom: float(count) for atom, count in self._rows.items()}, heavy)

    def _merge(self, key: tuple[str, int], column: Frequent) -> None:
        self._columns.setdefault(key, Frequent(self._room)).merge(column)
