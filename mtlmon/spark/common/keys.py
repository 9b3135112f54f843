"""Where one key ends and the next begins, in rows sorted by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class KeyRuns:
    """Follows the keys of rows from batch to batch; all rows of a key come one after the other."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        # of the last row so far
        self._last: list[pa.Array] | None = None

    def read(self, batch: pa.RecordBatch) -> tuple[NDArray[np.uint32], dict[str, pa.Array]]:
        """The places in a batch, which is not empty, where a key begins, and keys by number.

        Returns:
            starts: where another key than that of the row before begins.
            keys: a column for each name; number 0 is the key of the row before the batch, number
                k + 1 that of starts[k].
        """
        columns = [batch.column(name) for name in self._names]
        first = [column.slice(0, 1) for column in columns]
        if self._last is None:
            last = first
            is_new = True
        else:
            last = self._last
            pairs = zip(last, first, strict=True)
            is_new = bool(_changes([pa.concat_arrays(pair) for pair in pairs], 2)[0])
        starts = np.flatnonzero(np.concatenate([[is_new], _changes(columns, batch.num_rows)]))
        places = pa.array(starts)
        keys = {
            name: pa.concat_arrays([old, column.take(places)])
            for name, old, column in zip(self._names, last, columns, strict=True)
        }
        # that of the key's first row, so that batches do not tell between 0.0 and -0.0
        self._last = [key.slice(len(key) - 1) for key in keys.values()]
        return starts.astype(np.uint32), keys


def _changes(columns: Sequence[pa.Array], count: int) -> NDArray[np.bool_]:
    """For each row but the first whether it differs from the one before, as Spark compares."""
    changes = np.zeros(count - 1, np.bool_)
    for column in columns:
        later, earlier = column.slice(1), column.slice(0, count - 1)
        differs = pc.not_equal(later, earlier)
        if pa.types.is_floating(column.type):
            both_nan = pc.and_(pc.is_nan(later), pc.is_nan(earlier))
            differs = pc.and_not(differs, both_nan)
        # a key with a null in it is an error of its row, which the readers of events find
        changes |= np.asarray(differs.fill_null(True))
    return changes
