"""Splits the text of an expression into tokens.

Text that is not a token becomes a token of the kind `INVALID`, which is the last one. The parser
reports it when it gets there, so that earlier errors come first.
"""

from __future__ import annotations

import re
from decimal import Decimal
from math import isinf

from mtlmon.policy.predicates.integers import LARGEST
from mtlmon.policy.predicates.keywords import KEYWORDS
from mtlmon.syntax.bounds import UNIT_WORDS, UNITS
from mtlmon.syntax.lexer import END, INVALID, NUMBER, comment_end
from mtlmon.syntax.operators import BY_SPELLING, SMALL_WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMN = "column"
FUNCTION = "function"
TEXT = "text"
ROW_COLUMN = "row column"
OFFSET = "offset"
FIELD = "field"
DURATION = "duration"
DEFAULT = "or:"

LARGEST_DIGITS = 400

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PLAIN = re.compile(_NAME)
_OFFSET = r"\.(?: last | next | at | hold ) (?= \s*\( )"
_FIELD = rf"(?<=\])\.(?:{_NAME}|(?=`))"
_SYMBOL = r"== | != | <> | <= | >= | [][=<>+\-*/%(),:]"
_PARTS = rf"""
      (?P<blank> (?: \s+ | \#[^\n]* )+ )
    | (?P<comment> /\* )
    | (?P<word> {_NAME} )
    | (?P<number> [0-9]+ (?: \.[0-9]+ )? (?: [eE][+-]?[0-9]+ )? )
    | (?P<offset> {_OFFSET} )
    | (?P<field> {_FIELD} )
    | (?P<text> " )
    | (?P<column> ` )
    | (?P<symbol> """
_SCAN = re.compile(rf"{_PARTS} {_SYMBOL} )", re.VERBOSE)
# The longest sign wins, but `<-` is `<` and a minus.
_SCAN_IN_FORMULA = re.compile(rf"{_PARTS} <-> | <=> | -> | => | {_SYMBOL} )", re.VERBOSE)
_OFFSET_BEHIND = re.compile(_OFFSET, re.VERBOSE)
_OFFSET_NAMES = frozenset({"last", "next", "at", "hold"})
OFFSETS_HINT = "values of other rows are x.last(), x.next(), x.at(-5s) and x.hold()"
"""The hint for a method that values do not have."""
_ROW = re.compile(rf"\.(?:{_NAME}|(?=`))")
_COLON = re.compile(r"\s*:")
_CALL = re.compile(r"\s*\(")
_GLUED = re.compile(r"[\w.]+")
# A name or number goes on with none of these; behind a blank, a parenthesis may come.
_ENDS = frozenset(" \n)<>=!,+*/%[]:-")
_QUOTED_PART = re.compile(
    r'[^"\\\x00-\x1f\x7f\ud800-\udfff]+|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\.'
)
# A text as far as its closing quote, and the most characters that a hint repeats.
_CLOSED = re.compile(r'"(?:[^"\\\r\n]|\\.)*"')
_LONGEST_HINT = 200
_BACKSLASH = re.compile(r'(\\["\\nrt]|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8})|\\')
_BACKQUOTED_PART = re.compile(r"[^`\x00-\x1f\x7f\ud800-\udfff]+|``")
_LENGTH = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_UNITS = {*UNITS, *UNIT_WORDS}
# by how they are written
_KEYWORDS = {**{word: word for word in KEYWORDS}, **{word.upper(): word for word in KEYWORDS}}
_ESCAPED = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}

_NOT_OURS = {
    "&&": "write and",
    "||": "write or",
    "&": "write and",
    "|": "write or",
    "!": "write not",
    "~": 'write not; to match text, use matches(column, "pattern")',
    "∧": "write and",
    "∨": "write or",
    "¬": "write not",
    "≠": "write !=",
    "≤": "write <=",
    "≥": "write >=",
    "'": 'write text in double quotes: "like this"; write the name of a column in backquotes',
    ".": "a number begins with a digit: 0.5; write the name of a column with a dot in backquotes",
    "$": "write the name of a column with such characters in backquotes",
    ";": "a predicate ends where the next declaration begins; it needs no mark",
    "*/": "comments nest: each */ needs its own /*",
}


class Token:
    """A token of an expression.

    Attributes:
        kind: `COLUMN` (any name), `FUNCTION` (a name before a parenthesis), `ROW_COLUMN`, `OFFSET`,
            `FIELD` (`.NAME` behind a bracket), `DEFAULT`, `NUMBER`, `DURATION`, `TEXT`, `INVALID`
            or `END`; each keyword (in lower case) and each symbol is a kind of its own.
        start: the start of the token, which is text[start:end].
        end: the end of the token.
        value: the name of the column, function, offset or field, the number, or the text; a length
            of time as it is written; for an invalid token, the message of the error.
        hint: how to correct an invalid token, or None.
    """

    __slots__ = ("end", "hint", "kind", "start", "value")

    def __init__(
        self, kind: str, start: int, end: int, value: str | int | Decimal = "", hint: str = ""
    ) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.value = value
        self.hint = hint or None


