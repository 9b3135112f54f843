"""Windows, offsets, choices and calls as text, and expressions as parts of longer texts."""

from __future__ import annotations

import sys
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlmon.errors import FormulaError, PolicyError
from tests.doors import (
    CLAUSES,
    KEYWORDS,
    Constant,
    Duration,
    DurationInterval,
    Expression,
    Interval,
    LookedUp,
    Offset,
    Over,
    Window,
    parse_comparison,
    parse_expression,
    parse_prefix,
)
from tests.doors import predicates_operators as ops
from tests.doors import predicates_own_machines as own_machines

_WORDS = [*"xyT", *ops.AGGREGATES, *ops.FUNCTIONS, *ops.OFFSETS, *KEYWORDS, *CLAUSES]
_NAMES = st.sampled_from(
    [*_WORDS, "if", "then", "else", "over", "row", "exists", "a b", "`", "a.b", "é"]
)
_CONSTANTS: st.SearchStrategy[Constant] = st.sampled_from(
    [None, True, False, 0, 7, -(2**63), Decimal("0.5"), Decimal("-1.5"), "", 'a"b', "or: )"]
)
_LEAVES = st.one_of(
    st.builds(Expression, st.sampled_from([ops.COLUMN, ops.ROW_COLUMN]), st.just(()), _NAMES),
    st.builds(Expression, st.just(ops.CONSTANT), st.just(()), _CONSTANTS),
)
_DURATIONS = st.builds(Duration, st.integers(0, 99), st.sampled_from(["ms", "s", "m"]))


def _interval(one: Duration, other: Duration, is_bounded: bool, is_open: bool) -> Interval:
    lower, upper = sorted((one, other), key=lambda duration: duration.nanoseconds)
    if not is_bounded:
        return DurationInterval(lower, None)
    return DurationInterval(lower, upper, (False, is_open and lower != upper))


_INTERVALS: st.SearchStrategy[Interval] = st.one_of(
    st.builds(_interval, _DURATIONS, _DURATIONS, st.booleans(), st.booleans()),
    st.builds(Interval, st.integers(0, 99), st.one_of(st.none(), st.integers(99, 200))),
)

_OTHERS = {
    *ops.NAMES,
    *ops.OF_FORMULAS,
    *ops.CONVERSIONS.values(),
    *ops.OF_INSTANCES_ONLY.values(),
    ops.WINDOW_OWN,
    ops.OWN_FUNCTION,
}
_OPERATORS = [
    row
    for row in vars(ops).values()
    if isinstance(row, ops.Operator) and row.arity and row not in _OTHERS
]


