"""Splits the text of a formula into tokens.

Text that is not a token becomes a token of the kind `INVALID`, which ends the list. The parser
reports it when it gets there, so that earlier errors come first.

Some words are operators only where no atom can be, so the lexer knows whether an operand or a
binary operator comes next.
"""

from __future__ import annotations

from mtlmon.syntax.native import (
    ATOM,
    END,
    INVALID,
    LEAF,
    NUMBER,
    OPERATOR,
    Token,
    comment_end,
    scan_formula,
    skip_blanks,
)
from mtlmon.syntax.operators import BY_SPELLING, Operator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from mtlmon.syntax.formula import Formula

    class Conditions(Protocol):
        """Reads the conditions inside a formula, which are atoms, in another language."""

        def begins(self, text: str, position: int, end: int) -> bool:
            """Whether a condition begins at the position, where an operand can be."""

        def read(self, text: str, position: int, end: int) -> Token:
            """Return the condition as an atom, a leaf, a quantifier, or an invalid token."""


__all__ = [
    "ATOM",
    "COMMENT_HINT",
    "COMPARISON_HINT",
    "END",
    "INVALID",
    "LEAF",
    "NUMBER",
    "OPERATOR",
    "LeafToken",
    "QuantifierToken",
    "Token",
    "comment_end",
    "is_plain_atom",
    "quoted",
    "skip_blanks",
    "tokenize",
]


class LeafToken(Token):
    """A part of a formula that has been read already: a predicate or a comparison of terms."""

    __slots__ = ("formula",)

    def __init__(self, start: int, end: int, formula: Formula) -> None:
        super().__init__(LEAF, start, end)
        self.formula = formula


class QuantifierToken(Token):
    """A quantifier with its variables, up to the point."""

    __slots__ = ("variables",)

    def __init__(
        self, start: int, end: int, operator: Operator, variables: tuple[str, ...]
    ) -> None:
        super().__init__(OPERATOR, start, end, operator.word, operator)
        self.variables = variables


# PERF: few formulas need these, and `re` takes 5 ms to import.
_QUOTED_PART = r'[^"\\]+|\\["\\]'
_NAME_MARKS = "_$"
_ATOM = r"(?:[^\W\d]|\$)[\w$.']*"

COMMENT_HINT = "a comment is written /* ... */ or after #"

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
    "/": COMMENT_HINT,
    "*/": "comments nest: each */ needs its own /*",
    "⁻": "the operators of the past written this way are U⁻, R⁻, X⁻, G⁻ and F⁻",
}

COMPARISON_HINT = "comparisons are for policies: use parse_policies, mtlmon.check or the command"
# The text before and after a sign of comparison.
_COMPARED_BEFORE = r"[\w$.'\")\]]\s*\Z"
_COMPARISON = r"""(?x)
    (?: (?: <= | >= | <> | <(?!-) | > ) (?= \s* [-\w"'($] )
      | == (?= \s* [-\d"'] )
      | =  (?= \s* [-\d"'] ) )"""


def tokenize(
    text: str, start: int = 0, end: int | None = None, conditions: Conditions | None = None
) -> list[Token]:
    """Return the tokens of text[start:end]; the last one is of the kind `END` or `INVALID`.

    Args:
        text: the whole text.
        start: where the formula begins.
        end: where the formula ends; by default, the end of the text.
        conditions: reads conditions inside the formula; without it, they are not part of it.
    """
    end = len(text) if end is None else end
    return scan_formula(text, start, end, conditions, quoted, _stray)


def is_plain_atom(name: str) -> bool:
    """Whether the name of an atom can be written without quotes."""
    if name in BY_SPELLING:
        return False
    if name.isascii() and name.isidentifier():
        return True
    import re

    is_word = re.fullmatch(_ATOM, name) is not None
    return is_word and (name[0].isalpha() or name[0] in _NAME_MARKS)


def quoted(text: str, start: int, end: int) -> Token:
    """Return the atom in double quotes that begins at `start`, or an invalid token."""
    position = start + 1
    closing = text.find('"', position, end)
    if closing > position and text.find("\\", position, closing) < 0:
        return Token(ATOM, start, closing + 1, text[position:closing])
    import re

    parts: list[str] = []
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
    # PERF: the table is read for errors only
    from mtlmon.support.other_words import SIGNS

    character = text[position]
    hint = SIGNS.get(character, "an atom with unusual characters is written in double quotes")
    shown = f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"
    return Token(INVALID, position, position + 1, f"unexpected character {shown}", hint=hint)


def _comparison(text: str, position: int) -> str | None:
    """The sign at `position` if it seems to compare values, otherwise None."""
    import re

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
