"""The names that time-points have among those of their key, where they are known one by one."""

from __future__ import annotations

import json
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Generic, TypeVar

from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.relational.keyed import keys_of_others
from mtlmon.support.snapshot_parts import damaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
        # for each time-stamp and offset in the log, the offset among those of each key, by place
        self._names: dict[int, dict[int, list[dict[Key, int]]]] = {}
        self._counts: dict[int, list[dict[Key, int]]] = {}
        self._stamps: list[int] = []

    def add(self, time_stamp: int, offset: int, keys: Iterable[Key]) -> None:
        """Name a time-point of a key, which is one for each in `used`.

        It can have rows of other keys, each of which is added.

        Args:
            time_stamp: its time-stamp.
            offset: its offset among all time-points.
            keys: the values of the keys.
        """
        own_places = self._named(time_stamp, offset)
        for known, own, key in zip(self._counts[time_stamp], own_places, keys, strict=True):
            if key not in own:
                own[key] = known.get(key, 0)
                known[key] = own[key] + 1

    def _named(self, time_stamp: int, offset: int) -> list[dict[Key, int]]:
        """The names of a time-point, which may have none yet."""
        if time_stamp not in self._names:
            self._counts[time_stamp] = [{} for _ in self.used]
            self._names[time_stamp] = {}
            heappush(self._stamps, time_stamp)
        names = self._names[time_stamp]
        if offset not in names:
            names[offset] = [{} for _ in self.used]
        return names[offset]

    def count(self, time_stamp: int) -> int:
        """How many time-points of a time-stamp have names."""
        return len(self._names.get(time_stamp, ()))

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
        try:
            return self._names[time_stamp][offset][place]
        except KeyError:
            # it is behind a forged snapshot
            raise damaged() from None

    def forget(self, below: int) -> None:
        """Declare that nobody asks about time-points below a time, and none comes there."""
        while self._stamps and self._stamps[0] < below:
            time_stamp = heappop(self._stamps)
            del self._names[time_stamp], self._counts[time_stamp]

    @property
    def held_bytes(self) -> int:
        """The number of bytes that names take, about."""
        return _NAME_BYTES * sum(map(len, self._names.values()))

    def snapshot(self) -> bytes:
        """Return what is known as bytes for `restore`."""
        names = [
            (time_stamp, offset, [list(own.items()) for own in places])
            for time_stamp, named in self._names.items()
            for offset, places in named.items()
        ]
        return json.dumps(names).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; no time-point must have a name.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            for time_stamp, offset, places in json.loads(snapshot):
                own_places = self._named(_number(time_stamp), _number(offset))
                for known, own, given in zip(
                    self._counts[time_stamp], own_places, places, strict=True
                ):
                    for written, count in given:
                        key = read_key(written)
                        own[key] = _number(count)
                        known[key] = max(known.get(key, 0), count + 1)
        except (ValueError, TypeError):
            raise damaged() from None


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
