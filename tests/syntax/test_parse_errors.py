"""Each error: where it points, what it says, what it advises."""

from __future__ import annotations

import pickle

import pytest

from mtlmon import parse
from mtlmon.errors import FormulaError, LogError, MtlmonError, TimeStampError

IN_CAPITALS = "operators are written in capitals"
INTERVAL_PLACE = "write an interval right after its operator, as in p UNTIL[0,5] q"

COMPARISON = "comparisons are for policies: use parse_policies, mtlmon.check or the command"

# text, column, message, hint
ERRORS = [
    ("", 1, "expected a formula, found the end", "empty but for blanks"),
    ("  # only a comment", 1, "expected a formula, found the end", "empty but for blanks"),
    ("a AND", 6, "expected a formula, found the end", None),
    ("a AND /* b */ ", 6, "expected a formula, found the end", None),
    ("a -> )", 6, "expected a formula, found ')'", None),
    ("()", 2, "expected a formula, found ')'", None),
    ("AND a", 1, "expected a formula, found the operator 'AND'", 'is written "AND"'),
    ("-> a", 1, "expected a formula, found the operator '->'", None),
    ("policy x: p", 8, "expected an operator or the end, found 'x'", "policy files are for parse_"),
    # intervals
    ("p UNTIL 0,5 q", 9, "expected a formula, found '0'", "brackets: UNTIL[0,5]"),
    ("p U 3,∞ q", 5, "expected a formula, found '3'", "brackets: U[3,∞]"),
    ("p UNTIL 5 q", 9, "expected a formula, found '5'", "brackets: UNTIL[0,5]"),
    ("p UNTIL5 q", 3, "expected an operator or the end, found 'UNTIL5'", "UNTIL[0,5]"),
    ("p U_12 q", 3, "expected an operator or the end, found 'U_12'", "U[0,12]"),
    ("F5 p", 4, "expected an operator or the end, found 'p'", "F[0,5]"),
    ("exists x. p", 8, "found 'x.'", "in capitals: EXISTS x. p(x)"),
    ("NOT EXISTS deny[ip]", 12, "found 'deny'", "deny[...] is not null"),
    ("p UNTIL <= 5 q", 9, "'<' is not part of the syntax", "as in UNTIL[0,5]"),
    ("p [0,5] UNTIL q", 3, "expected an operator or the end, found '['", INTERVAL_PLACE),
    ("[0,5] p", 1, "expected a formula, found '['", INTERVAL_PLACE),
    ("NOT[0,5] a", 4, "expected a formula, found '['", "NOT does not"),
    ("a AND[0,5] b", 6, "expected a formula, found '['", "AND does not"),
    ("a ->[0,5] b", 5, "expected a formula, found '['", "IMPLIES does not"),
    ("ONCE[5,2] p", 5, "the interval [5,2] is empty", "[2,5]"),
    ("ONCE(3,4) p", 5, "the interval (3,4) is empty", "[3,4]"),
    ("ONCE[3,3) p", 5, "the interval [3,3) is empty", "[3,3]"),
    ("ONCE(0,0] p", 5, "the interval (0,0] is empty", "[0,0]"),
    ("ONCE(9223372036854775807,*) p", 5, "the interval (9223372036854775807,*) is empty", None),
    ("ONCE[5] p", 7, "expected ',' and the upper bound, found ']'", "[0,5] is at most"),
    ("ONCE[0;5] p", 7, "expected ',' and the upper bound, found ';'", "with a comma between"),
    ("ONCE[0..5] p", 7, "expected ',' and the upper bound, found '.'", "whole numbers"),
    ("ONCE[0.5,1] p", 7, "expected ',' and the upper bound, found '.'", "a whole number"),
    ("ONCE[-1,1] p", 6, "'-' is not part of the syntax", "never negative"),
    ("ONCE[,5] p", 6, "expected the lower bound, a whole number, found ','", None),
    ("ONCE[*,5] p", 6, "expected the lower bound, a whole number, found '*'", None),
    ("ONCE[0,] p", 8, "expected the upper bound, a whole number or *, found ']'", None),
    ("ONCE[0,x] p", 8, "expected the upper bound, a whole number or *, found 'x'", None),
    ('ONCE[0,"inf"] p', 8, "expected the upper bound, a whole number or *, found '\"inf\"'", None),
    ("ONCE[0,5 p", 10, "']' is missing", "write [0,5]"),
    ("ONCE[0,5p", 9, "'p' is not a unit of time", "ns, us, ms, s, m, h, d"),
    ("ONCE[0,5", 9, "']' is missing", "write [0,5]"),
    ("ONCE[0,5,6] p", 9, "expected ']' or ')' at the end of the interval, found ','", None),
    ("ONCE[0,9223372036854775808] p", 8, "above the largest one, 9223372036854775807", None),
    (f"ONCE[0,{'9' * 5000}] p", 8, "above the largest one, 9223372036854775807", None),
    (f"ONCE[0,{'9' * 5000}s] p", 8, "above the largest one, 9223372036854775807", None),
    ("ONCE[0,5s] p", 8, "5s has a unit, but the unit of the stream's", "--unit"),
    ("ONCE[0,5S] p", 9, "'S' is not a unit of time", "ns, us, ms, s, m, h, d"),
    # parentheses
    ("((a AND b)", 1, "this parenthesis is never closed", None),
    ("a AND (b OR (c)", 7, "this parenthesis is never closed", None),
    ("a)", 2, "this parenthesis closes nothing", None),
    ("(a) AND b)", 10, "this parenthesis closes nothing", None),
    # two operands
    ("a b", 3, "expected an operator or the end, found 'b'", "with an operator"),
    ("(a b)", 4, "expected an operator or ')', found 'b'", "with an operator"),
    ("a (b)", 3, "expected an operator or the end, found '('", "with an operator"),
    (
        "a NOT b",
        3,
        "expected an operator or the end, found the operator 'NOT'",
        "join two formulas",
    ),
    ("a, b", 2, "expected an operator or the end, found ','", None),
    ("name(x)", 5, "expected an operator or the end, found '('", "atoms take no arguments"),
    ("name(x, 5)", 5, "expected an operator or the end, found '('", "atoms take no arguments"),
    # operators in small letters
    ("a Until[0,5] b", 3, "expected an operator or the end, found 'Until'", IN_CAPITALS),
    # operators as atoms
    ("a AND U", 7, "expected a formula, found the operator 'U'", 'is written "U"'),
    ("UNTIL AND b", 1, "expected a formula, found the operator 'UNTIL'", 'is written "UNTIL"'),
    ("G -> p", 3, "expected a formula, found the operator '->'", 'is written "G"'),
    ("(O)", 3, "expected a formula, found ')'", 'is written "O"'),
    ("a AND X", 8, "expected a formula, found the end", 'is written "X"'),
    # two readings
    (
        "a SINCE b UNTIL c",
        11,
        "SINCE and UNTIL need parentheses to be chained",
        "write (a SINCE b) UNTIL c or a SINCE (b UNTIL c)",
    ),
    (
        "a UNTIL b UNTIL[0,5) ONCE(1,3) c SINCE d -> e",
        11,
        "UNTIL and UNTIL need parentheses to be chained",
        "write (a UNTIL b) UNTIL[0,5) ONCE(1,3) c SINCE d "
        "or a UNTIL (b UNTIL[0,5) ONCE(1,3) c SINCE d)",
    ),
    (
        "ONCE[0,5] a -> b",
        13,
        "ONCE before '->' needs parentheses: there are two readings",
        "write (ONCE[0,5] a) -> b or ONCE[0,5] (a -> b)",
    ),
    (
        "a AND ONCE b <-> c -> d",
        14,
        "ONCE before '<->' needs parentheses: there are two readings",
        "write (a AND ONCE b) <-> c -> d or a AND ONCE (b <-> c -> d)",
    ),
    (
        "a SINCE[2,8] (b OR c) IMPLIES d <-> e",
        23,
        "SINCE before 'IMPLIES' needs parentheses: there are two readings",
        "write (a SINCE[2,8] (b OR c)) IMPLIES d or a SINCE[2,8] ((b OR c) IMPLIES d)",
    ),
    (
        "x & (p -> NOT H q -> (r -> s)) & y",
        19,
        "HISTORICALLY before '->' needs parentheses: there are two readings",
        "write (NOT H q) -> (r -> s) or NOT H (q -> (r -> s))",
    ),
    (
        "a S ONCE b -> c # comment",
        12,
        "ONCE before '->' needs parentheses: there are two readings",
        "write (a S ONCE b) -> c or a S ONCE (b -> c)",
    ),
    (
        "ONCE[0,5] a AND b",
        13,
        "ONCE before 'AND' needs parentheses: there are two readings",
        "write ONCE[0,5] (a AND b) or (ONCE[0,5] a) AND b",
    ),
    (
        "x -> NOT ONCE (a) OR b",
        19,
        "ONCE before 'OR' needs parentheses: there are two readings",
        "write NOT ONCE ((a) OR b) or (NOT ONCE (a)) OR b",
    ),
    (
        "a UNTIL NOT b AND c",
        15,
        "UNTIL before 'AND' needs parentheses: there are two readings",
        "write a UNTIL (NOT b AND c) or (a UNTIL NOT b) AND c",
    ),
    (
        "ONCE a SINCE[1,2] b",
        8,
        "ONCE before 'SINCE' needs parentheses: there are two readings",
        "write ONCE (a SINCE[1,2] b) or (ONCE a) SINCE[1,2] b",
    ),
    (
        "x -> a OR NOT b SINCE c",
        17,
        "OR before 'SINCE' needs parentheses: there are two readings",
        "write (a OR NOT b) SINCE c or a OR (NOT b SINCE c)",
    ),
    # characters
    ("a = b", 3, "'=' is not part of the syntax", "equivalence is written <->, <=> or EQUIV; impl"),
    ("a == b", 3, "'==' is not part of the syntax", "equivalence is written <->, <=> or EQUIV"),
    # conditions on columns, which some write as in SQL
    ("speed > 5", 7, "'>' is not part of the syntax", COMPARISON),
    ("p AND speed>=5", 12, "'>=' is not part of the syntax", COMPARISON),
    ("speed < limit", 7, "'<' is not part of the syntax", COMPARISON),
    ("x = 3", 3, "'=' is not part of the syntax", COMPARISON),
    ("name == 'x'", 6, "'==' is not part of the syntax", COMPARISON),
    ("code <> 200", 6, "'<>' is not part of the syntax", COMPARISON),
    ("code != 200", 6, "expected an operator or the end, found the operator '!'", COMPARISON),
    ("p UNTIL > 5 q", 9, "'>' is not part of the syntax", "as in UNTIL[0,5]"),
    ("a <- b", 3, "'<-' is not part of the syntax", "points right"),
    ("~a", 1, "'~' is not part of the syntax", "NOT, ! or ¬"),
    ("a /\\ b", 3, r"'/\\' is not part of the syntax", "AND, & or ∧"),
    ("a \\/ b", 3, r"'\\/' is not part of the syntax", "OR, | or ∨"),
    ("'a'", 1, '"\'" is not part of the syntax', "double quotes"),
    ("user-id AND b", 5, "'-' in an atom's name needs double quotes", 'write "user-id"'),
    ("b AND file:a/x", 11, "':' in an atom's name needs double quotes", 'write "file:a/x"'),
    ("a - b", 3, "'-' is not part of the syntax", "implication is written ->"),
    ("S⁻ a", 2, "'⁻' is not part of the syntax", "U⁻, R⁻, X⁻, G⁻ and F⁻"),
    ("2x", 1, "expected a formula, found '2'", None),
    ("a ^ b", 3, "unexpected character '^'", "conjunction is written AND"),
    ("a ` b", 3, "unexpected character '`'", "double quotes"),
    ("a \x00 b", 3, "unexpected character U+0000", "double quotes"),
    ("² AND a", 1, "unexpected character '²'", "double quotes"),
    ("a */", 3, "'*/' is not part of the syntax", "comments nest"),
    ('a AND "b', 7, "this double quote is never closed", None),
    ('a AND ""', 7, 'the atom "" has no name', "at least one character"),
    (r'"a\n"', 3, "a lone backslash", r"\" is a quote and \\ a backslash"),
    ("a /* /* */", 3, "this comment never ends", None),
]


