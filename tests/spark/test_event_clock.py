"""Time-stamps and the milliseconds of watermarks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import FormulaError, MtlmonError, UnitError
from tests.doors import LARGEST_MILLISECOND, UNITS, EventClock

CLOCKS = st.sampled_from([None, *UNITS]).map(EventClock.of_unit)
TIMES = st.one_of(st.integers(1, 10**5), st.integers(1, 2**63 - 1))


def milliseconds(clock: EventClock, time_stamp: int) -> int:
    return int(clock.milliseconds(np.array([time_stamp], np.int64))[0])


@given(clock=CLOCKS, time_stamp=TIMES, watermark=st.integers(0, LARGEST_MILLISECOND))
def test_timers_come_when_the_horizon_has(
    clock: EventClock, time_stamp: int, watermark: int
) -> None:
    timer = clock.timer(time_stamp)
    reached = timer is not None and timer <= watermark
    assert reached == (clock.horizon(watermark) >= time_stamp)
    if timer is not None:
        assert clock.horizon(timer - 1) < time_stamp <= clock.horizon(timer)


@given(clock=CLOCKS, time_stamp=st.integers(0, 10**8), watermark=st.integers(0, 10**10))
def test_what_the_watermark_lets_pass_is_not_late(
    clock: EventClock, time_stamp: int, watermark: int
) -> None:
    if milliseconds(clock, time_stamp) >= watermark:
        assert time_stamp >= clock.horizon(watermark)


@given(clock=CLOCKS, time_stamp=st.integers(0, 10**8), delay=st.integers(0, 10**8))
def test_delays_are_whole_time_stamps(clock: EventClock, time_stamp: int, delay: int) -> None:
    """An event that is as late as is allowed, and not more, is in time."""
    watermark = max(0, milliseconds(clock, time_stamp) - clock.delay(delay, None))
    assert max(0, time_stamp - delay) >= clock.horizon(watermark)


@pytest.mark.parametrize(
    ("unit", "delay", "expected"),
    [
        (None, 3, 3),
        ("ms", 3, 3),
        ("s", 3, 3000),
        ("ns", 1_500_000, 2),
        ("s", "90s", 90_000),
        ("s", "1500ms", 2000),
        ("us", "1500us", 2),
        ("d", "1h", 86_400_000),
        ("h", "0s", 0),
    ],
)
def test_delays(unit: str | None, delay: int | str, expected: int) -> None:
    assert EventClock.of_unit(unit).delay(delay, unit) == expected


def test_wrong_delays() -> None:
    with pytest.raises(UnitError, match="the delay 5s has a unit of time"):
        EventClock.of_unit(None).delay("5s", None)
    with pytest.raises(MtlmonError, match="is -1, which is negative"):
        EventClock.of_unit("s").delay(-1, "s")
    with pytest.raises(FormulaError, match="10 minutes"):
        EventClock.of_unit("s").delay("10 minutes", "s")


def test_times_later_than_spark_can_tell() -> None:
    with pytest.raises(MtlmonError, match="later than a streaming query can tell"):
        milliseconds(EventClock.of_unit(None), 2**62)
    with pytest.raises(MtlmonError, match="later than a streaming query can tell"):
        milliseconds(EventClock.of_unit("d"), 2**50)
    assert milliseconds(EventClock.of_unit("ns"), 2**63 - 1) == (2**63 - 1) // 10**6
