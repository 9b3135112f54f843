"""Reads intervals: brackets, bounds, time units."""

from __future__ import annotations

from mtlmon.errors import UnitError
from mtlmon.syntax.interval import MAXIMUM_BOUND, Interval
from mtlmon.syntax.lexer import ATOM, END, NUMBER, OPERATOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtlmon.syntax.cursor import Cursor
    from mtlmon.syntax.durations import Duration
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

LATER = "later"
"""In place of a unit: it is declared later, and bounds keep theirs until then."""

INFINITY = frozenset({"*", "∞", "inf", "INFINITY"})
"""How an upper bound is written that is none."""

# More than the largest bound has in the smallest unit.
_MAXIMUM_DIGITS = 40


def require_unit(unit: str) -> None:
    """Accept a key of `UNITS`.

    Raises:
        UnitError: it is none.
    """
    if unit not in UNITS:
        raise UnitError(f"the unit is one of {', '.join(UNITS)}, not {unit!r}")


def opens_interval(cursor: Cursor) -> bool:
    """Whether an interval starts at the cursor, which stands behind a temporal operator.

    No atom starts with a digit, so a parenthesis before one opens an interval.
    """
    kind = cursor.token.kind
    return kind == "[" or (kind == "(" and cursor.ahead(1).kind == NUMBER)


def read_interval(cursor: Cursor, unit: str | None) -> Interval:
    """Reads an interval and moves behind it.

    Args:
        cursor: stands at the opening bracket.
        unit: that of the stream's time-stamps, a key of `UNITS`; None when it is not declared,
            `LATER` when it will be: then an interval with units is a `DurationInterval`.

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
    if cursor.text_of(cursor.token) in INFINITY:
        cursor.index += 1
    else:
        upper = _read_bound(cursor, unit, "the upper bound, a whole number or *")
    closing = cursor.token
    if closing.kind not in {"]", ")"}:
        raise cursor.expected("']' or ')' at the end of the interval")
    cursor.index += 1
    is_open = opening.kind == "(", upper is not None and closing.kind == ")"
    if (interval := make_interval(lower, upper, is_open)) is None:
        written = cursor.words(opening_index, cursor.index)
        hint = empty_hint(lower, upper)
        raise cursor.error(f"the interval {written} is empty", opening, hint)
    return interval


def make_interval(
    lower: int | Duration, upper: int | Duration | None, is_open: tuple[bool, bool] = (False, False)
) -> Interval | None:
    """The interval between two bounds, of which `is_open` leaves some out; None if it is empty.

    Between bounds with units it is a `DurationInterval`.
    """
    if isinstance(lower, int) and (upper is None or isinstance(upper, int)):
        first = lower + is_open[0]
        last = None if upper is None else upper - is_open[1]
        if first > MAXIMUM_BOUND or (last is not None and last < first):
            return None
        return Interval(first, last)
    from mtlmon.syntax.durations import DurationInterval

    interval = DurationInterval(lower, upper, is_open)
    return None if interval.is_surely_empty else interval


def read_bound(cursor: Cursor) -> int | Duration:
    """Reads a text that is a bound and nothing else; one with a unit is a `Duration`.

    Raises:
        FormulaError: it is not.
    """
    bound = _read_bound(cursor, LATER, "a whole number, with or without a unit of time")
    if cursor.token.kind != END:
        raise cursor.expected("the end of the bound")
    return bound


def _read_bound(cursor: Cursor, unit: str | None, what: str) -> int | Duration:
    token = cursor.token
    if token.kind != NUMBER:
        raise cursor.expected(what)
    cursor.index += 1
    digits = token.value.lstrip("0") or "0"
    number = int(digits[:_MAXIMUM_DIGITS])
    value: int | Duration = number
    if (
        len(digits) < _MAXIMUM_DIGITS
        and cursor.token.kind in {ATOM, OPERATOR}
        and cursor.token.value.isalpha()
    ):
        value = _converted(cursor, token, number, unit)
        cursor.index += 1
    if isinstance(value, int) and value > MAXIMUM_BOUND:
        raise cursor.error(f"this bound is above the largest one, {MAXIMUM_BOUND}", token)
    return value


def _converted(cursor: Cursor, number: Token, value: int, unit: str | None) -> int | Duration:
    """The value, which carries the unit at the cursor, in the stream's unit if that is known."""
    written = cursor.text_of(cursor.token)
    bound = cursor.text[number.start : number.end] + written
    if written not in UNITS:
        hint = f"the units are {', '.join(UNITS)}"
        raise cursor.error(f"'{written}' is not a unit of time", cursor.token, hint)
    if unit is None:
        hint = (
            "declare the stream's unit (a line 'unit ms' in the file, --unit ms on the command "
            "line, unit='ms' in Python), or write a bare number"
        )
        message = f"{bound} has a unit, but the unit of the stream's time-stamps is not declared"
        raise cursor.error(message, number, hint)
    if unit == LATER:
        from mtlmon.syntax.durations import Duration

        return Duration(value, written)
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


def empty_hint(lower: int | Duration, upper: int | Duration | None) -> str | None:
    """How to mend an empty interval between these bounds, where known."""
    if upper is None:
        return None
    if _size(lower) > _size(upper):
        return f"the lower bound comes first: [{upper},{lower}]"
    return f"a round bracket leaves its bound out, a square one does not: [{lower},{upper}]"


def _size(bound: int | Duration) -> int:
    return bound if isinstance(bound, int) else bound.nanoseconds
