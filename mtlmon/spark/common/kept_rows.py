"""Values of rows that are kept until the verdicts about these rows are known.

They come along with the rows, and are found by trace, time-stamp and offset. That works for rows
that wait for later values, too, because those of a trace leave in their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.checking.row_offsets import SuccessiveOffsets
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# A time-point is searched by its trace, time-stamp and offset, most significant byte first.
_WORD = np.dtype(">u8")
_KEY = np.dtype("S24")
# A table of more pieces is made one piece.
_MOST_PIECES = 16


class KeptRows:
    """Keeps columns of rows that are undecided, for traces that come one after the other.

    Memory grows with the number of rows of a trace that are undecided.

    Args:
        columns: the columns to keep, by the names that they have with verdicts.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = dict(columns)
        self._offsets = SuccessiveOffsets()
        # the number of the trace of the last row, and of that before the present batch
        self._trace = 0
        self._base = 0
        self._table: pa.Table | None = None
        # for each row of the table its trace, the key of its time-point, and how many verdicts
        # about it have not come yet
        self._traces = np.empty(0, np.int64)
        self._keys = np.empty(0, _KEY)
        self._awaited = np.empty(0, np.int64)
        self._first_new = 0

    def add(
        self, rows: pa.RecordBatch, time_stamps: NDArray[np.int64], starts: NDArray[np.integer]
    ) -> None:
        """Keep the next rows, which no policy has asked for yet.

        Args:
            rows: the rows, with the columns to keep.
            time_stamps: their time-stamps, which do not decrease within a trace.
            starts: the indices of the rows with which another trace begins.
        """
        self._forget()
        offsets = self._offsets.taken(time_stamps, starts)
        begins = np.zeros(len(time_stamps), np.int64)
        begins[starts] = 1
        traces = self._trace + np.cumsum(begins)
        self._base = self._trace
        self._trace += len(starts)
        self._first_new = len(self._keys)
        columns = [rows.column(name) for name in self._columns.values()]
        new = pa.Table.from_arrays(columns, names=list(self._columns))
        table = new if self._table is None else pa.concat_tables([self._table, new])
        if table.column(0).num_chunks > _MOST_PIECES:
            table = table.combine_chunks()
        self._table = table
        self._traces = np.concatenate([self._traces, traces])
        self._keys = np.concatenate([self._keys, _keys_of(traces, time_stamps, offsets)])
        self._awaited = np.concatenate([self._awaited, np.zeros(len(traces), np.int64)])

    def expect(self, places: NDArray[np.uint32] | None) -> None:
        """Keep the rows of the present batch with these indices, or all, for another policy."""
        awaited = self._awaited[self._first_new :]
        if places is None:
            awaited += 1
        else:
            awaited[places] += 1

    def found(
        self, records: bytes, owners: NDArray[np.uint32] | None, *, are_rows: bool
    ) -> pa.RecordBatch | None:
        """Return the columns of the rows that verdicts of a policy are about.

        Args:
            records: the verdict records, each of which comes once.
            owners: the numbers of their traces: 0 is the trace before the present batch, and k the
                one that begins with number k - 1 of the starts; None if all are of the last trace.
            are_rows: whether they are about rows; about ticks, all columns are null.
        """
        if self._table is None:
            return None
        verdicts = np.frombuffer(records, verdict_type())
        if not are_rows:
            return pa.RecordBatch.from_arrays(
                [pa.nulls(len(verdicts), field.type) for field in self._table.schema],
                names=list(self._columns),
            )
        if owners is None:
            traces = np.full(len(verdicts), self._trace, np.int64)
        else:
            traces = self._base + owners.astype(np.int64)
        wanted = _keys_of(traces, verdicts["time_stamp"], verdicts["offset"])
        places = np.searchsorted(self._keys, wanted)
        self._awaited[places] -= 1
        taken = self._table.take(pa.array(places))
        return pa.RecordBatch.from_arrays(
            [column.combine_chunks() for column in taken.columns], names=list(self._columns)
        )

    def end_trace(self) -> None:
        """End the present trace; the next row begins another one."""
        self._trace += 1
        self._offsets = SuccessiveOffsets()

    def _forget(self) -> None:
        """Forget rows of earlier traces, and those about which all verdicts are known.

        PERF: this waits until they are half of all rows, so that a row is moved a few times only.
        """
        is_kept = (self._traces == self._trace) & (self._awaited > 0)
        if self._table is None or 2 * np.count_nonzero(is_kept) > len(is_kept):
            return
        self._table = self._table.filter(pa.array(is_kept))
        self._traces = self._traces[is_kept]
        self._keys = self._keys[is_kept]
        self._awaited = self._awaited[is_kept]


def _keys_of(
    traces: NDArray[np.int64], time_stamps: NDArray[np.integer], offsets: NDArray[np.integer]
) -> NDArray[np.bytes_]:
    """Return keys that are ordered as time-points are."""
    words = np.empty((len(traces), 3), _WORD)
    words[:, 0] = traces
    words[:, 1] = time_stamps
    words[:, 2] = offsets
    return words.reshape(-1).view(_KEY)
