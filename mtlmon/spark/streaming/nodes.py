"""What Spark sees of monitors: machines that let nodes take rows, and how a visit of a node goes.

`transformWithState` passes rows to Python one by one, and pays several exchanges between Java and
Python for each state. So a query divides its rows into groups: buckets of keys, slices, or all rows
together. What a group remembers is a *node*. It rests as a journal between batches, and may stay in
the memory of the worker that has visited it last. A *machine* lets one node after the other go on;
it is all that differs from one kind of groups to another.

`Machine.visit` is what happens to any node in a batch. It is taken from the memory of the worker or
from its journal, takes the rows, and what it has taken is appended to the journal, unless the later
entries would outweigh the first; then a snapshot takes the place of all. Memory is used by the
version of the journal, so it does not matter which worker had the node last. Each group has at most
one timer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from mtlmon.spark.streaming.entries import Entry
from mtlmon.spark.streaming.journal import Held

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtlmon.spark.streaming.journal import Journal

__all__ = ["Host", "Machine", "Node", "Sent", "Visit"]


class Sent(NamedTuple):
    """What comes to a node in a batch.

    Attributes:
        blocks: its rows in this batch, packed, in the order in which tasks have packed them.
        horizon: no more rows with time-stamps below it come in time.
        key: the key of the group.
        side: what relations of rows have told; None if that is nothing.
        batch: the number of the batch.
    """

    blocks: Sequence[bytes]
    horizon: int
    key: tuple[object, ...] = ()
    side: bytes | None = None
    batch: int = 0


class Node(Held, Protocol):
    """What a group remembers."""

    @property
    def next_change(self) -> int | None:
        """The least horizon at which there is something to do without new rows, or None."""


NodeT = TypeVar("NodeT", bound=Node)
AnswersT = TypeVar("AnswersT")


class Visit(NamedTuple, Generic[AnswersT]):
    """What a visit of a node leaves.

    Attributes:
        wakeup: the least horizon at which there is something to do without new rows, or None.
        appended: an entry to store behind those that are stored, or None.
        replaced: an entry to store in place of all that are stored, or None; without bytes, nothing
            is stored any more.
        node: the node after that, which has all that is stored.
        answers: what it says.
        was_due: whether there was something to do without new rows, or nothing was stored before.
    """

    wakeup: int | None
    appended: bytes | None
    replaced: bytes | None
    node: Node
    answers: AnswersT
    was_due: bool


class Machine(ABC, Generic[NodeT, AnswersT]):
    """Lets one node after the other take rows and time."""

    @abstractmethod
    def begin(self, key: tuple[object, ...]) -> NodeT:
        """Return a node that remembers nothing."""

    @abstractmethod
    def replay(self, node: NodeT, entries: Sequence[Entry]) -> None:
        """Let a node take entries of its journal, whose answers have been given.

        Raises:
            SnapshotError: they are of another query, or damaged.
        """

    @abstractmethod
    def update(self, node: NodeT, sent: Sent) -> tuple[Entry | None, AnswersT]:
        """Let a node take rows, and the time up to a horizon.

        Returns:
            What leads from the node before to the one after, None if nothing has changed; and what
            the node says.
        """

    @abstractmethod
    def snapshot(self, node: NodeT, horizon: int) -> Entry | None:
        """Return all that a node remembers, without what is no longer of use; None for nothing."""

    def fits(self, node: object) -> bool:
        """Whether something in memory is a node of this machine."""
        return True

    def fail(self) -> None:
        """Note that an error has left nodes in an unknown state."""

    def close(self) -> None:
        """End the work of a task."""

    def wakes_with_horizon(self, key: tuple[object, ...]) -> bool:
        """Whether a node says something whenever the horizon moves."""
        return False

    def revived(self, journal: Journal, sent: Sent) -> tuple[NodeT, bool | None] | None:
        """Take a node from memory, and the entries that it does not have; or take them all.

        Returns:
            The node, and whether what it remembers is to take the place of the journal: None if
            that depends on the sizes of entries. None if there is no such node, and none begins.
        """
        node, entries = journal.revive()
        if node is None or not self.fits(node):
            node, entries = self.begin(sent.key), journal.all()
        self.replay(node, [Entry.decoded(one) for one in entries])
        return node, None

    def visit(self, journal: Journal, sent: Sent) -> Visit[AnswersT] | None:
        """Go on with a node; None if there is nothing to do.

        Args:
            journal: its journal, which is empty at first.
            sent: what comes to it.

        Raises:
            SnapshotError: the journal belongs to another query, or is damaged.
        """
        if journal.head is None and not sent.blocks:
            # a bucket without keys hears of relations
            return None
        wakeup = journal.wakeup
        was_due = journal.head is None or (wakeup is not None and wakeup <= sent.horizon)
        is_done = False
        try:
            found = self.revived(journal, sent)
            if found is None:
                is_done = True
                return None
            node, replaces = found
            made, answers = self.update(node, sent)
            entry = None if made is None else made.encoded()
            replaced = None
            head = journal.head
            if replaces is None:
                has_room = head is not None and (entry is None or head.has_room(entry))
                replaces = not has_room
            if replaces:
                whole = self.snapshot(node, sent.horizon)
                entry, replaced = None, b"" if whole is None else whole.encoded()
            is_done = True
        finally:
            if not is_done:
                self.fail()
        wakeup = node.next_change
        if self.wakes_with_horizon(sent.key):
            wakeup = sent.horizon + 1 if wakeup is None else min(wakeup, sent.horizon + 1)
        return Visit(wakeup, entry, replaced, node, answers, was_due)


class Host(ABC):
    """What a query has its groups visited by; picklable.

    Attributes:
        state_name: the name of the entries of journals in Spark's state store.
        held_as: what is in memory between batches is used only by a host that has the same.
    """

    state_name: str
    held_as = b""

    @abstractmethod
    def open(self) -> Machine[Any, Any]:
        """Return the machine of a task."""

    @abstractmethod
    def results(self, sent: Sent, visit: Visit[Any]) -> Iterable[bytes]:
        """Return the results of a visit."""
