"""Time-points that wait to be read: rows that are added to them, and those that are dropped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doors import PointBlock

Row = tuple[int, tuple[int, ...]]
WIDTHS = (2, 0, 1, 0)


def row(atom: int) -> st.SearchStrategy[Row]:
    cells = st.tuples(*[st.integers(-9, 9)] * WIDTHS[atom])
    return st.tuples(st.just(atom), cells)


POINTS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2).flatmap(row), max_size=3), st.sampled_from([(), (3,), (1, 3)])
    ),
    max_size=8,
)


@given(POINTS, st.integers(0, 8), st.integers(0, 9))
def test_rows_are_added_to_time_points(
    points: list[tuple[list[Row], tuple[int, ...]]], count: int, kept: int
) -> None:
    block = PointBlock(np.array(WIDTHS, np.uint32))
    for stamp, (rows, _) in enumerate(points):
        block.add(stamp, rows)
    count = min(count, len(points))
    for atom in (3, 1):
        block.mark(atom, bytes(atom in marks for _, marks in points[:count]))
    block.keep(kept)
    # other time-points can follow
    block.add(99, [(0, (1, 2))])
    found = block.take()
    expected = [
        (stamp, sorted([*rows, *((atom, ()) for atom in marks if stamp < count)]))
        for stamp, (rows, marks) in enumerate(points)
    ]
    assert [(stamp, sorted(rows)) for stamp, rows in found] == [
        *expected[:kept],
        (99, [(0, (1, 2))]),
    ]


def test_other_atoms_get_no_rows() -> None:
    block = PointBlock(np.array(WIDTHS, np.uint32))
    block.add(1, [])
    with pytest.raises(ValueError, match="atom 0 has arguments"):
        block.mark(0, b"\1")
    with pytest.raises(ValueError, match="atom 4 has arguments, or there is none"):
        block.mark(4, b"\1")
    with pytest.raises(ValueError, match="more marks than time-points"):
        block.mark(1, b"\0\0")
    assert block.take() == [(1, [])]


def test_a_sample_has_as_many_rows_as_are_asked_for() -> None:
    block = PointBlock(np.array(WIDTHS, np.uint32))
    rows = [(2, (number,)) for number in range(7)]
    for stamp, one in enumerate(rows):
        block.add(stamp, [one])
    assert block.sample(0) == []
    # every second of seven, of which there are four
    assert block.sample(3) == [rows[0], rows[2], rows[4]]
    assert block.sample(7) == block.sample(99) == rows


@pytest.mark.parametrize("size", [2, 3])
def test_widths_lie_side_by_side(size: int) -> None:
    with pytest.raises(ValueError, match="widths have gaps between them"):
        PointBlock(np.zeros(2 * size, np.uint32)[::2])


@given(POINTS, st.integers(0, 3), st.integers(0, 8))
def test_rows_are_removed_from_time_points(
    points: list[tuple[list[Row], tuple[int, ...]]], atom: int, read: int
) -> None:
    block = PointBlock(np.array(WIDTHS, np.uint32))
    for stamp, (rows, marks) in enumerate(points):
        block.add(stamp, [*rows, *((mark, ()) for mark in marks)])
    read = min(read, len(points))
    block.drop(read)
    left = points[read:]
    block.unmark(atom, bytes(stamp % 2 for stamp in range(len(left))))
    # others can follow
    block.add(99, [(0, (1, 2))])
    assert block.take() == [
        *(
            (
                read + place,
                [
                    one
                    for one in [*rows, *((mark, ()) for mark in marks)]
                    if one[0] != atom or place % 2
                ],
            )
            for place, (rows, marks) in enumerate(left)
        ),
        (99, [(0, (1, 2))]),
    ]


def test_rows_are_removed_by_marks_for_all_time_points() -> None:
    block = PointBlock(np.array(WIDTHS, np.uint32))
    block.add(1, [])
    with pytest.raises(ValueError, match="there is no atom 4"):
        block.unmark(4, b"\1")
    with pytest.raises(ValueError, match="a mark for each time-point"):
        block.unmark(0, b"\1\1")
