"""Packs the rows of a stream by buckets of keys before they are sent to the states of buckets.

Keys are divided into buckets by a hash of their texts, and monitors process arrays of events of
many keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.native import KeyTable
from mtlmon.spark.streaming.event_records import Waiting, order_integers
from mtlmon.spark.streaming.exchange import Block, Pack, grouped, read_events
from mtlmon.tables.columns.keys import number_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.event_clock import EventClock

BUCKET = "mtlmon_bucket"
"""The column with the number of a bucket."""


def key_types(keys: Sequence[str], schema: pa.Schema) -> pa.Schema:
    """Return the types of the columns of keys; without keys, a constant takes their place."""
    if not keys:
        return pa.schema([("no key", pa.int8())])
    return pa.schema([schema.field(name) for name in keys])


class PackRows(Pack):
    """Packs rows by the buckets of their keys.

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
        super().__init__(BUCKET, clock)
        self._source = source
        self._records = records
        self._buckets = buckets

    def _blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[Block]]:
        records = self._records
        is_first = True
        for events, more in read_events(self._source, batches):
            rows = records.events.rows(events, list(map(order_integers, more)))
            keys = [
                _plain_values(events.rows.column(field.name)).cast(field.type)
                for field in (records.keys if self._source.keys else ())
            ] or [pa.array(np.zeros(len(rows), np.int8))]
            every = Waiting(rows, records.events.columns_of(events.rows))
            times = self._clock.milliseconds(rows[:, 0])
            parts = list(grouped(_buckets(keys, self._buckets), times))
            if is_first and parts[0][0]:
                parts.append((0, np.empty(0, np.intp), int(times.max())))
            is_first = False
            yield [
                Block(
                    bucket,
                    records.block([one.take(pa.array(own)) for one in keys], every.take(own)),
                    latest,
                )
                for bucket, own, latest in parts
            ]


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
