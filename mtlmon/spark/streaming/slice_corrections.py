"""A slice of policies with variables whose answers late rows correct, in a streaming query.

What a slice has answered depends only on the rows that have been taken in and on how far time has
passed. So its journal is that of any slice: a state, and the rows since. Only, this state is not
that of the present time, but of one before which no row can come any more; and a row is there until
its time-stamp is before that, too. In the memory of a worker, the rows are in chunks with states
between them (`mtlmon.relational.correcting`), so that a late row is not taken in with all the
others once more. The changes of a batch are the differences of their answers before and after it. A
slice that is read again finds the answers that were given before by reading its rows up to the
horizon of its last entry.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.history.changes import DELETED, INSERTED
from mtlmon.relational.correcting.chunks import ChunkedPoints, Timed
from mtlmon.relational.correcting.points import reach_of
from mtlmon.relational.delays import decision_delays
from mtlmon.relational.native import AnswerBlock, PointBlock, forget_texts
from mtlmon.relational.running import HOLDS
from mtlmon.spark.common.atom_rows import TIME
from mtlmon.spark.common.changelog import FINAL, REVISION
from mtlmon.spark.common.slice_monitors import (
    NUMBER,
    AnswerBatches,
    PointsOfRows,
    SliceMonitor,
)
from mtlmon.spark.streaming.changes import with_changes
from mtlmon.spark.streaming.exchange import unpacked_rows
from mtlmon.spark.streaming.slice_state import Aligned, LiveSlice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon.relational.correcting.chunks import Row
    from mtlmon.relational.native import RelationalEngine
    from mtlmon.spark.common.slice_monitors import SlicePlan
    from mtlmon.spark.streaming.slice_records import (
        SliceEntry,
        SliceSettings,
    )

__all__ = ["CorrectedSlice", "live_slice"]

# A slice forgets texts that nothing needs when it has so many more than it kept last, and as many.
_SPARE_TEXTS = 4096


class CorrectedSlice(LiveSlice):
    """A slice that takes rows which come for times that have passed, and corrects its answers.

    What it reports are changes of valuations, with the column `OPERATION`; and of the first slice
    also, whenever the horizon moves, rows with a policy and `FINAL` alone.
    """

    def _begin(self) -> None:
        planned = self._planned
        made = planned.plan
        self._texts = planned.texts()
        self._constants = self._kept_texts = len(self._texts)
        self._arrivals = self._block()
        self._points = PointsOfRows(planned, self._arrivals, self._texts)
        self._batches = AnswerBatches(planned, self._number, self._texts)
        self._chunked = ChunkedPoints(
            self._engine, self._block, by_stamp=True, reach=reach_of(made)
        )
        self._revision = 0
        # batches of rows that chunks have, each with its last time-stamp
        self._judged: list[tuple[int, pa.Table]] = []

    def _restore(self, first: SliceEntry) -> None:
        assert first.engine is not None
        self.facts = first.facts
        base = self._engine()
        base.restore(first.engine)
        self._kept_texts = len(self._texts)
        self._chunked.begin_again(base.snapshot(has_texts=False), self._timed(self._block()))
        if first.rows:
            self._take([unpacked_rows(first.rows)], first.facts.horizon)

    def _block(self) -> PointBlock:
        return PointBlock(array("I", self._planned.plan.atoms))

    def _engine(self) -> RelationalEngine:
        engine = self._planned.engine(self._texts)
        engine.keeps_texts = True
        engine.know_constants(self._constants)
        return engine

    @property
    def held_bytes(self) -> int:
        rows = sum(table.nbytes for _, table in self._judged)
        rows += 0 if self.waiting is None else self.waiting.nbytes
        return int(self._chunked.byte_count + self._texts.held_bytes + rows)

    def aligned(self) -> Aligned:
        assert self.facts is not None
        found = self.snapshot()
        assert found.engine is not None
        monitor = SliceMonitor(self._planned, self._number)
        monitor.engine.restore(found.engine)
        self.waiting = unpacked_rows(found.rows) if found.rows else None
        admitted_from = self._admission.admits_from(self.facts.horizon)
        # their answers have been given
        for _ in monitor.pass_time(self._due((), admitted_from), admitted_from):
            pass
        return Aligned(monitor.engine, self.waiting)

    def visit(
        self, blocks: Sequence[bytes], horizon: int, batch: int
    ) -> tuple[SliceEntry, list[pa.RecordBatch], list[pa.RecordBatch]]:
        """Do what `LiveSlice.visit` says."""
        before = 0 if self.facts is None else self.facts.horizon
        self._revision = batch
        later, found, late = super().visit(blocks, horizon, batch)
        if self._number == 0 and before < horizon:
            found.append(self._final(horizon))
        return later, found, late

    def snapshot(self) -> SliceEntry:
        """Do what `LiveSlice.snapshot` says."""
        base = self._engine()
        base.restore(self._chunked.state)
        # with the texts that it needs only
        own = SliceMonitor(self._planned, self._number).engine
        own.restore(base.snapshot())
        forget_texts([own], None)
        found = self._snapshot(own.snapshot(), self._held_rows())
        if len(self._texts) > 2 * self._kept_texts + _SPARE_TEXTS:
            self._begin()
            self.waiting = None
            self._restore(found)
        return found

    def _held_rows(self) -> pa.Table | None:
        """The rows that are not part of the state before all chunks."""
        tables = [table for _, table in self._judged]
        if tables:
            rows = pa.concat_tables(tables)
            is_held = rows.column(TIME).to_numpy() > self._chunked.behind
            tables = [rows.filter(pa.array(is_held))]
        if self.waiting is not None:
            tables.append(self.waiting)
        return pa.concat_tables(tables) if tables else None

    def _take(self, tables: Sequence[pa.Table], horizon: int) -> list[pa.RecordBatch]:
        due = self._due(tables, horizon)
        if due.num_rows:
            last = int(due.column(due.schema.get_field_index(TIME))[-1].as_py())
            self._judged.append((last, pa.Table.from_batches([due])))
            self._points.load(due)
            self._read()
            self._points.load_end()
            self._read()
        chunked = self._chunked
        chunked.pass_time(horizon)
        chunked.update(self._timed(self._arrivals), ())
        self._arrivals.drop(len(self._arrivals))
        net, chunked.net = chunked.net, {}
        bounds = pa.array(self._bounds(horizon), pa.int64())
        removed = [row for row, by in net.items() if by < 0]
        new = [row for row, by in net.items() if by > 0]
        chunked.forget(self._admission.admits_from(horizon))
        self._judged = [one for one in self._judged if one[0] > chunked.behind]
        return [*self._changes(removed, DELETED, bounds), *self._changes(new, INSERTED, bounds)]

    def _read(self) -> None:
        while self._points.read():
            pass

    @staticmethod
    def _timed(block: PointBlock) -> Timed:
        """The time-points of a block, which are in order."""
        time_stamps = np.frombuffer(block.time_stamps(), np.int64)
        count = len(time_stamps)
        places = np.arange(count, dtype=np.uint32)
        return Timed(
            block, places, time_stamps, np.zeros(count, np.uint64), np.empty((count, 0), np.bool_)
        )

    def _changes(
        self, rows: Sequence[Row], operation: int, bounds: pa.Array
    ) -> Iterator[pa.RecordBatch]:
        """Answers that are there or gone, with what has happened to them."""
        answers = AnswerBlock(array("I", map(len, self._planned.plan.policies)))
        for number, (policy, time_stamp, offset, kind, cells) in enumerate(rows):
            if kind != HOLDS:
                answers.add(policy, kind, time_stamp, offset, number, cells)
        for batch in self._batches.of(answers):
            operations = np.full(batch.num_rows, operation)
            finals = bounds.take(batch.column(NUMBER))
            yield with_changes(batch, operations, finals, self._revision)

    def _bounds(self, horizon: int) -> list[int | None]:
        """For each policy, the time-stamp below which its answers are final, or None."""
        return self._admission.final_below(decision_delays(self._planned.plan), horizon)

    def _final(self, horizon: int) -> pa.RecordBatch:
        """What is final, of each policy."""
        bounds = self._bounds(horizon)
        rows = [
            {NUMBER: number, FINAL: bound, REVISION: self._revision}
            for number, bound in enumerate(bounds)
            if bound is not None
        ]
        types = [(NUMBER, pa.int32()), (FINAL, pa.int64()), (REVISION, pa.int64())]
        return pa.RecordBatch.from_pylist(rows, pa.schema(types))

    def _next_wakeup(self, horizon: int) -> int | None:
        due = self._chunked.due
        wakeups = [] if due is None else [max(due, horizon + 1)]
        if self._number == 0:
            # what is final
            wakeups.append(horizon + 1)
        return self._or_first_waiting(min(wakeups, default=None))


def live_slice(planned: SlicePlan, settings: SliceSettings, number: int) -> LiveSlice:
    """Return a slice that takes rows; the arguments are those of `LiveSlice`."""
    kind = LiveSlice if settings.lateness is None else CorrectedSlice
    return kind(planned, settings, number)
