"""What binds the variables of first-order policies, and the errors where nothing does."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings

from mtlmon import Formula
from mtlmon.policy import parse_policies
from mtlmon.relational import analyse
from tests.doors import (
    Binding,
    BindingAnalysis,
    Definition,
    free_variables,
    normal_form,
    postorder,
    scope_findings,
)
from tests.doors import syntax_operators as ops
from tests.reference.first_order import FirstOrder, Let, Log, answers, is_fresh
from tests.relational.formulas import formulas, logs


def bindings(formula: Formula) -> Binding:
    free = free_variables(formula)[id(formula)]
    return BindingAnalysis({}).analyse(formula, free)


@given(formulas(7, aggregates=True), logs())
@settings(max_examples=200, deadline=None)
def test_what_can_be_evaluated_holds_for_no_fresh_value(formula: Formula, log: Log) -> None:
    """A value that is nowhere in the log satisfies no formula that the analysis accepts."""
    free = free_variables(formula)[id(formula)]
    assume(not list(scope_findings(formula, free)))
    assume(bindings(formula).error is None)
    types = dict.fromkeys("xyz", int)
    closed = log._replace(closed=True)
    for found in answers(formula, closed, free, types=types):
        assert not found.undecided
        assert not any(map(is_fresh, found.satisfying))


@given(formulas(6), logs())
@settings(max_examples=200, deadline=None)
def test_the_normal_form_is_equivalent(formula: Formula, log: Log) -> None:
    domain = [0, 1, 2, 3]
    evaluator = FirstOrder(log, domain)
    valuation = {"x": 0, "y": 1, "z": 3}
    written = evaluator.under(formula, valuation)
    normal = normal_form(formula)
    assert evaluator.under(normal, valuation).at == written.at
    negated = evaluator.under(normal_form(formula, negated=True), valuation)
    assert evaluator.under(~normal, valuation).at == negated.at
    for node in postorder(normal):
        assert node.operator not in (ops.IMPLIES, ops.IFF, ops.FORALL, ops.RELEASE, ops.TRIGGER)
        if node.operator is ops.NOT:
            assert node.operands[0].operator not in (ops.NOT, ops.AND, ops.OR, ops.HISTORICALLY)


ACCEPTED = [
    "find f: p(x)",
    "find f: p(x) AND NOT q(x, _)",
    "find f: NOT q(x, _) AND p(x)",
    "find f: x > 3 AND p(x)",
    "find f: y = x + 1 AND p(x)",
    "find f: p(x + 1) AND q(x, _)",
    "find f: p(x) AND x = z AND z < y AND y = x + 2",
    "find f: x in (1, 2) AND p(y)",
    "find f: p(x) OR q(x, _)",
    "find f: p(y) AND (x = 1 OR x = y)",
    "find f: EXISTS y. p(x) OR q(x, y)",
    "find f: EXISTS x. p(x) OR r",
    "find f: ONCE (p(x) AND NOT q(x, _))",
    "find f: NOT q(x, _) SINCE[0,5] p(x)",
    "find f: p(x) AND HISTORICALLY[0,5] NOT q(x, x)",
    "find f: p(x) AND HISTORICALLY[0,5] q(x, x)",
    "find f: p(x) AND ONCE NOT q(x, x)",
    "find f: p(x) AND NOT EXISTS y. q(x, y) AND NOT p(y)",
    "find f: p(x) AND FORALL y. (q(x, y) IMPLIES p(y))",
    "find f: NEXT p(x)",
    "find f: p(x) UNTIL[0,5] q(x, y)",
    "policy f: p(x) IMPLIES ONCE[0,5] q(x, _)",
    "policy f: FORALL x, y. q(x, y) IMPLIES EVENTUALLY[0,5] p(x)",
    "policy f: q(x, y) IMPLIES x < 3",
    "policy f: NOT p(x)",
    "policy f: NOT (p(x) AND p(y) AND x = y)",
    "policy f: ALWAYS (request IMPLIES EVENTUALLY EXISTS u. login(u))",
    "policy f: p(x) -> NOT q(x, x) W[0,5] q(x, _)",
    "find f: SUM(a OVER q(u, a) BY u) > 2 * COUNT(q(u, b) BY u)",
    "find f: t = COUNT(p(x))",
    "find f: t = COUNT(q(x, y) BY x) AND t > 3",
    "find f: t = COUNT(q(x, y) BY x) AND p(x)",
    "find f: t = MAX(y OVER q(x, y) BY x)",
    "find f: COUNT(q(x, y) BY x) != 0",
    "find f: COUNT(q(x, y) BY x) in (1, 2)",
    "find f: 0 > 2 - COUNT(q(x, y) BY x)",
    "find f: p(x) AND COUNT(q(x, y) BY x) < 2",
    "policy f: p(x) IMPLIES COUNT(q(x, y) BY x) > 2",
    "policy f: COUNT(q(x, y) BY x) < 2",
    "find f: COUNT(p(x)) = 0 AND r AND EXISTS u. p(u)",
    "find f: p(x) AND NOT COUNT(q(x, y) BY x) > 3",
    "let l(x) = NOT p(x)\nfind f: q(x, _) AND l(x)",
    "let l(x, y) = q(y, x)\nlet m(x) = l(x, _)\nfind f: m(x)",
    "let l(x, y) = y = x + 1\nfind f: p(x) AND l(x, y)",
    # an integer and a float can be compared, but only a float has the type of the other side
    "atom p(x: int)\natom f(y: float)\nfind f1: p(x) AND f(y) AND x = y",
    "atom f(y: float)\nfind f1: f(y) AND z = y * 2",
    "atom f(y: float)\nfind f1: y = 3 AND f(y)",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    analysis = analyse(parse_policies(text))
    assert analysis.errors == ()
    assert len(analysis.policies) == 1


REFUSED = [
    ("find f: NOT p(x)", 9, "'x' may take in 'NOT p(x)'", "EXISTS x. p(x)"),
    ("find f: x > 3 AND EXISTS y. p(y)", 9, "'x' may take in 'x > 3'", None),
    ("find f: y = x AND EXISTS z. p(z)", 9, "'y' may take", None),
    ("find f: p(x) OR q(y, _)", 9, "one side of OR binds 'y', but not 'p(x)'", "on both sides"),
    ("find f: p(x) AND NOT q(x, y)", 18, "'y' may take in 'NOT q(x, y)'", None),
    ("find f: r AND ONCE (p(x) AND NOT q(x, y))", 30, "'y' may take in 'NOT q(x, y)'", "q(x, y)?"),
    ("find f: p(x) AND EXISTS y. NOT q(x, y)", 28, "'y' may take in 'NOT q(x, y)'",
     "or did you mean NOT EXISTS y. q(x, y)?"),
    ("find f: p(y) SINCE p(x)", 9, "'y' may take in 'p(y)'", None),
    ("find f: p(x + 1)", 9, "'x' may take in 'p(x + 1)'", None),
    ("policy f: p(x)", 11, "'x' may take in 'NOT p(x)'", None),
    ("policy f: publish(u, f) IMPLIES ONCE approve(m, f)", 33,
     "'m' may take in 'NOT ONCE approve(m, f)'", "EXISTS m. ONCE approve(m, f)?"),
    ("find f: EXISTS z. (p(x) AND z = 1) OR q(y, z)", 20,
     "one side of OR binds 'y', but not 'p(x) AND z = 1'", None),
    ("find f: HISTORICALLY[0,5] p(x)", 9, "'x' may take in 'HISTORICALLY[0,5] p(x)'", None),
    ("policy f: p(x) AND q(x, y)", 11, "'x' may take in 'NOT p(x)'", None),
    ("find f: x / 1 = y AND EXISTS u. p(u)", 9, "'x'", None),
    ("find f: COUNT(NOT p(x)) > 3 AND EXISTS u. p(u)", 15, "'x' may take in 'NOT p(x)'", None),
    ("atom p(x: int)\natom f(y: float)\nfind g: p(x) AND NOT f(y) AND x = y", 18,
     "'y' may take in 'NOT f(y)'", None),
    ("find f: FORALL x. p(x)", 19, "'x' may take in 'NOT p(x)'", None),
    ("let l(x) = NOT p(x)\nfind f: l(x)", 9, "'x' may take in 'l(x)'", None),
    # aggregates of nothing
    ("find f: COUNT(q(x, y) BY x) < 2", 9, "'x' may take in 'COUNT(q(x, y) BY x) < 2'",
     "COUNT of nothing is 0, so it can hold for any x without rows: bind x by another part"),
    ("find f: COUNT(q(x, y) BY x) = 0", 9, "'x' may take in", "COUNT of nothing is 0"),
    ("find f: SUM(y OVER q(x, y) BY x) <= 9", 9, "'x' may take in", "SUM of nothing is 0"),
    ("find f: t = COUNT(q(x, y) BY x)", 9, "'x' may take in", "COUNT of nothing is 0"),
    ("find f: COUNT(q(x, y) BY x) > t AND p(t)", 9, "'x' may take in", None),
    ("find f: COUNT(q(x, y) BY x) = COUNT(q(y, x) BY x)", 9, "'x' may take in", None),
    ("find f: r AND NOT COUNT(q(x, y) BY x) > 3", 15, "'x' may take in", "p(x) AND"),
    ("policy f: COUNT(q(x, y) BY x) > 2", 11, "'x' may take in", "p(x) AND"),
    # scopes
    ("find f: p(x) AND EXISTS x. p(x)", 18, "the variable x has a meaning here already", None),
    ("find f: EXISTS x. p(x) AND (FORALL x. p(x))", 29, "the variable x has a meaning", None),
    ("find f: SUM(a OVER q(u, a) BY u) > 2 AND p(a)", 9, "a belongs to the aggregate",
     "write BY u, a"),
    ("find f: SUM(z OVER q(u, a) BY u) > 2", 9, "its formula has no free variable z", "u, a"),
    ("find f: COUNT(q(u, a) BY v) > 2", 9, "its formula has no free variable v", None),
    ("let l(x) = EXISTS x. p(x) AND q(x, x)\nfind f: r AND p(x)", None, None, None),
    # futures
    ("policy f: p(x) IMPLIES EVENTUALLY q(x, _)", 24, "EVENTUALLY looks ahead without bound",
     "EVENTUALLY[0,b]"),
    ("policy f: FORALL x. ALWAYS NOT p(x)", 21, "ALWAYS looks ahead", "leave ALWAYS out"),
    ("policy f: ALWAYS FORALL x. NOT (p(x) UNTIL q(x, _))", 33, "UNTIL looks ahead", None),
    ("find f: COUNT(EVENTUALLY p(x)) > 1 AND EXISTS u. p(u)", 15, "EVENTUALLY looks", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "column", "message", "hint"), REFUSED)
def test_refused(text: str, column: int | None, message: str | None, hint: str | None) -> None:
    if message is None:
        with pytest.raises(ValueError, match="parameter x is not in its formula"):
            parse_policies(text)
        return
    analysis = analyse(parse_policies(text))
    assert analysis.errors
    found = analysis.errors[0]
    assert message in found.message
    assert (hint or "") in (found.hint or "")
    assert found.column == column


def test_the_whole_error() -> None:
    text = """\
