"""What buckets of keys store and are sent: keys, events and states as bytes.

A bucket has many keys. A *block* has the events of a bucket among some rows of a batch, and a
*segment* what a bucket remembers of some of its keys. What a later segment says of a key replaces
what earlier ones have said.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import SnapshotError
from mtlmon.spark.streaming.event_records import EventRecords, Waiting, one_batch
from mtlmon.spark.streaming.settings import check_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["NEVER", "BucketRecords", "KeyFacts", "Segment", "joined_parts", "split_parts"]

NEVER = 2**63 - 1
"""The time of what never comes."""

DAMAGED = "the state of the query is damaged"

_VERSION = 4
# version, number of policies
_HEAD = struct.Struct("<BH")
_LENGTH = struct.Struct("<Q")
_OWNER = "owner"
_ROW = "row"
_FACTS = pa.schema(
    [("next_wakeup", pa.int64()), ("settled_from", pa.int64()), ("streams", pa.large_binary())]
)


class KeyFacts(NamedTuple):
    """What is known of keys, in arrays with an item for each.

    Attributes:
        next_wakeup: the least horizon at which there is something to do without a new event, or
            `NEVER`.
        settled_from: the least horizon from which on the key's past makes no difference beside the
            states of monitors, or `NEVER`: the streams are like those of a new key. Where events
            may come late, it is the horizon up to which the key has been judged.
        streams: the snapshots of the streams; empty if they are like those of a new key.
    """

    next_wakeup: NDArray[np.int64]
    settled_from: NDArray[np.int64]
    streams: pa.Array

    def take(self, places: NDArray[np.int64]) -> KeyFacts:
        """Return what is known of some keys."""
        streams = self.streams.take(pa.array(places))
        return KeyFacts(self.next_wakeup[places], self.settled_from[places], streams)


class Segment(NamedTuple):
    """What a bucket remembers of some keys.

    Attributes:
        keys: the columns of the keys.
        facts: what is known of the keys.
        waiting: the events that wait, in the order in which they came.
        owners: for each of these, the index of its key.
        monitors: the snapshots of the monitors of these keys, one for each policy.
    """

    keys: list[pa.Array]
    facts: KeyFacts
    waiting: Waiting
    owners: NDArray[np.int64]
    monitors: list[bytes]


class BucketRecords(NamedTuple):
    """Encodes blocks and segments; picklable.

    Attributes:
        events: how events are encoded.
        keys: the types of the key columns; one constant takes the place of no keys.
        settings: digests of the settings that states depend on.
    """

    events: EventRecords
    keys: pa.Schema
    settings: bytes

    def block(self, keys: Sequence[pa.Array], events: Waiting) -> bytes:
        """Encode events, each with the values of its key."""
        block: bytes = self.events_batch(events, list(keys), self.keys).serialize().to_pybytes()
        return block

    def read_blocks(self, blocks: Sequence[bytes]) -> tuple[list[pa.Array], Waiting]:
        """Decode consecutive blocks: the columns of keys, and the events."""
        return self.read_events(blocks, self.keys)

    def encode(self, segment: Segment) -> bytes:
        """Encode a segment."""
        facts = [pa.array(one) for one in segment.facts[:2]]
        columns = [*segment.keys, *facts, segment.facts.streams]
        head = pa.RecordBatch.from_arrays(columns, schema=self._facts)
        owners = pa.array(segment.owners)
        waiting = self.events_batch(segment.waiting, [owners], _OWNERS)
        encoded = _HEAD.pack(_VERSION, len(segment.monitors)) + self.settings
        return encoded + joined_parts([head.serialize(), waiting.serialize(), *segment.monitors])

    def decode(self, content: bytes) -> Segment:
        """Decode a segment.

        Raises:
            SnapshotError: the bytes are not a segment, or belong to another version or to other
                settings.
        """
        version = content[0] if content else None
        if version != _VERSION:
            raise SnapshotError(
                f"the state of the query is of version {version}, this is {_VERSION}: it was made "
                "by another version of mtlmon and needs a checkpointLocation of its own"
            )
        start = _HEAD.size + len(self.settings)
        check_settings(content[_HEAD.size : start], self.settings)
        parts = split_parts(content, start)
        if len(parts) != 2 + _HEAD.unpack_from(content)[1]:
            raise SnapshotError(DAMAGED)
        head, waiting, *monitors = parts
        try:
            columns = pa.ipc.read_record_batch(head, self._facts).columns
            (owners,), events = self.read_events([waiting], _OWNERS)
        except (pa.ArrowException, OSError) as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None
        next_wakeup, settled_from, streams = columns[-len(_FACTS) :]
        facts = KeyFacts(np.asarray(next_wakeup), np.asarray(settled_from), streams)
        keys = columns[: len(self.keys)]
        return Segment(keys, facts, events, np.asarray(owners), monitors)

    @property
    def _facts(self) -> pa.Schema:
        return pa.schema([*self.keys, *_FACTS])

    def _schema(self, before: pa.Schema) -> pa.Schema:
        row = pa.field(_ROW, pa.binary(8 * self.events.width))
        return pa.schema([*before, row, *(self.events.schema or ())])

    def events_batch(
        self, events: Waiting, before: list[pa.Array], schema: pa.Schema
    ) -> pa.RecordBatch:
        """Return events with other columns before them, which have this schema."""
        count = len(events.rows)
        buffer = pa.py_buffer(np.ascontiguousarray(events.rows))
        kind = pa.binary(8 * self.events.width)
        rows = pa.Array.from_buffers(kind, count, [None, buffer])
        more = [] if events.columns is None else events.columns.columns
        return pa.RecordBatch.from_arrays([*before, rows, *more], schema=self._schema(schema))

    def read_events(
        self, blocks: Sequence[bytes], before: pa.Schema
    ) -> tuple[list[pa.Array], Waiting]:
        """Decode consecutive batches of `events_batch`: the columns before, and the events."""
        schema = self._schema(before)
        batches = [pa.ipc.read_record_batch(pa.py_buffer(block), schema) for block in blocks]
        batch = one_batch(batches, schema)
        columns = None
        if self.events.schema is not None:
            more = batch.columns[len(before) + 1 :]
            columns = pa.RecordBatch.from_arrays(more, schema=self.events.schema)
        rows = batch.column(len(before))
        found = np.empty((0, self.events.width), np.int64)
        if len(rows):
            size = 8 * self.events.width
            content = rows.buffers()[1][rows.offset * size : (rows.offset + len(rows)) * size]
            found = np.frombuffer(content, np.int64).reshape(-1, self.events.width)
        return batch.columns[: len(before)], Waiting(found, columns)


_OWNERS = pa.schema([(_OWNER, pa.int64())])


def joined_parts(parts: Sequence[bytes | pa.Buffer]) -> bytes:
    """Join parts, each with its length before it."""
    return b"".join(piece for part in parts for piece in (_LENGTH.pack(len(part)), part))


def split_parts(content: bytes, start: int = 0) -> list[bytes]:
    """Split the result of `joined_parts`, which begins somewhere in some bytes.

    Raises:
        SnapshotError: the bytes are something else.
    """
    parts = []
    while start + _LENGTH.size <= len(content):
        (length,) = _LENGTH.unpack_from(content, start)
        start += _LENGTH.size + length
        parts.append(content[start - length : start])
    if start != len(content):
        raise SnapshotError(DAMAGED)
    return parts