@pytest.mark.parametrize(("text", "column", "message", "hint"), ERRORS)
def test_place_message_and_hint(text: str, column: int, message: str, hint: str | None) -> None:
    with pytest.raises(FormulaError) as caught:
        parse(text)
    error = caught.value
    assert message in error.message
    assert (error.line, error.column) == (1, column)
    assert (hint or "") in (error.hint or "")


def test_the_first_error_counts() -> None:
    with pytest.raises(FormulaError, match="found 'b'"):
        parse("a b = c")


def test_units_that_do_not_fit() -> None:
    with pytest.raises(FormulaError) as caught:
        parse("ONCE[0,1500ms] p", unit="s")
    assert caught.value.message == "1500ms is not a whole number of the stream's unit, s"
    assert caught.value.column == 8
    with pytest.raises(FormulaError, match="above the largest one"):
        parse("ONCE[0,9223372036854775807s] p", unit="ms")


def report(text: str) -> list[str]:
    with pytest.raises(FormulaError) as caught:
        parse(text, source="policy.mtl")
    return str(caught.value).splitlines()


def test_the_report_shows_the_line_with_a_caret() -> None:
    assert report("# first\r\nONCE[0,5] a -> b\r\n# last") == [
        "policy.mtl:2:13: ONCE before '->' needs parentheses: there are two readings",
        "    ONCE[0,5] a -> b",
        "                ^",
        "hint: write (ONCE[0,5] a) -> b or ONCE[0,5] (a -> b)",
    ]


