"""Splits the text of a formula into tokens.

Text that is not a token becomes a token of the kind `INVALID`, which ends the list. The parser
reports it when it gets there, so that earlier errors come first.

Some words are operators only where no atom can be, so the lexer knows whether an operand or a
binary operator comes next.
"""

from __future__ import annotations

import re

from mtlmon.syntax.operators import BY_SPELLING, SMALL_WORDS, Operator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol, TypeVar

    from mtlmon.syntax.formula import Formula

    class _Piece(Protocol):
        kind: str
        end: int

    AnyToken = TypeVar("AnyToken", bound=_Piece)

    class Conditions(Protocol):
        """Reads the conditions inside a formula, which are atoms, in another language."""

        def begins(self, text: str, position: int, end: int) -> bool:
            """Whether a condition begins at the position, where an operand can be."""

        def read(self, text: str, position: int, end: int) -> Token:
            """Return the condition as an atom, a leaf, a quantifier, or an invalid token."""


ATOM = "atom"
LEAF = "leaf"
OPERATOR = "operator"
NUMBER = "number"
INVALID = "invalid"
END = "end"
"""Punctuation; each mark is a kind of token of its own."""


class Token:
    """A token of a formula.

    Attributes:
        kind: `ATOM`, `LEAF`, `OPERATOR`, `NUMBER`, `INVALID`, `END`, or one of `()[],*∞`.
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


_SYMBOLS = sorted(
    (spelling for spelling in BY_SPELLING if not spelling[0].isalpha()), key=len, reverse=True
)
_SCAN = re.compile(
    rf"""
      (?P<blank> (?: \s+ | \#[^\n]* )+ )
    | (?P<word> (?: [^\W\d] | \$ ) [\w$.']* ⁻? )
    | (?P<symbol> {"|".join(map(re.escape, _SYMBOLS))} )
    | (?P<comment> /\* )
    | (?P<number> [0-9]+ (?: \.[0-9]+ (?= \s* (?: [num]?s | [mhd] | min | sec ) \b ) )? )
    | (?P<quoted> " )
    | (?P<punctuation> [][(),∞] | \*(?!/) )
    | (?P<other> [-`∀∃] )
    """,
    re.VERBOSE,
)
# Blanks and comments up to line ends are never read in a second way (`++`), as there would be as
# many ways as subsets of them.
_BLANK = re.compile(r"(?:\s++|\#[^\n]*+)++(?:/\*)?|/\*")
_DIGIT = re.compile(r"\s*[0-9]")
# PERF: these are compiled when they are first used, which few formulas need.
_COMMENT_MARK = r"/\*|\*/"
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
    return list(scan_tokens(text, start, end, _SCAN, _Lexer(conditions).read, _stray, Token))


def scan_tokens(
    text: str,
    start: int,
    end: int | None,
    scan: re.Pattern[str],
    read: Callable[[str, re.Match[str], int], AnyToken],
    stray: Callable[[str, int], AnyToken],
    make: Callable[[str, int, int, str], AnyToken],
) -> Iterator[AnyToken]:
    """Yield the tokens of text[start:end] in any language with the same blanks and comments.

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
                yield make(INVALID, match.start(), match.end(), message)
                return
            continue
        token = read(text, match, end)
        yield token
        if token.kind == INVALID:
            return
        position = meaningful = token.end
    if position < end:
        yield stray(text, position)
    else:
        yield make(END, meaningful, meaningful, "")


def is_plain_atom(name: str) -> bool:
    """Whether the name of an atom can be written without quotes."""
    return (
        re.fullmatch(_ATOM, name) is not None
        and (name[0].isalpha() or name[0] in _NAME_MARKS)
        and name not in BY_SPELLING
    )


class _Lexer:
    """Reads tokens, and keeps track of what can come next.

    Attributes:
        conditions: reads conditions inside the formula, or None.
        wants_operand: whether an operand comes next, not a binary operator.
        can_open: whether an interval can come next, after a temporal operator.
        in_interval: whether the tokens are those of an interval.
    """

    __slots__ = ("can_open", "conditions", "in_interval", "wants_operand")

    def __init__(self, conditions: Conditions | None) -> None:
        self.conditions = conditions
        self.wants_operand = True
        self.can_open = False
        self.in_interval = False

    def read(self, text: str, match: re.Match[str], limit: int) -> Token:
        """Return the token at a match of `_SCAN`."""
        if self.in_interval:
            token = _token(text, match, limit)
            self.in_interval = token.kind not in {"]", ")"}
            return token
        start = match.start()
        if self.can_open:
            self.can_open = False
            if text[start] == "[" or (text[start] == "(" and _DIGIT.match(text, start + 1, limit)):
                self.in_interval = True
                return _token(text, match, limit)
        if self.wants_operand and self.conditions and self.conditions.begins(text, start, limit):
            token = self.conditions.read(text, start, limit)
            self.wants_operand = token.operator is not None
            return token
        token = _token(text, match, limit)
        if token.kind == ATOM and text[start] != '"' and self.is_operator(token, text, limit):
            token = Token(OPERATOR, start, token.end, token.value, SMALL_WORDS[token.value])
        operator = token.operator
        if operator is not None:
            self.wants_operand = operator.arity > 0
            self.can_open = operator.is_temporal
        else:
            self.wants_operand = token.kind == "("
        return token

    def is_operator(self, token: Token, text: str, limit: int) -> bool:
        """Whether a word in lower case is an operator here."""
        operator = SMALL_WORDS.get(token.value)
        if operator is None or operator.is_prefix is not self.wants_operand:
            return False
        return not self.wants_operand or _operand_follows(text, token.end, limit, operator)


def _operand_follows(text: str, position: int, end: int, operator: Operator) -> bool:
    """Whether an operand of the operator, or its interval, begins after the position."""
    answer = True
    while True:
        position = skip_blanks(text, position, end)
        match = _SCAN.match(text, position, end)
        if match is None or match.group() in {")", ",", "]", "*", "∞"}:
            return not answer
        if match.group() == "[":
            return answer is operator.is_temporal
        if match.group() == "(":
            closes = text.startswith(")", skip_blanks(text, position + 1, end))
            return answer is not closes
        spelled = BY_SPELLING.get(match.group())
        if spelled is not None:
            return answer is (spelled.arity < 2)
        small = SMALL_WORDS.get(match.group())
        if small is None or small.is_prefix:
            return answer
        # `next and b` has a binary operator between two operands, and `next and` has not.
        operator, position, answer = small, match.end(), not answer


def skip_blanks(text: str, position: int, end: int) -> int:
    """Return the position behind blanks and comments; `end` if a comment is not closed."""
    while match := _BLANK.match(text, position, end):
        position = match.end()
        if match.group().endswith("/*"):
            position = comment_end(text, position, end)
            if position < 0:
                return end
    return position


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
    if match.lastgroup == "other":
        return _stray(text, start)
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
    # PERF: the table is read for errors only
    from mtlmon.support.other_words import SIGNS

    character = text[position]
    hint = SIGNS.get(character, "an atom with unusual characters is written in double quotes")
    shown = f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"
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