atom manager(g)
atom publish(user, file)
policy leak: FORALL u, f.
    publish(u, f) IMPLIES EXISTS g. NOT approve(g, f)
"""
    (error,) = analyse(parse_policies(text, "leak.mtl")).errors
    assert (
        str(error)
        == """\
leak.mtl:4:37: policy leak: nothing says which values 'g' may take in 'NOT approve(g, f)'
        publish(u, f) IMPLIES EXISTS g. NOT approve(g, f)
                                        ^
hint: bind g first, as in manager(g) AND NOT approve(g, f); or did you mean NOT EXISTS g. \
approve(g, f)?"""
    )


@pytest.mark.parametrize(
    ("refused", "mended"),
    [
        ("publish(u, f) IMPLIES ONCE approve(m, f)", "publish(u, f) IMPLIES ONCE approve(_, f)"),
        (
            "publish(u, f) IMPLIES EXISTS g. NOT approve(g, f)",
            "publish(u, f) IMPLIES EXISTS g. manager(g) AND NOT approve(g, f)",
        ),
        (
            "NOT (approve(m, f) OR owner(m))",
            "NOT ((EXISTS f. approve(m, f)) OR owner(m))",
        ),
        ("NOT (x > 3 AND NOT pay(x))", "NOT (amount(x) AND x > 3 AND NOT pay(x))"),
        (
            "NOT ONCE (approve(m, f) AND NOT m = u)",
            "NOT (user(u) AND ONCE (approve(m, f) AND NOT m = u))",
        ),
        (
            "request(u) IMPLIES EVENTUALLY answer(u)",
            "request(u) IMPLIES EVENTUALLY[0,1h] answer(u)",
        ),
        (
            "ALWAYS FORALL u. (publish(u) IMPLIES known(u))",
            "FORALL u. publish(u) IMPLIES known(u)",
        ),
        ("q(u) AND EXISTS u. known(u)", "NOT q(u) OR EXISTS v. known(v)"),
        ("q(u) IMPLIES COUNT(p(u, x)) > 3", "q(u) IMPLIES COUNT(p(u, x) BY u) > 3"),
    ],
)
def test_mends_that_the_documentation_names(refused: str, mended: str) -> None:
    unit = "unit s\natom amount(x: int)\n"
    assert analyse(parse_policies(f"{unit}policy p: {refused}\n")).errors
    assert not analyse(parse_policies(f"{unit}policy p: {mended}\n")).errors


def test_a_variable_named_like_a_column_gets_a_hint() -> None:
    text = 'atom publish(user, file) = what = "publish"\nfind f: publish(u, _) AND user = 500 + x'
    (error,) = analyse(parse_policies(text)).errors
    assert "row.user" in (error.hint or "")


def test_a_variable_named_like_a_stream_gets_a_hint() -> None:
    text = "stream s = count[0,5](r)\nfind f: p(x) AND s > 3"
    (error,) = analyse(parse_policies(text)).errors
    assert "a stream cannot be used beside variables" in (error.hint or "")


def test_the_order_of_a_plan() -> None:
    file = parse_policies("find f: (ONCE[0,5] q(x, y)) AND y > 3 AND p(x) AND NOT q(x, x)")
    (policy,) = analyse(file).policies
    assert [(str(step.formula), step.binds) for step in policy.binding.steps] == [
        ("p(x)", ("x",)),
        ("NOT q(x, x)", ()),
        ("ONCE[0,5] q(x, y)", ("y",)),
        ("y > 3", ()),
    ]


def test_a_filter_waits_for_its_variables() -> None:
    file = parse_policies("find f: (HISTORICALLY[0,5] q(x, x)) AND p(x)")
    (policy,) = analyse(file).policies
    assert [str(step.formula) for step in policy.binding.steps] == [
        "p(x)",
        "HISTORICALLY[0,5] q(x, x)",
    ]


def test_reported_variables_come_in_the_order_of_the_quantifiers() -> None:
    file = parse_policies("policy f: FORALL y. FORALL x. q(x, y) AND p(z) IMPLIES p(y)")
    (policy,) = analyse(file).policies
    assert policy.reported == ("y", "x", "z")


def test_deep_formulas() -> None:
    depth = 1000
    text = "find f: " + "NOT (p(v) AND NOT EXISTS u. q(u, v) AND " * depth + "p(v)" + ")" * depth
    formula = parse_policies(text + " AND p(v)").policies[0].formula
    assert bindings(formula).error is None
    terms = "(" * depth + "x" + " + 1)" * depth
    analysis = analyse(parse_policies(f"find f: p(x) AND {terms} = y"))
    assert analysis.errors == ()
    assert {name: kind.name for name, kind in analysis.policies[0].kinds.items()} == {
        "x": "integer",
        "y": "integer",
    }


def test_lets_mean_their_formulas() -> None:
    file = parse_policies("let l(a, b) = q(b, a) AND NOT p(a)\nfind f: l(x, y)")
    lets = {name: Let(names, file.lets[name]) for name, names in file.parameters.items()}
    log = Log(((0, {"q": [(1, 2), (1, 3)], "p": [(3,)]}),))
    (found,) = answers(file.policies[0].formula, log, ["x", "y"], lets=lets)
    assert found.satisfying == {(2, 1)}
    definitions = {
        name: Definition(names, file.lets[name]) for name, names in file.parameters.items()
    }
    formula = file.policies[0].formula
    assert BindingAnalysis(definitions).analyse(formula, ("x", "y")).error is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("atom p(x: int)\nfind f: p(u)", {"u": "integer"}),
        ('find f: p(u, 1)\nfind g: p("a", v)', {"u": "text"}),
        ("find f: p(u) AND u + 1 > 2", {"u": "integer"}),
        ("find f: p(u) AND u > 2.5", {"u": "float"}),
        ("find f: p(u) AND u = v AND v = 3", {"u": "integer", "v": "integer"}),
        ("find f: p(u) AND length(u) = v", {"u": "text", "v": "integer"}),
        ("find f: q(u, _) AND SUM(a OVER q(u, a) BY u) = t", {"u": "text", "t": "integer"}),
        ("find f: COUNT(q(u, a) BY u) = t AND t > 0", {"u": "text", "t": "integer"}),
        ("find f: point(i) AND time(t)", {"i": "integer", "t": "integer"}),
        ("find f: p(u)", {"u": "text"}),
        ("let l(x) = p(x)\natom p(x: bool)\nfind f: l(u)", {"u": "boolean"}),
        ("policy f: FORALL u. p(u) IMPLIES u > 3", {"u": "integer"}),
    ],
)
def test_types(text: str, expected: dict[str, str]) -> None:
    analysis = analyse(parse_policies(text))
    assert analysis.errors == ()
    found = {name: kind.name for name, kind in analysis.policies[0].kinds.items()}
    assert expected.items() <= found.items()


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("atom p(x: int)\nfind f: p(u) AND q(u) AND q(v) AND startswith(v, \"a\")", 2, 47,
         "startswith takes a text"),
        ("find f: p(1)\n  AND p(\"a\")", 2, 9, "a text here, but an integer in line 1"),
        ("atom p(x: int)\natom q(x: text)\nfind f: p(u) AND q(u)", 3, 20,
         "the variable u is"),
        ("find f: p(x) AND q(y) AND x < y", 1, 27, "nothing says of which type x and y are"),
        ("find f: p(x) AND x = 1 AND x = \"a\"", 1, 32, None),
    ],
)  # fmt: skip
def test_clashes_of_types(text: str, line: int, column: int, message: str | None) -> None:
    analysis = analyse(parse_policies(text))
    assert analysis.errors
    if message is not None:
        assert message in analysis.errors[0].message
        assert (analysis.errors[0].line, analysis.errors[0].column) == (line, column)
