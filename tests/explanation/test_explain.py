"""What users call: arguments, errors, and proofs as values."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import mtlmon
from mtlmon import Formula, atom
from mtlmon.explanation import Trace, check, explain_positions
from tests.doors import Interval, make, prove
from tests.doors import syntax_operators as ops

EVENTS: list[tuple[int, set[str]]] = [(1, {"p"}), (3, set()), (3, {"p"}), (9, {"q"})]


def test_time_points_are_positions_names_or_verdicts() -> None:
    monitor = mtlmon.Monitor("p")
    for position, (name, event) in enumerate(
        zip([(1, 0), (3, 0), (3, 1), (9, 0)], EVENTS, strict=True)
    ):
        (verdict,) = monitor.step(*event)
        for time_point in position, name, verdict:
            proof = mtlmon.explain("p", EVENTS, time_point)
            assert (proof.position, proof.time_point) == (position, name)
            assert proof.value is verdict.value


def test_formulas_are_text_or_parsed() -> None:
    text = "ONCE[0,2] p"
    proof = mtlmon.explain(mtlmon.parse(text), iter(EVENTS), 1)
    assert (proof.formula, proof.value, proof.size) == (mtlmon.parse(text), True, 2)
    assert str(proof) == str(mtlmon.explain(text, EVENTS, 1))
    assert repr(proof) == "<Proof of size 2: ONCE holds at position 1>"
    with pytest.raises(mtlmon.FormulaError):
        mtlmon.explain("p AND", EVENTS, 0)


@pytest.mark.parametrize("time_point", [4, -1, (3, 2), (2, 0), (9, -1), (0, 0), (10, 0)])
def test_no_such_time_point(time_point: int | tuple[int, int]) -> None:
    with pytest.raises(mtlmon.ExplanationError, match="the trace has no time-point"):
        mtlmon.explain("p", EVENTS, time_point)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([(1, ()), (0, ())], "the time-stamp of event 1 is 0, below 1"),
        ([(-1, ())], "the time-stamp of event 0 is -1"),
        ([(0, ()), (2**63, ())], "the time-stamp of event 1 is 9223372036854775808"),
        ([(1.0, ())], "the time-stamp of event 0 is 1.0"),
        ([(True, ())], "the time-stamp of event 0 is True"),
    ],
)
def test_bad_time_stamps(events: Any, message: str) -> None:
    with pytest.raises(mtlmon.TimeStampError, match=message):
        mtlmon.explain("p", events, 0)


def test_other_bad_arguments() -> None:
    with pytest.raises(mtlmon.EventTypeError, match=r"event 0: .* not the one string 'pq'"):
        mtlmon.explain("p", [(1, "pq")], 0)
    broken: Any = [(1, ["p"]), 5]
    with pytest.raises(mtlmon.EventTypeError, match="event 1 is 5: it must be a pair"):
        mtlmon.explain("p", broken, 0)
    wrong: Any
    for wrong in ("first", -1, 2.5):
        with pytest.raises(mtlmon.TimeStampError, match="end_time is"):
            mtlmon.explain("p", EVENTS, 0, end_time=wrong)


def test_undecided_says_until_when() -> None:
    formula = "EVENTUALLY[0,5] r"
    with pytest.raises(mtlmon.UndecidedError, match=r"9:0 is undecided, .* up to .* 14") as error:
        mtlmon.explain(formula, EVENTS, 3)
    assert error.value.until == 14
    assert not mtlmon.explain(formula, EVENTS, 3, end_time=error.value.until).value
    with pytest.raises(mtlmon.UndecidedError):
        mtlmon.explain(formula, EVENTS, 3, end_time=13)
    with pytest.raises(mtlmon.UndecidedError, match="for ever") as error:
        mtlmon.explain("EVENTUALLY r", EVENTS, 3, end_time="last")
    assert error.value.until is None
    assert not mtlmon.explain("EVENTUALLY r", EVENTS, 3, end_time="inf").value


def test_decided_only_by_comparing_undecided_subformulas() -> None:
    formula = "(EVENTUALLY[0,5] r) OR NOT EVENTUALLY[0,5] r"
    with pytest.raises(mtlmon.UndecidedError, match="9:0 is true whatever comes"):
        mtlmon.explain(formula, EVENTS, 3)
    assert mtlmon.explain(formula, EVENTS, 3, end_time=14).value


def test_explanations_are_imported_on_use() -> None:
    import subprocess

    script = "import mtlmon, sys; assert not any('explanation' in name for name in sys.modules)"
    subprocess.run([sys.executable, "-P", "-c", script], check=True, timeout=60)
    with pytest.raises(AttributeError, match="has no attribute 'explanations'"):
        _ = mtlmon.explanations


def test_many_at_a_time_as_one_by_one() -> None:
    formula = mtlmon.parse("NOT p OR EVENTUALLY[0,5] (q AND ONCE[2,4] p)")
    trace = Trace.of(EVENTS)
    found = list(explain_positions(formula, trace, [0, 3, 2]))
    assert [str(proof) for proof in found] == [
        str(mtlmon.explain(formula, EVENTS, position)) for position in (0, 3, 2)
    ]
    assert not list(explain_positions(formula, trace, []))
    *_, open_still = explain_positions(mtlmon.parse("NEXT p"), trace, [0, 3])
    assert isinstance(open_still, mtlmon.UndecidedError)


@pytest.mark.parametrize("operator", [ops.NOT, ops.NEXT, ops.ONCE, ops.ALWAYS])
def test_nesting_has_no_limit(operator: ops.Operator) -> None:
    formula = atom("p")
    for _ in range(10_000):
        formula = make(operator, formula)
    trace = Trace.of(EVENTS, "inf")
    proof = prove(formula, trace, 1)
    assert proof is not None
    check(proof, formula, trace, 1)
    assert max(map(len, proof.to_text().splitlines())) <= 200
    assert "more steps below" in proof.to_text() or operator is ops.NEXT
    assert len(proof.to_html()) < 1_000_000


def test_shared_subformulas_are_proved_once() -> None:
    formula: Formula = atom("p")
    for _ in range(300):
        formula = make(ops.AND, formula, formula)
    trace = Trace.of(EVENTS)
    proof = prove(formula, trace, 0)
    assert proof is not None
    assert proof.size == 2**301 - 1
    assert len(proof.distinct()) == 301
    check(proof, formula, trace, 0)
    assert "… AND …" in proof.to_text()


def test_sizes_of_nested_windows_are_exact() -> None:
    """Trees far too large to build, of parts few enough to share."""
    formula = atom("p")
    for _ in range(3):
        formula = make(ops.HISTORICALLY, formula, interval=Interval(0, 99))
    trace = Trace.of([(time, {"p"}) for time in range(400)])
    proof = prove(formula, trace, 399)
    assert proof is not None
    assert proof.size == 1 + 100 + 100**2 + 100**3
    assert len(proof.distinct()) == 1 + 100 + 199 + 298
    check(proof, formula, trace, 399)


def test_runs_are_sequences() -> None:
    proof = mtlmon.explain("HISTORICALLY p", [(0, {"p"})] * 5, 4)
    assert [part.position for part in proof.run] == [0, 1, 2, 3, 4]
    assert [part.position for part in proof.run[1:3]] == [1, 2]
    assert proof.run[-1].position == 4
    assert [part.position for part in proof.children] == [0, 1, 2, 3, 4]
    with pytest.raises(IndexError):
        _ = proof.run[5]
    with pytest.raises(ValueError, match="consecutive"):
        _ = proof.run[::2]
