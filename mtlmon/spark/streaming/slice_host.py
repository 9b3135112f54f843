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

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import Row

from mtlmon.errors import SnapshotError
from mtlmon.spark.common.changelog import FINAL, REVISION
from mtlmon.spark.common.slice_monitors import SLICE, SlicePlan
from mtlmon.spark.streaming.entries import Entry
from mtlmon.spark.streaming.nodes import Host, Machine, Revived
from mtlmon.spark.streaming.slice_corrections import live_slice
from mtlmon.spark.streaming.slice_records import (
    SliceFacts,
    SliceRows,
    SliceSnapshot,
    check_policy,
    check_state,
)
from mtlmon.spark.streaming.slice_rows import RECORDS, RESULTS, packed_rows
from mtlmon.spark.streaming.slice_state import LiveSlice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtlmon.spark.common.shared_bytes import SharedBytes
    from mtlmon.spark.common.slice_monitors import SliceSource
    from mtlmon.spark.streaming.journal import Journal
    from mtlmon.spark.streaming.nodes import Sent, Visit
    from mtlmon.spark.streaming.slice_records import SliceSettings

__all__ = ["Moved", "SliceHost"]

Parts: TypeAlias = "list[tuple[int, pa.RecordBatch]]"
"""What slices report, each with the number of the slice."""


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


class OldSlice:
    """A slice of before, which stays as it is until all slices are visited.

    Args:
        facts: what is known of it.
        moved: what has been moved to the slices that take its place.
        goes: whether there is no such slice any more.
    """

    held_bytes = 0

    def __init__(self, facts: SliceFacts, moved: Moved, goes: bool) -> None:
        self.facts = facts
        self.moved = moved
        self.goes = goes

    @property
    def next_change(self) -> int | None:
        """When it is visited again."""
        return self.facts.next_wakeup


class SliceHost(Host, Machine["LiveSlice | OldSlice", Parts]):
    """Has slices visited.

    Args:
        source: how rows are sliced.
        settings: those of the slices.
        moved: the states that have been moved to them, or None.
        is_known: whether it is known which slices the checkpoint had.
    """

    state_name = "slice"
    results = RESULTS

    def __init__(
        self,
        source: SliceSource,
        settings: SliceSettings,
        moved: Moved | None = None,
        *,
        is_known: bool = False,
    ) -> None:
        self._source = source
        self._settings = settings
        self._moved = moved
        self._is_known = is_known
        self._planned: SlicePlan | None = None

    def open(self) -> SliceHost:
        return self

    def begin(self, key: tuple[object, ...]) -> LiveSlice:
        return self._live(_number(key))

    def replay(self, node: LiveSlice | OldSlice, entries: Sequence[Entry]) -> None:
        assert isinstance(node, LiveSlice)
        later = [one for one in entries if not one.is_state]
        if len(later) < len(entries):
            node.restore(SliceSnapshot.of(entries[0]))
        node.replay([SliceRows.of(one) for one in later])

    def revived(self, journal: Journal, sent: Sent) -> Revived[LiveSlice | OldSlice] | None:
        number = _number(sent.key)
        held, unseen = journal.revive()
        entries = [Entry.decoded(one) for one in unseen]
        facts = None if held is None else held.facts
        if entries:
            facts = SliceFacts.of(entries[-1])
        is_left = number >= self._source.slices
        if is_left and facts is None:
            return None
        if self._is_current(facts):
            if not isinstance(held, LiveSlice):
                held = self._live(number)
                entries = [Entry.decoded(one) for one in journal.all()]
            self.replay(held, entries)
            return Revived(held)
        moved = self._checked(number, facts)
        if facts is not None and (is_left or not sent.blocks):
            return Revived(OldSlice(facts, moved, bool(sent.blocks)), bool(sent.blocks))
        return Revived(self._taken_over(moved, number, sent.batch), True)

    def update(self, node: LiveSlice | OldSlice, sent: Sent) -> tuple[Entry | None, Parts]:
        if isinstance(node, OldSlice):
            return self._wait(node, sent)
        later, found, late = node.visit(sent.blocks, sent.horizon, sent.batch)
        return later.entry(), [(_number(sent.key), part) for part in (*found, *late)]

    def snapshot(self, node: LiveSlice | OldSlice, horizon: int) -> Entry | None:
        return None if isinstance(node, OldSlice) else node.snapshot().entry()

    def rows(self, sent: Sent, visit: Visit[Parts]) -> Iterator[Row]:
        for number, part in visit.answers:
            yield Row(**{SLICE: number, RECORDS: packed_rows(_revised(part, sent.batch))})

    def _is_current(self, facts: SliceFacts | None) -> bool:
        """Whether a state is one of these slices, and not of those before them."""
        if facts is None:
            return self._moved is None
        check_policy(facts, self._settings)
        if self._moved is None and not self._is_known:
            check_state(facts, self._source.slices, self._settings)
            return True
        return (
            facts.emitted is None
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

    def _wait(self, old: OldSlice, sent: Sent) -> tuple[Entry | None, Parts]:
        """Leave an old slice as it is, as not all slices are visited where there are no rows."""
        if old.goes:
            return None, []
        horizon, moved = sent.horizon, old.moved
        old.facts = old.facts._replace(next_wakeup=horizon + 1)
        parts = []
        if _number(sent.key) == moved.first_woken and moved.planned == sent.batch:
            old.facts = old.facts._replace(emitted=horizon)
            for one in range(len(moved.states)):
                found = self._moved_live(moved, one).pass_time(horizon)
                parts += [(one, part) for part in found]
        return SliceRows(old.facts, b"").entry(), parts

    def _taken_over(self, moved: Moved, number: int, batch: int) -> LiveSlice:
        """The slice that was moved, after the planned batch if that had no rows."""
        live = self._moved_live(moved, number)
        if moved.planned is not None and moved.planned != batch:
            live.pass_time(moved.passed)
        return live

    def _moved_live(self, moved: Moved, number: int) -> LiveSlice:
        live = self._live(number)
        self.replay(live, [Entry.decoded(moved.states[number].value)])
        return live

    def _live(self, number: int) -> LiveSlice:
        if self._planned is None:
            self._planned = SlicePlan(self._source)
        return live_slice(self._planned, self._settings, number)


def _revised(part: pa.RecordBatch, batch: int) -> pa.RecordBatch:
    """Give changes the number of the batch as their revision; other rows stay as they are."""
    if FINAL not in part.schema.names:
        return part
    revisions = pa.repeat(pa.scalar(batch, pa.int64()), part.num_rows)
    return part.append_column(REVISION, revisions)


def _number(key: tuple[object, ...]) -> int:
    (number,) = key
    assert isinstance(number, int)
    return number
