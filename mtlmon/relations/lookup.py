"""Look-ups in a relation: the record that is valid at a time and has some values.

`limits[road].max` is a function of the row's time and of keys. So it is part of the one language of
expressions, and every part that compiles expressions has it, including windows and ticks
(`Environment.relations`). Rows get a column of their time-stamps for it. Records are sorted by key
and start (`segments`), so only those of the row's key are searched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.canonical import canonical_texts
from mtlmon.arrays.native import KeyTable
from mtlmon.arrays.texts import text_cells
from mtlmon.errors import MtlmonError
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.environment import NOTHING_VALID, SEVERAL_VALID
from mtlmon.policy.predicates.kinds import NUMBERS, equal_as_texts, joined, kind_of
from mtlmon.relations import native
from mtlmon.relations.multiplicity import timeline
from mtlmon.relations.native import (
    Codes,
    CountAggregate,
    Groups,
    LeastAggregate,
    Numbering,
    Segments,
)
from mtlmon.relations.numbering import numbered
from mtlmon.relations.records import Records, aligned, canonical_column, cells, records_of
from mtlmon.relations.rowwise import converted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

# The number of texts that are in no table.
_UNKNOWN = 2**32 - 1

# What a record takes in an index, and a number in a table that is half full.
_SEGMENT_BYTES = 24
_CODE_BYTES = 32

__all__ = ["NOTHING_VALID", "SEVERAL_VALID", "LookUp", "has_overlaps"]


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
        self._values = [_KeyColumn(columns[name]) for name in keys]
        # for each key but the first, the numbers that the keys up to it have together
        self._together = [Codes() for _ in keys[1:]]
        # PERF: with a million records of 100,000 keys, a search among the segments of all keys took
        # 650 ms for 2 M rows at any times, and one among those of the row's key takes 30
        codes = self._joined([one.of_records for one in self._values], len(records), Codes.number)
        self._segments = _segments(records, codes)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that it takes besides the table, about."""
        of_codes = sum(_CODE_BYTES * one.count for one in self._together)
        of_keys = sum(one.held_bytes for one in self._values)
        return _SEGMENT_BYTES * len(self._records) + of_codes + of_keys

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
        columns = [
            values.find(canonical_column(column))
            for values, column in zip(self._values, keys, strict=True)
        ]
        codes = self._joined(columns, len(times), Codes.find)
        found = self._segments.find(aligned(times), codes, len(times), NOTHING_VALID)
        return np.frombuffer(found, np.int64)

    def values(self, name: str, rows: NDArray[np.int64]) -> pa.Array:
        """Return the values of a column in rows of the table, null where there is none."""
        column = self._records.by_name[name]
        return column.take(pa.array(rows, mask=rows < 0))

    def _joined(
        self,
        columns: Sequence[NDArray[np.int64]],
        length: int,
        number: Callable[[Codes, NDArray[np.int64], int], memoryview],
    ) -> NDArray[np.int64]:
        """A number for the values of each row; negative if it is never found.

        Args:
            columns: for each key, a number for the value of each row; negative for none.
            length: the number of rows.
            number: what numbers two numbers together: `Codes.number` or `Codes.find`.
        """
        if not columns:
            return np.zeros(length, np.int64)
        codes, *others = columns
        for known, own in zip(self._together, others, strict=True):
            is_known = (codes >= 0) & (own >= 0)
            # both are below 2^32, as they are numbers of records
            pairs = (codes << 32) | np.where(is_known, own, 0)
            found = np.frombuffer(number(known, pairs, length), np.int64)
            codes = np.where(is_known, found, -1)
        return codes


class _KeyColumn:
    """Numbers the values that a key has in records.

    Values of another type are found by their canonical texts, as those are equal where the values
    are: 7, 7.0 and "7".

    Attributes:
        of_records: the number of the value of each record; negative for null and NaN, which equal
            nothing.
    """

    def __init__(self, column: pa.Array) -> None:
        self._type = column.type
        # PERF: Arrow makes a hash table of all values anew, each time that some are looked up: a
        # million rows with texts of 100,000 keys took 0.76 instead of 0.50 s, with a million limits
        self._codes: Codes | None = None
        # the texts, or once they are needed the canonical texts of other values
        self._texts: _TextKeys | None = None
        self._unique = column.slice(0, 0)
        if pa.types.is_large_string(column.type):
            self._texts = _TextKeys()
            self.of_records = self._texts.numbered(column)
        elif pa.types.is_primitive(column.type) and column.type.bit_width == 64:
            self._codes = Codes()
            self.of_records = self._numbered(column, self._codes.number)
        else:
            self._unique = pc.unique(column)
            self.of_records = _places_in(column, self._unique)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that it takes, about."""
        held = self.of_records.nbytes
        if self._texts is not None:
            return held + self._texts.held_bytes
        if self._codes is not None:
            return held + _CODE_BYTES * self._codes.count
        of_values: int = self._values.nbytes
        return held + of_values

    def find(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the numbers of values; negative for those that no record has.

        Raises:
            MtlmonError: they are of another kind.
        """
        if column.type == self._type:
            if self._codes is not None:
                return self._numbered(column, self._codes.find)
            if self._texts is not None and pa.types.is_large_string(self._type):
                return self._texts.find(column)
            return _places_in(column, self._unique)
        kinds = kind_of(column.type), kind_of(self._type)
        if not (equal_as_texts(*kinds) or {one.name for one in kinds} <= NUMBERS):
            return _places_in(*_alike(column, self._values))
        if self._texts is None:
            self._texts = _TextKeys()
            self._texts.numbered(canonical_texts(self._values))
        found = self._texts.find(canonical_texts(column))
        unequal = _equal_nothing(column)
        return found if unequal is None else np.where(unequal, -1, found)

    @property
    def _values(self) -> pa.Array:
        """The different values of records, in the order of their numbers."""
        if self._codes is None:
            return self._unique
        return pa.array(np.frombuffer(self._codes.values, np.int64)).view(self._type)

    def _numbered(
        self, column: pa.Array, number: Callable[[NDArray[np.int64], int], memoryview]
    ) -> NDArray[np.int64]:
        found = np.frombuffer(number(aligned(cells(column)), len(column)), np.int64)
        unequal = _equal_nothing(column)
        return found if unequal is None else np.where(unequal, -1, found)


