from __future__ import annotations

import pytest

from mtlmon import FALSE, TRUE, Formula, atom, parse
from tests.doors import Interval, Operator, make
from tests.doors import syntax_operators as ops

A, B = atom("a"), atom("b")
MAXIMUM = 2**63 - 1


def fully(text: str) -> str:
    from tests.doors import to_text

    return to_text(parse(text), all_parentheses=True)


SPELLINGS = {
    ops.TRUE: "true TRUE ⊤",
    ops.FALSE: "false FALSE ⊥",
    ops.NOT: "NOT ! ¬",
    ops.AND: "AND & && ∧",
    ops.OR: "OR | || ∨",
    ops.IMPLIES: "IMPLIES -> => →",
    ops.IFF: "EQUIV IFF <-> <=> ↔",
    ops.SINCE: "SINCE S U⁻",
    ops.UNTIL: "UNTIL U",
    ops.RELEASE: "RELEASE R",
    ops.TRIGGER: "TRIGGER T R⁻",
    ops.WEAK_UNTIL: "WEAK_UNTIL W",
    ops.NEXT: "NEXT X ○",
    ops.PREVIOUS: "PREVIOUS PREV Y X⁻ ●",
    ops.ALWAYS: "ALWAYS GLOBALLY G □",
    ops.EVENTUALLY: "EVENTUALLY FINALLY F ◊",
    ops.HISTORICALLY: "HISTORICALLY PAST_ALWAYS GLOBALLY_PAST G⁻ H ■",
    ops.ONCE: "ONCE PAST_EVENTUALLY FINALLY_PAST F⁻ O ⧫",
}


@pytest.mark.parametrize(
    ("operator", "spelling"),
    [(operator, word) for operator, words in SPELLINGS.items() for word in words.split()],
)
def test_every_spelling_is_read(operator: Operator, spelling: str) -> None:
    operands = (A, B)[: operator.arity]
    text = {0: spelling, 1: f"{spelling} a", 2: f"a {spelling} b"}[operator.arity]
    assert parse(text) == make(operator, *operands)
    if operator.is_temporal:
        text = text.replace(spelling, f"{spelling} [ 2 , 3 ]")
        assert parse(text) == make(operator, *operands, interval=Interval(2, 3))
    elif not spelling[0].isalpha():
        assert parse(text.replace(" ", "")) == make(operator, *operands)


def test_all_operators_are_covered() -> None:
    assert set(SPELLINGS) == set(ops.OPERATORS) - {ops.ATOM}


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("NOT a AND b", "(NOT a) AND b"),
        ("a OR b AND c", "a OR (b AND c)"),
        ("a AND b OR c", "(a AND b) OR c"),
        ("a AND b AND c", "(a AND b) AND c"),
        ("a OR b OR c", "(a OR b) OR c"),
        ("(a OR b) SINCE (c OR d)", "(a OR b) SINCE (c OR d)"),
        ("a -> b -> c", "a IMPLIES (b IMPLIES c)"),
        ("a <-> b <-> c", "a EQUIV (b EQUIV c)"),
        ("a -> b <-> c -> d", "(a IMPLIES b) EQUIV (c IMPLIES d)"),
        ("a -> b SINCE c", "a IMPLIES (b SINCE c)"),
        ("a OR b -> ONCE (c OR d)", "(a OR b) IMPLIES (ONCE (c OR d))"),
        ("ONCE (a SINCE b)", "ONCE (a SINCE b)"),
        ("NOT a SINCE NOT b", "(NOT a) SINCE (NOT b)"),
        ("a AND ONCE[0,5] b", "a AND (ONCE[0,5] b)"),
        ("NOT ONCE a", "NOT (ONCE a)"),
        ("a AND b -> c UNTIL d", "(a AND b) IMPLIES (c UNTIL d)"),
        ("(ONCE a) SINCE b", "(ONCE a) SINCE b"),
        ("a SINCE ONCE b", "a SINCE (ONCE b)"),
        ("NOT NOT a", "NOT (NOT a)"),
        ("a AND NOT b OR c", "(a AND (NOT b)) OR c"),
        ("ONCE[0,5] ALWAYS(1,3) (a OR b)", "ONCE[0,5] (ALWAYS[2,2] (a OR b))"),
        ("(a SINCE b) UNTIL c", "(a SINCE b) UNTIL c"),
        ("(a AND ONCE b) -> c", "(a AND (ONCE b)) IMPLIES c"),
        ("((ONCE a) -> (b)) -> c", "((ONCE a) IMPLIES b) IMPLIES c"),
        ("((((a))))", "a"),
    ],
)
def test_binding(text: str, meaning: str) -> None:
    assert fully(text) == meaning


@pytest.mark.parametrize(
    ("written", "lower", "upper"),
    [
        ("[2,5]", 2, 5),
        ("[2,5)", 2, 4),
        ("(2,5]", 3, 5),
        ("(2,5)", 3, 4),
        ("[ 2 , 5 )", 2, 4),
        (" ( 2 /* low */ , 5 # high\n )", 3, 4),
        ("[0,0]", 0, 0),
        ("[007,7]", 7, 7),
        ("[3,*]", 3, None),
        ("[3,*)", 3, None),
        ("[3,inf)", 3, None),
        ("[3,INFINITY]", 3, None),
        ("(3,∞)", 4, None),
        (f"[0,{MAXIMUM}]", 0, MAXIMUM),
        (f"[{'0' * 5000}1,{MAXIMUM})", 1, MAXIMUM - 1),
        (f"[{MAXIMUM},{MAXIMUM}]", MAXIMUM, MAXIMUM),
    ],
)
def test_intervals(written: str, lower: int, upper: int | None) -> None:
    assert parse(f"a SINCE{written} b").interval == Interval(lower, upper)
    assert parse(f"ONCE{written} b").interval == Interval(lower, upper)


