"""Shared subformulas are worked on once: 200 lets that name the one before twice, or four times.

Written out, such a formula has more than 2^200 subformulas. A pass that walks the graph as a tree
does not come to an end.
"""

from __future__ import annotations

import copy
import pickle

import pytest

from mtlmon import Formula, Monitor, atom, explain
from mtlmon.policy import parse_policies
from tests.doors import (
    decision_delay,
    describe,
    desugar,
    past_reach,
    skewed_count,
    subformula_count,
)

COUNT = 200
STEPS = [
    "{x} EQUIV ONCE[0,{i}] {x}",
    "({x} AND q) OR ({x} AND NEXT {x})",
    "(ONCE[0,{i}] {x}) SINCE[0,{i}] (PREVIOUS {x})",
    "(NEXT {x}) WEAK_UNTIL[0,{i}] (NEXT {x})",
    "(NOT {x}) IMPLIES ({x} TRIGGER[0,{i}s] (PREVIOUS {x}))",
]


def policy_file(step: str) -> str:
    lets = [f"let a{i} = {step.format(x=f'a{i - 1}', i=i)}" for i in range(1, COUNT + 1)]
    return "\n".join(["unit s", "let a0 = p", *lets, f"policy x: a{COUNT}"])


def doubled(step: str) -> Formula:
    (policy,) = parse_policies(policy_file(step)).policies
    return policy.formula


@pytest.mark.parametrize("step", STEPS)
def test_every_pass(step: str) -> None:
    formula, twin = doubled(step), doubled(step)
    assert formula == twin
    assert hash(formula) == hash(twin)
    assert formula != ~twin
    assert pickle.loads(pickle.dumps(formula)) == formula
    assert copy.deepcopy(formula) is formula
    assert subformula_count(formula) < 10 * COUNT
    assert skewed_count(formula) > 0
    assert subformula_count(desugar(formula)) < 20 * COUNT
    assert "too long to show" in describe(formula)
    assert formula.atoms[0] == "p"
    assert formula.in_unit("s") == formula
    assert formula.substitute({"p": atom("z")}).atoms[0] == "z"
    assert decision_delay(formula) != -1
    assert past_reach(formula) != -1
    monitor = Monitor(formula)
    assert monitor.pending == []
    assert pickle.loads(pickle.dumps(monitor)).atoms == monitor.atoms


@pytest.mark.parametrize("step", STEPS)
def test_the_text_has_each_shared_part_once(step: str) -> None:
    formula = doubled(step)
    text = str(formula)
    assert len(text) < 200 * COUNT
    (policy,) = parse_policies(text, unit="s").policies
    assert policy.formula == formula
    assert repr(formula).startswith("<Formula of ")
    assert len(repr(formula)) < 100


def test_names_of_shared_parts_are_no_atoms_of_the_formula() -> None:
    formula = atom("part1")
    for _ in range(30):
        formula = formula.iff(formula & atom("part3"))
    (policy,) = parse_policies(str(formula)).policies
    assert policy.formula == formula
    assert set(policy.formula.atoms) == {"part1", "part3"}


def test_an_explanation() -> None:
    formula = doubled("{x} EQUIV ONCE[0,{i}] {x}")
    proof = explain(formula, [(0, {"p"}), (3, ()), (4, {"p"})], (3, 0))
    assert len(str(proof)) < 100_000
