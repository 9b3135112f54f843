"""Batches of tables become time-points with rows, in whatever batches they come."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import MtlmonError
from mtlmon.tables import EventBatch
from tests.doors import ColumnRows, KeyTable, Letters, PointBlock, RelationRows, TableAtom
from tests.relational.row_lines import Points, decoded

SCHEMA = pa.schema(
    [
        ("time", pa.int64()),
        ("p", pa.bool_()),
        ("q", pa.bool_()),
        ("user", pa.string()),
        ("x", pa.float64()),
        ("n", pa.int64()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("ms")),
    ]
)
ATOMS = [
    TableAtom("p", (("user", "text"), ("x", "float"))),
    TableAtom(None, (("n", "integer"),)),
    TableAtom("q", (("n", "integer"), ("b", "boolean"), ("t", "time"))),
    TableAtom("q"),
]


def batch_of(rows: list[dict[str, Any]]) -> EventBatch:
    """A batch of events as tables make them, with Boolean columns `p` and `q`."""
    table = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    letters = Letters(None, {0: table["p"], 1: table["q"]})
    letters.shown = [{name: table[name] for name in ("user", "x", "n", "b", "t")}]
    times = np.asarray(table["time"])
    return EventBatch(letters, ("p", "q"), times, [None], None, None)


def points_of(
    rows: list[dict[str, Any]], cuts: list[int], *, by_stamp: bool = False, most: int = 100
) -> tuple[Points, int]:
    """The time-points of a table that comes in batches, and how many rows of atoms are left out."""
    block = PointBlock(np.array([len(atom.arguments) for atom in ATOMS], np.uint32))
    texts = KeyTable(1)
    reader = RelationRows(ATOMS, block, texts, by_stamp=by_stamp)
    found: Points = []

    def drain() -> None:
        more = True
        while more:
            more = reader.read(most)
            for time_stamp, cells in block.take():
                assert most
                named = [(f"{number}", decoded_row(number, row, texts)) for number, row in cells]
                found.append((time_stamp, sorted(named)))

    places = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    for start, end in pairwise(places):
        reader.load(batch_of(rows[start:end]))
        drain()
    reader.load_end()
    drain()
    assert reader.point_count == len(found)
    return found, reader.left_out


def decoded_row(number: int, row: tuple[int, ...], texts: KeyTable) -> tuple[Any, ...]:
    kinds = [kind for _, kind in ATOMS[number].arguments]
    return tuple(decoded(cell, kind, texts) for cell, kind in zip(row, kinds, strict=True))


def reference(rows: list[dict[str, Any]], *, by_stamp: bool) -> tuple[Points, int]:
    """What `points_of` should return."""
    found: Points = []
    left_out = 0
    for row in rows:
        if not (by_stamp and found and found[-1][0] == row["time"]):
            found.append((row["time"], []))
        for number, atom in enumerate(ATOMS):
            if atom.name is None or not row[atom.name]:
                continue
            values = [row[name] for name, _ in atom.arguments]
            if any(value is None or str(value) == "nan" for value in values):
                left_out += 1
                continue
            in_cells = [
                value * 10**6 if kind == "time" else value
                for value, (_, kind) in zip(values, atom.arguments, strict=True)
            ]
            found[-1][1].append((f"{number}", tuple(in_cells)))
    return [(time_stamp, sorted(some)) for time_stamp, some in found], left_out


ROW = st.fixed_dictionaries(
    {
        "time": st.integers(0, 4),
        "p": st.booleans(),
        "q": st.booleans(),
        "user": st.sampled_from(["alice", "", "é", None]),
        "x": st.sampled_from([0.5, 0.0, float("inf"), float("nan"), None]),
        "n": st.integers(-(1 << 63), (1 << 63) - 1) | st.none(),
        "b": st.sampled_from([True, False, None]),
        "t": st.integers(-(10**9), 10**9) | st.none(),
    }
)


@given(
    rows=st.lists(ROW, max_size=8),
    cuts=st.lists(st.integers(0, 8), max_size=4),
    by_stamp=st.booleans(),
    most=st.integers(1, 3),
)
def test_rows_become_time_points_in_any_batches(
    rows: list[dict[str, Any]], cuts: list[int], by_stamp: bool, most: int
) -> None:
    rows.sort(key=lambda row: row["time"])
    assert points_of(rows, cuts, by_stamp=by_stamp, most=most) == reference(rows, by_stamp=by_stamp)


def test_negative_zero_is_zero() -> None:
    row = dict.fromkeys(SCHEMA.names) | {"time": 1, "p": True, "user": "a", "x": -0.0}
    ((_, [(_, (_, value))]),), _ = points_of([row | {"q": False}], [])
    assert str(value) == "0.0"


def test_times_out_of_range_are_an_error() -> None:
    row = {"time": 1, "p": False, "q": True, "n": 1, "b": True, "t": 10**15}
    with pytest.raises(MtlmonError, match="argument of q does not fit times from 1677 to 2262"):
        points_of([row], [])


def test_columns_must_fit_the_time_points() -> None:
    rows = ColumnRows(PointBlock(np.array([1], np.uint32)))
    stamps = np.array([1, 2])
    cells = np.array([7])
    for places in ([2], [1, 0], [1, 1]):
        given_cells = np.resize(cells, len(places))
        with pytest.raises(ValueError, match="not in order"):
            rows.load(stamps, [(np.array(places, np.uint32), given_cells)])
    with pytest.raises(ValueError, match="expected 1 cells"):
        rows.load(stamps, [(np.array([1], np.uint32), cells[:0])])
    with pytest.raises(ValueError, match="arrays for each atom"):
        rows.load(stamps, [])
    rows.load(stamps, [(np.array([1], np.uint32), cells)])
    with pytest.raises(ValueError, match="rows are left"):
        rows.load(stamps, [(np.array([1], np.uint32), cells)])
    assert not rows.read()
    assert rows.points.take() == [(1, []), (2, [(0, (7,))])]