@st.composite
def _applied(draw: st.DrawFn, operands: st.SearchStrategy[Expression]) -> Expression:
    operator = draw(st.sampled_from([*_OPERATORS, ops.COUNT_ROWS]))
    arity = operator.arity
    if arity < 0:
        arity = draw(st.integers(1 if arity == ops.ANY_NUMBER else 0, 3))
    taken = tuple(draw(operands) for _ in range(arity))
    if operator in {ops.IN_COLUMN, ops.NOT_IN_COLUMN}:
        columns = st.sampled_from([ops.COLUMN, ops.ROW_COLUMN])
        taken = taken[0], Expression(draw(columns), (), draw(_NAMES))
    if operator in {ops.IN, ops.NOT_IN}:
        values = st.lists(_CONSTANTS.filter(lambda value: value is not None), min_size=1)
        return Expression(operator, taken, tuple(draw(values)))
    if operator is ops.MACHINE:
        columns_of = (one.name if one.operator in ops.COLUMNS else str(one) for one in taken)
        name = draw(st.sampled_from(["a:B", "a.b:C.d.<locals>.E"]))
        machine = own_machines.OwnMachine(name, tuple(columns_of))
        return Expression(operator, taken, Window(Interval.FULL, machine=machine))
    if operator in ops.WINDOWS:
        interval = draw(_INTERVALS)
        default = draw(_CONSTANTS) if arity else None
        parameters = (Decimal("0.99"),) * operator.constants
        return Expression(operator, taken, Window(interval, parameters, default))
    if operator in {ops.LAST, ops.NEXT}:
        return Expression(operator, taken, Offset(draw(st.integers(1, 5)), draw(_CONSTANTS)))
    if operator is ops.AT:
        distance = draw(st.one_of(st.integers(0, 5), _DURATIONS))
        return Expression(operator, taken, Offset(distance, draw(_CONSTANTS), draw(st.booleans())))
    if operator is ops.HOLD:
        return Expression(operator, taken, Offset(draw(st.integers(0, 5)), draw(_CONSTANTS)))
    if operator is ops.OVER:
        aggregate = draw(st.sampled_from(sorted(ops.OVER_AGGREGATES)))
        constants = (Decimal("0.9"),) * ops.OVER_AGGREGATES[aggregate].constants
        count = len(taken) - 1
        by = draw(st.lists(_NAMES, min_size=count, max_size=count, unique=True))
        return Expression(operator, taken, Over(aggregate, draw(_NAMES), constants, tuple(by)))
    if operator is ops.INSTANCE:
        return Expression(operator, taken, draw(_NAMES))
    if operator in ops.LOOK_UPS:
        column = draw(_NAMES) if operator is ops.LOOK_UP else None
        names = draw(st.lists(_NAMES, min_size=arity, max_size=arity, unique=True))
        is_named = not arity or draw(st.booleans())
        looked_up = LookedUp(draw(_NAMES), column, tuple(names) if is_named else None)
        return Expression(operator, taken, looked_up)
    return Expression(operator, taken)


_EXPRESSIONS = st.recursive(_LEAVES, _applied, max_leaves=12)


@given(_EXPRESSIONS)
@settings(max_examples=500)
def test_what_is_written_is_read_back(expression: Expression) -> None:
    again = parse_expression(str(expression), unit="later")
    assert again == expression
    assert hash(again) == hash(expression)


@pytest.mark.parametrize("word", ["until", "once", "since", "count", "if", "plain", "rate"])
def test_instances_of_streams_that_are_named_like_words(word: str) -> None:
    expression = Expression(ops.INSTANCE, (Expression(ops.COLUMN, (), "x"),), word)
    assert parse_expression(str(expression)) == expression


@given(_EXPRESSIONS, st.sampled_from(sorted(CLAUSES)))
def test_a_clause_ends_an_expression(expression: Expression, clause: str) -> None:
    text = f"say {expression} {clause} {clause} x"
    found, end = parse_prefix(text, "<text>", 4, unit="later")
    assert found == expression
    assert text[end:] == f" {clause} {clause} x"


@given(_EXPRESSIONS, st.sampled_from(["-> x", "<=> x", "=> x", "<-> x", "AND x", ") & y", "| y"]))
def test_a_formula_goes_on_behind_a_comparison(expression: Expression, rest: str) -> None:
    text = f"say ({expression}) = 1 {rest}"
    found, end = parse_comparison(text, "<text>", 4, unit="later")
    one = Expression(ops.CONSTANT, (), 1)
    assert found == Expression(ops.EQUAL, (expression, one))
    assert text[end:] == f" {rest}"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("count [ 0 , 2m ] (failed)", "count[0,120](failed)"),
        ("count[0,/* ] */2m]() # rows", "count[0,120]()"),
        ("avg[5m,15m)(x)", "avg[300,899](x)"),
        ("quantile[0,10m](x, 0.99, or: -1)", "quantile[0,600](x, 0.99, or: -1)"),
        ("sum[0,*](x, or: 0)", "sum[0,*)(x, or: 0)"),
        ("-s.last(1)", "-s.last()"),
        ("(a + b).next(3, or: null)", "(a + b).next(3)"),
        ("s.at(-2m, or: 0) - s.at( - 5 )", "s.at(-120, or: 0) - s.at(-5)"),
        ("s.hold(or: false).last (OR : true)", "s.hold(or: false).last(or: true)"),
        ("row.last.last()", None),
        ("row.last() + row.row", None),
        ("row.`a b`.hold()", None),
        ("IF a THEN b ELSE c or d", "if a then b else c or d"),
        ("if (a) then b else if c then d else e", "if a then b else if c then d else e"),
        ("if (if a then b else c) then 1 else 2", "if if a then b else c then 1 else 2"),
        ("(if a then b else c) + 1", None),
        ("if not x then 1 else 2", None),
        ("if > 3 and if not in (1)", "`if` > 3 and `if` not in (1)"),
        ("if - 1 = if", "`if` - 1 = `if`"),
        ("then = else and over > per or min < row", None),
        ("any(x > 1 over views) or max(row.x over `a b`) > 1", None),
        ("min(min(a, b), max(c, d))", None),
        ("coalesce(coalesce(a, b), c)", "coalesce(a, b, c)"),
        ("coalesce(a, coalesce(b, c))", None),
        ("views[id + 1, `x y`].last(2)", None),
        ("`count`[1] = count[0,1]()", None),
    ],
)
def test_reading(text: str, written: str | None) -> None:
    assert str(parse_expression(text, unit="s")) == (written or text)


