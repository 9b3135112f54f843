"""Check the policies of a file on a log whose events may come late, kind by kind.

Policies without variables are one kind, and those with variables another. Each batch goes to the
check of each kind, which knows nothing of the other; what is final for both is final. For tables,
policies with variables have a partition of their own, so atoms that depend on other rows are
computed for each kind by itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.changes import Bound
from mtlmon.checking.late_events import LateEvents
from mtlmon.errors import EventError
from mtlmon.history.following import LeadingHistory
from mtlmon.history.operations import COMPLETE, INSERT, RETRACT
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from numpy.typing import NDArray

    from mtlmon.checking.changes import Change
    from mtlmon.checking.clocks import EndTime
    from mtlmon.checking.history_check import HistoryCheck
    from mtlmon.checking.late_valuations import ValuationCheck
    from mtlmon.checking.sources import EventBatch
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.history.following import NumberedHistory

    class ArrivalSource(Protocol):
        """A log whose batches have events as they come."""

        @property
        def clock(self) -> int | None:
            """The largest time-stamp so far, or None before the first event."""

        def refuse(self, places: NDArray[np.int64], reason: str) -> None:
            """Refuse events of the batch that was read last, which come too late."""

        def reject(self, place: int, reason: str) -> None:
            """Skip an event of the batch that was read last, or raise an error."""


__all__ = ["LateChecks"]


class LateChecks:
    """Checks the policies of a file on the same events, those of each kind in their own way.

    The changes of a batch come kind by kind, and then the bound below which nothing changes any
    more. Whenever an iterator yields, there may be changes to take out.

    Args:
        plain: checks the policies without variables; None if there are none. Beside others, all
            keys share one time.
        answers: checks those with variables; None if there are none.
        unmatched: "count" or "error": what to do with retractions whose rows do not come.

    Attributes:
        plain: as given.
        answers: as given.
        checks: those that there are.
        late_count: the number of events that were taken in below the largest time-stamp so far, or
            below that of a key if these have their own time.
        refused_count: the number of events that came too late for some policy.
        is_within_row: whether some policies have not had the last batch yet; there is no snapshot
            then.
    """

    def __init__(
        self,
        plain: HistoryCheck | None,
        answers: ValuationCheck | None,
        *,
        unmatched: str = "count",
    ) -> None:
        self.plain = plain
        self.answers = answers
        self.checks = [one for one in (plain, answers) if one is not None]
        self.late_count = self.refused_count = 0
        self.is_within_row = False
        self._unmatched = unmatched
        self._is_by_key = plain is not None and plain.clock == "key"
        # the time of the log, or those of the keys of each partition
        count = len(plain.partitions.columns) if plain is not None and self._is_by_key else 1
        self._late = [LateEvents() for _ in range(count)]
        self._found: list[Change] = []
        # below which time all kinds are final, as has been told
        self._emitted = 0

    def feed(self, batch: EventBatch, source: ArrivalSource) -> Iterator[None]:
        """Check the next events.

        Args:
            batch: the events, as they come.
            source: the log that they come from.

        Raises:
            MtlmonError: the lengths of time do not fit the unit of the log, integers overflow, an
                operator would remember too much, retractions have waited in vain, or more events
                come than were counted.
            MemoryLimitError: more memory is held than allowed.
        """
        count = len(batch.time_stamps)
        if not count:
            return
        first = self.position
        self.is_within_row = True
        if self.answers is not None:
            # it goes on with relations as they were before these rows
            _ = self.answers.history
        refused = known = np.zeros(count, np.bool_)
        try:
            for check in self.checks:
                for _ in check.feed(batch, refused):
                    self._found += check.taken()
                    yield
                known = refused.copy()
        finally:
            self._refuse(source, known)
        rejected = self._rejected(first)
        refused[list(rejected)] = True
        self._count_late(batch, refused)
        for check in self.checks:
            check.measure(count)
        yield from self._done()
        for place, reason in sorted(rejected.items()):
            source.reject(place, reason)
        self.is_within_row = False

    def _rejected(self, first: int) -> dict[int, str]:
        """Why events of a batch contradict counts, by their indices; the number of the first."""
        found = [one for leader in self._leaders for one in leader.take_rejected()]
        return {number - first: reason for number, reason in found}

    def count_events(self, start: int, end: int, count: int) -> Iterator[None]:
        """Let it be known that exactly so many events lie in an interval of time.

        Args:
            start: its first time-stamp.
            end: the time-stamp behind it.
            count: the number of its events.

        Raises:
            EventError: there are more already, or the interval is empty.
        """
        for check in self.checks:
            if not check.count_events(start, end, count):
                self.refused_count += check is self.checks[0]
            self._found += check.taken()
            yield
        yield from self._done()

    def _refuse(self, source: ArrivalSource, refused: NDArray[np.bool_]) -> None:
        """Let the log refuse some of the events of a batch."""
        if refused.any():
            largest = "the largest one so far" + (" of its key" if self._is_by_key else "")
            self.refused_count += int(refused.sum())
            source.refuse(
                np.flatnonzero(refused),
                f"it is more than the lateness, {self.checks[0].lateness}, below {largest}",
            )

    def _count_late(self, batch: EventBatch, refused: NDArray[np.bool_]) -> None:
        """Count the events that are late but taken in."""
        stamps = np.asarray(batch.time_stamps)
        counts = ~refused
        if batch.corrections is not None and batch.corrections.operations is not None:
            counts &= batch.corrections.operations == INSERT
            # what passes time counts as well
            has_none = np.isin(batch.corrections.operations, (RETRACT, COMPLETE))
            stamps = np.where(has_none, 0, stamps)
        is_late = np.zeros(len(stamps), np.bool_)
        for partition, late in enumerate(self._late):
            numbers = batch.numbers_of(partition) if self._is_by_key else None
            is_late |= late.take(stamps, numbers)
        self.late_count += int((is_late & counts).sum())

    def pass_time(self, time_stamp: int) -> Iterator[None]:
        """Let time pass without events.

        Args:
            time_stamp: how far, above the largest time-stamp so far; all keys share one time.
        """
        for check in self.checks:
            for _ in check.pass_time(time_stamp):
                self._found += check.taken()
                yield
        for one in self._late:
            one.pass_time(time_stamp)
        yield from self._done()

    def end(self, source: ArrivalSource, end_time: EndTime = None) -> Iterator[None]:
        """End the log: no more events come.

        Args:
            source: the log.
            end_time: what is known about the time after the log, for all keys. If nothing is known,
                all keys advance to the largest time-stamp of the log, as they share the same time;
                a row that was taken back has none, but for ticks, which it has shown to be over.
        """
        if source.clock is None:
            return
        for check in self.checks:
            for _ in check.end(max(source.clock, self.counted_until), end_time):
                self._found += check.taken()
                yield
        yield from self._done()

    def _done(self) -> Iterator[None]:
        """Tell below which time nothing changes, once all kinds have taken something in."""
        for check in self.checks:
            self._found += check.taken()
        finals = [check.final_below() or 0 for check in self.checks]
        if min(finals) > self._emitted:
            self._emitted = min(finals)
            self._found.append(Bound(self._emitted))
            self._keep_until_emitted()
            if self.answers is not None:
                self.answers.history.emitted_below = self._emitted
        yield
        if self._unmatched == "error" and self.unmatched:
            what = "retraction has" if self.unmatched == 1 else "retractions have"
            raise EventError(
                f"{self.unmatched} {what} found no row in time: --on-error skip only counts them"
            )

    def _keep_until_emitted(self) -> None:
        """Let the check of verdicts keep what belongs to them until these are final for all."""
        if self.plain is not None:
            self.plain.emitted_below = self._emitted

    def taken(self) -> list[Change]:
        """Remove the changes that have not been taken out yet, and return them."""
        found, self._found = self._found, []
        return found

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        latest = [one.latest.tolist() for one in self._late]
        head = json.dumps([self.late_count, self.refused_count, self._emitted, latest]).encode()
        return joined_parts([head, *(check.snapshot() for check in self.checks)])

    def restore(self, snapshot: bytes) -> None:
        """Continue from the snapshot of other checks; these must be new.

        Raises:
            SnapshotError: the bytes are not a snapshot of such policies.
        """
        try:
            head, *parts = split_parts(snapshot)
            self.late_count, self.refused_count, self._emitted, latest = json.loads(head)
            for late, own in zip(self._late, latest, strict=True):
                late.latest = np.array(own, np.int64)
            pairs = list(zip(self.checks, parts, strict=True))
        except (ValueError, TypeError, OverflowError):
            raise damaged() from None
        for check, part in pairs:
            check.restore(part)
        self._keep_until_emitted()

    # ---- what is known ---------------------------------------------------------------------

    @property
    def bounds(self) -> list[Bound]:
        """The bounds that have been told."""
        found = [] if self.plain is None else self.plain.bounds_of_keys
        return [Bound(self._emitted), *found] if self._emitted else found

    @property
    def counting(self) -> NDArray[np.bool_] | None:
        """For each row as it came, whether it counts at the end.

        None if policies differ in that, as a row may be late for one key and not for another.
        """
        outcomes = [one.outcome for one in self._leaders if isinstance(one, LeadingHistory)]
        found = [one.counting for one in outcomes if one is not None]
        is_same = all(np.array_equal(one, found[0]) for one in found)
        return found[0] if found and is_same else None

    def last_time(self) -> int:
        """The time of the last row that is left, or up to which time has passed without one."""
        return max((one.last_time() for one in self._leaders), default=0)

    @property
    def closed_below(self) -> int:
        """The time below which all events are known by their counts; 0 if there is none."""
        return max((one.closed_below for one in self._leaders), default=0)

    @property
    def counted_until(self) -> int:
        """How far all counts that are reached show the time if no events come any more."""
        return max((one.counted_until for one in self._leaders), default=0)

    @property
    def incomplete(self) -> int:
        """In how many intervals fewer events have come than were counted."""
        return max((one.counter("incomplete") for one in self._leaders), default=0)

    @property
    def _leaders(self) -> list[NumberedHistory]:
        return [one for check in self.checks for one in check.leaders]

    @property
    def position(self) -> int:
        """The number of events that have been read, also of those that are refused."""
        return self.checks[0].position

    @property
    def unmatched(self) -> int:
        """How many retractions have found no row, for the policy for which most have not."""
        return max((one.counter("unmatched") for one in self._leaders), default=0)

    @property
    def retracted(self) -> int:
        """How many rows were retracted, or replaced by others with their ids."""
        return max((one.counter("retracted") for one in self._leaders), default=0)

    @property
    def judged_again(self) -> int:
        """How many time-points were judged again, as events came before them."""
        return sum(check.judged_again for check in self.checks)

    @property
    def revision_count(self) -> int:
        """How often a verdict was changed or withdrawn, or an answer taken back or given again."""
        return sum(check.revision_count for check in self.checks)

    @property
    def memory(self) -> MemoryLimit:
        """How much memory may be held."""
        return self.checks[0].memory
