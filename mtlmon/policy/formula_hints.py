"""Hints at what was meant by a formula of a policy file that is not valid."""

from __future__ import annotations

import re
from typing import NamedTuple

from mtlmon.policy.declarations import FORMULA, POLICY, TEXTS, TRIGGER
from mtlmon.policy.predicates.hints import FUNCTIONS_ARE, NO_FUNCTION
from mtlmon.policy.predicates.lexer import OFFSETS_HINT
from mtlmon.syntax.lexer import COMMENT_HINT, COMPARISON_HINT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.errors import FormulaError
    from mtlmon.policy.declarations import Declaration

__all__ = ["form_of", "hint_for"]

_WORD = re.compile(r"[^\W\d]\w*")
_LAST_WORD = re.compile(r"(?:[^\W\d]\w*\.)*[^\W\d]\w*(?=\Z)")
_DOTTED = re.compile(r"([^\W\d]\w*)\.([^\W\d]\w*)(?![\w(.])")
_METHOD = re.compile(r"\.([^\W\d]\w*)\(\s*\)\s*\Z")
# A line that would be a declaration if its first word were a keyword.
_HEAD = re.compile(r'[ \t]*([^\W\d]\w*)[ \t]+[^\s"`=:(),#]+[^\n:=#]*?(:|=(?![=>]))')
# A declaration without a colon.
_WITHOUT_COLON = re.compile(r"[ \t]*(policy|trigger|find)[ \t][^:\n]*\Z")
# A text as in Python or a shell: r"...", '...'.
_OTHER_QUOTES = re.compile(
    rf"""[ \t]*(?P<keyword>{"|".join(sorted(TEXTS))})[ \t]+"""
    r"""(?:r(?=")|r?(?='))(?P<quote>["'])(?P<text>.*)(?P=quote)\s*\Z"""
)
# A line of what stands between the name of a policy and its colon.
_CLAUSE = re.compile(
    r"[ \t]*(severity|per|on[ \t]+every|on[ \t]+changes|for(?=[ \t]+[0-9])|at[ \t]+most)[ \t]+"
    r"(?![A-Z]+\b|and\b|or\b|implies\b|iff\b)[^\s:]+[^:]*\Z"
)
# A line that names columns, of which one may have characters that need backquotes.
_COLUMNS = re.compile(
    r"[ \t]*(?P<keyword>key|time|event)[ \t]+"
    r"(?P<names>[\w.$@-]+(?:[ \t]*,[ \t]*[\w.$@-]+)*)[ \t]*(?:#.*)?\Z"
)
# What stands before a clock that lacks its first word, and the clock.
_CLOCK = re.compile(
    r"""[ \t]*(?P<head>(?:policy|trigger)[ \t]+[^\s":]+(?:"[^"]*"|[^":])*?)(?<![ \t]on)[ \t]+"""
    r"(?P<clock>every[ \t]+[\d.]+[A-Za-z]*|changes[ \t]+of[ \t]+\w+|rows[ \t]+where\b)"
)
# A quantifier as other languages write it, up to its formula.
_QUANTIFIER = re.compile(
    r"\b(?P<word>exists|forall|for[ \t]+all)[ \t]+(?P<names>[^\W\d]\w*(?:[ \t]*,[ \t]*[^\W\d]\w*)*)"
    r"[ \t]*(?:[.:]|(?=[^\W\d]\w*\())",
    re.IGNORECASE,
)
_KEYWORDS = ("policy", "trigger", "find", "let", "atom", "stream", "relation", "const")
_FORMS = {
    "policy": (
        'policy NAME ["TEXT"] [per COLUMN] [on every 10s | on changes of RELATION] [for 5m] '
        '[at most 1%] [severity WORD]: FORMULA [message "TEXT"]'
    ),
    "trigger": (
        "trigger NAME [per COLUMN] [on every 10s | on changes of RELATION] [for 5m]: CONDITION "
        '[message "TEXT"]'
    ),
    "find": "find NAME: FORMULA",
    "let": "let NAME = FORMULA",
    "atom": "atom NAME = CONDITION",
    "stream": "stream NAME = EXPRESSION",
    "relation": "relation NAME = rows where CONDITION valid 15m",
    "const": "const NAME = CONSTANT",
}


