"""Policy files: declarations, names, units, and errors with their place in the file."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mtlmon
from mtlmon.errors import FormulaError, PolicyError, UnitError
from mtlmon.policy import PolicyFile, check_policies, declares, parse_policies
from tests.syntax.strategies import formulas

_FILE = """\
# roads "and comments
unit s
/* let no = declaration
   atom neither = 1 */
atom overspeed = speed > 120   # a remark "
  and not startswith(plate, "TE#ST /*")

let warned = ONCE[0,5m] (
    warning OR "let x = y
policy z: q")
  let "two words"   =late AND warned
policy response: request IMPLIES
    EVENTUALLY[0,5s] "two words"
policy "the limit": overspeed IMPLIES warned
atom unused = `a"b` is null
"""


def _summary(file: PolicyFile) -> list[tuple[str | None, str]]:
    return [(policy.name, str(policy.formula)) for policy in file.policies]


def test_a_file_with_everything() -> None:
    file = parse_policies(_FILE, "roads.mtl")
    assert file.unit == "s"
    assert list(file.lets) == ["warned", "two words"]
    assert {name: str(predicate) for name, predicate in file.atoms.items()} == {
        "overspeed": 'speed > 120 and not startswith(plate, "TE#ST /*")',
        "unused": '`a"b` is null',
    }
    warned = 'ONCE[0,300] (warning OR "let x = y\npolicy z: q")'
    assert [(policy.name, policy.formula) for policy in file.policies] == [
        ("response", mtlmon.parse(f"request IMPLIES EVENTUALLY[0,5] (late AND {warned})")),
        ("the limit", mtlmon.parse(f"overspeed IMPLIES {warned}")),
    ]
    assert file.columns == ("speed", "plate")
    assert set(file.atoms_needed) == {
        "request",
        "late",
        "warning",
        "let x = y\npolicy z: q",
        "overspeed",
    }
    assert set(file.log_atoms) == set(file.atoms_needed) - {"overspeed"}
    assert list(file.predicates) == ["overspeed"]


def test_shared_subformulas_are_one_object() -> None:
    file = parse_policies("let a = ONCE p\npolicy x: a AND q\npolicy y: NOT a")
    assert file.policies[0].formula.operands[0] is file.lets["a"]
    assert file.policies[1].formula.operands[0] is file.lets["a"]
    assert str(file.policies[1].written) == "NOT a"


def test_lets_that_double_each_time_stay_small() -> None:
    lines = ["let a0 = p"]
    lines += [f"let a{i + 1} = a{i} AND ONCE[0,{i}] a{i}" for i in range(5000)]
    file = parse_policies("\n".join([*lines, "policy x: a5000"]))
    assert file.atoms_needed == ("p",)


@given(formulas())
@settings(max_examples=100)
def test_a_formula_alone_is_what_it_was(formula: mtlmon.Formula) -> None:
    text = str(formula)
    file = parse_policies(text)
    assert not declares(text)
    assert _summary(file) == [(None, text)]
    assert file.policies[0].formula == formula
    assert (file.unit, file.lets, file.atoms) == (None, {}, {})


@pytest.mark.parametrize(
    "text",
    [
        "atom IMPLIES b",
        "let -> b",
        "policy\nAND let",
        "unit",
        "unit\n S q",
        "q AND\nunit S\nlet",
        "let => b",
        "unit AND # ms\n q",
        "/* let x = y */ p",
        "p # \nAND q",
        '"\nlet x = y"',
    ],
)
def test_formulas_that_look_like_declarations(text: str) -> None:
    assert not declares(text)
    assert parse_policies(text).policies[0].formula == mtlmon.parse(text)


@pytest.mark.parametrize(
    "text", ["", "# nothing", "p q", "ONCE[0,5s] p", "let let", "atom x 5", "p )"]
)
def test_errors_of_a_formula_alone_are_what_they_were(text: str) -> None:
    with pytest.raises(FormulaError) as before:
        mtlmon.parse(text, source="f.mtl")
    with pytest.raises(FormulaError) as now:
        parse_policies(text, "f.mtl")
    assert str(now.value) == str(before.value)
    assert type(now.value) is FormulaError


def test_a_formula_without_a_name() -> None:
    for text in ["unit s\nONCE[0,1m] p", "ONCE[0,1m] p\nunit s", "ONCE[0,1m] a\nunit s\nlet b = c"]:
        file = parse_policies(text)
        assert [policy.name for policy in file.policies] == [None]
        assert str(file.policies[0].formula).startswith("ONCE[0,60] ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("let a = b\na", "b"),
        ("unit ms\nlet a = ONCE[0,5s] p\n\n# late\nq IMPLIES a\n", "q IMPLIES ONCE[0,5000] p"),
        ("let a = p\n  AND q\nNOT a", "NOT (p AND q)"),
        ("let a = p\n(a OR q) IMPLIES r", "p OR q IMPLIES r"),
        ("atom a = b > 3\n  and c\na UNTIL d", "a UNTIL d"),
        ("let a = p\natom b = c\nlet d = a\nb AND d", "b AND p"),
    ],
)
def test_a_formula_without_a_name_stands_behind_the_last_declaration(
    text: str, expected: str
) -> None:
    (policy,) = parse_policies(text).policies
    assert (policy.name, str(policy.formula)) == (None, expected)


def test_units() -> None:
    assert parse_policies("policy x: ONCE[0,5s] p", unit="ms").unit == "ms"
    assert parse_policies("unit ms\nONCE[0,5s] p", unit="ms").unit == "ms"
    assert parse_policies("unit ms\nONCE[0,5s] p", unit="later").unit == "ms"
    later = parse_policies("policy x: ONCE[0,5s] p", unit="later")
    assert str(later.policies[0].formula.in_unit("ms")) == "ONCE[0,5000] p"
    with pytest.raises(UnitError):
        parse_policies("p", unit="hours")
    with pytest.raises(PolicyError, match="the file declares the unit ms, but s was asked for"):
        parse_policies("unit ms\np", unit="s")


def test_names_that_formulas_need_quoted_work_as_let() -> None:
    file = parse_policies('let "S" = p\nlet a.b\' = q\npolicy x: "S" AND a.b\'')
    assert _summary(file) == [("x", "p AND q")]


def test_a_let_hides_an_event_of_the_log_and_columns_do_not_meet_lets() -> None:
    file = parse_policies("let speed = p\natom fast = speed > 1\npolicy x: fast AND speed")
    assert _summary(file) == [("x", "fast AND p")]
    assert file.columns == ("speed",)


_TEXTS = {
    "unknown unit": ("unit sec\np", 1, 6, "'sec' is not a unit of time", "write unit s"),
    "second unit": ("unit s\nunit s\np", 2, 6, "the unit is declared in line 1 already", ""),
    "operator": ("let S = p\npolicy x: q", 1, 5, "S is an operator", 'is written "S"'),
    "dash": ("let a-b = p\npolicy x: q", 1, 5, "a-b is not a name", 'is written "a-b"'),
    "backquotes": ("atom `x` = y\npolicy x: q", 1, 6, "`x` is not a name", 'is written "x"'),
    "empty name": ('let "" = p\npolicy x: q', 1, 5, 'the atom "" has no name', ""),
    "colon": ("let a: p\npolicy x: q", 1, 6, "expected '=' after the name, found ':'", "let a ="),
    "equals": ("policy x = q", 1, 10, "expected ':' after the name, found '='", "policy x:"),
    "twice": ("let a = p\natom a = x\npolicy x: q", 2, 6, "a is declared in line 1 already", ""),
    "policy twice": ("policy x: p\npolicy x: q", 2, 8, "there is a policy x already", "another"),
    "itself": ("let a = b OR a\npolicy x: a", 1, 14, "a is declared by itself", ""),
    "cycle": ("let a = b\nlet b = a\npolicy x: q", 1, 9, "b is declared further below", "let b up"),
    "later": ("policy x:\n  p AND a\nlet a = b", 2, 9, "a is declared further below", "let a up"),
    "none": ("let a = b\n", 2, 1, "there is no policy", "policy NAME: FORMULA"),
    "two bare": ("p\nunit s\nq", 3, 1, "a second formula", "policy NAME:"),
    "bare beside": ("p\npolicy x: q", 1, 1, "a formula without a name next to", "policy NAME:"),
    "bare behind a policy": (
        "policy x: b\na",
        2,
        1,
        "expected an operator or the end",
        "continues up to",
    ),
    "bare twice": (
        "let a = b\na\nc",
        3,
        1,
        "expected an operator or the end, found 'c'",
        "join two formulas",
    ),
    "bare in line": (
        "let a = b\nlet c = b a",
        2,
        11,
        "expected an operator or the end",
        "join two formulas",
    ),
    "empty": ("policy x: # nothing\npolicy y: p", 1, 10, "expected a formula, found the end", ""),
    "empty atom": ("atom x =\npolicy y: p", 1, 9, "expected a predicate, found the end", ""),
    "formula": ("policy x: p\npolicy y:\n  p q", 3, 5, "expected an operator or the end", "AND"),
    "unit": ("policy x: ONCE[0,5s] p", 1, 18, "5s has a unit, but the unit of the stream's", ""),
    "predicate": ('policy x: p\natom p = "a" > 1', 2, 10, "atom p: '>' compares the text", ""),
    "quote": ('policy x: "p\npolicy y: q', 1, 11, "this double quote is never closed", ""),
    "comment": ("policy x: p /*\npolicy y: q", 1, 13, "this comment never ends", ""),
    "double sign": ("atom x == 5\npolicy y: x", 1, 9, "expected a value, found '='", "equality"),
}


@pytest.mark.parametrize("case", _TEXTS)
def test_errors(case: str) -> None:
    text, line, column, message, hint = _TEXTS[case]
    with pytest.raises(FormulaError) as raised:
        parse_policies(text, "f.mtl")
    error = raised.value
    assert (error.line, error.column) == (line, column)
    assert error.message.startswith(message)
    assert hint in (error.hint or "")
    shown = text.split("\n")[line - 1]
    report = f"f.mtl:{line}:{column}: {error.message}\n"
    assert str(error).startswith(report)
    if shown.strip():
        assert f"\n    {shown}\n    {' ' * (column - 1)}^" in str(error)


def test_all_errors_are_found() -> None:
    text = "unit s\nlet a = p q\natom b = 1 +\nlet c = c\npolicy x: )\npolicy y: p\npolicy y: q\n"
    file, errors = check_policies(text)
    places = [(error.line, error.column) for error in errors]
    assert places == [(2, 11), (3, 13), (4, 9), (5, 11), (7, 8)]
    assert _summary(file) == [("y", "p")]
    again = pickle.loads(pickle.dumps(errors))
    assert list(map(str, again)) == list(map(str, errors))


def test_files_and_policies_are_pickled() -> None:
    file = parse_policies(_FILE)
    again: PolicyFile = pickle.loads(pickle.dumps(file))
    assert _summary(again) == _summary(file)
    assert again.atoms == file.atoms
    assert again.predicates["overspeed"].name == "overspeed"


def test_many_declarations_take_linear_time() -> None:
    lines = [f"let a{i} = p{i} AND ONCE[0,{i}] q\natom b{i} = x > {i}" for i in range(3000)]
    file = parse_policies("\n".join([*lines, "policy x: a7 AND b9"]))
    assert file.columns == ("x",)


_PIECES = ["let ", "atom ", "policy ", "unit s", "unit", "a", "b", '"', "`", "=", ":", "\n", "\n"]
_PIECES += [" ", "AND", "ONCE[0,5s]", "(", ")", "/*", "*/", "#", "in", "(1, 2)", "not", "is null"]
_PIECES += ["1", "1.5", "\\", "'", "-", ">", "&&", "startswith(", ",", "\r", "\t", "é", "\x00"]


@given(st.lists(st.sampled_from(_PIECES), max_size=25).map("".join))
def test_any_text_is_read_or_its_errors_have_a_place(text: str) -> None:
    file, errors = check_policies(text, "f.mtl")
    assert errors or file.policies
    lines = text.split("\n")
    for error in errors:
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        assert str(error).startswith(f"f.mtl:{error.line}:{error.column}: ")
    if not errors:
        again = parse_policies(text)
        assert _summary(again) == _summary(file)
