"""Statistics of a log for slicing: how many rows atoms have, and which values are frequent.

Statistics are collected part by part and merged; each needs a bounded amount of memory, whatever
the number of different values is.

In a file, an object of JSON says for each atom how many rows it has, and for its arguments, what
share of the rows have each of the frequent values. So whoever slices can tell which values are
frequent for any number of slices, and people can write such a file:

    {"atoms": {"publish": {"rows": 900, "frequent": [[["ann", 0.3]], []]}, "approve": {"rows": 10}}}
"""

from __future__ import annotations

import json
from collections import Counter
from heapq import nlargest
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import MtlmonError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mtlmon.relational.cells import Value
    from mtlmon.relational.native import PointBlock
    from mtlmon.relational.plan import Plan

__all__ = ["Frequent", "RowCounts", "RowSample", "Statistics", "read_statistics"]

# Values that fewer rows have are frequent for no number of slices that is of use.
_LEAST_SHARE = 1 / 256
# How many rows of a block are looked at, and of how many blocks they are counted at once.
_SAMPLE = 512
_SAMPLES = 32


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

    def shares(self, least: float) -> list[tuple[Value, float]]:
        """The values that at least such a share of all have, the most frequent first."""
        found = [(value, count / self.total) for value, count in self._counts.items()]
        return sorted(
            (one for one in found if one[1] >= least), key=lambda one: (-one[1], str(one))
        )

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

    def record(self) -> Iterator[tuple[str, object]]:
        """Yield for each atom what `read_statistics` reads."""
        for atom, rows in sorted(self._rows.items()):
            columns = sorted(place for name, place in self._columns if name == atom)
            frequent = [
                [
                    [value, float(f"{share:.4g}")]
                    for value, share in self._columns[atom, place].shares(_LEAST_SHARE)
                    if not isinstance(value, float) or isfinite(value)
                ]
                for place in columns
            ]
            yield atom, {"rows": rows, **({"frequent": frequent} if any(frequent) else {})}

    def _merge(self, key: tuple[str, int], column: Frequent) -> None:
        self._columns.setdefault(key, Frequent(self._room)).merge(column)


class RowSample:
    """Looks at some rows of the blocks of a log, and writes statistics of them.

    Attributes:
        counts: the rows that have been counted.
    """

    def __init__(self) -> None:
        self.counts = RowCounts(round(1 / _LEAST_SHARE))
        self._rows: dict[int, list[tuple[Value, ...]]] = {}
        self._blocks = 0
        self._plan: Plan | None = None

    def look(self, points: PointBlock, made: Plan) -> None:
        """Look at a block of rows that have not been read."""
        from mtlmon.relational.cells import values_of

        self._plan = made
        # other distances between the rows each time, as rows may come in a fixed order
        for atom, cells in points.sample(_SAMPLE + self._blocks % _SAMPLES):
            kinds = made.named_atoms[atom].kinds
            self._rows.setdefault(atom, []).append(values_of(cells, kinds, made.texts))
        self._blocks += 1
        if self._blocks % _SAMPLES == 0:
            self._count()

    def _count(self) -> None:
        for atom, rows in self._rows.items():
            assert self._plan is not None
            self.counts.add(self._plan.named_atoms[atom].name, rows)
        self._rows = {}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics of all blocks.

        Raises:
            OSError: the file cannot be written.
        """
        self._count()
        atoms = [f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in self.counts.record()]
        written = ",\n".join(atoms)
        Path(path).write_text(f'{{"atoms": {{\n{written}\n}}}}\n', encoding="utf-8")


def read_statistics(path: str | os.PathLike[str], slices: int) -> Statistics:
    """Read statistics of a log.

    Args:
        path: a file that `RowSample` has written, or a person.
        slices: the number of slices: a value is frequent if more than this part of the rows of an
            atom have it.

    Raises:
        OSError: the file cannot be read.
        MtlmonError: it has no statistics.
    """
    try:
        read = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise MtlmonError(f"{path}: these are no statistics: {error}") from None
    rates: dict[str, float] = {}
    heavy: dict[tuple[str, int], frozenset[Value]] = {}
    atoms = read.get("atoms") if isinstance(read, dict) else None
    if not isinstance(atoms, dict):
        raise _not_statistics(path, "an object with atoms is expected")
    for atom, one in atoms.items():
        rows = one.get("rows", -1) if isinstance(one, dict) else -1
        if not _is_number(rows) or rows < 0:
            raise _not_statistics(path, f"atom {atom}: a number of rows is expected")
        rates[atom] = float(rows)
        columns = one.get("frequent", [])
        if not isinstance(columns, list):
            raise _not_statistics(path, f"atom {atom}: a list for each argument is expected")
        for place, column in enumerate(columns):
            where = f"atom {atom}, argument {place + 1}"
            if not isinstance(column, list) or not all(map(_is_share, column)):
                raise _not_statistics(path, f"{where}: a list of [value, share] is expected")
            if found := frozenset(value for value, share in column if share > 1 / slices):
                heavy[atom, place] = found
    return Statistics(rates, heavy)


def _not_statistics(path: object, why: str) -> MtlmonError:
    return MtlmonError(f"{path}: these are no statistics, as --write-statistics writes: {why}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_share(pair: object) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    value, share = pair
    return isinstance(value, bool | int | float | str) and _is_number(share)
