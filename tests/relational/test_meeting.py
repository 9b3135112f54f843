"""Conjunctions below ONCE that are joined when something asks, against the reference."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.policy import parse_policies
from mtlmon.relational import RelationalMonitor, analyse
from tests.doors import Plan, plan
from tests.doors import planning_planner as planner
from tests.reference.first_order import Log
from tests.relational.formulas import DATABASES
from tests.relational.test_engine import agree

_DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"
_HELD = [
    "ONCE q(x, y)",
    "NOT p(y) SINCE q(x, y)",
    "NOT p(x) SINCE q(x, y)",
    "p(x) SINCE q(x, y)",
    "q(y, x) SINCE q(x, y)",
    "(NOT p(x) AND r) SINCE q(x, y)",
]
_DRIVERS = ["p(x)", "q(z, x)", "p(x) AND NOT q(x, x)", "q(z, x) AND z < 2"]
_WHOLE = [
    "q(x, y) AND p(z) AND NOT {}",
    "q(x, z) AND {}",
    "p(y) AND q(z, z) AND NOT EXISTS x. {}",
    "(EVENTUALLY[0,1] q(z, y)) AND EXISTS x. {}",
    "p(x) AND COUNT(q(x, y) AND {} BY x) >= 1",
]


def plan_of(formula: str) -> Plan:
    file = parse_policies(f"{_DECLARED}find f: {formula}\n")
    return plan(file, analyse(file))


def meetings(made: Plan) -> int:
    return sum(step.kind == "meet" for block in made.blocks for step in block.steps)


@st.composite
def _formulas(draw: st.DrawFn) -> str:
    interval = draw(st.sampled_from(["[0,0]", "[0,1]", "[1,2]", "[0,3]", "[2,5]"]))
    parts = [draw(st.sampled_from(_DRIVERS)), f"({draw(st.sampled_from(_HELD))})"]
    if draw(st.booleans()):
        parts.append(draw(st.sampled_from(["x < y", "NOT x = y"])))
    found = f"ONCE{interval} ({' AND '.join(draw(st.permutations(parts)))})"
    return draw(st.sampled_from(_WHOLE)).format(found)


@st.composite
def _logs(draw: st.DrawFn) -> Log:
    """Logs that are long enough for spans to begin and end in them."""
    points = []
    time_stamp = 0
    for _ in range(draw(st.integers(2, 7))):
        time_stamp += draw(st.integers(0, 2))
        points.append((time_stamp, draw(DATABASES)))
    return Log(tuple(points), time_stamp + draw(st.integers(0, 2)), draw(st.booleans()))


@settings(max_examples=40)
@given(_formulas(), _logs(), st.frozensets(st.integers(0, 6)))
def test_conjunctions_below_once(formula: str, log: Log, cuts: frozenset[int]) -> None:
    agree(parse_policies(f"{_DECLARED}find f: {formula}\n").policies[0].formula, log, cuts)


_MANAGED = """
atom began(m: text, u: text)
atom ended(m: text, u: text)
let manages(m, u) = NOT ended(m, u) SINCE began(m, u)
find strict: publish(u, f) AND NOT ONCE[0,40] EXISTS m. approve(m, f) AND manages(m, u)
find late: publish(u, f) AND ONCE[10,60] EXISTS m. approve(m, f) AND manages(m, u) AND NOT m = u
find who: check(f) AND ONCE[0,30] EXISTS m. approve(m, f) AND manages(m, u)
find owned: check(m) AND publish(u, _) AND ONCE[0,25] EXISTS f. approve(m, f) AND ONCE publish(u, f)
"""


@pytest.mark.parametrize("seed", range(4))
def test_joins_when_something_asks_are_joins_when_events_come(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    kinds = {"publish": "uf", "approve": "mf", "began": "mu", "ended": "mu", "check": "f"}
    domains = {"u": "abc", "m": "abx"[: 1 + seed], "f": "fgx"[: 1 + seed % 3]}
    late = RelationalMonitor(_MANAGED)
    with monkeypatch.context() as patched:
        patched.setattr(planner, "meeting_of", lambda *_: None)
        early = RelationalMonitor(_MANAGED)
        assert meetings(early.plan) == 0
    assert meetings(late.plan) == 4
    time_stamp = 0
    for number in range(1500):
        time_stamp += chance.choice([0, 0, 0, 1, 1, 2, 70])
        database: dict[str, list[tuple[str, ...]]] = {}
        for _ in range(chance.choice([1, 1, 2, 3])):
            name = chance.choice([*kinds, "publish", "approve", "approve"])
            row = tuple(chance.choice(domains[kind]) for kind in kinds[name])
            database.setdefault(name, []).append(row)
        assert late.step(time_stamp, database) == early.step(time_stamp, database), number
        if number % 400 == 399:
            saved = late.snapshot()
            late = RelationalMonitor(_MANAGED)
            late.restore(saved)
            assert late.snapshot() == saved
    assert late.finish() == early.finish()


_LEFT_SIDES = [
    "x < y OR r",
    "x < y OR p(x)",
    "p(x) OR p(y)",
    "x + y > 2 OR NOT p(x)",
    "(p(x) AND x < 2) OR (p(y) AND y > 1)",
    "(ONCE[0,1] p(y)) OR r",
    "(EVENTUALLY[0,1] p(y)) OR r",
]


@settings(max_examples=60)
@given(
    st.sampled_from(_LEFT_SIDES),
    st.sampled_from(["", "[0,2]", "[1,3]", "[2,*)"]),
    _logs(),
    st.frozensets(st.integers(0, 6)),
)
def test_left_sides_that_are_asked_about_each_row(
    left: str, interval: str, log: Log, cuts: frozenset[int]
) -> None:
    """Nothing lists the rows for which they are true, or not."""
    formula = f"({left}) SINCE{interval} q(x, y)"
    kinds = {one.kind for state in plan_of(formula).states for one in state.lefts}
    assert kinds == {"filters"}
    agree(parse_policies(f"{_DECLARED}find f: {formula}\n").policies[0].formula, log, cuts)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("q(x, y) AND p(z) AND ONCE[0,3] (p(x) AND ONCE q(x, y))", True),
        # the window has nothing in common with what asks
        ("p(y) AND ONCE[0,3] EXISTS x. (p(x) AND ONCE q(x, y))", False),
        # what is remembered adds no variable
        ("q(x, y) AND ONCE[0,3] (q(x, y) AND ONCE p(x))", False),
        # spans would have to be remembered for ever
        ("q(x, y) AND ONCE (p(x) AND ONCE q(x, y))", False),
        # time ends the truth of what is remembered
        ("q(x, y) AND ONCE[0,3] (p(x) AND ONCE[0,1] q(x, y))", False),
        ("q(x, y) AND ONCE[0,3] ((p(x) AND (p(x) OR r)) SINCE q(x, y))", False),
    ],
)
def test_what_is_joined_when_something_asks(formula: str, expected: bool) -> None:
    assert (meetings(plan_of(formula)) > 0) is expected


def test_spans_that_nothing_can_meet_are_forgotten() -> None:
    monitor = RelationalMonitor(_MANAGED)
    held = []
    for number in range(6000):
        monitor.step(3 * number, {"began": [("m", f"u{number % 50}")]})
        monitor.step(3 * number + 1, {"ended": [("m", f"u{number % 50}")]})
        held.append(monitor.held_bytes)
    assert held[-1] == held[2000]
