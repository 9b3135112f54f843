"""A bucket of keys that goes on: in a visit, and between batches in the memory of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.errors import SnapshotError
from mtlmon.spark.streaming.bucket_keys import BucketKeys
from mtlmon.spark.streaming.bucket_records import NEVER, Segment
from mtlmon.spark.streaming.entries import DAMAGED
from mtlmon.spark.streaming.event_records import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.event_records import Waiting
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors

__all__ = ["LiveBucket"]


class LiveBucket:
    """A bucket.

    Args:
        records: how its entries are encoded.
        shared: the monitors, in which each of its keys has a stream.

    Attributes:
        keys: the keys, and what is known of them.
        streams: by the number of a key, the number of its stream.
        waiting: the events that wait, in the order in which they came.
        owners: for each of these, the number of its key.
        horizon: events below it have been judged.
    """

    def __init__(self, records: BucketRecords, shared: SharedMonitors) -> None:
        self.shared = shared
        self.keys = BucketKeys(records.keys)
        self.streams = np.empty(0, np.uint32)
        self.waiting: Waiting = records.nothing
        self.owners = np.empty(0, np.int64)
        self.horizon = 0

    def __del__(self) -> None:
        if len(self.streams) and not self.shared.is_broken:
            self.shared.drop(self.streams)

    @property
    def remembered(self) -> NDArray[np.uint32]:
        """By the number of a key, the number of the stream whose state is stored."""
        return self.streams

    @property
    def busy(self) -> NDArray[np.int64]:
        """The keys of which there is more to do."""
        return self.owners

    @property
    def held_bytes(self) -> int:
        """How many bytes it holds, about."""
        waiting = self.waiting.rows.nbytes + self.owners.nbytes
        if self.waiting.columns is not None:
            waiting += self.waiting.columns.nbytes
        return waiting + self.keys.held_bytes + self.shared.held_bytes_of(len(self.streams))

    @property
    def next_change(self) -> int | None:
        """The least horizon at which there is something to do without new events, or None."""
        least = int(self.keys.next_wakeup.min(initial=NEVER))
        return None if least == NEVER else least

    def add(self, columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        """Return the numbers of the keys of some rows; new ones begin."""
        numbers = self.keys.add(columns)
        count = len(self.keys) - len(self.streams)
        if count:
            self._append(self.shared.add(count))
        return numbers

    def move(self, keys: NDArray[np.int64], streams: NDArray[np.uint32]) -> None:
        """Give some keys other streams, and forget those that they had."""
        self.shared.drop(self.streams[keys])
        self.streams[keys] = streams
        self.shared.key_of[streams] = keys

    def keep(self, is_kept: NDArray[np.bool_]) -> None:
        """Forget the other keys, for which no event waits."""
        self.shared.drop(self.streams[~is_kept])
        self.streams = self.streams[is_kept]
        self.keys.keep(is_kept)
        self.owners = (np.cumsum(is_kept) - 1)[self.owners]
        self.shared.key_of[self.streams] = np.arange(len(self.streams))

    def take_segment(self, segment: Segment) -> None:
        """Replace what is known of the keys of a segment.

        Raises:
            SnapshotError: it does not fit the policies, or is damaged.
        """
        numbers = self.keys.add(segment.keys)
        streams = self.shared.restore(segment.monitors)
        self.horizon = max(self.horizon, segment.horizon)
        is_known = numbers < len(self.streams)
        if len(streams) != len(numbers) or len(np.unique(numbers)) != len(numbers):
            self.shared.drop(streams)
            raise SnapshotError(DAMAGED)
        # new keys have come in the order of the segment
        self.move(numbers[is_known], streams[is_known])
        self._append(streams[~is_known])
        self.keys.set_facts(numbers, segment.facts)
        is_replaced = np.zeros(len(self.keys), np.bool_)
        is_replaced[numbers] = True
        kept = np.flatnonzero(~is_replaced[self.owners])
        self.waiting = joined([self.waiting.take(kept), segment.waiting])
        self.owners = np.append(self.owners[kept], numbers[segment.owners])

    def segment(self, numbers: NDArray[np.int64]) -> Segment:
        """Return what is known of some keys, in this order."""
        places = np.full(len(self.keys), -1, np.int64)
        places[numbers] = np.arange(len(numbers))
        owners = places[self.owners]
        own = np.flatnonzero(owners >= 0)
        return Segment(
            self.horizon,
            self.keys.columns_of(numbers),
            self.keys.facts_of(numbers),
            self.waiting.take(own),
            owners[own],
            self.shared.snapshot(self.remembered[numbers]),
        )

    def _append(self, streams: NDArray[np.uint32]) -> None:
        first = len(self.streams)
        self.streams = np.append(self.streams, streams)
        self.shared.key_of[streams] = np.arange(first, len(self.streams))
