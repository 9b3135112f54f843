"""Statistics of rows: summaries of columns, merged in any way, miss no frequent value."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.relational.slicing import Frequent, RowCounts, Statistics

_VALUES = st.lists(st.integers(0, 9), max_size=20)


@given(st.lists(_VALUES, min_size=1, max_size=5), st.integers(1, 6))
def test_merged_summaries_are_off_by_a_bounded_part(parts: list[list[int]], room: int) -> None:
    found = Frequent(room)
    for part in parts:
        found.merge(Frequent(room, Counter(part)))
    exact = Counter(value for part in parts for value in part)
    assert found.total == exact.total()
    bound = found.total / room
    for value, count in exact.items():
        if count > bound:
            assert value in found.above(bound)
    for threshold in (bound, bound + 1, 2 * bound):
        for frequent in found.above(threshold):
            assert isinstance(frequent, int)
            assert exact[frequent] > threshold - bound


@given(_VALUES, st.integers(10, 20))
def test_few_values_are_counted_exactly(values: list[int], room: int) -> None:
    found = Frequent(room, Counter(values))
    for threshold in range(4):
        exact = {value for value, count in Counter(values).items() if count > threshold}
        assert found.above(threshold) == exact


def test_summaries_of_different_sizes_are_not_merged() -> None:
    with pytest.raises(ValueError, match="3 values are kept, not 2"):
        Frequent(2).merge(Frequent(3))
    with pytest.raises(ValueError, match="at least 1"):
        Frequent(0)


def test_frequent_values_of_arguments() -> None:
    counts = RowCounts(4)
    counts.add("q", [("a", n) for n in range(30)])
    other = RowCounts(4)
    other.add("q", [(f"b{n}", n) for n in range(30)])
    other.add("p", [("c",)])
    counts.merge(other)
    assert counts.statistics == Statistics(
        {"q": 60.0, "p": 1.0}, {("q", 0): frozenset(["a"]), ("p", 0): frozenset(["c"])}
    )


def test_rates_of_atoms_that_are_not_mentioned() -> None:
    assert Statistics().rate("p") == 1.0
    assert Statistics({"p": 2.0, "q": 4.0}).rate("r") == 3.0
