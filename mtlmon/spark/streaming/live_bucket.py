"""A bucket of keys that goes on: in a visit, and between batches in the memory of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mtlmon.errors import SnapshotError
from mtlmon.spark.streaming.bucket_keys import BucketKeys
from mtlmon.spark.streaming.bucket_records import NEVER, Segment
from mtlmon.spark.streaming.entries import DAMAGED
from mtlmon.spark.streaming.event_records import Waiting, joined
from mtlmon.support.snapshot_parts import joined_parts, split_parts
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors

__all__ = ["NO_STREAM", "NO_VERDICTS", "KeyVerdicts", "LiveBucket", "States", "Taken"]

NO_STREAM = 2**32 - 1
"""Takes the place of the number of a stream where a key has none."""

_NONE = np.empty(0, np.int64)


class States(NamedTuple):
    """The states of keys at one time; by the numbers of the keys.

    Attributes:
        monitors: the numbers of their streams in the monitors, or `NO_STREAM`.
        streams: the snapshots of what depends on other rows; see `KeyFacts.streams`.
    """

    monitors: NDArray[np.uint32]
    streams: NDArray[np.object_]


class Taken(NamedTuple):
    """What keys have taken: events, and times that have passed.

    Attributes:
        events: the events; those of one time-stamp and key are in their order.
        owners: for each, the number of its key.
        advances: the times.
        advanced: for each, the number of the key.
    """

    events: Waiting
    owners: NDArray[np.int64]
    advances: NDArray[np.int64] = _NONE
    advanced: NDArray[np.int64] = _NONE

    @classmethod
    def together(cls, parts: Sequence[Taken]) -> Taken:
        """Return what some parts have, in their order."""
        events, *others = zip(*parts, strict=True)
        return cls(joined(events), *map(np.concatenate, others))

    def split(self, time: int) -> tuple[Taken, Taken]:
        """Return what is before a time, and the rest; the passing of time is before its events."""
        return self._parted(self.events.rows[:, 0] < time, self.advances <= time)

    def of_keys(self, is_wanted: NDArray[np.bool_]) -> tuple[Taken, Taken]:
        """Return what is of some keys, and the rest."""
        return self._parted(is_wanted[self.owners], is_wanted[self.advanced])

    def ordered(self) -> Taken:
        """Return it by key, and in the order of time."""
        times = self.events.rows[:, 0]
        by_time = np.lexsort((times, self.owners)), np.lexsort((self.advances, self.advanced))
        return self._at(*by_time)

    def of_each(self, keys: NDArray[np.int64]) -> Iterator[Taken]:
        """Yield what each of some keys has taken, which is in order."""
        bounds = [
            np.searchsorted(own, keys, side).tolist()
            for own in (self.owners, self.advanced)
            for side in ("left", "right")
        ]
        for first, last, since, until in zip(*bounds, strict=True):
            yield self._at(np.arange(first, last), np.arange(since, until))

    def spans(self) -> Iterator[tuple[Taken, int | None]]:
        """Yield the events before each time with the keys for which it passes; then the rest."""
        if not len(self.advances):
            yield self, None
            return
        times = np.unique(self.advances)
        places = np.searchsorted(times, self.events.rows[:, 0], "right")
        for place, time in enumerate([*times.tolist(), None]):
            passing = np.flatnonzero(self.advances == (-1 if time is None else time))
            yield self._at(np.flatnonzero(places == place), passing), time

    def _parted(
        self, events: NDArray[np.bool_], advances: NDArray[np.bool_]
    ) -> tuple[Taken, Taken]:
        return (
            self._at(np.flatnonzero(events), np.flatnonzero(advances)),
            self._at(np.flatnonzero(~events), np.flatnonzero(~advances)),
        )

    def _at(self, events: NDArray[np.intp], advances: NDArray[np.intp]) -> Taken:
        return Taken(
            self.events.take(events),
            self.owners[events],
            self.advances[advances],
            self.advanced[advances],
        )


class KeyVerdicts(NamedTuple):
    """Verdicts of a policy.

    Attributes:
        records: the records.
        keys: for each, the number of its key.
    """

    records: NDArray[np.void]
    keys: NDArray[np.int64]

    @classmethod
    def together(cls, parts: Sequence[KeyVerdicts]) -> KeyVerdicts:
        """Return all verdicts of some parts."""
        records, keys = zip(*parts, strict=True)
        return cls(np.concatenate(records, dtype=verdict_type()), np.concatenate(keys))

    def by_key(self) -> KeyVerdicts:
        """Return them by key."""
        order = np.argsort(self.keys, kind="stable")
        return KeyVerdicts(self.records[order], self.keys[order])

    def of_keys(self, is_wanted: NDArray[np.bool_]) -> tuple[KeyVerdicts, KeyVerdicts]:
        """Return those of some keys, and the rest."""
        is_own = is_wanted[self.keys]
        return (
            KeyVerdicts(self.records[is_own], self.keys[is_own]),
            KeyVerdicts(self.records[~is_own], self.keys[~is_own]),
        )


NO_VERDICTS = KeyVerdicts(np.empty(0, verdict_type()), _NONE)


class LiveBucket:
    """A bucket.

    What is stored of a key is its *base*: its states at a time before which no event can come any
    more. If late events correct verdicts, that is of the past. Then it is remembered what the key
    has taken since, and which verdicts that has brought; and the states of the present may be in
    memory, but are not stored.

    Args:
        records: how its entries are encoded.
        shared: the monitors, in which each of its keys has streams.
        corrects: whether late events correct verdicts.

    Attributes:
        keys: the keys, and what is known of them.
        bases: the states of keys at their bases.
        present: the states of keys at the times up to which they have been judged.
        judged_to: by the number of a key, this time.
        oldest: by the number of a key, the first time of what has been taken since the base.
        waiting: the events that wait, in the order in which they came.
        owners: for each of these, the number of its key.
        horizon: events below it have been judged.
    """

    def __init__(
        self, records: BucketRecords, shared: SharedMonitors, *, corrects: bool = False
    ) -> None:
        self.shared = shared
        self.keys = BucketKeys(records.keys)
        self.waiting: Waiting = records.nothing
        self.owners = _NONE
        self.horizon = 0
        self.judged_to = self.oldest = _NONE
        self._bases = np.empty(0, np.uint32)
        self.present = States(np.empty(0, np.uint32), np.empty(0, np.object_))
        self._corrects = corrects
        self._past = [Taken(records.nothing, _NONE)]
        self._emitted = [[NO_VERDICTS] for _ in shared.monitors]

    def __del__(self) -> None:
        if len(self._bases) and not self.shared.is_broken:
            self.shared.drop(self._bases)
            self.drop_present(np.arange(len(self._bases)))

    @property
    def bases(self) -> States:
        """The states that are stored."""
        return States(self._bases, self.keys.streams)

    @property
    def past(self) -> Taken:
        """What keys have taken since their bases, in the order in which that was."""
        if len(self._past) > 1:
            self._past = [Taken.together(self._past)]
        return self._past[0]

    @past.setter
    def past(self, taken: Taken) -> None:
        self._past = [taken]

    def emitted(self, policy: int) -> KeyVerdicts:
        """The verdicts of a policy that this has brought."""
        own = self._emitted[policy]
        if len(own) > 1:
            own[:] = [KeyVerdicts.together(own)]
        return own[0]

    def emit_again(
        self, policy: int, is_other: NDArray[np.bool_], verdicts: KeyVerdicts
    ) -> KeyVerdicts:
        """Replace the verdicts of some keys; return what they were."""
        was, kept = self.emitted(policy).of_keys(is_other)
        self._emitted[policy] = [kept, verdicts]
        return was

    def note(self, taken: Taken, verdicts: Sequence[KeyVerdicts] = ()) -> None:
        """Add what keys have taken, and the verdicts that this has brought."""
        self._past.append(taken)
        for own, new in zip(self._emitted, verdicts, strict=False):
            own.append(new)

    @property
    def held_bytes(self) -> int:
        """How many bytes it holds, about."""
        columns: list[Any] = [self.owners, *self.present, self.judged_to, self.oldest]
        columns += [one for own in self._emitted for part in own for one in part]
        columns += [one for part in self._past for one in part[1:]]
        events = [self.waiting, *(part.events for part in self._past)]
        columns += [one for some in events for one in some if one is not None]
        streams = len(self._bases) + int(np.count_nonzero(self.present.monitors != NO_STREAM))
        held = sum(int(one.nbytes) for one in columns)
        return held + self.keys.held_bytes + self.shared.held_bytes_of(streams)

    @property
    def next_change(self) -> int | None:
        """The least horizon at which there is something to do without new events, or None."""
        least = int(self.keys.next_wakeup.min(initial=NEVER))
        return None if least == NEVER else least

    def add(self, columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        """Return the numbers of the keys of some rows; new ones begin."""
        numbers = self.keys.add(columns)
        count = len(self.keys) - len(self._bases)
        if count:
            self._append(self.shared.add(count))
        return numbers

    def due(self, events: Waiting, owners: NDArray[np.int64], horizon: int) -> Taken:
        """Take events; return those below a horizon, the others wait."""
        events = joined([self.waiting, events])
        owners = np.append(self.owners, owners)
        is_due = events.rows[:, 0] < horizon
        due, left = np.flatnonzero(is_due), np.flatnonzero(~is_due)
        self.waiting, self.owners = events.take(left), owners[left]
        self.horizon = max(self.horizon, horizon)
        return Taken(events.take(due), owners[due])

    def begin_present(self, keys: NDArray[np.int64]) -> None:
        """Let the present of some keys be what their bases are."""
        self.drop_present(keys)
        streams = self.shared.restore(self.shared.snapshot(self._bases[keys]))
        self.present.monitors[keys] = streams
        self.present.streams[keys] = self.keys.streams[keys]
        self.shared.key_of[streams] = keys

    def drop_present(self, keys: NDArray[np.int64]) -> None:
        """Forget the present of some keys."""
        streams = self.present.monitors[keys]
        self.shared.drop(streams[streams != NO_STREAM])
        self.present.monitors[keys] = NO_STREAM
        self.present.streams[keys] = b""

    def forget(self, is_settled: NDArray[np.bool_], time: int) -> None:
        """Forget settled keys of which there is nothing to do, and whose monitors are settled."""
        goes = is_settled.copy()
        for busy in (
            self.owners,
            *self.past[1::2],
            *(part.keys for own in self._emitted for part in own),
        ):
            goes[busy] = False
        for monitors in self.shared.monitors:
            goes &= np.frombuffer(monitors.settled(self._bases, time), np.bool_)
        if not goes.any():
            return
        self.shared.drop(self._bases[goes])
        self.drop_present(np.flatnonzero(goes))
        self._bases = self._bases[~goes]
        self.keys.keep(~goes)
        self.present = States(self.present.monitors[~goes], self.present.streams[~goes])
        self.judged_to, self.oldest = self.judged_to[~goes], self.oldest[~goes]
        numbers = np.cumsum(~goes) - 1
        self.owners = numbers[self.owners]
        events, owners, advances, advanced = self.past
        self.past = Taken(events, numbers[owners], advances, numbers[advanced])
        self._emitted = [
            [part._replace(keys=numbers[part.keys]) for part in own] for own in self._emitted
        ]
        for streams in (self._bases, self.present.monitors):
            has_stream = np.flatnonzero(streams != NO_STREAM)
            self.shared.key_of[streams[has_stream]] = has_stream

    def take_segment(self, segment: Segment) -> None:
        """Replace what is known of the keys of a segment.

        Raises:
            SnapshotError: it does not fit the policies, or is damaged.
        """
        numbers = self.keys.add(segment.keys)
        snapshots = segment.monitors[:-1] if self._corrects else segment.monitors
        streams = self.shared.restore(snapshots)
        self.horizon = max(self.horizon, segment.horizon)
        is_known = numbers < len(self._bases)
        if len(streams) != len(numbers) or len(np.unique(numbers)) != len(numbers):
            self.shared.drop(streams)
            raise SnapshotError(DAMAGED)
        known = numbers[is_known]
        self.shared.drop(self._bases[known])
        self.drop_present(known)
        self._bases[known] = streams[is_known]
        self.shared.key_of[streams[is_known]] = known
        # new keys have come in the order of the segment
        self._append(streams[~is_known])
        self.keys.set_facts(numbers, segment.facts)
        self.judged_to[numbers] = segment.horizon
        is_replaced = np.zeros(len(self.keys), np.bool_)
        is_replaced[numbers] = True
        _, waiting = Taken(self.waiting, self.owners).of_keys(is_replaced)
        taken = Taken(segment.waiting, numbers[segment.owners])
        if self._corrects:
            taken = self._take_past(segment, taken, numbers, is_replaced)
        self.waiting = joined([waiting.events, taken.events])
        self.owners = np.append(waiting.owners, taken.owners)

    def _take_past(
        self,
        segment: Segment,
        taken: Taken,
        numbers: NDArray[np.int64],
        is_replaced: NDArray[np.bool_],
    ) -> Taken:
        """Replace the past of keys; return the events that wait."""
        try:
            advances, advanced, *emitted = split_parts(segment.monitors[-1])
            past, waiting = taken.split(segment.horizon)
            past = past._replace(
                advances=np.frombuffer(advances, np.int64),
                advanced=numbers[np.frombuffer(advanced, np.uint32)],
            )
            new = [
                KeyVerdicts(
                    np.frombuffer(records, verdict_type()), numbers[np.frombuffer(own, np.uint32)]
                )
                for records, own in zip(emitted[::2], emitted[1::2], strict=True)
            ]
            if len(new) != len(self._emitted):
                raise ValueError("it is of other policies")
        except (ValueError, IndexError) as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None
        if any(len(one) != len(own) for one, own in (past[2:], *new)):
            raise SnapshotError(DAMAGED)
        self.past = Taken.together([self.past.of_keys(is_replaced)[1], past])
        for policy, verdicts in enumerate(new):
            self.emit_again(policy, is_replaced, verdicts)
        return waiting

    def segment(self, numbers: NDArray[np.int64]) -> Segment:
        """Return what is known of some keys, in this order."""
        places = np.zeros(len(self.keys), np.int64)
        places[numbers] = np.arange(len(numbers))
        is_own = np.zeros(len(self.keys), np.bool_)
        is_own[numbers] = True
        taken, _ = Taken(self.waiting, self.owners).of_keys(is_own)
        monitors = self.shared.snapshot(self._bases[numbers])
        if self._corrects:
            past, _ = self.past.of_keys(is_own)
            parts = [past.advances.tobytes(), places[past.advanced].astype(np.uint32).tobytes()]
            for policy in range(len(self._emitted)):
                records, keys = self.emitted(policy).of_keys(is_own)[0]
                parts += [records.tobytes(), places[keys].astype(np.uint32).tobytes()]
            monitors.append(joined_parts(parts))
            taken = Taken.together([past, taken])
        return Segment(
            self.horizon,
            self.keys.columns_of(numbers),
            self.keys.facts_of(numbers),
            taken.events,
            places[taken.owners],
            monitors,
        )

    def _append(self, streams: NDArray[np.uint32]) -> None:
        first, count = len(self._bases), len(streams)
        self._bases = np.append(self._bases, streams)
        self.shared.key_of[streams] = np.arange(first, first + count)
        self.present = States(
            np.append(self.present.monitors, np.full(count, NO_STREAM, np.uint32)),
            np.append(self.present.streams, np.full(count, b"", np.object_)),
        )
        self.judged_to = np.append(self.judged_to, np.zeros(count, np.int64))
        self.oldest = np.append(self.oldest, np.full(count, NEVER, np.int64))