def test_an_empty_line_is_not_shown() -> None:
    assert report("\n\n") == [
        "policy.mtl:1:1: expected a formula, found the end",
        "hint: the text is empty but for blanks and comments",
    ]


def test_the_end_is_where_the_text_ends_but_for_blanks() -> None:
    assert report("a\n  AND # and what?\n\n")[:3] == [
        "policy.mtl:2:6: expected a formula, found the end",
        "      AND # and what?",
        "         ^",
    ]


def test_the_caret_stands_below_its_character_in_a_terminal() -> None:
    _, line, caret, _ = report("\t日本 AND e\u0301\tOR = q".replace("e\u0301", '"e\u0301"'))
    assert line == '    \t日本 AND "e\u0301"\tOR = q'
    assert caret == "    \t" + " " * 4 + " " * 5 + " " * 3 + "\t" + " " * 3 + "^"


def test_characters_that_do_not_print_are_replaced() -> None:
    line = report('"\x1b[31m" b')[1]
    assert line == '    "\ufffd[31m" b'


@pytest.mark.parametrize("before", [0, 3, 40, 1000])
@pytest.mark.parametrize("after", [0, 3, 40, 1000])
def test_long_lines_are_cut_around_the_caret(before: int, after: int) -> None:
    _, line, caret, *_ = report("a AND " * before + "= b" + " AND c" * after)
    assert len(line) <= 4 + 3 + 76 + 3
    assert line[len(caret) - 1] == "="
    assert line.startswith("    ...") == (before > 9 and before + after > 12)


def test_errors_survive_pickling() -> None:
    errors: list[MtlmonError] = [
        FormulaError("m", source="s", line=2, column=3, excerpt="x", hint="h"),
        LogError("m", path="log", line=2, column=3),
        TimeStampError("below"),
    ]
    for error in errors:
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
