"""Counts over time do not depend on batches, and add up."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doors import UNITS, TimeHistogram, widths

LARGEST = 2**63 - 1

time_stamps = st.one_of(
    st.integers(0, 1000), st.integers(1_689_000_000, 1_699_000_000), st.integers(0, LARGEST)
)
units = st.sampled_from([None, *UNITS])


@pytest.mark.parametrize("unit", [None, *UNITS])
def test_each_width_divides_the_next(unit: str | None) -> None:
    series = list(islice(widths(unit), 40))
    assert series[0] == 1
    assert all(wide > narrow and wide % narrow == 0 for narrow, wide in pairwise(series))


def test_widths_are_those_of_clocks() -> None:
    seconds = list(islice(widths("s"), 14))
    minute, hour, day = 60, 3600, 86400
    assert seconds == [
        *(1, 5, 15, 30),
        *(minute, 5 * minute, 15 * minute, 30 * minute),
        *(hour, 3 * hour, 6 * hour, 12 * hour),
        *(day, 5 * day),
    ]
    assert list(islice(widths("ms"), 8)) == [1, 5, 10, 50, 100, 500, 1000, 5000]
    assert list(islice(widths("d"), 4)) == [1, 5, 10, 50]


@given(st.lists(st.lists(time_stamps, max_size=20), max_size=6), units, st.integers(1, 120))
def test_counts_are_those_of_plain_counting(
    batches: list[list[int]], unit: str | None, most: int
) -> None:
    histogram = TimeHistogram(unit)
    for batch in batches:
        histogram.add(np.array(batch, np.int64))
    together = [time_stamp for batch in batches for time_stamp in batch]
    timeline = histogram.timeline(None, None, most)
    if not together:
        assert timeline is None
        return
    assert timeline is not None
    assert timeline.width in islice(widths(unit), 80)
    assert timeline.start % timeline.width == 0
    assert len(timeline.counts) <= most
    assert timeline.start <= min(together)
    assert timeline.interval(len(timeline.counts) - 1)[1] >= max(together)
    plain = Counter((one - timeline.start) // timeline.width for one in together)
    assert {i: count for i, count in enumerate(timeline.counts) if count} == plain


@given(st.lists(time_stamps, min_size=1, max_size=40), units, st.data())
def test_batches_make_no_difference(
    times: list[int], unit: str | None, data: st.DataObject
) -> None:
    whole, parts = TimeHistogram(unit), TimeHistogram(unit)
    whole.add(np.array(times, np.int64))
    rest = data.draw(st.permutations(times))
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        parts.add(np.array(rest[:size], np.int64))
        rest = rest[size:]
    for most in 10, 100:
        assert parts.timeline(None, None, most) == whole.timeline(None, None, most)


@given(st.lists(time_stamps, min_size=1, max_size=9), time_stamps, time_stamps, units)
def test_the_timeline_reaches_as_far_as_the_log(
    times: list[int], one: int, other: int, unit: str | None
) -> None:
    first, last = sorted([one, other])
    histogram = TimeHistogram(unit)
    histogram.add(np.array(times, np.int64))
    timeline = histogram.timeline(first, last, 100)
    assert timeline is not None
    assert timeline.start <= min(first, *times)
    assert timeline.interval(len(timeline.counts) - 1)[1] >= max(last, *times)
    assert sum(timeline.counts) == len(times)
    assert len(timeline.counts) <= 100
