"""What the state of the relations of a stream's rows is sent, as bytes: blocks of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.spark.streaming.event_records import one_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["RelationRecords"]


class RelationRecords(NamedTuple):
    """Encodes blocks; picklable.

    Rows have their time-stamps, then the columns that relations read; their order does not matter.

    Attributes:
        columns: these columns.
        settings: digests of the settings that states depend on.
    """

    columns: pa.Schema
    settings: bytes

    @property
    def schema(self) -> pa.Schema:
        """The columns of rows."""
        return pa.schema([pa.field("\0time-stamp", pa.int64()), *self.columns])

    def block(self, time_stamps: NDArray[np.int64], columns: Sequence[pa.Array]) -> bytes:
        """Encode rows by their time-stamps and other columns."""
        schema = self.schema
        arrays = [pa.array(np.ascontiguousarray(time_stamps, np.int64)), *columns]
        cast = [one.cast(kind) for one, kind in zip(arrays, schema.types, strict=True)]
        batch = pa.RecordBatch.from_arrays(cast, schema=schema)
        block: bytes = batch.serialize().to_pybytes()
        return block

    def read_blocks(self, blocks: Sequence[bytes]) -> pa.RecordBatch:
        """Decode consecutive blocks."""
        schema = self.schema
        batches = [pa.ipc.read_record_batch(pa.py_buffer(block), schema) for block in blocks]
        return one_batch(batches, schema)
