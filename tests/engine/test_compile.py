"""From formulas to programs: folding, sharing, places, and formulas of any size."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Formula, Monitor, Program, atom, compile_formula, parse
from tests.doors import OPERATIONS, compile_formulas, make
from tests.doors import syntax_operators as ops
from tests.syntax.strategies import formulas


def operations(text: str) -> list[str]:
    """The names of the program's operations, in order, without the constant."""
    return [OPERATIONS[row[0]] for row in rows_of(parse(text))[1:]]


def rows_of(formula: Formula) -> Any:
    """The rows that the program was made of."""
    arguments: Any = compile_formula(formula).__reduce__()[1]
    return arguments[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("EVENTUALLY[2,5] false", "false"),
        ("p UNTIL[0,5] true", "true"),
        ("ALWAYS[3,*) true", "true"),
        ("false UNTIL[1,5] p", "false"),
        ("false SINCE[1,5] p", "false"),
        ("p SINCE true", "true"),
        ("PREVIOUS false", "false"),
        ("NEXT[0,3] false", "false"),
        ("p AND NOT p", "false"),
        ("p EQUIV p", "true"),
        ("(p AND false) IMPLIES q", "true"),
    ],
)
def test_formulas_with_a_known_value_are_folded(text: str, value: str) -> None:
    assert operations(text) == []
    assert str(Monitor(text).step(0, {"p"})[0]) == f"0:0 {value}"


@pytest.mark.parametrize(
    "text",
    ["EVENTUALLY[1,5] true", "ONCE[1,5] true", "PREVIOUS true", "NEXT true", "p UNTIL[1,5] true"],
)
def test_what_depends_on_time_points_is_not_folded(text: str) -> None:
    assert operations(text) != []


def test_only_the_present_can_witness_without_left_operand() -> None:
    assert operations("false UNTIL[0,5] p") == ["ATOM"]
    assert operations("false SINCE[0,5] p") == ["ATOM"]


def test_equal_subformulas_are_one() -> None:
    assert operations("(ONCE[0,5] p) AND (ONCE[0,5] p)") == ["ATOM", "SINCE"]
    assert operations("(ONCE[0,5] p) OR (NOT HISTORICALLY[0,5] NOT p)") == ["ATOM", "SINCE"]


def test_nested_eventualities_do_not_add_up() -> None:
    program = compile_formula(parse("EVENTUALLY[0,30] EVENTUALLY[0,29] x"))
    assert program != compile_formula(parse("EVENTUALLY[0,59] x"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EVENTUALLY[0,5] p", ["ATOM", "OUTER_UNTIL"]),
        ("NOT EVENTUALLY[0,5] p", ["ATOM", "OUTER_UNTIL"]),
        ("NEXT EVENTUALLY[0,5] p", ["ATOM", "UNTIL", "NEXT"]),
        ("ONCE EVENTUALLY[0,5] p", ["ATOM", "UNTIL", "SINCE"]),
        # Obligations of both may coincide, so neither can use placeholders.
        ("(EVENTUALLY[0,5] p) OR (EVENTUALLY[1,6] p)", ["ATOM", "UNTIL", "UNTIL", "AND"]),
    ],
)
def test_the_place_of_until(text: str, expected: list[str]) -> None:
    assert operations(text) == expected


def test_atoms_that_do_not_matter_are_left_out() -> None:
    assert compile_formula(parse("p OR (q AND false) OR r")).atoms == ("p", "r")


@given(st.lists(formulas(), min_size=1, max_size=3))
def test_formulas_that_differ_in_names_only_are_compiled_alike(some: list[Formula]) -> None:
    renamed = [
        formula.substitute(dict(zip(formula.atoms, map(atom, formula.atoms[::-1]), strict=True)))
        for formula in some
    ]
    every = [*some, *renamed, *some]
    assert list(compile_formulas(every)) == [compile_formula(formula) for formula in every]


def test_programs_compare_hash_and_pickle() -> None:
    program = compile_formula(parse("p UNTIL[2,5] (q OR NEXT r)"))
    copy = pickle.loads(pickle.dumps(program))
    assert isinstance(copy, Program)
    assert copy == program
    assert hash(copy) == hash(program)
    assert program != compile_formula(parse("p UNTIL[2,6] (q OR NEXT r)"))
    assert [str(verdict) for verdict in Monitor(copy).step(1, {"q"})] == ["1:0 false"]


def test_rows_are_checked() -> None:
    with pytest.raises(ValueError, match="comes before its operands"):
        Program(((0, 0, 0, 0, 0, 0), (2, 2, 4, 0, 0, 0)), 2, (), True)
    with pytest.raises(ValueError, match="unknown atom"):
        Program(((0, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0, 3)), 2, ("p",), True)
    with pytest.raises(ValueError, match="no instruction"):
        Program(((0, 0, 0, 0, 0, 0),), 8, (), True)


def test_deep_formulas_run() -> None:
    formula = atom("p")
    for _ in range(10_000):
        formula = make(ops.NOT, make(ops.PREVIOUS, formula))
    monitor = Monitor(formula)
    for time_stamp in range(3):
        assert len(monitor.step(time_stamp, {"p"})) == 1


def test_wide_formulas_run() -> None:
    formula: Formula = atom("a0")
    for number in range(1, 50_000):
        formula = make(ops.OR, formula, atom(f"a{number}"))
    monitor = Monitor(formula)
    assert len(monitor.atoms) == 50_000
    assert str(monitor.step(0, {"a49999"})[0]) == "0:0 true"
    assert str(monitor.step(0, {"b"})[0]) == "0:1 false"


def test_a_formula_that_shares_nodes_is_compiled_in_linear_size() -> None:
    formula: Formula = atom("p")
    for number in range(200):
        formula = make(ops.IFF, make(ops.WEAK_UNTIL, formula, formula), atom(f"a{number % 3}"))
    assert len(rows_of(formula)) < 5_000
