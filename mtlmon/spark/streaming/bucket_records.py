"""What buckets of keys store and are sent: keys, events and states as bytes.

A bucket has many keys. A *block* has the events of a bucket among some rows of a batch. A journal
has two kinds of entries. A *segment* has what a bucket remembers of some of its keys: the facts
known about them, their waiting events, and for each policy the states of their monitors, as
`traces/snapshots` writes them. It replaces what was known of these keys. A *step* has the events of
a batch and the horizon: all that a bucket needs to know to go on from what it remembers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import SnapshotError
from mtlmon.spark.streaming.entries import DAMAGED, Entry
from mtlmon.spark.streaming.event_records import EventRecords, Waiting, one_batch
from mtlmon.spark.streaming.settings import check_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["NEVER", "BucketRecords", "KeyFacts", "Segment", "Step"]

NEVER = 2**63 - 1
"""The time of what never comes."""

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
            states of monitors, or `NEVER`: the streams are like those of a new key.
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
        horizon: events below it have been judged.
        keys: the columns of the keys.
        facts: what is known of the keys.
        waiting: the events that wait, in the order in which they came; before them those that may
            be judged again.
        owners: for each of these, the index of its key.
        monitors: the snapshots of the monitors of these keys, one for each policy; behind them what
            else is remembered where late events correct verdicts, as `LiveBucket` writes it.
    """

    horizon: int
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
        return _bytes(self.events_batch(events, list(keys), self.keys))

    def read_blocks(self, blocks: Sequence[bytes]) -> tuple[list[pa.Array], Waiting]:
        """Decode consecutive blocks: the columns of keys, and the events."""
        return self.read_events(blocks, self.keys)

    def encode(self, entry: Segment | Step) -> Entry:
        """Encode a segment or a step."""
        if isinstance(entry, Step):
            parts = []
            if len(entry.owners):
                keys = pa.RecordBatch.from_arrays(entry.keys, schema=self.keys)
                parts = [_bytes(keys), self._owned(entry.events, entry.owners)]
            return Entry(False, entry.horizon, self.settings, parts)
        facts = [pa.array(one) for one in entry.facts[:2]]
        columns = [*entry.keys, *facts, entry.facts.streams]
        head = pa.RecordBatch.from_arrays(columns, schema=self._facts)
        waiting = self._owned(entry.waiting, entry.owners)
        parts = [_bytes(head), waiting, *entry.monitors]
        return Entry(True, entry.horizon, self.settings, parts)

    def _owned(self, events: Waiting, owners: NDArray[np.int64]) -> bytes:
        return _bytes(self.events_batch(events, [pa.array(owners.astype(np.uint32))], _OWNERS))

    def decode(self, entry: Entry) -> Segment | Step:
        """Decode a segment or a step.

        Raises:
            SnapshotError: the entry belongs to other settings, or is damaged.
        """
        check_settings(entry.settings, self.settings)
        try:
            if not entry.is_state:
                return self._step(entry.horizon, entry.parts)
            head, waiting, *monitors = entry.parts
            return self._segment(entry.horizon, head, waiting, monitors)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None

    def _segment(self, horizon: int, head: bytes, waiting: bytes, monitors: list[bytes]) -> Segment:
        columns = pa.ipc.read_record_batch(head, self._facts).columns
        (owners,), events = self.read_events([waiting], _OWNERS)
        next_wakeup, settled_from, streams = columns[-len(_FACTS) :]
        facts = KeyFacts(np.asarray(next_wakeup), np.asarray(settled_from), streams)
        keys = columns[: len(self.keys)]
        owners = np.asarray(owners).astype(np.int64)
        return Segment(horizon, keys, facts, events, owners, monitors)

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


def _bytes(batch: pa.RecordBatch) -> bytes:
    found: bytes = batch.serialize().to_pybytes()
    return found
