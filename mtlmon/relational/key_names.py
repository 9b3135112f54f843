"""The names that time-points have among those of their key, where they are known one by one."""

from __future__ import annotations

import json
from collections import deque
from heapq import heappop, heappush
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.relational.keyed import keys_of_others
from mtlmon.support.snapshot_parts import damaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.policy import PolicyFile

__all__ = ["Key", "KeyNames", "key_values", "names_of", "read_key"]

Key = tuple[str, ...]
T = TypeVar("T")

_NAME_BYTES = 300


class KeyNames(Generic[T]):
    """Gives time-points names among those of their key: the next free offset is theirs.

    Args:
        of_policies: for each policy what tells its key from others, such as the columns; None for
            one without a key.

    Attributes:
        used: what tells apart the keys that policies have. Time-points have a value for each.
    """

    def __init__(self, of_policies: Sequence[T | None]) -> None:
        self.used: list[T] = list(dict.fromkeys(one for one in of_policies if one is not None))
        self._places = [None if one is None else self.used.index(one) for one in of_policies]
        # by time-stamp, the offset and the keys of each row, in the order in which names are given
        self._rows: dict[int, list[tuple[int, Sequence[Key]]]] = {}
        self._stamps: list[int] = []
        # PERF: names are made when somebody asks about the time-stamp
        self._named: dict[int, _Named] = {}
        # PERF: rows that come in order stay together
        self._batches: deque[_Batch] = deque()
        self._count = self._added = 0
        self._forgotten_below = 0

    def add(self, time_stamp: int, offset: int, keys: Sequence[Key]) -> None:
        """Name a time-point of a key, which is one for each in `used`.

        It can have rows of other keys, each of which is added.

        Args:
            time_stamp: its time-stamp.
            offset: its offset among all time-points, which is not below an earlier one.
            keys: the values of the keys.
        """
        self._extend(time_stamp, [(offset, keys)])
        self._count += 1
        self._added += 1

    def _extend(self, time_stamp: int, rows: list[tuple[int, Sequence[Key]]]) -> None:
        """Name rows of a time-stamp behind the others."""
        known = self._rows.get(time_stamp)
        if known is None:
            self._rows[time_stamp] = rows
            heappush(self._stamps, time_stamp)
        else:
            known += rows

    def add_placed(
        self,
        time_stamps: NDArray[np.int64],
        offsets: NDArray[np.uint64],
        keys: Sequence[Sequence[Key]],
    ) -> None:
        """Do what `add` does, for time-points in any order of time.

        PERF: rows of a time-stamp that come together are added together; each by itself took four
        times as long.
        """
        if not len(time_stamps):
            return
        firsts = [0, *(np.flatnonzero(np.diff(time_stamps)) + 1).tolist(), len(time_stamps)]
        rows = list(zip(offsets.tolist(), keys, strict=True))
        for stamp, (first, last) in zip(
            time_stamps[firsts[:-1]].tolist(), pairwise(firsts), strict=True
        ):
            self._extend(stamp, rows[first:last])
        self._count += len(rows)
        self._added += 1

    def add_rows(
        self, time_stamps: NDArray[np.int64], keys: Sequence[Sequence[Key]], *, by_stamp: bool
    ) -> None:
        """Name time-points that come in the order of time, behind all others.

        Args:
            time_stamps: the time-stamp of each row.
            keys: the keys of each.
            by_stamp: whether all rows of one time-stamp are one time-point, of offset 0.
        """
        if not len(time_stamps):
            return
        offsets = np.zeros(len(time_stamps), np.int64)
        if not by_stamp:
            is_first = np.diff(time_stamps, prepend=time_stamps[0] - 1) != 0
            firsts = np.flatnonzero(is_first)
            offsets = np.arange(len(time_stamps)) - firsts[np.cumsum(is_first) - 1]
            offsets[time_stamps == time_stamps[0]] += self.next_offset(int(time_stamps[0]))
        self._batches.append(_Batch(np.array(time_stamps, np.int64), offsets, keys))
        self._count += len(time_stamps)
        self._added += 1

    def next_offset(self, time_stamp: int) -> int:
        """The offset of the next time-point of a time-stamp among all time-points."""
        rows = self._rows.get(time_stamp)
        found = rows[-1][0] + 1 if rows else 0
        if self._batches and self._batches[-1].time_stamps[-1] == time_stamp:
            found = max(found, int(self._batches[-1].offsets[-1]) + 1)
        return found

    def _rows_at(self, time_stamp: int) -> Sequence[tuple[int, Sequence[Key]]]:
        """The rows of a time-stamp, in the order in which names are given."""
        rows = self._rows.get(time_stamp, [])
        of_batches: list[tuple[int, Sequence[Key]]] = []
        for batch in self._batches:
            if batch.time_stamps[0] <= time_stamp <= batch.time_stamps[-1]:
                of_batches += batch.rows(time_stamp)
        return sorted([*rows, *of_batches], key=itemgetter(0)) if of_batches else rows

    def at(self, policy: int, time_stamp: int, offset: int) -> Mapping[Key, int] | None:
        """Return the keys of a time-point with its offset among those of each.

        Args:
            policy: the number of the policy, whose keys these are. If it has none, this is None.
            time_stamp: the time-stamp of the time-point.
            offset: its offset among all time-points.

        Raises:
            SnapshotError: a snapshot has lacked it.
        """
        place = self._places[policy]
        if place is None:
            return None
        named = self._named.get(time_stamp)
        if named is None:
            named = self._named[time_stamp] = _Named(len(self.used))
            heappush(self._stamps, time_stamp)
        if named.known != self._added:
            named.take(self._rows_at(time_stamp))
            named.known = self._added
        return named.at(place, offset)

    def present(self, policy: int, time_stamp: int, removed: Sequence[int]) -> Mapping[Key, int]:
        """Return the keys that have rows at a time-stamp, with the offset of the first one ever.

        Args:
            policy: the number of a policy with a key.
            time_stamp: the time-stamp.
            removed: the offsets of rows that were taken back.
        """
        place = self._places[policy]
        assert place is not None
        firsts: dict[Key, int] = {}
        found: dict[Key, None] = {}
        for offset, keys in self._rows_at(time_stamp):
            firsts.setdefault(keys[place], offset)
            if offset not in removed:
                found[keys[place]] = None
        return {key: firsts[key] for key in found}

    def forget(self, below: int) -> None:
        """Declare that nobody asks about time-points below a time, and none comes there."""
        while self._stamps and self._stamps[0] < below:
            time_stamp = heappop(self._stamps)
            self._count -= len(self._rows.pop(time_stamp, ()))
            self._named.pop(time_stamp, None)
        while self._batches and self._batches[0].time_stamps[-1] < below:
            self._count -= len(self._batches.popleft().keys)
        self._forgotten_below = max(self._forgotten_below, below)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that names take, about."""
        return _NAME_BYTES * self._count

    def snapshot(self) -> bytes:
        """Return what is known as bytes for `restore`."""
        stamps = set(self._rows)
        for batch in self._batches:
            stamps.update(batch.time_stamps.tolist())
        known = sorted(one for one in stamps if one >= self._forgotten_below)
        return json.dumps([(one, self._rows_at(one)) for one in known]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; no time-point must have a name.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            for time_stamp, rows in json.loads(snapshot):
                for offset, keys in rows:
                    own = [read_key(key) for key in keys]
                    if len(own) != len(self.used):
                        raise damaged()
                    self.add(_number(time_stamp), _number(offset), own)
        except (ValueError, TypeError):
            raise damaged() from None


class _Batch(NamedTuple):
    """Rows in the order of time.

    Attributes:
        time_stamps: the time-stamp of each.
        offsets: the offset of the time-point of each among all of its time-stamp.
        keys: the keys of each.
    """

    time_stamps: NDArray[np.int64]
    offsets: NDArray[np.int64]
    keys: Sequence[Sequence[Key]]

    def rows(self, time_stamp: int) -> Iterable[tuple[int, Sequence[Key]]]:
        """Return the offsets and keys of the rows of a time-stamp."""
        first = int(np.searchsorted(self.time_stamps, time_stamp, "left"))
        last = int(np.searchsorted(self.time_stamps, time_stamp, "right"))
        return zip(self.offsets[first:last].tolist(), self.keys[first:last], strict=True)


class _Named:
    """The names of the time-points of a time-stamp.

    PERF: mostly a time-point has one key. With a dictionary for each, this took five times as long.

    Args:
        places: how many keys a time-point has.

    Attributes:
        known: how often rows had been added when the names were made.
    """

    def __init__(self, places: int) -> None:
        # for each of these, the first key of each time-point with its offset, and the other ones
        self._firsts: list[dict[int, tuple[Key, int]]] = [{} for _ in range(places)]
        self._others: list[dict[int, dict[Key, int]]] = [{} for _ in range(places)]
        self._counts: list[dict[Key, int]] = [{} for _ in range(places)]
        self._done = 0
        self.known = 0

    def take(self, rows: Sequence[tuple[int, Sequence[Key]]]) -> None:
        """Name what is new among the rows of the time-stamp."""
        new = rows[self._done :] if self._done else rows
        self._done = len(rows)
        for place, (firsts, counts) in enumerate(zip(self._firsts, self._counts, strict=True)):
            for offset, keys in new:
                key = keys[place]
                if offset in firsts:
                    self._take_other(place, offset, key)
                    continue
                own = counts.get(key, 0)
                firsts[offset] = key, own
                counts[key] = own + 1

    def _take_other(self, place: int, offset: int, key: Key) -> None:
        """Name a time-point that has a name among those of another key, or of this one."""
        others = self._others[place].setdefault(offset, {})
        if key not in others and key != self._firsts[place][offset][0]:
            counts = self._counts[place]
            others[key] = counts.get(key, 0)
            counts[key] = others[key] + 1

    def at(self, place: int, offset: int) -> Mapping[Key, int]:
        """Return the keys of a time-point with its offset among those of each.

        Raises:
            SnapshotError: a snapshot has lacked it.
        """
        first = self._firsts[place].get(offset)
        if first is None:
            # it is behind a forged snapshot
            raise damaged()
        return dict([first, *self._others[place].get(offset, {}).items()])


def _number(value: object) -> int:
    """A number of a snapshot.

    Raises:
        ValueError: it is no such number.
    """
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ValueError(value)
    return value


def read_key(written: object) -> Key:
    """Return a key that a snapshot has.

    Raises:
        ValueError: it is no key.
    """
    if not isinstance(written, list) or not all(isinstance(one, str) for one in written):
        raise ValueError(written)
    for one in written:
        # it must be text that can be written
        one.encode()
    return tuple(written)


def names_of(file: PolicyFile) -> KeyNames[tuple[str, ...]] | None:
    """Return what names time-points of the policies with variables; None if none has a key.

    Args:
        file: the policies, as `keyed_file` returns them. Their keys are told apart by the columns.
    """
    names = KeyNames([one or None for one in keys_of_others(file)])
    return names if names.used else None


def key_values(used: Iterable[Sequence[str]], key: Mapping[str, str] | None) -> list[Key]:
    """Return the values of some keys.

    Args:
        used: the columns of each key.
        key: the values of columns.

    Raises:
        ValueError, TypeError: a column has no value, or one that is no text.
    """
    found = []
    for columns in used:
        values = []
        for column in columns:
            value = None if key is None else key.get(column)
            if value is None:
                raise ValueError(f"the policy has the key {column}: give its value, as a text")
            if not isinstance(value, str):
                raise TypeError(f"the value of the key {column} is a text, not {value!r}")
            values.append(value)
        found.append(tuple(values))
    return found
