"""The slices of policies with variables in a streaming query: their rows, and their states.

All rows of a slice in a batch are packed into one row first, since a streaming query passes rows to
the state of a slice one by one. A slice keeps rows until the watermark has passed them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StructField,
    StructType,
    TimestampType,
)

from mtlmon.errors import SnapshotError
from mtlmon.spark.common.atom_rows import ATOM, END, TIME
from mtlmon.spark.common.slice_monitors import SLICE, SliceMonitor, SliceSource
from mtlmon.spark.streaming.packing import EVENTS, LATEST, PLACE, TASK
from mtlmon.spark.streaming.stateful import TimedProcessor, Visit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.spark.streaming.event_clock import EventClock

__all__ = [
    "FIRST",
    "LATE",
    "PACKED",
    "RESULTS",
    "PackSlices",
    "SliceProcessor",
    "SliceState",
    "UnpackSlices",
    "slice_visit",
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

_VERSION = 1
# version, number of slices, next wake-up (-1: never), bytes of the settings and of the snapshot
_HEAD = struct.Struct("<BIqIQ")
_NEVER = -1


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


class SliceState(NamedTuple):
    """The state of a slice between two batches.

    Attributes:
        slices: how many there are.
        settings: the bytes that tell settings on which the state depends.
        next_wakeup: the least horizon at which there is something to do without a new row, or
            None.
        snapshot: the snapshot of the engine.
        waiting: the rows that wait, packed; empty if there are none.
    """

    slices: int
    settings: bytes
    next_wakeup: int | None
    snapshot: bytes
    waiting: bytes

    def encoded(self) -> bytes:
        """Encode the state as bytes."""
        wakeup = _NEVER if self.next_wakeup is None else self.next_wakeup
        head = _HEAD.pack(_VERSION, self.slices, wakeup, len(self.settings), len(self.snapshot))
        return head + self.settings + self.snapshot + self.waiting

    @classmethod
    def decoded(cls, encoded: bytes) -> SliceState:
        """Decode a state.

        Raises:
            SnapshotError: the bytes are not those of a state of this version.
        """
        if len(encoded) < _HEAD.size or encoded[0] != _VERSION:
            raise SnapshotError("the state of a slice is damaged, or of another version of mtlmon")
        _, slices, wakeup, settings, snapshot = _HEAD.unpack_from(encoded)
        start = _HEAD.size + settings
        end = start + snapshot
        return cls(
            slices,
            encoded[_HEAD.size : start],
            None if wakeup == _NEVER else wakeup,
            encoded[start:end],
            encoded[end:],
        )


def check_state(state: SliceState, slices: int, settings: bytes) -> None:
    """Check that a state fits the query.

    Raises:
        SnapshotError: it was made with other slices or settings.
    """
    if state.slices != slices:
        raise SnapshotError(
            f"the state of the query was made with slices={state.slices}, not {slices}: start the "
            f"query with slices={state.slices}, or give it a checkpointLocation of its own"
        )
    if state.settings != settings:
        raise SnapshotError(
            "the state of the query was made with another policy, with other statistics, or from "
            "columns of other types: start the query with what it was made with, or give it a "
            "checkpointLocation of its own"
        )


def slice_visit(
    source: SliceSource,
    settings: bytes,
    number: int,
    state: SliceState | None,
    blocks: Sequence[bytes],
    horizon: int,
) -> tuple[SliceState, list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Let a slice take the rows of a batch, and the time up to a horizon.

    Args:
        source: how rows are sliced.
        settings: tells settings on which states depend.
        number: the number of the slice.
        state: its state, or None at first.
        blocks: its rows in this batch, packed.
        horizon: rows with time-stamps below it are late; no more of them come.

    Returns:
        The new state, the valuations that the slice reports, and the late rows.
    """
    monitor = SliceMonitor(source, number)
    tables = [unpacked_rows(block) for block in blocks]
    late: list[pa.RecordBatch] = []
    if state is not None:
        check_state(state, source.slices, settings)
        monitor.engine.restore(state.snapshot)
    for place, table in enumerate(tables):
        times = table.column(TIME).to_numpy()
        is_late = times < horizon
        if is_late.any():
            said = is_late & table.column(FIRST).to_numpy() & (table.column(ATOM).to_numpy() >= 0)
            late += table.filter(pa.array(said)).to_batches()
            tables[place] = table.filter(pa.array(~is_late))
    if state is not None and state.waiting:
        tables.insert(0, unpacked_rows(state.waiting))
    waiting = b""
    found: list[pa.RecordBatch] = []
    least: int | None = None
    due = pa.table({})
    if tables:
        rows = pa.concat_tables(tables)
        # marks of the end have said that the slice is to be visited
        rows = rows.filter(pa.array(rows.column(ATOM).to_numpy() != END))
        is_due = rows.column(TIME).to_numpy() < horizon
        due = rows.filter(pa.array(is_due)).sort_by(TIME)
        rest = rows.filter(pa.array(~is_due))
        if rest.num_rows:
            waiting = packed_rows(rest.combine_chunks().to_batches()[0])
            least = int(rest.column(TIME).to_numpy().min())
    (batch,) = due.combine_chunks().to_batches() or [_nothing(source)]
    found += monitor.pass_time(batch, horizon)
    # as soon as time has passed at all
    wakeup = horizon + 1 if monitor.is_waiting else None
    if least is not None and (wakeup is None or least + 1 < wakeup):
        wakeup = least + 1
    snapshot = monitor.engine.snapshot()
    return SliceState(source.slices, settings, wakeup, snapshot, waiting), found, late


