"""Which time-points wait for an answer, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtlmon.errors import FormulaError
from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from mtlmon.relational.delays import decision_delays
from mtlmon.relational.native import RelationalEngine
from mtlmon.relational.planning import plan
from mtlmon.relational.slicing import plan_slices
from mtlmon.relational.slicing.engine import SlicedEngine
from mtlmon.syntax.formula import Formula
from tests.relational.formulas import safe_formulas

DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"


def engine_for(text: str, slices: int = 1) -> RelationalEngine | SlicedEngine:
    file = parse_policies(f"{DECLARED}find f: {text}\n")
    analysis = analyse(file)
    if analysis.errors or not analysis.policies:
        raise FormulaError("the formula has no variables, or nothing binds some")
    if slices > 1:
        return SlicedEngine(file, analysis, plan_slices(file, analysis, slices))
    made = plan(file, analysis)
    return RelationalEngine(made, made.texts)


def offsets(stamps: list[int]) -> list[tuple[int, int]]:
    return [(stamp, stamps[:number].count(stamp)) for number, stamp in enumerate(stamps)]


@given(
    safe_formulas(aggregates=True),
    st.lists(st.integers(0, 9), min_size=1, max_size=6).map(sorted),
    st.sampled_from([1, 1, 3]),
)
def test_waiting_points_are_those_without_an_answer(
    formula: Formula, stamps: list[int], slices: int
) -> None:
    """And time alone decides them when the delay says so at the latest, if there is one."""
    try:
        engine = engine_for(str(formula), slices)
    except FormulaError:
        assume(False)
    for stamp in stamps:
        engine.points.add(stamp, ())
        engine.advance()
    (delay,) = decision_delays(engine.plan)
    points = offsets(stamps)
    (answered,) = engine.answered_points
    assert engine.waiting_points(0, 99) == points[answered:]
    assert engine.waiting_points(0, 1) == points[answered:][:1]
    if delay is None or answered == len(stamps):
        return
    first = points[answered][0]
    engine.end(max(first + delay + 1, stamps[-1]), False)
    assert engine.answered_points[0] > answered


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("p(x) AND ONCE[0,9] q(x, _)", 0),
        ("p(x) AND EVENTUALLY[2,9] q(x, _)", 9),
        ("p(x) AND EVENTUALLY[2,9] (q(x, y) AND EVENTUALLY[0,3] p(y))", 12),
        ("p(x) AND ONCE[5,9] (q(x, y) AND EVENTUALLY[0,3] p(y))", 3),
        ("p(x) AND NOT (NOT p(x) UNTIL[0,4] q(x, _))", 4),
        ("p(x) AND NEXT[0,2] p(x)", None),
        ("COUNT(EVENTUALLY[0,7] p(x)) > 2", 7),
        ("EVENTUALLY EXISTS x. p(x)", None),
    ],
)
def test_delays_of_policies(text: str, delay: int | None) -> None:
    assert decision_delays(engine_for(text).plan) == [delay]


def test_policies_that_look_ahead_without_bound_wait() -> None:
    engine = engine_for("ONCE (EXISTS x. p(x)) AND EVENTUALLY EXISTS x. q(x, x)")
    atom = [one.name for one in engine.plan.named_atoms].index("p")
    for number, stamp in enumerate([1, 4, 4, 4]):
        engine.points.add(stamp, [(atom, [1])] if number else [])
        engine.advance()
    # the first one has no p before it
    assert engine.waiting_points(0, 9) == [(4, 0), (4, 1), (4, 2)]
    assert engine.waiting_points(0, 2) == [(4, 0), (4, 1)]
