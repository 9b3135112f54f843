"""A key divides events into traces that are monitored separately, with a clock in common."""

from __future__ import annotations

import logging
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mtlmon
from mtlmon.errors import EventTypeError, MtlmonError, TimeStampError, TraceError
from mtlmon.testing import (
    LiveMonitor,
    LogRule,
    UnknownAtomWarning,
    VacuousError,
    ViolationError,
    assert_holds,
    check,
    log_events,
)
from mtlmon.testing import strategies as mtl
from tests.doors import AtEnd

RESPONSE = "request IMPLIES EVENTUALLY[0,5] response"
EVENTS: list[Any] = [
    (0, {"request": True, "task": 7}),
    (1, {"request": True, "task": 8}),
    (2, {"response": True, "task": 8}),
    (9, {"other": True, "task": 9}),
]
REPORT = """\
0:0 violates request IMPLIES EVENTUALLY[0,5] response
for task = 7

  > 0:0  request

expected: response at some time-point from 0 to 5, because request holds at 0:0
"""


def test_the_report_is_about_the_key() -> None:
    with pytest.raises(ViolationError) as caught:
        assert_holds(RESPONSE, EVENTS, key="task")
    assert str(caught.value).startswith(REPORT)
    assert caught.value.key == {"task": 7}
    # another key's event makes it known
    assert_holds(RESPONSE, EVENTS[:3], key="task", at_end="undecided-ok")
    with pytest.raises(ViolationError, match=r"0:0\nby .*\nfor task = 7\n"):
        assert_holds(RESPONSE, EVENTS[:3], key="task")
    assert_holds(RESPONSE, EVENTS[1:], key="task")


def test_results_of_keys() -> None:
    result = check(RESPONSE, [*EVENTS, (9, {"request": True, "task": 10})], key="task")
    assert list(result.keys) == [7, 8, 9, 10]
    assert [one.holds for one in result.keys.values()] == [False, True, True, False]
    assert result.keys[7].violations == result.violations == [(0, 0)]
    assert result.keys[10].undecided == result.undecided == [(9, 0)]
    assert (result.event_count, result.true_count) == (5, 3)
    assert "for task = 10" in str(result.keys[10])
    two = [(0, {"p": True, "a": 1, "b": "x"}), (0, {"p": False, "a": 1, "b": "y"})]
    assert list(check("p", two, key=("a", "b")).keys) == [(1, "x"), (1, "y")]


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.5, 1.0],
        [1e20, 2e-9, 1e20],
        [Decimal("1.50"), Decimal("2.00"), Decimal("1.50")],
        [True, False, True],
        [date(2024, 1, 2), date(2024, 1, 3), date(2024, 1, 2)],
        [
            datetime(2024, 1, 2, 3, 4, 5, 60),
            datetime(2024, 1, 2),
            datetime(2024, 1, 2, 3, 4, 5, 60),
        ],
        ["x", "1.0", "x"],
    ],
)
def test_keys_of_a_table_are_its_values(values: list[object]) -> None:
    table = pa.table({"time_stamp": [0, 1, 2], "p": [True, False, True], "k": values})
    keys = check("p", table, key="k").keys
    assert [(type(key), key) for key in keys] == [(type(key), key) for key in values[:2]]
    assert [one.event_count for one in keys.values()] == [2, 1]


def test_lists_are_no_keys() -> None:
    table = pa.table({"time_stamp": [0, 1], "p": [True, False], "k": [[1], [2]]})
    with pytest.raises(MtlmonError, match=r"'k'.* lists"):
        check("p", table, key="k")


def test_the_report_of_open_time_points_counts_the_keys() -> None:
    events = [(0, {"request": True, "task": number}) for number in range(3)]
    words = "for task = 0\nand so are time-points of 2 other keys"
    with pytest.raises(ViolationError, match=words):
        assert_holds(RESPONSE, events, key="task", unknown="ignore")


