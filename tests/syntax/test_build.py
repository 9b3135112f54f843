"""Formulas made in Python are those of the text, and say what is wrong as the text does."""

from __future__ import annotations

import math
import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtlmon
from mtlmon import (
    FALSE,
    TRUE,
    Formula,
    FormulaError,
    Monitor,
    UnitError,
    always,
    atom,
    atoms,
    conjunction,
    disjunction,
    eventually,
    historically,
    next_,
    once,
    parse,
    previous,
)
from tests.doors import MAXIMUM_BOUND, DurationInterval, postorder
from tests.syntax.strategies import formulas

P, Q, R = atoms("p q r")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (atom("two words"), '"two words"'),
        (P & Q | R, "p AND q OR r"),
        (P & (Q | R), "p AND (q OR r)"),
        (~P >> Q, "NOT p -> q"),
        ((P & Q) >> R, "p AND q -> r"),
        (P.implies(Q).iff(R), "(p -> q) <-> r"),
        (P & True, "p AND true"),
        (False | P, "false OR p"),
        (True >> P, "true -> p"),
        (True & P, "true AND p"),
        (previous(P), "PREVIOUS p"),
        (next_(P, 0, 3), "NEXT[0,3] p"),
        (once(P, 0, math.inf), "ONCE p"),
        (historically(P, 4, "inf"), "HISTORICALLY[4,*) p"),
        (eventually(P, upper=5), "EVENTUALLY[0,5] p"),
        (always(True, 1, "2"), "ALWAYS[1,2] true"),
        (P.since(Q, 2, 8), "p SINCE[2,8] q"),
        (P.until(Q), "p UNTIL q"),
        (P.until(False), "p UNTIL false"),
        (P.release(Q, 0, MAXIMUM_BOUND), f"p RELEASE[0,{MAXIMUM_BOUND}] q"),
        (P.trigger(Q, 1, 1), "p TRIGGER[1,1] q"),
        (P.weak_until(Q, 1, "*"), "p WEAK_UNTIL[1,*) q"),
        (conjunction(P, Q, R), "p AND q AND r"),
        (disjunction(P, Q, True), "p OR q OR true"),
        (conjunction(P), "p"),
        (conjunction(), "true"),
        (disjunction(), "false"),
        (TRUE, "true"),
        (FALSE, "false"),
    ],
)
def test_built_formulas_are_those_of_the_text(built: Formula, text: str) -> None:
    assert built == parse(text)
    assert hash(built) == hash(parse(text))
    assert eval(repr(built)) == built


@given(formulas(), formulas())
def test_representations_read_back(left: Formula, right: Formula) -> None:
    for formula in (
        left.until(right, "3ms", 7),
        eventually(left & right, "1s", "2s"),
        left >> ~right,
    ):
        assert eval(repr(formula)) == formula
        assert pickle.loads(pickle.dumps(formula)) == formula


def test_conjunctions_may_be_long() -> None:
    formula = conjunction(*(atom(f"a{number}") for number in range(50_000)))
    assert len(formula.atoms) == 50_000


@pytest.mark.parametrize(
    "expression",
    [
        "P & 'q'",
        "P >> 1",
        "None | P",
        "P.until('q')",
        "eventually('p')",
        "conjunction(P, None)",
        "bool(P)",
        "P and Q",
        "not P",
        "eventually(P, 5)",
        "eventually(P, 'inf', 'inf')",
        "eventually(P, 0, 2.5)",
        "eventually(P, 0, math.nan)",
        "eventually(P, 0, b'5')",
        "P.substitute({'p': 'q'})",
    ],
)
def test_what_does_not_combine_is_a_type_error(expression: str) -> None:
    with pytest.raises(TypeError):
        eval(expression)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        (5, 2, "the interval [5,2] is empty"),
        ("5s", "2s", "the interval [5s,2s] is empty"),
        (-1, 2, f"a bound is from 0 to {MAXIMUM_BOUND}, not -1"),
        (0, MAXIMUM_BOUND + 1, f"a bound is from 0 to {MAXIMUM_BOUND}, not {MAXIMUM_BOUND + 1}"),
        (0, timedelta(seconds=-1), f"a bound is from 0 to {MAXIMUM_BOUND}, not -1 day, 23:59:59"),
        (0, "", "expected a whole number, with or without a unit of time, found the end"),
        (0, "5 parsecs", "'parsecs' is not a unit of time"),
        (0, "5s 6", "expected the end of the bound, found '6'"),
        (0, "9" * 30, f"this bound is above the largest one, {MAXIMUM_BOUND}"),
    ],
)
def test_bounds_that_are_none(lower: object, upper: object, message: str) -> None:
    with pytest.raises(FormulaError) as caught:
        eventually(P, lower, upper)  # type: ignore[arg-type]
    assert caught.value.message == message


