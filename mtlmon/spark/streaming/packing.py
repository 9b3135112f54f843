"""Packs the rows of a stream by buckets of keys before they are sent to the states of buckets.

`transformWithState` passes rows to a state one by one, and pays several exchanges between Java and
Python for each state. So keys are divided into buckets by a hash of their texts, all events of a
bucket in a batch of rows are packed into one row (by a `mapInArrow` before it; another one after it
unpacks the verdicts), and monitors process arrays of events of many keys.

Packed rows do not have the watermark column, so Spark does not drop late rows; `bucket_state`
decides which events are late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.native import KeyTable
from mtlmon.spark.common.events import HIDDEN, EventReader
from mtlmon.spark.streaming.event_records import Waiting, order_integers
from mtlmon.tables.columns.keys import number_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql.types import StructType

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.event_clock import EventClock

BUCKET = "mtlmon_bucket"
"""The column with the number of a bucket."""

TASK = "mtlmon_task"
"""The column with the number of the task that has packed a row."""

OF_RELATIONS = -1
"""What takes the place of the number of a task in a row with what relations tell buckets."""

PLACE = "mtlmon_place"
"""The column with the number of a row among those of its task."""

EVENTS = "mtlmon_events"
"""The column with events, as a block of `BucketRecords`."""

LATEST = "mtlmon_latest"
"""The column with the time of the latest of these events, on the clock of the query."""


def packed_schema() -> StructType:
    """Return the columns of packed rows."""
    from pyspark.sql import types

    return types.StructType(
        [
            types.StructField(BUCKET, types.IntegerType()),
            types.StructField(TASK, types.IntegerType()),
            types.StructField(PLACE, types.LongType()),
            types.StructField(EVENTS, types.BinaryType()),
            types.StructField(LATEST, types.TimestampType()),
        ]
    )


def key_types(keys: Sequence[str], schema: pa.Schema) -> pa.Schema:
    """Return the types of the columns of keys; without keys, a constant takes their place."""
    if not keys:
        return pa.schema([("no key", pa.int8())])
    return pa.schema([schema.field(name) for name in keys])


class PackRows:
    """Packs rows; picklable, a function for `mapInArrow`.

    The selected columns come first, in their order, followed by those that order the rows of one
    time-stamp; their names do not matter.

    Every task that has rows has one for bucket 0, perhaps without events: so its state, which tells
    what the query was made with, is read in every batch.

    Args:
        source: how rows become events.
        records: how events are encoded.
        clock: the clock of the query.
        buckets: the number of buckets.
    """

    def __init__(
        self, source: EventSource, records: BucketRecords, clock: EventClock, buckets: int
    ) -> None:
        self._source = source
        self._records = records
        self._clock = clock
        self._buckets = buckets

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
        records = self._records
        orders = [order_integers(events.rows.column(name)) for name in more]
        rows = records.events.rows(events, orders)
        keys = [
            _plain_values(events.rows.column(field.name)).cast(field.type)
            for field in (records.keys if self._source.keys else ())
        ] or [pa.array(np.zeros(len(rows), np.int8))]
        of_rows = _buckets(keys, self._buckets)
        order = np.argsort(of_rows, kind="stable")
        times = self._clock.milliseconds(rows[:, 0])[order]
        starts = np.flatnonzero(np.diff(of_rows[order], prepend=-1))
        buckets = of_rows[order][starts]
        all_events = Waiting(rows, records.events.columns_of(events.rows)).take(order)
        keys = [column.take(pa.array(order)) for column in keys]
        blocks = [
            records.block([column.slice(start, end - start) for column in keys], part)
            for start, end, part in _parts(all_events, starts)
        ]
        latest = np.maximum.reduceat(times, starts)
        if not place and buckets[0]:
            buckets = np.append(buckets, 0)
            blocks.append(records.block([column[:0] for column in keys], all_events.take(_NONE)))
            latest = np.append(latest, latest.max())
        count = len(buckets)
        columns = [
            pa.array(buckets.astype(np.int32)),
            pa.array(np.full(count, task, np.int32)),
            pa.array(np.arange(place, place + count)),
            pa.array(blocks, pa.binary()),
            pa.array(latest * 1000).view(pa.timestamp("us", "UTC")),
        ]
        return pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])


_NONE = np.empty(0, np.int64)


def _parts(events: Waiting, starts: NDArray[np.int64]) -> Iterator[tuple[int, int, Waiting]]:
    """Yield the events of each bucket, with their first index and the index behind the last."""
    rows, columns = events
    ends = np.append(starts[1:], len(rows)).tolist()
    for start, end in zip(starts.tolist(), ends, strict=True):
        own = None if columns is None else columns.slice(start, end - start)
        yield start, end, Waiting(rows[start:end], own)


def _plain_values(column: pa.Array) -> pa.Array:
    """The values of a key column, of which equal ones have the same text: no negative zeros."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.add(column, pa.scalar(0.0, column.type))


def _buckets(columns: Sequence[pa.Array], count: int) -> NDArray[np.int64]:
    """The numbers of the buckets that the keys of rows belong to."""
    table = KeyTable(len(columns))
    numbers = number_rows(table, columns)
    hashes = (
        crc32("\0".join(table.key(number)).encode("utf-8", "surrogateescape"))
        for number in range(len(table))
    )
    of_keys = np.fromiter(hashes, np.int64, len(table)) % count
    return of_keys[numbers]
