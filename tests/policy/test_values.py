"""Values and conditions that are built in Python."""

from __future__ import annotations

import pickle
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import mtlmon
from mtlmon import Formula, FormulaError, Monitor, atom, eventually, once, parse
from mtlmon.policy import values
from mtlmon.policy.values import Value, avg, column, count, quantile, value
from mtlmon.testing import LiveMonitor, assert_holds
from tests.doors import Expression, parse_expression, written_with_conditions
from tests.doors import predicates_operators as ops

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = pa.table(
    {
        "ts": [0, 60, 130, 140],
        "speed": [10.0, 20.0, 40.0, None],
        "kind": ["jam", "x", "jam", "y"],
        "bad": [True, False, False, True],
    }
)
BINARY: dict[str, tuple[ops.Operator, Callable[[Value, Value], Value]]] = {
    "+": (ops.ADD, lambda a, b: a + b),
    "-": (ops.SUBTRACT, lambda a, b: a - b),
    "*": (ops.MULTIPLY, lambda a, b: a * b),
    "/": (ops.DIVIDE, lambda a, b: a / b),
    "%": (ops.REMAINDER, lambda a, b: a % b),
}


def leaf(name: str) -> tuple[Value, Expression]:
    return column(name), Expression(ops.COLUMN, (), name)


def joined(
    word: str, left: tuple[Value, Expression], right: tuple[Value, Expression]
) -> tuple[Value, Expression]:
    operator, python = BINARY[word]
    return python(left[0], right[0]), Expression(operator, (left[1], right[1]))


def pairs() -> st.SearchStrategy[tuple[Value, Expression]]:
    """Values, and the expressions that they are."""
    return st.recursive(
        st.sampled_from("ab").map(leaf),
        lambda inner: st.one_of(
            st.builds(joined, st.sampled_from(sorted(BINARY)), inner, inner),
            inner.map(lambda pair: (-pair[0], Expression(ops.NEGATE, (pair[1],)))),
        ),
        max_leaves=8,
    )


@given(pairs())
def test_calculations_are_as_they_are_built(pair: tuple[Value, Expression]) -> None:
    built, expression = pair
    assert parse_expression(str(built)) == expression
    condition = written_with_conditions(built.last(2, default=-1) <= 5)
    assert condition is not None
    offset = parse_expression(condition[1:-1]).operands[0]
    assert (offset.operator, offset.operands) == (ops.LAST, (expression,))


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (avg("speed", 0, "15m") < 15, "avg[0,15m](speed) < 15"),
        (count(column("kind") == "jam", 0, "2m") >= 8, 'count[0,2m](kind = "jam") >= 8'),
        (count(atom("bad") & ~(column("a") > 1)) > 0, "count[0,*)(bad and not a > 1) > 0"),
        (count(None, 1, 5) == 0, "count[1,5]() = 0"),
        (quantile("speed", 0.99, 0, timedelta(minutes=1)) > 3, "quantile[0,1m](speed, 0.99) > 3"),
        (values.max_(column("a") + 1, 0, 5, default=-1) != 2.5, "max[0,5](a + 1, or: -1) != 2.5"),
        (values.any_("bad", 0, 5), "any[0,5](bad)"),
        (column("user name").at("5m", default="x") == "y", '`user name`.at(-5m, or: "x") = "y"'),
        (column("a").hold().is_null(), "a.hold() is null"),
        (column("a").hold(2, default=0) > 1, "a.hold(2, or: 0) > 1"),
        (column("a").next(2) < column("a"), "a.next(2) < a"),
        (column("a").is_in([1, Decimal("2.50")]), "a in (1, 2.50)"),
        (3 - column("a") > -2, "3 - a > -2"),
        (value("hour(ts)") - 1 >= 8, "hour(ts) - 1 >= 8"),
    ],
)
def test_conditions_are_written_as_in_policy_files(formula: Formula, text: str) -> None:
    assert written_with_conditions(formula) == f"({text})"
    assert pickle.loads(pickle.dumps(formula)) == formula
    assert written_with_conditions(pickle.loads(pickle.dumps(formula))) == f"({text})"


def test_formulas_join_conditions_and_atoms() -> None:
    slow = avg("speed", 0, "2m") < 25
    formula = (slow & atom("condition1")) >> once(column("kind") == "jam", 0, "1m")
    text = written_with_conditions(formula)
    assert text == '(avg[0,2m](speed) < 25) AND condition1 IMPLIES ONCE[0,1m] (kind = "jam")'
    assert written_with_conditions(parse("p UNTIL[0,5] q")) is None


def test_tables_are_checked_as_with_the_text() -> None:
    formula = (avg("speed", 0, "2m") < 25) >> once(column("kind") == "jam", 0, "1m")
    text = 'avg[0,2m](speed) < 25 IMPLIES ONCE[0,1m] kind = "jam"'
    found = mtlmon.check(formula, ROWS, resolution="s").to_arrow()
    assert found == mtlmon.check(text, ROWS, resolution="s").to_arrow()
    assert found["verdict"].to_pylist() == [True, True, True, True]
    found = mtlmon.check(count(atom("bad"), 1, "3m") < 1, ROWS, resolution="s").to_arrow()
    assert found["verdict"].to_pylist() == [True, False, False, False]


def test_assertions_take_conditions() -> None:
    trace = [(0, {"latency": 0.5}), (10, {"latency": 0.3}), (40, {"latency": 0.1})]
    assert_holds(eventually(column("latency") < 0.2, 0, 40), trace, at_end="undecided-ok")
    with pytest.raises(AssertionError, match=r"10:0 violates latency\.last"):
        assert_holds(column("latency").last(default=0.0) < 0.4, trace)


def test_failures_show_values() -> None:
    latencies = [0.1, 0.2, None, 0.3, 0.25, 2.5]
    trace = [
        (10 * number, {"latency": latency, "user name": f"u{number}", "sent": number % 2 == 0})
        for number, latency in enumerate(latencies)
    ]
    policy = 'sent implies not latency > 2 and not (`user name` = "u4" and latency < 0.5)'
    with pytest.raises(AssertionError) as caught:
        assert_holds(policy, trace)
    shown = str(caught.value)
    (line,) = [one for one in shown.splitlines() if one.startswith("  > 40:0 ")]
    assert line.endswith(' sent latency=0.25 `user name`="u4"')
    assert 'latency=null `user name`="u2"' in shown
    assert 'latency=0.1 `user name`="u0"' not in shown
    live = LiveMonitor("latency < 2", keep=3)
    for number in range(5):
        live.step(10 * number, {"latency": 0.5})
    with pytest.raises(AssertionError, match=r"> 50:0 +latency=2\.5"):
        live.step(50, {"latency": 2.5})


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(FormulaError, match="the formula has the condition a < 3: conditions on"):
        Monitor(column("a") < 3)
    with pytest.raises(TypeError, match="the value a is not known yet"):
        bool(column("a"))
    with pytest.raises(TypeError, match="a constant is a number, a text"):
        column("a").is_in([[3]])  # type: ignore[list-item]
    with pytest.raises(FormulaError, match="a quantile is a number from 0 to 1"):
        quantile("a", 99, 0, 5)
    with pytest.raises(FormulaError, match="the interval"):
        avg("a", 5, 1)
