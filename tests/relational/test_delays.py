"""Which time-points wait for an answer, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtlmon import Formula
from mtlmon.errors import FormulaError
from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from mtlmon.relational.slicing import plan_slices
from tests.doors import (
    AnswerBlock,
    RelationalEngine,
    RelationalRun,
    SlicedEngine,
    decision_delays,
    plan,
)
from tests.relational.formulas import safe_formulas
from tests.relational.test_closed import closed_formulas

DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"


def engine_for(text: str, slices: int = 1) -> RelationalEngine | SlicedEngine:
    return engine_of(f"find f: {text}\n", slices)


def engine_of(text: str, slices: int = 1) -> RelationalEngine | SlicedEngine:
    file = parse_policies(f"{DECLARED}{text}")
    analysis = analyse(file)
    if analysis.errors or not analysis.policies:
        raise FormulaError("the formula has no variables, or nothing binds some")
    if slices > 1:
        return SlicedEngine(file, analysis, plan_slices(file, analysis, slices))
    made = plan(file, analysis)
    return RelationalEngine(made, made.texts)


def offsets(stamps: list[int]) -> list[tuple[int, int]]:
    return [(stamp, stamps[:number].count(stamp)) for number, stamp in enumerate(stamps)]


@settings(max_examples=40)
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
    engine = engine_for("ONCE ((EXISTS x. p(x)) AND EVENTUALLY EXISTS x. q(x, x))")
    atom = [one.name for one in engine.plan.named_atoms].index("p")
    for number, stamp in enumerate([1, 4, 4, 4]):
        engine.points.add(stamp, [(atom, [1])] if number else [])
        engine.advance()
    # the first one has no p before it
    assert engine.waiting_points(0, 9) == [(4, 0), (4, 1), (4, 2)]
    assert engine.waiting_points(0, 2) == [(4, 0), (4, 1)]


class Kept:
    """Takes answers."""

    def __init__(self) -> None:
        self.found: list[tuple[int, ...]] = []

    def put(self, answers: AnswerBlock) -> None:
        self.found += [(policy, kind, point) for policy, kind, _, _, point, _ in answers.take()]


@settings(max_examples=40)
@given(
    st.lists(safe_formulas(aggregates=True) | closed_formulas(), min_size=2, max_size=2),
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), min_size=1, max_size=6),
    st.sets(st.integers(0, 40)),
    st.sampled_from([1, 1, 3]),
)
def test_steps_of_time_change_nothing(
    formulas: list[Formula], points: list[tuple[int, bool, bool]], steps: set[int], slices: int
) -> None:
    """Answers come in the same order whatever the steps are in which time passes."""
    text = "".join(f"policy p{number}: {one}\n" for number, one in enumerate(formulas))
    points.sort()
    ends = [40, *(step for step in sorted(steps) if step > points[-1][0])]
    orders = []
    for own in (ends[:1], [*ends[1:], 40]):
        try:
            engine = engine_of(text, slices)
        except FormulaError:
            assume(False)
        kept = Kept()
        run = RelationalRun(engine, kept, verdicts="all")
        numbers = {one.name: number for number, one in enumerate(engine.plan.named_atoms)}
        for stamp, *held in points:
            rows = [
                (numbers[name], cells)
                for name, cells, is_held in zip("pq", ([1], [1, 1]), held, strict=True)
                if is_held and name in numbers
            ]
            engine.points.add(stamp, rows)
            run.advance()
        for end in own:
            run.pass_time(end)
        orders.append(kept.found)
        assert engine.clock == 40
    assert orders[0] == orders[1]


@pytest.mark.parametrize("slices", [1, 3])
def test_time_decides_where_the_future_has_no_bound(slices: int) -> None:
    """As far as an ordinary monitor of the closed parts says so."""
    never = "ALWAYS NOT EXISTS x. q(x, x)"
    ahead = f"(EVENTUALLY[0,2] EXISTS x. p(x)) OR (({never}) UNTIL[0,6] EXISTS x. p(x))"
    engine = engine_of(f"policy late: {ahead}\npolicy soon: p(x) IMPLIES q(x, _)\n", slices)
    kept = Kept()
    run = RelationalRun(engine, kept, verdicts="all")
    engine.points.add(1, ())
    run.advance()
    run.pass_time(7)
    assert [point for policy, _, point in kept.found if policy == 0] == []
    assert engine.next_due() == 8
    run.pass_time(8)
    assert [point for policy, _, point in kept.found if policy == 0] == [0]
    assert engine.next_due() is None


def test_time_decides_in_its_order() -> None:
    engine = engine_of(
        "policy late: p(x) IMPLIES EVENTUALLY[0,5] q(x, _)\n"
        "policy soon: p(x) IMPLIES EVENTUALLY[0,2] q(x, _)\n"
    )
    kept = Kept()
    run = RelationalRun(engine, kept, verdicts="false")
    atom = [one.name for one in engine.plan.named_atoms].index("p")
    for stamp in (1, 5):
        engine.points.add(stamp, [(atom, [stamp])])
        run.advance()
    run.pass_time(30)
    # by the times 4, 7, 8 and 11
    assert [(policy, point) for policy, _, point in kept.found] == [(1, 0), (0, 0), (1, 1), (0, 1)]
    assert engine.next_due() is None
