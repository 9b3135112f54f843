"""Moves what the slices of a streaming query remember to other slices: union and split at once.

Spark takes states from outside only in the first batch of a new checkpoint. So the driver reads the
states of the last finished batch (`slice_checkpoints`), gives the engines one table of texts and
one timeline (`RelationalEngine.join`), moves them, and hands the states to the tasks as broadcasts,
one for each slice. The first batch with rows visits all slices, old and new, and each replaces its
old state by the one that was moved to it. Until then only the store is needed, so a kill loses
nothing, and each restart moves the states again. When slices correct answers, their snapshots are
advanced to one time first, and rows are split like waiting rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.errors import SnapshotError
from mtlmon.relational.native import RelationalEngine, Timeline, forget_texts
from mtlmon.relational.slicing.moving import move
from mtlmon.spark.common.slice_monitors import SLICE, SliceMonitor, SlicePlan
from mtlmon.spark.streaming.exchange import packed_rows
from mtlmon.spark.streaming.slice_corrections import live_slice
from mtlmon.spark.streaming.slice_records import SliceEntry, SliceFacts, SliceSettings
from mtlmon.spark.streaming.slice_rows import FIRST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mtlmon.spark.common.slice_monitors import SliceSource
    from mtlmon.spark.streaming.slice_state import Aligned

__all__ = ["moved_states", "split_copies"]


def moved_states(
    old: SliceSource,
    new: SliceSource,
    states: Sequence[Sequence[SliceEntry]],
    split: Callable[[pa.Table], Mapping[int, pa.Table]],
) -> list[SliceEntry]:
    """Return the states of new slices, of the next generation.

    Args:
        old: how rows were sliced.
        new: how they are sliced from now on.
        states: the journals of the old slices.
        split: returns the copies of rows of atoms that go to each new slice.

    Raises:
        SnapshotError: the states do not fit each other.
        LimitError: a slice would remember too much.
    """
    known = [one[-1].facts for one in states]
    horizon = max(max(one.horizon, one.emitted or 0) for one in known)
    lateness = known[0].lateness
    settings = SliceSettings.of(old, lateness)
    before, after = SlicePlan(old), SlicePlan(new)
    aligned = []
    for number, state in enumerate(states):
        one = live_slice(before, settings, number)
        one.replay(state)
        if known[number].horizon < horizon:
            # nothing is due, unless it has been told
            one.pass_time(horizon)
        aligned.append(one.aligned())
    waiting = _split_waiting(aligned, split)
    settings = SliceSettings.of(new, lateness)
    facts = SliceFacts.first(settings, new.slices)._replace(
        generation=known[0].generation + 1, batch=known[0].batch, horizon=horizon
    )
    return [
        SliceEntry(
            facts, waiting.get(number, b""), snapshot, settings.record if number == 0 else b""
        )
        for number, snapshot in enumerate(_moved_snapshots(before, after, aligned))
    ]


def _moved_snapshots(old: SlicePlan, new: SlicePlan, slices: Sequence[Aligned]) -> list[bytes]:
    """The snapshots of the engines of new slices."""
    made = new.plan
    engines = [one.engine for one in slices]
    timeline = Timeline(made, new.slicing.is_of_stamps)
    timeline.restore(engines[0].timeline.snapshot())
    for engine in engines:
        try:
            engine.join(made.texts, timeline)
        except ValueError:
            raise SnapshotError("the states of the slices are of different times") from None
    targets = [RelationalEngine(made, made.texts, timeline) for _ in range(new.slices)]
    move(made, old.slicing, engines, new.slicing, targets)
    found = []
    for number, engine in enumerate(targets):
        engine.leave()
        # with the texts of this slice only
        own = SliceMonitor(new, number).engine
        own.restore(engine.snapshot())
        forget_texts([own], None)
        found.append(own.snapshot())
    return found


def _split_waiting(
    slices: Sequence[Aligned], split: Callable[[pa.Table], Mapping[int, pa.Table]]
) -> dict[int, bytes]:
    """The rows that engines have not taken in, for each new slice that has some."""
    tables = [one.rows for one in slices if one.rows is not None]
    if not tables:
        return {}
    schema = tables[0].schema
    rows = pa.concat_tables(tables)
    once = rows.filter(rows.column(FIRST)).drop_columns([FIRST])
    found = {}
    for number, part in split(once).items():
        columns = [part.column(field.name).cast(field.type) for field in schema]
        table = pa.Table.from_arrays(columns, schema=schema).combine_chunks()
        if table.num_rows:
            found[number] = packed_rows(table.to_batches()[0])
    return found


def split_copies(copies: pa.Table) -> dict[int, pa.Table]:
    """Return the copies of rows by their slices."""
    numbers = copies.column(SLICE)
    return {
        number: copies.filter(pc.equal(numbers, number)).drop_columns([SLICE])
        for number in pc.unique(numbers).to_pylist()
    }
