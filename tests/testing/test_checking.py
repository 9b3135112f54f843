"""Checking recorded traces: counts, violations, ends, forms of pairs and logs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Formula, LogError, MtlmonError, TimeStampError, parse
from mtlmon.errors import EventTypeError, TraceError, ViolationError
from mtlmon.testing import LiveMonitor, assert_holds, check
from mtlmon.testing import strategies as mtl
from tests.doors import AT_END, Mode
from tests.reference.evaluator import evaluate
from tests.testing import FEWER
from tests.traces import MODES, Event, Prefix, time_points

Trace = list[tuple[int, frozenset[str]]]

ANSWERED = "request IMPLIES EVENTUALLY[0,5] response"
TRACE = [
    (0, {"request"}),
    (3, {"response"}),
    (4, {"request"}),
    (4, {"request"}),
    (12, {"request"}),
    (13, {"response"}),
]


def test_result() -> None:
    result = check(ANSWERED, TRACE)
    assert (result.event_count, result.true_count, result.false_count) == (6, 4, 2)
    assert result.undecided_count == 0
    assert result.violations == [(4, 0), (4, 1)]
    assert result.formula == parse(ANSWERED)
    assert not result.holds
    assert not result
    assert repr(result) == "<Result: 4 true, 2 false, 0 undecided>"
    assert str(result).startswith("6 time-points: 4 true, 2 false, 0 undecided\n\n4:0 violates")
    with pytest.raises(ViolationError) as caught:
        result.raise_failure()
    assert caught.value.time_point == (4, 0)


def test_result_without_failure() -> None:
    result = check("true", TRACE)
    assert result.holds
    assert str(result) == "6 time-points: 6 true, 0 false, 0 undecided"
    result.raise_failure()


def test_a_violation_is_an_assertion_error_and_one_of_the_tree() -> None:
    assert issubclass(ViolationError, AssertionError)
    assert issubclass(ViolationError, MtlmonError)
    with pytest.raises(ViolationError) as caught:
        assert_holds(parse(ANSWERED), iter(TRACE))
    assert caught.value.time_point == (4, 0)
    assert caught.value.formula == parse(ANSWERED)
    assert not caught.value.is_undecided


def test_assert_holds_reads_no_further_than_to_the_violation() -> None:
    events = iter(TRACE)
    with pytest.raises(ViolationError):
        assert_holds(ANSWERED, events)
    assert list(events) == TRACE[5:]


def test_undecided_time_points_are_a_failure_by_default() -> None:
    with pytest.raises(ViolationError) as caught:
        assert_holds(ANSWERED, TRACE[:1])
    assert caught.value.is_undecided
    assert caught.value.time_point == (0, 0)
    assert_holds(ANSWERED, TRACE[:1], at_end="undecided-ok", unknown="ignore")
    result = check(ANSWERED, TRACE[:1], at_end="undecided-ok", unknown="ignore")
    assert result.holds
    assert result.undecided == [(0, 0)]


def test_closed_means_that_no_event_follows() -> None:
    assert check(ANSWERED, TRACE[:1], at_end="closed").violations == [(0, 0)]
    assert_holds("ALWAYS request", TRACE[:1], at_end="closed")


@pytest.mark.parametrize("end_time", [5, 100, 2**63 - 1])
def test_end_time_settles_obligations(end_time: int) -> None:
    assert check(ANSWERED, TRACE[:1], end_time=end_time).violations == [(0, 0)]
    assert check(ANSWERED, TRACE[:1], end_time=4).undecided == [(0, 0)]


def test_last_is_the_last_time_stamp() -> None:
    assert check("EVENTUALLY[0,0] p", [(3, ())], end_time="last").violations == [(3, 0)]
    assert check("EVENTUALLY[0,0] p", [(3, ())]).undecided == [(3, 0)]


def test_an_empty_trace_has_nothing_to_violate() -> None:
    for at_end in AT_END:
        assert check("false", [], at_end=at_end).event_count == 0
    assert_holds("false", [], end_time="last")


def test_units() -> None:
    assert_holds("q IMPLIES ONCE[0,2s] p", [(0, {"p"}), (2000, {"q"})], unit="ms")
    with pytest.raises(ViolationError):
        assert_holds("q IMPLIES ONCE[0,2s] p", [(0, {"p"}), (2001, {"q"})], unit="ms")


def test_atoms_may_be_any_collection() -> None:
    trace = [(1, ["p"]), (1, ("p", "q")), (1, frozenset("p")), (1, {"p": True, "q": False})]
    assert_holds("p", trace)
    assert check("q", trace).violations == [(1, 0), (1, 2), (1, 3)]


def test_atoms_of_an_iterator_may_be_used_again() -> None:
    atoms: set[str] = set()

    def events() -> object:
        for number in range(3):
            atoms.clear()
            atoms.add(f"e{number}")
            yield number, atoms

    failure = check("NOT e2", events()).failure
    assert failure is not None
    assert all(f"{number}:0  e{number}" in str(failure) for number in range(3))


@pytest.mark.parametrize(
    ("trace", "error", "words"),
    [
        ([(1, {"p"}), 7], TraceError, "event 1 is 7"),
        ([(1, {"p"}), (1, 2, 3)], TraceError, r"event 1 is \(1, 2, 3\)"),
        ([(1, {"p"}), (1, "p")], TypeError, "event 1: atoms are a collection"),
        ([(1, {"p"}), (1, [["p"]])], TypeError, "event 1: the name of an atom is a string"),
        ([(1, {"p"}), (1, 3.5)], TypeError, "event 1: "),
        ([(5, {"p"}), (4, {"p"})], TimeStampError, "event 1: time-stamp 4 is below 5"),
        ([(5, {"p"}), (2**63, {"p"})], TimeStampError, "event 1: time-stamp 9223372036854775808"),
        ([(5, {"p"}), (float("nan"), {"p"})], TypeError, "event 1: a time-stamp is an integer"),
        (5, TraceError, "int on its own is not a trace"),
    ],
)
def test_bad_traces_are_refused_with_their_place(
    trace: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        check("p", trace)


def test_bad_arguments() -> None:
    with pytest.raises(MtlmonError, match="at_end is one of"):
        check("p", [], at_end="never")  # type: ignore[arg-type]
    with pytest.raises(MtlmonError, match="keep is a positive number"):
        check("p", [], keep=0)
    with pytest.raises(MtlmonError, match="end_time is"):
        check("p", [], end_time="soon")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not int"):
        check(5, [])  # type: ignore[arg-type]
    with pytest.raises(MtlmonError, match="mode"):
        check("p", [], mode="loco")  # type: ignore[arg-type]


def test_logs(tmp_path: Path) -> None:
    log = tmp_path / "events.log"
    lines = [f"@{time_stamp} {' '.join(atoms)} other\n" for time_stamp, atoms in TRACE]
    log.write_text("# comment\n" + "".join(lines).removesuffix("\n"))
    for path in (log, str(log)):
        assert check(ANSWERED, path).violations == [(4, 0), (4, 1)]
    with pytest.raises(ViolationError, match="4:0 violates"):
        assert_holds(ANSWERED, log)


def test_logs_longer_than_a_block(tmp_path: Path) -> None:
    log = tmp_path / "events.log"
    log.write_text("".join(f"@{number} {'p' if number % 7 else 'q'}\n" for number in range(50_000)))
    assert check("p OR q", log).true_count == 50_000
    assert check("p", log).false_count == 50_000 // 7 + 1


def test_bad_logs(tmp_path: Path) -> None:
    log = tmp_path / "events.log"
    log.write_text("@1 p\n@2 p\nnonsense\n")
    with pytest.raises(LogError, match=f"{log}:3:1: "):
        check("p", log)
    # What is violated before is found before.
    with pytest.raises(ViolationError):
        assert_holds("q", log)
    with pytest.raises(FileNotFoundError):
        check("p", os.fspath(tmp_path / "absent.log"))


def values_of(formula: Formula, trace: Trace, *, closed: bool) -> tuple[bool | None, ...]:
    last = trace[-1][0] if trace else 0
    return evaluate(formula, Prefix(tuple(Event(*event) for event in trace), last, closed))


@FEWER
@given(mtl.formulas(("p", "q")), mtl.traces(("p", "q"), max_size=10), st.sampled_from(MODES))
def test_results_are_those_of_the_semantics(formula: Formula, trace: Trace, mode: Mode) -> None:
    values = values_of(formula, trace, closed=True)
    points = time_points([Event(*event) for event in trace])
    result = check(formula, trace, mode=mode, at_end="closed", unknown="ignore")
    violated = [point for point, value in zip(points, values, strict=True) if not value]
    assert result.violations == violated
    assert result.true_count == values.count(True)
    assert result.undecided_count == 0
    assert result.holds is not bool(violated)
    if result.failure is not None:
        assert result.failure.time_point in violated


@FEWER
@given(mtl.formulas(("p", "q")), mtl.traces(("p", "q"), max_size=10), st.sampled_from(MODES))
def test_open_ends_leave_no_more_open_than_they_must(
    formula: Formula, trace: Trace, mode: Mode
) -> None:
    values = values_of(formula, trace, closed=False)
    points = time_points([Event(*event) for event in trace])
    result = check(formula, trace, mode=mode, at_end="undecided-ok", unknown="ignore")
    violated = {point for point, value in zip(points, values, strict=True) if value is False}
    final = set(check(formula, trace, mode=mode, at_end="closed", unknown="ignore").violations)
    assert violated <= set(result.violations) <= final
    assert result.undecided_count <= values.count(None)
    assert len(result.violations) == result.false_count
    assert bool(result.undecided) is bool(result.undecided_count)


@FEWER
@given(mtl.formulas(("p", "q")), mtl.traces(("p", "q"), max_size=10))
def test_assert_holds_agrees_with_check(formula: Formula, trace: Trace) -> None:
    result = check(formula, trace, unknown="ignore")
    if result.holds:
        assert_holds(formula, trace, unknown="ignore")
        return
    with pytest.raises(ViolationError) as caught:
        assert_holds(formula, trace)
    assert result.failure is not None
    assert str(caught.value) == str(result.failure)


def test_other_values_of_events() -> None:
    events: Any = [(1, {"p": True, "price": 10, "name": None, "q": False})]
    assert check("p AND NOT q", events).holds
    with LiveMonitor("p AND NOT q") as monitor:
        monitor.step(*events[0])
    with pytest.raises(EventTypeError, match="the atom 'price' has the value 10"):
        check("p AND price", events)
