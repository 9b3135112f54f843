"""Finds where keys begin in rows sorted by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class KeyRuns:
    """Follows the keys of rows from batch to batch; the rows of a key are consecutive.

    Attributes:
        last: the key of the last row so far, or None. Set it to an earlier one to read a batch
            again.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.last: list[pa.Array] | None = None

    def read(self, batch: pa.RecordBatch) -> tuple[NDArray[np.uint32], dict[str, pa.Array]]:
        """Find the rows of a batch, which must not be empty, where a new key begins.

        Returns:
            starts: the indices of the rows whose key differs from that of the previous row.
            keys: a column for each name; item 0 is the key of the row before the batch, and item
                k + 1 is the key at starts[k].
        """
        columns = [batch.column(name) for name in self._names]
        first = [column.slice(0, 1) for column in columns]
        if self.last is None:
            last = first
            is_new = True
        else:
            last = self.last
            pairs = zip(last, first, strict=True)
            is_new = bool(_changes([pa.concat_arrays(pair) for pair in pairs], 2)[0])
        starts = np.flatnonzero(np.concatenate([[is_new], _changes(columns, batch.num_rows)]))
        places = pa.array(starts)
        keys = {
            name: pa.concat_arrays([old, column.take(places)])
            for name, old, column in zip(self._names, last, columns, strict=True)
        }
        # the values of the key's first row, so that 0.0 or -0.0 does not depend on batches
        self.last = [key.slice(len(key) - 1) for key in keys.values()]
        return starts.astype(np.uint32), keys


def _changes(columns: Sequence[pa.Array], count: int) -> NDArray[np.bool_]:
    """Whether each row except the first differs from the previous one, as Spark compares them.

    A null in a key is an error that the event reader reports.
    """
    found = np.zeros(count - 1, np.bool_)
    for column in columns:
        found |= changes(column)
    return found


def changes(column: pa.Array) -> NDArray[np.bool_]:
    """Whether each value except the first differs from the previous one; NaN equals NaN."""
    later, earlier = column.slice(1), column.slice(0, len(column) - 1)
    differs = pc.not_equal(later, earlier)
    if pa.types.is_floating(column.type):
        both_nan = pc.and_(pc.is_nan(later), pc.is_nan(earlier))
        differs = pc.and_not(differs, both_nan)
    if column.null_count:
        is_null = pc.not_equal(later.is_null(), earlier.is_null())
        differs = pc.or_(differs.fill_null(False), is_null)
    found: NDArray[np.bool_] = np.asarray(differs)
    return found
