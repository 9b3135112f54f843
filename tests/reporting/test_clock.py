"""Time-stamps as dates and as numbers, and the marks of an axis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doors import UNITS, counts_from_1970
from tests.doors import ReportClock as Clock

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
units = st.sampled_from(list(UNITS))


@pytest.mark.parametrize(
    ("unit", "time_stamp", "text", "machine"),
    [
        ("s", 1_700_000_000, "2023-11-14 22:13:20", "2023-11-14T22:13:20Z"),
        ("ms", 1_700_000_000_007, "2023-11-14 22:13:20.007", "2023-11-14T22:13:20.007Z"),
        ("us", 1_700_000_000_000_007, "2023-11-14 22:13:20.000007", "2023-11-14T22:13:20.000Z"),
        (
            "ns",
            1_700_000_000_123_456_789,
            "2023-11-14 22:13:20.123456789",
            "2023-11-14T22:13:20.123Z",
        ),
        ("d", 19_000, "2022-01-08 00:00:00", "2022-01-08T00:00:00Z"),
    ],
)
def test_dates(unit: str, time_stamp: int, text: str, machine: str) -> None:
    clock = Clock(unit, epoch=True)
    assert clock.text(time_stamp) == text
    assert clock.machine_text(time_stamp) == machine


@given(st.integers(0, 253_402_300_799))
def test_dates_are_those_of_datetime(seconds: int) -> None:
    moment = _1970 + timedelta(seconds=seconds)
    assert Clock("s", epoch=True).text(seconds) == moment.isoformat(" ").removesuffix("+00:00")


def test_numbers() -> None:
    assert Clock(None, epoch=True).text(1_700_000_000) == "1700000000"
    assert Clock("ms", epoch=False).text(5) == "5 ms"
    assert Clock("s", epoch=False).machine_text(5) is None
    assert Clock("s", epoch=False).interval(5, 9) == "5 to 9 s"
    assert Clock(None, epoch=False).interval(5, 5) == "5"
    # no calendar reaches as far as time-stamps do
    assert Clock("d", epoch=True).text(2**63 - 1) == f"{2**63 - 1} d"


def test_intervals_and_durations() -> None:
    clock = Clock("s", epoch=True)
    start = 1_700_000_000
    assert clock.interval(start, start + 59) == "2023-11-14 22:13:20 to 22:14:19"
    assert clock.interval(start, start + 86400) == "2023-11-14 22:13:20 to 2023-11-15 22:13:20"
    assert clock.duration(7200) == "2 h"
    assert clock.duration(90) == "90 s"
    assert Clock("ms", epoch=False).duration(5000) == "5 s"
    assert Clock(None, epoch=False).duration(5000) == "5,000"


def test_what_counts_from_1970() -> None:
    assert counts_from_1970("s", [1_700_000_000, 1_700_000_001])
    assert counts_from_1970("ms", [1_700_000_000_000])
    assert not counts_from_1970("s", [1_700_000_000_000])
    assert not counts_from_1970("s", [5, 1_700_000_000])
    assert not counts_from_1970(None, [1_700_000_000])
    assert not counts_from_1970("s", [])


@pytest.mark.parametrize("unit", list(UNITS))
def test_dates_of_this_century_count_from_1970(unit: str) -> None:
    """Its first time-stamp does, and the last one before the next century."""
    starts = [(datetime(year, 1, 1, tzinfo=UTC) - _1970).total_seconds() for year in (2000, 2100)]
    first, end = (-(-int(start) * UNITS["s"] // UNITS[unit]) for start in starts)
    assert counts_from_1970(unit, [first, end - 1])
    assert not counts_from_1970(unit, [first - 1])
    assert not counts_from_1970(unit, [end])


@given(
    st.one_of(st.none(), units),
    st.booleans(),
    st.integers(0, 2**63 - 1),
    st.one_of(st.integers(0, 100), st.integers(0, 10**12)),
    st.integers(2, 12),
)
def test_ticks_are_few_and_round(
    unit: str | None, epoch: bool, first: int, length: int, most: int
) -> None:
    last = min(first + length, 2**63 - 1)
    ticks = Clock(unit, epoch=epoch).ticks(first, last, most)
    assert len(ticks) <= most
    assert all(first <= tick.time_stamp <= last for tick in ticks)
    steps = {two.time_stamp - one.time_stamp for one, two in pairwise(ticks)}
    assert len(steps) <= 1
    assert all(tick.time_stamp % step == 0 for step in steps for tick in ticks)
    if last > first + 1:
        assert ticks or most < 3


def test_ticks_of_a_night() -> None:
    clock = Clock("s", epoch=True)
    ticks = clock.ticks(1_700_000_000, 1_700_000_000 + 6 * 3600, 8)
    assert [(tick.label, tick.date) for tick in ticks] == [
        ("23:00", "2023-11-14"),
        ("00:00", "2023-11-15"),
        ("01:00", ""),
        ("02:00", ""),
        ("03:00", ""),
        ("04:00", ""),
    ]
    days = clock.ticks(1_700_000_000, 1_700_000_000 + 30 * 86400, 8)
    assert [tick.label for tick in days][:2] == ["2023-11-19", "2023-11-24"]
    assert clock.ticks(1_700_000_001, 1_700_000_003, 8)[0].label == "22:13:21"


def test_dates_in_a_time_zone() -> None:
    """Marks are at round local times, also where clocks have been changed since the first one."""
    clock = Clock("s", epoch=True, zone="Europe/Berlin")
    start = int(datetime(2024, 3, 30, 23, tzinfo=UTC).timestamp())
    assert clock.text(start) == "2024-03-31 00:00:00"
    assert clock.machine_text(start) == "2024-03-31T00:00:00+01:00"
    # at 02:00, clocks go on to 03:00
    assert clock.text(start + 2 * 3600) == "2024-03-31 03:00:00"
    assert clock.machine_text(start + 2 * 3600) == "2024-03-31T03:00:00+02:00"
    assert clock.interval(start, start + 60) == "2024-03-31 00:00:00 to 00:01:00"
    days = clock.ticks(start, start + 5 * 86_400, 8)
    assert [tick.label for tick in days] == [
        *(["2024-03-31", "2024-04-01", "2024-04-02"]),
        *(["2024-04-03", "2024-04-04", "2024-04-05"]),
    ]
    hours = clock.ticks(start - 3600, start + 3600, 3)
    assert [(tick.label, tick.date) for tick in hours] == [
        ("23:00", "2024-03-30"),
        ("00:00", "2024-03-31"),
        ("01:00", ""),
    ]
    west = Clock("ms", epoch=True, zone="America/New_York")
    assert west.text(start * 1000 + 5) == "2024-03-30 19:00:00.005"
    assert west.machine_text(start * 1000) == "2024-03-30T19:00:00.000-04:00"
    assert [tick.label for tick in west.ticks(start * 1000, (start + 2 * 86_400) * 1000, 3)] == [
        "2024-03-31",
        "2024-04-01",
    ]
    # beyond the years that zones know
    assert Clock("s", epoch=True, zone="Asia/Tokyo").date(253_402_300_799) is None
