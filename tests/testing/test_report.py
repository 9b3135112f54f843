"""The text of failures."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from mtlmon import explain, parse
from mtlmon.errors import ViolationError
from mtlmon.testing import check
from tests.doors import expectation

ANSWERED = "request IMPLIES EVENTUALLY[0,5] response"


def report(formula: str, trace: Any, **arguments: Any) -> str:
    """The report up to the explanation, where there is one."""
    failure = check(formula, trace, **arguments).failure
    assert failure is not None
    return str(failure)


def test_a_violation() -> None:
    trace = [(0, {"response"}), (1, {"request", "login"}), (2, ()), (2, {"login"}), (7, ["x"])]
    assert report(ANSWERED, trace).startswith(
        """\
1:0 violates request IMPLIES EVENTUALLY[0,5] response

    0:0  response
  > 1:0  request login
    2:0
    2:1  login
    7:0  x

expected: response at some time-point from 1 to 6, because request holds at 1:0"""
    )


def test_only_events_around_the_time_point_and_the_last_ones_are_shown() -> None:
    trace = [(10 * n, {"p"} if n == 20 else ()) for n in range(100)]
    assert report("p IMPLIES EVENTUALLY[700,720] q", trace).startswith(
        """\
200:0 violates p IMPLIES EVENTUALLY[700,720] q

    ... 17 events
    170:0
    180:0
    190:0
  > 200:0  p
    210:0
    220:0
    230:0
    240:0
    ... 67 events
    920:0
    930:0
"""
    )


def test_events_that_are_kept_no_more() -> None:
    trace = [(10 * n, {"p"} if n == 20 else ()) for n in range(100)]
    text = report("p IMPLIES EVENTUALLY[700,720] q", trace, keep=5)
    # One event more is given up, as it may not be the first of its time-stamp.
    assert "    (200:0 itself is no longer kept)\n    ... 92 events\n    920:0\n" in text


def test_offsets_are_those_of_the_stream() -> None:
    trace = [(n // 5, {"p"}) for n in range(20)] + [(3, ())]
    assert "  > 3:5\n" in report("p", trace, keep=12)
    assert "(3:5 itself is no longer kept)" in report("p", trace, keep=3)


def test_many_atoms_are_shortened_and_those_of_the_formula_come_first() -> None:
    atoms = {f"atom_number_{n}" for n in range(100)} | {"zebra"}
    text = report("NOT zebra", [(1, atoms)])
    assert "  > 1:0  zebra atom_number_0 atom_number_1 " in text
    assert all(len(line) < 110 for line in text.splitlines())
    assert " more\n" in text


def test_names_that_may_be_misspelt() -> None:
    trace = [(1, {"logins", "ping"}), (2, {"login_ada"}), (3, {"request"})]
    text = report("request IMPLIES ONCE (login AND NOT logout)", trace)
    assert "\nhint: no event has the atom login; did you mean logins?\n" in text
    assert "has logout" not in text
    assert "hint" not in report("p IMPLIES q", [(1, {"p"})])


def test_undecided_time_points() -> None:
    assert (
        report(ANSWERED, [(1, {"request"}), (3, {"request"}), (3, {"request"})])
        == """\
3 time-points are undecided at the end: 1:0, 3:0, ...
by request IMPLIES EVENTUALLY[0,5] response

  > 1:0  request
    3:0  request
    3:1  request

1:0 may stay undecided until time has passed 6; the stream has come to 3.

