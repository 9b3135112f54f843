"""Which events there are for policies with variables, and which of their rows count.

The history that judges nothing (`mtlmon.history.following`) admits the events. If atoms depend on
other rows, all events have their rows, and a column for each such atom marks where the rows count.
A changed mark is a changed time-point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Literal

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.history.following import LeadingHistory, Passed, Placements
    from mtlmon.history.operations import Corrections
    from mtlmon.relational.correcting.chunks import ComputedRows, RevisedPoints

__all__ = ["Admitted", "EventAdmission"]


class Admitted(NamedTuple):
    """What has become of events.

    Attributes:
        found: in turn what has become of some, and how far time passes then.
        held: for each event of `found` that has its name now, which conditional atoms hold there;
            None if there are no such atoms.
        revised: where conditional atoms have changed.
        rows: the rows of atoms that are computed, where they were.
    """

    found: Sequence[tuple[Placements, Passed | None]]
    held: NDArray[np.bool_] | None = None
    revised: Sequence[RevisedPoints] = ()
    rows: Sequence[ComputedRows] = ()


class EventAdmission:
    """Finds which events there are, all of whose rows count.

    Args:
        leader: the history that admits them.

    Attributes:
        leader: as given.
    """

    def __init__(self, leader: LeadingHistory) -> None:
        self.leader = leader

    def admit(
        self,
        time_stamps: NDArray[np.int64],
        texts: Iterable[str] | None,
        corrections: Corrections,
    ) -> tuple[NDArray[np.int64], Admitted]:
        """Take a batch of events, as `LeadingHistory.admit` does."""
        refused, found = self.leader.admit(time_stamps, texts, None, corrections)
        return refused, Admitted(found)

    def let_time_pass(self, time_stamp: int) -> Admitted:
        """Let time pass without an event."""
        return Admitted(self.leader.passed_by(time_stamp))

    def count_events(self, start: int, end: int, count: int) -> tuple[bool, Admitted]:
        """Take in how many events an interval of time has; return whether that is not too late."""
        is_taken, found = self.leader.let_count(start, end, count)
        return is_taken, Admitted(found)

    def finish(self, end_time: int | Literal["last", "inf"] | None) -> Admitted:
        """End the log: nothing waits any more."""
        return Admitted(self.leader.ended(end_time))

    def waiting(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the numbers of the events that wait, in no order, and their time-stamps."""
        return self.leader.waiting_numbers(), self.leader.waiting_stamps()

    @property
    def waiting_count(self) -> int:
        """How many events wait."""
        return self.leader.waiting

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        return self.leader.snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            SnapshotError, ValueError, KeyError, TypeError: the bytes are damaged.
        """
        self.leader.restore(snapshot)
