"""What slices of a streaming query are sent, and what they report: rows as bytes.

All rows of a slice in a batch are packed into one row first, since a streaming query passes rows to
the state of a slice one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StructField,
    StructType,
    TimestampType,
)

from mtlmon.spark.common.atom_rows import ATOM, TIME
from mtlmon.spark.common.changelog import COLUMNS as CHANGES
from mtlmon.spark.common.slice_monitors import SLICE
from mtlmon.spark.streaming.packing import EVENTS, LATEST, PLACE, TASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtlmon.spark.streaming.event_clock import EventClock

__all__ = [
    "FIRST",
    "LATE",
    "PACKED",
    "RECORDS",
    "RESULTS",
    "PackSlices",
    "UnpackSlices",
    "packed_rows",
    "result_schema",
    "unpacked_rows",
]

FIRST = "first"
"""The column that is true for one of the copies of a row that go to slices."""

LATE = "late_atom"
"""The column with the number of the atom of a late row; null in rows of valuations."""

RECORDS = "mtlmon_records"
"""The column with valuations and late rows of a slice, as a file of Arrow."""

PACKED = StructType(
    [
        StructField(SLICE, IntegerType()),
        StructField(TASK, IntegerType()),
        StructField(PLACE, LongType()),
        StructField(EVENTS, BinaryType()),
        StructField(LATEST, TimestampType()),
    ]
)
RESULTS = StructType([StructField(SLICE, IntegerType()), StructField(RECORDS, BinaryType())])


class PackSlices:
    """Packs rows of atoms by slice; picklable, a function for `mapInArrow`.

    Args:
        clock: the clock of the query.
    """

    def __init__(self, clock: EventClock) -> None:
        self._clock = clock

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each slice of each batch."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        place = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            slices = np.asarray(batch.column(0))
            order = np.argsort(slices, kind="stable")
            starts = np.flatnonzero(np.diff(slices[order], prepend=-1))
            rows = batch.take(pa.array(order)).drop_columns([SLICE])
            times = self._clock.milliseconds(np.asarray(rows.column(TIME)))
            ends = [*starts[1:].tolist(), len(order)]
            parts = [
                packed_rows(rows.slice(start, end - start))
                for start, end in zip(starts.tolist(), ends, strict=True)
            ]
            latest = np.maximum.reduceat(times, starts) * 1000
            columns = [
                pa.array(slices[order][starts].astype(np.int32)),
                pa.array(np.full(len(starts), task, np.int32)),
                pa.array(np.arange(place, place + len(starts))),
                pa.array(parts, pa.binary()),
                pa.array(latest).view(pa.timestamp("us", "UTC")),
            ]
            place += len(starts)
            yield pa.RecordBatch.from_arrays(columns, [field.name for field in PACKED])


def packed_rows(batch: pa.RecordBatch) -> bytes:
    """Return rows as bytes, for `unpacked_rows`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked_rows(packed: bytes) -> pa.Table:
    """Return rows that `packed_rows` has packed."""
    return pa.ipc.open_stream(pa.py_buffer(packed)).read_all()


class UnpackSlices:
    """Converts what slices report to rows of valuations and late rows; picklable.

    It is a function for `mapInArrow`.

    Args:
        schema: the columns of the rows, as `result_schema` returns them.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema.serialize().to_pybytes()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the valuations and late rows of a partition."""
        schema = pa.ipc.read_schema(pa.py_buffer(self._schema))
        for batch in batches:
            for packed in batch.column(1).to_pylist():
                for part in unpacked_rows(packed).to_batches():
                    is_late = ATOM in part.schema.names
                    own = {TIME} if is_late else {*part.schema.names}
                    columns = []
                    for field in schema:
                        if is_late and field.name == LATE:
                            columns.append(part.column(ATOM))
                        elif field.name in own:
                            columns.append(part.column(field.name))
                        else:
                            columns.append(pa.nulls(part.num_rows, field.type))
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def result_schema(valuations: pa.Schema, *, has_changes: bool = False) -> pa.Schema:
    """Return the columns of valuations, of late rows and, if there are any, of changes."""
    schema = valuations.append(pa.field(LATE, pa.int32()))
    if has_changes:
        for name, kind in zip(CHANGES, (pa.string(), pa.int64(), pa.int64()), strict=True):
            schema = schema.append(pa.field(name, kind))
    return schema
