"""Deep and long formulas: no recursion limit, and cost that grows with size alone."""

from __future__ import annotations

import copy
import gc
import pickle
import sys

import pytest

from mtlmon import Formula, atom, parse
from mtlmon.errors import FormulaError
from tests.doors import (
    describe,
    desugar,
    future_reach,
    make,
    past_reach,
    skewed_count,
    subformula_count,
    to_text,
)
from tests.doors import syntax_operators as ops

DEEP = 10_000
LONG = 20_000

SHAPES = {
    "prefix": "NOT ONCE[0,1] " * (DEEP // 2) + "a",
    "left": "(" * DEEP + "a" + " SINCE[0,1] b)" * DEEP,
    "parentheses": "(" * LONG + "a" + ")" * LONG,
    "right": "(a UNTIL[0,1] " * DEEP + "b" + ")" * DEEP,
    "implications": "a -> " * (DEEP // 2) + "b",
    "conjunctions": "a AND " * LONG + "b",
    "weak_until": "(" * (DEEP // 3) + "a" + " W[1,2] b)" * (DEEP // 3),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_pass_takes_deep_and_long_formulas(shape: str) -> None:
    formula = parse(SHAPES[shape])
    assert parse(str(formula)) == formula
    assert len(to_text(formula, all_parentheses=True)) >= len(str(formula))
    again: Formula = pickle.loads(pickle.dumps(formula))
    assert again == formula
    assert hash(again) == hash(formula)
    assert copy.deepcopy(formula) == formula
    assert formula in {again}
    kernel = desugar(formula)
    assert subformula_count(kernel) <= 4 * subformula_count(formula)
    assert skewed_count(formula) >= subformula_count(formula)
    assert set(formula.atoms) <= {"a", "b"}
    assert future_reach(formula) is not None
    assert past_reach(formula) is not None
    assert formula.is_bounded
    assert describe(formula, None)
    del formula, again, kernel
    gc.collect()


def test_deallocation_of_a_very_deep_formula() -> None:
    formula = atom("a")
    for _ in range(300_000):
        formula = make(ops.NOT, formula)
    assert sys.getrefcount(formula) == 2
    del formula


@pytest.mark.parametrize(
    "text",
    [
        "NOT " * LONG,
        "(" * LONG,
        "(" * LONG + "a",
        "a AND " * LONG + "= b",
        "ONCE " * LONG + "a -> b",
        "(a SINCE " * LONG + "b UNTIL c",
        "/*" * LONG,
        '"' + "\\\\" * LONG,
    ],
)
def test_errors_in_long_formulas_are_short(text: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse(text)
    assert max(map(len, str(caught.value).splitlines())) < 300


def test_shared_subformulas_cost_no_more_than_once() -> None:
    """A formula of 2^200 nodes, were it written out, in 200 objects."""
    formula, other = atom("a"), atom("a")
    for _ in range(200):
        formula = make(ops.WEAK_UNTIL, formula, formula)
        other = make(ops.WEAK_UNTIL, other, other)
    assert formula == other
    assert pickle.loads(pickle.dumps(formula)) == formula
    assert subformula_count(formula) == 201
    assert skewed_count(formula) == 1 + 200 * 5
    assert not formula.is_bounded
    assert future_reach(formula) is None


def test_steps_grow_with_size_alone() -> None:
    """Twice the size, twice the calls of Python functions, for reading and writing alike."""

    def calls(size: int) -> int:
        count = 0

        def tick(*_: object) -> None:
            nonlocal count
            count += 1

        text = "(" * size + "a" + " SINCE[0,1] NOT b) -> c" * size
        previous = sys.getprofile()
        sys.setprofile(tick)
        try:
            str(desugar(parse(text)))
        finally:
            sys.setprofile(previous)
        return count

    assert calls(2000) <= 2.05 * calls(1000)
