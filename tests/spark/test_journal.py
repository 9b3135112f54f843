"""Journals of groups: what is in memory is used only if it is of the same entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

from mtlmon.errors import SnapshotError
from tests.doors import (
    ENTRY_COST,
    EventClock,
    Head,
    Holding,
    Journal,
    TimedProcessor,
    Visit,
    outweighs,
)
from tests.doors import streaming_stateful as stateful
from tests.spark.fake_store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        assert journal.revive().held is None
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
    sizes, head = [first], Head.of(b"x" * first, None)
    for has_room in (True, True, True, False):
        assert head.has_room(entry) == has_room
        sizes.append(len(entry))
        assert outweighs(sizes) != has_room
        head = head.followed(entry, None)
    assert not outweighs([1])


class Appending(TimedProcessor):
    """Remembers all of its blocks, folds every fourth visit, and forgets all at the horizon 9."""

    STATE_NAME = "appending"

    def visit(
        self, key: tuple[object, ...], journal: Journal, blocks: Sequence[bytes], horizon: int
    ) -> Visit:
        held, unseen = journal.revive()
        known = b"".join([*(held.entries if held else ()), *unseen])
        new = b"".join(blocks)
        assert self.truth[key] == known
        if horizon == 9:
            self.truth[key] = b""
            return Visit(None, None, b"", [])
        self.truth[key] = known + new
        wakeup = horizon + 2 if blocks else journal.wakeup
        seen = Seen((known + new,))
        if not blocks:
            return Visit(wakeup and max(wakeup, horizon + 1), None, None, [], seen)
        if journal.head is None or journal.head.entries == 3:
            return Visit(wakeup, None, known + new, [], seen)
        return Visit(wakeup, new, None, [], seen)

    truth: dict[tuple[object, ...], bytes]


@pytest.mark.parametrize("is_reused", [True, False])
def test_processors_store_what_visits_leave(
    monkeypatch: pytest.MonkeyPatch, *, is_reused: bool
) -> None:
    store = Store()
    processor = Appending(EventClock.of_unit("s"))
    processor.truth = {(0,): b"", (1,): b""}
    monkeypatch.setattr(stateful, "_HOLDING", Holding())
    for horizon in range(9):
        if not is_reused:
            monkeypatch.setattr(stateful, "_HOLDING", Holding())
        blocks: list[bytes] = [b"%d," % horizon, b"more "]
        rows: dict[Key, Sequence[bytes]] = {(horizon % 2,): blocks} if horizon < 6 else {}
        assert list(store.visit(processor, rows, horizon * 1000)) == []
    assert processor.truth[(1,)] == b"1,more 3,more 5,more "
    assert len(store.entries("appending")[(1,)]) == 3
    assert store.timers == {(9000, (0,)), (9000, (1,))}
    # in memory, entries need not be read
    assert (store.read == 0) == is_reused
    list(store.visit(processor, {}, 9000))
    assert store.entries("appending") == {}
    assert (store.values, store.timers) == ({}, set())
