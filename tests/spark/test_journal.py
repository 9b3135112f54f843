"""Journals of groups: what is in memory is used only if it is of the same entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")


from mtlmon.errors import SnapshotError
from tests.doors import (
    ENTRY_COST,
    Entry,
    EventClock,
    Head,
    Holding,
    Host,
    Journal,
    Machine,
    NodeProcessor,
    Sent,
)
from tests.doors import streaming_processor as processor
from tests.spark.fake_store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.doors import Visit
    from tests.spark.fake_store import Key


class Seen(NamedTuple):
    """The entries that something in memory has taken in."""

    entries: tuple[bytes, ...]
    held_bytes: int = 1


class Entries:
    """Entries in a list, and which of them have been read."""

    def __init__(self, *contents: bytes) -> None:
        self.contents = contents
        self.read_from: list[int] = []

    def read(self, first: int, count: int) -> Sequence[bytes]:
        self.read_from.append(first)
        return self.contents[first:count]

    def head(self) -> Head:
        first, *others = self.contents
        head = Head.of(first, None)
        for entry in others:
            head = head.followed(entry, None)
        return head


def test_what_is_in_memory_reads_what_it_does_not_have() -> None:
    holding = Holding()
    before = Entries(b"all", b"one")
    for entries, held, read in (
        (Entries(b"all", b"one"), 2, []),
        (Entries(b"all", b"one", b"two", b"three"), 2, [2]),
        # other entries: folded, of another try of the batch, or of a batch before
        (Entries(b"all of it"), 0, [0]),
        (Entries(b"all", b"other"), 0, [0]),
        (Entries(b"other", b"one", b"two"), 0, [2, 0]),
        (Entries(b"all"), 0, [0]),
    ):
        journal = Journal(before.head(), before, holding, "name")
        journal.hold(Seen(before.contents), before.head())
        other = Journal(entries.head(), entries, holding, "other name")
        assert other.revive() == (None, entries.contents)
        entries.read_from.clear()
        journal = Journal(entries.head(), entries, holding, "name")
        found, unseen = journal.revive()
        assert found == (Seen(before.contents) if held else None)
        assert unseen == entries.contents[held:]
        assert entries.read_from == read
        # it has been taken out
        assert journal.revive()[0] is None
    assert Journal(None, before, holding, "name").revive() == (None, ())


def test_entries_are_those_of_the_head() -> None:
    head = Entries(b"all", b"one").head()
    for entries in (Entries(b"all"), Entries(b"all", b"two"), Entries()):
        with pytest.raises(SnapshotError, match="the state of the query is damaged"):
            Journal(head, entries, Holding(), "name").all()


def test_the_oldest_goes_first() -> None:
    holding = Holding(5)
    head = Entries(b"all").head()
    for name in "abc":
        holding.put(name, Seen((), 2), head)
    assert len(holding) == 2
    assert holding.take("a") is None
    assert holding.take("b") is not None
    holding.put("d", Seen((), 6), head)
    assert len(holding) == 0
    holding.put("e", Seen((), 5), head)
    assert len(holding) == 1


def test_later_entries_outweigh_the_first() -> None:
    entry = b"x" * 100
    first = 3 * (100 + ENTRY_COST)
    head = Head.of(b"x" * first, None)
    for has_room in (True, True, True, False):
        assert head.has_room(entry) == has_room
        head = head.followed(entry, None)


class Kept:
    """A node that remembers the rows that it has taken."""

    held_bytes = 1

    def __init__(self) -> None:
        self.rows = b""
        self.next_change: int | None = None


class Appending(Host, Machine[Kept, None]):
    """Remembers all rows up to the horizon 9, at which it forgets them all."""

    state_name = "appending"

    def __init__(self) -> None:
        self.truth: dict[tuple[object, ...], bytes] = {(0,): b"", (1,): b""}

    def open(self) -> Appending:
        return self

    def results(self, sent: Sent, visit: Visit[None]) -> Sequence[bytes]:
        return ()

    def begin(self, key: tuple[object, ...]) -> Kept:
        return Kept()

    def replay(self, node: Kept, entries: Sequence[Entry]) -> None:
        for entry in entries:
            node.rows = b"".join([b"" if entry.is_state else node.rows, *entry.parts])

    def update(self, node: Kept, sent: Sent) -> tuple[Entry | None, None]:
        assert node.rows == self.truth[sent.key]
        new = b"".join(sent.blocks)
        node.rows = self.truth[sent.key] = b"" if sent.horizon == 9 else node.rows + new
        node.next_change = sent.horizon + 2 if new else max(node.next_change or 0, sent.horizon + 1)
        is_kept = not new and sent.horizon < 9
        return None if is_kept else Entry(False, sent.horizon, b"", [new]), None

    def snapshot(self, node: Kept, horizon: int) -> Entry | None:
        return None if horizon == 9 else Entry(True, horizon, b"", [node.rows])


class Room(Head):
    """A head that has room for three entries, and for none at the end."""

    def has_room(self, entry: bytes) -> bool:
        return self.entries < 3 and Entry.decoded(entry).horizon < 9


@pytest.mark.parametrize("is_reused", [True, False])
def test_processors_store_what_visits_leave(
    monkeypatch: pytest.MonkeyPatch, *, is_reused: bool
) -> None:
    store = Store()
    host = Appending()
    node_processor = NodeProcessor(host, EventClock.of_unit("s"))
    monkeypatch.setattr(processor, "batch_number", lambda: 0)
    monkeypatch.setattr(processor, "Head", Room)
    monkeypatch.setattr(processor, "_HOLDING", Holding())
    for horizon in range(9):
        if not is_reused:
            monkeypatch.setattr(processor, "_HOLDING", Holding())
        blocks: list[bytes] = [b"%d," % horizon, b"more "]
        rows: dict[Key, Sequence[bytes]] = {(horizon % 2,): blocks} if horizon < 6 else {}
        assert list(store.visit(node_processor, rows, horizon * 1000)) == []
    assert host.truth[(1,)] == b"1,more 3,more 5,more "
    assert len(store.entries("appending")[(1,)]) == 3
    assert store.timers == {(9000, (0,)), (9000, (1,))}
    # in memory, entries need not be read
    assert (store.read == 0) == is_reused
    list(store.visit(node_processor, {}, 9000))
    assert store.entries("appending") == {}
    assert (store.values, store.timers) == ({}, set())
