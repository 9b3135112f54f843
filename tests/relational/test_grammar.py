"""How first-order policies are written: what is read, how it is printed, and the errors."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import assume, given, settings

from mtlmon import Formula, Monitor
from mtlmon.errors import FormulaError, MtlmonError
from mtlmon.policy import check_policies, parse_policies
from tests.doors import free_variables, postorder, terms_of, to_text
from tests.doors import syntax_operators as ops
from tests.relational.formulas import formulas

FOUR_EYES = """\
unit s
atom publish(user, file)   = what = "publish"
atom approve(manager: text, file: text)
atom began(manager, user)  = what = "manager" and state = "start"
atom ended(manager, user)  = what = "manager" and state = "end"
let manages(m, u) = NOT ended(m, u) SINCE began(m, u)
policy approved: FORALL u, f. publish(u, f) IMPLIES ONCE[0,7d] EXISTS m. approve(m, f)
    AND NOT m = u AND manages(m, u)
find large "much in a month":
    SUM(a OVER ONCE[0,30d] (withdraw(u, a) AND point(i)) BY u) > 10000
policy errors: status = 500 IMPLIES EVENTUALLY[0,30s] status = 200
"""


def read(text: str) -> Formula:
    return parse_policies(text).policies[0].formula


def error(text: str) -> FormulaError:
    _file, errors = check_policies(text)
    assert errors, text
    return errors[0]


def test_a_file() -> None:
    file = parse_policies(FOUR_EYES)
    approved, large, errors = file.policies
    assert str(approved.formula) == (
        "FORALL u, f. publish(u, f) IMPLIES "
        "ONCE[0,604800] EXISTS m. approve(m, f) AND NOT m = u AND manages(m, u)"
    )
    assert (approved.is_find, large.is_find) == (False, True)
    assert large.text == "much in a month"
    assert str(large.formula) == (
        "SUM(a OVER ONCE[0,2592000] (withdraw(u, a) AND point(i)) BY u) > 10000"
    )
    # names are columns in formulas without variables, in the same file
    assert str(errors.formula) == '"status = 500" IMPLIES EVENTUALLY[0,30] "status = 200"'
    assert file.conditions == ("status = 500", "status = 200")
    assert file.parameters == {"manages": ("m", "u")}
    publish, approve = file.relations["publish"], file.relations["approve"]
    assert str(publish.condition) == 'what = "publish"'
    assert [str(one.expression) for one in publish.arguments] == ["user", "file"]
    assert approve.condition is None
    assert [(one.name, one.kind) for one in approve.arguments] == [
        ("manager", "text"),
        ("file", "text"),
    ]
    assert not file.relations["withdraw"].is_declared


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        # a quantifier reaches as far to the right as it can
        ("FORALL u. p(u) IMPLIES q(u)", "FORALL u. p(u) IMPLIES q(u)"),
        ("(FORALL u. p(u)) IMPLIES r", "(FORALL u. p(u)) IMPLIES r"),
        ("r AND EXISTS u. p(u) OR q(u)", "r AND EXISTS u. p(u) OR q(u)"),
        ("r AND (EXISTS u. p(u) IFF q(u))", "r AND EXISTS u. (p(u) EQUIV q(u))"),
        ("NOT ∃u.p(u) AND ∀ v . q(v)", "NOT EXISTS u. p(u) AND FORALL v. q(v)"),
        ("FORALL u. EXISTS v. p(u) -> q(v)", "FORALL u. EXISTS v. p(u) IMPLIES q(v)"),
        ("EXISTS m.approve(m, f)", "EXISTS m. approve(m, f)"),
        # arguments
        ('p("x", 1, -2.5, true, _, u + 1)', 'p("x", 1, -2.5, true, _, u + 1)'),
        ("a.b(x) AND p$'(x)", "a.b(x) AND p$'(x)"),
        ('"F"(x) AND "say \\"x\\""(y)', None),
        ("(S(x) AND R(a, d)) U T(x)", '("S"(x) AND "R"(a, d)) UNTIL "T"(x)'),
        ("ONCE[0,5] U(x)", 'ONCE[0,5] "U"(x)'),
        ("p (x) AND q (y)", "p(x) AND q(y)"),
        ("p(on, at)", "p(on, at)"),
        ("NOT p(x) SINCE[0,5] q(x, _)", "NOT p(x) SINCE[0,5] q(x, _)"),
        # comparisons
        ("p(x, y) AND x + 1 <= y * 2", "p(x, y) AND x + 1 <= y * 2"),
        ("p(x) AND (x + 1) % 3 = 0", "p(x) AND (x + 1) % 3 = 0"),
        ("p(x) AND x not in (1, 2)", "p(x) AND x not in (1, 2)"),
        ('p(f) AND startswith(f, "x")', 'p(f) AND startswith(f, "x")'),
        ("p(t) AND hour(t) = 3", "p(t) AND hour(t) = 3"),
        ("p(x) AND (if x > 3 then x else 2) = 2", None),
        ("p(x) and not x = 1", "p(x) AND NOT x = 1"),
        ("x = 1 AND p(y)", "x = 1 AND p(y)"),
        # aggregates
        ("COUNT(p(u, a) BY u) >= 3", "COUNT(p(u, a) BY u) >= 3"),
        ("2 * SUM(a + 1 OVER p(u, a) BY u) = COUNT(p(_, x))", None),
        ("x = MEDIAN(a OVER (p(a)))", "x = MEDIAN(a OVER p(a))"),
        ("COUNT(q(u) AND COUNT(p(u, x) BY u) > 2) > 3", None),
        ("p(COUNT(q(x)), y)", "p(COUNT(q(x)), y)"),
        ("COUNT(FORALL u. p(u) IMPLIES q(u, v) BY v) = 1", None),
        ('COUNT(p(u, ") BY OVER (") BY u) = 1', None),
        ("(COUNT(p(u)) + 1) * 2 > 3", "(COUNT(p(u)) + 1) * 2 > 3"),
        ("r IMPLIES COUNT(ONCE[0,5] r) = 1", "r IMPLIES COUNT(ONCE[0,5] r) = 1"),
        ("SUM(2 OVER r) = 2", "SUM(2 OVER r) = 2"),
    ],
)
def test_what_is_read_is_printed(text: str, printed: str | None) -> None:
    formula = read(text)
    assert str(formula) == (text if printed is None else printed) or printed is None
    assert read(str(formula)) == formula
    assert read(to_text(formula, all_parentheses=True)) == formula
    again = pickle.loads(pickle.dumps(formula))
    assert again == formula
    assert hash(again) == hash(formula)
    assert copy.deepcopy(formula) is formula
    assert formula.is_first_order


@given(formulas(8, aggregates=True))
@settings(max_examples=300, deadline=None)
def test_what_is_printed_is_read_back(formula: Formula) -> None:
    # without a predicate or quantifier, names are columns
    assume(any(node.operator.is_first_order for node in postorder(formula)))
    assume(
        any(node.operator in (ops.PREDICATE, ops.FORALL, ops.EXISTS) for node in postorder(formula))
    )
    assert read(str(formula)) == formula
    assert read(to_text(formula, all_parentheses=True)) == formula
    again = pickle.loads(pickle.dumps(formula))
    assert again == formula
    assert hash(again) == hash(formula)


def test_spans_are_places_in_the_file() -> None:
    text = "policy p: EXISTS u. /* x */ p( u ) AND SUM(a OVER q(u, a) BY u) > 3"
    formula = read(text)
    found = {
        str(node): text[node.span.start : node.span.end]
        for node in postorder(formula)
        if node.span is not None
    }
    assert found["p(u)"] == "p( u )"
    assert found["q(u, a)"] == "q(u, a)"
    assert found["SUM(a OVER q(u, a) BY u) > 3"] == "SUM(a OVER q(u, a) BY u) > 3"
    assert found[str(formula)] == text[10:]
    (predicate,) = [node for node in postorder(formula) if node.name == "p"]
    (term,) = terms_of(predicate)
    assert term.span is not None
    assert text[term.span.start] == "u"


def test_free_variables() -> None:
    formula = read("p(x) AND EXISTS y. q(y, z) AND COUNT(r(x, w) BY x) > u")
    assert free_variables(formula)[id(formula)] == ("x", "z", "u")


def test_columns_are_written_with_row() -> None:
    file = parse_policies("policy p: row.status = 500 IMPLIES publish(status, _)")
    assert file.policies[0].formula.atoms == ("row.status = 500", "publish")
    assert file.conditions == ("row.status = 500",)


def test_constants_are_constants() -> None:
    formula = read("const limit = 3\npolicy p: p(x, limit) AND x > limit")
    assert str(formula) == "p(x, 3) AND x > 3"


def test_lets_without_parameters_are_replaced() -> None:
    formula = read("let someone = EXISTS u. login(u)\npolicy p: request IMPLIES ONCE someone")
    assert str(formula) == "request IMPLIES ONCE EXISTS u. login(u)"


def test_a_declared_point_hides_the_built_in_one() -> None:
    file = parse_policies("atom point(x, y)\npolicy p: point(1, 2) AND time(t) AND t > 3")
    assert len(file.relations["point"].arguments) == 2
    assert len(file.relations["time"].arguments) == 1


def test_time_at_the_start_of_a_line_is_a_formula() -> None:
    assert str(read("policy p: q(x)\n AND\ntime(t) AND x < t")) == "q(x) AND time(t) AND x < t"


ERRORS = [
    # quantifiers
    ("r AND EXISTS u. p(u) -> q(u)", 22, "EXISTS before '->' needs parentheses",
     "write (EXISTS u. p(u)) -> q(u) or EXISTS u. (p(u) -> q(u))"),
    ("r -> EXISTS u. p(u) -> q(u)", 21, "two readings", "(EXISTS u. p(u)) -> q(u)"),
    ("FORALL u. ONCE p(u) -> q(u)", 21, "two readings", "write (ONCE p(u)) -> q(u)"),
    ("FORALL u, u. p(u)", 11, "the variable u is named twice", None),
    ("FORALL _. p(u)", 8, "'_' is not the name of a variable after FORALL", "letters, digits"),
    ("FORALL in. p(u)", 8, "'in' is not the name of a variable", None),
    ("p(u) AND EXISTS x, p(x)", 10, "there is no point behind the variables of EXISTS", "x, y. p"),
    ("FORALL count[0,5](x)", 1, "there is no point behind the variables of FORALL", "x, y. p"),
    ("FORALL u", 8, "expected an operator", None),
    ("EXISTS u.", 10, "expected a formula, found the end", None),
    # predicates
    ("p(x", 2, "this parenthesis is never closed", None),
    ("p(x,)", 5, "an argument is missing here", "as in p(u, _)"),
    ("p(x y)", 5, "expected an operator", None),
    ("p(x : y)", 5, "expected ',' or ')' in p(...)", None),
    ("p(x) AND p(x, y)", 10, "p has one argument (line 1), not 2", "_"),
    ("F(x, y)", 1, "F is an operator", '"F"(...)'),
    ("p(x) q(y)", 6, "expected an operator or the end", None),
    ("p(_ + 1)", 3, "_ is not a value", "approve(_, f)"),
    ("p(x) AND _ = 1", 10, "_ is not a value", None),
    ("p(row.x)", 3, "a column cannot be used beside variables", "atom NAME(x, ...)"),
    ("p(`a b`)", 3, "`a b` is not the name of a variable", "row.`a b`"),
    ("p(count[0,5](x))", 3, "windows, streams and other rows", "COUNT(ONCE"),
    ("p(x) AND x.last() = 1", 10, "windows, streams", None),
    ('machine("m:C", x)', 1, "a machine gives the values", 'NAME: TYPE = machine("m:C", x),'),
    ('p(x) AND machine("m:C", x) > 3', 10, "a machine gives the values", "and write NAME here"),
    ("p(x) AND x is null", 10, "variables are never null", None),
    ("p(x) AND row.y = x", 10, "row.y cannot be used beside", "atom NAME(y, ...)"),
    ("p(x) AND foo(x) > 3", 10, "there is no function foo", None),
    ("p(x) AND 1 < x < 3", 16, "comparisons do not chain", None),
    # aggregates
    ("SUM(p(u)) > 3", 9, "SUM needs a term and OVER", "SUM(a OVER p(u, a))"),
    ("COUNT(x OVER p(x)) > 3 ", 9, "COUNT counts valuations", "COUNT(p(u, a) BY u)"),
    ("COUNT(p(u) BY) > 3", 14, "no variable after BY", None),
    ("COUNT(p(u) BY u v) > 3", 17, "expected a comma between variables", None),
    ("COUNT(p(u BY u) > 3", 6, "this parenthesis is never closed", None),
    ("COUNT(p(u) AND) > 3", 15, "expected a formula", None),
    ("p(x) AND COUNT(q(y))", 10, "COUNT(...) is a value, not true or false", "> 3"),
    ("COUNT(q(y)) BY y > 3", 1, "COUNT(...) is a value, not true or false", "COUNT(... BY u) > 3"),
    ("COUNT(" * 21 + "p(x)" + ") > 0" * 21, None, "more than 20 aggregates", "let"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "column", "message", "hint"), ERRORS)
def test_errors(text: str, column: int | None, message: str | None, hint: str | None) -> None:
    found = error(text)
    assert (message or "") in found.message
    assert (hint or "") in (found.hint or "")
    if column is not None:
        assert (found.line, found.column) == (1, column)


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "hint"),
    [
        ("atom p(x, x)\npolicy q: p(u, v)", 1, 11, "two arguments called x", "another name"),
        ("atom p(x: number)\npolicy q: p(u)", 1, 11, "there is no type number", "int, float"),
        ("atom p()\npolicy q: p(u)", 1, 8, "an argument is missing", "COLUMN"),
        ("atom p(x + 1) = y\npolicy q: p(u)", 1, 8, "an argument without a name", "NAME ="),
        ("atom p(a = x)\npolicy q: p(u)", 1, 8, "no columns", "has a condition"),
        ("atom p(x\npolicy q: p(u)", 1, 7, "never closed", None),
        ("atom hour(x)\npolicy q: p(u)", 1, 6, "hour is a function", None),
        ("atom p(x)\natom p(y)\npolicy q: p(u)", 2, 6, "p is declared in line 1 already", None),
        ("atom p(x)\npolicy q: p(u, v)", 2, 11, "p has one argument (line 1), not 2", None),
        ("atom p(x)\npolicy q: p AND r", 2, 11, "p has one argument (line 1), not none", None),
        ("atom p = x > 1\npolicy q: p(u)", 2, 11, "p has no arguments (line 1), not 1", None),
        ("let l(x) p(x)\npolicy q: l(u)", 1, 9, "expected '=' after the parameters", None),
        ("let l(x, y) = p(x)\npolicy q: l(u, v)", 1, 10, "parameter y is not in its formula",
         "free variables of the formula: x"),
        ("let l(x) = p(x, y)\npolicy q: l(u)", 1, 17, "variable y is not a parameter", "EXISTS y"),
        ("let l() = p(x)\npolicy q: r", 1, 7, "no parameter", "a variable"),
        ("let l(x, x) = p(x)\npolicy q: l(u, u)", 1, 10, "parameter x is named twice", None),
        ("let l(x) = m(x)\nlet m(x) = p(x)\npolicy q: l(u)", 1, 12, "which is declared later",
         "move the declaration of m up"),
        ("policy p on every 5: q(u)", 1, 10, "its time-points are rows", "leave out 'on'"),
        ("const c = 1\npolicy p: EXISTS c. q(c)", 2, 18, "c is a constant", "another name"),
        ("find f at most 3: q(u)", 1, 8, "expected ':'", None),
    ],
)  # fmt: skip
def test_errors_of_declarations(
    text: str, line: int, column: int, message: str, hint: str | None
) -> None:
    found = error(text)
    assert message in found.message
    assert (hint or "") in (found.hint or "")
    assert (found.line, found.column) == (line, column)


@pytest.mark.parametrize("let", ["p(x)", "p(x) AND r", "p(x) OR (PREVIOUS l(x))", "NOT p(x)"])
def test_lets_stand_beside_clocks(let: str) -> None:
    """Rationale: where others have clocks, what is at ticks is looked for in all that is named."""
    at_ticks = "policy t on every 5: count[0,5]() > 1"
    file = parse_policies(f"let l(x) = {let}\npolicy q: s(x) AND l(x)\n{at_ticks}")
    assert [one.is_first_order for one in file.policies] == [True, False]


def test_arguments_stand_on_the_line_of_their_name() -> None:
    assert str(read("let a = p(x)\n(EXISTS x. p(x)) IMPLIES r")) == "(EXISTS x. p(x)) IMPLIES r"
    assert str(read("let a = p\n(a OR q) IMPLIES r")) == "p OR q IMPLIES r"


def test_deep_formulas() -> None:
    depth = 3000
    text = "NOT (EXISTS u. p(u, v) AND " * depth + "q(v)" + ")" * depth
    formula = read(text)
    assert read(str(formula)) == formula
    again = pickle.loads(pickle.dumps(formula))
    assert again == formula
    assert free_variables(formula)[id(formula)] == ("v",)
    terms = "p(" + "(" * depth + "x" + " + 1)" * depth + ")"
    deep = read(terms)
    assert pickle.loads(pickle.dumps(deep)) == deep


@pytest.mark.parametrize("text", ["FORALL u. p(u)", "r AND p(u)", "r AND COUNT(p(u)) > 1"])
def test_monitors_without_variables_refuse_it(text: str) -> None:
    with pytest.raises(MtlmonError, match="RelationalMonitor"):
        Monitor(read(text))


@pytest.mark.parametrize(
    "text", ["FORALL AND b", "EXISTS", "FORALL() SINCE EXISTS", "find AND b", "COUNT AND b", "_"]
)
def test_what_meant_something_else_still_does(text: str) -> None:
    assert not read(text).is_first_order
