"""Conversions: what computes them agrees with the reference, on any values."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import RowError
from mtlmon.policy import Predicate
from tests.doors import CONVERSION_FUNCTIONS as FUNCTIONS
from tests.doors import (
    CONVERSIONS,
    CompiledExpressions,
    Expression,
    PatternError,
    Span,
    compile_pattern,
    text_of_float,
)
from tests.doors import TermOperator as Operator
from tests.doors import predicates_operators as terms
from tests.policy.evaluator import Overflow, evaluate

_KINDS = {
    "integer": st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1)),
    "float": st.one_of(
        st.sampled_from([0.0, -0.0, 1.5, -2.5, math.inf, -math.inf]),
        st.floats(-1e20, 1e20),
    ),
    "text": st.one_of(
        st.sampled_from(["", "12", "-7", "+3", "1.5", "1e3", "a", "inf", " 1", "1_0", "abab"]),
        st.text("ab1.-", max_size=6),
    ),
}
_PATTERNS = st.sampled_from(
    ["a", "", r"\(a*\)b", r"a\|\(b\)", "(a)", "[ab]+", "^a.b$", r"\.", "a|b", r"\(a\|b\)*1"]
)
_OF_PATTERNS = {terms.PATTERN_MATCHES, terms.PATTERN_GROUP}


def arguments(conversion: Operator) -> st.SearchStrategy[tuple[object, ...]]:
    if conversion in _OF_PATTERNS:
        number = [st.integers(1, 3)] if conversion is terms.PATTERN_GROUP else []
        return st.tuples(_KINDS["text"], _PATTERNS, *number)
    if conversion in {terms.DAY_OF_MONTH, terms.MONTH, terms.YEAR, terms.FORMAT_DATE}:
        return st.tuples(st.floats(-6e10, math.inf))
    return st.tuples(*(_KINDS[kind] for kind in conversion.signature[:-1]))


def expected(conversion: Operator, values: tuple[object, ...]) -> object:
    """The value by the reference; None is none, and Overflow an error of the row."""
    row = {str(number): value for number, value in enumerate(values)}
    try:
        found = evaluate(applied(conversion, len(values)), row)
    except Overflow:
        return Overflow
    return None if isinstance(found, float) and math.isnan(found) else found


def applied(conversion: Operator, count: int) -> Expression:
    """The conversion of the columns 0, 1, ..."""
    columns = tuple(
        Expression(terms.COLUMN, (), str(number), Span(0, 1)) for number in range(count)
    )
    return Expression(conversion, columns, None, Span(0, 1))


@pytest.mark.parametrize("conversion", CONVERSIONS.values(), ids=str)
@given(data=st.data())
def test_they_agree_with_the_reference(conversion: Operator, data: st.DataObject) -> None:
    values = data.draw(arguments(conversion))
    found: object
    try:
        found = FUNCTIONS[conversion](*values)
    except ArithmeticError:
        found = Overflow
    if isinstance(found, int) and not -(2**63) <= found < 2**63:
        found = Overflow
    assert repr(found) == repr(expected(conversion, values))


_TYPES = {"integer": pa.int64(), "float": pa.float64(), "text": pa.string()}


@pytest.mark.parametrize("conversion", CONVERSIONS.values(), ids=str)
@given(data=st.data())
def test_columns_are_converted(conversion: Operator, data: st.DataObject) -> None:
    rows = data.draw(st.lists(arguments(conversion), max_size=5))
    wanted = [expected(conversion, values) for values in rows]
    types = [_TYPES[kind] for kind in conversion.signature[:-1]]
    schema = pa.schema([(str(number), kind) for number, kind in enumerate(types)])
    predicate = Predicate(applied(conversion, len(types)), "", "")
    compiled = CompiledExpressions({"value": predicate}, schema)
    columns = {
        str(number): pa.array([row[number] for row in rows], kind)
        for number, kind in enumerate(types)
    }
    if Overflow in wanted:
        with pytest.raises(RowError) as caught:
            compiled.compute(columns, len(rows))
        assert caught.value.rows == tuple(
            number for number, value in enumerate(wanted) if value is Overflow
        )
        return
    found = compiled.compute(columns, len(rows))["value"].to_pylist()
    assert list(map(repr, found)) == list(map(repr, wanted))


def test_every_conversion_is_computed() -> None:
    assert FUNCTIONS.keys() == set(CONVERSIONS.values())


def test_dates_are_at_most_in_2100() -> None:
    assert FUNCTIONS[terms.FORMAT_DATE](4e12) == "2100-01-01"
    assert FUNCTIONS[terms.FORMAT_DATE](-0.5) == "1969-12-31"
    assert FUNCTIONS[terms.YEAR](math.inf) == 2100


def test_floats_are_written_with_twelve_digits() -> None:
    written = map(text_of_float, [1.0, -0.0, 1e15, 1 / 3, 1.1, math.inf])
    assert list(written) == ["1.", "-0.", "1e+15", "0.333333333333", "1.1", "inf"]


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        (r"^\(a\|b\)$", ["a", "b", "x\nb"], ["ab", ""]),
        ("(a|b)", ["(a|b)"], ["a"]),
        ("a+", ["a", "aa"], ["b"]),
        (r"a\+", ["a+"], ["a"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[^]a]b", ["cb"], ["ab", "]b"]),
        ("[a-c]", ["b"], ["d", "-"]),
        ("[-a]", ["-", "a"], ["b"]),
        (r"[\w]", ["w", "\\"], ["a"]),
        (r"\(a\)\1", ["aa"], ["ab"]),
        (r"\bab\b", ["x ab y", "ab"], ["xab"]),
        ("*a", ["*a"], ["a"]),
        ("a**", ["", "aa"], []),
        ("a.b", ["axb"], ["a\nb"]),
        ("{1}", ["{1}"], ["1"]),
    ],
)
def test_patterns(pattern: str, matched: list[str], others: list[str]) -> None:
    compiled = compile_pattern(pattern)
    assert all(compiled.search(text) for text in matched)
    assert not any(compiled.search(text) for text in others)


@pytest.mark.parametrize("pattern", [r"\(a", r"a\)", "[a", "a\\"])
def test_texts_that_are_no_patterns(pattern: str) -> None:
    with pytest.raises(PatternError, match="this is not a pattern"):
        compile_pattern(pattern)
