"""Time-points that wait to be read: rows that are added to them, and those that are dropped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import SnapshotError
from tests.doors import (
    PointBlock,
    choose_points,
    join_points,
    points_as_bytes,
    points_of_bytes,
)

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


Log = list[tuple[int, list[Row]]]
LOGS: st.SearchStrategy[Log] = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(0, 3).flatmap(row), max_size=3)), max_size=8
).map(lambda points: sorted(points, key=lambda point: point[0]))


def block_of(log: Log, widths: tuple[int, ...] = WIDTHS, *, read: int = 0) -> PointBlock:
    """A block with some time-points, of which the first ones have been read."""
    block = PointBlock(np.array(widths, np.uint32))
    for stamp, rows in log:
        block.add(stamp, rows)
    block.drop(read)
    return block


def numbers(*items: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.array(items, np.uint32)


@given(LOGS, LOGS, st.data(), st.booleans())
def test_chosen_time_points_follow_others(
    before: Log, log: Log, data: st.DataObject, by_stamp: bool
) -> None:
    """With one time-point for each time-stamp, also where the last one before has the same."""
    gone, read = (data.draw(st.integers(0, len(one))) for one in (before, log))
    places = data.draw(st.lists(st.integers(read, max(read, len(log) - 1)), unique=True))
    places = sorted(place for place in places if place < len(log))
    target, source = block_of(before, read=gone), block_of(log, read=read)
    choose_points(target, source, numbers(*(place - read for place in places)), by_stamp)
    expected = [(stamp, [*rows]) for stamp, rows in before[gone:]]
    for stamp, rows in (log[place] for place in places):
        if by_stamp and expected and expected[-1][0] == stamp:
            expected[-1][1].extend(rows)
        else:
            expected.append((stamp, [*rows]))
    assert target.take() == expected
    assert source.take() == log[read:]


@given(LOGS, LOGS, st.data())
def test_time_points_get_the_rows_of_others(log: Log, more: Log, data: st.DataObject) -> None:
    read, gone = (data.draw(st.integers(0, len(one))) for one in (log, more))
    left, others = log[read:], more[gone:]
    chosen = [
        data.draw(
            st.sampled_from(
                [len(others), *(k for k in range(len(others)) if others[k][0] == stamp)]
            )
        )
        for stamp, _ in left
    ]
    target = block_of([])
    join_points(target, block_of(log, read=read), block_of(more, read=gone), numbers(*chosen))
    assert target.take() == [
        (stamp, [*rows, *(others[place][1] if place < len(others) else ())])
        for (stamp, rows), place in zip(left, chosen, strict=True)
    ]


@given(LOGS, st.integers(0, 8))
def test_time_points_are_read_from_their_bytes(log: Log, read: int) -> None:
    read = min(read, len(log))
    saved = points_as_bytes(block_of(log, read=read))
    block = block_of([])
    points_of_bytes(block, saved)
    assert block.take() == log[read:]
    with pytest.raises(SnapshotError):
        points_of_bytes(block_of([]), saved + b"\0")
    with pytest.raises(SnapshotError):
        points_of_bytes(block_of([]), saved[:-1])


def test_time_points_with_other_atoms_are_refused() -> None:
    log: Log = [(1, [(2, (7,))])]
    saved = points_as_bytes(block_of(log))
    with pytest.raises(SnapshotError):
        points_of_bytes(block_of([], WIDTHS[:2]), saved)
    for widths, match in (WIDTHS[:2], "with the same atoms"), ((2, 0, 2, 0), "atom 2 has another"):
        other = block_of([], widths)
        with pytest.raises(ValueError, match=match):
            choose_points(other, block_of(log), numbers(0))
        with pytest.raises(ValueError, match=match):
            join_points(other, block_of(log), block_of(log), numbers(0))
        with pytest.raises(ValueError, match=match):
            join_points(block_of([]), block_of(log), other, numbers(0))
        assert other.take() == []
    block = block_of(log)
    with pytest.raises(ValueError, match="expected another block"):
        choose_points(block, block, numbers(0))
    for source, more in (block, block_of(log)), (block_of(log), block):
        with pytest.raises(ValueError, match="expected other blocks"):
            join_points(block, source, more, numbers(0))
    assert block.take() == log


def test_time_points_that_are_not_there_are_refused() -> None:
    log: Log = [(1, [(2, (7,))]), (2, [(1, ())])]
    target = block_of([])
    with pytest.raises(ValueError, match="no such time-point"):
        choose_points(target, block_of(log, read=1), numbers(0, 1))
    with pytest.raises(ValueError, match="gaps between its items"):
        choose_points(target, block_of(log), numbers(0, 0, 1, 0)[::2])
    assert target.take() == []
    with pytest.raises(ValueError, match="a time-point of another time"):
        join_points(target, block_of(log), block_of(log), numbers(1, 0))


@pytest.mark.parametrize(
    ("atom", "cells"), [(-1, ()), (4, ()), (0, (1,)), (0, (1, 2, 3)), (1, (1,)), (2, ())]
)
def test_rows_have_an_atom_and_its_number_of_values(atom: int, cells: tuple[int, ...]) -> None:
    block = block_of([])
    with pytest.raises(ValueError, match=f"no row of atom {atom} has {len(cells)} values"):
        block.add(1, [(0, (1, 2)), (atom, cells)])
    assert block.take() == []