# A line that declares what is checked, without its name.
_NAMELESS = (
    re.compile(r"[ \t]*(policy|find|trigger)[ \t]*:"),
    # a condition behind it, rather than a name with a colon or a clause
    re.compile(r'[ \t]*(trigger)[ \t]+(?![^\s:(\[]+[ \t]*:)(?:not\b|(?![^\s:]+[ \t]+[\w"`(]))'),
)
# A line that declares something whose name is several words, up to its sign or its first clause.
_WORDS = re.compile(
    r"[ \t]*(?:(?P<checked>policy|find|trigger)|const|let|atom|stream|relation)[ \t]+"
    r"(?P<name>(?!per\b)[^\W\d][\w-]*"
    r"(?:[ \t]+(?!(?:per|on|for|at|severity|every|changes|rows)[ \t])[^\W\d][\w-]*)+)[ \t]*"
    r"""(?(checked)(?::|(?=["\[])|(?=(?:per|on|for|at|severity)[ \t][^:\n]*:))|=(?![=>]))"""
)


class WrongName(NamedTuple):
    """That something lacks its name, or has one that is not written as a name.

    Attributes:
        place: where it is in its line.
        message: the error.
        hint: how it is written.
    """

    place: int
    message: str
    hint: str


def wrong_name(line: str) -> WrongName | None:
    """Return what is wrong with the name of what a line with an error declares, or None."""
    if words := _WORDS.match(line):
        name, before = words["name"], line[: words.start("name")].lstrip()
        joined = "_".join(name.split())
        message = f"a name is one word, and {name} is several"
        return WrongName(words.start("name"), message, f'write {before}{joined}, or "{name}"')
    found = next((found for one in _NAMELESS if (found := one.match(line))), None)
    if found is None:
        return None
    word = found[1]
    return WrongName(found.start(1), f"this {word} has no name", f"it is written {_FORMS[word]}")


def hint_for(text: str, offset: int, declaration: Declaration, error: FormulaError) -> str | None:
    """Return a better hint for an error in a formula, or None if its own is as good.

    Args:
        text: the text of the file.
        offset: where the error is.
        declaration: what the formula belongs to.
        error: the error.
    """
    before = text[declaration.start : offset].rstrip()
    if quantifier := _quantifier(text, offset):
        return quantifier
    if (dotted := _DOTTED.match(text, offset)) and _declares_relation(text, dotted[1]):
        return f"a column of a relation is looked up by a key: {dotted[1]}[...].{dotted[2]}"
    if error.hint == COMPARISON_HINT:
        return _of_comparison(before)
    if text[offset : offset + 1] == "~" and (found := _LAST_WORD.search(before)):
        return f'a regular expression is matched by matches({found.group()}, "^a+$")'
    if declaration.kind == TRIGGER and error.message.startswith(NO_FUNCTION):
        return _of_unknown_call(error)
    if not error.message.startswith("expected an operator or"):
        return None
    line = text[text.rfind("\n", 0, offset) + 1 :].partition("\n")[0]
    if declaration.kind == FORMULA and (form := form_of(line)):
        return form
    found = _WORD.match(text, offset)
    word = "" if found is None else found.group()
    if word == "message":
        return f"policies and triggers have messages, in double quotes: {_FORMS['trigger']}"
    if word in {"per", "on", "for", "severity"} and declaration.kind == POLICY:
        return f"write this before the colon: {_FORMS[POLICY]}"
    if word == "not" and (negated := _WORD.match(text, offset + 3 + _blanks(text, offset + 3))):
        word = negated.group()
    if word == "in":
        return 'the values are in parentheses: status in (401, 403), method not in ("GET", "HEAD")'
    if word in {"between", "like", "ilike"}:
        return "compare with >= and <=, or use startswith, endswith, contains or matches"
    last = _LAST_WORD.search(before)
    name = "" if last is None else last.group()
    if text[offset : offset + 1] == "[" and name:
        return _of_bracket(name)
    if "if" in {word, name}:
        return "a choice is a value, to be compared: (if x then y else z) = true"
    return None


