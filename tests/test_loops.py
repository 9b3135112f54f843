"""That loops over nothing are found, whatever hypothesis draws."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loops import Loops

NONE = st.lists(st.integers(), max_size=0)
SOME = st.lists(st.integers())


@settings(max_examples=20)
@given(NONE, SOME)
def one_of_two(first: list[int], second: list[int]) -> None:
    for one in first:
        assert one != one + 1
    for one in second:
        assert one != one + 1


@settings(max_examples=20)
@given(NONE)
def within(drawn: list[int]) -> None:
    def require(one: int) -> None:
        assert one != one + 1

    def each() -> None:
        while drawn:
            require(drawn.pop())

    each()


@settings(max_examples=20)
@given(NONE)
def nothing_required(drawn: list[int]) -> None:
    found = []
    for one in drawn:
        found.append(-one)
    assert len(found) == len(drawn)


@pytest.mark.parametrize(("test", "count"), [(one_of_two, 1), (within, 1), (nothing_required, 0)])
def test_loops_that_run_over_nothing(test: Callable[[], None], count: int) -> None:
    loops = Loops(test)
    before = len(loops.unseen)
    test()
    loops.end()
    assert (before - count, len(loops.unseen)) == (test is one_of_two, count)
