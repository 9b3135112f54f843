"""Splits the text of a formula into tokens.

Text that is not a token becomes a token of the kind `INVALID`, which ends the list. The parser
reports it when it gets there, so that earlier errors come first.
"""

from __future__ import annotations

import re

from mtlmon.syntax.operators import BY_SPELLING, Operator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, TypeVar

    class _Piece(Protocol):
        kind: str
        end: int

    AnyToken = TypeVar("AnyToken", bound=_Piece)

ATOM = "atom"
OPERATOR = "operator"
NUMBER = "number"
INVALID = "invalid"
END = "end"
PUNCTUATION = frozenset("()[],*∞")
"""Punctuation; each mark is a kind of token of its own."""


class Token:
    """A token of a formula.

    Attributes:
        kind: `ATOM`, `OPERATOR`, `NUMBER`, `INVALID`, `END`, or one of `PUNCTUATION`.
        start: the start of the token, which is text[start:end].
        end: the end of the token.
        value: the name of an atom, or the digits of a number; for an invalid token, the message of
            the error.
        operator: the operator of an operator token, otherwise None.
        hint: how to correct an invalid token, or None.
    """

    __slots__ = ("end", "hint", "kind", "operator", "start", "value")

    def __init__(
        self,
        kind: str,
        start: int,
        end: int,
        value: str = "",
        operator: Operator | None = None,
        *,
        hint: str | None = None,
    ) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.value = value
        self.operator = operator
        self.hint = hint


_SYMBOLS = sorted(
    (spelling for spelling in BY_SPELLING if not spelling[0].isalpha()), key=len, reverse=True
)
_SCAN = re.compile(
    rf"""
      (?P<blank> (?: \s+ | \#[^\n]* )+ )
    | (?P<word> (?: [^\W\d] | \$ ) [\w$.']* ⁻? )
    | (?P<symbol> {"|".join(map(re.escape, _SYMBOLS))} )
    | (?P<comment> /\* )
    | (?P<number> [0-9]+ )
    | (?P<quoted> " )
    | (?P<punctuation> [][(),∞] | \*(?!/) )
    """,
    re.VERBOSE,
)
# PERF: these are compiled when they are first used, which few formulas need.
_COMMENT_MARK = r"/\*|\*/"
_QUOTED_PART = r'[^"\\]+|\\["\\]'
_NAME_MARKS = "_$"
_ATOM = r"(?:[^\W\d]|\$)[\w$.']*"

# Characters that often occur inside names, which then need double quotes.
_GLUE = frozenset("-:/@+%")

_NOT_OURS = {
    "==": "equivalence is written <->, <=> or EQUIV",
    "=": "equivalence is written <->, <=> or EQUIV; implication ->, => or IMPLIES",
    "<-": "equivalence is written <->, implication points right: ->",
    "<": "a time bound is an interval after its operator, as in UNTIL[0,5]",
    ">": "a time bound is an interval after its operator, as in UNTIL[0,5]",
    "~": "negation is written NOT, ! or ¬",
    "/\\": "conjunction is written AND, & or ∧",
    "\\/": "disjunction is written OR, | or ∨",
    "-": "implication is written ->; bounds are never negative",
    ".": "the bounds of an interval are whole numbers with a comma between, as in [0,5]",
    "'": "an atom with unusual characters is written in double quotes",
    "{": "parentheses are round, intervals are written as in UNTIL[0,5]",
    "/": "a comment is written /* ... */ or after #",
    "*/": "comments nest: each */ needs its own /*",
    "⁻": "the operators of the past written this way are U⁻, R⁻, X⁻, G⁻ and F⁻",
}

COMPARISON_HINT = "conditions on columns are declared in a policy file: atom fast = speed > 5"
# The text before and after a sign of comparison.
_COMPARED_BEFORE = r"[\w$.'\")\]]\s*\Z"
_COMPARISON = r"""(?x)
    (?: (?: <= | >= | <> | <(?!-) | > ) (?= \s* [-\w"'($] )
      | == (?= \s* [-\d"'] )
      | =  (?= \s* [-\d"'] ) )"""


def tokenize(text: str, start: int = 0, end: int | None = None) -> list[Token]:
    """Return the tokens of text[start:end]; the last one is of the kind `END` or `INVALID`."""
    return read_tokens(text, start, end, _SCAN, _token, _stray, Token)