def scan(
    text: str, start: int = 0, end: int | None = None, *, in_formula: bool = False
) -> Iterator[Token]:
    """Yield the tokens of text[start:end]; the last one is of the kind `END` or `INVALID`.

    Args:
        text: the whole text.
        start: where the part begins.
        end: where the part ends; None means the end of the text.
        in_formula: whether the signs of formulas (`->`, `<->`, `=>`, `<=>`) are symbols.
    """
    scan = _SCAN_IN_FORMULA if in_formula else _SCAN
    position = meaningful = start
    end = len(text) if end is None else end
    while match := scan.match(text, position, end):
        kind, position = match.lastgroup, match.end()
        if kind == "blank":
            continue
        if kind == "comment":
            position = comment_end(text, position, end)
            if position < 0:
                yield Token(INVALID, match.start(), match.end(), "this comment never ends")
                return
            continue
        token = _token(text, match, end)
        yield token
        if token.kind == INVALID:
            return
        position = meaningful = token.end
    yield _stray(text, position) if position < end else Token(END, meaningful, meaningful)


def is_operator_of_formulas(word: str) -> bool:
    """Whether formulas read a word as an operator, also in lower case."""
    return word in BY_SPELLING or word in SMALL_WORDS


def is_temporal_word(word: str) -> bool:
    """Whether a word is a temporal operator of formulas, written out as in ONCE."""
    operator = BY_SPELLING.get(word)
    return operator is not None and operator.is_temporal and word == operator.word


def is_plain_column(name: str) -> bool:
    """Whether the name of a column can be written without backquotes."""
    # `if` before an operand would begin a conditional expression
    is_word = name in _KEYWORDS or name.lower() == "if" or is_temporal_word(name)
    return _PLAIN.fullmatch(name) is not None and not is_word


def end_of_quoted(text: str, start: int, end: int) -> int:
    """Return where the text in double quotes, or the name in backquotes, at `start` ends.

    If it is never closed, return the position after its opening quote.
    """
    token = _text(text, start, end) if text[start] == '"' else _backquoted(text, start, end)
    return start + 1 if token.kind == INVALID else token.end


def _token(text: str, match: re.Match[str], end: int) -> Token:
    start, behind, value, found = match.start(), match.end(), match.group(), match.lastgroup
    if found == "symbol":
        return Token(value, start, behind, value)
    if found == "number":
        return _number(text, match, end)
    if found == "text":
        return _text(text, start, end)
    if found == "column":
        return _backquoted(text, start, end)
    if found == "offset":
        return Token(OFFSET, start, behind, value[1:])
    if found == "field":
        return _dotted(text, start, match, end, FIELD)
    if keyword := _KEYWORDS.get(value):
        if keyword == "or" and (colon := _COLON.match(text, behind, end)):
            return Token(DEFAULT, start, colon.end(), value)
        return Token(keyword, start, behind, value)
    if text[behind : behind + 1] in _ENDS:
        kind = FUNCTION if _CALL.match(text, behind, end) else COLUMN
        return Token(kind, start, behind, value)
    if _OFFSET_BEHIND.match(text, behind, end):
        return Token(COLUMN, start, behind, value)
    if value == "row" and (dot := _ROW.match(text, behind, end)):
        return _dotted(text, start, dot, end, ROW_COLUMN)
    after = _GLUED.match(text, behind, end)
    if after or text.startswith("$", behind):
        name = value + (after.group() if after else "$")
        column, _, offset = name.rpartition(".")
        is_called = "." in name and text.startswith("(", match.start() + len(name))
        if is_called and offset not in _OFFSET_NAMES:
            message = f"there is no .{offset}()"
            return Token(INVALID, start, behind, message, hint=OFFSETS_HINT)
        message = "the name of a column has only letters, digits and _, or is written in backquotes"
        hint = f"write `{name}`"
        if offset in _OFFSET_NAMES:
            before = f"{column if column == value else f'`{column}`'}.{offset}"
            if is_called:
                hint = f"write {before}(...)"
            else:
                hint += f", or with parentheses for the value of another row: {before}()"
        return Token(INVALID, start, behind, message, hint=hint)
    kind = FUNCTION if _CALL.match(text, behind, end) else COLUMN
    return Token(kind, start, behind, value)


def _dotted(text: str, start: int, dot: re.Match[str], end: int, kind: str) -> Token:
    """The token for `row.NAME` or `.NAME`; `dot` matches what is not in backquotes, from `.` on."""
    if text.startswith("`", dot.end()):
        column = _backquoted(text, dot.end(), end)
        if column.kind == INVALID:
            return column
        return Token(kind, start, column.end, column.value)
    after = _GLUED.match(text, dot.end(), end)
    if after and not _OFFSET_BEHIND.match(text, dot.end(), end):
        name = dot.group()[1:] + after.group()
        message = "the name of a column has only letters, digits and _, or is written in backquotes"
        before = "row" if kind == ROW_COLUMN else ""
        return Token(INVALID, start, dot.end(), message, hint=f"write {before}.`{name}`")
    return Token(kind, start, dot.end(), dot.group()[1:])


