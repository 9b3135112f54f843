"""Policy files: declarations, names, units, and errors with their place in the file."""

from __future__ import annotations

import pickle
from fractions import Fraction

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
        "q ->\nunit S\nlet",
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
    "unknown unit": ("unit secs\np", 1, 6, "'secs' is not a unit of time", "write unit s"),
    "second unit": ("unit s\nunit s\np", 2, 6, "the unit is declared in line 1 already", ""),
    "operator": ("let S = p\npolicy x: q", 1, 5, "S is an operator", 'is written "S"'),
    "dash": ("let a-b = p\npolicy x: q", 1, 5, "a-b is not a name", 'is written "a-b"'),
    "backquotes": ("atom `x` = y\npolicy x: q", 1, 6, "`x` is not a name", 'is written "x"'),
    "empty name": ('let "" = p\npolicy x: q', 1, 5, 'the atom "" has no name', ""),
    "colon": ("let a: p\npolicy x: q", 1, 6, "expected '=' after the name, found ':'", "let a ="),
    "equals": ("policy x = q", 1, 10, "expected ':' after the name, found '='", "policy x:"),
    "twice": ("let a = p\natom a = x\npolicy x: q", 2, 6, "a is declared in line 1 already", ""),
    "policy twice": ("policy x: p\npolicy x: q", 2, 8, "there is a policy x already", "another"),
    "itself": ("let a = b OR a\npolicy x: a", 1, 14, "a depends on itself", ""),
    "cycle": (
        "let a = b\nlet b = a\npolicy x: q",
        2,
        9,
        "a depends on itself, by way of b",
        "",
    ),
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


_MORE_TEXTS = {
    "no colon": ('policy x "text" p', 1, 8, "expected ':' after this", "policy x ... :"),
    "clause": ("policy x per a b: p", 1, 16, "expected ':'", None),
    "order": ('policy x per a "text": p', 1, 16, "expected ':'", None),
    "no rows": (
        "policy x on row: p",
        1,
        13,
        "expected rows, every or changes of, found 'row'",
        "every 10s",
    ),
    "changes": ("policy x on changes r: p", 1, 21, "expected of, found 'r'", "changes of sessions"),
    "no relation": ("policy x on changes of r: p", 1, 24, "there is no relation r", "declare it"),
    "another relation": (
        "relation rs = rows\npolicy x on changes of r: p",
        2,
        24,
        "there is no relation r",
        "did you mean rs?",
    ),
    "changes of a stream": (
        "stream r = x\npolicy x on changes of r: p",
        2,
        24,
        "r is a stream, and only relations change",
        "every",
    ),
    "column at changes": (
        "relation r = rows\npolicy y on changes of r: x > 1",
        2,
        27,
        "policy y is on changes of r, but x is of rows",
        "x.hold()",
    ),
    "atom at changes": (
        "relation r = rows\npolicy y on changes of r: p",
        2,
        27,
        "policy y is on changes of r, but p is of rows",
        "any[0,1m](p)",
    ),
    "ticks at changes": (
        "relation r = rows\nstream s = count[0,5]() every 5\npolicy y on changes of r: s > 1",
        3,
        27,
        "policy y is on changes of r, but s is every 5",
        "s.hold()",
    ),
    "key of changes": (
        "key a\nrelation r = rows select b as b\npolicy y on changes of r: exists r",
        3,
        24,
        "a is not a column of relation r",
        "per none",
    ),
    "variables at changes": (
        "relation r = rows\npolicy y on changes of r: EXISTS v. q(v)",
        2,
        10,
        "policy y has variables",
        "leave out 'on'",
    ),
    "no most": ("policy x at 1%: p", 1, 13, "expected most, found '1'", "at most 1%"),
    "share": ("policy x at most 101%: p", 1, 22, "a share is at most 100%", None),
    "percent": ("policy x at most 1.5: p", 1, 21, "expected '%'", "is whole"),
    "column": (
        "policy x per 5: p",
        1,
        14,
        "expected the name of a column, found '5'",
        "backquotes",
    ),
    "column twice": ("key a, a\np", 1, 8, "the column a is named twice", None),
    "key twice": ("key a\nkey b\np", 2, 5, "key is declared in line 1 already", "one key"),
    "bare text": ("time ts\np", 1, 6, "expected a text in double quotes", 'time "ts"'),
    "zone": ('zone "Mars"\np', 1, 6, 'there is no time zone "Mars"', "Europe/Berlin"),
    "type": ("stream s: number = x\npolicy p: q", 1, 11, "there is no type number", "int, float"),
    "tick of 0": ("policy x on every 0: p", 1, 19, "this length of time is 0", None),
    "tick's unit": ("policy x on every 5s: p", 1, 19, "5s has a unit, but", None),
    "from": (
        "stream s = x from y\npolicy p: q",
        1,
        19,
        "from is for streams with instances",
        "per",
    ),
    "stream's end": (
        "stream s = x foo\npolicy p: q",
        1,
        14,
        "expected an operator or the end",
        None,
    ),
    "assume": ("assume rate < 5\np", 1, 13, "expected '<=', found '<'", "assume rate <= 10/s"),
    "assume's unit": ("assume rate <= 5\np", 1, 17, "expected '/' and a unit of time", None),
    "const": ("const a = b + 1\npolicy p: q", 1, 11, "this is not a constant", "a number"),
    "message": (
        "trigger t: x > 5 message y\n",
        1,
        18,
        "expected an operator or the end, found 'message'",
        "in double quotes",
    ),
}


