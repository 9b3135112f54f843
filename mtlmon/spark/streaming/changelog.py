"""A streaming query whose verdicts late events correct: its processor, and the rows it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from mtlmon.engine.pending import decision_delay
from mtlmon.errors import MtlmonError
from mtlmon.history.changes import DELETED, change_type
from mtlmon.spark.common.changelog import COLUMNS, OPERATIONS
from mtlmon.spark.common.trace_monitors import Found
from mtlmon.spark.common.verdicts import COLUMNS as VERDICT_COLUMNS
from mtlmon.spark.common.verdicts import LATE_ATOMS, POLICY, verdict_batches
from mtlmon.spark.streaming.bucket_state import BucketMonitors
from mtlmon.spark.streaming.changes import verdicts_of
from mtlmon.spark.streaming.past_records import Past
from mtlmon.spark.streaming.processor import KIND, LATE, RECORDS, RESULTS, BucketProcessor
from mtlmon.spark.streaming.stateful import Visit, batch_number
from mtlmon.spark.streaming.stream_corrections import StreamCorrections
from mtlmon.spark.streaming.verdicts import UnpackResults, stream_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

    from mtlmon.spark.common.events import EventSource
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.bucket_state import Outcome
    from mtlmon.spark.streaming.event_clock import EventClock
    from mtlmon.spark.streaming.journal import Journal
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors

__all__ = ["CHANGES", "ChangelogProcessor", "UnpackChanges", "changelog_schema"]

_BATCH = "mtlmon_batch"
"""The column with the number of the batch."""

_FINAL_BELOW = "mtlmon_final_below"
"""The column with the time-stamp below which verdicts are final; null if there is none."""

CHANGES = StructType(
    [*RESULTS, StructField(_BATCH, LongType()), StructField(_FINAL_BELOW, LongType())]
)
"""The columns of results, which are records of changes; null ones only say what is final."""

_NAME = StructType([StructField("batch", LongType()), StructField("horizon", LongType())])
_PAST = StructType([StructField("past", BinaryType())])
_TOLD = StructType([StructField("horizon", LongType())])


class _Store:
    """The past batches of the present bucket in Spark's state store."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def names(self) -> list[tuple[int, int]]:
        found = self._state.keys()
        return [(number, horizon) for number, horizon in found]

    def get(self, name: tuple[int, int]) -> bytes:
        found = self._state.getValue(name)
        assert found is not None
        return bytes(found[0])

    def put(self, name: tuple[int, int], content: bytes) -> None:
        self._state.updateValue(name, (content,))

    def remove(self, name: tuple[int, int]) -> None:
        self._state.removeKey(name)


class ChangelogProcessor(BucketProcessor):
    """Monitors buckets of keys and corrects verdicts; picklable.

    Bucket 0 also says what is final, whenever the horizon has moved.

    Args:
        policies: the policies to monitor.
        records: how blocks and segments are encoded.
        clock: the clock of the query.
        lateness: how far below the horizon events are taken in.
        source: how rows become events, if there are streams; else None.
    """

    def __init__(
        self,
        policies: Policies,
        records: BucketRecords,
        clock: EventClock,
        lateness: int,
        source: EventSource | None = None,
    ) -> None:
        super().__init__(policies, records, clock, source)
        self._lateness = lateness
        self._delays = [
            decision_delay(one.program.rows, one.program.root) for one in policies.policies
        ]

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._past = _Store(handle.getMapState("past", _NAME, _PAST))
        self._told = handle.getValueState("told", _TOLD)

    def _bucket_monitors(self, shared: SharedMonitors) -> BucketMonitors:
        if self._streams is None:
            return BucketMonitors(self._policies, self._records, shared, is_corrected=True)
        return StreamCorrections(
            self._policies, self._records, shared, self._streams, self._lateness
        )

    def visit(
        self,
        key: tuple[object, ...],
        journal: Journal,
        blocks: Sequence[bytes],
        horizon: int,
    ) -> Visit:
        if journal.head is None and not blocks:
            # a bucket without keys hears of relations
            return Visit(None, None, None, ())
        number = batch_number()
        admitted_from = max(0, horizon - self._lateness)
        past = None
        if self._streams is None:
            past = Past(self._past, number, admitted_from)
        found = self._monitors.visit(journal, blocks, horizon, past)
        bounds = [
            admitted_from - one if one is not None and one < admitted_from else None
            for one in self._delays
        ]
        rows = list(self._changes(found, number, bounds))
        wakeup = found.wakeup
        if key == (0,):
            told = self._told.get()
            if told is None or told[0] < horizon:
                rows += self._final(number, bounds)
                self._told.update((horizon,))
            wakeup = _sooner(wakeup, horizon + 1)
        return Visit(wakeup, found.appended, found.folded, rows, found.live)

    def _changes(
        self, outcome: Outcome, number: int, bounds: Sequence[int | None]
    ) -> Iterator[Row]:
        for row in self._rows(outcome):
            bound = None if row[KIND] == LATE else bounds[row[KIND]]
            yield Row(**row.asDict(), **{_BATCH: number, _FINAL_BELOW: bound})

    def _final(self, number: int, bounds: Sequence[int | None]) -> Iterator[Row]:
        nothing = dict.fromkeys(RESULTS.names)
        for policy, bound in enumerate(bounds):
            if bound is not None:
                yield Row(**{**nothing, KIND: policy, _BATCH: number, _FINAL_BELOW: bound})


