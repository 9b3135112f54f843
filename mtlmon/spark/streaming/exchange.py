"""How tasks and states exchange rows: many rows of a group as one, with bytes.

`transformWithState` passes rows to a state one by one, and pays several exchanges between Java and
Python for each state. So all rows of a group in a batch of rows are packed into one row, by a
`mapInArrow` before it; another one after it unpacks what the states say.

Packed rows do not have the watermark column, so Spark does not drop late rows; `lateness` says
which rows are taken in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

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

from mtlmon.spark.common.events import HIDDEN, EventReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.spark.common.events import Events, EventSource
    from mtlmon.spark.streaming.event_clock import EventClock

__all__ = [
    "ARRIVED",
    "EVENTS",
    "LATEST",
    "OF_RELATIONS",
    "PLACE",
    "RECORDS",
    "RESULTS",
    "TASK",
    "Block",
    "Pack",
    "Unpack",
    "grouped",
    "packed_rows",
    "read_events",
    "unpacked_rows",
]

TASK = "mtlmon_task"
"""The column with the number of the task that has packed a row."""

OF_RELATIONS = -1
"""What takes the place of the number of a task in a row with what relations tell buckets."""

PLACE = "mtlmon_place"
"""The column with the number of a row among those of its task."""

EVENTS = "mtlmon_events"
"""The column with the rows of a group, as bytes."""

LATEST = "mtlmon_latest"
"""The column with the time of the latest of these rows, on the clock of the query."""

RECORDS = "mtlmon_records"
"""The column with results: rows as a file of Arrow, without columns in which they are null."""

ARRIVED = "mtlmon_arrived"
"""The column with the latest time-stamp of all rows of earlier batches; null if there are none."""

RESULTS = StructType([StructField(RECORDS, BinaryType()), StructField(ARRIVED, LongType())])
"""The columns of results."""


class Block(NamedTuple):
    """Rows of a group.

    Attributes:
        group: its number.
        content: the rows.
        latest: the time of the latest of them, in milliseconds.
    """

    group: int
    content: bytes
    latest: int


class Pack(ABC):
    """Packs rows by group; picklable, a function for `mapInArrow`.

    Args:
        group: the column with the number of the group.
        clock: the clock of the query.
    """

    def __init__(self, group: str, clock: EventClock) -> None:
        self._clock = clock
        self.schema = StructType(
            [
                StructField(group, IntegerType()),
                StructField(TASK, IntegerType()),
                StructField(PLACE, LongType()),
                StructField(EVENTS, BinaryType()),
                StructField(LATEST, TimestampType()),
            ]
        )

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the packed rows of a partition.

        Raises:
            TableError: a row is not an event.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        place = 0
        for blocks in self._blocks(batches):
            groups, contents, latest = zip(*blocks, strict=True)
            columns = [
                pa.array(groups, pa.int32()),
                pa.repeat(pa.scalar(task, pa.int32()), len(blocks)),
                pa.array(range(place, place + len(blocks)), pa.int64()),
                pa.array(contents, pa.binary()),
                pa.array(np.array(latest, np.int64) * 1000).view(pa.timestamp("us", "UTC")),
            ]
            place += len(blocks)
            yield pa.RecordBatch.from_arrays(columns, self.schema.names)

    @abstractmethod
    def _blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Sequence[Block]]:
        """Yield the blocks of each batch that has any."""


def read_events(
    source: EventSource, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[Events, list[pa.Array]]]:
    """Yield the events of batches that have any, and the columns behind the selected ones."""
    reader = EventReader(source)
    names = source.selection.names
    try:
        for batch in batches:
            more = [f"{HIDDEN}{number}" for number in range(batch.num_columns - len(names))]
            events = reader.read(pa.RecordBatch.from_arrays(batch.columns, [*names, *more]))
            if events.rows.num_rows:
                yield events, [events.rows.column(name) for name in more]
    finally:
        reader.report()


def grouped(
    numbers: NDArray[np.integer], times: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.intp], int]]:
    """Yield each number, the places of its rows in their order, and the latest of their times."""
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    for places in np.split(order, starts[1:]):
        yield int(numbers[places[0]]), places, int(times[places].max())


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


class Unpack:
    """Converts results to rows; picklable, a function for `mapInArrow`.

    Args:
        schema: the columns of the rows, which are null where results lack them.
        has_arrival: whether the last column says when results were told.
    """

    def __init__(self, schema: pa.Schema, *, has_arrival: bool = False) -> None:
        self._schema = schema.serialize().to_pybytes()
        self._has_arrival = has_arrival

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        schema = pa.ipc.read_schema(pa.py_buffer(self._schema))
        for batch in batches:
            results = (batch.column(name).to_pylist() for name in (RECORDS, ARRIVED))
            for packed, arrived in zip(*results, strict=True):
                for part in unpacked_rows(packed).to_batches():
                    columns = [
                        part.column(field.name)
                        if field.name in part.schema.names
                        else pa.nulls(part.num_rows, field.type)
                        for field in schema
                    ]
                    if self._has_arrival:
                        told = pa.scalar(arrived, pa.int64())
                        columns[-1] = pa.repeat(told, part.num_rows)
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
