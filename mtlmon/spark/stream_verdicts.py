"""What the states of keys give, as columns: verdicts, and events that came too late."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import MtlmonError
from mtlmon.spark.stream_processor import KIND, LATE, RECORDS
from mtlmon.spark.verdicts import COLUMNS, verdict_batches, verdict_schema
from mtlmon.verdict_arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructField, StructType

    from mtlmon.spark.event_records import EventRecords

LATE_ATOMS = "late"
"""The column of the atoms of a late event; null in rows of verdicts."""


def stream_schema(keys: Sequence[StructField]) -> StructType:
    """The columns of verdicts and late events.

    Raises:
        MtlmonError: a key is called like one of the others.
    """
    from pyspark.sql.types import ArrayType, StringType, StructField

    schema = verdict_schema(keys)
    for field in keys:
        if field.name.lower() == LATE_ATOMS:
            raise MtlmonError(
                f"the key column {field.name!r} is called like a column of verdicts: rename it "
                "before (DataFrame.withColumnRenamed)"
            )
    return schema.add(StructField(LATE_ATOMS, ArrayType(StringType(), False)))


class UnpackResults(NamedTuple):
    """From what `KeyProcessor` gives to the rows of `stream_schema`; picklable, for `mapInArrow`.

    Attributes:
        names: of the policies.
        key_count: how many columns at the front are keys and of the result.
        records: how late events are bytes.
    """

    names: tuple[str | None, ...]
    key_count: int
    records: EventRecords

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The verdicts and late events of a partition."""
        for batch in batches:
            kinds = np.asarray(batch.column(KIND))
            for kind in np.unique(kinds).tolist():
                part = batch.take(pa.array(np.flatnonzero(kinds == kind)))
                keys = part.columns[: self.key_count]
                contents = part.column(RECORDS).to_pylist()
                if kind == LATE:
                    yield from self._late(keys, contents)
                else:
                    yield from self._verdicts(self.names[kind], keys, contents)

    def _verdicts(
        self, name: str | None, keys: Sequence[pa.Array], contents: Sequence[bytes]
    ) -> Iterator[pa.RecordBatch]:
        owners = _owners(contents, verdict_type().itemsize)
        for batch in verdict_batches(name, keys, b"".join(contents), owners):
            nothing = pa.nulls(batch.num_rows, pa.list_(pa.string()))
            yield _batch([*batch.columns, nothing])

    def _late(
        self, keys: Sequence[pa.Array], contents: Sequence[bytes]
    ) -> Iterator[pa.RecordBatch]:
        rows = self.records.read(contents)
        owners = pa.array(_owners(contents, 8 * self.records.width))
        integers, booleans = pa.nulls(len(rows), pa.int64()), pa.nulls(len(rows), pa.bool_())
        known = {"time": pa.array(rows[:, 0]), "verdict": booleans}
        yield _batch(
            [
                pa.nulls(len(rows), pa.string()),
                *(key.take(owners) for key in keys),
                *(known.get(name, integers) for name in COLUMNS),
                self.records.atom_lists(rows),
            ]
        )


def _owners(contents: Sequence[bytes], size: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """For each record, of so many bytes, the place of its bytes."""
    lengths = [len(content) // size for content in contents]
    return np.repeat(np.arange(len(contents), dtype=np.uint32), lengths)


def _batch(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])
