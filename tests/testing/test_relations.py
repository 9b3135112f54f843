"""Policies with variables in tests: recorded traces, running programs, and what failures say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import RelationalMonitor
from mtlmon.errors import (
    EventTypeError,
    LogError,
    MtlmonError,
    PolicyError,
    TimeStampError,
    TraceError,
    UnknownAtomWarning,
    ViolationError,
)
from mtlmon.policy import parse_policies
from mtlmon.testing import LiveMonitor, assert_holds, check

APPROVED = "FORALL u, f. publish(u, f) IMPLIES ONCE[0,10] approve(f)"
SOON = "publish(u, f) IMPLIES EVENTUALLY[0,9] approve(f)"
TRACE = [
    (3, {"approve": [("report",)]}),
    (4, {"login": [("mallory",)]}),
    (5, {"publish": [("bob", "dra ft"), ("alice", "draft")]}),
    (9, set[str]()),
    (10, {"approve": [("draft",)]}),
]

REPORT = """\
5:0 violates FORALL u, f. publish(u, f) IMPLIES ONCE[0,10] approve(f)
for u = alice, f = draft
for u = bob, f = "dra ft"

    3:0  approve(report)
    4:0  login(mallory)
  > 5:0  publish(alice, draft) publish(bob, "dra ft")

expected: approve("draft") at some time-point up to 5, because publish("alice", "draft") holds at \
5:0

✓ publish(u, f)
  └─ 5:0 publish(alice, draft)
