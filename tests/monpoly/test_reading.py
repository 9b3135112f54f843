"""What is not in MonPoly's language, or not supported, is an error that says where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlmon.errors import MtlmonError, PolicyError
from mtlmon.monpoly import read_policy, read_signature
from mtlmon.relational import analyse
from tests.monpoly.own_cases import CASES, SIGNATURE

PARSED = [
    ("p(x) AND r() OR p(x)", "p(x) AND r OR p(x)"),
    ("p(x) OR r() AND p(x)", "p(x) OR r AND p(x)"),
    ("p(x) IMPLIES r() EQUIV r()", "p(x) IMPLIES r EQUIV r"),
    ("r() AND ONCE r() IMPLIES r()", "r AND ONCE (r IMPLIES r)"),
    ("r() AND ONCE r() SINCE r()", "(r AND ONCE r) SINCE r"),
    ("NOT ONCE r() AND r()", "NOT ONCE (r AND r)"),
    ("EXISTS x. p(x) SINCE r()", "(EXISTS x. p(x)) SINCE r"),
    ("ONCE EXISTS x. p(x) EQUIV r()", "ONCE EXISTS x. (p(x) EQUIV r)"),
    ("r() SINCE r() UNTIL r()", "r SINCE (r UNTIL r)"),
    ("ONCE (0 < x)", "ONCE 0 < x"),
    ("ONCE (3,5] r()", "ONCE[4,5] r"),
    ("ONCE [2d,*) r()", "ONCE[172800,*) r"),
    ("p(x) AND y = x - 1 + 2 * -3", "p(x) AND y = x - 1 + 2 * -3"),
    ("p(x) AND y = x * 3 MOD 2 + 1", "p(x) AND y = x * (3 MOD (2 + 1))"),
    ("p(x) AND y = - x MOD 2", "p(x) AND y = -(x MOD 2)"),
    ("p(x) AND y = x / 2", "p(x) AND y = x / 2"),
    ("f(x) AND y = x / 2.5", "f(x) AND y = x / 2.5"),
    ("(x + 1) * 2 = 4", "(x + 1) * 2 = 4"),
    ("((p(x)))", "p(x)"),
    ("tp(i)", "point(i)"),
    ("tpts(i, t)", "point(i) AND time(t)"),
    ("q(_, _)", "q(_, _)"),
    ("q(_a, _a)", "EXISTS _a. q(_a, _a)"),
    ("p(x) AND (EXISTS x. p(x))", "p(x) AND EXISTS x 2. p(`x 2`)"),
    ("EXISTS x. p(x) AND EXISTS x. p(x)", "EXISTS x. p(x) AND EXISTS x 2. p(`x 2`)"),
    ("x_2 = 1 AND p(x) AND (EXISTS x. p(x))", "x_2 = 1 AND p(x) AND EXISTS x 2. p(`x 2`)"),
    ("n <- CNT x p(x)", "n = COUNT(p(x))"),
    ("x <- SUM x; y q(x, y)", "x = SUM(`x 2` OVER q(`x 2`, y) BY y)"),
    ("m <- SUM x p(x)", "m = SUM(x OVER p(x))"),
    ("m <- MAX x p(x)", "m = MAX(x OVER p(x)) OR m = 0 AND NOT EXISTS x. p(x)"),
    (
        "m <- MIN x f(x)",
        "m = MIN(x OVER f(x)) OR m = infinity AND NOT EXISTS x. f(x)",
    ),
    ("m <- MIN x; y q(x, y)", "m = MIN(x OVER q(x, y) BY y)"),
    ("x > 1 AND p(x)", "x > 1 AND p(x)"),
    ("p(x)# the end", "p(x)"),
    ("(* a *) p(x) (* b\n *)", "p(x)"),
    ("x-1 = 2", "`x-1` = 2"),
    ("LET r() = p(1) IN r() AND r()", "p(1) AND p(1)"),
    ("LET p(x) = q(x, x) IN p(y)", "p'2(y)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PARSED)
def test_parsed(text: str, expected: str) -> None:
    policy = read_policy(text, read_signature(SIGNATURE))
    assert str(policy.file.policies[0].formula) == expected


REFUSED = [
    ("", 1, "expected a formula or a value, not the end", None),
    ("p(x", 4, "expected ',' or ')', not the end", None),
    ("p(x) AND", 9, "expected a formula or a value, not the end", None),
    ("p(x) p(x)", 6, "expected an operator, not 'p'", None),
    ("p(x) AND x -1 = 2", 12, "expected an operator, not '-1'", "write a blank behind the minus"),
    ("1 < x < 3", 7, "expected an operator, not '<'", "comparisons do not chain"),
    ("p(x) AND x", 10, "this is a value, not true or false", "an atom has parentheses: x()"),
    ("p(x) AND 3", 10, "this is a value, not true or false", "compare it"),
    ("(p(x)) + 1 = 2", 1, "this is a formula, not a value", None),
    ("x = (p(x) AND r())", 5, "this is a formula, not a value", None),
    ("p(x) = 3", 1, "this is a formula, not a value", None),
    ("EXISTS . p(x)", 8, "expected a name, not '.'", "a quantifier takes variables"),
    ("EXISTS x p(x)", 10, "expected '.', not 'p'", "ends with a point"),
    ("n <- NUM x p(x)", 6, "expected an aggregate, not 'NUM'", "the aggregates are CNT"),
    ("n <- CNT y p(x)", 10, "has no free variable y", "its free variables are x"),
    ("n <- CNT x; y p(x)", 13, "has no free variable y", None),
    ("LET a(x) = p(y) IN a(x)", 7, "the parameter x is not free in the definition", None),
    ("LET a(x) = q(x, y) IN a(x)", 5, "the variable y is not a parameter of a", "EXISTS y. ..."),
    ("LET a(1) = p(1) IN a(1)", 7, "a parameter of a LET is a variable", None),
    ("LET a(x, x) = p(x) IN a(1, 1)", 10, "the parameter x is named twice", None),
    ("LET a(x) = p(x) a(x)", 17, "expected 'IN', not 'a'", None),
    ("LET a(x) = a(x) IN a(x)", 12, "the signature has no relation a", None),
    ("P(x)", 1, "the signature has no relation P", "did you mean p?"),
    ("p(x, y)", 1, "p has one argument, not 2", None),
    ("r(x)", 1, "r has no arguments, not 1", None),
    ("q()", 1, "q has 2 arguments, not none", None),
    ("p(x) AND _ = 3", 10, "expected a formula or a value, not '_'", "an argument of a relation"),
    ("ONCE[3,2] r()", 5, "the interval [3,2] is empty", None),
    ("ONCE[3,3) r()", 5, "the interval [3,3) is empty", None),
    ("ONCE(0,1) r()", 5, "the interval (0,1) is empty", None),
    ("ONCE[-1,2] r()", 6, "a bound is not negative", None),
    ("ONCE[1,2w] r()", 8, "there is no unit w", "the units are s, m, h, d"),
    ("ONCE[1,2 r()", 10, "expected ']' or ')', not 'r'", None),
    ("ONCE[1,x] r()", 8, "expected a bound, not 'x'", None),
    (f"ONCE[0,{2**63}] r()", 8, "a bound is at most", None),
    (f"ONCE[0,{10**30}d] r()", 8, "a bound is at most", None),
    (f"x = {2**63}", 5, "does not fit in 64 bits", None),
    ('s(x) AND x = "a', 14, "this text does not end", None),
    ("p(x) (* a", 6, "this comment does not end", None),
    ("p(x) & r()", 6, "this character is not part of the language", None),
    (r's(x) AND x MATCHES r"\(a"', 20, "this is not a pattern", None),
    (r's(x) AND x MATCHES r"[a"', 20, "a bracket is not closed", None),
    # types
    ("p(x) AND s(x)", 12, "x is of type int, not string", "convert it"),
    ("p(x) AND x = 1.5", 14, "1.5 is of type float, not int", "convert it: f2i(...)"),
    ("p(x) AND f(y) AND x < y", 23, "y is of type float, not int", None),
    ('p(x) AND y = x + "a"', 18, '"a" is of type string, not int', None),
    ("f(x) AND y = x MOD 2", 14, "x is of type float, not int", None),
    ("p(x) AND y = i2s(f2i(x))", 22, "x is of type int, not float", None),
    ("s(x) AND x MATCHES \"a\"", 20, '"a" is of type string, not regexp', "s2r"),
    ("m <- AVG x s(x)", 14, "x is of type int or float, not string", None),
    ("LET a(x) = x = x AND p(y) IN a(1)", 5, "the variable y is not a parameter", None),
    ('LET a(x) = x = x IN p(y) AND a(y) AND a("b")', 41, '"b" is of type string, not int', None),
    # not supported
    ("LETPAST a(x) = p(y) IN a(x)", 11, "the parameter x is not free in the definition", None),
    ("LETPAST a(x) = a(x, x) IN a(x)", 16, "a has one argument, not 2", None),
    ("LETPAST a(x) = p(x) a(x)", 21, "expected 'IN', not 'a'", "a LETPAST goes on with IN"),
    ('LETPAST a(x) = p(x) OR PREVIOUS a("b") IN a(x)', 35, '"b" is of type string, not int', None),
    ("|> r()", 1, "matching of the future is not supported", None),
    ("MATCHP r()", 1, "matching of the past is not supported", None),
    ("p(x) AND x.y = 3", 11, "records are not supported", "an argument for each field"),
    ("r() ?", 5, "regular expressions over time are not supported", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "column", "message", "hint"), REFUSED)
def test_refused(text: str, column: int, message: str, hint: str | None) -> None:
    with pytest.raises(PolicyError) as caught:
        read_policy(text, read_signature(SIGNATURE))
    assert message in caught.value.message
    assert (hint or "") in (caught.value.hint or "")
    assert (caught.value.line, caught.value.column) == (1, column)


def test_places_are_those_of_the_file() -> None:
    with pytest.raises(PolicyError) as caught:
        read_policy("p(x)\n AND q(x)", read_signature(SIGNATURE), "a.mfotl")
    assert (
        str(caught.value)
        == """\
