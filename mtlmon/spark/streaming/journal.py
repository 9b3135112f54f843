"""The states of groups as journals: a first entry that has all, and later ones that add to it.

So a large state is not written again in each batch, only once the later entries outweigh it. What a
worker has made of a journal may stay in its memory until the next batch. As another worker may
execute that, or the same one a batch for the second time, each journal has a *version*: a digest of
its entries. What is in memory is used only if it has just the entries that the journal has now, or
some of the first of them, and takes in the others.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mtlmon.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

__all__ = ["MOST_HELD", "Entries", "Head", "Held", "Holding", "Journal"]

ENTRY_COST = 4096
"""What an entry costs beside its bytes, in bytes: to be found, and to be taken in."""

MOST_HELD = 512 << 20
"""How many bytes a worker holds of all journals."""

_DIGEST_BYTES = 16


class Head(NamedTuple):
    """What is known of a journal without reading it.

    Attributes:
        version: the digest of its entries.
        entries: their number.
        first: the size of the first entry.
        later: what the others cost.
        wakeup: the least horizon at which there is something to do without new rows, or None.
    """

    version: bytes
    entries: int
    first: int
    later: int
    wakeup: int | None

    @classmethod
    def of(cls, entry: bytes, wakeup: int | None) -> Head:
        """Return the head of a journal with one entry."""
        return cls(digest(b"", entry), 1, len(entry), 0, wakeup)

    def followed(self, entry: bytes, wakeup: int | None) -> Head:
        """Return the head with one more entry."""
        version = digest(self.version, entry)
        later = self.later + len(entry) + ENTRY_COST
        return Head(version, self.entries + 1, self.first, later, wakeup)

    def has_room(self, entry: bytes) -> bool:
        """Whether one more entry does not make the later ones outweigh the first."""
        return self.later + len(entry) + ENTRY_COST <= self.first


def digest(version: bytes, entry: bytes) -> bytes:
    """Return the version after one more entry."""
    return blake2b(entry, digest_size=_DIGEST_BYTES, key=version).digest()


class Held(Protocol):
    """What can be held in memory."""

    @property
    def held_bytes(self) -> int:
        """How many bytes it holds."""


class _Kept(NamedTuple):
    """Something in memory, and the version and the number of the entries that it has."""

    held: Held
    version: bytes
    entries: int
    size: int


class Holding:
    """What a worker has in memory of journals; the oldest goes first if there is too much.

    Args:
        most: how many bytes are held.
    """

    def __init__(self, most: int = MOST_HELD) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._size = 0

    def take(self, name: Hashable) -> _Kept | None:
        """Take something out: it is about to change, and of no use if that fails."""
        found = self._kept.pop(name, None)
        if found is not None:
            self._size -= found.size
        return found

    def put(self, name: Hashable, held: Held, head: Head) -> None:
        """Hold something that has all entries of a journal."""
        self.take(name)
        size = held.held_bytes
        self._kept[name] = _Kept(held, head.version, head.entries, size)
        self._size += size
        while self._size > self._most:
            _, dropped = self._kept.popitem(last=False)
            self._size -= dropped.size

    def __len__(self) -> int:
        return len(self._kept)


class Entries(Protocol):
    """Where the entries of a journal are."""

    def read(self, first: int, count: int) -> Sequence[bytes]:
        """Return the entries from the number `first` on, of `count` in all."""


class Journal:
    """The state of a group.

    Args:
        head: what is known of it; None if there are no entries.
        entries: where the entries are.
        holding: what the worker has in memory.
        name: the name of the group there.
    """

    def __init__(
        self, head: Head | None, entries: Entries, holding: Holding, name: Hashable
    ) -> None:
        self.head = head
        self._entries = entries
        self._holding = holding
        self._name = name

    @property
    def wakeup(self) -> int | None:
        """`Head.wakeup`, or None."""
        return None if self.head is None else self.head.wakeup

    def all(self) -> Sequence[bytes]:
        """Read all entries.

        Raises:
            SnapshotError: they are damaged.
        """
        head = self.head
        if head is None:
            return ()
        found = self._entries.read(0, head.entries)
        if not _leads_to(b"", found, head):
            raise SnapshotError("the state of the query is damaged")
        return found

    def revive(self) -> tuple[Any, Sequence[bytes]]:
        """Take what is in memory, and read what it does not have.

        Returns:
            What was in memory, None if that was nothing; and the entries that it does not have: all
            of them if there is nothing.

        Raises:
            SnapshotError: the entries are damaged.
        """
        kept = self._holding.take(self._name)
        head = self.head
        if kept is None or head is None or kept.entries > head.entries:
            return None, self.all()
        unseen: Sequence[bytes] = ()
        if kept.entries < head.entries:
            unseen = self._entries.read(kept.entries, head.entries)
        if not _leads_to(kept.version, unseen, head):
            return None, self.all()
        return kept.held, unseen

    def hold(self, held: Held, head: Head) -> None:
        """Hold what has all entries in memory."""
        self._holding.put(self._name, held, head)


def _leads_to(version: bytes, entries: Sequence[bytes], head: Head) -> bool:
    """Whether entries that follow a version give that of a journal."""
    for entry in entries:
        version = digest(version, entry)
    return version == head.version
