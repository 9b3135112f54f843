"""The keys of a bucket, in the order in which they came, and what is known of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.arrays.native import KeyTable
from mtlmon.spark.streaming.bucket_records import NEVER, KeyFacts
from mtlmon.tables.columns.keys import NO_NUMBER, find_rows, number_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["BucketKeys"]


class BucketKeys:
    """Numbers the keys of a bucket.

    Args:
        types: the types of the key columns.

    Attributes:
        next_wakeup: by the number of a key, what `KeyFacts.next_wakeup` says.
        settled_from: likewise `KeyFacts.settled_from`.
        streams: likewise `KeyFacts.streams`.
    """

    def __init__(self, types: pa.Schema) -> None:
        self._table = KeyTable(len(types))
        self._columns = [pa.array([], kind) for kind in types.types]
        self.next_wakeup = np.empty(0, np.int64)
        self.settled_from = np.empty(0, np.int64)
        self.streams = np.empty(0, np.object_)

    def __len__(self) -> int:
        return len(self.next_wakeup)

    @property
    def held_bytes(self) -> int:
        """The bytes that they take, about."""
        columns = sum(column.nbytes for column in self._columns)
        return int(self._table.held_bytes + columns + 24 * len(self))

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
            self.next_wakeup = np.append(self.next_wakeup, np.full(count, NEVER, np.int64))
            self.settled_from = np.append(self.settled_from, np.zeros(count, np.int64))
            self.streams = np.append(self.streams, np.full(count, b"", np.object_))
        return numbers

    def find(self, columns: Sequence[pa.Array]) -> NDArray[np.uint32]:
        """Return the numbers of the keys of some rows, and `NO_NUMBER` for unknown ones."""
        return find_rows(self._table, columns)

    def columns_of(self, numbers: NDArray[np.int64]) -> list[pa.Array]:
        """Return the columns of some keys."""
        places = pa.array(numbers)
        return [column.take(places) for column in self._columns]

    def columns_from(self, first: int) -> list[pa.Array]:
        """Return the columns of the keys from a number on."""
        return [column.slice(first) for column in self._columns]

    def values_of(self, number: int) -> tuple[object, ...]:
        """Return the values of a key."""
        return tuple(column[number].as_py() for column in self._columns)

    def facts_of(self, numbers: NDArray[np.int64]) -> KeyFacts:
        """Return what is known of some keys."""
        return KeyFacts(
            self.next_wakeup[numbers],
            self.settled_from[numbers],
            pa.array(self.streams[numbers], pa.large_binary()),
        )

    def set_facts(self, numbers: NDArray[np.int64], facts: KeyFacts) -> None:
        """Set what is known of some keys."""
        self.next_wakeup[numbers] = facts.next_wakeup
        self.settled_from[numbers] = facts.settled_from
        self.streams[numbers] = facts.streams.to_numpy(zero_copy_only=False)

    def keep(self, is_kept: NDArray[np.bool_]) -> None:
        """Forget the other keys; those that are kept have the next numbers, in the same order."""
        numbers = np.where(is_kept, np.cumsum(is_kept) - 1, NO_NUMBER).astype(np.uint32)
        self._table.keep(numbers.tobytes())
        kept = np.flatnonzero(is_kept)
        self._columns = self.columns_of(kept)
        self.next_wakeup = self.next_wakeup[kept]
        self.settled_from = self.settled_from[kept]
        self.streams = self.streams[kept]
