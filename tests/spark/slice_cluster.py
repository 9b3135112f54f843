"""A streaming query with slices as Spark runs it, without Spark: batches, a store, and kills."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from mtlmon.errors import SnapshotError
from mtlmon.relational.slicing import Statistics
from tests.doors import (
    ATOM,
    END,
    FIRST,
    MARK,
    RECORDS,
    SLICE,
    TIME,
    AtomRows,
    EventClock,
    Holding,
    Moved,
    NodeProcessor,
    SharedBytes,
    SliceHost,
    SlicePlan,
    SliceSettings,
    SliceSource,
    checkpoint_of,
    packed_rows,
    read_journal,
    relation_source,
    relational_file,
    split_copies,
    unpacked_rows,
)
from tests.doors import streaming_journal as journal
from tests.doors import streaming_processor as processor
from tests.doors import streaming_slice_checkpoints as slice_checkpoints
from tests.reference.slicing import owner, slices_of
from tests.spark.fake_store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    import pytest

    from tests.spark.fake_store import Key

CLOCK = EventClock.of_unit("s")

Row = dict[str, Any]


def source_of(
    text: str, schema: pa.Schema, slices: int, statistics: Statistics | None = None
) -> SliceSource:
    """How rows are sliced."""
    file = relational_file(text)
    assert file is not None
    source = relation_source(
        file,
        time="ts",
        atoms=None,
        event=None,
        separator="|",
        time_unit=None,
        resolution=None,
        on_error="stop",
        function="monitor_stream",
    )
    names = source.source.selection.names
    read = pa.schema([schema.field(name) for name in names])
    source = source._replace(schema=read.serialize().to_pybytes())
    return SliceSource(source, slices, statistics or Statistics(), exposes=False)


class Batch(NamedTuple):
    """A batch: its number, its rows, and the horizon."""

    number: int
    rows: Sequence[Row]
    horizon: int


class Cluster:
    """Executes batches; what a batch reports is written once, whoever executes it again.

    There are two workers, of which any executes a slice, and which end now and then.

    Args:
        source: how rows are sliced.
        monkeypatch: replaces what is Spark's.
        lateness: how far below the horizon rows are taken in; None if they correct nothing.
        skips: whether batches that are written are not executed again, as with files.
        draw: chooses workers.
    """

    def __init__(
        self,
        source: SliceSource,
        monkeypatch: pytest.MonkeyPatch,
        draw: Random,
        *,
        lateness: int | None = None,
        skips: bool = False,
    ) -> None:
        self._lateness = lateness
        self.store = Store()
        self.written: dict[int, list[Row]] = {}
        self._skips = skips
        self._left: dict[int, Store] = {}
        self._monkeypatch = monkeypatch
        self._draw = draw
        self._workers = [Holding(), Holding()]
        self._number = 0
        monkeypatch.setattr(processor, "batch_number", lambda: self._number)
        monkeypatch.setattr(slice_checkpoints, "share", lambda _, content: SharedBytes(content))
        # states are small, so entries weigh less than nothing for some of them to stay
        monkeypatch.setattr(journal, "ENTRY_COST", draw.choice([journal.ENTRY_COST, -500, -4000]))
        self.visited = 0
        self.use(source, None)

    def use(self, source: SliceSource, moved: Moved | None) -> None:
        self.source = source
        self.settings = SliceSettings.of(source, self._lateness)
        host = SliceHost(source, self.settings, moved, is_known=True)
        self.processor = NodeProcessor(host, CLOCK)

    def finish(self, batch: Batch, draw: Random, other: Callable[[], SliceSource]) -> None:
        """Execute a batch, which is killed now and then, and goes on with other slices."""
        while draw.random() < 0.3:
            self._attempt(batch, other, is_written=draw.random() < 0.5, is_kept=False)
            if draw.random() < 0.8:
                self.restart(other(), batch)
        self._attempt(batch, other)

    def _attempt(
        self,
        batch: Batch,
        other: Callable[[], SliceSource],
        *,
        is_written: bool = True,
        is_kept: bool = True,
    ) -> None:
        try:
            self.execute(batch, is_written=is_written, is_kept=is_kept)
        except SnapshotError as error:
            assert "states of the query are those of a later batch" in str(error)
            self.restart(other(), batch)
            self.execute(batch, is_written=is_written, is_kept=is_kept)

    def restart(self, source: SliceSource, planned: Batch | None) -> None:
        """Go on with other slices."""
        entries = self.store.entries(SliceHost.state_name)
        states = {number: read_journal(own) for (number,), own in entries.items()}
        if not states:
            self.use(source, None)
            return
        watermark = None if planned is None else (planned.number, planned.horizon * 1000)
        checkpoint = checkpoint_of(source.source, states, watermark, self._lateness)
        self.visited = checkpoint.visited
        session: Any = None
        moved = checkpoint.moved(
            session,
            source,
            SliceSettings.of(source, self._lateness),
            CLOCK,
            lambda rows: split_rows(source, rows),
        )
        self.use(source, moved)

    def execute(self, batch: Batch, *, is_written: bool = True, is_kept: bool = True) -> None:
        """Execute a batch; killed before it is written, or before this is noted."""
        self._number = batch.number
        if self._skips and batch.number in self.written:
            if is_kept:
                self.store = self._left[batch.number]
            return
        copies = copies_of(self.source, batch.rows, self.visited) if batch.rows else {}
        store = self.store.copy()
        found: list[Row] = []
        blocks: dict[Key, Sequence[bytes]] = {
            (number,): [_packed(copies[number])] for number in sorted(copies)
        }
        self._choose_worker()
        for row in store.visit(self.processor, blocks, batch.horizon * 1000):
            self._choose_worker()
            for one in unpacked_rows(row[RECORDS]).to_pylist():
                if ATOM in one or TIME not in one or is_owned(self.source, one):
                    found.append(one)
        if is_written:
            self.written.setdefault(batch.number, found)
            self._left.setdefault(batch.number, store)
        if is_kept:
            self.store = store

    def _choose_worker(self) -> None:
        """Let one of the workers go on, perhaps one that has just started."""
        number = self._draw.randrange(len(self._workers))
        if self._draw.random() < 0.1:
            self._workers[number] = Holding()
        self._monkeypatch.setattr(processor, "_HOLDING", self._workers[number])


def values_in(source: SliceSource, row: Row) -> list[Any]:
    """The values of variables in a row that slices report."""
    counts: Counter[str] = Counter()
    values = []
    for kind in SlicePlan(source).kinds[row["number"]]:
        letter = {"text": "s", "float": "f"}.get(kind, "i")
        values.append(row[f"{letter}{counts[letter]}"])
        counts[letter] += 1
    return values


def is_owned(source: SliceSource, row: Row) -> bool:
    """Whether the slice that reports a row owns it."""
    policy = source.slicing().policies[row["number"]]
    return bool(owner(policy, values_in(source, row)) == row[SLICE])


def copies_of(source: SliceSource, rows: Sequence[Row], visited: int = 0) -> dict[int, pa.Table]:
    """The rows of atoms that slices get."""
    batch = pa.RecordBatch.from_pylist(list(rows), source.source.arrow_schema)
    has_marks = not source.slicing().is_of_stamps
    found = list(AtomRows(source.source, has_marks=has_marks)(iter([batch])))
    schema = source.source.columns().schema
    return split_rows(source, pa.Table.from_batches(found, schema), visited)


def split_rows(source: SliceSource, rows: pa.Table, visited: int = 0) -> dict[int, pa.Table]:
    """What the expression of SQL does."""
    slicing, columns = source.slicing(), source.source.columns()
    places: list[int] = []
    numbers: list[int] = []
    first: list[bool] = []
    for place, row in enumerate(rows.to_pylist()):
        if row[ATOM] == END:
            own = list(range(max(visited, slicing.slices)))
        elif row[ATOM] == MARK:
            own = list(range(slicing.slices))
        else:
            values = [row[name] for name in columns.columns_of(row[ATOM])]
            name = columns.names[row[ATOM]]
            own = sorted(set().union(*(slices_of(one, name, values) for one in slicing.policies)))
        for number in own:
            places.append(place)
            first.append(number == own[0])
            numbers.append(number)
    table = rows.take(pa.array(places, pa.int64()))
    table = table.add_column(0, FIRST, pa.array(first, pa.bool_()))
    return split_copies(table.add_column(0, SLICE, pa.array(numbers, pa.int32())))


def _packed(table: pa.Table) -> bytes:
    (batch,) = table.combine_chunks().to_batches()
    return packed_rows(batch)


def late_rows(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if ATOM in row]


def violations(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if ATOM not in row and TIME in row]


def bounds(rows: Sequence[Row]) -> list[Row]:
    """What rows say of how far verdicts are final, beside those of changes."""
    return [row for row in rows if ATOM not in row and TIME not in row]
