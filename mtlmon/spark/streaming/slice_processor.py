"""Monitors the slices of a streaming query, also after a restart with other slices.

Before the query starts, the driver unites and splits the states that the last batch has left in
Spark's state store. They stay there until the first batch with rows, in which all slices are
visited: each drops the state it had, and goes on with what was moved to it. So the store has either
the states of all old slices or those of all new ones, whenever the query is killed.

A batch that was planned before the restart is executed again by the new slices, unless the sink
has all of it already: then Spark skips it, and the store has the states that the old slices left.
If it has no rows, only slices whose timers expire are visited, and what it reports may already have
been written. So one of them reports for all new slices, and notes this in its state. When new
slices take over later, they pass the time up to there in silence. If it has rows and was skipped,
the states that were moved lack these rows: the query stops, and moves them when it is restarted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql import Row

from mtlmon.errors import SnapshotError
from mtlmon.spark.common.changelog import FINAL, REVISION
from mtlmon.spark.common.slice_monitors import SLICE, SlicePlan
from mtlmon.spark.streaming.slice_corrections import live_slice
from mtlmon.spark.streaming.slice_records import (
    SliceFacts,
    SliceRows,
    SliceSnapshot,
    SliceState,
    check_policy,
    check_state,
)
from mtlmon.spark.streaming.slice_rows import RECORDS, packed_rows
from mtlmon.spark.streaming.stateful import TimedProcessor, Visit, batch_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtlmon.spark.common.shared_bytes import SharedBytes
    from mtlmon.spark.common.slice_monitors import SliceSource
    from mtlmon.spark.streaming.event_clock import EventClock
    from mtlmon.spark.streaming.journal import Journal
    from mtlmon.spark.streaming.slice_records import SliceSettings
    from mtlmon.spark.streaming.slice_state import LiveSlice

__all__ = ["Moved", "SliceProcessor"]

_CLEARED = b""


class Moved(NamedTuple):
    """States that have been moved to the slices of a query; picklable.

    Attributes:
        generation: that of the states.
        states: the encoded state of each slice.
        old: for each slice that has a state in Spark's store, the generation, the batch and the
            horizon of that.
        planned: the number of the batch that has been planned and not finished, if timers of old
            slices expire in it, or None.
        passed: the horizon of that batch.
        first_woken: the old slice whose timer is the first to expire.
    """

    generation: int
    states: Sequence[SharedBytes]
    old: Mapping[int, tuple[int, int, int]]
    planned: int | None
    passed: int
    first_woken: int


class SliceProcessor(TimedProcessor):
    """Monitors slices, whose states are in Spark's state store; picklable.

    Args:
        source: how rows are sliced.
        clock: the clock of the query.
        settings: those of the slices.
        moved: the states that have been moved to them, or None.
        is_known: whether it is known which slices the checkpoint had.
    """

    STATE_NAME = "slice"

    def __init__(
        self,
        source: SliceSource,
        clock: EventClock,
        settings: SliceSettings,
        moved: Moved | None = None,
        *,
        is_known: bool = False,
    ) -> None:
        super().__init__(clock)
        self._source = source
        self._settings = settings
        self._moved = moved
        self._is_known = is_known
        self._planned: SlicePlan | None = None

    def visit(
        self,
        key: tuple[object, ...],
        journal: Journal,
        blocks: Sequence[bytes],
        horizon: int,
    ) -> Visit:
        (number,) = key
        assert isinstance(number, int)
        held, unseen = journal.revive()
        facts = _facts(held, unseen)
        is_left = number >= self._source.slices
        if is_left and facts is None:
            return Visit(None, None, None, ())
        is_moved = not self._is_current(facts)
        if is_moved:
            moved = self._checked(number, facts)
            if not blocks:
                return self._wait(moved, number, facts, horizon)
            if is_left:
                return Visit(None, None, _CLEARED, ())
            live = self._taken_over(moved, number)
        else:
            live = self._revived(number, held, unseen)
        later, found, late = live.visit(blocks, horizon, batch_number())
        rows = [_result(number, part) for part in (*found, *late)]
        wakeup, entry = later.facts.next_wakeup, later.encoded()
        if not is_moved and journal.head is not None and journal.head.has_room(entry):
            return Visit(wakeup, entry, None, rows, live)
        return Visit(wakeup, None, live.snapshot().encoded(), rows, live)

    def _is_current(self, facts: SliceFacts | None) -> bool:
        """Whether a state is one of these slices, and not of those before them."""
        if facts is None:
            return self._moved is None
        check_policy(facts, self._settings)
        if self._moved is None and not self._is_known:
            check_state(facts, self._source.slices, self._settings)
            return True
        return (
            facts.told is None
            and facts.slicing == self._settings.slicing
            and (self._moved is None or facts.generation == self._moved.generation)
        )

    def _checked(self, number: int, facts: SliceFacts | None) -> Moved:
        """Return what has been moved, if the state in the store was there then."""
        moved = self._moved
        if moved is not None:
            known = moved.old.get(number)
            if known is None and facts is None:
                return moved
            if known is not None and facts is not None:
                horizons = {known[-1]} if moved.planned is None else {known[-1], moved.passed}
                if (facts.generation, facts.batch) == known[:2] and facts.horizon in horizons:
                    return moved
        raise SnapshotError(
            "the states of the query are those of a later batch than the one from which "
            "monitor_stream has moved them to other slices: restart the query, so that it is "
            "called again. This happens once if the query was killed when all of a batch had been "
            "written, or if it still ran"
        )

    def _wait(self, moved: Moved, number: int, facts: SliceFacts | None, horizon: int) -> Visit:
        """Leave an old slice as it is, as not all slices are visited where there are no rows."""
        assert facts is not None
        after = facts._replace(next_wakeup=horizon + 1)
        rows = []
        if number == moved.first_woken and moved.planned == batch_number():
            after = after._replace(told=horizon)
            for one in range(len(moved.states)):
                found = self._moved_live(moved, one).pass_time(horizon)
                rows += [_result(one, part) for part in found]
        return Visit(after.next_wakeup, SliceRows(after, b"").encoded(), None, rows)

    def _taken_over(self, moved: Moved, number: int) -> LiveSlice:
        """The slice that was moved, after the planned batch if that had no rows."""
        live = self._moved_live(moved, number)
        if moved.planned is not None and moved.planned != batch_number():
            live.pass_time(moved.passed)
        return live

    def _moved_live(self, moved: Moved, number: int) -> LiveSlice:
        snapshot = SliceSnapshot.decoded(moved.states[number].value)
        return self._live(number, SliceState(snapshot, ()))

    def _revived(self, number: int, held: LiveSlice | None, unseen: Sequence[bytes]) -> LiveSlice:
        if held is None:
            return self._live(number, SliceState.decoded(unseen) if unseen else None)
        held.replay([SliceRows.decoded(one) for one in unseen])
        return held

    def _live(self, number: int, state: SliceState | None) -> LiveSlice:
        if self._planned is None:
            self._planned = SlicePlan(self._source)
        return live_slice(self._planned, self._settings, number, state)


def _facts(held: LiveSlice | None, unseen: Sequence[bytes]) -> SliceFacts | None:
    """What the last entry says of a slice; None if there is none."""
    if unseen:
        return SliceFacts.of_entry(unseen[-1])
    return None if held is None else held.facts


def _result(number: int, part: pa.RecordBatch) -> Row:
    """A row of results; changes get the number of the batch as their revision."""
    if FINAL in part.schema.names:
        revisions = pa.repeat(pa.scalar(batch_number(), pa.int64()), part.num_rows)
        part = part.append_column(REVISION, revisions)
    return Row(**{SLICE: number, RECORDS: packed_rows(part)})
