"""Conditions on the values of events in traces and in running programs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa

import mtlmon
from mtlmon.errors import (
    FormulaError,
    MtlmonError,
    TimeStampError,
    TraceError,
    UnknownAtomWarning,
    ViolationError,
)
from mtlmon.testing import LiveMonitor, assert_holds, check

POLICIES = [
    "unit s\npolicy x: count[0,1m](p) < 4",
    "unit s\nstream fails = count[0,30s](p)\nlet hot = fails >= 3\n"
    "policy x: NOT (hot AND NOT PREVIOUS hot)",
    "unit s\npolicy x: latency < 0.5 OR EVENTUALLY[0,20s] latency < 0.2",
    "unit s\nstream mean = avg[0,40s](latency, or: 0.0)\n"
    "policy x: q IMPLIES mean - mean.last(or: 0.0) < 0.1",
    'unit s\natom slow = latency > 0.7 and user != "ann"\npolicy x: slow IMPLIES ONCE[0,9s] q',
    "unit s\ntrigger x: distinct[0,1m](user) > 2 and p",
]


def make_trace(seed: int, count: int) -> list[tuple[int, dict[str, Any]]]:
    source = random.Random(seed)
    time = 0
    trace = []
    for _ in range(count):
        time += source.choice([0, 1, 3, 10, 40])
        event = {
            "p": source.random() < 0.4,
            "q": source.random() < 0.4,
            "latency": source.choice([None, 0.1, 0.3, 0.6, 0.9]),
            "user": source.choice(["ann", "bob", "cid", "dan"]),
        }
        trace.append((time, event))
    return trace


def expected(policy: str, trace: list[tuple[int, dict[str, Any]]]) -> tuple[int, int, list[int]]:
    """The numbers of true and false time-points, and the times of the latter."""
    table = pa.Table.from_pylist([{"ts": time, **event} for time, event in trace])
    run = mtlmon.check(policy, table, resolve=True, end_time="last")
    rows = run.to_arrow().to_pylist()
    counts = run.counts["x"]
    return counts.true, counts.false, sorted(row["time"] for row in rows if row["verdict"] is False)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_every_form_of_a_trace_says_what_a_table_says(policy: str, seed: int) -> None:
    pandas = pytest.importorskip("pandas")
    trace = make_trace(seed, 120)
    columns = {"time_stamp": [time for time, _ in trace]}
    columns |= {name: [event[name] for _, event in trace] for name in trace[0][1]}
    forms = [trace, iter(trace), pa.table(columns), pandas.DataFrame(columns)]
    wanted = expected(policy, trace)
    assert wanted[1]
    for form in forms:
        result = check(policy, form, end_time="last", at_end="undecided-ok", unit="s")
        found = [time for time, _ in result.violations]
        assert (result.true_count, result.false_count, found) == wanted
    monitor = LiveMonitor(policy, end_time="last", at_end="undecided-ok")
    with pytest.raises(ViolationError) as caught:
        for event in trace:
            monitor.step(*event)
        monitor.close()
    with pytest.raises(ViolationError) as recorded:
        assert_holds(policy, trace, end_time="last", at_end="undecided-ok", unit="s")
    assert caught.value.time_point == recorded.value.time_point


def test_names_alone_and_logs_have_windows(tmp_path: Any) -> None:
    formula = "count[0,9](p) < 3"
    names = [(0, {"p"}), (5, {"p", "q"}), (9, {"p"}), (30, set())]
    assert check(formula, names).violations == [(9, 0)]
    path = tmp_path / "events.log"
    path.write_text("@0 p\n@5 p q\n@9 p\n@30\n")
    assert check(formula, path).violations == [(9, 0)]


def test_events_are_not_read_ahead() -> None:
    taken = []

    def events() -> Iterator[tuple[int, dict[str, float]]]:
        for time, value in enumerate([0.1, 0.2, 0.9, 0.1, 0.1]):
            taken.append(time)
            yield time, {"latency": value}

    with pytest.raises(ViolationError, match=r"^2:0 violates"):
        assert_holds("latency < 0.5", events())
    assert taken == [0, 1, 2]


@pytest.mark.parametrize("stamp", [-1, 3, 2**63, 2.5])
def test_what_is_no_time_stamp_is_named_as_ever(stamp: Any) -> None:
    trace = [(5, {"x": 1}), (stamp, {"x": 2}), (9, {"x": 3})]
    with pytest.raises(MtlmonError) as plain:
        check("x", [(time, {"x": True}) for time, _ in trace])
    with pytest.raises(type(plain.value)) as caught:
        check("x > 0", trace)
    assert str(caught.value) == str(plain.value)


def test_time_stamps_of_a_running_program_must_not_decrease() -> None:
    monitor = LiveMonitor("x > 0")
    monitor.step(5, {"x": 1})
    with pytest.raises(TimeStampError, match="below 5"):
        monitor.step(4, {"x": 1})


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("count[0,5](x) <", FormulaError, "expected a value, found the end"),
        ("p AND", FormulaError, "expected a formula, found the end"),
        ("policy a: p\npolicy b: q", MtlmonError, "has 2 policies"),
        ("policy a on every 5: count[0,5](p) > 1", MtlmonError, "is on every 5"),
        ("stream s = count[0,5](p) every 5\npolicy a: s.hold() > 1", MtlmonError, "at ticks"),
        ("find q: p(x)", MtlmonError, "find q says what is looked for"),
    ],
)
def test_texts_that_are_refused(text: str, error: type[Exception], message: str) -> None:
    for attempt in (lambda: check(text, [(1, {"p"})]), lambda: LiveMonitor(text)):
        with pytest.raises(error, match=message):
            attempt()


def test_values_that_are_missing_or_do_not_fit() -> None:
    with pytest.raises(TraceError, match="'latenci'"):
        check("latenci > 5", [(1, {"latency": 3, "p": False})])
    with pytest.warns(UnknownAtomWarning, match="latency"):
        check("NOT latency > 5", [(1, {"p"})])
    with pytest.raises(TraceError, match=r"no column for 'latency'.*The columns are 'p'"):
        check("latency > 5", {"time_stamp": [1], "p": [True]})
    with pytest.raises(TraceError, match=r"which a condition names.*are 'time_stamp', 'p'"):
        check("latency > 5", {"time_stamp": [1], "p": [True]}, unknown="ignore")
    with pytest.raises(TraceError, match="the values of x have no common type"):
        check("x > 5", [(1, {"x": 3}), (2, {"x": "three"})])
    with pytest.raises(TraceError, match=r"event 1: .* overflows"):
        check("sum[0,9](x) > 5", [(1, {"x": 2**62}), (2, {"x": 2**62})])


def test_events_are_names_dictionaries_and_keywords() -> None:
    monitor = LiveMonitor("`load-1` < 5 AND start", clock=lambda: 0)
    with pytest.raises(ViolationError, match="load-1"):
        monitor.event("start", {"load-1": 7}, x=True)
