"""What the names in an expression stand for, wherever they are."""

from __future__ import annotations

import pytest

from mtlmon.errors import PolicyError
from tests.doors import Scope, parse_expression, postorder, resolve
from tests.doors import predicates_operators as ops

_SCOPE = Scope(
    streams=("s", "speed"),
    atoms=("a",),
    lets=("l",),
    future_lets=("f",),
    constants={"LIMIT": 120},
    parameters=("id",),
)
_BODY = _SCOPE._replace(parameters=(), is_atom_body=True)


def _meanings(text: str, scope: Scope, *, is_condition: bool = False) -> str:
    """The operators of the leaves, from left to right."""
    resolved = resolve(parse_expression(text), scope, text, is_condition=is_condition)
    return " ".join(node.operator.name for node in postorder(resolved) if not node.operands)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s + x > LIMIT", "STREAM COLUMN CONSTANT"),
        ("speed > 1 or row.speed > 1", "STREAM CONSTANT COLUMN CONSTANT"),
        # where no condition is expected, a name that nothing declares is a column
        ("x = y", "COLUMN COLUMN"),
        ("a = l", "ATOM LET"),
        ("id = x", "PARAMETER COLUMN"),
        ("x is null and y in (1, 2)", "COLUMN COLUMN"),
        # and where one is, it is an atom of the log
        ("x and not y or z", "ATOM ATOM ATOM"),
        ("s and id and LIMIT and row.x", "STREAM PARAMETER CONSTANT COLUMN"),
        ("count[0,5](x) = any[0,5](x)", "ATOM ATOM"),
        ("all[0,5](x = 1) or all[0,5](x)", "COLUMN CONSTANT ATOM"),
        ("sum[0,5](x) > min(x, y)", "COLUMN COLUMN COLUMN"),
        ("sum[0,5](if x then y else z)", "ATOM COLUMN COLUMN"),
        ("count[0,5](if x then y else coalesce(z, true))", "ATOM ATOM ATOM CONSTANT"),
        ("x.last() and y.hold() > 1", "ATOM COLUMN CONSTANT"),
        ("any(x over s) or any(s > x over s)", "ATOM STREAM COLUMN"),
        ("sum(x over s) > s[x, id]", "COLUMN COLUMN PARAMETER"),
        ("count[0,5]() > x", "COUNT_ROWS COLUMN"),
    ],
)
def test_names(text: str, expected: str) -> None:
    assert _meanings(text, _SCOPE) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # as in files without streams
        ("x and not y or z = 1", "COLUMN COLUMN COLUMN CONSTANT"),
        ("a and l and f and id", "COLUMN COLUMN COLUMN COLUMN"),
        ("s > 8 and row.s > 8", "STREAM CONSTANT COLUMN CONSTANT"),
        ("x > LIMIT", "COLUMN CONSTANT"),
        ("if x then y else z", "COLUMN COLUMN COLUMN"),
        ("x.last() and s.last(or: 0) > 1", "COLUMN STREAM CONSTANT"),
        # the parentheses of aggregates are not part of that
        ("x and count[0,5](x) > a", "COLUMN ATOM COLUMN"),
        ("sum[0,5](a + x) > a", "ATOM COLUMN COLUMN"),
        ("any(a and x over s) and a", "ATOM ATOM COLUMN"),
        ("s[a, x] = 1", "COLUMN COLUMN CONSTANT"),
    ],
)
def test_names_in_the_body_of_an_atom(text: str, expected: str) -> None:
    assert _meanings(text, _BODY) == expected


def test_a_condition_of_the_caller() -> None:
    assert _meanings("x", _SCOPE, is_condition=True) == "ATOM"
    assert _meanings("x > 1", _SCOPE, is_condition=True) == "COLUMN CONSTANT"
    assert _meanings("x", _BODY, is_condition=True) == "COLUMN"


def test_a_shared_node_means_something_else_elsewhere() -> None:
    x = parse_expression("x")
    same = parse_expression("x = x and x")
    equal = ops.EQUAL
    node = type(x)(ops.AND, (type(x)(equal, (x, x)), x))
    resolved = resolve(node, Scope(), "x = x and x")
    leaves = [one.operator for one in postorder(resolved) if not one.operands]
    assert leaves == [ops.COLUMN, ops.ATOM]
    assert node == same


def test_what_stays_the_same_is_the_same_object() -> None:
    node = parse_expression("x > 1 and min(x, y) < 3")
    assert resolve(node, Scope(is_atom_body=True), "") is node


def test_deep_expressions() -> None:
    text = "not (" * 10_000 + "row.x" + ")" * 10_000
    assert ops.ROW_COLUMN not in {
        node.operator for node in postorder(resolve(parse_expression(text), Scope(), text))
    }


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("1 = vews[3]", 5, "there is no stream vews", "did you mean views? the streams are views"),
        ("any(x over speed)", 1, "there is no stream speed", "the streams are views"),
        ("x and later", 7, "let later looks into the future", "row.later is the column"),
    ],
)
def test_errors(text: str, column: int, message: str, hint: str) -> None:
    scope = Scope(streams=["views"], future_lets=["later"])
    with pytest.raises(PolicyError) as raised:
        resolve(parse_expression(text), scope, text, "rules.mtl")
    assert (raised.value.column, raised.value.message) == (column, message)
    assert hint in (raised.value.hint or "")


def test_no_stream_at_all() -> None:
    with pytest.raises(PolicyError, match="declare it: stream NAME = EXPRESSION per"):
        resolve(parse_expression("views[3]"), Scope(), "views[3]")
