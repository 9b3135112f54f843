"""Finds the conditions inside formulas: comparisons, lists, tests for null, calls and windows.

The lexer of formulas asks at each place where an operand can be whether a condition begins there.
What follows the operand's first value answers that, so parentheses are looked through once for each
text.
"""

from __future__ import annotations

import re

from mtlmon.errors import FormulaError
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.own_aggregates import registered
from mtlmon.policy.predicates.own_functions import registered_function
from mtlmon.policy.predicates.parser import parse_comparison
from mtlmon.syntax.lexer import ATOM, INVALID, Token, comment_end, skip_blanks
from mtlmon.syntax.operators import BY_SPELLING, SMALL_WORDS
from mtlmon.syntax.report import offset_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from mtlmon.policy.predicates.expression import Constant, Expression

WORD = re.compile(r"(?:[^\W\d]|\$)[\w$.']*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?:[a-z]{1,3})?\b")
QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_BACKQUOTED = re.compile(r"(?:`[^`\n]*`)+")
# The signs of formulas come first, as the longest sign wins.
_SIGN = re.compile(r"(?!->|=>|<->|<=>)(?:==|!=|<>|<=|>=|[=<>+%]|\*(?!/)|/(?!\*)|-)")
_COMPARISON = re.compile(r"(?!=>|<->|<=>)(?:==|!=|<>|<=|>=|[=<>])")
_TEST = re.compile(r"(?i:(?:not\s+)?in(?:\s*\(|\s+[\w$`]|\s*`)|is\s+(?:not\s+)?null\b)")
# A name with a dash, as in foo-bar, and whether it is compared with something.
_GLUED = re.compile(r"(?:-[\w$.']+)+")
_OFFSET = re.compile(rf"\.(?:{'|'.join(ops.OFFSETS)})\s*\(")
_OFFSET_OF_NAME = re.compile(rf"(.+)\.(?:{'|'.join(ops.OFFSETS)})")
# What an offset takes, and no atom with arguments.
_OFFSET_ARGUMENTS = re.compile(r"\(\s*(?:or\s*:|-?[0-9][\w.]*\s*[,)])")
# A column of a record, as in `limits[road].max`.
_FIELD = re.compile(r"\.[A-Za-z_`]")
_MARK = re.compile(r'/\*|\#[^\n]*|"|`|[][()]')