def test_units_are_converted_exactly() -> None:
    formula = P.since(eventually(Q, 0, "1500ms"), "2s", timedelta(minutes=1))
    text = "p SINCE[2s,1m] (EVENTUALLY[0,1500ms] q)"
    assert formula == parse(text, unit="later")
    for unit in ("us", "ms"):
        assert formula.in_unit(unit) == parse(text, unit=unit)
    assert once(P, 0, "60s") == once(P, 0, "1m")
    assert hash(once(P, 0, "60s")) == hash(once(P, 0, "1m"))
    assert once(P, 0, "60s") != once(P, 0, 60)
    assert once(P, 0, 60) != once(P, 0, "60s")
    with pytest.raises(FormulaError, match="1500ms is not a whole number of the stream's unit, s"):
        formula.in_unit("s")
    with pytest.raises(UnitError, match="the unit is one of ns, us, ms, s, m, h, d, not 'later'"):
        formula.in_unit("later")
    plain = parse("ONCE[0,5] p")
    assert plain.in_unit("h") is plain


def test_units_with_open_ends() -> None:
    formula = parse("ONCE(1s,3s) p", unit="later")
    assert str(formula) == "ONCE(1s,3s) p"
    assert formula.in_unit("s") == parse("ONCE[2,2] p")
    assert formula.in_unit("ms") == parse("ONCE[1001,2999] p")
    assert parse("ONCE(1s,*] p", unit="later").in_unit("s") == parse("ONCE[2,*) p")
    with pytest.raises(FormulaError, match=r"the interval \(1s,2s\) is empty") as caught:
        parse("ONCE(1s,2s) p", unit="later").in_unit("s")
    assert caught.value.column == len("ONCE") + 1
    with pytest.raises(FormulaError, match=r"the interval \(2s,2s\] is empty"):
        parse("ONCE(2s,2s] p", unit="later")
    with pytest.raises(FormulaError, match="this bound is above the largest one"):
        once(P, 0, f"{MAXIMUM_BOUND}d").in_unit("s")
    with pytest.raises(FormulaError, match="is empty"):
        once(P, "5s", 3).in_unit("s")


@given(st.integers(0, 10**15))
def test_time_deltas(microseconds: int) -> None:
    formula = once(P, 0, timedelta(microseconds=microseconds))
    assert formula.in_unit("ns") == once(P, 0, 1000 * microseconds)
    assert eval(repr(formula)) == formula


def test_what_needs_the_unit_says_so() -> None:
    formula = eventually(P, 0, "5s")
    assert formula.is_bounded
    assert not eventually(P, "5s", "inf").is_bounded
    assert formula.atoms == ("p",)
    message = "5s has a unit, but the unit of the stream's time-stamps is not declared"
    for use in (
        lambda: formula.future_reach,
        lambda: formula.past_reach,
        lambda: Monitor(formula),
    ):
        with pytest.raises(FormulaError, match=message):
            use()
    with pytest.raises(FormulaError, match=message):
        parse("EVENTUALLY[0,5s] p")


def test_monitors_declare_the_unit() -> None:
    for formula in (eventually(P, 0, "5s"), "EVENTUALLY[0,5s] p", parse("F[0,5s] p", unit="later")):
        monitor = Monitor(formula, unit="ms")
        assert monitor.step(0) == []
        assert monitor.step(5000) == []
        assert [str(verdict) for verdict in monitor.step(5001)] == ["0:0 false"]
    with pytest.raises(FormulaError, match="5s is not a whole number of the stream's unit, m"):
        Monitor(eventually(P, 0, "5s"), unit="m")
    with pytest.raises(UnitError, match="the unit is one of"):
        Monitor("p", unit="weeks")  # type: ignore[arg-type]
    with pytest.raises(UnitError, match="declare the unit before compiling"):
        Monitor(monitor.program, unit="ms")


def test_intervals_with_units_are_as_immutable_as_others() -> None:
    interval = eventually(P, "1s", "5s").interval
    assert isinstance(interval, DurationInterval)
    assert repr(interval) == "<DurationInterval [1s,5s]>"
    with pytest.raises(AttributeError):
        interval.written = (0, 1)


@pytest.mark.parametrize(
    ("text", "parts", "result"),
    [
        ("late AND ONCE late", {"late": P.until(Q)}, "(p UNTIL q) AND ONCE (p UNTIL q)"),
        ("p SINCE[0,5] q", {"p": Q, "q": P}, "q SINCE[0,5] p"),
        ("p OR q", {"p": True, "other": False}, "true OR q"),
        ("p", {"p": R}, "r"),
        ("p OR q", {}, "p OR q"),
    ],
)
def test_substitution(text: str, parts: dict[str, Formula | bool], result: str) -> None:
    assert parse(text).substitute(parts) == parse(result)


def test_substitution_keeps_what_does_not_change() -> None:
    formula = parse("ONCE[0,5] (p AND (q UNTIL r))")
    assert formula.substitute({"x": P}) is formula
    changed = formula.substitute({"p": R})
    assert changed == parse("ONCE[0,5] (r AND (q UNTIL r))")
    assert formula == parse("ONCE[0,5] (p AND (q UNTIL r))")


def test_substitution_in_deep_and_shared_formulas() -> None:
    deep = parse("NOT ONCE[0,1s] " * 5000 + "p", unit="later").in_unit("ms")
    assert deep.substitute({"p": Q}) == parse("NOT ONCE[0,1000] " * 5000 + "q")
    shared = P
    for _ in range(200):
        shared = shared.until(shared)
    assert len(postorder(shared.substitute({"p": Q}))) == 201


def test_names_of_the_package() -> None:
    assert dir(mtlmon) == sorted(mtlmon.__all__)
    for name in mtlmon.__all__:
        assert getattr(mtlmon, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = mtlmon.nonsense
