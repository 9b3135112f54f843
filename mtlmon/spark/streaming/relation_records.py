"""What the state of the relations of a stream's rows stores and is sent, as bytes.

A *block* has some rows of a batch. A journal has two kinds of entries. A *segment* has what the
relations remember, and the rows that wait. A *step* has the rows of a batch and the horizon.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import SnapshotError
from mtlmon.spark.streaming.bucket_records import DAMAGED
from mtlmon.spark.streaming.event_records import one_batch
from mtlmon.spark.streaming.settings import check_settings
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["RelationRecords", "RelationSegment", "RelationStep"]

_VERSION = 1
# version, whether it is a segment, horizon
_HEAD = struct.Struct("<B?q")


class RelationSegment(NamedTuple):
    """What relations remember.

    Attributes:
        horizon: all rows below it have been taken in.
        waiting: the rows that wait, in the order in which they came.
        relations: the snapshots of the relations.
    """

    horizon: int
    waiting: pa.RecordBatch
    relations: list[bytes]


class RelationStep(NamedTuple):
    """What relations have taken in a batch.

    Attributes:
        horizon: the horizon.
        rows: the rows that were in time, in the order in which they came.
    """

    horizon: int
    rows: pa.RecordBatch


class RelationRecords(NamedTuple):
    """Encodes blocks, segments and steps; picklable.

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

    @property
    def nothing(self) -> pa.RecordBatch:
        """No rows."""
        return pa.RecordBatch.from_pylist([], self.schema)

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

    def encode(self, entry: RelationSegment | RelationStep) -> bytes:
        """Encode an entry of a journal."""
        is_segment = isinstance(entry, RelationSegment)
        snapshots = entry.relations if isinstance(entry, RelationSegment) else []
        parts = [entry[1].serialize().to_pybytes(), *snapshots]
        head = _HEAD.pack(_VERSION, is_segment, entry.horizon)
        return head + self.settings + joined_parts(parts)

    def decode(self, content: bytes) -> RelationSegment | RelationStep:
        """Decode an entry of a journal.

        Raises:
            SnapshotError: the bytes are something else, or belong to another version or to other
                settings.
        """
        version = content[0] if content else None
        if version != _VERSION:
            raise SnapshotError(
                f"the state of the relations is of version {version}, this is {_VERSION}: it was "
                "made by another version of mtlmon and needs a checkpointLocation of its own"
            )
        start = _HEAD.size + len(self.settings)
        check_settings(content[_HEAD.size : start], self.settings)
        _, is_segment, horizon = _HEAD.unpack_from(content)
        parts = split_parts(content[start:])
        try:
            rows = pa.ipc.read_record_batch(parts[0], self.schema)
        except (pa.ArrowException, OSError, ValueError, IndexError) as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None
        if is_segment:
            return RelationSegment(horizon, rows, parts[1:])
        return RelationStep(horizon, rows)
