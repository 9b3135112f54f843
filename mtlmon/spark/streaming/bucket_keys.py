"""The keys of a bucket, in the order in which they came, and what is known of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.arrays.native import KeyTable
from mtlmon.spark.streaming.bucket_records import NEVER
from mtlmon.tables.columns.keys import NO_NUMBER, find_rows, number_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["NO_STREAM", "BucketKeys"]

NO_STREAM = 2**32 - 1
"""Takes the place of the number of a stream where a key has none."""

_NEW = {
    "next_wakeup": np.array([NEVER]),
    "settled_from": np.array([0]),
    "streams": np.array([b""], np.object_),
    "base": np.array([NO_STREAM], np.uint32),
    "present": np.array([NO_STREAM], np.uint32),
    "present_streams": np.array([b""], np.object_),
    "judged_to": np.array([0]),
    "oldest": np.array([NEVER]),
}


class BucketKeys:
    """Numbers the keys of a bucket.

    Args:
        types: the types of the key columns.

    Attributes:
        facts: what is known of each key, by its number. First what is stored, `STORED`; then the
            number of its stream in the monitors at its base, and that at the time up to which it
            has been judged, with the snapshot of its streams; this time; and the first time of what
            it has taken since the base.
    """

    def __init__(self, types: pa.Schema) -> None:
        self._table = KeyTable(len(types))
        self._columns = [pa.array([], kind) for kind in types.types]
        self.facts = {name: new[:0] for name, new in _NEW.items()}

    def __len__(self) -> int:
        return len(self.facts["base"])

    @property
    def held_bytes(self) -> int:
        """The bytes that they take, about."""
        columns = sum(column.nbytes for column in self._columns)
        facts = sum(own.nbytes for own in self.facts.values())
        return int(self._table.held_bytes + columns + facts)

    def add(self, columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        """Return the numbers of the keys of some rows; new keys get the next ones."""
        if not len(columns[0]):
            return np.empty(0, np.int64)
        before = len(self)
        numbers = number_rows(self._table, columns).astype(np.int64)
        count = len(self._table) - before
        if count:
            rows = np.empty(count, np.int64)
            is_new = np.flatnonzero(numbers >= before)[::-1]
            # numpy assigns in order, so the first row of each key stays
            rows[numbers[is_new] - before] = is_new
            self._columns = [
                pa.concat_arrays([known, column.take(pa.array(rows))])
                for known, column in zip(self._columns, columns, strict=True)
            ]
            self.facts = {
                name: np.append(own, np.repeat(_NEW[name], count))
                for name, own in self.facts.items()
            }
        return numbers

    def find(self, columns: Sequence[pa.Array]) -> NDArray[np.uint32]:
        """Return the numbers of the keys of some rows, and `NO_NUMBER` for unknown ones."""
        return find_rows(self._table, columns)

    def columns_of(self, numbers: NDArray[np.int64]) -> list[pa.Array]:
        """Return the columns of some keys."""
        places = pa.array(numbers)
        return [column.take(places) for column in self._columns]

    def values_of(self, number: int) -> tuple[object, ...]:
        """Return the values of a key."""
        return tuple(column[number].as_py() for column in self._columns)

    def keep(self, is_kept: NDArray[np.bool_]) -> None:
        """Forget the other keys; those that are kept have the next numbers, in the same order."""
        numbers = np.where(is_kept, np.cumsum(is_kept) - 1, NO_NUMBER).astype(np.uint32)
        self._table.keep(numbers.tobytes())
        kept = np.flatnonzero(is_kept)
        self._columns = self.columns_of(kept)
        self.facts = {name: own[kept] for name, own in self.facts.items()}
