"""Check policies with variables on a log whose events may come late, and correct their answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mtlmon.checking.changes import Bound, ChangedAnswers
from mtlmon.checking.late_events import LateEvents
from mtlmon.errors import EventError
from mtlmon.history.operations import INSERT, RETRACT
from mtlmon.policy.limits import PolicyCounts, tallies_of
from mtlmon.relational.correcting.points import NEW, PointHistory
from mtlmon.relational.keyed import keys_of_others
from mtlmon.relational.vacuity import matched_by_policy
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.changes import Change
    from mtlmon.checking.clocks import EndTime
    from mtlmon.checking.conditional_rows import ConditionalRows
    from mtlmon.checking.history_check import ArrivalSource, Bounds
    from mtlmon.checking.late_origins import AnswerRows
    from mtlmon.checking.sources import EventBatch
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.history.following import Outcome
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.limits import Tally, Triggered

    class BatchRows(Protocol):
        """Makes time-points of the rows of batches."""

        @property
        def left_out(self) -> int: ...
        def load(self, batch: Any) -> None: ...
        def read(self) -> bool: ...
        def snapshot(self) -> bytes: ...
        def restore(self, snapshot: bytes) -> None: ...


__all__ = ["ValuationCheck"]


class ValuationCheck:
    """Checks the policies with variables of a file on a log, and corrects what they say.

    After every batch, the answers are those of `RelationalRun` for the events so far in the order
    of time.

    Args:
        file: the policies, of which those without variables are passed over.
        bounds: returns how late events may be; called once the first events have been read.
        make: makes the history, given these bounds.
        rows_of: makes what turns the rows of batches into time-points; None if whoever reads the
            log has added them to `PointHistory.arrivals` when a batch comes.
        memory: how much memory may be held.
        unmatched: "count" or "error": what to do with retractions whose rows do not come.
        tracks_rows: whether to find the rows that answers are about; the source must track them,
            and `make` let `origins` listen.

    Attributes:
        policies: the policies with variables.
        keys: the columns of the key of each.
        position: the number of events that have been read, also of those that are refused.
        late_count: the number of events that were taken in below the largest time-stamp so far.
        refused_count: the number of events that came too late.
        revision_count: how often an answer was taken back, or given again.
        revision: the number of batches with events.
        memory: as given.
        rows: what `rows_of` has made.
        conditional: set this in `make` if atoms depend on other rows.
        origins: finds the rows of answers; None if they are not wanted.
        key_tables: set this in `make` if policies have a key: the keys of each partition of the
            log, by number.
        bytes_beside: how many bytes whoever reads the log holds of the same rows.
    """

    bytes_beside = 0

    def __init__(
        self,
        file: PolicyFile,
        bounds: Callable[[], Bounds],
        make: Callable[[Bounds], PointHistory],
        rows_of: Callable[[PointHistory], BatchRows] | None,
        *,
        memory: MemoryLimit,
        unmatched: str,
        tracks_rows: bool = False,
    ) -> None:
        self.origins: AnswerRows | None = None
        if tracks_rows:
            # PERF: importing Arrow takes longer than small logs
            from mtlmon.checking.late_origins import AnswerRows

            self.origins = AnswerRows()
        self.policies = tuple(policy for policy in file.policies if policy.is_first_order)
        self.keys = keys_of_others(file)
        has_others = len(self.policies) < len(file.policies)
        # events of policies without variables are counted by themselves
        self._category = "operators" if has_others else "sorting"
        self.memory = memory
        self._found: list[Change] = []
        self.position = self.late_count = self.refused_count = 0
        self.revision_count = self.revision = 0
        self.rows: BatchRows | None = None
        self.key_tables: Sequence[KeyTable | None] = ()
        self.conditional: ConditionalRows | None = None
        self._bounds = bounds
        self._make = make
        self._rows_of = rows_of
        self._unmatched = unmatched
        self._history: PointHistory | None = None
        self._lateness = 0
        self._late = LateEvents()
        self._emitted = 0
        # what an earlier run has left, until the types of columns are known
        self._kept: bytes | None = None

    @property
    def history(self) -> PointHistory:
        """The history of the log, once rows have shown the types of columns."""
        if self._history is None:
            bounds = self._bounds()
            self._lateness = bounds.lateness
            self._history = self._make(bounds)
            if self._rows_of is not None:
                self.rows = self._rows_of(self._history)
            if self._kept is not None:
                self._resume(self._history, self._kept)
                self._kept = None
        return self._history

    @property
    def key_points(self) -> PointHistory | None:
        """What names time-points among those of their key; None if no policy has one."""
        return None if self.history.names is None else self.history

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
        if not len(batch.time_stamps):
            return
        history = self.history
        keys = origins = None
        if self.origins is not None:
            # the changes of the last batch have been taken out
            self.origins.forget(lambda _: np.array([history.final_below()], np.int64))
            origins = self.origins.numbered(batch.origins)
        if history.names is not None:
            # PERF: most policies have no key
            from mtlmon.checking.key_points import keys_of_rows

            keys = keys_of_rows(batch, history.names.used, self.key_tables)
        if self.rows is not None:
            self.rows.load(batch)
            while self.rows.read():
                pass
        if self.conditional is not None:
            self.conditional.note(batch, history.arrivals)
        self.revision += 1
        operations, ids = batch.corrections or (None, None)
        refused = history.push(ids, operations, keys, origins)
        self._count(batch, refused)
        if len(refused):
            self.refused_count += len(refused)
            source.refuse(
                refused,
                f"it is more than the lateness, {self._lateness}, below the largest one so far",
            )
        self._take()
        yield
        self._require_matched()

    def _count(self, batch: EventBatch, refused: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """Count events that are late but taken in."""
        stamps = np.asarray(batch.time_stamps)
        counts = np.ones(len(stamps), np.bool_)
        counts[refused] = False
        if batch.corrections is not None and batch.corrections.operations is not None:
            counts &= batch.corrections.operations == INSERT
            stamps = np.where(batch.corrections.operations == RETRACT, 0, stamps)
        self.late_count += int((self._late.take(stamps, None) & counts).sum())
        self.position += len(stamps)

    def _take(self) -> None:
        """Take what has changed, and how far it is final."""
        history = self.history
        bound = history.final_below()
        changes = history.changes()
        self.revision_count += sum(one.change != NEW for one in changes)
        if changes:
            self._found.append(ChangedAnswers(changes, self.revision))
        if bound > self._emitted:
            self._emitted = bound
            self._found.append(Bound(bound))
        of_rows = 0 if self.origins is None else self.origins.held_bytes
        of_rows += 0 if self.conditional is None else self.conditional.byte_count
        self.memory.note(self._category, history.byte_count + of_rows + self.bytes_beside)
        self.memory.check()

    def pass_time(self, time_stamp: int) -> Generator[None, None, None]:
        """Let time pass without events; whenever this yields, there may be changes to take out."""
        self.revision += 1
        self.history.pass_time(time_stamp)
        self._late.pass_time(time_stamp)
        self._take()
        yield
        self._require_matched()

    def end(self, source: ArrivalSource, end_time: EndTime = None) -> Generator[None, None, None]:
        """End the log: no more events come. Whenever this yields, there may be changes.

        Args:
            source: the log.
            end_time: what is known about the time after the log.
        """
        if source.clock is None:
            return
        self.revision += 1
        self.history.finish(end_time)
        self._take()
        yield
        self._require_matched()

    def _require_matched(self) -> None:
        """Refuse retractions whose rows have not come, if they are an error."""
        if self._unmatched == "error" and self.unmatched:
            what = "retraction has" if self.unmatched == 1 else "retractions have"
            raise EventError(
                f"{self.unmatched} {what} found no row in time: --on-error skip only counts them"
            )

    def close(self) -> None:
        """End the threads of slices; nothing comes any more."""
        if self._history is not None:
            self._history.close()

    def taken(self) -> list[Change]:
        """Remove the changes that have not been taken out yet, and return them."""
        found, self._found = self._found, []
        return found

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state after `position` events as bytes for `restore`."""
        if self._history is None and self._kept is not None:
            return self._kept
        head = {
            "position": self.position,
            "late": self.late_count,
            "refused": self.refused_count,
            "revised": self.revision_count,
            "revision": self.revision,
            "told": self._emitted,
            "latest": self._late.latest.tolist(),
        }
        parts = [json.dumps(head).encode()]
        if self._history is not None:
            rows = b"" if self.rows is None else self.rows.snapshot()
            origins = b"" if self.origins is None else self.origins.snapshot()
            parts += [self._history.snapshot(), rows, origins]
        return joined_parts(parts)

    def restore(self, snapshot: bytes) -> None:
        """Continue from the snapshot of another check; this check must be new.

        What is wrong with the history may be said only when the types of columns are known.

        Raises:
            SnapshotError: the bytes are not a snapshot, or are damaged.
        """
        try:
            text, *parts = split_parts(snapshot)
            head = json.loads(text)
            self.position, self.late_count = head["position"], head["late"]
            self.refused_count, self.revision_count = head["refused"], head["revised"]
            self.revision, self._emitted = head["revision"], head["told"]
            self._late.latest = np.array(head["latest"], np.int64)
        except (ValueError, KeyError, TypeError, OverflowError):
            raise damaged() from None
        if not parts:
            return
        if self._history is None:
            # the plan needs the types of columns
            self._kept = snapshot
        else:
            self._resume(self._history, snapshot)

    def _resume(self, history: PointHistory, snapshot: bytes) -> None:
        try:
            _, saved, rows, origins = split_parts(snapshot)
        except ValueError:
            raise damaged() from None
        history.restore(saved)
        if self.origins is not None:
            self.origins.restore(origins)
        if self.rows is not None:
            self.rows.restore(rows)

    @property
    def bounds(self) -> list[Bound]:
        """The bounds that have been told."""
        return [Bound(self._emitted)] if self._emitted else []

    # ---- what is known ---------------------------------------------------------------------

    @property
    def found_points(self) -> list[int]:
        """For each policy, how many time-points violate it now, or match."""
        if self._history is None:
            return [0] * len(self.policies)
        found: list[int] = self._history.chunked.counts.found.tolist()
        return found

    @property
    def answered_points(self) -> list[int]:
        """For each policy, how many time-points are answered now."""
        if self._history is None:
            return [0] * len(self.policies)
        answered: list[int] = self._history.chunked.counts.answered.tolist()
        return answered

    @property
    def counts(self) -> list[PolicyCounts]:
        """The counts of each policy; a match of a `find` counts as true."""
        counts = []
        for policy, answered, found in zip(
            self.policies, self.answered_points, self.found_points, strict=True
        ):
            others = answered - found
            true, false = (found, others) if policy.is_find else (others, found)
            # of time-points of several rows, it is not known how many are undecided
            is_known = self._history is not None and not self._history.by_stamp
            counts.append(PolicyCounts(self.event_count if is_known else answered, true, false))
        return counts

    @property
    def triggered(self) -> list[Triggered | None]:
        """For each policy how often its left side was matched; None if that is not known."""
        matched = {} if self._history is None else matched_by_policy(self._history)
        return [matched.get(number) for number in range(len(self.policies))]

    @property
    def tallies(self) -> list[Tally]:
        """What is counted of each policy."""
        return tallies_of(self.policies, self.counts, self.triggered, of_decided=True)

    @property
    def left_out(self) -> int:
        """How many rows atoms lack, as an argument has no value."""
        of_rows = 0 if self.rows is None else self.rows.left_out
        return of_rows + (0 if self.conditional is None else self.conditional.left_out)

    @property
    def event_count(self) -> int:
        """How many events have been taken in, less those that were taken back."""
        return 0 if self._history is None else self._history.leader.counter("events")

    @property
    def outcomes(self) -> list[Outcome | None]:
        """What the history that admits rows has noted of them."""
        return [] if self._history is None else [self._history.leader.outcome]

    def last_time(self) -> int:
        """The time of the last row that is left, or up to which time has passed without one."""
        return 0 if self._history is None else self._history.leader.last_time()

    @property
    def unmatched(self) -> int:
        """How many retractions have found no row."""
        return 0 if self._history is None else self._history.leader.counter("unmatched")

    @property
    def retracted(self) -> int:
        """How many rows were retracted, or replaced by others with their ids."""
        return 0 if self._history is None else self._history.leader.counter("retracted")

    @property
    def judged_again(self) -> int:
        """How many time-points were judged again, as events came before them."""
        return 0 if self._history is None else self._history.chunked.replayed
