"""Reads intervals: brackets, bounds, time units."""

from __future__ import annotations

from mtlmon.syntax.interval import MAXIMUM_BOUND, Interval
from mtlmon.syntax.lexer import ATOM, NUMBER, OPERATOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.syntax.cursor import Cursor
    from mtlmon.syntax.lexer import Token

UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
"""The length of each time unit in nanoseconds."""

_INFINITY = frozenset({"*", "∞", "inf", "INFINITY"})
# More than the largest bound has in the smallest unit.
_MAXIMUM_DIGITS = 40


def opens_interval(cursor: Cursor) -> bool:
    """Whether an interval starts at the cursor, which stands behind a temporal operator.

    No atom starts with a digit, so a parenthesis before one opens an interval.
    """
    kind = cursor.token.kind
    return kind == "[" or (kind == "(" and cursor.ahead(1).kind == NUMBER)


def read_interval(cursor: Cursor, unit: str | None) -> Interval:
    """Reads an interval and moves behind it.

    Raises:
        FormulaError: it is malformed, empty, or has a bound that is too large, has a unit though
            none is declared, or is no whole number of the declared one.
    """
    opening, opening_index = cursor.token, cursor.index
    cursor.index += 1
    lower_text = cursor.token
    lower = _read_bound(cursor, unit, "the lower bound, a whole number")
    _read_comma(cursor, lower_text)
    upper = None
    if cursor.text_of(cursor.token) in _INFINITY:
        cursor.index += 1
    else:
        upper = _read_bound(cursor, unit, "the upper bound, a whole number or *")
    closing = cursor.token
    if closing.kind not in {"]", ")"}:
        raise cursor.expected("']' or ')' at the end of the interval")
    cursor.index += 1
    first = lower + (opening.kind == "(")
    last = upper if upper is None else upper - (closing.kind == ")")
    if first > MAXIMUM_BOUND or (last is not None and last < first):
        written = cursor.words(opening_index, cursor.index)
        hint = _empty_hint(lower, upper)
        raise cursor.error(f"the interval {written} is empty", opening, hint)
    return Interval(first, last)


def _read_bound(cursor: Cursor, unit: str | None, what: str) -> int:
    token = cursor.token
    if token.kind != NUMBER:
        raise cursor.expected(what)
    cursor.index += 1
    digits = token.value.lstrip("0") or "0"
    value = int(digits[:_MAXIMUM_DIGITS])
    if (
        len(digits) < _MAXIMUM_DIGITS
        and cursor.token.kind in {ATOM, OPERATOR}
        and cursor.token.value.isalpha()
    ):
        value = _converted(cursor, token, value, unit)
        cursor.index += 1
    if value > MAXIMUM_BOUND:
        raise cursor.error(f"this bound is above the largest one, {MAXIMUM_BOUND}", token)
    return value


def _converted(cursor: Cursor, number: Token, value: int, unit: str | None) -> int:
    """The value, which carries the unit at the cursor, in the stream's unit."""
    written = cursor.text_of(cursor.token)
    bound = cursor.text[number.start : number.end] + written
    if written not in UNITS:
        hint = f"the units are {', '.join(UNITS)}"
        raise cursor.error(f"'{written}' is no unit of time", cursor.token, hint)
    if unit is None:
        hint = "declare the stream's unit (on the command line with --unit), or write a bare number"
        message = f"{bound} has a unit, but the unit of the stream's time-stamps is not declared"
        raise cursor.error(message, number, hint)
    converted, rest = divmod(value * UNITS[written], UNITS[unit])
    if rest:
        message = f"{bound} is no whole number of the stream's unit, {unit}"
        raise cursor.error(message, number)
    return converted


def _read_comma(cursor: Cursor, lower: Token) -> None:
    if cursor.token.kind == ",":
        cursor.index += 1
        return
    hint = None
    if cursor.token.kind in {"]", ")"}:
        bound = cursor.text[lower.start : cursor.ahead(-1).end]
        hint = f"an interval has two bounds: [0,{bound}] is at most, [{bound},{bound}] exactly"
    raise cursor.expected("',' and the upper bound", hint)


def _empty_hint(lower: int, upper: int | None) -> str | None:
    if upper is None:
        return None
    if lower > upper:
        return f"the lower bound comes first: [{upper},{lower}]"
    return f"a round bracket leaves its bound out, a square one does not: [{lower},{upper}]"
