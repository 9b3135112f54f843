"""Words and signs of other languages, and misspelt ones: each error says what to write instead."""

from __future__ import annotations

import re

import pytest

from mtlmon import parse
from mtlmon.errors import FormulaError
from mtlmon.monpoly import read_signature
from mtlmon.policy import parse_policies
from tests.doors import AGGREGATES, BY_SPELLING, FUNCTIONS, STEPS, SUBCOMMANDS, make_parser
from tests.doors import FORMS as _FORMS
from tests.doors import support_other_words as other_words

IMPLIES = "did you mean IMPLIES?"
INTERVAL = "an interval is written [0,5]"

# formula, column, beginning of the message, part of the hint
FORMULAS = [
    ("p IMPLES q", 3, "expected an operator or the end", IMPLIES),
    ("p IMPLIED q", 3, "expected an operator or the end", IMPLIES),
    ("p ADN q", 3, "expected an operator", "did you mean AND?"),
    ("p UNTLI[0,5] q", 3, "expected an operator", "did you mean UNTIL?"),
    ("ALLWAYS p", 9, "expected an operator", "did you mean ALWAYS?"),
    ("NTO p", 5, "expected an operator", "did you mean NOT?"),
    ("finally p", 9, "expected an operator", "did you mean FINALLY? operators are written in cap"),
    ("henceforth p", 12, "expected an operator", "did you mean ALWAYS?"),
    ("never p", 7, "expected an operator", "ALWAYS NOT p"),
    ("rise p", 6, "expected an operator", "p AND NOT PREVIOUS p"),
    ("p XOR q", 3, "expected an operator", "NOT (p EQUIV q)"),
    ("p M q", 3, "expected an operator", "q UNTIL (p AND q)"),
    ("p 𝒰 q", 3, "expected an operator", "UNTIL or U"),
    ("p , q", 3, "expected an operator", "join two formulas"),
    ("p AND 1", 7, "expected a formula", "TRUE and FALSE"),
    ("p other_atom", 3, "expected an operator", "join two formulas"),
    ("◇ p", 1, "unexpected character '◇'", "EVENTUALLY, F or ◊"),
    ("p ⇒ q", 3, "unexpected character '⇒'", "implication is written"),
    ("p ≡ q", 3, "unexpected character '≡'", "equivalence is written"),
    ("p ⊕ q", 3, "unexpected character '⊕'", "NOT (p EQUIV q)"),
    ("EVENTUALLY[0,5 resp", 16, "']' is missing", "write [0,5]"),
    ("EVENTUALLY[0,5 (resp)", 16, "']' is missing", "write [0,5]"),
    ("EVENTUALLY[0,5", 15, "']' is missing", "write [0,5]"),
    ("ONCE(0,5 p", 10, "']' is missing", "write (0,5]"),
    ("eventually[0:5] p", 13, "expected ',' and the upper bound, found ':'", INTERVAL),
    ("ONCE[0;5] p", 7, "expected ',' and the upper bound, found ';'", INTERVAL),
    ("ONCE[0..5] p", 7, "expected ',' and the upper bound, found '.'", INTERVAL),
    ("ONCE[0 5] p", 8, "expected ',' and the upper bound, found '5'", INTERVAL),
    ("ONCE[<=5] p", 6, "expected the lower bound", INTERVAL),
    ("ONCE[,5] p", 6, "expected the lower bound", INTERVAL),
    ("ONCE[0,] p", 8, "expected the upper bound", "without an upper bound, write *"),
    ("ONCE[0,oo) p", 8, "expected the upper bound", "no upper bound is written *"),
    ("ONCE[0,1.5] p", 9, "expected ']' or ')'", "a bound is a whole number"),
    ("ONCE[-1,5] p", 6, "'-' is not part of the syntax", "bounds are never negative"),
    ("ONCE[0,5resp] p", 9, "'resp' is not a unit of time", "the units are"),
]

