from __future__ import annotations

import copy
import pickle

import pytest

from tests.doors import MAXIMUM_BOUND, Interval


def test_bounds_belong_to_the_interval() -> None:
    interval = Interval(2, 4)
    assert [distance for distance in range(7) if distance in interval] == [2, 3, 4]
    assert MAXIMUM_BOUND in Interval(2, None)
    assert 1 not in Interval(2, None)


@pytest.mark.parametrize(
    ("lower", "upper"), [(-1, 3), (3, 2), (0, MAXIMUM_BOUND + 1), (MAXIMUM_BOUND + 1, None)]
)
def test_impossible_bounds_are_refused(lower: int, upper: int | None) -> None:
    with pytest.raises(ValueError, match="bound is an integer from"):
        Interval(lower, upper)


def test_equality_hash_and_text() -> None:
    assert Interval(0, None) == Interval.FULL
    assert hash(Interval(0, None)) == hash(Interval.FULL)
    assert Interval(0, 1) != Interval(0, None)
    assert Interval(0, 1) != "[0,1]"
    assert str(Interval(1, 2)) == "[1,2]"
    assert str(Interval(1, None)) == "[1,*)"
    assert repr(Interval(1, None)) == "Interval(1, None)"
    assert Interval(1, 2).is_bounded
    assert not Interval.FULL.is_bounded


def test_is_immutable_and_can_be_copied() -> None:
    interval = Interval(1, 2)
    with pytest.raises(AttributeError):
        interval.lower = 0  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del interval.lower
    assert copy.deepcopy(interval) == interval
    assert pickle.loads(pickle.dumps(interval)) == interval
