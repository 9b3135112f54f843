"""Judges events of keys again, from a state before a late event on, and finds what has changed.

For each key, the latest state is taken that nothing has come before since. From there on, what has
been judged is judged again in the same order, once as it was and once with the late events in their
places. Verdicts that differ are changes. So no operator has an algorithm for late events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.arrays.native import KeyTable
from mtlmon.errors import SnapshotError
from mtlmon.spark.common.trace_monitors import points_of
from mtlmon.spark.streaming.bucket_records import DAMAGED, NEVER
from mtlmon.spark.streaming.changes import differences
from mtlmon.spark.streaming.event_records import Waiting
from mtlmon.spark.streaming.past_records import PastBatch
from mtlmon.tables.columns.keys import number_rows
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.drive.native import KeyedMonitors
    from mtlmon.spark.common.policies import CompiledPolicy
    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.past_records import Past
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors

__all__ = ["Replay", "Replayed"]


class _Items(NamedTuple):
    """Events of some keys, and times that pass for them; owners are indices of keys."""

    rows: NDArray[np.int64]
    owners: NDArray[np.int64]
    advances: NDArray[np.int64]
    advanced: NDArray[np.int64]

    def split(self, bounds: NDArray[np.int64]) -> tuple[_Items, _Items]:
        """Return what is before a time for each key, and the rest.

        Time that passes comes before the events of that time.
        """
        is_before = self.rows[:, 0] < bounds[self.owners]
        has_passed = self.advances <= bounds[self.advanced]
        return self._chosen(is_before, has_passed), self._chosen(~is_before, ~has_passed)

    def _chosen(self, events: NDArray[np.bool_], advances: NDArray[np.bool_]) -> _Items:
        return _Items(
            self.rows[events],
            self.owners[events],
            self.advances[advances],
            self.advanced[advances],
        )


class _Beginning(NamedTuple):
    """Where the past is taken up.

    Attributes:
        batches: past batches with states.
        batch_of: for each key, the index of the one with its state.
        place_of: the index of the key there.
        since: the time of the state.
        items: all that has been judged since, in the order of past batches.
    """

    batches: list[PastBatch]
    batch_of: NDArray[np.int64]
    place_of: NDArray[np.int64]
    since: NDArray[np.int64]
    items: _Items


class Replayed(NamedTuple):
    """What comes of judging keys again.

    Attributes:
        streams: the numbers of the keys in the monitors from now on.
        since: for each key, the time of the state that is remembered.
        events: the events since then, with the new ones.
        owners: for each event, the index of its key.
        advances: the times that have passed since then, below the present horizon.
        advanced: for each of these, the index of the key.
        states: the states of the monitors at the times `since`, for each policy.
        changes: for each policy, records of changes, and the indices of their keys.
    """

    streams: NDArray[np.uint32]
    since: NDArray[np.int64]
    events: Waiting
    owners: NDArray[np.int64]
    advances: NDArray[np.int64]
    advanced: NDArray[np.int64]
    states: list[bytes]
    changes: list[tuple[NDArray[np.void], NDArray[np.int64]]]


class Replay:
    """Judges again.

    Args:
        records: how past batches are encoded.
        shared: the monitors, which get more streams.
        monitors: the policies and their monitors.
    """

    def __init__(
        self,
        records: BucketRecords,
        shared: SharedMonitors,
        monitors: Sequence[tuple[CompiledPolicy, KeyedMonitors]],
    ) -> None:
        self._records = records
        self._shared = shared
        self._monitors = monitors

    def run(
        self,
        keys: list[pa.Array],
        rows: NDArray[np.int64],
        owners: NDArray[np.int64],
        past: Past,
        horizon: int,
    ) -> Replayed:
        """Judge again what has been judged of some keys, with new events, of which some are late.

        Args:
            keys: the columns of the keys.
            rows: the new events of all keys.
            owners: for each, the index of its key; each key has an event.
            past: the past of their bucket.
            horizon: the time that has passed once the new events are judged.

        Raises:
            SnapshotError: the past is damaged.
        """
        count = len(keys[0])
        begin = self._beginning(keys, rows, owners, past)
        restored, first = self._restored(begin)
        # No event can come any more before this time, so a state at it will be good for ever.
        since = np.maximum(begin.since, past.admitted_from)
        before, old = begin.items.split(since)
        self._judge(first, before)
        states = self._shared.snapshot(first)
        second = self._shared.restore(states)
        was = self._judge(first, old)
        new = _Items(
            np.concatenate([old.rows, rows]),
            np.append(old.owners, owners),
            np.append(old.advances, np.full(count, horizon)),
            np.append(old.advanced, np.arange(count)),
        )
        now = self._judge(second, new)
        changes = [
            differences(one, first, other, second) for one, other in zip(was, now, strict=True)
        ]
        self._shared.drop(restored)
        events = Waiting(new.rows, None)
        is_earlier = old.advances < horizon
        advances, advanced = old.advances[is_earlier], old.advanced[is_earlier]
        return Replayed(second, since, events, new.owners, advances, advanced, states, changes)

    def _beginning(
        self,
        keys: list[pa.Array],
        rows: NDArray[np.int64],
        owners: NDArray[np.int64],
        past: Past,
    ) -> _Beginning:
        """Go back until there is a state of each key that nothing has come before since."""
        count = len(keys[0])
        least = np.full(count, NEVER)
        np.minimum.at(least, owners, rows[:, 0])
        # what counts of earlier past batches is before this time
        bound = np.full(count, NEVER)
        is_open = np.ones(count, np.bool_)
        since, batch_of, place_of = (np.zeros(count, np.int64) for _ in range(3))
        batches: list[PastBatch] = []
        parts = [_Items(rows[:0], owners[:0], bound[:0], owners[:0])]
        for name in sorted(past.store.names(), reverse=True):
            if not is_open.any():
                break
            batch = PastBatch.decoded(past.store.get(name), self._records)
            index_of = _indices(keys, batch.keys)
            is_wanted = index_of >= 0
            is_wanted[is_wanted] = is_open[index_of[is_wanted]]
            items = _wanted(batch, name[1], index_of, is_wanted).split(bound)[0]
            parts.append(items)
            np.minimum.at(least, items.owners, items.rows[:, 0])
            places = np.flatnonzero(is_wanted)
            wanted = index_of[places]
            is_whole = places >= batch.whole_from
            whole = wanted[is_whole]
            bound[whole] = np.minimum(bound[whole], batch.since[places[is_whole]])
            is_found = batch.since[places] <= least[wanted]
            found = wanted[is_found]
            since[found] = batch.since[places[is_found]]
            batch_of[found], place_of[found] = len(batches), places[is_found]
            is_open[found] = False
            if len(found):
                batches.append(batch)
        if is_open.any():
            raise SnapshotError(DAMAGED)
        parts.reverse()
        items = _Items(*(np.concatenate(some) for some in zip(*parts, strict=True)))
        # events before the states are none, but time may have passed once more
        return _Beginning(batches, batch_of, place_of, since, items.split(since)[1])

    def _restored(self, begin: _Beginning) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Add the states of past batches to the monitors.

        Returns:
            The numbers of all streams that are added, and those of the keys among them.
        """
        found: list[NDArray[np.uint32]] = []
        first = []
        count = 0
        for batch in begin.batches:
            first.append(count)
            for part in zip(*batch.states, strict=True):
                if any(part):
                    found.append(self._shared.restore(part))
                    count += len(found[-1])
        restored = np.concatenate(found)
        return restored, restored[np.array(first, np.int64)[begin.batch_of] + begin.place_of]

    def _judge(
        self, streams: NDArray[np.uint32], items: _Items
    ) -> list[tuple[NDArray[np.void], NDArray[np.uint32]]]:
        """Let keys take events and times in order; return the verdicts of each policy."""
        order = np.argsort(items.rows[:, 0], kind="stable")
        rows, owners = items.rows[order], streams[items.owners[order]]
        found: list[list[tuple[bytes, bytes]]] = [[] for _ in self._monitors]
        start = 0
        for time in [*np.unique(items.advances).tolist(), None]:
            end = len(rows) if time is None else int(np.searchsorted(rows[:, 0], time))
            due = self._records.events.due(rows[start:end])
            passed = np.unique(streams[items.advanced[items.advances == time]])
            for (policy, monitors), own in zip(self._monitors, found, strict=True):
                if start < end:
                    own.append(
                        monitors.feed(points_of(policy, due, None).events, owners[start:end])
                    )
                if time is not None:
                    own.append(monitors.pass_time(passed, time)[:2])
            start = end
        return [
            (
                np.frombuffer(b"".join(records for records, _ in own), verdict_type()),
                np.frombuffer(b"".join(numbers for _, numbers in own), np.uint32),
            )
            for own in found
        ]


def _indices(keys: list[pa.Array], others: list[pa.Array]) -> NDArray[np.int64]:
    """For each of some keys its index among others; -1 if it is not there."""
    count = len(keys[0])
    table = KeyTable(len(keys))
    columns = [pa.concat_arrays(pair) for pair in zip(keys, others, strict=True)]
    numbers = number_rows(table, columns).astype(np.int64)
    # all of the first ones are different, so their numbers are their indices
    found = numbers[count:]
    return np.where(found < count, found, -1)


def _wanted(
    batch: PastBatch, horizon: int, index_of: NDArray[np.int64], is_wanted: NDArray[np.bool_]
) -> _Items:
    """The items of some keys of a past batch."""
    events, advances = is_wanted[batch.owners], is_wanted[batch.advanced]
    keys = index_of[is_wanted]
    return _Items(
        batch.events.rows[events],
        index_of[batch.owners[events]],
        np.append(batch.advances[advances], np.full(len(keys), horizon)),
        np.append(index_of[batch.advanced[advances]], keys),
    )
