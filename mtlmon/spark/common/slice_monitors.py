"""Monitors slices: each has some of the rows of atoms, and answers for the valuations it owns."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.arrays.native import KeyTable
from mtlmon.engine.native import clock_at_end, is_end_of_time
from mtlmon.errors import MtlmonError, RowError
from mtlmon.relational.atoms import cell_word, named_rows
from mtlmon.relational.native import RelationalEngine
from mtlmon.relational.planning import plan
from mtlmon.relational.slicing import Slicing, Statistics, plan_slices
from mtlmon.spark.common.atom_rows import (
    ATOM,
    END,
    TIME,
    RelationSource,
    packed_names,
    packed_union,
)
from mtlmon.tables.answer_columns import VARIABLE_TYPES, VariableColumns, answer_parts
from mtlmon.tables.relations import RelationRows, TableAtom

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.relational.native import AnswerBlock, PointBlock
    from mtlmon.spark.common.trace_monitors import EndTime

__all__ = [
    "NUMBER",
    "SLICE",
    "VERDICT",
    "AnswerBatches",
    "PointsOfRows",
    "SliceMonitor",
    "SlicePlan",
    "SliceSource",
    "SlicedRows",
]

SLICE, NUMBER, VERDICT = "slice", "number", "verdict"
_VIOLATED = 0
_KINDS = {"i": "integer", "f": "float", "s": "text"}


class SliceSource(NamedTuple):
    """How rows are sliced; picklable.

    Attributes:
        source: how rows become rows of atoms.
        slices: the number of slices.
        statistics: what is known of the rows.
        exposes: whether variables of EXISTS are split as well, so that several slices may report
            the same.
    """

    source: RelationSource
    slices: int
    statistics: Statistics
    exposes: bool = True

    def slicing(self) -> Slicing:
        """The plan of slices."""
        analysis = self.source.analysis()
        return plan_slices(
            self.source.file,
            analysis,
            self.slices,
            statistics=self.statistics,
            exposed=None if self.exposes else [()] * len(analysis.policies),
        )


class SlicePlan:
    """What the monitors of slices have in common, found once.

    Args:
        source: how rows are sliced.

    Attributes:
        slicing: the plan of slices.
        plan: the plan of a slice.
        columns: the columns of rows of atoms.
        kinds: for each policy, the kinds of the variables that slices report.
        schema: the columns of the valuations that slices report.
    """

    def __init__(self, source: SliceSource) -> None:
        self.slices = source.slices
        self.slicing = source.slicing()
        given = source.source
        self.plan = plan(given.file, given.analysis(), prepared=self.slicing.prepared)
        self.columns = given.columns()
        self.kinds = [tuple(map(cell_word, one.kinds)) for one in self.plan.named_policies]
        own = [
            pa.field(name, VARIABLE_TYPES[kind]) for name, kind in _packed_kinds(self.kinds).items()
        ]
        self.schema = pa.schema(
            [
                pa.field(SLICE, pa.int32()),
                pa.field(NUMBER, pa.int32()),
                pa.field(TIME, pa.int64()),
                pa.field(VERDICT, pa.bool_()),
                *own,
            ]
        )
        self._texts = self.plan.texts.snapshot()

    def texts(self) -> KeyTable:
        """A table of texts for a monitor, which begins with the constants of the plan."""
        table = KeyTable(1)
        table.restore(self._texts)
        return table

    def engine(self, texts: KeyTable) -> RelationalEngine:
        """The engine of a slice that has seen nothing."""
        return RelationalEngine(self.plan, texts, is_of_stamps=self.slicing.is_of_stamps)


def _packed_kinds(kinds: Sequence[Sequence[str]]) -> dict[str, str]:
    """The columns of values that slices report, each with its kind."""
    return {name: _KINDS[name[0]] for name in packed_union(kinds)}


class SlicedRows:
    """Monitors slices that come one after another; picklable, a function for `mapInArrow`.

    Rows have the columns of rows of atoms and that of slices, and are sorted by slice and time.

    Args:
        source: how rows are sliced.
        end_time: what is known about the time after the last row of all slices.
    """

    def __init__(self, source: SliceSource, end_time: EndTime) -> None:
        self.source = source
        self.end_time = end_time

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        planned = SlicePlan(self.source)
        monitor: SliceMonitor | None = None
        for batch in batches:
            slices = np.asarray(batch.column(batch.schema.get_field_index(SLICE)))
            if not len(slices):
                continue
            edges = [0, *(np.flatnonzero(np.diff(slices)) + 1).tolist(), len(slices)]
            for start, end in pairwise(edges):
                number = int(slices[start])
                if monitor is None or monitor.number != number:
                    if monitor is not None:
                        yield from monitor.end(self.end_time)
                    monitor = SliceMonitor(planned, number)
                yield from monitor.feed(batch.slice(start, end - start))
        if monitor is not None:
            yield from monitor.end(self.end_time)


class _Batch:
    """Rows of atoms as batches of events have them."""

    def __init__(self, batch: pa.RecordBatch, names: Sequence[str]) -> None:
        self.atoms = names
        self.time_stamps = np.asarray(batch.column(TIME))
        atoms = np.asarray(batch.column(ATOM))
        self._letters = np.zeros((len(atoms), max(1, (len(names) + 63) // 64)), np.uint64)
        rows = np.flatnonzero(atoms >= 0)
        own = atoms[rows].astype(np.int64)
        self._letters[rows, own // 64] = np.uint64(1) << (own % 64).astype(np.uint64)
        self._columns = {name: batch.column(name) for name in batch.schema.names}

    def __len__(self) -> int:
        return len(self.time_stamps)

    def letters_of(self, _partition: int) -> NDArray[np.uint64]:
        return self._letters

    def shown_of(self, _partition: int) -> Mapping[str, pa.Array]:
        return self._columns


class PointsOfRows:
    """Makes time-points of rows of atoms and marks, which come in the order of time.

    Args:
        planned: what is known of the slices.
        points: gets the time-points.
        texts: numbers the texts.
    """

    def __init__(self, planned: SlicePlan, points: PointBlock, texts: KeyTable) -> None:
        self._names = planned.columns.names
        atoms = []
        for name, kinds in named_rows(planned.plan):
            is_of_log = name in self._names
            packed = zip(packed_names(kinds), map(_plain_kind, kinds), strict=True)
            atoms.append(TableAtom(name if is_of_log else None, tuple(packed)))
        self._rows = RelationRows(atoms, points, texts, by_stamp=True)

    def load(self, batch: pa.RecordBatch) -> None:
        """Take rows; those of the last time-stamp wait for more of them."""
        self._rows.load(_Batch(batch, self._names))  # type: ignore[arg-type]

    def load_end(self) -> None:
        """Let no rows wait any more."""
        self._rows.load_end()

    def read(self) -> bool:
        """Add the next time-points; return whether there are more."""
        return self._rows.read()


class AnswerBatches:
    """Converts the answers of a slice to batches of valuations.

    Args:
        planned: what is known of the slices.
        number: the number of the slice.
        texts: has the texts of the answers.
    """

    def __init__(self, planned: SlicePlan, number: int, texts: KeyTable) -> None:
        self._number = number
        self._schema = planned.schema
        columns = [packed_names(own) for own in planned.kinds]
        self._values = VariableColumns(_packed_kinds(planned.kinds), columns, texts)

    def of(self, answers: AnswerBlock) -> Iterator[pa.RecordBatch]:
        """Take answers; yield the violations and matches among them."""
        for part in answer_parts(answers):
            columns = [
                pa.array(np.full(len(part), self._number, np.int32)),
                pa.array(part.policies.astype(np.int32)),
                pa.array(part.time_stamps),
                pa.array(part.kinds != _VIOLATED),
                *self._values.of(part),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)


class SliceMonitor:
    """The monitor of one slice.

    Args:
        planned: what is known of the slices.
        number: the number of the slice.
    """

    def __init__(self, planned: SlicePlan, number: int) -> None:
        self.number = number
        texts = planned.texts()
        self.engine = planned.engine(texts)
        self._batches = AnswerBatches(planned, number, texts)
        self._found: list[pa.RecordBatch] = []
        self._rows = PointsOfRows(planned, self.engine.points, texts)
        self._last = 0

    def feed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows of atoms and marks; yield valuations."""
        if not batch.num_rows:
            return
        self._last = max(self._last, int(np.asarray(batch.column(TIME))[-1]))
        ends = np.asarray(batch.column(ATOM)) == END
        if ends.any():
            batch = batch.filter(pa.array(~ends))
        if batch.num_rows:
            self._rows.load(batch)
            yield from self._advance()

    def end(self, end_time: EndTime) -> Iterator[pa.RecordBatch]:
        """End the log, whose last row may be one of another slice."""
        self._rows.load_end()
        yield from self._advance()
        self.engine.end(self._last, False)
        following = clock_at_end(self._last, end_time)
        if is_end_of_time(following):
            self.engine.end(self._last, True)
        elif following:
            self.engine.end(following, False)
        self._found += self._batches.of(self.engine.answers)
        yield from self._take()

    def pass_time(self, batch: pa.RecordBatch, horizon: int) -> Iterator[pa.RecordBatch]:
        """Take rows and marks, and let time pass; yield valuations.

        Args:
            batch: all rows that are left of time-stamps below the horizon, in the order of time.
            horizon: no other row is below it.
        """
        yield from self.feed(batch)
        self._rows.load_end()
        yield from self._advance()
        self.engine.end(horizon, False)
        self._found += self._batches.of(self.engine.answers)
        yield from self._take()

    def next_wakeup(self, horizon: int) -> int | None:
        """Return the least horizon, above the present one, at which time can decide something.

        None if there is nothing to decide.
        """
        engine = self.engine
        if engine.timeline.is_of_stamps:
            due = engine.next_due()
            return None if due is None else max(due, horizon + 1)
        # as soon as time has passed at all
        is_waiting = min(engine.answered_points, default=0) < engine.point_count
        return horizon + 1 if is_waiting else None

    def _advance(self) -> Iterator[pa.RecordBatch]:
        more = True
        while more:
            more = self._rows.read()
            self.engine.keeps_texts = more
            try:
                self.engine.advance()
            except RowError as error:
                raise MtlmonError(f"at time-stamp {self.engine.clock}: {error.reason}") from None
            self._found += self._batches.of(self.engine.answers)
            yield from self._take()

    def _take(self) -> list[pa.RecordBatch]:
        found, self._found = self._found, []
        return found


def _plain_kind(kind: str) -> str:
    """The kind of a value as rows of atoms have it."""
    return kind if kind in {"text", "float"} else "integer"
