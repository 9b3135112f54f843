"""What a streaming query returns whose verdicts late events correct: rows of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StringType, StructField, StructType

from mtlmon.errors import MtlmonError
from mtlmon.history.changes import DELETED, change_type
from mtlmon.spark.common.changelog import COLUMNS, OPERATIONS
from mtlmon.spark.common.trace_monitors import Found
from mtlmon.spark.common.verdicts import COLUMNS as VERDICT_COLUMNS
from mtlmon.spark.common.verdicts import LATE_ATOMS, POLICY, verdict_batches
from mtlmon.spark.streaming.bucket_host import BATCH, FINAL_BELOW, KIND, LATE, RECORDS
from mtlmon.spark.streaming.changes import verdicts_of
from mtlmon.spark.streaming.verdicts import UnpackResults, stream_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.spark.streaming.bucket_records import BucketRecords

__all__ = ["UnpackChanges", "changelog_schema"]


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
    """Converts the results of `BucketHost` to rows of `changelog_schema`; picklable.

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
        numbers = (pa.scalar(row[name], pa.int64()) for name in (BATCH, FINAL_BELOW))
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
        numbers = [pa.array([row[name]], pa.int64()) for name in (BATCH, FINAL_BELOW)]
        return _with_columns(batch, [pa.nulls(1, pa.string()), *numbers])


_TYPES = (pa.string(), pa.int64(), pa.int64())


def _with_columns(batch: pa.RecordBatch, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """Add the columns of a changelog."""
    for name, column in zip(COLUMNS, columns, strict=True):
        batch = batch.append_column(name, column)
    return batch
