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
from mtlmon.spark.streaming.event_records import EventRecords, Waiting, joined, one_batch
from mtlmon.spark.streaming.settings import check_settings
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["NEVER", "STORED", "BucketRecords", "Segment"]

NEVER = 2**63 - 1
"""The time of what never comes."""

STORED = pa.schema(
    [("next_wakeup", pa.int64()), ("settled_from", pa.int64()), ("streams", pa.large_binary())]
)
"""What is stored of a key.

`next_wakeup` is the least horizon at which there is something to do without a new event, or
`NEVER`; and `settled_from` the least one from which on the key's past makes no difference beside
the states of monitors: the streams are like those of a new key. `streams` is their snapshot; it is
empty if they are like those of a new key.
"""


class Segment(NamedTuple):
    """What a bucket remembers of some keys; or a step: what it has taken in a batch.

    Attributes:
        horizon: events below it have been judged.
        keys: the columns of the keys; in a step, of those that had not been known.
        events: the events that wait, in the order in which they came; before them those that may
            be judged again. In a step, those that were in time.
        owners: for each of these, the index of its key. In a step, keys are numbered in the order
            in which they came.
        facts: the columns of what is known of the keys, `STORED`; none in a step.
        monitors: the snapshots of the monitors of these keys, one for each policy; behind them what
            else is remembered where late events correct verdicts, as `LiveBucket` writes it. None
            in a step.
    """

    horizon: int
    keys: list[pa.Array]
    events: Waiting
    owners: NDArray[np.int64]
    facts: Sequence[pa.Array] = ()
    monitors: Sequence[bytes] = ()


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
        head = pa.RecordBatch.from_arrays(list(keys), schema=self.keys)
        return joined_parts([_bytes(head), *self.events.encode(events)])

    def read_blocks(self, blocks: Sequence[bytes]) -> tuple[list[pa.Array], Waiting]:
        """Decode consecutive blocks: the columns of keys, and the events."""
        keys, events = [], [self.events.nothing]
        for head, *parts in map(split_parts, blocks):
            keys.append(pa.ipc.read_record_batch(pa.py_buffer(head), self.keys))
            events.append(self.events.decode(parts, keys[-1].num_rows))
        return one_batch(keys, self.keys).columns, joined(events)

    def encode(self, entry: Segment) -> Entry:
        """Encode a segment or a step."""
        is_state = bool(entry.monitors)
        columns = [*entry.keys, *entry.facts]
        head = pa.RecordBatch.from_arrays(columns, schema=self._schema(is_state=is_state))
        owners = entry.owners.astype(np.uint32).tobytes()
        parts = [_bytes(head), owners, *self.events.encode(entry.events), *entry.monitors]
        return Entry(is_state, entry.horizon, self.settings, parts)

    def decode(self, entry: Entry) -> Segment:
        """Decode a segment or a step.

        Raises:
            SnapshotError: the entry belongs to other settings, or is damaged.
        """
        check_settings(entry.settings, self.settings)
        try:
            head, owners, rows, columns, *monitors = entry.parts
            schema = self._schema(is_state=entry.is_state)
            known = pa.ipc.read_record_batch(pa.py_buffer(head), schema).columns
            numbers = np.frombuffer(owners, np.uint32).astype(np.int64)
            events = self.events.decode([rows, columns], len(numbers))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None
        count = len(self.keys)
        return Segment(entry.horizon, known[:count], events, numbers, known[count:], monitors)

    def _schema(self, *, is_state: bool) -> pa.Schema:
        return pa.schema([*self.keys, *(STORED if is_state else ())])


def _bytes(batch: pa.RecordBatch) -> bytes:
    found: bytes = batch.serialize().to_pybytes()
    return found