def test_an_omitted_interval_is_everything() -> None:
    assert parse("a UNTIL b").interval is Interval.FULL
    assert parse("ONCE (a)").interval is Interval.FULL


@pytest.mark.parametrize(
    ("written", "unit", "lower", "upper"),
    [
        ("[500ms,5s]", "ms", 500, 5000),
        ("[2m,1h]", "s", 120, 3600),
        ("[0,30d]", "s", 0, 2592000),
        ("[0,30d]", "d", 0, 30),
        ("[7,5s]", "ms", 7, 5000),
        ("(1s,5s)", "ms", 1001, 4999),
        ("(1s,5s)", "s", 2, 4),
        ("[1us,1 ms]", "ns", 1000, 1000000),
        ("[120s,∞)", "m", 2, None),
        ("[0,9223372036854775807ns]", "ns", 0, MAXIMUM),
        ("[0,9223372036854775807000ns]", "us", 0, MAXIMUM),
    ],
)
def test_units(written: str, unit: str, lower: int, upper: int | None) -> None:
    assert parse(f"ONCE{written} b", unit=unit).interval == Interval(lower, upper)


def test_an_unknown_unit_of_the_stream_is_refused() -> None:
    with pytest.raises(ValueError, match="the unit is one of ns, us, ms, s, m, h, d, not 'min'"):
        parse("a", unit="min")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("p", "p"),
        ("_", "_"),
        ("$x.y'", "$x.y'"),
        ("p1_2.3", "p1_2.3"),
        ("été", "été"),
        ("日本", "日本"),
        ("ошибка", "ошибка"),
        ("p()", "p"),
        ("p ( )", "p"),
        ("inf", "inf"),
        ("until", "until"),
        ("UNTILs", "UNTILs"),
        ('"U"', "U"),
        ('"true"', "true"),
        ('"a b"()', "a b"),
        (r'"say \"hi\" \\"', 'say "hi" \\'),
        ('"# no comment /* at all"', "# no comment /* at all"),
        ('"two\nlines"', "two\nlines"),
        ('"2x"', "2x"),
    ],
)
def test_atoms(text: str, name: str) -> None:
    assert parse(text) == atom(name)


@pytest.mark.parametrize(
    "text",
    [
        "# first\na AND b",
        "a AND b # last",
        "/* x */ a /**/ AND /* y */ b",
        "a /* outer /* inner */ # */ AND b",
        "\n\t a\r\n AND\u00a0b\n\n",
        "a()AND(b)",
        "a∧b",
        "a&&b",
    ],
)
def test_comments_and_blanks(text: str) -> None:
    assert parse(text) == make(ops.AND, A, B)


def test_constants() -> None:
    assert parse("true") == TRUE
    assert parse("⊥") == FALSE


def test_a_parenthesis_opens_an_interval_only_before_a_digit() -> None:
    expected: Formula = make(ops.UNTIL, A, B, interval=Interval(1, 4))
    assert parse("a UNTIL(0,5) b") == parse("a UNTIL (0,5) (b)") == expected
    assert parse("a UNTIL(b)") == make(ops.UNTIL, A, B)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("not a", "NOT a"),
        ("a and b or c", "a AND b OR c"),
        ("a implies b", "a IMPLIES b"),
        ("a iff b", "a EQUIV b"),
        ("a since[0,5] b", "a SINCE[0,5] b"),
        ("a until b", "a UNTIL b"),
        ("once[0,5] p", "ONCE[0,5] p"),
        ("once (2,5] p", "ONCE(2,5] p"),
        ("eventually (p)", "EVENTUALLY p"),
        ("always not historically previous next p", "ALWAYS NOT HISTORICALLY PREVIOUS NEXT p"),
        ("once /* ago */ # here\n p", "ONCE p"),
        ('not "a b"', 'NOT "a b"'),
        ("not true", "NOT true"),
        ("not ¬p", "NOT NOT p"),
        # words that stay atoms
        ("next AND b", "next AND b"),
        ("next() and b", "next AND b"),
        ("next and b", "next AND b"),
        ("(next) or (not)", "next OR not"),
        ("next since[0,5] b", "next SINCE[0,5] b"),
        ("not and b", "not AND b"),
        ("not and", "NOT and"),
        ("once next", "ONCE next"),
        ("NEXT and", "NEXT and"),
        ("and AND since", "and AND since"),
        ("and and and", "and AND and"),
        ("next -> until", "next -> until"),
        ('"not" AND "and"', "not AND and"),
        ("ONCE[0,5] once", "ONCE[0,5] once"),
    ],
)
def test_words_in_lower_case_are_operators_where_no_atom_can_be(text: str, meaning: str) -> None:
    assert parse(text) == parse(meaning)
    written = str(parse(text))
    assert written == str(parse(meaning))
    assert parse(written) == parse(text)


def test_many_words_in_lower_case_take_linear_time() -> None:
    formula = parse("not " * 20_000 + "p")
    assert formula == parse("NOT " * 20_000 + "p")
    assert parse("next" + " and and" * 20_000) == parse("next" + " AND and" * 20_000)


@pytest.mark.parametrize(
    ("bound", "seconds"), [("2min", 120), ("30sec", 30), ("2m", 120), ("1min", 60)]
)
def test_minutes_and_seconds_have_two_spellings(bound: str, seconds: int) -> None:
    assert parse(f"ONCE[0,{bound}] p", unit="s") == parse(f"ONCE[0,{seconds}] p")
    assert parse(f"ONCE[0,{bound}] p", unit="later").in_unit("s") == parse(f"ONCE[0,{seconds}] p")