def test_the_end_of_the_log_is_that_of_each_key() -> None:
    events: list[Any] = [(0, {"p": True, "k": 1}), (2, {"p": False, "k": 2})]
    formula = "p IMPLIES EVENTUALLY[0,2] q"
    words = r"for k = 1\n(.*\n)*0:0 may stay undecided until time has passed 2; .* come to 2"
    with pytest.raises(ViolationError, match=words):
        assert_holds(formula, events, key="k", unknown="ignore")
    ended = check(formula, events, key="k", unknown="ignore", end_time="last")
    assert ended.keys[1].violations == [(0, 0)]
    assert check(formula, events, key="k", unknown="ignore", end_time=1).undecided == [(0, 0)]


def test_a_deadline_that_comes_before_an_earlier_one() -> None:
    formula = "(p IMPLIES EVENTUALLY[0,9] r) AND (q IMPLIES EVENTUALLY[0,2] r)"
    monitor = LiveMonitor(formula, key="k", unknown="ignore")
    monitor.step(0, {"p": True, "k": 1})
    monitor.step(1, {"q": True, "k": 1})
    monitor.step(3, {"k": 2})
    with pytest.raises(ViolationError, match=r"^1:0 .*\nfor k = 1\n"):
        monitor.step(4, {"k": 2})


@pytest.mark.parametrize("text", ["key user\npolicy few: {}", "policy few per user: {}"])
def test_the_key_of_a_policy(text: str) -> None:
    policy = text.format("count[0,60](failed) < 3")
    events = [(i, {"failed": True, "user": user}) for i, user in enumerate(["a", "b", "a", "a"])]
    with pytest.raises(ViolationError) as caught:
        assert_holds(policy, events)
    report = str(caught.value)
    assert report.startswith("3:0 violates few\ncount[0,60](failed) < 3\nfor user = a\n")
    assert "2:0  " in report
    assert "1:0" not in report
    assert "count[0,60](failed)=3" in report
    assert_holds(policy, events[:3])


def test_a_key_in_a_condition() -> None:
    events = [(i, {"user": user}) for i, user in enumerate(["ann", "root"])]
    with pytest.raises(ViolationError, match='for user = root\n\n  > 1:0  user="root"'):
        assert_holds('user != "root"', events, key="user")


def test_tables() -> None:
    table: dict[str, list[Any]] = {
        "time_stamp": [0, 1, 2, 9],
        "request": [True, True, False, False],
        "response": [False, False, True, False],
        "task": [7, 8, 8, 9],
    }
    with pytest.raises(ViolationError, match="response\nin row 0\nfor task = 7\n"):
        assert_holds(RESPONSE, table, key="task")
    table["latency"] = [1, 1, 1, 7]
    with pytest.raises(ViolationError, match=r"in row 3\nfor task = 9\n\n.*latency=7"):
        assert_holds("latency < 5", pa.table(table), key="task")
    with pytest.raises(TraceError, match="no column 'tusk', which key= names; did you mean 'task'"):
        assert_holds(RESPONSE, table, key="tusk")
    table["task"][1] = None
    with pytest.raises(TraceError, match="row 1 has no 'task', which is the key"):
        assert_holds(RESPONSE, table, key="task")


