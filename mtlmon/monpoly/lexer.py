"""Divides formulas in MonPoly's language into tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mtlmon.errors import PolicyError
from mtlmon.syntax.report import formula_error

if TYPE_CHECKING:
    from mtlmon.errors import FormulaError

# The kinds of tokens beside keywords and symbols, which are their own kinds.
NAME = "a name"
INTEGER = "an integer"
DECIMAL = "a number"
DURATION = "a length of time"
TEXT = "a text"
PATTERN = "a pattern"
END = "the end"

_KEYWORDS = """
TRUE FALSE LET LETPAST IN NOT AND OR IMPLIES EQUIV EXISTS FORALL
PREV PREVIOUS NEXT EVENTUALLY SOMETIMES ONCE ALWAYS PAST_ALWAYS HISTORICALLY SINCE UNTIL
CNT MIN MAX SUM AVG MED SUBSTRING MATCHES MOD
f2i i2f i2s s2i f2s s2f r2s s2r DAY_OF_MONTH MONTH YEAR FORMAT_DATE
FORWARD BACKWARD MATCHF MATCHP
"""
KEYWORDS = frozenset(_KEYWORDS.split())

_BLANK = re.compile(r"[ \t\r\n]+|#[^\r\n]*")
_NAME = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_/:'\"]*")
_STRING = re.compile(r'r?"(?:[^"\\]|\\.)*"', re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]+(?P<fraction>\.[0-9]*)?")
_DURATION = re.compile(r"[0-9]+[A-Za-z]")
_SYMBOL = re.compile(r"<-|<=|>=|\|>|<\||[-+*/()\[\],;<>=.{}?|▷◁]")


class Token(NamedTuple):
    """A token.

    Attributes:
        kind: a keyword, a symbol, or one of the constants of this module.
        text: what is written.
        start: the position of its first character.
    """

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.start + len(self.text)


def tokens_of(text: str, source: str) -> list[Token]:
    """Return the tokens of a formula; the last one is `END`.

    Of what can begin at a place, the longest is the token: `x-1` and `5/2` are names.

    Raises:
        PolicyError: a character cannot begin a token, or a text or comment does not end.
    """
    found: list[Token] = []
    place = 0
    while place < len(text):
        if blank := _BLANK.match(text, place):
            place = blank.end()
        elif text.startswith("(*", place):
            end = text.find("*)", place + 2)
            if end < 0:
                raise error_at(text, place, "this comment does not end", source, "end it with *)")
            place = end + 2
        else:
            token = _token(text, place, source)
            found.append(token)
            place = token.end
    found.append(Token(END, "", len(text)))
    return found


def _token(text: str, place: int, source: str) -> Token:
    """The longest token at a place; of equally long ones, a name comes last."""
    candidates: list[tuple[str, str]] = []
    if number := _NUMBER.match(text, place):
        kind = INTEGER if number["fraction"] is None else DECIMAL
        candidates.append((kind, number.group()))
    if duration := _DURATION.match(text, place):
        candidates.append((DURATION, duration.group()))
    if string := _STRING.match(text, place):
        kind = TEXT if text[place] == '"' else PATTERN
        candidates.append((kind, string.group()))
    if name := _NAME.match(text, place):
        written = name.group()
        is_special = written in KEYWORDS or written == "_"
        candidates.append((written if is_special else NAME, written))
    if symbol := _SYMBOL.match(text, place):
        candidates.append((symbol.group(), symbol.group()))
    if candidates:
        kind, written = max(candidates, key=lambda candidate: len(candidate[1]))
        return Token(kind, written, place)
    if text[place] == '"':
        raise error_at(text, place, "this text does not end", source, 'end it with "')
    hint = "a name has letters, digits, _ - / : and quotes"
    raise error_at(text, place, "this character is not part of the language", source, hint)


def error_at(
    text: str, place: int, message: str, source: str, hint: str | None = None
) -> FormulaError:
    """Make the error for a place in a formula or signature."""
    return formula_error(text, place, message, source=source, hint=hint, kind=PolicyError)
