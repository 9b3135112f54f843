"""Predicates as text: what they are read as, how they are written, what their errors say."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.errors import FormulaError, MtlmonError, PolicyError
from mtlmon.policy import Predicate, parse_predicate
from tests.doors import Constant, Expression, parse_expression
from tests.doors import predicates_operators as ops

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from tests.policy import strategies


@given(strategies.predicates(3))
@settings(max_examples=200)
def test_what_is_written_is_read_back(expression: Expression) -> None:
    again = parse_expression(str(expression))
    assert again == expression
    assert hash(again) == hash(expression)
    assert str(again) == str(expression)


_NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
_CONSTANTS: st.SearchStrategy[Constant] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: Decimal(repr(value))),
    st.text(st.characters(exclude_categories=["Cs"])),
)


@given(_NAMES, _CONSTANTS)
def test_names_and_constants_are_read_back(name: str, value: Constant) -> None:
    if isinstance(value, Decimal) and value == 0:
        value = Decimal(0)
    column, constant = Expression(ops.COLUMN, (), name), Expression(ops.CONSTANT, (), value)
    for expression in (column, constant, Expression(ops.EQUAL, (column, constant))):
        assert parse_expression(str(expression)) == expression


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a or b and c", "a or b and c"),
        ("(a or b) and c", "(a or b) and c"),
        ("a and (b and c)", "a and (b and c)"),
        ("not a and b", "not a and b"),
        ("not (a and b)", "not (a and b)"),
        ("not x = 1", "not x = 1"),
        ("(not a) = b", "(not a) = b"),
        ("a - b - c = 0", "a - b - c = 0"),
        ("a - (b - c) = 0", "a - (b - c) = 0"),
        ("-a * b % c == 0", "-a * b % c = 0"),
        ("-(a * b) <> 0", "-(a * b) != 0"),
        ("-(5) = - 5", "-(5) = -5"),
        ("x IN (1, -2.50, 1e3) OR NOT y IS NOT NULL", None),
        ("x in (1, -2.50, 1e3) or not y is not null", None),
        ("((((a))))", "a"),
        ("`and` = TRUE", "`and` = true"),
        ('`a``b` = "\\u0041\\n\\\\"', '`a``b` = "A\\n\\\\"'),
        ("a # remark\n/* or /* b */ */ and c", "a and c"),
    ],
)
def test_reading(text: str, written: str | None) -> None:
    expected = "x in (1, -2.50, 1e+3) or not y is not null" if written is None else written
    assert str(parse_predicate(text)) == expected


def test_equality_is_structural() -> None:
    assert parse_predicate("x = 1") == parse_predicate("( x==1 )", "other", "name")
    assert parse_predicate("x = 1.0") == parse_predicate("x = 1.00")
    different = ["x = 1", "x = 1.0", "x = true", 'x = "1"', "1 = x", "x in (1)", "`x ` = 1"]
    assert len({parse_predicate(text) for text in different}) == len(different)
    assert parse_predicate("x = 1") != "x = 1"
    assert repr(parse_predicate("x=1")) == "parse_predicate('x = 1')"
    assert isinstance(parse_predicate("x"), Predicate)


def test_expressions_are_immutable() -> None:
    expression = parse_predicate("x > 1").expression
    with pytest.raises(AttributeError, match="immutable"):
        expression.value = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="immutable"):
        del expression.value
    with pytest.raises(ValueError, match="takes 2 operands"):
        Expression(ops.AND, (expression,))


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("", 1, "expected a predicate, found the end", "such as speed > 120"),
        ("a = b = c", 7, "comparisons do not chain", "join two comparisons by and"),
        ("1 < x < 9", 7, "comparisons do not chain", "0 < x and x < 9"),
        ("a is null is null", 11, "comparisons do not chain", ""),
        ("a = not b", 5, "not needs parentheses after '='", "write = (not ...)"),
        ("a && b", 3, "'&&' is not part of predicates", "write and"),
        ("a || b", 3, "'||' is not part of predicates", "write or"),
        ("!a", 1, "'!' is not part of predicates", "write not"),
        ("a = 'b'", 5, "''' is not part of predicates", 'write text in double quotes: "like'),
        ("a ≤ 1", 3, "'≤' is not part of predicates", "write <="),
        ("a = = 1", 5, "expected a value, found '='", "equality is written = or =="),
        ("a === 1", 5, "expected a value, found '='", "equality is written = or =="),
        ("x = null", 5, "'=' with null is never true", "write is null or is not null"),
        ("x in (1, null)", 10, "nothing equals null", "is null"),
        ("x in ()", 7, "the list is empty", "at least one value"),
        ("x in (y)", 7, "a list holds constants", "compare with = and join by or"),
        ("x in 1", 6, "expected '(' after in, found '1'", "in parentheses"),
        ("x in (1 2)", 9, "expected ',' or ')' in the list, found '2'", ""),
        ("x not 1", 7, "expected in after not, found '1'", "by and or or"),
        ("x is 1", 6, "expected null or not null, found '1'", "compare values with ="),
        ("x is not 1", 10, "expected null, found '1'", "compare values with ="),
        ("x y", 3, "expected an operator or the end, found 'y'", "in backquotes"),
        ("(x y", 4, "expected an operator or ')', found 'y'", "by and or or"),
        ("x And y", 3, "expected an operator or the end, found 'And'", "did you mean and?"),
        ("x like y", 3, "expected an operator or the end", "startswith, endswith, contains"),
        ("x 5", 3, "expected an operator or the end, found '5'", "joined by an operator such as ="),
        ("(x", 1, "this parenthesis is never closed", ""),
        ("x)", 2, "this parenthesis closes nothing", ""),
        ("x, y", 2, "',' is outside a list or a function", "write a list of values after in"),
        ("[x]", 1, "expected a value, found '['", "parentheses are round"),
        ("and", 1, "expected a value, found 'and'", "a column of that name is written `and`"),
        ("x and", 6, "expected a value, found the end", ""),
        ("lag(x) > 1", 1, "there is no function lag", "write x.last() for the value before"),
        ("IFNULL(x, 0) > 1", 1, "there is no function IFNULL", "write coalesce(x, 0)"),
        ("x - x.prev() > 1", 5, "there is no .prev()", "values of other rows are x.last(), x.ne"),
        ("lenght(x) > 1", 1, "there is no function lenght", "did you mean length?"),
        ("lower() = x", 7, "lower takes one argument, not 0", "as in lower(column)"),
        ("lower(x, y) = x", 8, "lower takes one argument, not 2 or more", "as in lower(column)"),
        ("contains(x)", 11, "contains takes 2 arguments, not 1", 'contains(column, "text")'),
        ("contains(x, y)", 13, "the second argument of contains is not a text", ""),
        ("a.b = 1", 1, "the name of a column has only letters, digits and _", "write `a.b`"),
        ("größe = 1", 1, "the name of a column has only letters, digits and _", "write `größe`"),
        ("5kg = x", 1, "'5kg' is not a number", "in backquotes"),
        ("1_000 = x", 1, "'1_000' is not a number", ""),
        ("x = .5", 5, "'.' is not part of predicates", "0.5"),
        ("x = 5.", 5, "'5.' is not a number", "1.5"),
        ("x = 9223372036854775808", 5, "integers are at most 9223372036854775807", "808.0"),
        ("x = 99999999999999999999", 5, "integers are at most 9223372036854775807", "999.0"),
        ("x = 1e999", 5, "numbers with a fraction or an exponent are from", ""),
        ("x = 1e-999", 5, "numbers with a fraction or an exponent are from", ""),
        ("x = " + "1" * 5000, 5, "this number has more than 400 characters", ""),
        ('x = "abc', 5, "this double quote is not closed on its line", r"written \n"),
        ('x = "a\nb"', 5, "this double quote is not closed on its line", r"written \n"),
        (r'matches(x, "\d")', 13, "the characters after a backslash are", r'\\: "\\d"'),
        (r'x = "a\\d\d\n\u00e9\u1"', 10, "the characters after", r'\\: "a\\d\\d\n\u00e9\\u1"'),
        ('x = "\\d' + "a" * 300 + '"', 6, "the characters after a backslash are", r"\\: \\d"),
        (r'x = "\ud800"', 6, r"\ud800 is not a character", ""),
        ('x = "a\tb"', 7, "unexpected character U+0009", ""),
        ("`x = 1", 1, "this backquote is not closed on its line", "written twice"),
        ("`` = 1", 1, "a column without a name", ""),
        ("x = 1 /* never", 7, "this comment never ends", ""),
        ("x = €", 5, "unexpected character '€'", ""),
        ("x = \x00", 5, "unexpected character U+0000", ""),
        ('"a" + 1 = 2', 1, "'+' takes numbers, not the text \"a\"", ""),
        ("x + 1", 1, "the predicate is a number, not true or false", "compare it"),
        ('x in (1, "a")', 1, "the list mixes an integer and a text", ""),
        ("true < x", 1, "'<' is not for true", "true and false have no order"),
        ("9223372036854775807 + 1 > x", 1, "9223372036854775807 + 1 overflows 64 bits", "2.0"),
    ],
)
def test_errors(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(PolicyError) as raised:
        parse_predicate(text, "rules.mtl")
    error = raised.value
    assert (error.line, error.column) == (1, column)
    assert error.message.startswith(message)
    assert hint in (error.hint or "")
    assert bool(hint) <= bool(error.hint)
    assert isinstance(error, FormulaError) and isinstance(error, MtlmonError)


def test_an_error_shows_its_line() -> None:
    with pytest.raises(PolicyError) as raised:
        parse_predicate("speed > 120\nand lane == = 1", "rules.mtl")
    assert str(raised.value).splitlines() == [
        "rules.mtl:2:13: expected a value, found '='",
        "    and lane == = 1",
        "                ^",
        "hint: equality is written = or ==",
    ]


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("10m", "s", 600),
        ("-2h", "m", -120),
        ("5min", "s", 300),
        ("30sec", "ms", 30_000),
        ("0d", "ns", 0),
    ],
)
def test_lengths_of_time_are_numbers_of_units(text: str, unit: str, value: int) -> None:
    assert parse_expression(text, unit=unit).value == value
    listed = parse_expression(f"x in (1, {text})", unit=unit)
    assert listed.members == (1, value)


@pytest.mark.parametrize(
    ("text", "unit", "message"),
    [
        ("x > 10m", None, "10m has a unit, but the unit of the stream's time-stamps is not"),
        ("x > 10m", "h", "10m is not a whole number of the stream's unit, h"),
        ("x > 9999999999999d", "ns", "above the largest"),
        ("x > 1.5h", "h", "1.5h is not a whole number of the stream's unit, h"),
    ],
)
def test_wrong_lengths_of_time(text: str, unit: str | None, message: str) -> None:
    with pytest.raises(FormulaError, match=message) as caught:
        parse_expression(text, unit=unit)
    assert caught.value.column == 5
