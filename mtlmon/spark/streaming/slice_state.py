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
from mtlmon.spark.streaming.exchange import packed_rows, unpacked_rows
from mtlmon.spark.streaming.lateness import Admission
from mtlmon.spark.streaming.slice_records import SliceEntry, SliceFacts
from mtlmon.spark.streaming.slice_rows import FIRST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.relational.native import RelationalEngine
    from mtlmon.spark.common.slice_monitors import SlicePlan
    from mtlmon.spark.streaming.slice_records import SliceSettings

__all__ = ["Aligned", "LiveSlice"]


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

    Attributes:
        facts: what is known of the slice; None until it has been visited.
        waiting: the rows that wait; None if there are none.
    """

    def __init__(
        self,
        planned: SlicePlan,
        settings: SliceSettings,
        number: int,
    ) -> None:
        self.facts: SliceFacts | None = None
        self._planned = planned
        self._settings = settings
        self._number = number
        self._admission = Admission(settings.lateness)
        self.waiting: pa.Table | None = None
        self._begin()

    def _begin(self) -> None:
        """Make what monitors rows."""
        self._monitor = SliceMonitor(self._planned, self._number)

    def _restore(self, first: SliceEntry) -> None:
        """Go on from the first entry of a journal."""
        assert first.engine is not None
        self._monitor.engine.restore(first.engine)
        self.waiting = unpacked_rows(first.rows) if first.rows else None

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

    def replay(self, entries: Sequence[SliceEntry]) -> None:
        """Take entries of the journal, whose answers have been given.

        As rows wait for their time-stamp to be passed, it is the same whether they come batch by
        batch or at once.

        Raises:
            SnapshotError: they are damaged.
        """
        later = [one for one in entries if one.engine is None]
        if len(later) < len(entries):
            self._restore(entries[0])
        if later:
            rows = [unpacked_rows(one.rows) for one in later if one.rows]
            self._take(rows, later[-1].facts.horizon)
        if entries:
            self.facts = entries[-1].facts

    def visit(
        self, blocks: Sequence[bytes], horizon: int, batch: int
    ) -> tuple[SliceEntry, list[pa.RecordBatch], list[pa.RecordBatch]]:
        """Take the rows of a batch, and the time up to a horizon.

        Args:
            blocks: the rows of the slice in this batch, packed.
            horizon: rows with time-stamps below it are late.
            batch: the number of the batch.

        Returns:
            What brings the state before to the one after; the valuations that the slice reports;
            and the late rows.
        """
        before = self.facts or SliceFacts.first(self._settings, self._planned.slices)
        is_in_batch = bool(blocks) or self.facts is None
        on_time, late = [], []
        admitted_from = self._admission.admits_from(horizon)
        for table in map(unpacked_rows, blocks):
            # marks of the end have said that the slice is to be visited
            atoms = table.column(ATOM).to_numpy()
            is_late = table.column(TIME).to_numpy() < admitted_from
            if is_late.any():
                said = is_late & table.column(FIRST).to_numpy() & (atoms >= 0)
                late += table.filter(pa.array(said)).select([TIME, ATOM]).to_batches()
            on_time.append(table.filter(pa.array(~is_late & (atoms != END))))
        found = self._take(on_time, horizon)
        self.facts = before._replace(
            batch=batch if is_in_batch else before.batch,
            horizon=horizon,
            next_wakeup=self._next_wakeup(horizon),
            emitted=None,
        )
        return SliceEntry(self.facts, _packed(on_time)), found, late

    def pass_time(self, horizon: int, batch: int = 0) -> list[pa.RecordBatch]:
        """Let time pass in a slice that has been visited; return the valuations that it reports."""
        _, found, _ = self.visit((), horizon, batch)
        return found

    def snapshot(self) -> SliceEntry:
        """Return the state of a slice that has been visited."""
        return self._snapshot(self._monitor.engine.snapshot(), self.waiting)

    def _snapshot(self, engine: bytes, rows: pa.Table | None) -> SliceEntry:
        assert self.facts is not None
        packed = _packed([] if rows is None else [rows])
        return SliceEntry(
            self.facts, packed, engine, self._settings.record if self._number == 0 else b""
        )

    def _take(self, tables: Sequence[pa.Table], horizon: int) -> list[pa.RecordBatch]:
        """Take rows that are not late, and the time up to a horizon; return valuations."""
        return list(self._monitor.pass_time(self._due(tables, horizon), horizon))

    def _due(self, tables: Sequence[pa.Table], horizon: int) -> pa.RecordBatch:
        """Take rows; return those below a horizon in the order of time, the others wait."""
        if self.waiting is not None:
            tables = [self.waiting, *tables]
        self.waiting = None
        if sum(table.num_rows for table in tables):
            rows = pa.concat_tables(tables)
            is_due = rows.column(TIME).to_numpy() < horizon
            if not is_due.all():
                self.waiting = rows.filter(pa.array(~is_due))
            if is_due.any():
                due = rows.filter(pa.array(is_due)).sort_by(TIME)
                return due.combine_chunks().to_batches()[0]
        return pa.RecordBatch.from_pylist([], self._planned.columns.schema)

    def _next_wakeup(self, horizon: int) -> int | None:
        return self._or_first_waiting(self._monitor.next_wakeup(horizon))

    def _or_first_waiting(self, wakeup: int | None) -> int | None:
        """The earlier one of a wake-up and that of the rows that wait."""
        if self.waiting is None:
            return wakeup
        least = int(self.waiting.column(TIME).to_numpy().min()) + 1
        return least if wakeup is None else min(wakeup, least)


def _packed(tables: Sequence[pa.Table]) -> bytes:
    """Rows, packed; empty if there are none."""
    if not sum(table.num_rows for table in tables):
        return b""
    return packed_rows(pa.concat_tables(tables).combine_chunks().to_batches()[0])
