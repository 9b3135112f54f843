"""The slices of policies with variables in a streaming query: their rows, and their states.

All rows of a slice in a batch are packed into one row first, since a streaming query passes rows to
the state of a slice one by one. A slice keeps rows until the watermark has passed them.
"""

from __future__ import annotations

import json
import struct
from hashlib import blake2b
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

from mtlmon.errors import SnapshotError
from mtlmon.relational.slicing.moving import record_of
from mtlmon.spark.common.atom_rows import ATOM, END, TIME
from mtlmon.spark.common.slice_monitors import SLICE, SliceMonitor
from mtlmon.spark.streaming.packing import EVENTS, LATEST, PLACE, TASK
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.spark.common.slice_monitors import SlicePlan, SliceSource
    from mtlmon.spark.streaming.event_clock import EventClock

__all__ = [
    "FIRST",
    "LATE",
    "PACKED",
    "RESULTS",
    "PackSlices",
    "SliceSettings",
    "SliceState",
    "UnpackSlices",
    "check_policy",
    "packed_rows",
    "slice_visit",
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

_DIGEST_BYTES = 16
_VERSION = 2
# version, generation, number of slices, batch, horizon, next wake-up and what has been told
# (-1: none)
_HEAD = struct.Struct("<BIIqQqq")
_NONE = -1
_PARTS = 5


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


class SliceSettings(NamedTuple):
    """What states depend on.

    Attributes:
        policy: a digest of the policies, and of the types of what they read.
        slicing: a digest of the plan of slices.
        record: the plan of slices, for `slicing_of`, as JSON. The state of the first slice has it.
    """

    policy: bytes
    slicing: bytes
    record: bytes

    @classmethod
    def of(cls, source: SliceSource) -> SliceSettings:
        """Return the settings of slices."""
        slicing = source.slicing()
        given = source.source
        policy = repr((given.file.text, given.schema, given.names)).encode()
        return cls(
            blake2b(policy, digest_size=_DIGEST_BYTES).digest(),
            slicing.digest(),
            json.dumps(record_of(slicing)).encode(),
        )


class SliceState(NamedTuple):
    """The state of a slice between two batches.

    Attributes:
        generation: how often the states of the query have been moved to other slices.
        slices: how many there are.
        batch: the number of the last batch with rows, in which all slices were visited.
        horizon: rows with time-stamps below it have been taken in.
        next_wakeup: the least horizon at which there is something to do without a new row, or
            None.
        told: a horizon up to which everything has been reported, by the slices that these states
            were to be moved to; the states are as before. Usually None.
        policy: `SliceSettings.policy`.
        slicing: `SliceSettings.slicing`.
        record: `SliceSettings.record`; empty if this is not the first slice.
        snapshot: the snapshot of the engine.
        waiting: the rows that wait, packed; empty if there are none.
    """

    generation: int
    slices: int
    batch: int
    horizon: int
    next_wakeup: int | None
    told: int | None
    policy: bytes
    slicing: bytes
    record: bytes
    snapshot: bytes
    waiting: bytes

    def encoded(self) -> bytes:
        """Encode the state as bytes."""
        head = _HEAD.pack(
            _VERSION,
            self.generation,
            self.slices,
            self.batch,
            self.horizon,
            _NONE if self.next_wakeup is None else self.next_wakeup,
            _NONE if self.told is None else self.told,
        )
        return head + joined_parts(
            (self.policy, self.slicing, self.record, self.snapshot, self.waiting)
        )

    @classmethod
    def decoded(cls, encoded: bytes) -> SliceState:
        """Decode a state.

        Raises:
            SnapshotError: the bytes are not those of a state of this version.
        """
        if len(encoded) < _HEAD.size or encoded[0] != _VERSION:
            raise _damaged()
        _, generation, slices, batch, horizon, wakeup, told = _HEAD.unpack_from(encoded)
        parts = split_parts(encoded[_HEAD.size :])
        if len(parts) != _PARTS:
            raise _damaged()
        return cls(
            generation,
            slices,
            batch,
            horizon,
            None if wakeup == _NONE else wakeup,
            None if told == _NONE else told,
            *parts,
        )


def _damaged() -> SnapshotError:
    return SnapshotError("the state of a slice is damaged, or of another version of mtlmon")


def check_policy(state: SliceState, settings: SliceSettings) -> None:
    """Check that a state is of the same policies.

    Raises:
        SnapshotError: it was made with others.
    """
    if state.policy != settings.policy:
        raise SnapshotError(
            "the state of the query was made with another policy, or from columns of other types: "
            "start the query with what it was made with, or give it a checkpointLocation of its own"
        )


def check_state(state: SliceState, slices: int, settings: SliceSettings) -> None:
    """Check that a state fits the query.

    Raises:
        SnapshotError: it was made with other slices or settings, or has to be moved.
    """
    check_policy(state, settings)
    if state.slicing == settings.slicing and state.told is None:
        return
    if state.slices != slices:
        what = f"slices={state.slices}, not {slices}"
    elif state.told is None:
        what = "other statistics"
    else:
        what = "slices that have begun to be others"
    raise SnapshotError(
        f"the state of the query was made with {what}: give its checkpointLocation to "
        "monitor_stream as well, as checkpoint=, so that it is moved to these slices"
    )


def slice_visit(
    planned: SlicePlan,
    settings: SliceSettings,
    number: int,
    state: SliceState | None,
    blocks: Sequence[bytes],
    horizon: int,
    batch: int,
) -> tuple[SliceState, list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Let a slice take the rows of a batch, and the time up to a horizon.

    Args:
        planned: what is known of the slices.
        settings: those of the slices.
        number: the number of the slice.
        state: its state, or None at first.
        blocks: its rows in this batch, packed.
        horizon: rows with time-stamps below it are late; no more of them come.
        batch: the number of the batch.

    Returns:
        The new state, the valuations that the slice reports, and the late rows.
    """
    monitor = SliceMonitor(planned, number)
    tables = [unpacked_rows(block) for block in blocks]
    late: list[pa.RecordBatch] = []
    if state is not None:
        check_state(state, planned.slices, settings)
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
    (rows_due,) = due.combine_chunks().to_batches() or [_nothing(planned)]
    found += monitor.pass_time(rows_due, horizon)
    wakeup = monitor.next_wakeup(horizon)
    if least is not None and (wakeup is None or least + 1 < wakeup):
        wakeup = least + 1
    after = SliceState(
        0 if state is None else state.generation,
        planned.slices,
        batch if blocks or state is None else state.batch,
        horizon,
        wakeup,
        None,
        settings.policy,
        settings.slicing,
        settings.record if number == 0 else b"",
        monitor.engine.snapshot(),
        waiting,
    )
    return after, found, late


def _nothing(planned: SlicePlan) -> pa.RecordBatch:
    schema = planned.columns.schema
    return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in schema], schema=schema)


class UnpackSlices:
    """Converts what slices report to rows of valuations and late rows; picklable.

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
