"""Converts the results of keys to columns: verdicts, and late events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError
from mtlmon.spark.common.trace_monitors import Found
from mtlmon.spark.common.verdicts import COLUMNS, MESSAGE, POLICY, verdict_batches, verdict_schema
from mtlmon.spark.streaming.processor import KIND, LATE, MESSAGES, RECORDS
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql.types import StructField, StructType

    from mtlmon.spark.streaming.event_records import EventRecords

LATE_ATOMS = "late"
"""The column with the atoms of a late event; null in rows of verdicts."""


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
                "before (DataFrame.withColumnRenamed)"
            )
    return schema.add(StructField(LATE_ATOMS, ArrayType(StringType(), False)))


class UnpackResults:
    """Converts the results of `KeyProcessor` to rows of `stream_schema`; picklable.

    It is a function for `mapInArrow`.

    Args:
        policies: the names of the policies.
        keys: the names of the key columns.
        records: how late events are encoded.
        has_messages: whether there is a column of messages.
    """

    def __init__(
        self,
        policies: Sequence[str | None],
        keys: Sequence[str],
        records: EventRecords,
        has_messages: bool,
    ) -> None:
        self._has_messages = has_messages
        self._policies = tuple(policies)
        self._keys = tuple(keys)
        self._records = records

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the verdicts and late events of a partition."""
        for batch in batches:
            kinds = np.asarray(batch.column(KIND))
            for kind in np.unique(kinds).tolist():
                part = batch.take(pa.array(np.flatnonzero(kinds == kind)))
                # without keys, leave out the constant that takes their place
                keys = dict(zip(self._keys, part.columns, strict=False))
                contents = part.column(RECORDS).to_pylist()
                if kind == LATE:
                    yield self._late(keys, contents)
                else:
                    lists = part.column(MESSAGES).to_pylist()
                    messages = [one for some in lists for one in some or ()]
                    owners = _owners(contents, verdict_type().itemsize)
                    found = Found(self._policies[kind], b"".join(contents), owners, messages)
                    for verdicts in verdict_batches(found, keys, has_messages=self._has_messages):
                        nothing = pa.nulls(verdicts.num_rows, pa.list_(pa.string()))
                        yield verdicts.append_column(LATE_ATOMS, nothing)

    def _late(self, keys: Mapping[str, pa.Array], contents: Sequence[bytes]) -> pa.RecordBatch:
        rows = self._records.read(contents)
        owners = pa.array(_owners(contents, 8 * self._records.width))
        columns = {
            **{name: pa.nulls(len(rows), pa.int64()) for name in COLUMNS},
            "time": pa.array(rows[:, 0]),
            "verdict": pa.nulls(len(rows), pa.bool_()),
        }
        return pa.RecordBatch.from_pydict(
            {
                POLICY: pa.nulls(len(rows), pa.string()),
                **{name: key.take(owners) for name, key in keys.items()},
                **columns,
                **({MESSAGE: pa.nulls(len(rows), pa.string())} if self._has_messages else {}),
                LATE_ATOMS: self._records.atom_lists(rows),
            }
        )


def _owners(contents: Sequence[bytes], size: int) -> NDArray[np.uint32]:
    """The index of the content that each record of `size` bytes comes from."""
    lengths = [len(content) // size for content in contents]
    return np.repeat(np.arange(len(contents), dtype=np.uint32), lengths)
