"""Slices of streaming queries between batches, without Spark: rows, horizons and states."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark (mtlmon[spark]) is not installed")

import mtlmon
from mtlmon.errors import SnapshotError
from mtlmon.policy import parse_policies
from mtlmon.relational.slicing import Statistics
from tests.doors import (
    ATOM,
    END,
    EVENTS,
    FIRST,
    LATE,
    LATEST,
    PLACE,
    SLICE,
    TIME,
    AtomRows,
    EventClock,
    LiveSlice,
    PackSlices,
    SlicePlan,
    SliceSettings,
    SliceSource,
    Unpack,
    check_state,
    packed_rows,
    read_journal,
    relation_source,
    result_schema,
    unpacked_rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = """
unit s
atom p(x) = what = "p"
atom q(x, y) = what = "q"
atom r = what = "r"
policy a: p(x) IMPLIES ONCE[0,4] q(x, _)
policy b: p(x) IMPLIES EVENTUALLY[0,3] q(x, _)
policy c: ALWAYS (r IMPLIES EVENTUALLY EXISTS x. p(x))
find d: COUNT(ONCE[0,3] p(x)) = 0
find e: q(x, y) AND NEXT p(x)
"""
SCHEMA = pa.schema(
    [("ts", pa.int64()), ("what", pa.string()), ("x", pa.string()), ("y", pa.int64())]
)
_ROWS = st.fixed_dictionaries(
    {
        "ts": st.integers(0, 12),
        "what": st.sampled_from("pqr-"),
        "x": st.sampled_from(["a", "b", None]),
        "y": st.integers(0, 1),
    }
)


@cache
def slices_of(text: str = FILE, slices: int = 1) -> SliceSource:
    file = parse_policies(text)
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
    schema = pa.schema([SCHEMA.field(name) for name in names])
    source = source._replace(schema=schema.serialize().to_pybytes())
    return SliceSource(source, slices, Statistics(), exposes=False)


def block_of(source: SliceSource, rows: Sequence[dict[str, Any]]) -> bytes:
    """Rows as those of a slice that gets all of them."""
    batch = pa.RecordBatch.from_pylist(list(rows), source.source.arrow_schema)
    found = list(AtomRows(source.source, has_marks=True)(iter([batch])))
    table = pa.Table.from_batches(found, source.source.columns().schema)
    first = pa.array(np.ones(table.num_rows, np.bool_))
    (combined,) = table.append_column(FIRST, first).combine_chunks().to_batches()
    return packed_rows(combined)


class Kept:
    """A slice as a query keeps it: a journal, and perhaps what is in memory of a worker."""

    def __init__(self, source: SliceSource) -> None:
        self.given = SlicePlan(source), SliceSettings.of(source), 0
        self.entries: list[bytes] = []
        self.live = LiveSlice(*self.given)

    def visit(
        self, blocks: Sequence[bytes], horizon: int
    ) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        later, found, late = self.live.visit(blocks, horizon, 0)
        self.entries.append((later if self.entries else self.live.snapshot()).entry().encoded())
        return found, late

    def revive(self) -> None:
        """Go on as another worker that knows the journal only."""
        self.live = LiveSlice(*self.given)
        self.live.replay(read_journal(self.entries))

    def fold(self) -> None:
        self.entries = [self.live.snapshot().entry().encoded()]

    @property
    def next_wakeup(self) -> int | None:
        assert self.live.facts is not None
        return self.live.facts.next_wakeup


def counted(found: Sequence[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (row["number"], row[TIME], row["verdict"], row.get("s0"), row.get("i0"))
        for batch in found
        for row in batch.to_pylist()
    )


def truth(rows: Sequence[dict[str, Any]], end: int) -> Counter[tuple[Any, ...]]:
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]), SCHEMA)
    check = mtlmon.check(FILE, table, time_points="stamp", end_time=end)
    return Counter(
        ("abcde".index(row["policy"]), row["time"], row["verdict"], row["x"], row["y"])
        for row in check.to_arrow().to_pylist()
    )


@given(
    st.lists(
        st.tuples(st.lists(_ROWS, max_size=6), st.integers(0, 4), st.sampled_from(" rf")),
        min_size=1,
        max_size=4,
    ),
)
@settings(max_examples=15, deadline=None)
def test_any_batches_say_what_one_machine_says(
    batches: list[tuple[list[dict[str, Any]], int, str]],
) -> None:
    source = slices_of()
    kept = Kept(source)
    horizon = 0
    known: list[dict[str, Any]] = []
    found: list[pa.RecordBatch] = []
    late: list[pa.RecordBatch] = []
    refused: Counter[tuple[int, str]] = Counter()
    for rows, passed, then in batches:
        for row in rows:
            is_row = row["what"] == "r" or (row["what"] in "pq" and row["x"] is not None)
            if row["ts"] >= horizon:
                known.append(row)
            elif is_row:
                refused[row["ts"], row["what"]] += 1
        blocks = [block_of(source, rows)] if rows else []
        more, emitted = kept.visit(blocks, horizon)
        if then == "f":
            kept.fold()
        if then != " ":
            kept.revive()
        found += more
        late += emitted
        horizon += passed
    more, _ = kept.visit([], horizon)
    found += more
    rows = [row for row in known if row["ts"] < horizon]
    # an end time is one up to which all rows are known, itself among them
    expected = truth(rows, horizon - 1) if rows else Counter()
    assert counted(found) == expected
    names = source.source.columns().names
    assert refused == Counter(
        (row[TIME], names[row[ATOM]]) for batch in late for row in batch.to_pylist()
    )
    waiting = [row["ts"] for row in known if row["ts"] >= horizon]
    if waiting:
        assert kept.next_wakeup is not None
        assert kept.next_wakeup <= min(waiting) + 1
    # nothing is left to say if time goes on, unless somebody is to be woken
    if kept.next_wakeup is None:
        more, _ = kept.visit([], horizon + 100)
        assert not counted(more)


def test_time_wakes_slices_that_wait() -> None:
    source = slices_of('unit s\natom p(x) = what = "p"\npolicy b: p(x) IMPLIES NEXT[0,3] p(x)\n')
    block = block_of(source, [{"ts": 4, "what": "p", "x": "a", "y": 0}])
    kept = Kept(source)
    found, _ = kept.visit([block], 0)
    assert kept.next_wakeup == 5
    found, _ = kept.visit([], 5)
    assert not counted(found)
    assert kept.next_wakeup == 6
    assert kept.live.waiting is None


def test_slices_that_number_no_time_points_sleep_until_something_is_due() -> None:
    text = 'unit s\natom p(x) = what = "p"\nfind b: p(x) AND EVENTUALLY[0,3] (p(y) AND p(x))\n'
    source = slices_of(text)
    block = block_of(source, [{"ts": 4, "what": "p", "x": "a", "y": 0}])
    kept = Kept(source)
    kept.visit([block], 0)
    assert kept.next_wakeup == 5
    found, _ = kept.visit([], 5)
    assert not counted(found)
    assert kept.next_wakeup == 8
    found, _ = kept.visit([], 8)
    assert len(counted(found)) == 1
    assert kept.live.facts is not None
    assert kept.live.facts.next_wakeup is None


def test_states_of_other_queries_are_refused() -> None:
    source = slices_of()
    kept = Kept(source)
    kept.visit([], 0)
    (entry,) = kept.entries

    def check(wanted: SliceSource, emitted: int | None = None) -> None:
        (state,) = read_journal([entry])
        facts = state.facts._replace(
            emitted=emitted, slices=made.slices, slicing=made.slicing().digest().hex()
        )
        check_state(facts, wanted.slices, SliceSettings.of(wanted))

    made = source
    check(source)
    with pytest.raises(SnapshotError, match="made with slices=1, not 4: give its checkpointLoc"):
        check(slices_of(slices=4))
    made = slices_of(slices=4)
    known = made._replace(statistics=Statistics({}, {("p", 0): frozenset("a")}))
    with pytest.raises(SnapshotError, match="made with other statistics: give its checkpointLoc"):
        check(known)
    with pytest.raises(SnapshotError, match="with slices that have begun to be others: give its"):
        check(made, emitted=3)
    with pytest.raises(SnapshotError, match=r"made with another policy or .* columns of other"):
        check(slices_of(FILE.replace("[0,4]", "[0,5]")))
    given = made.source.source
    for changed in (
        given._replace(time_unit="ms"),
        given._replace(policies=given.policies._replace(predicates={})),
    ):
        other = made._replace(source=made.source._replace(source=changed))
        with pytest.raises(SnapshotError, match="with other atoms or units"):
            check(other)
    with pytest.raises(SnapshotError, match="was made without a lateness, which cannot change"):
        (state,) = read_journal([entry])
        check_state(state.facts, 1, SliceSettings.of(source, 5))
    for damaged in (b"", entry[:5], entry[:90], b"\x09" + entry[1:]):
        with pytest.raises(SnapshotError, match=r"damaged|by another version"):
            read_journal([damaged])
        with pytest.raises(SnapshotError, match=r"damaged|by another version"):
            read_journal([entry, damaged[:50]])


def test_rows_that_are_due_leave_the_journal_only_when_it_is_folded() -> None:
    source = slices_of()
    kept = Kept(source)
    rows = [{"ts": 4, "what": "p", "x": "a", "y": 0}, {"ts": 9, "what": "p", "x": "b", "y": 0}]
    kept.visit([block_of(source, rows)], 0)
    kept.visit([block_of(source, rows[1:])], 5)
    kept.visit([], 20)
    _, *later = read_journal(kept.entries)[1:]
    assert [one.rows for one in later] == [b""]
    assert read_journal(kept.entries)[1].rows
    kept.fold()
    assert read_journal(kept.entries)[0].rows == b""


def test_rows_are_packed_by_slice() -> None:
    columns = {
        SLICE: pa.array([2, 0, 2], pa.int32()),
        FIRST: pa.array([True, True, False]),
        TIME: pa.array([7, 5, 9]),
        ATOM: pa.array([0, END, 1], pa.int32()),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    (packed,) = PackSlices(EventClock.of_unit("s"))(iter([batch, batch.slice(0, 0)]))
    assert packed.column(SLICE).to_pylist() == [0, 2]
    assert packed.column(PLACE).to_pylist() == [0, 1]
    assert [one.timestamp() for one in packed.column(LATEST).to_pylist()] == [5, 9]
    rows = [unpacked_rows(one).to_pylist() for one in packed.column(EVENTS).to_pylist()]
    assert [[row[TIME] for row in some] for some in rows] == [[5], [7, 9]]


def test_results_are_unpacked() -> None:
    source = slices_of()
    late = pa.RecordBatch.from_pydict({TIME: pa.array([3]), ATOM: pa.array([1], pa.int32())})
    blocks = [block_of(source, [{"ts": 3, "what": "p", "x": "a", "y": 0}])]
    kept = Kept(source)
    kept.visit(blocks, 0)
    found, _ = kept.visit([], 9)
    assert found
    records = pa.array([packed_rows(late), *map(packed_rows, found)], pa.binary())
    batch = pa.RecordBatch.from_arrays(
        [pa.array([0] * len(records), pa.int32()), records, pa.array([8] * len(records))],
        [SLICE, "mtlmon_records", "mtlmon_arrived"],
    )
    schema = result_schema(SlicePlan(source).schema, changes=["op", "arrival"])
    unpacked = pa.Table.from_batches(list(Unpack(schema, has_arrival=True)(iter([batch]))))
    assert set(unpacked.column("arrival").to_pylist()) == {8}
    assert set(unpacked.column("op").to_pylist()) == {None}
    assert unpacked.column(LATE).to_pylist()[0] == 1
    assert unpacked.column(TIME).to_pylist()[0] == 3
