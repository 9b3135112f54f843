"""What guards arithmetic: it is evaluated for the valuations that all other conjuncts leave."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import RowError
from mtlmon.policy import parse_policies
from mtlmon.relational import RelationalMonitor, analyse, describe
from tests.reference.first_order import Log, answers
from tests.relational.formulas import DATABASES

_DECLARED = "atom p(x: int)\natom q(x: int, y: int)\n"
_LARGE = 5 * 10**18
# For values from 0 to 2: of these, 2 overflows.
_CALCULATING = [
    ("x * 5000000000000000000 >= 0", "x", lambda x: x * _LARGE >= 0),
    ("NOT y * 5000000000000000000 > 0", "y", lambda y: not y * _LARGE > 0),
    ("x + 1 < 3", "x", lambda x: x + 1 < 3),
    ("y - 1 = 0", "y", lambda y: y == 1),
]
_GUARDS = [
    "NOT p(x)",
    "NOT q(y, x)",
    "p(y)",
    "(p(x) OR q(y, y))",
    "NOT (EXISTS w. q(x, w) AND p(w))",
    "(ONCE[0,3] p(x))",
    "NOT (ONCE[1,4] q(x, y))",
    "p(z)",
    "x < y",
    "(x = 1 OR y = 1)",
]


@given(
    st.lists(st.sampled_from(_GUARDS), max_size=3),
    st.lists(st.sampled_from(_CALCULATING), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
    st.lists(DATABASES, min_size=1, max_size=4),
)
def test_only_what_is_left_overflows(guards, calculating, chance, databases) -> None:  # type: ignore[no-untyped-def]
    """The run ends where a valuation overflows that all other conjuncts leave, and earlier ones."""
    log = Log(tuple(enumerate(databases)))
    guarded = " AND ".join(["q(x, y)", *guards])
    conjuncts = ["q(x, y)", *guards, *(text for text, _, _ in calculating)]
    chance.shuffle(conjuncts)
    order = sorted(calculating, key=lambda one: conjuncts.index(one[0]))
    left = parse_policies(f"{_DECLARED}find f: {guarded}\n").policies[0].formula
    names = ["x", "y", "z"] if "p(z)" in guards else ["x", "y"]
    monitor = RelationalMonitor(f"{_DECLARED}find f: {' AND '.join(conjuncts)}\n")
    types = dict.fromkeys("wxyz", int)
    for (time_stamp, database), here in zip(
        log.points, answers(left, log, names, types=types), strict=True
    ):
        rows = [dict(zip(names, row, strict=True)) for row in here.satisfying]
        overflows = False
        for text, name, condition in order:
            overflows |= "5000" in text and any(row[name] == 2 for row in rows)
            rows = [row for row in rows if condition(row[name])]
        try:
            found = monitor.step(time_stamp, database)
        except RowError:
            assert overflows
            return
        assert not overflows
        assert {tuple(sorted(one.valuation.items())) for one in found} == {
            tuple(sorted(row.items())) for row in rows
        }


def test_the_plan_says_what_is_calculated_last() -> None:
    text = "find f: a * 2 > 3 AND p(a) AND NOT r(a) AND b = a + 1 AND ONCE p(b)"
    (policy,) = analyse(parse_policies(text)).policies
    plan = describe(policy, {}).partition("time-point\n")[2].partition("\n\n")[0]
    assert plan.splitlines() == [
        "  1. a from the rows of p(a)",
        "  2. keep what fulfils NOT r(a)",
        "  3. keep what fulfils a * 2 > 3, calculated for what is left",
        "  4. b by b = a + 1, calculated for what is left",
        "  5. keep what fulfils ONCE p(b), looked up by b",
    ]
