"""Check policies with variables on a log whose events may come late, and correct their answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mtlmon.checking.changes import ChangedAnswers
from mtlmon.history.operations import NO_CORRECTIONS
from mtlmon.policy.limits import PolicyCounts, tallies_of
from mtlmon.relational.correcting.points import NEW, PointHistory
from mtlmon.relational.keyed import keys_of_others
from mtlmon.relational.vacuity import matched_by_policy
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.arrays.native import KeyTable
    from mtlmon.checking.changes import Change
    from mtlmon.checking.clocks import EndTime
    from mtlmon.checking.conditional_rows import ConditionalRows
    from mtlmon.checking.history_check import Bounds
    from mtlmon.checking.late_origins import AnswerRows
    from mtlmon.checking.sources import EventBatch
    from mtlmon.engine.native import MemoryLimit
    from mtlmon.history.following import LeadingHistory
    from mtlmon.policy import PolicyFile
    from mtlmon.policy.limits import Tally, Triggered
    from mtlmon.relations.revised import RevisedRelations

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
        tracks_rows: whether to find the rows that answers are about; the source must track them,
            and `make` let `origins` listen.

    Attributes:
        policies: the policies with variables.
        keys: the columns of the key of each.
        memory: as given.
        position: the number of events that have been read, also of those that are refused.
        lateness: how late events may be, once the first ones have been read.
        revision: the number of batches with events.
        revision_count: how often an answer was taken back, or given again.
        bytes_beside: how many bytes whoever reads the log holds of the same rows.
        rows: what `rows_of` has made.
        conditional: set this in `make` if atoms depend on other rows.
        relations: the relations of the log's rows in which they look values up; set this before the
            first events if no other check keeps them.
        origins: finds the rows of answers; None if they are not wanted.
        key_tables: set this in `make` if policies have a key: the keys of each partition of the
            log, by number.
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
        self.position = self.lateness = self.revision = self.revision_count = 0
        self._bounds = bounds
        self._found: list[Change] = []
        self.rows: BatchRows | None = None
        self.key_tables: Sequence[KeyTable | None] = ()
        self.conditional: ConditionalRows | None = None
        self.relations: RevisedRelations | None = None
        self._make = make
        self._rows_of = rows_of
        self._history: PointHistory | None = None
        # what an earlier run has left, until the types of columns are known
        self._kept: bytes | None = None

    @property
    def history(self) -> PointHistory:
        """The history of the log, once rows have shown the types of columns."""
        if self._history is None:
            bounds = self._bounds()
            self.lateness = bounds.lateness
            self._history = self._make(bounds)
            if self._rows_of is not None:
                self.rows = self._rows_of(self._history)
            if self._kept is not None:
                self._resume(self._history, self._kept)
                self._kept = None
        return self._history

    def feed(self, batch: EventBatch, refused: NDArray[np.bool_]) -> Iterator[None]:
        """Check the next events, and mark those that come too late."""
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
        corrections = batch.corrections or NO_CORRECTIONS
        refused[history.push(corrections, keys, origins)] = True
        self.position += len(refused)
        self._take()
        yield

    def _take(self) -> None:
        """Take what has changed."""
        changes = self.history.changes()
        self.revision_count += sum(one.change != NEW for one in changes)
        if changes:
            self._found.append(ChangedAnswers(changes, self.revision))

    def measure(self, count: int) -> None:
        """Note how much memory is held after so many more events, and check the limit."""
        of_rows = 0 if self.origins is None else self.origins.held_bytes
        of_rows += 0 if self.conditional is None else self.conditional.byte_count
        of_rows += 0 if self.relations is None else self.relations.byte_count
        self.memory.note(self._category, self.history.byte_count + of_rows + self.bytes_beside)
        self.memory.check()

    def pass_time(self, time_stamp: int) -> Iterator[None]:
        """Let time pass without events."""
        self.revision += 1
        self.history.pass_time(time_stamp)
        self._take()
        self.measure(0)
        yield

    def count_events(self, start: int, end: int, count: int) -> bool:
        """Take in how many events an interval of time has; return whether that is not too late."""
        self.revision += 1
        is_taken = self.history.count_events(start, end, count)
        self._take()
        self.measure(0)
        return is_taken

    def end(self, clock: int, end_time: EndTime = None) -> Iterator[None]:
        """End the log, whose largest time-stamp is given."""
        self.revision += 1
        self.history.finish(end_time)
        self._take()
        self.measure(0)
        yield

    def taken(self) -> list[Change]:
        """Remove the changes that have not been taken out yet, and return them."""
        found, self._found = self._found, []
        return found

    def final_below(self) -> int:
        """The time below which no answer changes any more."""
        return self.history.final_below()

    def close(self) -> None:
        """End the threads of slices; nothing comes any more."""
        if self._history is not None:
            self._history.close()

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state after `position` events as bytes for `restore`."""
        if self._history is None and self._kept is not None:
            return self._kept
        head = [self.position, self.revision, self.revision_count]
        relations = b"" if self.relations is None else self.relations.snapshot()
        parts = [json.dumps(head).encode(), relations]
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
            text, relations, *parts = split_parts(snapshot)
            self.position, self.revision, self.revision_count = json.loads(text)
            if self.relations is not None:
                # what relations have as columns must be known before streams
                self.relations.restore(relations)
        except (ValueError, KeyError, TypeError):
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
            _, _, saved, rows, origins = split_parts(snapshot)
        except ValueError:
            raise damaged() from None
        history.restore(saved)
        if self.origins is not None:
            self.origins.restore(origins)
        if self.rows is not None:
            self.rows.restore(rows)

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
    def leaders(self) -> list[LeadingHistory]:
        """The history that decides which rows there are, once there is one."""
        return [] if self._history is None else [self._history.leader]

    @property
    def judged_again(self) -> int:
        """How many time-points were judged again, as events came before them."""
        return 0 if self._history is None else self._history.chunked.replayed