@pytest.mark.parametrize(
    ("formula", "trace", "key", "kind", "message"),
    [
        ("p", [(0, {"p"})], "task", EventTypeError, "event 0: {'p'} has no key: write what"),
        (
            "p",
            [(0, {"p": True, "task": 1}), (1, {"p": True, "tasks": 1})],
            "task",
            EventTypeError,
            "event 1: the event has no 'task', which is the key; did you mean 'tasks'?",
        ),
        ("p", [(0, {"p": True, "t": None})], "t", EventTypeError, "event 0: the event has no 't'"),
        ("p", [(0, {"p": True, "t": []})], "t", EventTypeError, r"t = \[\] cannot be a key"),
        (
            "p",
            [(5, {"p": True, "t": 1}), (4, {"p": True, "t": 2})],
            "t",
            TimeStampError,
            "event 1: time-stamp 4 is below 5",
        ),
        ("p", [(0, {"p": True})], ("t", "t"), MtlmonError, "key names a value twice"),
        ("p", [(0, {"p": True})], 7, MtlmonError, "key is the name of a value"),
        ("p", "events.log", "t", TraceError, "a text log has no values that could be the key t"),
        ("p", [1], "t", TraceError, "event 0 is 1"),
    ],
)
def test_what_is_refused(
    formula: str, trace: Any, key: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        assert_holds(formula, trace, key=key)


def test_names_of_all_keys_are_known() -> None:
    # the second key has no `response`, which is not misspelt
    assert_holds(RESPONSE, EVENTS[1:], key="task", unknown="error")
    with pytest.warns(UnknownAtomWarning, match="'response'"):
        assert_holds("NOT response", EVENTS[:1], key="task")


def test_a_left_side_that_holds_for_some_key() -> None:
    assert_holds(RESPONSE, EVENTS[1:], key="task", vacuous="error")
    with pytest.raises(VacuousError, match="none of the 2 time-points"):
        assert_holds(RESPONSE, EVENTS[2:], key="task", vacuous="error")


def test_live_events() -> None:
    monitor = LiveMonitor(RESPONSE, key="task")
    monitor.step(0, {"request": True, "task": "a"})
    monitor.step(1, {"request": True, "task": "b"})
    monitor.step(5, {"response": True, "task": "a"})
    with pytest.raises(ViolationError, match=r"1:0 violates .*\nfor task = b\n\n  > 1:0  request"):
        monitor.step(7, {"other": True, "task": "a"})


def test_live_events_with_a_clock() -> None:
    now = 0
    monitor = LiveMonitor("latency < 5 OR PREVIOUS slow", key=["host", "job"], clock=lambda: now)
    monitor.event("slow", latency=1, host="h", job=1)
    now = 4
    monitor.event(latency=9, host="h", job=1)
    with pytest.raises(EventTypeError, match="has no 'job'"):
        monitor.event(latency=9, host="h")
    with pytest.raises(ViolationError, match=r"4:0 .*\nfor host = h, job = 2\n"):
        monitor.event(latency=9, host="h", job=2)
    monitor.abandon()


def log_of(task: str, *words: str) -> None:
    for word in words:
        logging.getLogger("shop").warning("task %s %s", task, word, extra={"worker": task * 2})


RULES = (
    LogRule("start", message="task (?P<task>.) started"),
    LogRule("end", message="task (?P<task>.) ended"),
)
POLICY = "end IMPLIES PREVIOUS start"


@pytest.mark.parametrize(("key", "value"), [("task", "b"), ("worker", "bb")])
def test_log_records(key: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    monitor = LiveMonitor(POLICY, key=key, clock="monotonic", unit="s")
    monitor.listen(*RULES, logger="shop")
    log_of("a", "started")
    log_of("b", "started")
    log_of("a", "ended")
    log_of("b", "ended", "sleeps", "ended")
    with pytest.raises(ViolationError, match=f"for {key} = {value}\n"):
        monitor.close()
    records = log_events(caplog.records, *RULES, fields=key)
    assert records[0][1] == {"start": True, key: "a" if key == "task" else "aa"}
    with pytest.raises(ViolationError, match=f"for {key} = {value}\n"):
        assert_holds(POLICY, records, key=key)
    assert_holds(POLICY, records[:4], key=key)


def test_records_without_the_key() -> None:
    monitor = LiveMonitor(POLICY, key="worker", clock="monotonic")
    monitor.listen(*RULES, logger="shop")
    logging.getLogger("shop").warning("task a sleeps")
    monitor.check()
    logging.getLogger("shop").warning("task a started", extra={"workers": 1})
    with pytest.raises(MtlmonError, match=r"'task a started' has no 'worker'.* mean 'workers'"):
        monitor.close()


def test_fields_of_records_as_values() -> None:
    monitor = LiveMonitor("NOT end OR seconds < 5", clock="monotonic")
    monitor.listen(*RULES, logger="shop")
    logging.getLogger("shop").warning("task a ended", extra={"seconds": 4})
    monitor.check()
    logging.getLogger("shop").warning("task a ended", extra={"seconds": 6})
    with pytest.raises(ViolationError, match="end seconds=6"):
        monitor.close()


ATOMS = ["p", "q"]


@st.composite
def keyed_events(draw: st.DrawFn) -> list[tuple[int, dict[str, object]]]:
    time_stamp = 0
    events: list[tuple[int, dict[str, object]]] = []
    for _ in range(draw(st.integers(0, 10))):
        time_stamp += draw(st.integers(0, 3))
        letter = {name: draw(st.booleans()) for name in ATOMS}
        events.append((time_stamp, {**letter, "k": draw(st.integers(0, 2))}))
    return events


def traces_of(events: list[tuple[int, dict[str, object]]]) -> dict[object, list[Any]]:
    traces: dict[object, list[Any]] = {}
    for time_stamp, event in events:
        letter = {name: event[name] for name in ATOMS}
        traces.setdefault(event["k"], []).append((time_stamp, letter))
    return traces


def is_violated(formula: Any, events: Any, end_time: int) -> bool:
    """Whether a key of some events violates a formula if the log is complete up to a time."""
    return any(
        check(formula, trace, end_time=end_time if end_time >= 0 else None).violations
        for trace in traces_of(events).values()
    )


FORMULAS = mtl.formulas(ATOMS, max_leaves=4)


@settings(max_examples=60)
@given(FORMULAS, keyed_events(), st.sampled_from([None, "last", 3, 20, "closed"]))
def test_each_key_is_a_trace_of_its_own(formula: Any, events: Any, end: Any) -> None:
    at_end: AtEnd = "closed" if end == "closed" else "undecided-ok"
    given_end = None if end == "closed" else end
    result = check(
        formula,
        events,
        key="k",
        at_end=at_end,
        end_time=given_end,
        unknown="ignore",
    )
    traces = traces_of(events)
    assert set(result.keys) == set(traces)
    last = events[-1][0] if events else 0
    known = {None: last - 1, "last": last, "closed": last - 1}.get(end, end)
    for key, trace in traces.items():
        alone = check(
            formula,
            trace,
            at_end=at_end,
            end_time=max(known, last - 1) if last else given_end,
            unknown="ignore",
        )
        own = result.keys[key]
        assert own.violations == alone.violations
        assert repr(own) == repr(alone)


@settings(max_examples=60)
@given(FORMULAS, keyed_events())
def test_a_violation_is_known_when_time_has_shown_it(formula: Any, events: Any) -> None:
    monitor = LiveMonitor(formula, key="k", at_end="undecided-ok", unknown="ignore")
    for count, (time_stamp, event) in enumerate(events, 1):
        is_expected = is_violated(formula, events[:count], time_stamp - 1)
        try:
            monitor.step(time_stamp, event)
        except ViolationError:
            assert is_expected
            return
        assert not is_expected
    monitor.close()


@settings(max_examples=40)
@given(FORMULAS, keyed_events())
def test_tables_have_the_same_violations(formula: Any, events: Any) -> None:
    table = pa.table(
        {
            "ts": pa.array([time for time, _ in events], pa.int64()),
            **{name: pa.array([one[name] for _, one in events], pa.bool_()) for name in ATOMS},
            "k": pa.array([one["k"] for _, one in events], pa.int64()),
        }
    )
    found = check(
        formula, table, key="k", time="ts", at_end="undecided-ok", end_time="last", unknown="ignore"
    )
    verdicts = mtlmon.check(formula, table, key="k", end_time="last", resolve=True).to_arrow()
    wanted = [
        (row["k"], row["time"], row["offset"])
        for row in verdicts.to_pylist()
        if row["verdict"] is False
    ]
    own = [(str(key), *point) for key, one in found.keys.items() for point in one.violations]
    assert sorted(own) == sorted((str(key), *point) for key, *point in wanted)