✗ ONCE[0,10] approve(f)
  └─ no approve(draft) in the 10 time units before"""


def failure_of(policy: str, trace: Any = TRACE, **options: Any) -> str:
    with pytest.raises(ViolationError) as caught:
        assert_holds(policy, trace, **options)
    return str(caught.value)


def test_a_failure_says_which_values_and_what_was_expected() -> None:
    shown = failure_of(APPROVED)
    # it is raised at once, so the events behind are not known yet
    assert shown == REPORT
    with pytest.raises(ViolationError) as caught:
        assert_holds(APPROVED, TRACE)
    assert caught.value.time_point == (5, 0)


def test_a_later_event_decides() -> None:
    shown = failure_of(SOON, at_end="closed")
    assert shown.startswith(f'5:0 violates {SOON}\nfor u = bob, f = "dra ft"\n\n')
    assert 'expected: approve("dra ft") at some time-point from 5 to 14' in shown


def test_undecided_time_points_are_a_failure() -> None:
    shown = failure_of(SOON)
    assert "5 time-points are undecided at the end: 3:0, 4:0, 5:0, 9:0, 10:0" in shown
    assert "3:0 may stay undecided until time has passed 12; the stream has come to 10." in shown
    assert_holds(SOON, TRACE, at_end="undecided-ok")
    last = check(SOON, TRACE, at_end="undecided-ok", end_time=13)
    assert (last.true_count, last.undecided) == (2, [(5, 0), (9, 0), (10, 0)])
    assert "may stay undecided for ever" in failure_of(
        "publish(u, _) IMPLIES NEXT approve(_)", TRACE[:3]
    )


def test_a_let_can_look_ahead() -> None:
    text = (
        "let answered(f) = EVENTUALLY[0,4] approve(f)\npolicy p: publish(u, f) IMPLIES answered(f)"
    )
    assert "until time has passed 7" in failure_of(text, TRACE[:1])


def test_a_failure_has_witnesses_and_rows() -> None:
    trace = [
        (1, {"approve": [("mia", "f")]}),
        (2, {"ended": [("mia",)]}),
        (4, {"publish": [("ann", "f")]}),
    ]
    shown = failure_of("publish(u, f) IMPLIES NOT EXISTS m. ONCE approve(m, f)", trace)
    assert shown.endswith(
        "with m = mia\n✓ publish(u, f)\n  └─ 4:0 publish(ann, f)\n"
        "✓ ONCE approve(m, f)\n  └─ 1:0 approve(mia, f) (3 time units before)"
    )
    shown = failure_of("publish(u, f) IMPLIES FALSE", trace, keep=1)
    assert shown.endswith(
        'expected: false at 4:0, because publish("ann", "f") holds at 4:0\n\n'
        "no explanation: it needs more than the last 1 events"
    )


def test_many_violations_are_counted() -> None:
    shown = failure_of(APPROVED, [(1, {"publish": [(f"u{n}", "f") for n in range(9)]})])
    assert "for u = u4, f = f\nand 4 other violations\n" in shown


def test_a_result_has_the_valuations() -> None:
    result = check(APPROVED, TRACE)
    assert (result.true_count, result.false_count, result.undecided_count) == (4, 1, 0)
    assert result.violations == [(5, 0)]
    assert [one.valuation for one in result.answers] == [
        {"u": "alice", "f": "draft"},
        {"u": "bob", "f": "dra ft"},
    ]
    assert str(result.failure) == REPORT
    assert not result.holds


@st.composite
def _traces(draw: st.DrawFn) -> list[tuple[int, dict[str, list[tuple[Any, ...]]]]]:
    names = st.sampled_from(["ann", "bob", 'a "b", (c)', ""])
    time = 0
    trace: list[tuple[int, dict[str, list[tuple[Any, ...]]]]] = []
    for gap in draw(st.lists(st.integers(0, 4), max_size=8)):
        time += gap
        published = draw(st.lists(st.tuples(names, names), max_size=2))
        approved = draw(st.lists(st.tuples(names), max_size=2))
        trace.append((time, {"publish": [*published], "approve": [*approved]}))
    return trace


def quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(_traces(), st.sampled_from([APPROVED, SOON]), st.sampled_from(["decided", "closed"]))
def test_results_are_those_of_a_monitor(
    tmp_path_factory: pytest.TempPathFactory, trace: Any, policy: str, at_end: Any
) -> None:
    monitor = RelationalMonitor(policy)
    answers = [answer for event in trace for answer in monitor.step(*event)]
    if at_end == "closed":
        answers += monitor.finish()
    log = tmp_path_factory.mktemp("logs") / "log"
    with log.open("w") as file:
        for time_stamp, database in trace:
            rows = [
                f"{name}({', '.join(map(quoted, row))})"
                for name, found in database.items()
                for row in found
            ]
            file.write(f"@{time_stamp} {' '.join(rows)}\n")
    for form in (trace, iter(trace), log):
        result = check(policy, form, at_end=at_end, unknown="ignore")
        assert result.answers == answers
        violated = {(one.time_stamp, one.offset) for one in answers}
        assert result.violations == sorted(violated)
        assert result.false_count == len(violated)
        assert result.undecided_count == len(result.undecided)
        assert result.true_count + result.false_count + result.undecided_count == len(trace)
        assert result.holds == (not answers and not result.undecided)


FILE = """
unit s
atom publish(user, size) = what = "publish"
atom approve(user) = what = "approve"
policy small: publish(u, n) IMPLIES n < 5 OR ONCE[0,1m] approve(u)
"""
COLUMNS = {
    "ts": [1, 2, 63, 70],
    "what": ["approve", "publish", "publish", "publish"],
    "user": ["ann", "ann", "ann", "bob"],
    "size": [0, 9, 9, 4],
}


def test_tables_have_conditions() -> None:
    table = pa.table(COLUMNS)
    renamed = table.rename_columns(["time_stamp", "what", "user", "size"])
    array = np.array(
        list(zip(*COLUMNS.values(), strict=True)),
        dtype=[("ts", "i8"), ("what", "U8"), ("user", "U8"), ("size", "i8")],
    )
    for form in (COLUMNS, table, table.to_pandas(), renamed, array):
        result = check(FILE, form)
        assert [(one.time_stamp, one.valuation) for one in result.answers] == [
            (63, {"u": "ann", "n": 9})
        ]
    shown = failure_of(FILE, table)
    assert "for u = ann, n = 9\n" in shown
    assert "  > 63:0  publish(ann, 9)\n" in shown
    assert 'expected: 9 < 5 OR ONCE[0,1m] approve("ann") at 63:0, because' in shown
    other = {**COLUMNS, "ts": [0, 0, 0, 0], "at": [1, 2, 3, 4]}
    assert check(FILE, other, time="at").holds


def test_other_values_in_reports() -> None:
    text = "atom p(x: float, b: bool, t: time)\npolicy q: p(x, b, t) IMPLIES x > 2.5"
    shown = failure_of(text, [(1, {"p": [(0.5, True, 10**9)]})])
    assert "for x = 0.5, b = true, t = 1970-01-01T00:00:01Z\n" in shown
    assert "expected: 0.5 > 2.5 at 1:0" in shown


def test_aggregates_and_quantifiers_in_reports() -> None:
    shown = failure_of("publish(u, f) IMPLIES COUNT(ONCE[0,9] publish(u, x) BY u) < 1")
    assert 'expected: COUNT(ONCE[0,9] publish("alice", x)) < 1 at 5:0' in shown
    shown = failure_of("publish(u, f) IMPLIES EXISTS m. ONCE[0,1] approved(m, f)")
    assert 'expected: EXISTS m. ONCE[0,1] approved(m, "draft") at 5:0' in shown


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"publish": ("a", "b")}, r"event 1: publish has .*as in \[\('a', 'b'\)\]"),
        ({"publish": "ab"}, r"rows are a list of tuples with the arguments, as in \[\('ab',\)\]"),
        ({"publish": [("a",)]}, "event 1: publish has 2 arguments, not 1"),
        ({"publish": [("a", 1)]}, "event 1: argument 2 of publish: 1 is not a text"),
        ({1: [("a", 1)]}, "the name of an atom is a text, not 1"),
        ("publish", "event 1: .*"),
    ],
)
def test_events_of_other_forms(event: Any, message: str) -> None:
    with pytest.raises(EventTypeError, match=message):
        assert_holds(APPROVED, [(0, {"publish": []}), (1, event)], unknown="ignore")


def test_traces_of_other_forms(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="pass pairs"):
        check(APPROVED, (np.array([1]), np.array([1])))
    with pytest.raises(TraceError, match="event 0 is 3: it should be a pair"):
        check(APPROVED, [3])
    with pytest.raises(TimeStampError, match="event 1: the time-stamp 1 is below 2"):
        check(APPROVED, [(2, {}), (1, {})])
    with pytest.raises(PolicyError, match="nothing says which rows of a table"):
        check(APPROVED, {"ts": [1]})
    log = tmp_path / "a.log"
    log.write_text("@1 publish(a)\n")
    with pytest.raises(LogError, match=r"a\.log"):
        check(APPROVED, log)


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        ("find x: publish(u, f)", {}, "find x says what is looked for"),
        ("publish(u, f) IMPLIES EXISTS m. NOT approve(m)", {}, "nothing says which values 'm'"),
        (APPROVED, {"mode": "global"}, "mode 'global' is for policies without variables"),
        (APPROVED, {"at_end": "never"}, "at_end is one of"),
        (f"policy a: {APPROVED}\npolicy b: {SOON}", {}, "the text has 2 policies"),
    ],
)
def test_what_is_refused(policy: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MtlmonError, match=message):
        check(policy, TRACE, **options)


def test_misspelt_atoms() -> None:
    with pytest.warns(UnknownAtomWarning, match="no event has the atom 'publis'"):
        assert_holds("publis(u, f) IMPLIES ONCE[0,10] approve(f)", TRACE)
    with pytest.raises(TraceError, match="did you mean 'approve'"):
        assert_holds("aprove(f) IMPLIES FALSE", [(1, {"approve": [("f",)], "other": []})])
    shown = failure_of("publish(u, f) IMPLIES ONCE[0,10] aprove(f)")
    assert "hint: no event has the atom aprove; did you mean approve?" in shown


def test_a_formula_object() -> None:
    (policy,) = parse_policies(APPROVED).policies
    assert check(policy.formula, TRACE).violations == [(5, 0)]


def test_a_running_program() -> None:
    with LiveMonitor(APPROVED) as monitor:
        monitor.step(1, {"approve": [("f",)]})
        monitor.step(2, {"publish": [("a", "f")]})
        with pytest.raises(ViolationError, match="for u = a, f = g"):
            monitor.step(3, {"publish": [("a", "g")]})
        assert monitor.take_violation() is not None


def test_a_running_program_with_a_clock() -> None:
    stamps = iter([1, 2, 2, 30, 40, 50])
    monitor = LiveMonitor(SOON, clock=stamps.__next__)
    monitor.event("login", publish=[("a", "f")])
    monitor.event()
    monitor.event(approve=[("g",)])
    with pytest.raises(ViolationError, match="1:0 violates") as caught:
        monitor.event("login")
    assert "  > 1:0   login publish(a, f)\n" in str(caught.value)
    other = LiveMonitor(SOON, clock=lambda: 5)
    with pytest.raises(TypeError, match="rows are a list of tuples"):
        other.event(publish="ab")
    other.abandon()


def test_values_at_a_clock_without_variables() -> None:
    monitor = LiveMonitor("login IMPLIES latency < 5", clock=lambda: 1)
    monitor.event("login", latency=3)
    with pytest.raises(ViolationError):
        monitor.event("login", latency=7)


def test_the_fixture(mtl_monitor: Any) -> None:
    monitor = mtl_monitor(APPROVED, at_end="undecided-ok")
    monitor.step(1, {"publish": []})
    with pytest.raises(ViolationError):
        monitor.step(2, {"publish": [("a", "g")]})
    assert monitor.take_violation()
    monitor.close()


def test_other_values_of_events() -> None:
    events: Any = [(1, {"p": [(1,)], "price": 10, "names": ["a"], "other": [("x", 2)]})]
    assert_holds("p(x) IMPLIES x < 2", events)
    with pytest.raises(EventTypeError, match="p has 10"):
        assert_holds("p(x) IMPLIES x < 2", [(1, {"p": 10})])