def _nothing(source: SliceSource) -> pa.RecordBatch:
    schema = source.source.columns().schema
    return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in schema], schema=schema)


class SliceProcessor(TimedProcessor):
    """Monitors slices, whose states are in Spark's state store; picklable.

    Args:
        source: how rows are sliced.
        clock: the clock of the query.
        settings: tells settings on which states depend.
    """

    STATE_NAME = "slice"

    def __init__(self, source: SliceSource, clock: EventClock, settings: bytes) -> None:
        super().__init__(clock)
        self._source = source
        self._settings = settings

    def visit(
        self,
        key: tuple[object, ...],
        stored: Sequence[bytes],
        blocks: Sequence[bytes],
        horizon: int,
    ) -> Visit:
        (number,) = key
        assert isinstance(number, int)
        state = SliceState.decoded(stored[0]) if stored else None
        after, found, late = slice_visit(
            self._source, self._settings, number, state, blocks, horizon
        )
        rows = (Row(**{SLICE: number, RECORDS: packed_rows(part)}) for part in (*found, *late))
        wakeup_before = None if state is None else state.next_wakeup
        replaced = None if after == state else after.encoded()
        return Visit(wakeup_before, after.next_wakeup, None, replaced, rows)


class UnpackSlices:
    """Converts results of `SliceProcessor` to rows of valuations and late rows; picklable.

    It is a function for `mapInArrow`.

    Args:
        schema: the columns of valuations, to which that of late rows is added.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema.serialize().to_pybytes()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the valuations and late rows of a partition."""
        valuations = pa.ipc.read_schema(pa.py_buffer(self._schema))
        schema = late_schema(valuations)
        for batch in batches:
            for packed in batch.column(1).to_pylist():
                for part in unpacked_rows(packed).to_batches():
                    is_late = ATOM in part.schema.names
                    columns = []
                    for field in schema:
                        if is_late and field.name == LATE:
                            columns.append(part.column(ATOM))
                        elif field.name == TIME or (not is_late and field.name != LATE):
                            columns.append(part.column(field.name))
                        else:
                            columns.append(pa.nulls(part.num_rows, field.type))
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def late_schema(valuations: pa.Schema) -> pa.Schema:
    """The columns of valuations and late rows."""
    return valuations.append(pa.field(LATE, pa.int32()))
