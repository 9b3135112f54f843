"""Converts the results of buckets to columns: verdicts, and late events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError
from mtlmon.spark.common.trace_monitors import Found
from mtlmon.spark.common.verdicts import (
    COLUMNS,
    LATE_ATOMS,
    MESSAGE,
    POLICY,
    verdict_batches,
    verdict_schema,
)
from mtlmon.spark.streaming.bucket_host import KEYS, KIND, LATE, MESSAGES, OWNERS, RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql.types import StructField, StructType

    from mtlmon.spark.streaming.bucket_records import BucketRecords


def stream_schema(keys: Sequence[StructField], *, has_messages: bool = False) -> StructType:
    """Return the columns of verdicts and late events.

    Raises:
        MtlmonError: a key column has the same name as another column.
    """
    from pyspark.sql.types import ArrayType, StringType, StructField

    schema = verdict_schema(keys, has_messages=has_messages)
    for field in keys:
        if field.name.lower() == LATE_ATOMS:
            raise MtlmonError(
                f"the key column {field.name!r} is called like a column of verdicts: rename it "
                "first (DataFrame.withColumnRenamed)"
            )
    return schema.add(StructField(LATE_ATOMS, ArrayType(StringType(), False)))


class UnpackResults:
    """Converts the results of `BucketHost` to rows of `stream_schema`; picklable.

    It is a function for `mapInArrow`.

    Args:
        policies: the names of the policies.
        keys: the names of the key columns.
        records: how keys and late events are encoded.
        has_messages: whether there is a column of messages.
    """

    def __init__(
        self,
        policies: Sequence[str | None],
        keys: Sequence[str],
        records: BucketRecords,
        has_messages: bool,
    ) -> None:
        self._has_messages = has_messages
        self._policies = tuple(policies)
        self._keys = tuple(keys)
        self._records = records

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the verdicts and late events of a partition."""
        for batch in batches:
            for row in batch.to_pylist():
                yield from self._unpacked(row)

    def _unpacked(self, row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """The verdicts or late events of one result."""
        keys, owners = self._keys_of(row)
        if row[KIND] == LATE:
            yield self._late(keys, owners, row[RECORDS])
            return
        messages = row[MESSAGES] or ()
        found = Found(self._policies[row[KIND]], row[RECORDS], owners, messages)
        for verdicts in verdict_batches(found, keys, has_messages=self._has_messages):
            nothing = pa.nulls(verdicts.num_rows, pa.list_(pa.string()))
            yield verdicts.append_column(LATE_ATOMS, nothing)

    def _keys_of(self, row: Mapping[str, Any]) -> tuple[dict[str, pa.Array], NDArray[np.uint32]]:
        """The key columns of a result, and for each record the index of its key."""
        columns = pa.ipc.read_record_batch(row[KEYS], self._records.keys).columns
        # without keys, leave out the constant that takes their place
        keys = dict(zip(self._keys, columns, strict=False))
        return keys, np.frombuffer(row[OWNERS], np.uint32)

    def _late(
        self, keys: Mapping[str, pa.Array], owners: NDArray[np.uint32], content: bytes
    ) -> pa.RecordBatch:
        rows = self._records.events.read(content)
        columns = {
            **{name: pa.nulls(len(rows), pa.int64()) for name in COLUMNS},
            "time": pa.array(rows[:, 0]),
            "verdict": pa.nulls(len(rows), pa.bool_()),
        }
        return pa.RecordBatch.from_pydict(
            {
                POLICY: pa.nulls(len(rows), pa.string()),
                **{name: key.take(pa.array(owners)) for name, key in keys.items()},
                **columns,
                **({MESSAGE: pa.nulls(len(rows), pa.string())} if self._has_messages else {}),
                LATE_ATOMS: self._records.events.atom_lists(rows),
            }
        )
