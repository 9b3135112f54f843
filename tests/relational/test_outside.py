"""What operands of temporal operators need from outside is bound from outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.policy import parse_policies
from mtlmon.relational import Answer, RelationalMonitor, analyse, describe
from tests.doors import plan
from tests.relational import soak

_DRIVERS = ["q(x, y) AND p(z)", "q(x, y) AND q(y, z)", "p(x) AND p(y) AND p(z)"]


def _example(seed: int) -> soak.Example:
    """All variables bound, and an operator whose operands need not bind theirs."""
    generator = soak.Generator(seed)
    chance = generator.random
    asked = generator.operator(chance.choice([1, 1, 2]))
    formula = f"{chance.choice(_DRIVERS)} AND {chance.choice(['', 'NOT '])}{asked}"
    return generator.example(6)._replace(formula=formula)


@given(st.integers(0, 10**9))
def test_operands_that_need_variables_from_outside(seed: int) -> None:
    soak.check(_example(seed))


def test_most_operands_can_have_them() -> None:
    """The operators that nothing is found for are few, and so this test says something."""
    known = {True: 0, False: 0}
    for seed in range(200):
        text = f"{soak.DECLARED}find f: {_example(seed).formula}\n"
        known[not analyse(parse_policies(text)).errors] += 1
    assert known[True] > 20 * known[False]


def _answers(monitor: RelationalMonitor, example: soak.Example) -> list[Answer]:
    found = []
    for time_stamp, database in example.log.points:
        found += monitor.step(time_stamp, database)
    return [*found, *monitor.finish()]


@given(st.integers(0, 10**9), st.integers(2, 4))
def test_slices_have_them_as_well(seed: int, count: int) -> None:
    example = _example(seed)
    text = f"{soak.DECLARED}find f: {example.formula}\n"
    if analyse(parse_policies(text)).errors:
        return
    assert _answers(RelationalMonitor(text, slices=count), example) == _answers(
        RelationalMonitor(text), example
    )


@pytest.mark.parametrize(("interval", "has_remark"), [("", True), ("[0,9]", False)])
def test_time_points_without_end_are_remarked_upon(interval: str, has_remark: bool) -> None:
    text = f"find f: p(u) AND q(v) AND ONCE{interval} (r(v) AND NOT s(u))"
    (policy,) = analyse(parse_policies(text)).policies
    assert ("or it remembers more and more" in describe(policy, {})) is has_remark


def test_an_operand_that_nothing_helps_says_so() -> None:
    """SUM has no value where it overflows, so that NOT of a comparison is not another one."""
    text = "find f: p(u) AND ONCE[0,9] (r AND SUM(x OVER q(u, x) BY u) < 5)"
    (error,) = analyse(parse_policies(text)).errors
    assert "'u' may take in 'SUM(x OVER q(u, x) BY u) < 5'" in error.message
    assert "what ONCE remembers is found by itself, so bind u inside it" in (error.hint or "")


# Rules of four eyes and of duties that are kept apart, as one would write them.
NATURAL = [
    "publish(u, d) IMPLIES ONCE[0,50] EXISTS m. (approve(m, d) AND NOT m = u)",
    "publish(u, d) IMPLIES ONCE EXISTS m. (approve(m, d) AND m != u)",
    "pay(u, o) IMPLIES NOT ONCE order(u, o)",
    "pay(u, o) IMPLIES ONCE[0,90] EXISTS v. (order(v, o) AND NOT v = u)",
    "merge(u, c) IMPLIES EXISTS r. (ONCE (review(r, c) AND NOT r = u))",
    "merge(u, c) IMPLIES ONCE EXISTS r, s. (review(r, c) AND review(s, c) AND r != s AND r != u)",
    "deploy(u, s) IMPLIES NOT (NOT EXISTS v. (signed(v, s) AND NOT v = u)) SINCE changed(s)",
    "deploy(u, s) IMPLIES (EXISTS v. (signed(v, s) AND NOT v = u)) OR ONCE[0,9] tested(s)",
    "grant(a, u) IMPLIES NOT a = u AND (ONCE (admin(a) AND NOT fired(a)))",
    "transfer(u, x) AND x > 1000 IMPLIES ONCE[0,7] EXISTS m. (release(m, u) AND NOT m = u)",
    "transfer(u, x) IMPLIES EVENTUALLY[0,7] EXISTS m. (audited(m, x) AND NOT m = u)",
    "open(u, r) IMPLIES EVENTUALLY[0,7] EXISTS v. (close(v, r) AND v != u)",
    'approve(u) IMPLIES NOT (NOT transfer(u, _) SINCE transfer("carol", _))',
    'approve(u) IMPLIES NOT trained(u) SINCE hired("hr")',
    "login(u) IMPLIES NOT locked(u) SINCE started",
    "login(u) IMPLIES (NOT locked(u) OR ONCE unlocked(u)) SINCE started",
    "access(u, p) IMPLIES (NOT discharged(p) SINCE[0,30] admitted(p)) AND NOT ONCE[0,9] revoked(u)",
    "access(u, p) AND works(u, d) IMPLIES NOT ONCE (assigned(d, p) AND NOT allowed(u))",
    "access(u, p) IMPLIES EXISTS d. works(u, d) AND ONCE[0,30] (assigned(d, p) AND NOT left(u))",
    "vote(u, b) IMPLIES NOT ONCE EXISTS v. (vote(u, v) AND NOT v = b)",
    "vote(u, b) IMPLIES HISTORICALLY FORALL v. (vote(u, v) IMPLIES v = b)",
    "sign(u, c) IMPLIES HISTORICALLY[0,90] (draft(v, c) IMPLIES NOT v = u)",
    "sign(u, c) IMPLIES HISTORICALLY[0,90] FORALL v. (draft(v, c) IMPLIES v != u)",
    "read(u, f) IMPLIES NOT ONCE EXISTS g. (read(u, g) AND rival(f, g))",
    "read(u, f) AND rival(f, g) IMPLIES HISTORICALLY NOT read(u, g)",
    "release(u, b) IMPLIES PREVIOUS EXISTS v. (build(v, b) AND NOT v = u)",
    "release(u, b) IMPLIES NEXT EXISTS v. (confirm(v, b) AND NOT v = u)",
    "request(u, k) IMPLIES (NOT used(u, k) UNTIL[0,60] EXISTS v. (granted(v, k) AND NOT v = u))",
    "request(u, k) IMPLIES NOT used(u) UNTIL[0,60] granted(k)",
    "enter(u, z) AND guard(v) IMPLIES NOT ONCE[0,8] (enter(v, z) AND NOT v = u)",
    "delete(u, f) IMPLIES ONCE[1,30] (EXISTS v. (warn(v, f) AND v != u) OR owner(u, f))",
    "delete(u, f) IMPLIES ONCE (owner(u, f) OR EXISTS m. (manager(m, u) AND allow(m, f)))",
    "export(u, d) IMPLIES ONCE[0,24] (EXISTS m. (consent(m, d) AND NOT suspended(u)))",
    "wire(u, a) IMPLIES EXISTS v. ((ONCE[0,1] confirm(v, a)) AND v != u AND NOT shares(u, v))",
    "wire(u, a) IMPLIES EXISTS v. (ONCE[0,1] (confirm(v, a) AND v != u AND NOT shares(u, v)))",
    "close(u, t) IMPLIES NOT close(u, t) SINCE EXISTS v. (reopen(v, t) AND NOT v = u)",
    "export(u, d) IMPLIES NOT suspended(u) SINCE[5,100] consent(d)",
]


@pytest.mark.parametrize("text", NATURAL)
def test_natural_policies_can_be_evaluated(text: str) -> None:
    file = parse_policies(f"atom transfer(u: text, x: int)\npolicy f: {text}\n")
    analysis = analyse(file)
    assert analysis.errors == ()
    assert plan(file, analysis).queries
