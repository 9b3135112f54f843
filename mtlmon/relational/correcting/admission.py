"""Which events there are for policies with variables, and which of their rows count.

The history that judges nothing (`mtlmon.history.following`) admits the events. If atoms depend on
other rows, all events have their rows, and a column for each such atom marks where the rows count.
A changed mark is a changed time-point.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from mtlmon.history.contents import Contents
from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from typing import Literal

    from numpy.typing import NDArray

    from mtlmon.history.following import LeadingHistory, Passed, Placements
    from mtlmon.relational.correcting.chunks import ComputedRows, RevisedPoints

__all__ = ["Admission", "Admitted", "EventAdmission"]


class Admitted(NamedTuple):
    """What has become of events.

    Attributes:
        found: in turn what has become of some, and how far time passes then.
        held: for each event of `found` that has its name now, which conditional atoms hold there;
            None if there are no such atoms.
        revised: where conditional atoms have changed; None if that is nowhere.
        rows: the rows of atoms that are computed, where they were; None if there are no such atoms.
    """

    found: Sequence[tuple[Placements, Passed | None]]
    held: NDArray[np.bool_] | None = None
    revised: RevisedPoints | None = None
    rows: ComputedRows | None = None


class Admission(Protocol):
    """Finds which events there are."""

    @property
    def leader(self) -> LeadingHistory:
        """The history that admits them."""

    def admit(
        self,
        time_stamps: NDArray[np.int64],
        texts: Iterable[str] | None,
        ids: Sequence[Hashable] | None,
        operations: NDArray[np.uint8] | None,
    ) -> tuple[NDArray[np.int64], Admitted]:
        """Take a batch of events.

        Args:
            time_stamps: their time-stamps.
            texts: for each, a text of what is in it; None if it does not matter which are equal.
            ids: as for `History`.
            operations: the number of what each row does, or None if all insert.

        Returns:
            The indices of those that come too late, and what has become of events.
        """

    def let_time_pass(self, time_stamp: int) -> Admitted:
        """Let time pass without an event."""

    def finish(self, end_time: int | Literal["last", "inf"] | None) -> Admitted:
        """End the log: nothing waits any more."""

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            SnapshotError, ValueError, KeyError, TypeError: the bytes are damaged.
        """


class EventAdmission:
    """Finds which events there are, all of whose rows count.

    Args:
        leader: the history that admits them.
        lateness: how late they may be; None if that does not matter.

    Attributes:
        leader: as given.
    """

    def __init__(self, leader: LeadingHistory, lateness: int | None) -> None:
        self.leader = leader
        self._age = 2 * (lateness or LARGEST // 2)
        self._contents = Contents()

    def admit(
        self,
        time_stamps: NDArray[np.int64],
        texts: Iterable[str] | None,
        ids: Sequence[Hashable] | None,
        operations: NDArray[np.uint8] | None,
    ) -> tuple[NDArray[np.int64], Admitted]:
        """Do what `Admission` says."""
        count = len(time_stamps)
        if texts is None:
            contents = self._contents.new(count)
        else:
            traces = np.zeros(count, np.uint32)
            contents = self._contents.numbers_of(texts, traces, time_stamps)
        refused, found = self.leader.admit(time_stamps, contents, None, ids, operations)
        if operations is not None or ids is not None:
            self._contents.forget(self.leader, self._age)
        return refused, Admitted(found)

    def let_time_pass(self, time_stamp: int) -> Admitted:
        """Do what `Admission` says."""
        passed = self.leader.let_time_pass(time_stamp)
        return Admitted([(self.leader.placements(), passed)])

    def finish(self, end_time: int | Literal["last", "inf"] | None) -> Admitted:
        """Do what `Admission` says."""
        self.leader.finish(end_time)
        return Admitted(self.leader.placements_at_end())

    def snapshot(self) -> bytes:
        """Do what `Admission` says."""
        known = json.dumps(self._contents.parts()).encode()
        return joined_parts([self.leader.snapshot(), known])

    def restore(self, snapshot: bytes) -> None:
        """Do what `Admission` says."""
        leader, known = split_parts(snapshot)
        self.leader.restore(leader)
        self._contents.restore(json.loads(known))