POLICIES = [
    ("policy a: EVENTUALY[0,5] p", 20, "did you mean EVENTUALLY?"),
    ("policy a: finally[0,5] p", 18, "did you mean FINALLY?"),
    ("policy a: COUNT[0,5](p) > 3", 16, "did you mean count?"),
    ("policy a: average[0,5](x) > 3", 18, "did you mean avg?"),
    ("policy a: average(x) > 3", 11, "did you mean avg? a window is written"),
    ("policy a: avg_over_time(x) > 3", 11, "did you mean avg?"),
    ("policy a: rolling_mean(x) > 3", 11, "did you mean avg?"),
    ("policy a: irate(x) > 3", 11, "did you mean rate?"),
    ("policy a: len(x) > 3", 11, "did you mean length?"),
    ("policy a: exists x. p(x)", 18, "in capitals and has a dot: EXISTS x. p(...)"),
    ("policy a: exists x p(x)", 11, "in capitals and has a dot: EXISTS x. p(...)"),
    ("policy a: NOT forall x, y: p(x, y)", 22, "FORALL x, y. p(...)"),
    ("policy a: EVENTUALLY <= 5 p", 11, "as in EVENTUALLY[0,5] p"),
    ("policy a: x ≥ 3", 13, "write >="),
    ("policy a: x => 3", 16, "at least is written >="),
    ("policy a: x =< 3", 14, "write <="),
    ("policy a: p ==> q", 15, "implication is written"),
    ("trigger a: average[0,5](x) > 3", 24, "did you mean avg?"),
    ("stream m = AVG[0,5](x)\npolicy a: m > 3", 20, "did you mean avg?"),
    ("stream m: double = x\npolicy a: m > 3", 11, "did you mean float? the types are"),
    ("column id: string\npolicy a: p", 12, "did you mean text? the types are"),
    ("column id: Int64\npolicy a: p", 12, "did you mean int? the types are"),
    ("atom p(x: boolean)\npolicy a: NOT p(x)", 11, "did you mean bool? the types are"),
    ('trigger x > 3 "too much"', 1, "it is written trigger NAME"),
    ("policy p IMPLIES q", 8, "a policy has a name and a colon: policy NAME"),
    ("rule a: p", 6, "did you mean policy? it is written policy NAME"),
    ("output b := x + 1\ntrigger b > 3", 8, "stream NAME = EXPRESSION"),
    ("input x: Int64\npolicy a: p", 1, "the columns of a log"),
    ("relation r = rows where p valid 5\nrelation s = r except r\npolicy a: p", 16, "minus?"),
    ("relation r = row where p valid 5\npolicy a: p", 14, "did you mean rows?"),
]


@pytest.mark.parametrize(("text", "column", "message", "hint"), FORMULAS)
def test_formulas(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.column) == (1, column)
    assert error.message.startswith(message)
    assert hint in (error.hint or "")


@pytest.mark.parametrize(("text", "column", "hint"), POLICIES)
def test_policies(text: str, column: int, hint: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_policies(text)
    assert hint in (caught.value.hint or "")
    assert caught.value.column == column


def test_types_of_signatures() -> None:
    with pytest.raises(FormulaError, match=r"did you mean float\? the types are int, float"):
        read_signature("p(x: double)", "x.sig")
    with pytest.raises(FormulaError, match=r"did you mean string\? the types are"):
        read_signature("p(x: text)", "x.sig")


def test_every_word_leads_to_something_that_there_is() -> None:
    """A table that names what does not exist is worse than none."""
    options = {text for action in make_parser()._actions for text in action.option_strings}
    for table, known in (
        (other_words.BINARY_OPERATORS, BY_SPELLING),
        (other_words.PREFIX_OPERATORS, BY_SPELLING),
        (other_words.AGGREGATES, AGGREGATES),
        (other_words.FUNCTIONS, FUNCTIONS),
        (other_words.DECLARATIONS, _FORMS),
        (other_words.STEPS, STEPS),
        (other_words.OPTIONS, options),
        (other_words.SUBCOMMANDS, ()),
    ):
        for word, meant in table.items():
            assert word == word.lower() and word not in known
            assert " " in meant or meant in known, word
            named = re.findall(r"(?<![\w-])--[a-z][a-z-]+", meant)
            assert options.issuperset(named), word
            for subcommand in re.findall(r"'mtlmon ([a-z]\S*?)['\s]", meant):
                assert subcommand in SUBCOMMANDS
