"""Every operator on all pairs of odd values, for all pairs of types that go together."""

from __future__ import annotations

from typing import Any

import pytest

from mtlmon.policy import parse_predicate
from tests.doors import Expression, column_text
from tests.doors import predicates_operators as ops

pa = pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.policy import compile_predicates  # noqa: E402
from tests.policy import strategies  # noqa: E402
from tests.policy.evaluator import Overflow, evaluate  # noqa: E402

_COMPARISONS = list(dict.fromkeys(ops.COMPARISONS.values()))
_ARITHMETIC = [row for row in ops.BINARY.values() if row in ops.ARITHMETIC]
_NUMBERS = ["i", "small", "u", "f", "narrow", "d", "wide decimal"]
_NUMBER_PAIRS = [(one, other) for one in _NUMBERS for other in _NUMBERS]
_OTHER_PAIRS = [("at", "at s"), ("at s", "at"), ("at", "at"), ("local", "day"), ("day", "local")]
_OTHER_PAIRS += [("day", "other day"), ("other day", "local"), ("s", "large"), ("coded", "s")]


def _product(one: str, other: str) -> Any:
    """A row for each pair of values of two columns, which are called x and y here."""
    pairs = [(a, b) for a in _values(one) for b in _values(other)]
    columns = {
        "x": pa.array([a for a, _ in pairs], strategies.SCHEMA.field(one).type),
        "y": pa.array([b for _, b in pairs], strategies.SCHEMA.field(other).type),
    }
    return pa.RecordBatch.from_pydict(columns)


def _values(name: str) -> list[Any]:
    values = [None, *strategies.VALUES[name]]
    # a value of the column that is an error in itself has its own test
    return [value for value in values if name != "u" or value is None or value < 2**63]


def _applied(operator: ops.Operator) -> Expression:
    x, y = (Expression(ops.COLUMN, (), name) for name in "xy")
    return Expression(operator, (x, y))


@pytest.mark.parametrize(("one", "other"), [*_NUMBER_PAIRS, *_OTHER_PAIRS])
def test_comparisons(one: str, other: str) -> None:
    batch = _product(one, other)
    nodes = {row.word: _applied(row) for row in _COMPARISONS}
    predicates = {word: parse_predicate(str(node)) for word, node in nodes.items()}
    found = compile_predicates(predicates, batch.schema)(batch)
    for word, node in nodes.items():
        expected = [evaluate(node, row) is True for row in batch.to_pylist()]
        assert found[word].to_pylist() == expected, word


@pytest.mark.parametrize(("one", "other"), _NUMBER_PAIRS)
@pytest.mark.parametrize("operator", _ARITHMETIC, ids=repr)
def test_arithmetic(operator: ops.Operator, one: str, other: str) -> None:
    batch = _product(one, other)
    results, kept = [], []
    for row in batch.to_pylist():
        try:
            results.append(evaluate(_applied(operator), row))
            kept.append(True)
        except Overflow:
            kept.append(False)
    are_integers = {one, other} <= {"i", "small", "u"} and operator is not ops.DIVIDE
    expected = pa.array(results, pa.int64() if are_integers else pa.float64())
    x, y = batch.filter(pa.array(kept)).columns
    batch = pa.RecordBatch.from_pydict({"x": x, "y": y, "expected": expected})
    value = str(_applied(operator))
    predicates = {
        "equal": parse_predicate(f"{value} = expected"),
        "null": parse_predicate(f"({value}) is null and expected is null"),
        "nan": parse_predicate(f"{value} != {value} and expected != expected"),
    }
    found = compile_predicates(predicates, batch.schema)(batch)
    columns = [found[name].to_pylist() for name in predicates]
    assert all(map(any, zip(*columns, strict=True)))
    assert sum(columns[1]) == expected.null_count


@pytest.mark.parametrize("name", _NUMBERS)
def test_numbers_and_constants(name: str) -> None:
    """Columns beside constants, each side, and in lists short and long."""
    column = Expression(ops.COLUMN, (), name)
    values = strategies.NUMBERS
    nodes = [
        Expression(operator, (column, constant) if is_left else (constant, column))
        for operator in _COMPARISONS
        for constant in (Expression(ops.CONSTANT, (), value) for value in values)
        for is_left in (True, False)
    ]
    nodes += [Expression(ops.IN, (column,), (value,)) for value in values]
    nodes += [Expression(ops.NOT_IN, (column,), tuple(values[i::2])) for i in (0, 1)]
    type_of = strategies.SCHEMA.field(name).type
    batch = pa.RecordBatch.from_pydict({name: pa.array(_values(name), type_of)})
    predicates = {str(node): parse_predicate(str(node)) for node in nodes}
    found = compile_predicates(predicates, batch.schema)(batch)
    for node in nodes:
        expected = [evaluate(node, row) is True for row in batch.to_pylist()]
        assert found[str(node)].to_pylist() == expected, str(node)
    assert column_text(name) in str(nodes[0])