def test_the_tree() -> None:
    node = parse_expression("quantile[0,2m](x, 0.5, or: 3)", unit="later")
    assert node.operator is ops.WINDOW_QUANTILE
    assert node.window == Window(DurationInterval(0, Duration(2, "m")), (Decimal("0.5"),), 3)
    assert node.operands == (Expression(ops.COLUMN, (), "x"),)
    node = parse_expression("count[0,5]()")
    assert (node.operator, node.operands) == (ops.COUNT_ROWS, ())
    assert node.window == Window(Interval(0, 5))
    assert parse_expression("x.at(-1s)", unit="later").offset == Offset(Duration(1, "s"))
    assert parse_expression("x.last(2, or: true)").offset == Offset(2, True)
    assert parse_expression("x.hold()").offset == Offset(0, None)
    assert parse_expression("x.hold(2, or: 1)").offset == Offset(2, 1)
    assert parse_expression("sum(x over s)").over == Over("sum", "s")
    share = parse_expression("quantile(x over s, 0.9)")
    assert share.over == Over("quantile", "s", (Decimal("0.9"),))
    grouped = parse_expression("quantile(x over s by job, le = y + 1, 0.9)")
    assert grouped.over == Over("quantile", "s", (Decimal("0.9"),), ("job", "le"))
    assert [str(one) for one in grouped.operands] == ["x", "job", "y + 1"]
    assert str(share) == "quantile(x over s, 0.9)"
    node = parse_expression("views[a, b]")
    assert (node.operator, node.name, len(node.operands)) == (ops.INSTANCE, "views", 2)
    assert parse_expression("x.last(or: 1)") != parse_expression("x.last(or: true)")
    with pytest.raises(ValueError, match="takes at least 1 operands"):
        Expression(ops.INSTANCE, (), "views")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(a or b) and x per y", " per y"),
        ("every + 1 every 3s", " every 3s"),
        ("if a then b else c ON d", " ON d"),
        ("count[0,5](x) > 3 : p AND q", " : p AND q"),
        ("at > 3 at most 5%: p", " at most 5%: p"),
        ("severity = 1 severity high: p", " severity high: p"),
        ("a, b", ", b"),
        ('x message "y"', ' message "y"'),
    ],
)
def test_where_a_prefix_ends(text: str, expected: str) -> None:
    assert text[parse_prefix(text, "<text>")[1] :] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x <-1 & y", " & y"),
        ("a<=>b", "<=>b"),
        ("a = b => c", " => c"),
        ("x not in (1, 2) OR z", " OR z"),
        ("x is not null) UNTIL y", ") UNTIL y"),
        ("x is null UNTIL[0,5] y", " UNTIL[0,5] y"),
        ("p NOT q", " NOT q"),
        ("x > 5 ∧ y", " ∧ y"),
        ("x > 5 and y", " and y"),
        ("`T` > 30 S q", " S q"),
        ("if AND b", " AND b"),
        ("(if a then b else c) | d", " | d"),
        ("any(T > 1 over s), x", ", x"),
    ],
)
def test_where_a_comparison_ends(text: str, expected: str) -> None:
    assert text[parse_comparison(text, "<text>")[1] :] == expected


