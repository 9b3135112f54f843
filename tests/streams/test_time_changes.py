"""Ticks at which values of time change: these are due for all keys, and few others are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mtlmon
from mtlmon.policy import Environment
from tests.doors import StreamProgram, Ticks
from tests.streams.programs import all_ticks_computed, predicate

CONDITIONS = [
    "hour(ts) >= 9",
    "hour(ts) >= 9 and count[0,40m]() > 0",
    "minute(ts) % 20 < 10 or not c > 1",
    'weekday(ts) = "tue" and c > 0',
    "coalesce(quiet.last(2), true)",
    "quiet.at(-50m, or: true) or c.last(or: 0) > 1",
    'time_of_day(ts) > "10:30:00"',
    "coalesce(last[0,30m](x), hour(ts)) > 8",
    "ts - ts.hold() < 45m",
    "even or count[0,20m](hour(ts) = 9) > 0",
]
STREAMS = """unit m
time "ts"
zone "Europe/Berlin"
key k
stream c = count[0,1h]() every 10m
stream quiet = (hour(ts) < 9 or hour(ts) >= 10) every 10m
stream even = hour(ts) % 2 = 0 every 5m
"""
START = int(datetime(2024, 5, 6, 6, 10, tzinfo=UTC).timestamp())


@st.composite
def logs(draw: st.DrawFn) -> pa.Table:
    gaps = draw(st.lists(st.sampled_from([0, 1, 9, 60, 250, 1440]), min_size=1, max_size=8))
    keys = draw(st.lists(st.sampled_from("abc"), min_size=len(gaps), max_size=len(gaps)))
    times = [START + 60 * int(time) for time in np.cumsum(gaps)]
    stamps = pa.array([datetime.fromtimestamp(time, UTC) for time in times], pa.timestamp("s"))
    return pa.table({"ts": stamps, "k": keys, "x": list(range(len(gaps)))})


def verdicts(text: str, log: pa.Table, size: int, **options: Any) -> tuple[list[Any], Any]:
    reader = pa.RecordBatchReader.from_batches(log.schema, log.to_batches(size))
    check = mtlmon.check(text, reader, resolution="m", end_time="last", **options)
    return check.to_arrow().to_pylist(), check.counts


@settings(max_examples=25)
@given(logs(), st.sampled_from(CONDITIONS), st.sampled_from([10, 20, 30]), st.integers(1, 4))
def test_verdicts_are_those_of_all_ticks(
    log: pa.Table, condition: str, period: int, size: int
) -> None:
    text = f"{STREAMS}policy p on every {period}m: {condition}\n"
    with all_ticks_computed():
        wanted = verdicts(text, log, size, verdicts="all")
    some, counts = verdicts(text, log, size, verdicts="false")
    assert some == [row for row in wanted[0] if row["verdict"] is False]
    assert counts == wanted[1]


def due_ticks(text: str, periods: list[int], *batches: list[int], until: int) -> Ticks:
    """The due ticks of two keys, whose rows are in turns."""
    environment = Environment(time="ts", unit="m", zone="Europe/Berlin")
    schema = pa.schema([("ts", pa.timestamp("s"))])
    wanted = {str(period): predicate(text) for period in periods}
    program = StreamProgram(
        wanted, {}, schema, None, environment, {str(one): one for one in periods}, only_due=True
    )
    found: list[Ticks] = []
    for number, times in enumerate(batches):
        stamps = pa.array([datetime.fromtimestamp(60 * time, UTC) for time in times])
        batch = pa.record_batch({"ts": stamps.cast(pa.timestamp("s"))})
        numbers = np.arange(len(times), dtype=np.uint32) % 2
        is_last = number == len(batches) - 1
        own = np.array(times, np.int64)
        assert (program.tick_count(own, numbers) >= 0).all()
        program.evaluate(batch, own, numbers, until if is_last else None)
        assert program.due_ticks is not None
        found.append(program.ticks_of(periods[0]))
    return Ticks(
        np.concatenate([one.time_stamps for one in found]),
        np.concatenate([one.numbers for one in found]),
        np.concatenate([one.places for one in found]),
    )


def hours(ticks: Ticks) -> list[tuple[str, int]]:
    zone = ZoneInfo("Europe/Berlin")
    times = [datetime.fromtimestamp(60 * int(time), zone) for time in ticks.time_stamps]
    return [
        (f"{time:%a %H:%M}", int(number)) for time, number in zip(times, ticks.numbers, strict=True)
    ]


def test_all_keys_are_due_where_time_changes_a_value() -> None:
    start = START // 60  # Monday, 8:10
    found = due_ticks("hour(ts) >= 22", [30], [start, start + 1], until=start + 2 * 1440)
    assert hours(found) == [
        (time, number)
        for time in ("Mon 08:30", "Mon 22:00", "Tue 00:00", "Tue 22:00", "Wed 00:00")
        for number in (0, 1)
    ]


def test_no_key_is_due_before_its_first_row() -> None:
    start = START // 60
    found = due_ticks(
        "hour(ts) >= 22", [30], [start, start + 20 * 60], [start + 1500], until=start + 2880
    )
    assert hours(found) == [
        ("Mon 08:30", 0),
        ("Mon 22:00", 0),
        ("Tue 00:00", 0),
        ("Tue 04:30", 1),
        ("Tue 09:30", 0),
        ("Tue 22:00", 0),
        ("Tue 22:00", 1),
        ("Wed 00:00", 0),
        ("Wed 00:00", 1),
    ]


@pytest.mark.parametrize(
    "text", ["(ts - ts.hold()) % 7 = 3", "floor(ts - ts.hold()) > 2 and hour(ts) > 2"]
)
def test_all_ticks_are_computed_where_the_time_itself_matters(text: str) -> None:
    with pytest.raises(AssertionError):
        due_ticks(text, [30], [START // 60], until=START // 60 + 100)
    due_ticks("hour(ts) > 2", [30], [START // 60], until=START // 60 + 100)


def test_long_silences_are_looked_at_in_parts() -> None:
    start = START // 60
    program = StreamProgram(
        {"x": predicate("hour(ts) >= 22")},
        {},
        pa.schema([("ts", pa.timestamp("s"))]),
        None,
        Environment(time="ts", unit="m"),
        {"x": 1},
        only_due=True,
    )
    batch = pa.record_batch({"ts": pa.array([datetime.fromtimestamp(START, UTC)])})
    batch = batch.cast(pa.schema([("ts", pa.timestamp("s"))]))
    program.evaluate(batch, np.array([start], np.int64))
    end = start + 10**6
    counts = program.tick_count(np.array([start + 5000, end], np.int64), None)
    assert counts[0] == 7
    assert counts[1] > 10**15
    found = 0
    nothing = batch.slice(0, 0)
    while program.ticks_done < end:
        before = program.ticks_done
        limit = program.time_behind(100)
        assert limit is not None
        program.evaluate(nothing, np.empty(0, np.int64), None, min(end, limit))
        assert program.ticks_done > before
        assert len(program.ticks_of(1)) <= 101
        found += len(program.ticks_of(1))
    assert abs(found - 2 * 10**6 // 1440) <= 2