@pytest.mark.parametrize("case", _MORE_TEXTS)
def test_errors_in_clauses(case: str) -> None:
    text, line, column, message, hint = _MORE_TEXTS[case]
    with pytest.raises(FormulaError) as raised:
        parse_policies(text, "f.mtl")
    error = raised.value
    assert (error.line, error.column) == (line, column)
    assert message in error.message
    assert hint is None or hint in (error.hint or "")


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


def test_streams_and_what_uses_them_are_pickled() -> None:
    file = parse_policies(
        "const limit = 3\nstream fails = count[0,2m](failed, or: 1)\n"
        "stream diff = x.at(-5s) on x > 1.50\n"
        "let hot = fails >= limit\npolicy p: NOT (hot AND any[0,5s](hot)) AND diff in (1, 2)",
        unit="s",
    )
    again: PolicyFile = pickle.loads(pickle.dumps(file))
    assert again.atoms == file.atoms
    for name, stream in file.streams.items():
        assert again.streams[name].expression == stream.expression
        assert again.streams[name].clock == stream.clock
        assert again.streams[name].expression.span == stream.expression.span
    assert again.atoms_needed == file.atoms_needed and again.columns == file.columns


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


_WEB = """\
# what a web server does
unit s
time "at"
event "what"
zone "Europe/Berlin"
key  ip, `user id`
assume rate per key <= 10 / s
assume keys <= 1000
const limit = 8

policy brute_force "8 failures: then a success" per ip:
    (hot AND status = 200) IMPLIES EVENTUALLY[0,30s] locked
policy four_eyes per doc, `user id`: publish IMPLIES ONCE[0,7d] approve
policy whole per none at most 1.5% severity high: publish
policy slow on rows where path = "/a:b": latency < 5   # a comment: nothing
policy alive on every 1min: p99 > 0.5
trigger late per ip: latency > 9 message "{ip} is late"
let hot = fails >= 8 and also
let also = tried
stream fails = count[0,2m](status = 401)
stream p99: float = quantile[0,10m](latency, 0.99) every 1m
stream views = views.last(or: 0) + 1 per viewed as id, 5 until sold = id
"""


