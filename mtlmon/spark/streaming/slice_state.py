"""A slice of policies with variables in a streaming query: its monitor, and the rows that wait.

A slice keeps rows until the watermark has passed them. Between batches it is in its journal, and
also in the memory of the worker that has visited it last.

The mark of the last row of each partition goes to all slices, so each is visited in every batch
with rows, keeps the rows that the watermark has not passed, and monitors the others in the order of
time. So rows can be replayed at once, whatever batches they came in. A timer wakes a slice when
time can decide something. A slice that fails in the middle of a visit is not put back into memory.

Only reported variables are split, as rows that several slices report would have to be merged in a
state of their own. Late rows are told once, by the first of their copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from mtlmon.spark.common.atom_rows import ATOM, END, TIME
from mtlmon.spark.common.slice_monitors import SliceMonitor
from mtlmon.spark.streaming.lateness import Admission
from mtlmon.spark.streaming.slice_records import SliceFacts, SliceRows, SliceSnapshot
from mtlmon.spark.streaming.slice_rows import FIRST, packed_rows, unpacked_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.relational.native import RelationalEngine
    from mtlmon.spark.common.slice_monitors import SlicePlan
    from mtlmon.spark.streaming.slice_records import SliceSettings, SliceState

__all__ = ["Aligned", "LiveSlice", "one_batch"]


class Aligned(NamedTuple):
    """What a slice remembers.

    Attributes:
        engine: the engine.
        rows: the rows that it has not taken in yet, or None.
    """

    engine: RelationalEngine
    rows: pa.Table | None


class LiveSlice:
    """A slice that takes rows.

    Args:
        planned: what is known of the slices.
        settings: those of the slices.
        number: the number of the slice.
        state: where it goes on from; None if it begins.

    Raises:
        SnapshotError: the state is damaged.

    Attributes:
        facts: what is known of the slice; None until it has been visited.
        waiting: the rows that wait; None if there are none.
    """

    def __init__(
        self,
        planned: SlicePlan,
        settings: SliceSettings,
        number: int,
        state: SliceState | None = None,
    ) -> None:
        self.facts: SliceFacts | None = None
        self._planned = planned
        self._settings = settings
        self._number = number
        self._admission = Admission(settings.lateness)
        self.waiting: pa.Table | None = None
        self._begin()
        if state is not None:
            self.restore(state.snapshot)
            self.replay(state.later)

    def _begin(self) -> None:
        """Make what monitors rows."""
        self._monitor = SliceMonitor(self._planned, self._number)

    def restore(self, snapshot: SliceSnapshot) -> None:
        """Go on from a snapshot.

        Raises:
            SnapshotError: it is damaged.
        """
        self.facts = snapshot.facts
        self._restore(snapshot)

    def _restore(self, snapshot: SliceSnapshot) -> None:
        """Go on from a snapshot."""
        self._monitor.engine.restore(snapshot.engine)
        if snapshot.waiting:
            self.waiting = unpacked_rows(snapshot.waiting)

    def aligned(self) -> Aligned:
        """Return what it remembers, at a time that is the same for all slices of one horizon.

        It must not be used after that.
        """
        return Aligned(self._monitor.engine, self.waiting)

    @property
    def next_change(self) -> int | None:
        """The least horizon at which there is something to do without a new row, or None."""
        return None if self.facts is None else self.facts.next_wakeup

    @property
    def held_bytes(self) -> int:
        """How many bytes it holds."""
        engine = self._monitor.engine
        waiting = 0 if self.waiting is None else self.waiting.nbytes
        return int(engine.held_bytes + engine.texts.held_bytes + waiting)

    def replay(self, later: Sequence[SliceRows]) -> None:
        """Take what has been taken and reported already.

        As rows wait for their time-stamp to be passed, it is the same whether they come batch by
        batch or at once.
        """
        if later:
            rows = [unpacked_rows(one.rows) for one in later if one.rows]
            self._take(rows, later[-1].facts.horizon)
            self.facts = later[-1].facts

    def visit(
        self, blocks: Sequence[bytes], horizon: int, batch: int
    ) -> tuple[SliceRows, list[pa.RecordBatch], list[pa.RecordBatch]]:
        """Take the rows of a batch, and the time up to a horizon.

        Args:
            blocks: the rows of the slice in this batch, packed.
            horizon: rows with time-stamps below it are late.
            batch: the number of the batch.

        Returns:
            What brings the state before to the one after; the valuations that the slice reports;
            and the late rows.
        """
        before = self.facts
        on_time, late = [], []
        admitted_from = self._admission.admits_from(horizon)
        for table in map(unpacked_rows, blocks):
            # marks of the end have said that the slice is to be visited
            atoms = table.column(ATOM).to_numpy()
            is_late = table.column(TIME).to_numpy() < admitted_from
            if is_late.any():
                said = is_late & table.column(FIRST).to_numpy() & (atoms >= 0)
                late += table.filter(pa.array(said)).to_batches()
            on_time.append(table.filter(pa.array(~is_late & (atoms != END))))
        new = one_batch(on_time)
        found = self._take([] if new is None else [pa.Table.from_batches([new])], horizon)
        self.facts = SliceFacts(
            0 if before is None else before.generation,
            self._planned.slices,
            batch if blocks or before is None else before.batch,
            horizon,
            self._next_wakeup(horizon),
            None,
            self._settings.lateness,
            self._settings.policy,
            self._settings.slicing,
        )
        return SliceRows(self.facts, b"" if new is None else packed_rows(new)), found, late

    def pass_time(self, horizon: int) -> list[pa.RecordBatch]:
        """Let time pass in a slice that has been visited; return the valuations that it reports."""
        assert self.facts is not None
        _, found, _ = self.visit((), horizon, self.facts.batch)
        return found

    def snapshot(self) -> SliceSnapshot:
        """Return the state of a slice that has been visited."""
        return self._snapshot(self._monitor.engine.snapshot(), self.waiting)

    def _snapshot(self, engine: bytes, rows: pa.Table | None) -> SliceSnapshot:
        assert self.facts is not None
        waiting = None if rows is None else one_batch([rows])
        return SliceSnapshot(
            self.facts,
            self._settings.record if self._number == 0 else b"",
            engine,
            b"" if waiting is None else packed_rows(waiting),
        )

    def _take(self, tables: Sequence[pa.Table], horizon: int) -> list[pa.RecordBatch]:
        """Take rows that are not late, and the time up to a horizon; return valuations."""
        return list(self._monitor.pass_time(self._due(tables, horizon), horizon))

    def _due(self, tables: Sequence[pa.Table], horizon: int) -> pa.RecordBatch:
        """Take rows; return those below a horizon in the order of time, the others wait."""
        if self.waiting is not None:
            tables = [self.waiting, *tables]
        rows = pa.concat_tables(tables) if tables else None
        due, self.waiting = None, None
        if rows is not None and rows.num_rows:
            is_due = rows.column(TIME).to_numpy() < horizon
            if not is_due.all():
                self.waiting = rows.filter(pa.array(~is_due))
            due = one_batch([rows.filter(pa.array(is_due)).sort_by(TIME)])
        return _nothing(self._planned) if due is None else due

    def _next_wakeup(self, horizon: int) -> int | None:
        return self._or_first_waiting(self._monitor.next_wakeup(horizon))

    def _or_first_waiting(self, wakeup: int | None) -> int | None:
        """The earlier one of a wake-up and that of the rows that wait."""
        if self.waiting is None:
            return wakeup
        least = int(self.waiting.column(TIME).to_numpy().min()) + 1
        return least if wakeup is None else min(wakeup, least)


def one_batch(tables: Sequence[pa.Table]) -> pa.RecordBatch | None:
    """Return all rows as one batch, or None if there are none."""
    rows = pa.concat_tables(tables) if tables else None
    if rows is None or not rows.num_rows:
        return None
    (batch,) = rows.combine_chunks().to_batches()
    return batch


def _nothing(planned: SlicePlan) -> pa.RecordBatch:
    schema = planned.columns.schema
    return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in schema], schema=schema)