class _TextKeys:
    """Numbers texts, from 0 on; null has a negative number."""

    def __init__(self) -> None:
        self._table = KeyTable(1)

    @property
    def held_bytes(self) -> int:
        """How many bytes the texts take."""
        return int(self._table.held_bytes)

    def numbered(self, texts: pa.Array) -> NDArray[np.int64]:
        """Return the numbers of texts, of which new ones get the next."""
        numbers = np.empty(len(texts), np.uint32)
        if len(texts):
            self._table.number_rows([text_cells(pc.fill_null(texts, ""))], numbers)
        return _unless_null(numbers, texts)

    def find(self, texts: pa.Array) -> NDArray[np.int64]:
        """Return the numbers of texts; negative for those that have none."""
        numbers = np.empty(len(texts), np.uint32)
        if len(texts):
            self._table.find_rows([text_cells(pc.fill_null(texts, ""))], numbers)
        return _unless_null(numbers, texts)


def _unless_null(numbers: NDArray[np.uint32], column: pa.Array) -> NDArray[np.int64]:
    """The numbers of texts; negative for null, and for what is in no table."""
    is_found = numbers != _UNKNOWN
    if column.null_count:
        is_found &= column.is_valid().to_numpy(zero_copy_only=False)
    return np.where(is_found, numbers.astype(np.int64), -1)


def _places_in(column: pa.Array, values: pa.Array) -> NDArray[np.int64]:
    """The places of values among others; negative for those that are not there."""
    places = pc.fill_null(pc.index_in(column, values), -1).to_numpy().astype(np.int64)
    unequal = _equal_nothing(column)
    return places if unequal is None else np.where(unequal, -1, places)


def _equal_nothing(column: pa.Array) -> NDArray[np.bool_] | None:
    """Which values are null or NaN; None if none are."""
    found = column.is_null(nan_is_null=True)
    return found.to_numpy(zero_copy_only=False) if found.true_count else None


def _segments(records: Records, codes: NDArray[np.int64]) -> Segments:
    """One segment for each key and each time during which the valid records do not change.

    Args:
        records: the records.
        codes: a number for the key of each record; negative if it is never found.
    """
    keys = int(codes.max(initial=-1)) + 1
    found = Segments(timeline(records, has_ends=False), codes, None, keys)
    if found.overlapping is None:
        return found
    has_key = codes >= 0
    overlaps = has_key & np.frombuffer(found.overlapping, np.bool_)[codes]
    rows = np.flatnonzero(overlaps)
    count = CountAggregate(None, None, len(rows))
    first = LeastAggregate(rows, None, len(rows))
    times = Records(pa.schema([]), (), records.starts[rows], records.ends[rows])
    numbers = Numbering(codes[rows].astype(np.uint32), len(rows))
    groups = Groups(timeline(times), numbers, [count, first])
    is_one = np.frombuffer(count.results, np.int64) == 1
    valid = np.where(is_one, np.frombuffer(first.results, np.int64), SEVERAL_VALID)
    apart = np.flatnonzero(has_key & ~overlaps)
    times = Records(
        pa.schema([]),
        (),
        np.append(records.starts[apart], np.frombuffer(groups.starts, np.int64)),
        np.append(records.ends[apart], np.frombuffer(groups.ends, np.int64)),
    )
    return Segments(
        timeline(times, has_ends=False),
        np.append(codes[apart], np.frombuffer(groups.groups, np.uint32)),
        np.append(apart, valid),
        keys,
    )


def has_overlaps(records: Records, keys: Sequence[str]) -> bool:
    """Return whether two records are valid at the same time that have equal keys, or null ones."""
    columns = records.by_name
    numbers, _ = numbered([columns[name] for name in keys], len(records))
    times = timeline(records, has_ends=False)
    return native.has_overlaps(times, Numbering(numbers, len(records)))


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