def _quantifier(text: str, offset: int) -> str | None:
    """A hint for a quantifier in small letters or without its dot, at which an error is."""
    start = text.rfind("\n", 0, offset) + 1
    for found in _QUANTIFIER.finditer(text, start):
        if found.start() > offset:
            break
        word = "EXISTS" if found["word"][0] in "eE" else "FORALL"
        if offset <= found.end() and found.group() != f"{word} {found['names']}.":
            return f"a quantifier is in capitals and has a dot: {word} {found['names']}. p(...)"
    return None


def _of_unknown_call(error: FormulaError) -> str | None:
    """A hint where the condition of a trigger calls an unknown function, unless it is misspelt."""
    if not (error.hint or "").startswith(FUNCTIONS_ARE):
        return None
    return (
        "a trigger has no variables, its condition is about one row; events with arguments stand "
        f"in a find or policy, as in {_FORMS['find']}"
    )


def _declares_relation(text: str, name: str) -> bool:
    """Whether a relation of this name is declared in the text of a file."""
    return re.search(rf"^[ \t]*relation[ \t]+{name}\b", text, re.MULTILINE) is not None


def _blanks(text: str, offset: int) -> int:
    """How many blanks there are from a place on."""
    rest = text[offset:]
    return len(rest) - len(rest.lstrip(" \t"))


def form_of(line: str) -> str | None:
    """Return a hint how the declaration is written that a line was probably meant to be."""
    from mtlmon.support.guesses import advice
    from mtlmon.support.other_words import DECLARATIONS

    if line.lstrip().startswith(("//", "--")):
        return COMMENT_HINT
    if other := _OTHER_QUOTES.match(line):
        escaped = other["text"].replace("\\", "\\\\").replace('"', '\\"')
        return f'write {other["keyword"]} "{escaped}"'
    if clause := _CLAUSE.match(line):
        key = ", or key COLUMN for all policies" if clause[1] == "per" else ""
        return f"write this after the name of a policy: {_FORMS[POLICY]}{key}"
    if clock := _CLOCK.match(line):
        more = " CONDITION" if clock["clock"].startswith("rows") else ""
        what = "CONDITION" if clock["head"].startswith("trigger") else "FORMULA"
        return f"write {clock['head']} on {' '.join(clock['clock'].split())}{more}: {what}"
    if columns := _COLUMNS.match(line):
        if columns["keyword"] in TEXTS:
            return f'write {columns["keyword"]} "{columns["names"]}"'
        names = map(str.strip, columns["names"].split(","))
        quoted = [name if _WORD.fullmatch(name) else f"`{name}`" for name in names]
        return f"write {columns['keyword']} {', '.join(quoted)}"
    if declared := _WITHOUT_COLON.match(line):
        return f"a {declared[1]} has a name and a colon: {_FORMS[declared[1]]}"
    head = _HEAD.match(line)
    if head is None:
        return None
    word = head.group(1)
    if word in _FORMS:
        return f"it is written {_FORMS[word]}"
    guess = advice(word, _KEYWORDS, DECLARATIONS)
    if guess is None or not guess.endswith("?"):
        return guess
    meant = guess.removeprefix("did you mean ").removesuffix("?")
    return f"{guess} it is written {_FORMS[meant]}"


def _of_comparison(before: str) -> str:
    """The hint for a sign of a comparison behind what has no value."""
    if method := _METHOD.search(before):
        return f"there is no .{method.group(1)}(); {OFFSETS_HINT}"
    return "compare values: columns, numbers, texts, streams and windows such as count[0,5](p)"


def _of_bracket(name: str) -> str:
    """The hint for a bracket behind a name that takes none."""
    from mtlmon.policy.predicates.hints import aggregate_advice, aggregates_are
    from mtlmon.syntax.hints import operator_advice
    from mtlmon.syntax.operators import BY_SPELLING

    if name.upper() in BY_SPELLING:
        return f"did you mean {name.upper()}? operators are written in capitals"
    found = aggregate_advice(name) or operator_advice(name, is_prefix=True)
    more = f"{aggregates_are()}; an interval follows its operator"
    if found is None:
        return more
    return f"{found} {more}" if found.endswith("?") else f"{found}; {more}"
