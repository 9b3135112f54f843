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

from pyspark.sql import Row

from mtlmon.errors import MtlmonError, SnapshotError
from mtlmon.spark.common.slice_monitors import SLICE, SlicePlan
from mtlmon.spark.streaming.slice_state import (
    RECORDS,
    SliceState,
    check_policy,
    packed_rows,
    slice_visit,
)
from mtlmon.spark.streaming.stateful import TimedProcessor, Visit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from mtlmon.spark.common.shared_bytes import SharedBytes
    from mtlmon.spark.common.slice_monitors import SliceSource
    from mtlmon.spark.streaming.event_clock import EventClock
    from mtlmon.spark.streaming.slice_state import SliceSettings

__all__ = ["Moved", "SliceProcessor"]

_BATCH = "streaming.sql.batchId"
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
        stored: Sequence[bytes],
        blocks: Sequence[bytes],
        horizon: int,
    ) -> Visit:
        (number,) = key
        assert isinstance(number, int)
        state = SliceState.decoded(stored[0]) if stored else None
        is_left = number >= self._source.slices
        if is_left and state is None:
            return Visit(None, None, None, None, ())
        wakeup = None if state is None else state.next_wakeup
        before = state
        if not self._is_current(state):
            moved = self._checked(number, state)
            if not blocks:
                return self._wait(moved, number, state, horizon)
            if is_left:
                return Visit(wakeup, None, None, _CLEARED, ())
            before = self._taken_over(moved, number)
        after, found, late = self._visit(number, before, blocks, horizon)
        rows = [_result(number, part) for part in (*found, *late)]
        replaced = None if after == state else after.encoded()
        return Visit(wakeup, after.next_wakeup, None, replaced, rows)

    def _is_current(self, state: SliceState | None) -> bool:
        """Whether a state is one of these slices, and not of those before them."""
        if state is None:
            return self._moved is None
        check_policy(state, self._settings)
        if self._moved is None and not self._is_known:
            # what does not fit is refused
            return True
        return (
            state.told is None
            and state.slicing == self._settings.slicing
            and (self._moved is None or state.generation == self._moved.generation)
        )

    def _checked(self, number: int, state: SliceState | None) -> Moved:
        """Return what has been moved, if the state in the store was there then."""
        moved = self._moved
        if moved is not None:
            known = moved.old.get(number)
            if known is None and state is None:
                return moved
            if known is not None and state is not None:
                horizons = {known[-1]} if moved.planned is None else {known[-1], moved.passed}
                if (state.generation, state.batch) == known[:2] and state.horizon in horizons:
                    return moved
        raise SnapshotError(
            "the states of the query are those of a later batch than the one from which "
            "monitor_stream has moved them to other slices: restart the query, so that it is "
            "called again. This happens once if the query was killed when all of a batch had been "
            "written, or if it still ran"
        )

    def _wait(self, moved: Moved, number: int, state: SliceState | None, horizon: int) -> Visit:
        """Leave an old slice as it is, as not all slices are visited where there are no rows."""
        assert state is not None
        after = state._replace(next_wakeup=horizon + 1)
        rows = []
        if number == moved.first_woken and moved.planned == batch_number():
            after = after._replace(told=horizon)
            for one, shared in enumerate(moved.states):
                own = SliceState.decoded(shared.value)
                _, found, _ = self._visit(one, own, (), horizon)
                rows += [_result(one, part) for part in found]
        return Visit(state.next_wakeup, after.next_wakeup, None, after.encoded(), rows)

    def _taken_over(self, moved: Moved, number: int) -> SliceState:
        """The state that was moved to a slice, after the planned batch if that had no rows."""
        state = SliceState.decoded(moved.states[number].value)
        if moved.planned is not None and moved.planned != batch_number():
            state, _, _ = self._visit(number, state, (), moved.passed)
        return state

    def _visit(
        self, number: int, state: SliceState | None, blocks: Sequence[bytes], horizon: int
    ) -> tuple[SliceState, list[pa.RecordBatch], list[pa.RecordBatch]]:
        if self._planned is None:
            self._planned = SlicePlan(self._source)
        return slice_visit(
            self._planned, self._settings, number, state, blocks, horizon, batch_number()
        )


def _result(number: int, part: pa.RecordBatch) -> Row:
    return Row(**{SLICE: number, RECORDS: packed_rows(part)})


def batch_number() -> int:
    """The number of the batch that is executed."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(_BATCH)
    if number is None:
        raise MtlmonError("Spark does not tell the number of the batch, which slices need to know")
    return int(number)
