"""Formulas are what their makers say, and other monitors are given the same."""

from __future__ import annotations

import pytest

from bench.families import BOUNDS, FAMILIES, FORMS
from bench.first_verdict import BDD_FORMULA
from bench.formulas import (
    DEPTHS,
    SIZES,
    future_count,
    nested,
    of_size,
    operator_count,
    random_nested,
    temporal_depth,
)
from bench.translate import UntranslatableError, to_reelay, to_rtamt
from mtlmon import Monitor, parse
from mtlmon.syntax import operators as ops


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


def test_random_formulas() -> None:
    formulas = random_nested(60, seed=1)
    assert len(set(formulas)) == 60
    assert formulas == random_nested(60, seed=1)
    assert formulas != random_nested(60, seed=2)
    for formula in formulas:
        assert future_count(formula) >= 2
        assert temporal_depth(formula) >= 2
        assert formula.is_bounded


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
