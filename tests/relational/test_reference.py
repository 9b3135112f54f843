"""The reference of first-order formulas: by hand, and by the laws of logic."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon import Formula, atom
from tests.doors import Interval, comparison, free_variables, make, predicate
from tests.doors import predicates_operators as terms
from tests.doors import syntax_operators as ops
from tests.reference.first_order import FirstOrder, Let, Log, Row, answers, is_fresh, violations
from tests.relational.formulas import (
    ANYTHING,
    HALF,
    X,
    Y,
    Z,
    aggregate_of,
    compare,
    constant,
    count_of,
    exists,
    forall,
    formulas,
    logs,
    term,
)


def satisfying(formula: Formula, log: Log, *names: str) -> list[list[Row]]:
    """The decided answers at each time-point, in order."""
    return [sorted(found.satisfying) for found in answers(formula, log, names or None)]


def p(*arguments: object) -> Formula:
    return predicate("p", *arguments)  # type: ignore[arg-type]


def q(*arguments: object) -> Formula:
    return predicate("q", *arguments)  # type: ignore[arg-type]


def once(formula: Formula, lower: int, upper: int | None) -> Formula:
    return make(ops.ONCE, formula, interval=Interval(lower, upper))


PUBLISHED = Log(
    (
        (0, {"approve": [("mallory", "f1")]}),
        (10, {"publish": [("alice", "f1"), ("bob", "f2")]}),
        (10, {"approve": [("mallory", "f2")]}),
        (11, {"publish": [("bob", "f2")]}),
        (19, {"publish": [("alice", "f1")]}),
    )
)


def test_what_is_published_was_approved() -> None:
    """bob publishes f2 before its approval; at 19, the approval of f1 at 0 is too long ago."""
    approved = once(predicate("approve", ANYTHING, Y), 0, 10)
    policy = forall("x y", make(ops.IMPLIES, predicate("publish", X, Y), approved))
    found = [sorted(one.satisfying) for one in violations(policy, PUBLISHED)]
    assert found == [[], [("bob", "f2")], [], [], [("alice", "f1")]]


def test_eventually_looks_ahead_only_within_a_time_stamp() -> None:
    """At the second time-point of time-stamp 5, p of the first is over."""
    log = Log(((5, {"p": [(1,)]}), (5, {})))
    eventually = make(ops.EVENTUALLY, p(X), interval=Interval(0, 3))
    assert satisfying(eventually, log) == [[(1,)], []]
    assert satisfying(once(p(X), 0, 3), log) == [[(1,)], [(1,)]]


def test_what_is_still_to_come_is_undecided() -> None:
    """Until a time-stamp above 3, any x may come; then none can."""
    eventually = make(ops.EVENTUALLY, p(X), interval=Interval(0, 3))
    (early,) = answers(eventually, Log(((0, {"p": [(1,)]}),), 3, closed=False))
    assert early.satisfying == {(1,)}
    assert any(is_fresh(row) for row in early.undecided)
    (late,) = answers(eventually, Log(((0, {"p": [(1,)]}),), 4, closed=False))
    assert late.satisfying == {(1,)}
    assert not late.undecided


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        # a repeated variable is an equality
        (q(X, X), [(1,)]),
        (q(constant(1), X), [(1,), (2,)]),
        # a wildcard is an EXISTS around the predicate alone, below the NOT
        (make(ops.AND, p(X), ~q(X, ANYTHING)), [(3,)]),
        # an argument that is calculated: p(x - 1) holds where x - 1 is in p
        (make(ops.AND, q(ANYTHING, X), p(term(terms.SUBTRACT, X, constant(1)))), [(2,)]),
        # an equality binds, also to what is nowhere in the log
        (exists("y", make(ops.AND, p(Y), compare(terms.EQUAL, X, term(terms.ADD, Y, Y)))),
         [(2,), (6,)]),
        (compare(terms.EQUAL, X, constant(9)), [(9,)]),
        # no value: the comparison is false, and NOT of it true
        (make(ops.AND, p(X), compare(terms.GREATER, term(terms.DIVIDE, X, constant(0)), HALF)), []),
        (make(ops.AND, p(X),
              ~compare(terms.GREATER, term(terms.DIVIDE, X, constant(0)), HALF)), [(1,), (3,)]),
        (compare(terms.EQUAL, X, term(terms.DIVIDE, constant(1), constant(0))), []),
    ],
)  # fmt: skip
def test_one_time_point(formula: Formula, expected: list[Row]) -> None:
    log = Log(((0, {"p": [(1,), (3,)], "q": [(1, 1), (1, 2)]}),))
    assert satisfying(formula, log) == [expected]


def test_aggregates() -> None:
    users = [(1,), (2,), (3,)]
    log = Log(((0, {"q": [(1, 10), (1, 20), (2, 5)], "p": users}), (1, {"p": users})))

    def values(word: str, *by: str) -> list[list[Row]]:
        total = count_of(0, *by) if word == "COUNT" else aggregate_of(word, Y, 0, *by)
        equal = term(terms.EQUAL, Z, total)
        found = comparison(equal, (q(X, Y),))
        return satisfying(make(ops.AND, p(X), found) if by else found, log, *by, "z")

    assert values("COUNT", "x") == [[(1, 2), (2, 1), (3, 0)], [(1, 0), (2, 0), (3, 0)]]
    assert values("SUM", "x") == [[(1, 30), (2, 5), (3, 0)], [(1, 0), (2, 0), (3, 0)]]
    assert values("AVG", "x") == [[(1, 15), (2, 5)], []]
    # of nothing, COUNT and SUM are 0 and the others have no value
    assert values("COUNT") == [[(3,)], [(0,)]]
    assert values("SUM") == [[(35,)], [(0,)]]
    assert values("MIN") == [[(5,)], []]
    assert values("MAX") == [[(20,)], []]
    assert values("MEDIAN") == [[(10,)], []]


def test_equal_rows_of_a_window_are_one_unless_points_tell_them_apart() -> None:
    log = Log(((0, {"p": [(1,)]}), (1, {"p": [(1,)]})))

    def counted(body: Formula) -> list[Row]:
        equal = term(terms.EQUAL, Z, count_of(0, "x"))
        counting = comparison(equal, (once(body, 0, None),))
        return satisfying(make(ops.AND, p(X), counting), log, "x", "z")[-1]

    assert counted(p(X)) == [(1, 1)]
    assert counted(make(ops.AND, p(X), predicate("point", Y))) == [(1, 2)]
    assert counted(make(ops.AND, p(X), predicate("time", Y))) == [(1, 2)]


def test_a_let_has_parameters_of_its_own() -> None:
    log = Log(
        ((0, {"began": [("mallory", "alice")]}), (1, {}), (2, {"ended": [("mallory", "alice")]}))
    )
    body = make(ops.SINCE, ~predicate("ended", X, Y), predicate("began", X, Y))
    manages = Let(("x", "y"), body)
    called = predicate("manages", Y, X)
    found = [
        sorted(one.satisfying)
        for one in answers(called, log, ["x", "y"], lets={"manages": manages})
    ]
    assert found == [[("alice", "mallory")]] * 2 + [[]]


def equal_everywhere(one: Formula, other: Formula, log: Log) -> bool:
    names = sorted({*free_variables(one)[id(one)], *free_variables(other)[id(other)]})
    types = dict.fromkeys("xyz", int)
    return answers(one, log, names, types=types) == answers(other, log, names, types=types)


@given(formulas(4, aggregates=True), logs())
@settings(max_examples=60, deadline=None)
def test_double_negation(formula: Formula, log: Log) -> None:
    assert equal_everywhere(~~formula, formula, log)


@given(formulas(3), formulas(3), logs())
@settings(max_examples=60, deadline=None)
def test_de_morgan_and_duals(one: Formula, other: Formula, log: Log) -> None:
    assert equal_everywhere(~(one & other), ~one | ~other, log)
    assert equal_everywhere(~exists("x", one), forall("x", ~one), log)
    assert equal_everywhere(~make(ops.ONCE, one), make(ops.HISTORICALLY, ~one), log)
    assert equal_everywhere(~make(ops.EVENTUALLY, one), make(ops.ALWAYS, ~one), log)
    assert equal_everywhere(~make(ops.UNTIL, one, other), make(ops.RELEASE, ~one, ~other), log)
    assert equal_everywhere(~make(ops.SINCE, one, other), make(ops.TRIGGER, ~one, ~other), log)


@given(formulas(5), logs(), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_what_a_prefix_decides_stays_decided(formula: Formula, log: Log, length: int) -> None:
    points = log.points[:length]
    clock = max([0, *(time_stamp for time_stamp, _ in points)])
    domain = [0, 1, 2, 3]
    prefix = FirstOrder(Log(points, clock, closed=False), domain)
    whole = FirstOrder(log, domain)
    for values in product(domain, repeat=3):
        valuation = dict(zip("xyz", values, strict=True))
        before = prefix.under(formula, valuation).at
        after = whole.under(formula, valuation).at
        for early, late in zip(before, after, strict=False):
            assert early is None or early is late


def test_an_atom_without_arguments_is_a_set_of_one_empty_row() -> None:
    log = Log(((0, {"r": [()]}), (1, {})))
    assert satisfying(atom("r"), log) == [[()], []]
