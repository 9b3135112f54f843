"""The keys of a bucket: those of its segments, then those that are new."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.arrays.native import KeyTable
from mtlmon.spark.streaming.bucket_records import NEVER, KeyFacts
from mtlmon.tables.columns.keys import number_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.spark.streaming.bucket_records import Segment
    from mtlmon.spark.streaming.event_records import Waiting

__all__ = ["BucketKeys"]


class BucketKeys:
    """Numbers the keys of a bucket, and finds what the segments say of each last.

    Args:
        segments: the segments of the bucket, in their order.
        new: the columns of the keys of new events.

    Attributes:
        count: the number of keys.
        of_events: for each new event, the number of its key.
        next_wakeup: by the number of a key, its next wake-up.
        settled_from: by the number of a key, what `KeyFacts.settled_from` says.
        entry_count: the number of keys of all segments, of which several can be equal.
        stream_of: by the number of a key, its number in the monitors: the place in the last segment
            that has the key, or a place behind all segments if the key is new.
        stream_count: the number of all places.
    """

    def __init__(self, segments: Sequence[Segment], new: list[pa.Array]) -> None:
        parts = [*(segment.keys for segment in segments), new]
        self._columns = [pa.concat_arrays(some) for some in zip(*parts, strict=True)]
        table = KeyTable(len(self._columns))
        numbers = number_rows(table, self._columns).astype(np.int64)
        self.count = len(table)
        self.entry_count = sum(len(segment.keys[0]) for segment in segments)
        self._of_entries, self.of_events = np.split(numbers, [self.entry_count])
        # numpy assigns in order, so the first of the events and the last of the entries stays
        self._row_of = np.empty(self.count, np.int64)
        self._row_of[numbers[::-1]] = np.arange(len(numbers))[::-1]
        self._row_of[self._of_entries] = np.arange(self.entry_count)
        is_new = self._row_of >= self.entry_count
        self.stream_count = self.entry_count + int(is_new.sum())
        streams = self._row_of.copy()
        streams[is_new] = np.arange(self.entry_count, self.stream_count)
        self.stream_of = streams.astype(np.uint32)
        self._facts = _joined([segment.facts for segment in segments]).take(
            np.where(is_new, self.entry_count, self._row_of)
        )
        self.next_wakeup = self._facts.next_wakeup
        self.settled_from = self._facts.settled_from

    def columns_of(self, numbers: NDArray[np.int64]) -> list[pa.Array]:
        """Return the columns of some keys."""
        rows = pa.array(self._row_of[numbers])
        return [column.take(rows) for column in self._columns]

    def values_of(self, number: np.int64) -> tuple[object, ...]:
        """Return the values of a key."""
        return tuple(column[int(self._row_of[number])].as_py() for column in self._columns)

    def move(self, numbers: NDArray[np.int64], streams: NDArray[np.uint32], count: int) -> None:
        """Give some keys other numbers in the monitors, which have so many places now."""
        self.stream_of[numbers] = streams
        self.stream_count = count

    def streams_of(self, number: np.int64) -> bytes:
        """Return the snapshot of the streams of a key."""
        snapshot: bytes = self._facts.streams[int(number)].as_py()
        return snapshot

    def facts_with(self, numbers: NDArray[np.int64], newer: KeyFacts) -> KeyFacts:
        """Return what is known of all keys, with what is newer of those with some numbers."""
        places = np.arange(self.count)
        places[numbers] = np.arange(self.count, self.count + len(numbers))
        both = KeyFacts(
            np.append(self._facts.next_wakeup, newer.next_wakeup),
            np.append(self._facts.settled_from, newer.settled_from),
            pa.concat_arrays([self._facts.streams, newer.streams]),
        )
        return both.take(places)

    def waiting(
        self, segments: Sequence[Segment], chosen: NDArray[np.bool_]
    ) -> tuple[list[Waiting], NDArray[np.int64]]:
        """Return the events that wait of chosen keys, in parts, and the numbers of their keys."""
        found = []
        owners = [np.empty(0, np.int64)]
        start = 0
        for segment in segments:
            entries = segment.owners + start
            start += len(segment.keys[0])
            numbers = self._of_entries[entries]
            # what an earlier segment says of a key no longer counts
            rows = np.flatnonzero(chosen[numbers] & (self._row_of[numbers] == entries))
            found.append(segment.waiting.take(rows))
            owners.append(numbers[rows])
        return found, np.concatenate(owners)


_NEW = KeyFacts(
    np.array([NEVER], np.int64), np.array([0], np.int64), pa.array([b""], pa.large_binary())
)


def _joined(facts: list[KeyFacts]) -> KeyFacts:
    """Return what is known of the entries of segments, and behind it what holds for a new key."""
    every = [*facts, _NEW]
    return KeyFacts(
        np.concatenate([one.next_wakeup for one in every]),
        np.concatenate([one.settled_from for one in every]),
        pa.concat_arrays([one.streams for one in every]),
    )