def read_tokens(
    text: str,
    start: int,
    end: int | None,
    scan: re.Pattern[str],
    read: Callable[[str, re.Match[str], int], AnyToken],
    stray: Callable[[str, int], AnyToken],
    make: Callable[[str, int, int, str], AnyToken],
) -> list[AnyToken]:
    """Return the tokens of text[start:end] in any language with the same blanks and comments.

    Args:
        text: the whole text.
        start: where the part begins.
        end: where the part ends; None means the end of the text.
        scan: matches where a token starts; matches of its groups `blank` and `comment` (the opening
            mark) are skipped.
        read: makes the token for the text, a match of any other group, and the end of the part.
        stray: makes the invalid token for a position where nothing matches.
        make: makes a token from a kind, start, end and value.
    """
    tokens: list[AnyToken] = []
    position = meaningful = start
    end = len(text) if end is None else end
    while match := scan.match(text, position, end):
        kind, position = match.lastgroup, match.end()
        if kind == "blank":
            continue
        if kind == "comment":
            position = comment_end(text, position, end)
            if position < 0:
                message = "this comment never ends"
                tokens.append(make(INVALID, match.start(), match.end(), message))
                return tokens
            continue
        token = read(text, match, end)
        tokens.append(token)
        if token.kind == INVALID:
            return tokens
        position = meaningful = token.end
    if position < end:
        tokens.append(stray(text, position))
    else:
        tokens.append(make(END, meaningful, meaningful, ""))
    return tokens


def is_plain_atom(name: str) -> bool:
    """Whether the name of an atom can be written without quotes."""
    return (
        re.fullmatch(_ATOM, name) is not None
        and (name[0].isalpha() or name[0] in _NAME_MARKS)
        and name not in BY_SPELLING
    )


def _token(text: str, match: re.Match[str], limit: int) -> Token:
    start, end = match.span()
    if match.lastgroup == "quoted":
        return quoted(text, start, limit)
    value = match.group()
    operator = BY_SPELLING.get(value)
    if operator is not None:
        return Token(OPERATOR, start, end, value, operator)
    if match.lastgroup == "punctuation":
        return Token(value, start, end, value)
    if match.lastgroup == "number":
        return Token(NUMBER, start, end, value)
    if value[-1] == "⁻":
        return _stray(text, end - 1)
    if not (value[0].isalpha() or value[0] in _NAME_MARKS):
        return _stray(text, start)
    return Token(ATOM, start, end, value)


def comment_end(text: str, position: int, end: int) -> int:
    """Return where a comment ends, or -1 if it is not closed before `end`.

    Args:
        text: the whole text.
        position: the end of the opening mark of the comment.
        end: the end of the part to look at.
    """
    depth = 1
    for mark in re.compile(_COMMENT_MARK).finditer(text, position, end):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return -1


def quoted(text: str, start: int, end: int) -> Token:
    """Return the atom in double quotes that begins at `start`, or an invalid token."""
    parts: list[str] = []
    position = start + 1
    quoted_part = re.compile(_QUOTED_PART)
    while match := quoted_part.match(text, position, end):
        part = match.group()
        parts.append(part[1:] if part[0] == "\\" else part)
        position = match.end()
    if position == end:
        return Token(INVALID, start, start + 1, "this double quote is never closed")
    if text[position] == "\\":
        hint = r"inside double quotes, \" is a quote and \\ a backslash"
        return Token(INVALID, position, position + 1, "a lone backslash", hint=hint)
    if not parts:
        hint = "an atom's name has at least one character"
        return Token(INVALID, start, start + 2, 'the atom "" has no name', hint=hint)
    return Token(ATOM, start, position + 1, "".join(parts))


def _stray(text: str, position: int) -> Token:
    """The invalid token for a position where no token starts."""
    if name := _glued_name(text, position):
        message = f"{text[position]!r} in an atom's name needs double quotes"
        return Token(INVALID, position, position + 1, message, hint=f'write "{name}"')
    if sign := _comparison(text, position):
        message = f"{sign!r} is not part of the syntax"
        return Token(INVALID, position, position + len(sign), message, hint=COMPARISON_HINT)
    for length in (2, 1):
        piece = text[position : position + length]
        if piece in _NOT_OURS:
            message = f"{piece!r} is not part of the syntax"
            end = position + length
            return Token(INVALID, position, end, message, hint=_NOT_OURS[piece])
    character = text[position]
    shown = f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"
    hint = "an atom with unusual characters is written in double quotes"
    return Token(INVALID, position, position + 1, f"unexpected character {shown}", hint=hint)


def _comparison(text: str, position: int) -> str | None:
    """The sign at `position` if it seems to compare values, otherwise None."""
    match = re.compile(_COMPARISON).match(text, position)
    before = re.compile(_COMPARED_BEFORE).search(text, max(0, position - 100), position)
    if match is None or before is None:
        return None
    last_word = re.search(r"[^\W\d]\w*\s*\Z", text[max(0, position - 100) : position])
    if last_word and BY_SPELLING.get(last_word.group().strip()):
        return None
    return match.group()


def _glued_name(text: str, position: int) -> str | None:
    """The characters around a stray `-` or the like, if they seem to be meant as one name."""
    if text[position] not in _GLUE:
        return None
    start, end = position, position + 1
    while start and _may_be_in_name(text[start - 1]):
        start -= 1
    while end < len(text) and _may_be_in_name(text[end]):
        end += 1
    name = text[start:end].rstrip("".join(_GLUE))
    is_name = start < position < start + len(name) and name[0].isalpha()
    return name if is_name else None


def _may_be_in_name(character: str) -> bool:
    return character.isalnum() or character in _GLUE or character in "_$.'"
