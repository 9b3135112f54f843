"""Packs the rows of a stream by key before they are sent to the states of keys.

A streaming query passes rows to the state of a key one by one. So all events of a key in a batch of
rows are packed into one row first, and monitors process arrays of events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.arrays.native import KeyTable
from mtlmon.spark.common.events import HIDDEN, EventReader
from mtlmon.spark.streaming.event_records import Waiting, order_integers
from mtlmon.tables.columns.keys import number_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql.types import StructField, StructType

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.streaming.event_clock import EventClock
    from mtlmon.spark.streaming.event_records import EventRecords

KEY = "mtlmon_key_{}"
"""The key columns in packed rows; without keys, there is one with a constant."""

TASK = "mtlmon_task"
"""The column with the number of the task that has packed a row."""

PLACE = "mtlmon_place"
"""The column with the number of a row among those of its task."""

EVENTS = "mtlmon_events"
"""The column with events, encoded by `EventRecords`."""

LATEST = "mtlmon_latest"
"""The column with the time of the latest of these events, on the clock of the query."""


def packed_schema(keys: Sequence[StructField]) -> StructType:
    """Return the columns of packed rows."""
    from pyspark.sql import types

    fields = [types.StructField(KEY.format(i), key.dataType) for i, key in enumerate(keys)]
    return types.StructType(
        [
            *(fields or [types.StructField(KEY.format(0), types.ByteType())]),
            types.StructField(TASK, types.IntegerType()),
            types.StructField(PLACE, types.LongType()),
            types.StructField(EVENTS, types.BinaryType()),
            types.StructField(LATEST, types.TimestampType()),
        ]
    )


class PackRows:
    """Packs rows; picklable, a function for `mapInArrow`.

    The selected columns come first, in their order, followed by those that order the rows of one
    time-stamp; their names do not matter.

    Args:
        source: how rows become events.
        records: how events are encoded.
        clock: the clock of the query.
    """

    def __init__(self, source: EventSource, records: EventRecords, clock: EventClock) -> None:
        self._source = source
        self._records = records
        self._clock = clock

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the packed rows of a partition.

        Raises:
            TableError: a row is not an event.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        place = 0
        reader = EventReader(self._source)
        try:
            for batch in batches:
                if packed := self._packed(reader, batch, task, place):
                    place += packed.num_rows
                    yield packed
        finally:
            reader.report()

    def _packed(
        self, reader: EventReader, batch: pa.RecordBatch, task: int, place: int
    ) -> pa.RecordBatch | None:
        """The packed rows of a batch, or None if it has no events."""
        names = self._source.selection.names
        more = [f"{HIDDEN}{number}" for number in range(batch.num_columns - len(names))]
        events = reader.read(pa.RecordBatch.from_arrays(batch.columns, [*names, *more]))
        if not events.rows.num_rows:
            return None
        orders = [order_integers(events.rows.column(name)) for name in more]
        rows = self._records.rows(events, orders)
        columns = [events.rows.column(name) for name in self._source.keys]
        numbers = _key_numbers(columns, len(rows))
        by_key = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[by_key], prepend=-1))
        packed_events = Waiting(rows, self._records.columns_of(events.rows)).take(by_key)
        rows = packed_events.rows
        first_rows = pa.array(by_key[starts])
        count = len(starts)
        keys = [column.take(first_rows) for column in columns]
        latest = np.maximum.reduceat(self._clock.milliseconds(rows[:, 0]), starts) * 1000
        packed = [
            *(keys or [pa.array(np.zeros(count, np.int8))]),
            pa.array(np.full(count, task, np.int32)),
            pa.array(np.arange(place, place + count)),
            _blocks(self._records, packed_events, starts),
            pa.array(latest).view(pa.timestamp("us", "UTC")),
        ]
        return pa.RecordBatch.from_arrays(packed, [str(i) for i in range(len(packed))])


def _key_numbers(columns: Sequence[pa.Array], count: int) -> NDArray[np.int64]:
    """Number the keys of rows from 0."""
    if not columns:
        return np.zeros(count, np.int64)
    return number_rows(KeyTable(len(columns)), columns).astype(np.int64)


def _blocks(records: EventRecords, events: Waiting, starts: NDArray[np.int64]) -> pa.Array:
    """The bytes of events, split where a key begins."""
    rows, columns = events
    if columns is None:
        offsets = np.append(starts, len(rows)) * rows.shape[1] * 8
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(rows)]
        return pa.Array.from_buffers(pa.large_binary(), len(starts), buffers).cast(pa.binary())
    ends = np.append(starts[1:], len(rows)).tolist()
    return pa.array(
        [
            records.pack(Waiting(rows[start:end], columns.slice(start, end - start)))
            for start, end in zip(starts.tolist(), ends, strict=True)
        ],
        pa.binary(),
    )
