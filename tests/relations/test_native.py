"""What native code for relations does with arrays that do not fit together."""

from __future__ import annotations

import numpy as np
import pytest

from tests.doors import (
    Codes,
    Contacts,
    Groups,
    LeastAggregate,
    Numbering,
    Pairs,
    Segments,
    has_overlaps,
)
from tests.doors import RelationTimeline as Timeline
from tests.memory.allocated import allocated_bytes

STARTS, ENDS = np.array([3, 0, 9]), np.array([9, 5, 2**63 - 1])
ORDER = np.array([1, 0, 2])


def timeline() -> Timeline:
    return Timeline(STARTS, ENDS, ORDER, None, 3, False)


def test_codes_are_numbers_in_order() -> None:
    codes = Codes()
    values = np.array([7, -1, 7, 2**62, -(2**63)])
    assert np.frombuffer(codes.number(values, 5), np.int64).tolist() == [0, 1, 0, 2, 3]
    many = np.arange(1000) * 17
    assert np.frombuffer(codes.number(many, 1000), np.int64).tolist() == list(range(4, 1004))
    assert codes.count == 1004
    assert np.frombuffer(codes.values, np.int64).tolist() == [7, -1, 2**62, -(2**63), *many]
    found = codes.find(np.array([34, 35, 7]), 3)
    assert np.frombuffer(found, np.int64).tolist() == [6, -1, 0]
    with pytest.raises(ValueError):
        codes.find(many, 1001)
    with pytest.raises(ValueError):
        codes.number(many[::2], 500)


def test_segments_of_records() -> None:
    found = Segments(timeline(), np.array([0, 0, -1]), None, 1)
    assert found.overlapping is not None
    assert found.overlapping.tolist() == [1]
    apart = Segments(timeline(), np.array([1, 0, 1]), np.array([5, 6, 7]), 2)
    assert apart.overlapping is None
    times, codes = np.array([3, 9, 8, 4, 0, 9]), np.array([1, 1, 1, 0, 2, -1])
    rows = np.frombuffer(apart.find(times, codes, 6, -9), np.int64)
    assert rows.tolist() == [5, 7, 5, 6, -9, -9]
    with pytest.raises(ValueError, match="a number of a key is too great"):
        Segments(timeline(), np.array([0, 1, 0]), None, 1)
    with pytest.raises(ValueError, match="more than 2\\^32 - 2 keys"):
        Segments(timeline(), np.array([0, 1, 0]), None, 2**32)
    with pytest.raises(ValueError):
        Segments(timeline(), np.array([0, 1]), None, 2)
    with pytest.raises(ValueError):
        Segments(timeline(), np.array([0, 1, 0]), np.array([0]), 2)
    with pytest.raises(ValueError):
        apart.find(times, codes[:2], 6, -9)


def test_a_key_without_a_partner_has_the_number_behind_the_others() -> None:
    keys = Numbering(np.array([0, 2, 1], np.uint32), 3)
    assert not Pairs(timeline(), keys, timeline(), keys, 2).find(9)
    with pytest.raises(ValueError, match="a number of a key is too great"):
        Pairs(timeline(), keys, timeline(), keys, 1)


def test_records_that_touch_equal_ones() -> None:
    same, others = np.array([4, 4, 4]), np.array([4, 5, 4])
    assert Contacts(timeline(), [np.array([1, 2, 3])]).found is None
    found = Contacts(timeline(), [same, others]).found
    assert found is not None
    # the first one ends where the last one starts
    assert found.tolist() == [1, 0, 1]
    with pytest.raises(ValueError):
        Contacts(timeline(), [same, others[:2]])


def test_overlaps_of_numbers() -> None:
    def overlap(*numbers: int) -> bool:
        return has_overlaps(timeline(), Numbering(np.array(numbers, np.uint32), 3))

    assert overlap(0, 0, 0)
    assert not overlap(0, 1, 0)
    with pytest.raises(ValueError, match="the arrays are of different lengths"):
        has_overlaps(timeline(), Numbering(np.array([0, 1], np.uint32), 2))


def test_all_groups_may_change_at_one_time() -> None:
    for count in range(1, 40):
        times = np.zeros(count, np.int64)
        keys = Numbering(np.arange(count, dtype=np.uint32), count)
        found = Groups(Timeline(times, times + 5, None, None, count), keys, [])
        assert np.frombuffer(found.groups, np.uint32).tolist() == [*range(count)]
        assert np.frombuffer(found.starts, np.int64).tolist() == [0] * count
        assert np.frombuffer(found.ends, np.int64).tolist() == [5] * count


def test_the_least_value_forgets_what_has_ended() -> None:
    """Also where a lesser one that has not ended stands before it."""
    count = 20_000
    starts = np.arange(count)
    ends = starts + 2
    ends[0] = count + 5
    by_end = np.argsort(ends, kind="stable")
    keys = Numbering(np.zeros(count, np.uint32), count)
    least = LeastAggregate(starts, None, count)
    before = allocated_bytes()
    found = Groups(Timeline(starts, ends, None, by_end, count), keys, [least])
    assert allocated_bytes() - before < 50_000
    assert np.frombuffer(found.ends, np.int64).tolist() == [count + 5]
    assert least.results is not None
    assert np.frombuffer(least.results, np.int64).tolist() == [0]
