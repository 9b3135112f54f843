"""The times at which a relation changes, as a whole or for each value of some columns.

They are the ticks of `on changes of R`. The changes of a table are known at once, and those of rows
up to the watermark, where records that reach it are compared with those that go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.relations.numbering import numbered
from mtlmon.relations.records import take
from mtlmon.relations.rowwise import converted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.relations.records import Records

    Integers = NDArray[np.int64]

__all__ = ["ChangeTimes", "changes_of"]


class ChangeTimes:
    """The times at which the bag of the valid records of a relation changes, as far as known.

    Args:
        keys: the columns whose values divide the records; without any, the whole relation changes.
            With some, each time comes with the values for which records change.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)
        self._times = np.empty(0, np.int64)
        self._values: tuple[pa.Array, ...] | None = None

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the times and values take."""
        found: int = self._times.nbytes + sum(one.nbytes for one in self._values or ())
        return found

    def add(self, records: Records, start: int, end: int, before: Records | None = None) -> None:
        """Add the changes from one time on below another; none of them is known.

        Args:
            records: what is valid from the one time on below the other, perhaps cut there.
            start: the one time.
            end: the other time.
            before: what was valid just before `start`; None for nothing.
        """
        times, values = changes_of(self._keys, records, start, end, before)
        if not len(times):
            return
        if self._values is not None and len(self._times):
            pairs = zip(self._values, values, strict=True)
            values = tuple(pa.concat_arrays([one.cast(new.type), new]) for one, new in pairs)
            times = np.concatenate([self._times, times])
        self._times, self._values = times, values

    def replace(self, times: Integers, values: Sequence[pa.Array]) -> None:
        """Take other changes in the place of those that are known, as `between` returns them."""
        self._times, self._values = times, tuple(values)

    def forget(self, until: float) -> None:
        """Forget the changes below a time."""
        first = int(np.searchsorted(self._times, until))
        self._times = self._times[first:].copy()
        if self._values is not None:
            rows = np.arange(first, first + len(self._times))
            self._values = take(self._values, rows)

    def between(self, start: int, limit: int) -> tuple[Integers, tuple[pa.Array, ...]]:
        """Return the changes from one time on below another, in order of time.

        Returns:
            The times, and for each of them the values of the columns for which records change. A
            time at which those of several values change is there for each of them.
        """
        first, last = np.searchsorted(self._times, [start, limit])
        values = self._values or ()
        return self._times[first:last], tuple(one.slice(first, last - first) for one in values)


def changes_of(
    keys: Sequence[str], records: Records, start: int, end: int, before: Records | None = None
) -> tuple[Integers, tuple[pa.Array, ...]]:
    """Find when records begin or end, except where as many equal ones end or begin.

    The arguments are those of `ChangeTimes` and `ChangeTimes.add`, and the result is that of
    `ChangeTimes.between`.

    >>> from mtlmon.relations.records import records_of
    >>> table = {"start": [0, 5, 5], "end": [5, 9, 7], "door": ["a", "a", "b"]}
    >>> changes_of([], records_of(pa.table(table)), 0, 100)
    (array([0, 5, 7, 9]), ())
    >>> times, (doors,) = changes_of(["door"], records_of(pa.table(table)), 0, 100)
    >>> list(zip(times.tolist(), doors.to_pylist()))
    [(0, 'a'), (5, 'b'), (7, 'b'), (9, 'a')]
    """
    sides = [records] if before is None or not len(before) else [records, before]
    columns = [
        pa.concat_arrays([converted(one.columns[place], wanted) for one in sides])
        for place, wanted in enumerate(records.schema.types)
    ]
    begins = np.flatnonzero((records.starts >= start) & (records.starts < end))
    ends = np.flatnonzero((records.ends > start) & (records.ends < end))
    removed = np.empty(0, np.int64) if len(sides) == 1 else np.arange(len(before or ()))
    rows = np.concatenate([begins, ends, removed + len(records)])
    times = np.concatenate(
        [records.starts[begins], records.ends[ends], np.full(len(removed), start)]
    )
    steps = np.where(np.arange(len(rows)) < len(begins), 1, -1)
    numbers, _ = numbered(columns, sum(map(len, sides)))
    order = np.lexsort((numbers[rows], times))
    rows, times, steps = rows[order], times[order], steps[order]
    places = _firsts(times, numbers[rows])
    changed = places[np.add.reduceat(steps, places) != 0] if len(places) else places
    rows, times = rows[changed], times[changed]
    names = records.schema.names
    values = tuple(columns[names.index(name)].take(pa.array(rows)) for name in keys)
    numbers, _ = numbered(values, len(rows))
    order = np.lexsort((numbers, times))
    order = order[_firsts(times[order], numbers[order])]
    return times[order], take(values, order)


def _firsts(times: Integers, numbers: NDArray[np.uint32]) -> Integers:
    """The places at which a time or a number differs from the one before."""
    is_first = np.ones(len(times), np.bool_)
    is_first[1:] = (np.diff(times) != 0) | (numbers[1:] != numbers[:-1])
    return np.flatnonzero(is_first)