def test_comparisons_cost_no_more_than_their_own_text() -> None:
    def calls(count: int) -> int:
        text = "count[0,5](x) > 1 & " * count
        found = 0

        def note(_frame: object, event: str, _argument: object) -> None:
            nonlocal found
            found += event in {"call", "c_call"}

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            for position in range(0, len(text), 20):
                parse_comparison(text, "<text>", position)
        finally:
            sys.setprofile(before)
        return found

    # if each began with all that follows it, 16 times the text took 256 times as many
    assert calls(320) < 20 * calls(20)


_DEEP = 10_000


@pytest.mark.parametrize(
    "text",
    [
        "x" + ".last()" * _DEEP,
        "if a then b else " * _DEEP + "c",
        "if (" * _DEEP + "a" + ") then b else c" * _DEEP,
        "coalesce(" * _DEEP + "x" + ", 1)" * _DEEP,
        "coalesce(x" + ", 1" * _DEEP + ")",
        "sum[0,5](" * _DEEP + "x" + ")" * _DEEP,
        "views[" * _DEEP + "x" + "]" * _DEEP,
    ],
    ids=["offsets", "else", "if", "nested calls", "arguments", "windows", "instances"],
)
def test_deep_and_long_expressions(text: str) -> None:
    expression = parse_expression(text)
    assert parse_expression(str(expression)) == expression


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("1 + if a then b else c", 5, "if needs parentheses after '+'", "write + (if ...)"),
        ("-if(a) then b else c", 2, "if needs parentheses after a minus", "write - (if ...)"),
        ("if -1 > x then 2 else 3", 11, "expected an operator or the end", "needs parentheses"),
        ("if a then b", 12, "expected an operator or else, found the end", ""),
        ("(if a then b)", 13, "expected an operator or else, found ')'", ""),
        ("if a, b", 5, "expected an operator or then, found ','", ""),
        ("`if` x", 6, "expected an operator or the end, found 'x'", "join two predicates"),
        ("x and ONCE[0,1m] y", 7, "ONCE is an operator of formulas", "a let of the past"),
        ("ONCE x", 6, "expected an operator or the end", "a let of the past"),
        ("x SINCE y", 3, "expected an operator or the end", "a let of the past"),
        ("x then y", 3, "expected an operator or the end", "if ... then ... else"),
        ("coalesce(a)", 11, "coalesce takes 2 arguments, not 1", "coalesce(x, 0)"),
        ("min(x)", 6, "min takes 2 arguments, not 1", "in a window it is min[0,5](x)"),
        ("max(x, y, z)", 9, "max takes 2 arguments, not 3 or more", "as in max(x, y)"),
        ("avg(x)", 1, "avg has no window", "avg[0,5m](...)"),
        ("count(x)", 1, "count has no window", "count(... over STREAM)"),
        ("sum(x, y)", 1, "sum has no window", "sum[0,5m](...)"),
        ("any()", 1, "any has no window", "any[0,5m](...)"),
        ("any(x over)", 11, "expected the name of a stream after over", "over views"),
        ("any(x over s t)", 14, "expected ')' or by after the name of the stream", ""),
        ("abs(x over s)", 7, "expected an operator or ')'", ""),
        ("count[0,2]", 11, "expected '(' after the window", "as in count[0,2](column)"),
        ("count[0,2(x)", 10, "expected ']' or ')' at the end of the interval", ""),
        ("count[5,2](x)", 6, "the interval [5,2] is empty", "[2,5]"),
        ("count[0,2m](x)", 9, "2m has a unit", "declare the stream's unit"),
        ("sum[0,5]()", 10, "sum takes an argument", "count[0,5]()"),
        ("sum[0,5](x, 2)", 13, "sum takes one argument", "follows or:"),
        ("sum[0,5](x, or: y)", 17, "expected a constant after or:", ""),
        ("sum[0,5](x, or: 1, 2)", 18, "expected ')' at the end of the window", "sum[0,5](x)"),
        ("quantile(x over s)", 18, "quantile takes a number from 0 to 1", "quantile(views over"),
        ("quantile(x over s, 2)", 20, "a quantile is a number from 0 to 1", ""),
        ("avg(x over s, 2)", 13, "expected ')' or by after the name of the stream", ""),
        ("quantile[0,5](x)", 16, "quantile takes 2 arguments, not 1", "quantile[0,5](x, 0.99)"),
        ("quantile[0,5](x, 2)", 18, "a quantile is a number from 0 to 1", ""),
        ("quantile[0,5](x, or: 2)", 23, "quantile takes 2 arguments, not 1", ""),
        ("quantile[0,5](x, 0.5, 1)", 23, "quantile takes 2 arguments", "follows or:"),
        (
            "grow[0,5](x)",
            10,
            "expected an operator or the end",
            "the aggregates of windows are count",
        ),
        ("x.at(5)", 6, "expected a sign and a length of time", "x.at(-5s)"),
        ("x.at(-y)", 7, "expected a whole number, with or without a unit", ""),
        ("x.at(-1m)", 7, "1m has a unit", ""),
        ("x.last(0)", 8, "the number after .last is from 1 to", ""),
        ("x.last(1.5)", 8, "expected a whole number, found '1.5'", "x.last(2)"),
        ("x.last(1, 2)", 11, "expected or:, found '2'", ".last(1, or: 0)"),
        ("x.hold(0)", 8, "the number after .hold is from 1 to", "hold() is the newest value"),
        ("x.hold(, or: 0)", 8, "expected a whole number, found ','", "x.hold(1)"),
        ("x.hold(1, 2)", 11, "expected or:, found '2'", ".hold(1, or: 0)"),
        ("x is null.last()", 10, ".last needs parentheses before it", "(...).last(...)"),
        ("a.b.last()", 1, "the name of a column has only letters", "write `a.b`.last(...)"),
        ("row.a.b", 1, "the name of a column has only letters", "write row.`a.b`"),
        ("row.`a", 5, "this backquote is not closed on its line", ""),
        ("views[]", 7, "the brackets are empty", "views[7]"),
        ("views[1", 1, "this bracket is never closed", ""),
        ("views[1)", 8, "expected an operator or ']', found ')'", ""),
        ("(x]", 3, "expected an operator or ')', found ']'", "parentheses are round"),
        ("x : y", 3, "expected an operator or the end, found ':'", ""),
    ],
)
def test_errors(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(FormulaError) as raised:
        parse_expression(text, "rules.mtl")
    error = raised.value
    assert (error.line, error.column) == (1, column)
    assert error.message.startswith(message)
    assert hint in (error.hint or "")
    assert bool(hint) <= bool(error.hint)


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("T > 30", 1, "T is an operator", "written `T`"),
        ("x > until", 5, "until is an operator", "written `until`"),
        ("if a then b else c", 1, "if needs parentheses in a formula", "(if ... then"),
        ("x > AND y", 5, "expected a value, found 'AND'", "is a keyword"),
        ("x > && y", 5, "'&&' is not part of predicates", "write and"),
        ("a < b < c", 7, "comparisons do not chain", "join two comparisons"),
        ("user.name = 1", 1, "the name of a column has only letters", "write `user.name`"),
        ("(x > 1 -> y)", 8, "expected an operator or ')', found '->'", ""),
    ],
)
def test_errors_in_formulas(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(PolicyError) as raised:
        parse_comparison(text, "<formula>")
    error = raised.value
    assert (error.line, error.column) == (1, column)
    assert error.message.startswith(message)
    assert hint in (error.hint or "")
