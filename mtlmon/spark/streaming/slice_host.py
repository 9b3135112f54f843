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

from mtlmon.errors import SnapshotError
from mtlmon.spark.common.slice_monitors import SlicePlan
from mtlmon.spark.streaming.entries import Entry
from mtlmon.spark.streaming.exchange import packed_rows
from mtlmon.spark.streaming.nodes import Host, Machine
from mtlmon.spark.streaming.slice_corrections import live_slice
from mtlmon.spark.streaming.slice_records import (
    SliceEntry,
    SliceFacts,
    check_policy,
    check_state,
    read_journal,
)
from mtlmon.spark.streaming.slice_state import LiveSlice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mtlmon.spark.common.shared_bytes import SharedBytes
    from mtlmon.spark.common.slice_monitors import SliceSource
    from mtlmon.spark.streaming.journal import Journal
    from mtlmon.spark.streaming.nodes import Sent, Visit
    from mtlmon.spark.streaming.slice_records import SliceSettings

__all__ = ["Moved", "SliceHost"]

Parts: TypeAlias = "list[pa.RecordBatch]"
"""What slices report."""


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
        if self._planned is None:
            self._planned = SlicePlan(self._source)
        return live_slice(self._planned, self._settings, _number(key))

    def replay(self, node: LiveSlice | OldSlice, entries: Sequence[Entry]) -> None:
        assert isinstance(node, LiveSlice)
        node.replay(list(map(SliceEntry.of, entries)))

    def revived(
        self, journal: Journal, sent: Sent
    ) -> tuple[LiveSlice | OldSlice, bool | None] | None:
        number = _number(sent.key)
        held, unseen = journal.revive()
        entries = read_journal(unseen)
        facts = None if held is None else held.facts
        if entries:
            facts = entries[-1].facts
        is_left = number >= self._source.slices
        if is_left and facts is None:
            return None
        if self._is_current(facts):
            if not isinstance(held, LiveSlice):
                held = self.begin(sent.key)
                entries = read_journal(journal.all())
            held.replay(entries)
            return held, None
        moved = self._checked(number, facts)
        if facts is not None and (is_left or not sent.blocks):
            return OldSlice(facts, moved, bool(sent.blocks)), bool(sent.blocks)
        return self._taken_over(moved, number, sent.batch), True

    def update(self, node: LiveSlice | OldSlice, sent: Sent) -> tuple[Entry | None, Parts]:
        if isinstance(node, OldSlice):
            return self._wait(node, sent)
        later, found, late = node.visit(sent.blocks, sent.horizon, sent.batch)
        return later.entry(), [*found, *late]

    def snapshot(self, node: LiveSlice | OldSlice, horizon: int) -> Entry | None:
        return None if isinstance(node, OldSlice) else node.snapshot().entry()

    def results(self, sent: Sent, visit: Visit[Parts]) -> Iterable[bytes]:
        return map(packed_rows, visit.answers)

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
        parts: Parts = []
        if _number(sent.key) == moved.first_woken and moved.planned == sent.batch:
            old.facts = old.facts._replace(emitted=horizon)
            for one in range(len(moved.states)):
                parts += self._moved_live(moved, one).pass_time(horizon, sent.batch)
        return SliceEntry(old.facts, b"").entry(), parts

    def _taken_over(self, moved: Moved, number: int, batch: int) -> LiveSlice:
        """The slice that was moved, after the planned batch if that had no rows."""
        live = self._moved_live(moved, number)
        if moved.planned is not None and moved.planned != batch:
            live.pass_time(moved.passed)
        return live

    def _moved_live(self, moved: Moved, number: int) -> LiveSlice:
        live = self.begin((number,))
        live.replay(read_journal([moved.states[number].value]))
        return live


def _number(key: tuple[object, ...]) -> int:
    (number,) = key
    assert isinstance(number, int)
    return number