def test_a_file_with_everything_of_tables_and_streams() -> None:
    file = parse_policies(_WEB, "web.mtl")
    assert (file.unit, file.time, file.event, file.zone) == ("s", "at", "what", "Europe/Berlin")
    assert file.key == ("ip", "user id")
    assert [(one.subject, one.limit, one.unit) for one in file.assumptions] == [
        ("rate per key", 10, "s"),
        ("keys", 1000, None),
    ]
    policies = {policy.name: policy for policy in file.policies}
    assert list(policies) == ["brute_force", "four_eyes", "whole", "slow", "alive", "late"]
    assert str(policies["brute_force"].formula) == (
        '"fails >= 8" AND tried AND "status = 200" IMPLIES EVENTUALLY[0,30] locked'
    )
    assert policies["brute_force"].text == "8 failures: then a success"
    assert policies["brute_force"].key == ("ip",)
    assert policies["four_eyes"].key == ("doc", "user id")
    assert policies["whole"].key == ()
    assert policies["whole"].tolerance == Fraction(3, 200)
    assert policies["whole"].severity == "high"
    assert policies["slow"].key is None
    assert str(policies["slow"].clock) == 'rows where path = "/a:b"'
    assert str(policies["alive"].clock) == "every 60"
    assert str(policies["late"].formula) == 'NOT "latency > 9"'
    assert policies["late"].message is not None
    message, names, _, _ = policies["late"].message
    assert message.filled(["10.0.0.7"]) == "10.0.0.7 is late"
    assert [str(file.shown[name]) for name in names] == ["ip"]
    assert list(file.streams) == ["fails", "p99", "views"]
    assert str(file.streams["fails"].expression) == "count[0,120](status = 401)"
    assert str(file.streams["p99"].clock) == "every 60"
    assert file.streams["p99"].kind == "float"
    views = file.streams["views"]
    assert [(str(value), name) for value, name in views.per] == [("viewed", "id"), ("5", None)]
    assert str(views.end) == "sold = id"
    assert set(file.predicates) == {
        "fails >= 8",
        "status = 200",
        "latency < 5",
        "latency > 9",
        "p99 > 0.5",
        'path = "/a:b"',
    }


@pytest.mark.parametrize(
    "text",
    [
        "key AND\n p",
        "time OR q",
        "policy AND per",
        "stream AND b",
        "const -> b",
        "assume AND b",
        "key and\n b",
        "trigger IMPLIES policy",
    ],
)
def test_more_formulas_that_look_like_declarations(text: str) -> None:
    assert not declares(text)
    assert parse_policies(text).policies[0].formula == mtlmon.parse(text)


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("status >= 500 IMPLIES EVENTUALLY[0,30] status = 200", None),
        ("NOT x > 5 AND y", 'NOT "x > 5" AND y'),
        ("(a + b) * 2 > c -> d", '"(a + b) * 2 > c" IMPLIES d'),
        ("x<-5 and y", '"x < -5" AND y'),
        ("x<y->z", '"x < y" IMPLIES z'),
        ("x <-> y", "x EQUIV y"),
        ("x => y", "x IMPLIES y"),
        ("`T` > 30 and `user.name` is null", '"T > 30" AND "`user.name` is null"'),
        ("x not in (1, 2) OR x is not null", '"x not in (1, 2)" OR "x is not null"'),
        ('"GET" = method', '"\\"GET\\" = method"'),
        ('startswith(path, "/a") until[0,5] x = 1', None),
        ("any[0,5](x > 3) implies q", '"any[0,5](x > 3)" IMPLIES q'),
        ("ONCE[0,5] (a > 3 OR (b < 2))", 'ONCE[0,5] ("a > 3" OR "b < 2")'),
        ("((a)) AND ((b) > 2)", 'a AND "b > 2"'),
        ("name.hold() AND count()", "name.hold AND count"),
        ("row.speed > 3 AND row.flag", '"row.speed > 3" AND row.flag'),
        ("once (in AND is)", "ONCE (in AND is)"),
    ],
)
def test_conditions_in_formulas(text: str, formula: str | None) -> None:
    file = parse_policies(text)
    (policy,) = file.policies
    if formula is not None:
        assert policy.formula == mtlmon.parse(formula)
    assert parse_policies(text).policies[0].formula == policy.formula
    assert set(file.predicates) == {name for name in policy.formula.atoms if name in file.atoms}