a.mfotl:2:6: q has 2 arguments, not 1
     AND q(x)
         ^"""
    )


def test_formulas_can_be_deep() -> None:
    depth = 5000
    text = "(" * depth + "NOT " * depth + "r()" + ")" * depth
    assert read_policy(text, read_signature(SIGNATURE)).columns == ()
    text = "p(x) AND " + "(" * depth + "x" + " + 1)" * depth + " = y"
    assert analyse(read_policy(text, read_signature(SIGNATURE)).file).errors == ()
    text = "LET r() = NOT r() IN " * 200 + "r()"
    assert read_policy(text, read_signature(SIGNATURE)).columns == ()


def test_the_formulas_of_negated_policies_do_not_begin_with_forall() -> None:
    policy = read_policy("FORALL x. p(x) IMPLIES r()", read_signature(SIGNATURE), negate=True)
    (stated,) = policy.file.policies
    assert not stated.is_find
    assert str(stated.formula) == "NOT EXISTS x. NOT (p(x) IMPLIES r)"


@given(st.text(alphabet='pqr(x, y)ANDOR NOT EXISTS.=<-+*/0123"_;[]LETINONCSUM\n', max_size=30))
def test_every_other_text_is_refused_with_an_error(text: str) -> None:
    try:
        read_policy(text, read_signature(SIGNATURE))
    except MtlmonError as error:
        assert isinstance(error, PolicyError)


@given(st.data())
def test_damaged_formulas_are_refused_with_an_error(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([case.formula for case in CASES.values()]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    try:
        read_policy(text[:start] + text[end:], read_signature(SIGNATURE))
    except MtlmonError as error:
        assert isinstance(error, PolicyError)


BAD_SIGNATURES = [
    ("p(x: int) p(int)", 11, "p is declared twice"),
    ("tp(int)", 1, "tp is built in"),
    ("p(x: integer)", 6, "there is no type integer"),
    ("p(bool)", 3, "there is no type bool"),
    ("p(x: int", 9, "expected ')', not the end"),
    ("p(x: )", 6, "expected a type"),
    ("p(,)", 3, "expected an argument"),
    ("p", 2, "expected '(', not the end"),
    ("(int)", 1, "expected the name of a relation"),
    ("Client {name: string}", 1, "records are not supported"),
    ("event p {name: string}", 1, "records are not supported"),
]


@pytest.mark.parametrize(("text", "column", "message"), BAD_SIGNATURES)
def test_bad_signatures(text: str, column: int, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read_signature(text, "a.sig")
    assert caught.value.message == message
    assert (caught.value.source, caught.value.line, caught.value.column) == ("a.sig", 1, column)


def test_a_signature() -> None:
    text = "# all relations\np (x :int,string) (* more *) q()\n\tclosed_at(a: float, regexp)"
    assert read_signature(text) == {
        "p": ("int", "string"),
        "q": (),
        "closed_at": ("float", "regexp"),
    }


def test_relations_can_be_called_like_ours_that_are_built_in() -> None:
    signature = read_signature("point(x: int) time(x: string)")
    policy = read_policy("point(x) AND time(y) AND tp(i) AND ts(t)", signature)
    assert policy.relations == {"point": "point'", "time": "time'"}
    assert policy.columns == (("x", "int"), ("y", "string"), ("i", "int"), ("t", "int"))
