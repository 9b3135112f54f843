"""The rows of time-points, against a list of all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.checking import point_rows
from mtlmon.checking.point_rows import PointRows
from mtlmon.checking.sources import Origins

ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 4) | st.integers(1, 50)), min_size=1, max_size=8
)


@given(st.lists(st.tuples(ROWS, st.booleans()), max_size=6))
def test_any_batches(batches: list[tuple[list[tuple[int, int]], bool]]) -> None:
    rows, expected = PointRows(), []
    for given_rows, is_reversed in batches:
        names = ["b", "a"] if is_reversed else ["a", "b"]
        files, numbers = zip(*given_rows, strict=True)
        rows.add(Origins(names, np.array(files, np.uint32), np.array(numbers, np.int64)))
        expected += [(names[file], number) for file, number in given_rows]
    assert [rows.of(point) for point in range(len(expected))] == expected
    assert rows.of(len(expected)) is rows.of(-1) is None


def test_rows_that_follow_each_other_take_no_room() -> None:
    rows = PointRows()
    for first in range(0, 1000, 100):
        rows.add(Origins(["a"], None, np.arange(first, first + 100)))
    assert rows.of(999) == ("a", 999)
    assert len(rows._firsts) == 1


def test_too_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_rows, "MOST_RUNS", 10)
    rows = PointRows()
    rows.add(Origins(["a"], None, np.arange(0, 20, 2)))
    assert rows.of(9) == ("a", 18)
    rows.add(Origins(["a"], None, np.array([30])))
    rows.add(Origins(["a"], None, np.array([31])))
    assert [rows.of(point) for point in range(12)] == [None] * 12