_CONDITION_ERRORS = [
    ("T > 30 AND p", 1, "T is an operator", "in backquotes: `T`"),
    ("x > 5 6", 7, "expected an operator or the end, found '6'", None),
    ("p AND speed >", 14, "expected a value, found the end", None),
    ("status = 200 = 300", 14, "comparisons do not chain", "join two comparisons"),
    ("foo-bar AND q", 4, "'-' in an atom's name needs double quotes", '"foo-bar"'),
    ("f(x) > 3", 1, "there is no function f", None),
    ("ONCE (1 < x)", 9, "expected ',' and the upper bound, found '<'", "write x > 1"),
    ("p AND AND x > 3", 7, "expected a formula, found the operator 'AND'", None),
    ('x > 5 AND "a" > 1', 11, "compares the text", None),
]


@pytest.mark.parametrize(("text", "column", "message", "hint"), _CONDITION_ERRORS)
def test_errors_of_conditions(text: str, column: int, message: str, hint: str | None) -> None:
    with pytest.raises(FormulaError) as raised:
        parse_policies(text)
    error = raised.value
    assert error.column == column
    assert message in error.message
    assert hint is None or hint in (error.hint or "")


def test_conditions_that_begin_alike() -> None:
    texts = ["x > 1 /* y */ AND y", "x > 1 / 2", "(x > 1) AND y", "x > 1 # y\n + 2", "x > 1"]
    file = parse_policies("\n".join(f"policy p{n}: {text}" for n, text in enumerate(texts)))
    alone = [parse_policies(text).policies[0].formula for text in texts]
    assert [policy.formula for policy in file.policies] == alone


def test_conditions_take_linear_time() -> None:
    text = " AND ".join(f"(x > {number})" for number in range(5000))
    file = parse_policies("(" * 5000 + text + ")" * 5000)
    assert len(file.atoms) == 5000


@pytest.mark.parametrize("blanks", [" " * 2_000, " # " * 2_000, "\n#\n" * 2_000, "/* */ " * 2_000])
def test_many_blanks_and_comments_take_linear_time(blanks: str) -> None:
    policies = parse_policies(f"stream s = x{blanks}\npolicy p: s > 1{blanks}").policies
    assert [str(policy.formula) for policy in policies] == ['"s > 1"']


def test_constants_can_be_overridden() -> None:
    text = "const limit = 5\npolicy p: q"
    assert parse_policies(text).constants == {"limit": 5}
    assert parse_policies(text, constants={"limit": '"a"'}).constants == {"limit": "a"}
    with pytest.raises(PolicyError, match="there is no constant limits to set"):
        parse_policies(text, constants={"limits": "5"})
    with pytest.raises(PolicyError, match="this is not a constant"):
        parse_policies(text, constants={"limit": "x + 1"})


def test_constants_can_be_where_only_constants_are() -> None:
    file = parse_policies(
        "const high = 3\nconst low = -1.5\nconst share = 0.9\nunit s\n"
        "atom inside = x in (high, low, 7)\n"
        "stream s = x.last(or: low)\n"
        "stream q = quantile[0,5](x, share) on x not in (high)\n"
        "policy p: inside and x in (1, high)\n"
        "trigger t: coalesce(x, high) > 2"
    )
    assert str(file.atoms["inside"]) == "x in (3, -1.5, 7)"
    assert str(file.streams["s"].expression) == "x.last(or: -1.5)"
    assert str(file.streams["q"].expression) == "quantile[0,5](x, 0.9)"
    assert str(file.streams["q"].clock) == "rows where x not in (3)"
    assert "x in (1, 3)" in file.atoms
    with pytest.raises(FormulaError, match="a list holds constants"):
        parse_policies("const high = 3\npolicy p: x in (high, other)")


def test_comments_behind_declarations_of_one_line() -> None:
    text = (
        "unit s /* a /* nested */ one */ # and more\nkey k, j /* over\nlines */\n"
        "assume rate <= 5/s /* x */\npolicy p: once[0,3s] a"
    )
    file = parse_policies(text)
    assert (file.unit, file.key, str(file.assumptions[0])) == ("s", ("k", "j"), "rate <= 5/s")
    assert str(parse_policies("key /* x */ AND b").policies[0].formula) == "key AND b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unit s /* open\npolicy p: a", "1:8: this comment never ends"),
        ("key k /* x */ AND b", "1:5: expected an operator or the end, found 'k'"),
    ],
)
def test_comments_that_do_not_end_a_line(text: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        parse_policies(text)
