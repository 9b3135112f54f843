"""Times of events that are no integers are counted in the unit."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from mtlmon.errors import EventTypeError, TimeStampError, TraceError
from mtlmon.testing import LiveMonitor, ViolationError, assert_holds, check
from tests.doors import TimeReader

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
IN_MS = int(START.timestamp()) * 1000


@pytest.mark.parametrize(
    ("value", "unit", "stamp"),
    [
        (5, None, 5),
        (0.25, "ms", 250),
        (0.2519, "ms", 251),
        (1.5e-9, "ns", 2),
        # 1714564800.005 is a little less as a float
        (1714564800.005, "ms", 1714564800005),
        (-0.5, "s", -1),
        (np.float64(2.5), "s", 2),
        (START, "s", IN_MS // 1000),
        (START + timedelta(microseconds=1999), "ms", IN_MS + 1),
        (START.astimezone(timezone(timedelta(hours=5))), "ms", IN_MS),
        (START, "d", IN_MS // 86_400_000),
        (START, "ns", IN_MS * 10**6),
        (timedelta(seconds=1.5), "ms", 1500),
    ],
)
def test_times(value: Any, unit: str | None, stamp: int) -> None:
    assert TimeReader(unit).read(value) == stamp


def test_zones_of_policies() -> None:
    berlin = START.replace(hour=14, tzinfo=None)
    assert TimeReader("ms", "Europe/Berlin").read(berlin) == IN_MS
    policy = 'zone "Europe/Berlin"\nunit s\npolicy late: hour(ts) < 22'
    assert_holds(policy, [(berlin, {"p": True})])
    with pytest.raises(
        ViolationError, match=f"{int(START.timestamp()) + 9 * 3600}:0 violates late"
    ):
        assert_holds(policy, [(berlin + timedelta(hours=9), {"p": True})])


def test_time_zones_of_policies() -> None:
    """`time zone` says where times are that have no offset; `hour` goes by `zone` alone."""
    policy = 'time zone "Europe/Berlin"\nunit s\npolicy noon: hour(ts) = 12'
    assert_holds(policy, [(START.replace(hour=14, tzinfo=None), {"p": True})])
    # clocks are put back at 1:00 UTC, from 3:00 to 2:00
    early, late = datetime(2024, 10, 27, 2, 10), datetime(2024, 10, 27, 2, 50)
    first = int(datetime(2024, 10, 27, 0, 10, tzinfo=UTC).timestamp())
    reader = TimeReader("s", "Europe/Berlin")
    found = [reader.read(one) for one in (early, late, early, late)]
    assert found == [first, first + 2400, first + 3600, first + 6000]
    assert TimeReader("s", "Europe/Berlin").read(early.replace(fold=1)) == first + 3600
    assert TimeReader("s", "Europe/Berlin second").read(early) == first + 3600
    reader = TimeReader("s", "Europe/Berlin first")
    assert [reader.read(one) for one in (late, early)] == [first + 2400, first]
    with pytest.raises(TimeStampError, match="does not exist in Europe/Berlin"):
        TimeReader("s", "Europe/Berlin").read(datetime(2024, 3, 31, 2, 30))


@pytest.mark.parametrize(
    ("value", "unit", "kind", "message"),
    [
        (0.5, None, EventTypeError, "with a unit, as in unit='ms', floats count seconds"),
        (START, None, EventTypeError, "with a unit, as in unit='ms', dates count from 1970"),
        (timedelta(1), None, EventTypeError, "with a unit, as in unit='ms'"),
        (float("nan"), "s", TimeStampError, "time-stamp nan is not a time"),
        (float("inf"), "s", TimeStampError, "time-stamp inf is not a time"),
        (START.replace(tzinfo=None), "s", TimeStampError, "has no time zone: make it with"),
        (-0.5, "s", TimeStampError, "time-stamp -1 is"),
        (date(2024, 5, 1), "s", EventTypeError, "time-stamps are integers"),
        ("12:00", "s", EventTypeError, "time-stamps are integers"),
    ],
)
def test_what_is_refused(value: Any, unit: str | None, kind: type[Exception], message: str) -> None:
    trace = [(0, {"p": True}), (value, {"p": True})]
    with pytest.raises(kind, match=f"^event 1: .*{message}"):
        check("p", trace, unit=unit)
    keyed: Any = [(time_stamp, {**event, "k": 1}) for time_stamp, event in trace]
    with pytest.raises(kind, match=f"^event 1: .*{message}"):
        check("p", keyed, unit=unit, key="k")
    monitor = LiveMonitor("p", unit=unit)
    with pytest.raises((kind, TypeError), match=message if "integer" not in message else None):
        monitor.step(value, {"p"})


def test_traces_and_live_monitors() -> None:
    events = [(START, {"request"}), (START + timedelta(seconds=6), {"response"})]
    formula = "request IMPLIES EVENTUALLY[0,5s] response"
    with pytest.raises(ViolationError, match=f"{IN_MS}:0 violates"):
        assert_holds(formula, events, unit="ms")
    with (
        pytest.raises(ViolationError, match="500:0 violates"),
        LiveMonitor(formula, unit="ms") as monitor,
    ):
        monitor.step(0.5, {"request"})
        monitor.advance(5.5)
        monitor.advance(timedelta(seconds=5.6))
    now = 0.25
    live = LiveMonitor(formula, unit="ms", clock=lambda: now)
    live.event("request")
    now = 5.3
    with pytest.raises(ViolationError, match="250:0 violates"):
        live.check()
    with LiveMonitor("response", unit="ms", clock=time.monotonic) as other:
        other.event("response")


def test_policies_with_variables() -> None:
    rows = [(0.5, {"approve": [("f",)]}), (9.5, {"publish": [("f",)]})]
    with pytest.raises(ViolationError, match="9500:0 violates"):
        assert_holds("publish(f) IMPLIES ONCE[0,5s] approve(f)", rows, unit="ms")


def test_columns() -> None:
    formula = "p IMPLIES EVENTUALLY[0,5s] q"
    truth = {"p": [True, False], "q": [False, True]}
    for times in ([0.5, 6.5], [START, START + timedelta(seconds=6)]):
        with pytest.raises(ViolationError, match="in row 0"):
            assert_holds(formula, {"time_stamp": times, **truth}, unit="ms")
    with pytest.raises(TraceError, match=r"time-stamp of row 0 is 0\.5: a time-stamp is an"):
        assert_holds("p IMPLIES EVENTUALLY[0,5] q", {"time_stamp": [0.5, 6.5], **truth})


def test_the_unit_of_a_policy_is_that_of_a_clock() -> None:
    policy = "unit s\npolicy soon: request IMPLIES EVENTUALLY[0,1m] response"
    monitor = LiveMonitor(policy, clock="monotonic", at_end="undecided-ok", unknown="ignore")
    monitor.event("request")
    assert str(monitor.formula) == "request IMPLIES EVENTUALLY[0,60] response"
    monitor.close()
