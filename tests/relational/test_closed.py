"""Policies that look ahead without bound, against the reference."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mtlmon
from mtlmon import Formula
from mtlmon.errors import PolicyError, SnapshotError
from mtlmon.policy import parse_policies
from mtlmon.relational import RelationalMonitor
from tests.doors import Interval, make
from tests.doors import syntax_operators as ops
from tests.reference.first_order import Log
from tests.relational.formulas import logs
from tests.relational.test_engine import agree

_DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"


def _read(text: str) -> Formula:
    return parse_policies(f"{_DECLARED}find f: {text}\n").policies[0].formula


_PARTS = [
    *map(_read, ["EXISTS x. p(x)", "EXISTS x. p(x) AND ONCE[0,1] q(x, x)", "p(1)"]),
    _read("FORALL x. p(x) IMPLIES EVENTUALLY[0,1] q(x, x)"),
    _read("EXISTS x. p(x) AND EXISTS y. q(x, y) AND COUNT(q(x, z) BY x) > 1"),
    make(ops.EVENTUALLY, _read("EXISTS x. q(x, x)"), interval=Interval(0, 1)),
]
_UNBOUNDED = [Interval(0, None), Interval(1, None), Interval(0, 1)]


@st.composite
def _composed(draw: st.DrawFn, operands: st.SearchStrategy[Formula]) -> Formula:
    temporal = [ops.EVENTUALLY, ops.ALWAYS, ops.UNTIL, ops.ONCE, ops.SINCE, ops.NEXT]
    operator = draw(st.sampled_from([*temporal, ops.NOT, ops.AND, ops.IMPLIES]))
    taken = [draw(operands) for _ in range(operator.arity)]
    interval = draw(st.sampled_from(_UNBOUNDED)) if operator.is_temporal else None
    return make(operator, *taken, interval=interval)


@st.composite
def closed_formulas(draw: st.DrawFn) -> Formula:
    inner = draw(st.recursive(st.sampled_from(_PARTS), _composed, max_leaves=3))
    operator = draw(st.sampled_from([ops.EVENTUALLY, ops.ALWAYS]))
    return make(operator, inner, interval=Interval(0, None))


@settings(max_examples=150)
@given(closed_formulas(), logs(), st.frozensets(st.integers(0, 3)))
def test_closed_formulas(formula: Formula, log: Log, cuts: frozenset[int]) -> None:
    agree(formula, log, cuts)


_RULES = """
policy answered: ALWAYS (request IMPLIES EVENTUALLY EXISTS u. login(u))
policy every: request IMPLIES EVENTUALLY EXISTS u. login(u)
find coming: EVENTUALLY EXISTS u. login(u)
policy known: FORALL u. login(u) IMPLIES ONCE seen(u)
"""


def test_answers_come_as_soon_as_they_are_known() -> None:
    monitor = RelationalMonitor(_RULES)
    assert monitor.step(1, {"request": [()]}) == []
    found = monitor.step(2, {"login": [("a",)], "seen": [("a",)]})
    assert [(one.policy, one.time_stamp, one.value) for one in found] == [
        ("coming", 1, None),
        ("coming", 2, None),
    ]
    assert monitor.step(2, {"request": [()]}) == []
    saved = monitor.snapshot()
    for _ in range(2):
        last = [(one.policy, one.time_stamp, one.offset) for one in monitor.finish()]
        assert last == [
            *[("answered", time_stamp, offset) for time_stamp, offset in [(1, 0), (2, 0), (2, 1)]],
            ("every", 2, 1),
        ]
        monitor = RelationalMonitor(_RULES)
        monitor.restore(saved)


def test_a_find_says_nothing_where_it_does_not_match(tmp_path: Path) -> None:
    """Also with all verdicts, and where only the end of the log decides."""
    log = tmp_path / "a.log"
    log.write_text("@1 login(1)\n@2 other\n")
    answers = {}
    for kind in ("find", "policy"):
        run = mtlmon.check(
            f"{kind} coming: EVENTUALLY EXISTS u. login(u)\n", log, verdicts="all", end_time="inf"
        )
        answers[kind] = [(answer.time, answer.verdict) for answer in run]
    assert answers == {"find": [(1, True)], "policy": [(1, True), (2, False)]}


def test_snapshots_have_the_parts_of_the_formula() -> None:
    saved = RelationalMonitor(_RULES).snapshot()
    with pytest.raises(SnapshotError, match="other policies"):
        RelationalMonitor(_RULES.replace("request", "asked")).restore(saved)


@pytest.mark.parametrize(
    "text",
    ["EVENTUALLY login(u)", "EXISTS u. EVENTUALLY login(u)", "COUNT(EVENTUALLY login(u)) > 1"],
)
def test_futures_without_bound_beside_variables_are_refused(text: str) -> None:
    with pytest.raises(PolicyError, match="EVENTUALLY looks ahead without bound, beside variables"):
        _ = RelationalMonitor(f"find f: {text}").plan
