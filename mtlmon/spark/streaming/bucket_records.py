"""What buckets of keys store and are sent: keys, events and states as bytes.

A bucket has many keys. A *block* has the events of a bucket among some rows of a batch. A journal
has two kinds of entries. A *segment* has what a bucket remembers of some of its keys; it replaces
what was known of these. A *step* has the events of a batch and the horizon: all that a bucket needs
to know to go on from what it remembers.
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

__all__ = ["NEVER", "BucketRecords", "KeyFacts", "Segment", "Step", "joined_parts", "split_parts"]

NEVER = 2**63 - 1
"""The time of what never comes."""

DAMAGED = "the state of the query is damaged"

_VERSION = 5
# version, number of policies, horizon of a step (-1: a segment)
_HEAD = struct.Struct("<BHq")
_SEGMENT = -1
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


class Step(NamedTuple):
    """What a bucket has taken in a batch.

    Attributes:
        horizon: the horizon.
        keys: the columns of the keys that had not been known.
        events: the events that were in time, in the order in which they came.
        owners: for each of these, the number of its key: keys are numbered in the order in which
            they came.
    """

    horizon: int
    keys: list[pa.Array]
    events: Waiting
    owners: NDArray[np.int64]


class BucketRecords(NamedTuple):
    """Encodes blocks, segments and steps; picklable.

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
        parts = [head.serialize(), self._owned(segment.waiting, segment.owners)]
        return self._encoded(_SEGMENT, len(segment.monitors), [*parts, *segment.monitors])

    def encode_step(self, step: Step) -> bytes:
        """Encode a step."""
        if not len(step.owners):
            return self._encoded(step.horizon, 0, [])
        keys = pa.RecordBatch.from_arrays(step.keys, schema=self.keys)
        parts = [keys.serialize(), self._owned(step.events, step.owners)]
        return self._encoded(step.horizon, 0, parts)

    def _encoded(self, horizon: int, policies: int, parts: Sequence[bytes | pa.Buffer]) -> bytes:
        return _HEAD.pack(_VERSION, policies, horizon) + self.settings + joined_parts(parts)

    def _owned(self, events: Waiting, owners: NDArray[np.int64]) -> pa.Buffer:
        return self.events_batch(events, [pa.array(owners.astype(np.uint32))], _OWNERS).serialize()

    def decode(self, content: bytes) -> Segment | Step:
        """Decode a segment or a step.

        Raises:
            SnapshotError: the bytes are something else, or belong to another version or to other
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
        _, policies, horizon = _HEAD.unpack_from(content)
        try:
            if horizon != _SEGMENT:
                return self._step(horizon, parts)
            if len(parts) != 2 + policies:
                raise SnapshotError(DAMAGED)
            return self._segment(parts[0], parts[1], parts[2:])
        except (pa.ArrowException, OSError, ValueError) as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None

    def _segment(self, head: bytes, waiting: bytes, monitors: list[bytes]) -> Segment:
        columns = pa.ipc.read_record_batch(head, self._facts).columns
        (owners,), events = self.read_events([waiting], _OWNERS)
        next_wakeup, settled_from, streams = columns[-len(_FACTS) :]
        facts = KeyFacts(np.asarray(next_wakeup), np.asarray(settled_from), streams)
        keys = columns[: len(self.keys)]
        return Segment(keys, facts, events, np.asarray(owners).astype(np.int64), monitors)

    def _step(self, horizon: int, parts: Sequence[bytes]) -> Step:
        keys = [pa.array([], kind) for kind in self.keys.types]
        owners, events = pa.array([], pa.uint32()), self.nothing
        if parts:
            head, content = parts
            keys = pa.ipc.read_record_batch(head, self.keys).columns
            (owners,), events = self.read_events([content], _OWNERS)
        return Step(horizon, keys, events, np.asarray(owners).astype(np.int64))

    @property
    def nothing(self) -> Waiting:
        """No events."""
        schema = self.events.schema
        columns = None if schema is None else pa.RecordBatch.from_pylist([], schema)
        return Waiting(np.empty((0, self.events.width), np.int64), columns)

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


_OWNERS = pa.schema([(_OWNER, pa.uint32())])


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