class Conditions:
    """Reads the conditions inside formulas of one text, as the lexer of formulas asks for them.

    PERF: to parse conditions that are written alike once took 0.01 to 0.03 s less than 0.36 s for
    1,000 policies with 2,200 conditions of which 1,200 are different, but the text must tell where
    a condition ends before it is parsed.

    Args:
        source: the name of the text in errors.
        unit: the unit of the time-stamps, as for `parse`.
        streams: the names of streams.
        constants: the values of constants by name.
        add: takes a condition and returns the name of the atom that it is.
    """

    __slots__ = ("_add", "_closing", "_constants", "_source", "_streams", "_unit")

    def __init__(
        self,
        source: str,
        unit: str | None,
        streams: Container[str],
        constants: Mapping[str, Constant],
        add: Callable[[Expression], str],
    ) -> None:
        self._source = source
        self._unit = unit
        self._streams = streams
        self._add = add
        self._constants = constants
        # By the position of an opening parenthesis or bracket, the position behind its closing one.
        self._closing: dict[int, int] | None = None

    def begins(self, text: str, position: int, end: int) -> bool:
        """Whether a condition begins at a position where an operand can be."""
        first = text[position]
        if first == "(":
            behind = self._behind(text, position, end)
            return behind is not None and self._goes_on(text, behind, end)
        if first == "-":
            return not text.startswith("->", position)
        if not first.isalpha():
            for pattern in (_NUMBER, QUOTED, _BACKQUOTED):
                if found := pattern.match(text, position, end):
                    return self._goes_on(text, found.end(), end)
        word = WORD.match(text, position, end)
        return word is not None and self._begins_with(word.group(), text, word.end(), end)

    def read(self, text: str, position: int, end: int) -> Token:
        """Return the condition at a position as an atom, or an invalid token for an error in it."""
        word = WORD.match(text, position, end)
        if word is not None and (operator := BY_SPELLING.get(word.group())) and operator.arity:
            message = f"{word.group()} is an operator"
            hint = f"write the name of a column like this in backquotes: `{word.group()}`"
            if operator.is_temporal:
                hint = f"write bounds in brackets, as in {word.group()}[0,5] p; or {hint}"
            return Token(INVALID, position, word.end(), message, hint=hint)
        try:
            expression, stop = parse_comparison(
                text, self._source, position, end, self._unit, self._constants
            )
            return Token(ATOM, position, stop, self._add(expression))
        except FormulaError as error:
            place = offset_of(text, error)
            return Token(INVALID, place, place + 1, error.message, hint=error.hint)

    def _begins_with(self, word: str, text: str, behind: int, end: int) -> bool:
        """Whether a condition begins with a word that ends at `behind`."""
        following = skip_blanks(text, behind, end)
        operator = BY_SPELLING.get(word)
        if operator is not None and operator.arity:
            return _COMPARISON.match(text, following, end) is not None
        if word == "exists":
            name = WORD.match(text, following, end)
            if name is not None:
                return name.group() not in BY_SPELLING and name.group() not in SMALL_WORDS
            return text.startswith("`", following) or self._goes_on(text, behind, end)
        if following < end and text[following] == "[":
            if word in ops.AGGREGATES or registered(word) is not None:
                return True
            behind_bracket = self._behind(text, following, end)
            return (
                word not in SMALL_WORDS
                and behind_bracket is not None
                and (
                    _FIELD.match(text, behind_bracket, end) is not None
                    or self._goes_on(text, behind_bracket, end)
                )
            )
        if following < end and text[following] == "(" and word not in SMALL_WORDS:
            return self._begins_with_call(word, text, following, end)
        glued = _GLUED.match(text, behind, end)
        return self._goes_on(text, behind if glued is None else glued.end(), end)

    def _begins_with_call(self, word: str, text: str, opening: int, end: int) -> bool:
        if text.startswith(")", skip_blanks(text, opening + 1, end)):
            # `name()` is an atom, and `name.hold()` is a value
            offset = _OFFSET_OF_NAME.fullmatch(word)
            if offset is None:
                return False
        if word in ops.FUNCTIONS or word in ops.OVER_WORDS or registered_function(word) is not None:
            return True
        offset = _OFFSET_OF_NAME.fullmatch(word)
        if offset is not None and (
            offset[1] in self._streams or _OFFSET_ARGUMENTS.match(text, opening, end)
        ):
            return True
        behind = self._behind(text, opening, end)
        return behind is not None and self._goes_on(text, behind, end)

    def _goes_on(self, text: str, behind: int, end: int) -> bool:
        """Whether the value that ends at `behind` is compared or calculated with."""
        following = skip_blanks(text, behind, end)
        for pattern in (_SIGN, _TEST, _OFFSET):
            if pattern.match(text, following, end) is not None:
                return True
        return False

    def _behind(self, text: str, opening: int, end: int) -> int | None:
        """The position behind the parenthesis or bracket that closes the one at `opening`."""
        if self._closing is None or opening not in self._closing:
            self._closing = _closings(text, opening, end)
        closing = self._closing[opening]
        return None if closing < 0 else closing


def _closings(text: str, position: int, end: int) -> dict[int, int]:
    """For each opening parenthesis or bracket from `position` on, where its counterpart ends.

    It is -1 where there is none.
    """
    closings: dict[int, int] = {}
    opened: list[int] = []
    while mark := _MARK.search(text, position, end):
        found, position = mark.group(), mark.end()
        if found in "([":
            closings[mark.start()] = -1
            opened.append(mark.start())
        elif found in ")]":
            if opened:
                closings[opened.pop()] = position
        elif found == "/*":
            behind = comment_end(text, position, end)
            position = end if behind < 0 else behind
        elif found in {'"', "`"}:
            closed = (QUOTED if found == '"' else _BACKQUOTED).match(text, mark.start(), end)
            position = mark.end() if closed is None else closed.end()
    return closings