Let the stream go on, or say what its end means: at_end="closed" if no event follows, \
at_end="undecided-ok" if open obligations are no failure."""
    )
    text = report("EVENTUALLY p", [(1, ())])
    assert "1:0 may stay undecided for ever: the formula looks ahead without limit." in text


def test_failures_pickle() -> None:
    failure = check(ANSWERED, [(1, {"request"}), (9, ())]).failure
    assert failure is not None
    copy = pickle.loads(pickle.dumps(failure))
    assert isinstance(copy, ViolationError)
    assert (str(copy), copy.time_point) == (str(failure), (1, 0))
    assert copy.formula == failure.formula


@pytest.mark.parametrize(
    ("formula", "sentence"),
    [
        ("p", "p at 10:2"),
        ("p AND q", "p AND q at 10:2"),
        ("NOT p", "NOT p at 10:2"),
        ("NOT (p OR q)", "NOT (p OR q) at 10:2"),
        ("NOT ONCE[2,3] p", "p at no time-point from 7 to 8"),
        ("a IMPLIES NOT EVENTUALLY p", "p at no time-point from 10 on, because a holds at 10:2"),
        ("NOT (p SINCE[2,3] q)", "NOT (p SINCE[2,3] q) at 10:2"),
        ("a IMPLIES b IMPLIES p", "p at 10:2, because a and b hold at 10:2"),
        ("a OR b IMPLIES ONCE p", "p at some time-point up to 10, because (a OR b) holds at 10:2"),
        ("ONCE[2,3] p", "p at some time-point from 7 to 8"),
        ("ONCE[2,30] p", "p at some time-point up to 8"),
        ("ONCE[12,30] p", "p at some time-point 12 or more back, before time began"),
        ("HISTORICALLY[3,3] p", "p at every time-point at 7"),
        ("PREVIOUS[0,4] p", "p at the time-point before, from 6 to 10"),
        ("NEXT[0,4] NOT p", "NOT p at the next time-point, from 10 to 14"),
        ("EVENTUALLY p", "p at some time-point from 10 on"),
        ("ALWAYS[1,2] (p IMPLIES q)", "(p IMPLIES q) at every time-point from 11 to 12"),
        ("p UNTIL[0,5] q", "q at some time-point from 10 to 15, and p until then"),
        ("p SINCE[0,5] q", "q at some time-point from 5 to 10, and p ever since"),
        ("p RELEASE[0,5] q", "q at every time-point from 10 to 15 that no p preceded"),
        ("p TRIGGER[0,5] q", "q at every time-point from 5 to 10 that no p followed"),
        ("p WEAK_UNTIL q", "p until q, or at every time-point from 10 on"),
    ],
)
def test_expectations(formula: str, sentence: str) -> None:
    assert expectation(parse(formula), (10, 2)) == sentence


@pytest.mark.parametrize(
    ("formula", "sentence"),
    [
        ("ONCE[2,30] p", "p at some time-point up to 8 ms"),
        ("ONCE[12,30] p", "p at some time-point 12 ms or more back, before time began"),
        ("PREVIOUS[0,4] p", "p at the time-point before, from 6 to 10 ms"),
        ("EVENTUALLY[1,1] p", "p at some time-point at 11 ms"),
        ("NOT EVENTUALLY p", "p at no time-point from 10 ms on"),
    ],
)
def test_expectations_in_a_unit(formula: str, sentence: str) -> None:
    assert expectation(parse(formula), (10, 2), "ms") == sentence


def test_reports_know_the_unit() -> None:
    trace = [(1, {"request"}), (3, {"request"})]
    text = report("request IMPLIES EVENTUALLY[0,1ms] response", trace, unit="ms")
    assert "\nexpected: response at some time-point from 1 to 2 ms, because" in text
    text = report("EVENTUALLY[0,10ms] response", trace, unit="ms")
    assert "until time has passed 11 ms; the stream has come to 3 ms." in text


def test_the_explanation_follows() -> None:
    text = report(ANSWERED, [(1, {"request"}), (9, {"response"})])
    proof = str(explain(ANSWERED, [(1, {"request"}), (9, {"response"})], (1, 0)))
    assert text.endswith(proof.partition("\n\n")[2])


def test_the_explanation_of_a_long_stream_needs_its_last_events() -> None:
    trace = [(n // 3, {"p"}) for n in range(3000)]
    text = report("p IMPLIES ONCE[0,5] q", trace, keep=None)
    assert str(explain("p IMPLIES ONCE[0,5] q", trace, (0, 0))).partition("\n\n")[2] in text
    trace = [(n // 3, {"q"}) for n in range(3000)] + [(1010, {"p"})]
    text = report("p IMPLIES ONCE[0,5] q", trace, keep=40)
    assert "✗ 1010:0  ONCE[0,5] q: q fails at every time-point up to 5 time units back" in text


def test_no_explanation_without_the_events_that_it_needs() -> None:
    trace = [(0, {"q"}), *((n, {"p"}) for n in range(1, 100)), (100, ())]
    text = report("p SINCE q", trace, keep=10)
    assert text.endswith("no explanation: it needs more than the last 10 events")
