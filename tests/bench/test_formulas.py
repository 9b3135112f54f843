"""Formulas are what their makers say, and other monitors are given the same."""

from __future__ import annotations

import pytest

from bench.families import BOUNDS, FAMILIES, FORMS
from bench.first_verdict import BDD_FORMULA
from bench.formulas import (
    DEPTHS,
    SIZES,
    alternation,
    future_count,
    mixed_nest,
    nested,
    of_size,
    operator_count,
    random_nested,
    scaled,
    temporal_depth,
    until_nest,
    without_implications,
)
from bench.piles import PILES, RULES
from bench.translate import UntranslatableError, to_reelay, to_rtamt
from mtlmon import Formula, Monitor, compile_formula, parse
from tests.doors import EngineChoice, choose_engine
from tests.doors import engine_choice as choice
from tests.doors import syntax_operators as ops


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("operator", [ops.ONCE, ops.EVENTUALLY])
def test_size(size: int, operator: ops.Operator) -> None:
    formula = of_size(size, operator)
    assert size - 2 <= operator_count(formula) <= size
    assert parse(str(formula)) == formula


def test_size_too_small() -> None:
    with pytest.raises(ValueError, match="too few"):
        of_size(1, ops.ONCE)


@pytest.mark.parametrize("depth", DEPTHS)
def test_nesting(depth: int) -> None:
    assert future_count(nested(depth)) == temporal_depth(nested(depth)) == depth


def test_nests() -> None:
    assert str(alternation(3)) == "EVENTUALLY[0,10] ALWAYS[0,10] EVENTUALLY[0,10] q"
    assert str(mixed_nest(2)) == "ONCE[0,10] EVENTUALLY[0,10] q"
    assert until_nest(2) == parse("(NOT p) UNTIL[3,10] ((NOT p) UNTIL[3,10] q)")
    for nest in (alternation, mixed_nest, until_nest):
        assert temporal_depth(nest(8)) == 8


def test_without_implications() -> None:
    formula = parse("ALWAYS[0,4] (p IMPLIES ((ONCE[1,7] q) IMPLIES r))")
    expected = parse("ALWAYS[0,4] ((NOT p) OR ((NOT ONCE[1,7] q) OR r))")
    assert without_implications(formula) == expected


def test_scaled() -> None:
    for text, expected in [
        ("p", "p"),
        ("NOT p AND q", "NOT p AND q"),
        ("p SINCE[2,8] ONCE[3,*] q", "p SINCE[200,800] ONCE[300,*] q"),
        ("ALWAYS[0,10] (p IMPLIES EVENTUALLY q)", "ALWAYS[0,1000] (p IMPLIES EVENTUALLY q)"),
    ]:
        assert scaled(parse(text), 100) == parse(expected)


@pytest.mark.parametrize("name", PILES)
def test_piles(name: str) -> None:
    """Formulas grow with the number, and name atoms of the log only."""
    pile = PILES[name]
    formulas = [parse(pile.formula(size)) for size in pile.sizes]
    assert len(set(formulas)) == len(pile.sizes)
    for formula in formulas:
        assert set(formula.atoms) <= set(pile.atoms)


def test_the_pile_of_rules_has_as_many() -> None:
    assert PILES["rules"].formula(RULES).count("ONCE") == RULES


def test_random_formulas() -> None:
    formulas = random_nested(60, seed=1)
    assert len(set(formulas)) == 60
    assert formulas == random_nested(60, seed=1)
    assert formulas != random_nested(60, seed=2)
    for formula in formulas:
        assert future_count(formula) >= 2
        assert temporal_depth(formula) >= 2
        assert formula.is_bounded


def choice_of(formula: Formula) -> EngineChoice:
    program = compile_formula(formula)
    return choose_engine(program.rows, program.root, program.is_bounded, "local", program.atoms)


@pytest.mark.parametrize(("limit", "count"), [(6, 55), (7, 58), (8, 59)])
def test_the_network_takes_most_random_formulas(
    limit: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is mixed, and one hardly waits; they have up to eight operators that can wait."""
    monkeypatch.setattr(choice, "MOST_VARIABLES", limit)
    choices = [choice_of(formula) for formula in random_nested(60, seed=1)]
    assert sum(chosen.name == "network" for chosen in choices) == count
    mixed = [chosen.reason for chosen in choices if "as it is and negated" in chosen.reason]
    assert len(mixed) == 1
    assert "; q UNTIL q is used both" in mixed[0]
    assert sum(chosen.reason.endswith(f"takes {limit}") for chosen in choices) == 59 - count


def test_the_network_takes_nests_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MOST_VARIABLES", 6)
    names = {depth: choice_of(nested(depth)).name for depth in DEPTHS}
    assert names == {depth: "network" if 2 <= depth <= 6 else "expressions" for depth in DEPTHS}
    assert choice_of(of_size(1000, ops.ONCE)).name == "expressions"
    assert choice_of(of_size(1000, ops.EVENTUALLY)).name == "expressions"


def test_families_are_bounded_and_of_their_form() -> None:
    for family in FAMILIES.values():
        for form in FORMS:
            for bound in BOUNDS:
                formula = parse(family.formula(form, bound))
                assert formula.is_bounded
                assert (formula.future_reach == 0) is (form == "past")
                assert set(formula.atoms) <= set(family.atoms)


def test_the_formula_that_needs_bdds_needs_them() -> None:
    monitor = Monitor(BDD_FORMULA)
    monitor.step(0)
    assert monitor.counters["bdd_operations"]


@pytest.mark.parametrize(
    ("formula", "reelay", "rtamt"),
    [
        ("p", "{p}", "atom_p"),
        ("NOT p", "(not({p}))", "(not(atom_p))"),
        ("p IMPLIES q", "({p} -> {q})", "(atom_p implies atom_q)"),
        ("ONCE[2,3] p", "(once[2:3]({p}))", "(once[2:3](atom_p))"),
        ("p SINCE q", "({p} since {q})", "(atom_p since atom_q)"),
        ("p SINCE[0,9] q", "({p} since[0:9] {q})", "(atom_p since[0:9] atom_q)"),
        ("HISTORICALLY[4,*] p", "(historically[4:]({p}))", None),
        ("p UNTIL[1,2] q", None, "(atom_p until[1:2] atom_q)"),
        ("ALWAYS[0,5] p", None, "(always[0:5](atom_p))"),
        ("p TRIGGER q", None, None),
    ],
)
def test_translations(formula: str, reelay: str | None, rtamt: str | None) -> None:
    for translate, expected in ((to_reelay, reelay), (to_rtamt, rtamt)):
        if expected is None:
            with pytest.raises(UntranslatableError):
                translate(parse(formula))
        else:
            assert translate(parse(formula)) == expected
