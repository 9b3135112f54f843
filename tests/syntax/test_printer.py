from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon import Formula, atom, parse
from mtlmon.errors import FormulaError
from tests.doors import LATER, MAXIMUM_BOUND, UNITS, Interval, make, to_text
from tests.doors import syntax_operators as ops
from tests.syntax.strategies import formulas


@given(formulas())
def test_what_is_printed_is_read_back(formula: Formula) -> None:
    assert parse(str(formula)) == formula
    assert parse(to_text(formula, all_parentheses=True)) == formula


@given(formulas(), st.sampled_from(list(UNITS)), st.data())
def test_what_is_printed_with_units_is_read_back(
    formula: Formula, unit: str, data: st.DataObject
) -> None:
    """Bounds are written in whatever unit divides them, also where they need all 64 bits."""
    lengths = st.builds(
        lambda count, size: min(count * size // UNITS[unit], MAXIMUM_BOUND),
        st.integers(1, 100),
        st.sampled_from(list(UNITS.values())),
    )
    made: dict[int, Formula] = {}
    for node in postorder_of(formula):
        interval = node.interval
        if interval is not None and data.draw(st.booleans()):
            lower = data.draw(lengths)
            interval = Interval(lower, max(lower, data.draw(lengths)))
        operands = tuple(made[id(operand)] for operand in node.operands)
        made[id(node)] = make(node.operator, *operands, interval=interval, name=node.name)
    drawn = made[id(formula)]
    assert parse(to_text(drawn, unit=unit), unit=unit) == drawn
    written = to_text(drawn, all_parentheses=True, unit=unit)
    assert parse(written, unit=unit) == drawn


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("ONCE[0,604800] p", "s", "ONCE[0,7d] p"),
        ("p SINCE[60,5400] q", "s", "p SINCE[1m,90m] q"),
        ("ONCE[90,*] p", "m", "ONCE[90m,*) p"),
        ("ALWAYS[0,1500] EVENTUALLY p", "ms", "ALWAYS[0,1500ms] EVENTUALLY p"),
        ("NEXT[1000000,1000001] p", "ns", "NEXT[1ms,1000001ns] p"),
        ("ONCE[0,0] p", "d", "ONCE[0,0] p"),
        ("ONCE[0,604800] p", None, "ONCE[0,604800] p"),
    ],
)
def test_bounds_have_the_largest_unit_that_divides_them(
    text: str, unit: str | None, expected: str
) -> None:
    assert to_text(parse(text), unit=unit) == expected


def test_bounds_that_have_no_unit_of_time_stamps_yet_remain() -> None:
    assert to_text(parse("ONCE(0,90s] p", unit=LATER), unit="ms") == "ONCE(0,90s] p"


def small_formulas() -> list[Formula]:
    """All with at most two operators one above the other, one for each way of binding."""
    kinds = [ops.NOT, ops.AND, ops.OR, ops.SINCE, ops.UNTIL, ops.ONCE, ops.IMPLIES, ops.IFF]
    levels: list[Formula] = [atom("a")]
    for _ in range(2):
        levels = [atom("a")] + [
            make(operator, *operands)
            for operator in kinds
            for operands in product(levels, repeat=operator.arity)
        ]
    return levels


def without_one_pair(text: str) -> list[str]:
    """The texts with one pair of parentheses less."""
    pairs = []
    opened: list[int] = []
    for position, character in enumerate(text):
        if character == "(":
            opened.append(position)
        elif character == ")":
            pairs.append((opened.pop(), position))
    return [text[:i] + " " + text[i + 1 : j] + " " + text[j + 1 :] for i, j in pairs]


def assert_no_pair_is_superfluous(formula: Formula) -> None:
    for fewer in without_one_pair(str(formula)):
        try:
            assert parse(fewer) != formula, fewer
        except FormulaError:
            continue


def test_all_small_formulas() -> None:
    printed = set()
    for formula in small_formulas():
        assert parse(str(formula)) == formula
        assert_no_pair_is_superfluous(formula)
        printed.add(str(formula))
    assert len(printed) == len(small_formulas())


@given(formulas(size=8))
def test_no_pair_of_parentheses_is_superfluous(formula: Formula) -> None:
    plain: dict[int, Formula] = {}
    for node in postorder_of(formula):
        operands = tuple(plain[id(operand)] for operand in node.operands)
        name = "a" if node.operator is ops.ATOM else None
        plain[id(node)] = make(node.operator, *operands, name=name)
    assert_no_pair_is_superfluous(plain[id(formula)])


def postorder_of(formula: Formula) -> list[Formula]:
    from tests.doors import postorder

    return postorder(formula)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a->b->c", "a IMPLIES b IMPLIES c"),
        ("(a->b)->c", "(a IMPLIES b) IMPLIES c"),
        ("a & (b & c)", "a AND (b AND c)"),
        ("!(a | b) <-> !a & !b", "NOT (a OR b) EQUIV NOT a AND NOT b"),
        ("G[0,10] (p -> F[0,3] q)", "ALWAYS[0,10] (p IMPLIES EVENTUALLY[0,3] q)"),
        ("(F[0,3] q) -> p", "(EVENTUALLY[0,3] q) IMPLIES p"),
        ("a S(2,8) b", "a SINCE[3,7] b"),
        ("a S[2,inf] b", "a SINCE[2,*) b"),
        ("a S[0,∞) b", "a SINCE b"),
        ('"p" & "U" & "x y" & "\\"\\\\"', 'p AND "U" AND "x y" AND "\\"\\\\"'),
        ("⊤ ∧ ⊥", "true AND false"),
    ],
)
def test_printed_form(text: str, printed: str) -> None:
    assert str(parse(text)) == printed
