"""The rows of time-points, against a list of all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import SnapshotError
from tests.doors import Origins, PointRows, RowFile, RowPlace

A, B = RowFile("a"), RowFile("b", has_lines=False)
ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 50), st.integers(0, 1)), min_size=1, max_size=8
)


@given(st.lists(st.tuples(ROWS, st.booleans(), st.integers(0, 5)), max_size=6), st.booleans())
def test_any_batches(
    batches: list[tuple[list[tuple[int, int, int]], bool, int]], by_stamp: bool
) -> None:
    """A later run may go on, and what nobody asks about any more may be forgotten."""
    rows = PointRows(by_stamp=by_stamp)
    expected: list[RowPlace] = []
    clock, last, forgotten = 0, -1, 0
    for given_rows, is_reversed, forgets in batches:
        names = [B, A] if is_reversed else [A, B]
        stamps = []
        for file, number, step in given_rows:
            clock += step
            stamps.append(clock)
            if not by_stamp or clock != last:
                expected.append(RowPlace(names[file], number))
            last = clock
        files, numbers, _ = zip(*given_rows, strict=True)
        origins = Origins(names, np.array(files, np.uint32), np.array(numbers, np.int64))
        rows.add(np.array(stamps, np.int64), origins)
        forgotten = min(forgotten + forgets, len(expected))
        rows.forget(forgotten)
        other = PointRows(by_stamp=by_stamp)
        other.restore(rows.snapshot())
        rows = other
        points = range(forgotten, len(expected))
        assert [rows.place_of(point) for point in points] == expected[forgotten:]
    found = rows.of(np.arange(forgotten, len(expected), dtype=np.uint64))
    assert found.rows.tolist() == [place.row for place in expected[forgotten:]]


def test_rows_are_kept_as_long_as_they_are_asked_for() -> None:
    rows = PointRows()
    for first in range(0, 30, 10):
        numbers = np.arange(first, first + 10)
        rows.add(None, Origins([A, B], np.array([0, 1] * 5, np.uint8), 100 + numbers))
    rows.forget(17)
    assert rows.held_bytes == 20 * 12
    assert [str(rows.place_of(point)) for point in (17, 20)] == ["b row 117", "a:120"]


def test_what_is_no_snapshot() -> None:
    rows = PointRows()
    rows.add(None, Origins([A], None, np.arange(3)))
    for bad in b"", rows.snapshot()[:-1], rows.snapshot() + b"x":
        with pytest.raises(SnapshotError):
            PointRows().restore(bad)