def _number(text: str, match: re.Match[str], end: int) -> Token:
    start, written = match.start(), match.group()
    is_alone = text[match.end() : match.end() + 1] in _ENDS
    glued = None if is_alone else _GLUED.match(text, match.end(), end)
    if glued and _LENGTH.fullmatch(written) and glued.group() in _UNITS:
        return Token(DURATION, start, glued.end(), written + glued.group())
    if glued:
        word = written + glued.group()
        hint = "a number has digits, a point and an exponent, as in 12, 1.5 and 2e6"
        if word[0].isdigit() and not word.replace("_", "").isdigit():
            hint += "; write the name of a column that begins with a digit in backquotes"
        return Token(INVALID, start, match.end(), f"'{word[:40]}' is not a number", hint)
    if len(written) > LARGEST_DIGITS:
        message = f"this number has more than {LARGEST_DIGITS} characters"
        return Token(INVALID, start, match.end(), message)
    if written.isdigit():
        integer = int(written)
        # LARGEST + 1 is valid after a minus
        if integer > LARGEST + 1:
            message = f"integers are at most {LARGEST}"
            hint = f"write {written}.0 for a number with a fraction, which may be larger"
            return Token(INVALID, start, match.end(), message, hint)
        return Token(NUMBER, start, match.end(), integer)
    nearest = float(written)
    value = Decimal(0)
    if any(digit in "123456789" for digit in re.split("[eE]", written)[0]):
        if isinf(nearest) or nearest == 0:
            message = "numbers with a fraction or an exponent are from 5e-324 to 1.7e308"
            return Token(INVALID, start, match.end(), message)
        value = Decimal(written)
    return Token(NUMBER, start, match.end(), value)


def _text(text: str, start: int, end: int) -> Token:
    parts: list[str] = []
    position = start + 1
    while match := _QUOTED_PART.match(text, position, end):
        part = match.group()
        if part[0] != "\\":
            parts.append(part)
        elif len(part) > 2:
            code = int(part[2:], 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                return Token(INVALID, position, match.end(), f"{part} is not a character")
            parts.append(chr(code))
        elif part[1] in _ESCAPED:
            parts.append(_ESCAPED[part[1]])
        else:
            hint = ""
            if part.isprintable():
                hint = f"a backslash is written \\\\: {_doubled(text, start) or chr(92) + part}"
            known = r"the characters after a backslash are \" \\ \n \r \t \uXXXX and \UXXXXXXXX"
            return Token(INVALID, position, match.end(), known, hint)
        position = match.end()
    if position == end or text[position] in "\r\n\\":
        message = "this double quote is not closed on its line"
        return Token(INVALID, start, start + 1, message, r"a line break in a text is written \n")
    if text[position] != '"':
        return _control(text, position)
    return Token(TEXT, start, position + 1, "".join(parts))


def _doubled(text: str, start: int) -> str | None:
    """A text with backslashes doubled where they have no meaning; None if it is not for a hint."""
    closed = _CLOSED.match(text, start)
    if closed is None or len(closed.group()) > _LONGEST_HINT or not closed.group().isprintable():
        return None
    return _BACKSLASH.sub(lambda found: found[1] or r"\\", closed.group())


def _backquoted(text: str, start: int, end: int) -> Token:
    parts: list[str] = []
    position = start + 1
    while match := _BACKQUOTED_PART.match(text, position, end):
        part = match.group()
        parts.append("`" if part == "``" else part)
        position = match.end()
    if position == end or text[position] in "\r\n":
        message = "this backquote is not closed on its line"
        return Token(INVALID, start, start + 1, message, "a backquote in a name is written twice")
    if text[position] != "`":
        return _control(text, position)
    if not parts:
        return Token(INVALID, start, position + 1, "a column without a name")
    return Token(COLUMN, start, position + 1, "".join(parts))


def _control(text: str, position: int) -> Token:
    message = f"unexpected character U+{ord(text[position]):04X}"
    return Token(INVALID, position, position + 1, message, r"in a text it is written \uXXXX")


def _stray(text: str, position: int) -> Token:
    """The invalid token for a position where no token starts."""
    for length in (2, 1):
        piece = text[position : position + length]
        if piece in _NOT_OURS:
            message = f"'{piece}' is not part of predicates"
            return Token(INVALID, position, position + length, message, _NOT_OURS[piece])
    from mtlmon.support.other_words import SIGNS

    character = text[position]
    shown = f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"
    otherwise = "write the name of a column with such characters in backquotes"
    hint = SIGNS.get(character, otherwise)
    return Token(INVALID, position, position + 1, f"unexpected character {shown}", hint)
