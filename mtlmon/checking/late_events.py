"""What is counted of events that may come late, whatever kind the policies are of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mtlmon.checking.changes import Bound
from mtlmon.errors import EventError
from mtlmon.history.following import LeadingHistory
from mtlmon.history.operations import INSERT, RETRACT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from numpy.typing import NDArray

    from mtlmon.checking.changes import Change
    from mtlmon.checking.clocks import EndTime
    from mtlmon.checking.history_check import ArrivalSource, Bounds
    from mtlmon.checking.sources import EventBatch
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.history.following import NumberedHistory, Outcome
    from mtlmon.policy import Policy
    from mtlmon.policy.limits import PolicyCounts

__all__ = ["LateCheck", "LateEvents"]


class LateEvents:
    """Remembers the largest time-stamp of each trace."""

    def __init__(self) -> None:
        self.latest = np.zeros(0, np.int64)

    def take(
        self, time_stamps: NDArray[np.int64], numbers: NDArray[np.uint32] | None
    ) -> NDArray[np.bool_]:
        """Take the next events; return which of them are late.

        Args:
            time_stamps: their time-stamps, as they come; at least one.
            numbers: the numbers of their traces; None if all are of trace 0.
        """
        if numbers is None:
            # PERF: a log of one trace is half as fast with what is below
            self._make_room(1)
            before = np.maximum.accumulate(np.concatenate([self.latest[:1], time_stamps]))
            self.latest[0] = before[-1]
            return time_stamps < before[:-1]
        traces, trace_of = np.unique(numbers, return_inverse=True)
        self._make_room(int(traces[-1]) + 1)
        # what is known of the traces comes first
        stamps = np.concatenate([self.latest[traces], time_stamps])
        owners = np.concatenate([np.arange(len(traces)), trace_of])
        order = np.argsort(owners, kind="stable")
        # ranks are small, so that those of different traces can be told apart by a multiple
        distinct, ranks = np.unique(stamps, return_inverse=True)
        ranked = (owners * len(stamps) + ranks)[order]
        largest = np.maximum.accumulate(ranked)
        is_late = np.empty(len(stamps), np.bool_)
        is_late[order] = ranked < largest
        ends = np.cumsum(np.bincount(owners)) - 1
        self.latest[traces] = distinct[largest[ends] % len(stamps)]
        return is_late[len(traces) :]

    def pass_time(self, time_stamp: int) -> None:
        """Let time pass in the trace with number 0."""
        self._make_room(1)
        self.latest[0] = max(self.latest[0], time_stamp)

    def _make_room(self, count: int) -> None:
        if count > len(self.latest):
            more = max(count, 2 * len(self.latest)) - len(self.latest)
            self.latest = np.concatenate([self.latest, np.zeros(more, np.int64)])


class LateCheck(ABC):
    """Checks policies of one kind on a log whose events may come late.

    Args:
        policies: the policies.
        bounds: returns how late events may be; called once the first events have been read.
        memory: how much memory may be held.
        unmatched: "count" or "error": what to do with retractions whose rows do not come.
        clock: "all": an event is late if it is below the largest time-stamp of the log; "key": if
            it is below that of its key, by the key of each policy.
        partition_count: the number of partitions.

    Attributes:
        policies: as given.
        memory: as given.
        position: the number of events that have been read, also of those that are refused.
        late_count: the number of events that were taken in below the largest time-stamp so far, or
            below that of a key if these have their own time.
        refused_count: the number of events that came too late for some policy.
        revision_count: how often a verdict was changed or withdrawn, or an answer taken back or
            given again.
        revision: the number of batches with events.
        bytes_beside: how many bytes whoever reads the log holds of the same rows.
    """

    bytes_beside = 0

    def __init__(
        self,
        policies: Sequence[Policy],
        bounds: Callable[[], Bounds],
        memory: MemoryLimit,
        unmatched: str,
        clock: Literal["all", "key"] = "all",
        partition_count: int = 1,
    ) -> None:
        self.policies = tuple(policies)
        self.memory = memory
        self.position = self.late_count = self.refused_count = 0
        self.revision_count = self.revision = 0
        self._bounds = bounds
        self._unmatched = unmatched
        self._clock: Literal["all", "key"] = clock
        self._lateness = 0
        # the time of the log, or those of the keys of each partition
        count = 1 if clock == "all" else partition_count
        self._late = [LateEvents() for _ in range(count)]
        self._emitted = 0
        self._found: list[Change] = []

    @abstractmethod
    def feed(self, batch: EventBatch, source: ArrivalSource) -> Generator[None, None, None]:
        """Check the next events; whenever this yields, there may be changes to take out.

        Args:
            batch: the events, as they come.
            source: the log that they come from.

        Raises:
            MtlmonError: the lengths of time do not fit the unit of the log, integers overflow, or
                an operator would remember too much.
            MemoryLimitError: more memory is held than allowed.
        """

    @abstractmethod
    def pass_time(self, time_stamp: int) -> Generator[None, None, None]:
        """Let time pass without events; whenever this yields, there may be changes to take out.

        Args:
            time_stamp: how far, above the largest time-stamp so far; all keys share one time.
        """

    @abstractmethod
    def end(self, source: ArrivalSource, end_time: EndTime = None) -> Generator[None, None, None]:
        """End the log: no more events come. Whenever this yields, there may be changes.

        Args:
            source: the log.
            end_time: what is known about the time after the log, for all keys. If nothing is known,
                all keys advance to the largest time-stamp of the log, as they share the same time;
                a row that was taken back has none, but for ticks, which it has shown to be over.
        """

    @abstractmethod
    def snapshot(self) -> bytes:
        """Return the state of the check after `position` events as bytes for `restore`.

        The snapshot does not include the texts of the keys, nor changes that wait.

        Raises:
            SnapshotError: the log has ended.
        """

    @abstractmethod
    def restore(self, snapshot: bytes) -> None:
        """Continue from the snapshot of another check; this check must be new.

        The caller goes on with the event that follows the first `position` events of the log. All
        keys must have the same numbers as before.

        Raises:
            SnapshotError: the bytes are not a snapshot, or are damaged, or belong to other policies
                or settings, or to another version. The check must not be used after that.
        """

    @property
    @abstractmethod
    def leaders(self) -> Sequence[NumberedHistory]:
        """The histories that decide which rows there are: rows can be equal for some policies."""

    @property
    @abstractmethod
    def counts(self) -> list[PolicyCounts]:
        """The counts of each policy."""

    @property
    @abstractmethod
    def judged_again(self) -> int:
        """How many time-points of policies were judged again, as events came before them."""

    def taken(self) -> list[Change]:
        """Remove the changes that have not been taken out yet, and return them."""
        found, self._found = self._found, []
        return found

    # ---- events ----------------------------------------------------------------------------

    def _count(self, batch: EventBatch, source: ArrivalSource, refused: NDArray[np.bool_]) -> None:
        """Count the events of a batch, and let the log refuse some of them."""
        if refused.any():
            largest = "the largest one so far" + (" of its key" if self._clock == "key" else "")
            self.refused_count += int(refused.sum())
            source.refuse(
                np.flatnonzero(refused),
                f"it is more than the lateness, {self._lateness}, below {largest}",
            )
        stamps = np.asarray(batch.time_stamps)
        counts = ~refused
        if batch.corrections is not None and batch.corrections.operations is not None:
            counts &= batch.corrections.operations == INSERT
            # what passes time counts as well
            stamps = np.where(batch.corrections.operations == RETRACT, 0, stamps)
        is_late = np.zeros(len(stamps), np.bool_)
        for partition, late in enumerate(self._late):
            numbers = batch.numbers_of(partition) if self._clock == "key" else None
            is_late |= late.take(stamps, numbers)
        self.late_count += int((is_late & counts).sum())
        self.position += len(stamps)

    def _require_matched(self) -> None:
        """Refuse retractions whose rows have not come, if they are an error."""
        if self._unmatched == "error" and self.unmatched:
            what = "retraction has" if self.unmatched == 1 else "retractions have"
            raise EventError(
                f"{self.unmatched} {what} found no row in time: --on-error skip only counts them"
            )

    # ---- snapshots -------------------------------------------------------------------------

    def _head(self) -> dict[str, Any]:
        """Return what is counted for `_know`, as JSON can write it."""
        return {
            "position": self.position,
            "late": self.late_count,
            "refused": self.refused_count,
            "revised": self.revision_count,
            "revision": self.revision,
            "told": self._emitted,
            "latest": [one.latest.tolist() for one in self._late],
        }

    def _know(self, head: Any) -> None:
        """Go on from what `_head` has returned.

        Raises:
            ValueError, KeyError, TypeError, OverflowError: it is something else.
        """
        self.position, self.late_count = head["position"], head["late"]
        self.refused_count, self.revision_count = head["refused"], head["revised"]
        self.revision, self._emitted = head["revision"], head["told"]
        for late, latest in zip(self._late, head["latest"], strict=True):
            late.latest = np.array(latest, np.int64)

    # ---- what is known ---------------------------------------------------------------------

    @property
    def bounds(self) -> list[Bound]:
        """The bounds that have been told."""
        return [Bound(self._emitted)] if self._emitted else []

    @property
    def outcomes(self) -> list[Outcome | None]:
        """What the histories that admit rows have noted of them."""
        return [one.outcome for one in self.leaders if isinstance(one, LeadingHistory)]

    def last_time(self) -> int:
        """The time of the last row that is left, or up to which time has passed without one."""
        return max((one.last_time() for one in self.leaders), default=0)

    @property
    def unmatched(self) -> int:
        """How many retractions have found no row, for the policy for which most have not."""
        return max((one.counter("unmatched") for one in self.leaders), default=0)

    @property
    def retracted(self) -> int:
        """How many rows were retracted, or replaced by others with their ids."""
        return max((one.counter("retracted") for one in self.leaders), default=0)
