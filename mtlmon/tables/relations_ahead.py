"""Policies with variables beside others: the atoms of both, and answers that wait for verdicts.

In a file with policies of both kinds, each batch goes to the engine of those with variables first.
Each answer says how many time-points had been read when it was found, so `LogCheck.feed` stops
after that many events, and lines come event by event whatever the batches are. Within a batch, the
engine is ahead of the check, so the batch has to end before a checkpoint (`settle`).
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.errors import MtlmonError
from mtlmon.relational.native import AnswerBlock
from mtlmon.relational.output.native import AnswerQueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.checking import LogCheck
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.relational.plan import Plan
    from mtlmon.relational.running import RelationalRun
    from mtlmon.tables.event_batch import EventBatch
    from mtlmon.tables.relation_traces import RelationTraces
    from mtlmon.tables.relations import RelationRows

__all__ = ["RelationsAhead", "atoms_of_all"]

_ALL = (1 << 64) - 1


def atoms_of_all(
    check: LogCheck,
    names: Sequence[str],
    traces: RelationTraces,
    shown: Sequence[dict[When, list[str]]],
) -> list[dict[When, list[str]]]:
    """Return the atoms that policies of both kinds need, for each partition, as a check has them.

    Args:
        check: the policies without variables, with partitions for the others.
        names: the atoms of the others.
        traces: the traces of the others in these partitions.
        shown: for each partition the names of the values to show; those of arguments are added.
    """
    needed = check.atoms_of_partitions
    traces.add_atoms(needed, names)
    traces.add_shown(shown)
    return needed


class RelationsAhead:
    """Keeps what policies with variables find until other policies have come as far.

    Args:
        made: the plan of these policies.
        by_stamp: whether all rows of one time-stamp are one time-point of theirs. It is complete
            with the first row of a later one.

    Attributes:
        queue: takes the answers of a run of these policies.
        error: what has ended the run, at a time-point that other policies may not have seen.
    """

    def __init__(self, made: Plan, *, by_stamp: bool = False) -> None:
        widths = array("I", [len(one.variables) for one in made.named_policies])
        self.queue = AnswerQueue(widths)
        self._ready = AnswerBlock(widths)
        self._stamps = _Stamps() if by_stamp else None
        self.error: MtlmonError | None = None

    def feed(
        self,
        run: RelationalRun,
        rows: RelationRows | None,
        batch: EventBatch | None,
        position: int,
    ) -> list[int]:
        """Check a batch; return after how many of its events there are answers.

        Args:
            run: the run, which writes to the queue.
            rows: makes time-points of batches; None if there are time-points already, those of
                this batch and perhaps of later ones.
            batch: the batch, if time-points are made of it.
            position: how many events the log has before the batch.

        Raises:
            MtlmonError: a row has a wrong value, or the run has reached a limit. If a time-point is
                to blame, it is `error`, and the events before it may be told: see `sound_events`.
        """
        if self.error is not None:
            raise self.error
        try:
            if rows is None or batch is None:
                run.advance()
            else:
                if self._stamps is not None:
                    self._stamps.add(batch.time_stamps)
                rows.load(batch)
                self._advance(run, rows)
        except MtlmonError as error:
            if run.engine.failure is not None:
                self.error = error
            raise
        return self.cuts(position)

    def sound_events(self, run: RelationalRun) -> int:
        """Return how many events the log has before the one at which the run has failed."""
        if self._stamps is None:
            return run.engine.point_count - 1
        return max(0, self._stamps.end_of(run.engine.point_count) - 1)

    def cuts(self, position: int) -> list[int]:
        """Return after how many events behind a position there are answers."""
        known = self.queue.known()
        if self._stamps is not None:
            known = [self._stamps.end_of(count) for count in known]
        return [count - position for count in known]

    def restore(self, rows: RelationRows, row_count: int, point_count: int) -> None:
        """Continue behind some rows of a log, all of whose answers have been taken.

        Args:
            rows: makes time-points of batches; it has been restored.
            row_count: the number of rows.
            point_count: the number of time-points that are complete.
        """
        if self._stamps is not None:
            self._stamps = _Stamps(row_count, point_count, rows.held_stamp)

    def complete(self, run: RelationalRun, rows: RelationRows | None) -> None:
        """Check what is there of the last time-stamp: no more rows of it come."""
        if rows is not None and self._stamps is not None:
            rows.load_end()
            self._advance(run, rows)
            self._stamps.complete()

    def _advance(self, run: RelationalRun, rows: RelationRows) -> None:
        more = True
        while more:
            more = rows.read()
            run.advance(keeps_texts=more or len(self.queue) > 0)

    def found(self, position: int | None = None) -> AnswerBlock:
        """Return what the first events of the log have answered, or all; the caller takes it."""
        if position is not None and self._stamps is not None:
            position = self._stamps.points_at(position)
        self.queue.take(self._ready, _ALL if position is None else position)
        return self._ready


class _Stamps:
    """Counts the complete time-stamps of a log.

    Args:
        row_count: how many rows the log has so far.
        complete: how many of its time-stamps are complete.
        last: the time-stamp behind these, of which there are rows; None if there are none.
    """

    def __init__(self, row_count: int = 0, complete: int = 0, last: int | None = None) -> None:
        self.row_count = row_count
        self._last = last
        # how many time-stamps are complete, and for those behind them the rows that it takes
        self._complete = complete
        self._ends: deque[int] = deque()

    def add(self, stamps: NDArray[np.int64]) -> None:
        """Note the next rows."""
        if not len(stamps):
            return
        before = stamps[0] if self._last is None else self._last
        firsts = np.flatnonzero(np.diff(stamps, prepend=before))
        self._ends.extend((firsts + (self.row_count + 1)).tolist())
        self._last = int(stamps[-1])
        self.row_count += len(stamps)

    def complete(self) -> None:
        """Note that no more rows of the last time-stamp come."""
        if self._last is not None:
            self._ends.append(self.row_count)
            self._last = None

    def end_of(self, count: int) -> int:
        """Return after how many rows the first `count` time-stamps are complete."""
        return self._ends[count - self._complete - 1] if count > self._complete else 0

    def points_at(self, row_count: int) -> int:
        """Return how many time-stamps are complete after a number of rows, which only grows."""
        while self._ends and self._ends[0] <= row_count:
            self._ends.popleft()
            self._complete += 1
        return self._complete
