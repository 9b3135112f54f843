"""A bucket of keys that goes on: in a visit, and between batches in the memory of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.errors import SnapshotError
from mtlmon.spark.streaming.bucket_keys import NO_STREAM, BucketKeys
from mtlmon.spark.streaming.bucket_records import NEVER, STORED, Segment
from mtlmon.spark.streaming.entries import DAMAGED
from mtlmon.spark.streaming.event_records import Waiting, joined
from mtlmon.support.snapshot_parts import joined_parts, split_parts
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors

__all__ = ["NO_VERDICTS", "KeyVerdicts", "LiveBucket", "States", "Taken"]

_NONE = np.empty(0, np.int64)
_RAW = np.dtype((np.void, verdict_type().itemsize))


class States(NamedTuple):
    """The states of keys at one time; by the numbers of the keys.

    Attributes:
        monitors: the numbers of their streams in the monitors, or `NO_STREAM`.
        streams: the snapshots of what depends on other rows; see `STORED`.
    """

    monitors: NDArray[np.uint32]
    streams: NDArray[np.object_]


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
        # PERF: numpy copies records of bytes, and takes them, at once, and others field by field
        joined_records = np.concatenate([own.view(_RAW) for own in records]).view(verdict_type())
        return cls(joined_records, np.concatenate(keys))

    def take(self, places: NDArray[np.intp]) -> KeyVerdicts:
        """Return the verdicts with these indices."""
        return KeyVerdicts(self.records.take(places), self.keys[places])

    def by_key(self) -> KeyVerdicts:
        """Return them by key."""
        return self.take(np.argsort(self.keys, kind="stable"))

    def of_keys(self, is_wanted: NDArray[np.bool_]) -> tuple[KeyVerdicts, KeyVerdicts]:
        """Return those of some keys, and the rest."""
        is_own = is_wanted[self.keys]
        return self.take(np.flatnonzero(is_own)), self.take(np.flatnonzero(~is_own))


class Taken(NamedTuple):
    """What keys have taken: events, and times that have passed; and what that has brought.

    Attributes:
        events: the events; those of one time-stamp and key are in their order.
        owners: for each, the number of its key.
        advances: the times.
        advanced: for each, the number of the key.
        verdicts: the verdicts of each policy, if they are known.
    """

    events: Waiting
    owners: NDArray[np.int64]
    advances: NDArray[np.int64] = _NONE
    advanced: NDArray[np.int64] = _NONE
    verdicts: tuple[KeyVerdicts, ...] = ()

    @classmethod
    def together(cls, parts: Sequence[Taken]) -> Taken:
        """Return what some parts have, in their order."""
        events, owners, advances, advanced, verdicts = zip(*parts, strict=True)
        known = zip(*filter(None, verdicts), strict=True)
        return cls(
            joined(events),
            np.concatenate(owners),
            np.concatenate(advances),
            np.concatenate(advanced),
            tuple(map(KeyVerdicts.together, known)),
        )

    @property
    def busy(self) -> list[NDArray[np.int64]]:
        """The numbers of the keys of which there is something."""
        return [self.owners, self.advanced, *(own.keys for own in self.verdicts)]

    def renumbered(self, numbers: NDArray[np.int64]) -> Taken:
        """Return it with other numbers of the keys."""
        owners, advanced, *keys = (numbers[own] for own in self.busy)
        verdicts = tuple(
            own._replace(keys=one) for own, one in zip(self.verdicts, keys, strict=True)
        )
        return Taken(self.events, owners, self.advances, advanced, verdicts)

    def encoded(self) -> bytes:
        """Return what is beside the events as bytes."""
        parts = [(self.advances, self.advanced), *self.verdicts]
        arrays = (one for times, keys in parts for one in (times, keys.astype(np.uint32)))
        return joined_parts([one.tobytes() for one in arrays])

    def with_others(self, content: bytes, policies: int) -> Taken:
        """Return events with what `encoded` has returned.

        Raises:
            ValueError: it is damaged, or of another number of policies.
        """
        kinds: list[Any] = [np.int64, np.uint32, *[verdict_type(), np.uint32] * policies]
        parts = zip(split_parts(content), kinds, strict=True)
        times, keys, *found = (np.frombuffer(part, kind) for part, kind in parts)
        verdicts = tuple(map(KeyVerdicts, found[::2], found[1::2]))
        if any(len(one) != len(own) for one, own in [(times, keys), *verdicts]):
            raise ValueError("lengths differ")
        return self._replace(advances=times, advanced=keys, verdicts=verdicts)

    def split(self, time: int) -> tuple[Taken, Taken]:
        """Return what is before a time, and the rest; the passing of time is before its events."""
        return self._parted(self.events.rows[:, 0] < time, self.advances <= time)

    def of_keys(self, is_wanted: NDArray[np.bool_]) -> tuple[Taken, Taken]:
        """Return what is of some keys, and the rest; with verdicts."""
        verdicts = zip(*(own.of_keys(is_wanted) for own in self.verdicts), strict=True)
        first, second = self._parted(is_wanted[self.owners], is_wanted[self.advanced])
        own, others = verdicts if self.verdicts else ((), ())
        return first._replace(verdicts=own), second._replace(verdicts=others)

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
        waiting: the events that wait, in the order in which they came.
        horizon: events below it have been judged.
    """

    def __init__(
        self, records: BucketRecords, shared: SharedMonitors, *, corrects: bool = False
    ) -> None:
        self.shared = shared
        self.keys = BucketKeys(records.keys)
        self.waiting = Taken(records.events.nothing, _NONE)
        self.horizon = 0
        self._corrects = corrects
        self._past = [self.waiting._replace(verdicts=(NO_VERDICTS,) * len(shared.monitors))]

    def __del__(self) -> None:
        if len(self.keys) and not self.shared.is_broken:
            for name in ("base", "present"):
                self._drop(name, np.arange(len(self.keys)))

    @property
    def bases(self) -> States:
        """The states of keys at their bases, which are stored."""
        return States(self.keys.facts["base"], self.keys.facts["streams"])

    @property
    def present(self) -> States:
        """The states of keys at the times up to which they have been judged."""
        return States(self.keys.facts["present"], self.keys.facts["present_streams"])

    @property
    def past(self) -> Taken:
        """What keys have taken since their bases, in the order in which that was; with verdicts."""
        if len(self._past) > 1:
            self._past = [Taken.together(self._past)]
        return self._past[0]

    @past.setter
    def past(self, taken: Taken) -> None:
        self._past = [taken]

    def note(self, taken: Taken) -> None:
        """Add what keys have taken, with the verdicts."""
        self._past.append(taken)

    @property
    def held_bytes(self) -> int:
        """How many bytes it holds, about."""
        columns: list[Any] = []
        for (rows, more), owners, *others, verdicts in (self.waiting, *self._past):
            columns += [rows, owners, *others, *(one for own in verdicts for one in own)]
            columns += [] if more is None else [more]
        streams = len(self.keys) + int(np.count_nonzero(self.present.monitors != NO_STREAM))
        held = sum(int(one.nbytes) for one in columns)
        return held + self.keys.held_bytes + self.shared.held_bytes_of(streams)

    @property
    def next_change(self) -> int | None:
        """The least horizon at which there is something to do without new events, or None."""
        least = int(self.keys.facts["next_wakeup"].min(initial=NEVER))
        return None if least == NEVER else least

    def add(self, columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        """Return the numbers of the keys of some rows; new ones begin."""
        numbers = self.keys.add(columns)
        bases = self.bases.monitors
        new = np.flatnonzero(bases == NO_STREAM)
        if len(new):
            bases[new] = self.shared.add(len(new))
            self.shared.key_of[bases[new]] = new
        return numbers

    def due(self, events: Waiting, owners: NDArray[np.int64], horizon: int) -> Taken:
        """Take events; return those below a horizon, the others wait."""
        self.horizon = max(self.horizon, horizon)
        taken = Taken.together([self.waiting, Taken(events, owners)])
        due, self.waiting = taken.split(horizon)
        return due

    def begin_present(self, keys: NDArray[np.int64]) -> None:
        """Let the present of some keys be what their bases are."""
        self.drop_present(keys)
        streams = self.shared.restore(self.shared.snapshot(self.bases.monitors[keys]))
        self.present.monitors[keys] = streams
        self.present.streams[keys] = self.bases.streams[keys]
        self.shared.key_of[streams] = keys

    def drop_present(self, keys: NDArray[np.int64]) -> None:
        """Forget the present of some keys."""
        self._drop("present", keys)
        self.present.streams[keys] = b""

    def _drop(self, name: str, keys: NDArray[np.int64]) -> None:
        own = self.keys.facts[name]
        self.shared.drop(own[keys][own[keys] != NO_STREAM])
        own[keys] = NO_STREAM

    def forget(self, is_settled: NDArray[np.bool_], time: int) -> None:
        """Forget settled keys of which there is nothing to do, and whose monitors are settled."""
        goes = is_settled.copy()
        for busy in (*self.waiting.busy, *self.past.busy):
            goes[busy] = False
        for monitors in self.shared.monitors:
            goes &= np.frombuffer(monitors.settled(self.bases.monitors, time), np.bool_)
        if not goes.any():
            return
        for name in ("base", "present"):
            self._drop(name, np.flatnonzero(goes))
        self.keys.keep(~goes)
        numbers = np.cumsum(~goes) - 1
        self.waiting, self.past = self.waiting.renumbered(numbers), self.past.renumbered(numbers)
        for streams in (self.bases.monitors, self.present.monitors):
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
        if len(streams) != len(numbers) or len(np.unique(numbers)) != len(numbers):
            self.shared.drop(streams)
            raise SnapshotError(DAMAGED)
        self._drop("base", numbers)
        self.drop_present(numbers)
        facts = self.keys.facts
        facts["base"][numbers] = streams
        self.shared.key_of[streams] = numbers
        for name, column in zip(STORED.names, segment.facts, strict=True):
            facts[name][numbers] = column.to_numpy(zero_copy_only=False)
        facts["judged_to"][numbers] = segment.horizon
        is_replaced = np.zeros(len(self.keys), np.bool_)
        is_replaced[numbers] = True
        taken = Taken(segment.events, segment.owners)
        try:
            if self._corrects:
                taken = taken.with_others(segment.monitors[-1], len(self.shared.monitors))
            taken = taken.renumbered(numbers)
        except (ValueError, IndexError) as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None
        past, waiting = taken.split(segment.horizon)
        _, others = self.past.of_keys(is_replaced)
        self.past = Taken.together([others, past._replace(verdicts=taken.verdicts)])
        self.waiting = Taken.together([self.waiting.of_keys(is_replaced)[1], waiting])

    def segment(self, numbers: NDArray[np.int64]) -> Segment:
        """Return what is known of some keys, in this order."""
        places = np.zeros(len(self.keys), np.int64)
        places[numbers] = np.arange(len(numbers))
        is_own = np.zeros(len(self.keys), np.bool_)
        is_own[numbers] = True
        taken = Taken.together([one.of_keys(is_own)[0] for one in (self.past, self.waiting)])
        taken = taken.renumbered(places)
        monitors = self.shared.snapshot(self.bases.monitors[numbers])
        if self._corrects:
            monitors.append(taken.encoded())
        return Segment(
            self.horizon,
            self.keys.columns_of(numbers),
            taken.events,
            taken.owners,
            [pa.array(self.keys.facts[own.name][numbers], own.type) for own in STORED],
            monitors,
        )
