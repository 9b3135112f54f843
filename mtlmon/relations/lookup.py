"""Look-ups in a relation: the record that is valid at a time and has some values."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.environment import NOTHING_VALID, SEVERAL_VALID
from mtlmon.policy.predicates.kinds import joined, kind_of
from mtlmon.relations.multiplicity import timeline
from mtlmon.relations.native import CountAggregate, Groups, LeastAggregate, Numbering
from mtlmon.relations.numbering import numbered
from mtlmon.relations.records import NO_END, canonical_column, records_of
from mtlmon.relations.rowwise import converted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# With fewer rows of each key, each row is searched for by itself.
_LEAST_ROWS_OF_A_KEY = 8

__all__ = ["NOTHING_VALID", "SEVERAL_VALID", "LookUp"]


class LookUp:
    """Finds the record of a relation that is valid at a time and has some values.

    Args:
        table: the relation: start, end, and its columns, as `evaluate` returns it.
        keys: the columns whose values are given.

    Raises:
        MtlmonError: the table is no relation, or a column is missing.

    >>> limits = pa.table(
    ...     {"start": [0, 10], "end": [10, None], "road": ["a", "a"], "max": [50, 70]}
    ... )
    >>> look_up = LookUp(limits, ["road"])
    >>> rows = look_up.find(np.array([3, 12, 12]), [pa.array(["a", "a", "b"])])
    >>> rows, look_up.values("max", rows).to_pylist()
    (array([ 0,  1, -1]), [50, 70, None])
    """

    def __init__(self, table: pa.Table, keys: Sequence[str]) -> None:
        self._records = records = records_of(table)
        columns = records.by_name
        for name in keys:
            if name not in columns:
                raise MtlmonError(f"there is no column {name!r}")
        self._keys = [columns[name] for name in keys]
        numbers, _ = numbered(self._keys, len(records))
        rows = np.arange(len(records))
        count = CountAggregate(None, None, len(records))
        first = LeastAggregate(rows, None, len(records))
        # one segment for each key and each time during which the valid records do not change
        found = Groups(timeline(records), Numbering(numbers, len(records)), [count, first])
        self._starts = np.frombuffer(found.starts, np.int64)
        firsts = np.frombuffer(first.results, np.int64)
        is_one = np.frombuffer(count.results, np.int64) == 1
        self._times, time_numbers = _distinct(self._starts)
        self._values = [_findable(column) for column in self._keys]
        # for each key but the first, the numbers that the keys up to it have together
        self._known: list[NDArray[np.int64]] = []
        codes = self._codes([column.take(pa.array(firsts)) for column in self._keys], len(firsts))
        self._width = len(self._times) + 1
        places = codes * self._width + time_numbers
        order = np.argsort(places)
        # keys with null or NaN are never found
        order = order[codes[order] >= 0]
        self._places = places[order]
        self._codes_of_places = codes[order]
        self._starts_of_places = self._starts[order]
        self._ends = np.frombuffer(found.ends, np.int64)[order]
        self._rows = np.where(is_one, firsts, SEVERAL_VALID)[order]

    def find(self, times: NDArray[np.int64], keys: Sequence[pa.Array]) -> NDArray[np.int64]:
        """Find the rows of records in the table.

        Args:
            times: when they are valid.
            keys: their values, a column for each key, as long as `times`.

        Returns:
            The row of each; `NOTHING_VALID` if there is none, and where a key is null or NaN, and
            `SEVERAL_VALID` if there are more.

        Raises:
            MtlmonError: the values of a key are of another kind than those of its column.
        """
        if not len(self._places):
            return np.full(len(times), NOTHING_VALID)
        codes = self._codes([canonical_column(column) for column in keys], len(times))
        count = len(self._known[-1]) if self._known else prod(map(len, self._values))
        if count > len(times) // _LEAST_ROWS_OF_A_KEY:
            return self._found(self._last_before(codes, times), codes, times)
        # PERF: of 1,000 keys with 20 records each, 64k rows in order of time see one or two each;
        # looking that up by key takes 0.13 s for 2 M rows, and searching for each row 0.38 s
        first, last = int(times.min()), int(times.max())
        all_codes = np.arange(count)
        firsts = self._last_before(all_codes, np.full(count, first))
        found = firsts[codes]
        steps = self._last_before(all_codes, np.full(count, last)) - firsts
        if steps.any():
            # most often, one segment follows another
            following = np.minimum(firsts + 1, len(self._places) - 1)
            begins = np.where(steps == 1, self._starts_of_places[following], NO_END)
            found += times >= begins[codes]
            rows = np.flatnonzero(steps[codes] > 1)
            found[rows] = self._last_before(codes[rows], times[rows])
        return self._found(found, codes, times)

    def _last_before(self, codes: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.int64]:
        """The last place of a segment of a key that starts up to a time; any place if none does.

        PERF: 65,536 places are searched for in order, which takes 29 ns each instead of 99 among
        100,000 segments, and 46 instead of 180 among a million.
        """
        wanted = codes * self._width + np.searchsorted(self._times, times, side="right") - 1
        order = np.argsort(wanted)
        found = np.empty(len(wanted), np.int64)
        found[order] = np.searchsorted(self._places, wanted[order], side="right")
        return np.maximum(found - 1, 0)

    def _found(
        self, places: NDArray[np.int64], codes: NDArray[np.int64], times: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The rows of segments, as far as they are of the key and valid at the time."""
        is_found = (
            (self._codes_of_places[places] == codes)
            & (self._starts_of_places[places] <= times)
            & ((times < self._ends[places]) | (self._ends[places] == NO_END))
        )
        return np.where(is_found, self._rows[places], NOTHING_VALID)

    def values(self, name: str, rows: NDArray[np.int64]) -> pa.Array:
        """Return the values of a column in rows of the table, null where there is none."""
        column = self._records.by_name[name]
        return column.take(pa.array(rows, mask=rows < 0))

    def _codes(self, columns: Sequence[pa.Array], length: int) -> NDArray[np.int64]:
        """A number for the values of each row; -1 if no record has them.

        The first call is about the records.
        """
        codes = np.zeros(length, np.int64)
        is_known = np.ones(length, np.bool_)
        for number, (column, values) in enumerate(zip(columns, self._values, strict=True)):
            places = pc.index_in(*_alike(column, values))
            is_valid = pc.and_(places.is_valid(), column.is_valid())
            is_known &= is_valid.to_numpy(zero_copy_only=False)
            codes = codes * len(values) + pc.fill_null(places, 0).to_numpy()
            if number:
                # numbers without gaps, as those of many columns would be too large
                if len(self._known) < number:
                    self._known.append(np.unique(codes[is_known]))
                codes, is_in = _places_in(codes, self._known[number - 1])
                is_known &= is_in
        return np.where(is_known, codes, -1)


def _findable(column: pa.Array) -> pa.Array:
    """The values of a key column that can be found, without null and NaN, which equal nothing."""
    found = pc.drop_null(pc.unique(column))
    return found.filter(pc.invert(pc.is_nan(found))) if pa.types.is_floating(found.type) else found


def _distinct(times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different times in order, and for each time its number among them."""
    order = np.argsort(times)
    ordered = times[order]
    is_new = np.append(np.ones(min(1, len(times)), np.bool_), ordered[1:] != ordered[:-1])
    numbers = np.empty(len(times), np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    return ordered[is_new], numbers


def _places_in(
    numbers: NDArray[np.int64], known: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The places of numbers among others in order, and whether they are there."""
    if not len(known):
        return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.bool_)
    places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return places, known[places] == numbers


def _alike(column: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Columns of one type, where their kinds can be equal at all."""
    if column.type == values.type:
        return column, values
    kinds = kind_of(column.type), kind_of(values.type)
    kind = joined(*kinds)
    if kind is None:
        raise MtlmonError(
            f"a key is {kinds[0].words}, and the column of the relation {kinds[1].words}"
        )
    wanted = column_type(kind)
    return converted(column, wanted), converted(values, wanted)