def _sooner(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


def changelog_schema(keys: Sequence[StructField]) -> StructType:
    """Return the columns of a changelog: those of a stream, and those of changes.

    Raises:
        MtlmonError: a key column has the same name as another column.
    """
    schema = stream_schema(keys)
    for field in keys:
        if field.name.lower() in COLUMNS:
            raise MtlmonError(
                f"the key column {field.name!r} is called like a column of changes: rename it "
                "first (DataFrame.withColumnRenamed)"
            )
    for name, kind in zip(COLUMNS, (StringType(), LongType(), LongType()), strict=True):
        schema = schema.add(StructField(name, kind))
    return schema


class UnpackChanges(UnpackResults):
    """Converts the results of `ChangelogProcessor` to rows of `changelog_schema`; picklable.

    Args:
        policies: the names of the policies.
        keys: the key columns.
        records: how keys and late events are encoded.
    """

    def __init__(
        self,
        policies: Sequence[str | None],
        keys: Sequence[StructField],
        records: BucketRecords,
    ) -> None:
        names = [field.name for field in keys]
        super().__init__(policies, names, records, has_messages=False)

    def _unpacked(self, row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        if row[RECORDS] is None:
            yield self._bound(row)
            return
        if row[KIND] == LATE:
            for late in super()._unpacked(row):
                nothing = [pa.nulls(late.num_rows, kind) for kind in _TYPES]
                yield _with_columns(late, nothing)
            return
        keys, owners = self._keys_of(row)
        changes = np.frombuffer(row[RECORDS], change_type())
        found = Found(self._policies[row[KIND]], verdicts_of(changes).tobytes(), owners)
        start = 0
        for verdicts in verdict_batches(found, keys):
            part = changes[start : start + verdicts.num_rows]
            start += len(part)
            yield self._changes(row, part, verdicts)

    def _changes(
        self, row: Mapping[str, Any], changes: NDArray[np.void], verdicts: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Verdicts, of which some are deleted, with what has happened to them."""
        count = len(changes)
        is_deleted = pa.array(changes["operation"] == DELETED)
        place = verdicts.schema.get_field_index("verdict")
        values = pc.if_else(is_deleted, pa.scalar(None, pa.bool_()), verdicts.column(place))
        verdicts = verdicts.set_column(place, "verdict", values)
        verdicts = verdicts.append_column(LATE_ATOMS, pa.nulls(count, pa.list_(pa.string())))
        operations = pa.array(OPERATIONS, pa.string()).take(pa.array(changes["operation"]))
        numbers = (pa.scalar(row[name], pa.int64()) for name in (_BATCH, _FINAL_BELOW))
        return _with_columns(verdicts, [operations, *(pa.repeat(one, count) for one in numbers)])

    def _bound(self, row: Mapping[str, Any]) -> pa.RecordBatch:
        """The row that says below which time the verdicts of a policy are final."""
        keys = self._records.keys
        columns = {
            POLICY: pa.array([self._policies[row[KIND]]], pa.string()),
            **{name: pa.nulls(1, keys.field(name).type) for name in self._keys},
            **{name: pa.nulls(1, pa.int64()) for name in VERDICT_COLUMNS},
            "verdict": pa.nulls(1, pa.bool_()),
            LATE_ATOMS: pa.nulls(1, pa.list_(pa.string())),
        }
        batch = pa.RecordBatch.from_pydict(columns)
        numbers = [pa.array([row[name]], pa.int64()) for name in (_BATCH, _FINAL_BELOW)]
        return _with_columns(batch, [pa.nulls(1, pa.string()), *numbers])


_TYPES = (pa.string(), pa.int64(), pa.int64())


def _with_columns(batch: pa.RecordBatch, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """Add the columns of a changelog."""
    for name, column in zip(COLUMNS, columns, strict=True):
        batch = batch.append_column(name, column)
    return batch
