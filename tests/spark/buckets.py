"""The journal of a bucket, without Spark, and workers that have buckets in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.doors import Entry, Head, Holding, Journal, SharedMonitors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tests.doors import BucketRecords, Policies, Visit


class Worker(NamedTuple):
    """What a worker has in memory."""

    shared: SharedMonitors
    holding: Holding

    @classmethod
    def of(cls, policies: Policies) -> Worker:
        """Return a worker that has only begun."""
        return cls(SharedMonitors(policies), Holding())


class Counted(Head):
    """The head of a journal that has room for five entries, whatever their sizes."""

    def has_room(self, entry: bytes) -> bool:
        return self.entries < 5


class KeptJournal:
    """A journal that is kept as Spark's state store keeps it.

    Args:
        is_counted: whether there are as many entries as `Counted` has room for: small journals
            have only one otherwise.
    """

    def __init__(self, *, is_counted: bool = False) -> None:
        self.kind = Counted if is_counted else Head
        self.head: Head | None = None
        self.entries: list[bytes] = []
        self.appended = 0

    def read(self, first: int, count: int) -> Sequence[bytes]:
        return self.entries[first:count]

    def seen_by(self, worker: Worker, name: object = None) -> Journal:
        """The journal in a visit."""
        return Journal(self.head, self, worker.holding, name)

    def store(self, journal: Journal, visit: Visit[Any]) -> None:
        """Take what a visit leaves."""
        if visit.replaced is not None:
            self.entries = [visit.replaced]
            self.head = Head.of(visit.replaced, visit.wakeup)
        elif visit.appended is not None:
            assert self.head is not None
            self.entries.append(visit.appended)
            self.head = self.head.followed(visit.appended, visit.wakeup)
            self.appended += 1
        assert self.head is not None
        self.head = self.kind(*self.head._replace(wakeup=visit.wakeup))
        journal.hold(visit.node, self.head)

    def keys(self, records: BucketRecords) -> set[int]:
        """The keys that something is remembered of, which have one column."""
        found = [records.decode(Entry.decoded(one)) for one in self.entries]
        assert not found or found[0].monitors
        return {key for one in found for key in one.keys[0].to_pylist()}
