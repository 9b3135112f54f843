from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given

from mtlmon import TRUE, Formula, atom, parse
from tests.doors import Interval, Span, make, number, postorder
from tests.doors import syntax_operators as ops
from tests.syntax.strategies import formulas

A, B = atom("a"), atom("b")


def test_temporal_operators_always_have_an_interval() -> None:
    assert make(ops.ONCE, A).interval is Interval.FULL
    assert make(ops.ONCE, A) == make(ops.ONCE, A, interval=Interval(0, None))
    assert make(ops.NOT, A).interval is None


@pytest.mark.parametrize(
    ("operator", "operands", "interval", "name", "message"),
    [
        (ops.AND, (A,), None, None, "AND takes 2 operands, not 1"),
        (ops.AND, (A, B), Interval.FULL, None, "AND takes no interval"),
        (ops.ATOM, (), None, None, "has a name"),
        (ops.ATOM, (), None, "", "has a name"),
        (ops.TRUE, (), None, "a", "has a name"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    operator: ops.Operator,
    operands: tuple[Formula, ...],
    interval: Interval | None,
    name: str | None,
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        Formula(operator, operands, interval, name)


def test_equality_ignores_spans() -> None:
    assert parse("a  AND b") == make(ops.AND, A, B)
    assert hash(parse("a  AND b")) == hash(make(ops.AND, A, B))
    assert make(ops.AND, A, B) != make(ops.AND, B, A)
    assert make(ops.AND, A, B) != make(ops.OR, A, B)
    assert make(ops.ONCE, A) != make(ops.ONCE, A, interval=Interval(0, 5))
    assert TRUE != "true"


def test_is_immutable() -> None:
    formula = make(ops.NOT, A)
    with pytest.raises(AttributeError):
        formula.operator = ops.ONCE  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del formula.operands


@given(formulas())
def test_copies_are_equal_and_keep_operators_and_spans(formula: Formula) -> None:
    parsed = parse(str(formula))
    again: Formula = pickle.loads(pickle.dumps(parsed))
    assert again == parsed
    assert hash(again) == hash(parsed)
    for one, other in zip(postorder(again), postorder(parsed), strict=True):
        assert one.operator is other.operator
        assert one.span == other.span
    assert copy.deepcopy(parsed) is copy.copy(parsed) is parsed


def test_operators_survive_pickling_as_themselves() -> None:
    for operator in ops.OPERATORS:
        assert pickle.loads(pickle.dumps(operator)) is operator


def test_spellings_are_unambiguous() -> None:
    assert sum(len(operator.spellings) for operator in ops.OPERATORS) == len(ops.BY_SPELLING)


def test_repr_shows_how_to_make_it() -> None:
    assert repr(make(ops.ONCE, atom("x y"))) == "parse('ONCE \"x y\"')"


def test_numbering_joins_equal_subformulas_and_puts_operands_first() -> None:
    formula = parse("(a AND b) SINCE NOT (a AND b)")
    distinct, number_of = number(formula)
    assert [str(node) for node in distinct] == ["a", "b", "a AND b", "NOT (a AND b)", str(formula)]
    left, right = formula.operands
    assert number_of[id(left)] == number_of[id(right.operands[0])] == 2


def test_properties_are_those_of_the_analyses() -> None:
    formula = parse("(b UNTIL[0,7] a) AND ONCE[0,3] b")
    assert formula.atoms == ("b", "a")
    assert formula.future_reach == 7
    assert formula.past_reach == 3
    assert formula.is_bounded


def test_spans() -> None:
    text = "( a AND (ONCE[0,5] b()) )  SINCE  NOT (c)"
    formula = parse(text)
    pieces = {
        str(node): text[node.span.start : node.span.end]
        for node in postorder(formula)
        if node.span is not None
    }
    assert list(pieces.values()) == [
        "a",
        "b()",
        "ONCE[0,5] b()",
        "a AND (ONCE[0,5] b())",
        "c",
        "NOT (c)",
        text,
    ]
    assert formula.span == Span(0, len(text))
    assert Span(0, 1) != Span(0, 1, indirect=True)
    assert hash(Span(0, 1).made()) == hash(Span(0, 1, True))
    assert repr(Span(0, 1).made()) == "Span(0, 1, indirect=True)"
