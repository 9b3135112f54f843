"""What a bucket remembers of earlier batches, to judge events again when others come late.

A *past batch* has what was judged of some keys in one batch: the states of their monitors before,
and the events. It never changes. What is judged again because of a late event is told anew by the
past batch of the late event, which is then *whole* for that key: with it, older ones say nothing
more about the time from its beginning on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from mtlmon.errors import SnapshotError
from mtlmon.spark.streaming.bucket_records import DAMAGED, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.event_records import Waiting

__all__ = ["Past", "PastBatch", "PastStore"]

_OWNERS = pa.schema([("owner", pa.int32())])
_ADVANCES = pa.schema([("owner", pa.int32()), ("time", pa.int64())])
_SINCE = pa.schema([("since", pa.int64())])


class PastStore(Protocol):
    """Where the past batches of a bucket are, by the number of the batch and its horizon."""

    def names(self) -> Iterable[tuple[int, int]]:
        """Return the numbers and horizons of all past batches, in any order."""

    def get(self, name: tuple[int, int]) -> bytes:
        """Return a past batch."""

    def put(self, name: tuple[int, int], content: bytes) -> None:
        """Add a past batch."""

    def remove(self, name: tuple[int, int]) -> None:
        """Remove a past batch."""


class Past(NamedTuple):
    """The past of a bucket that is visited.

    Attributes:
        store: where past batches are.
        number: the number of the present batch, above those of earlier ones.
        admitted_from: the least time-stamp of events that are not too late.
    """

    store: PastStore
    number: int
    admitted_from: int

    def forget(self) -> None:
        """Remove the past batches that no event can need any more.

        What was judged up to a horizon goes on from there: at the start of a later past batch, or
        in the states of the monitors.
        """
        for name in list(self.store.names()):
            if name[1] <= self.admitted_from:
                self.store.remove(name)


class PastBatch(NamedTuple):
    """What was judged in a batch.

    Attributes:
        keys: the columns of the keys that it is about.
        since: for each key, the time that its state is of: all that is before is in the state.
        whole_from: for keys with this index or a larger one, it has all there was since that time.
        events: the events, those of one time-stamp and key in their order.
        owners: for each event, the index of its key.
        advances: times below the horizon of the batch that have passed for keys. The horizon itself
            has passed for all of them.
        advanced: for each of these, the index of the key.
        states: the states of the monitors at these times, in two parts for each policy: those of
            the keys below `whole_from`, and of the others.
    """

    keys: list[pa.Array]
    since: NDArray[np.int64]
    whole_from: int
    events: Waiting
    owners: NDArray[np.int64]
    advances: NDArray[np.int64]
    advanced: NDArray[np.int64]
    states: list[tuple[bytes, bytes]]

    def encoded(self, records: BucketRecords) -> bytes:
        """Return it as bytes."""
        schema = pa.schema([*records.keys, *_SINCE])
        head = pa.RecordBatch.from_arrays([*self.keys, pa.array(self.since)], schema=schema)
        owners = pa.array(self.owners.astype(np.int32))
        events = records.events_batch(self.events, [owners], _OWNERS)
        passed = [pa.array(self.advanced.astype(np.int32)), pa.array(self.advances)]
        advances = pa.RecordBatch.from_arrays(passed, schema=_ADVANCES)
        batches = [one.serialize() for one in (head, events, advances)]
        states = [part for parts in self.states for part in parts]
        return joined_parts([self.whole_from.to_bytes(8, "little"), *batches, *states])

    @classmethod
    def decoded(cls, content: bytes, records: BucketRecords) -> PastBatch:
        """Decode it.

        Raises:
            SnapshotError: the bytes are damaged.
        """
        try:
            number, head, events, advances, *states = split_parts(content)
            schema = pa.schema([*records.keys, *_SINCE])
            *keys, since = pa.ipc.read_record_batch(head, schema).columns
            (owners,), found = records.read_events([events], _OWNERS)
            advanced, times = pa.ipc.read_record_batch(advances, _ADVANCES).columns
        except (pa.ArrowException, OSError, ValueError) as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None
        return cls(
            keys,
            np.asarray(since),
            int.from_bytes(number, "little"),
            found,
            np.asarray(owners).astype(np.int64),
            np.asarray(times),
            np.asarray(advanced).astype(np.int64),
            list(zip(states[::2], states[1::2], strict=True)),
        )
