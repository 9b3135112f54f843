"""Parses intervals: brackets, bounds and time units."""

from __future__ import annotations

from mtlmon.errors import UnitError
from mtlmon.syntax.interval import MAXIMUM_BOUND, Interval
from mtlmon.syntax.lexer import ATOM, END, INVALID, NUMBER, OPERATOR
from mtlmon.syntax.report import formula_error, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fractions import Fraction

    from mtlmon.errors import FormulaError
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

UNIT_WORDS = {"min": "m", "sec": "s"}
"""Other spellings of units."""

LATER = "later"
"""Used in place of a unit that is declared later; bounds keep their own units until then."""

INFINITY = frozenset({"*", "∞", "inf", "INFINITY"})
"""The spellings of an infinite upper bound."""

# What other languages write for infinity.
_INFINITE_ELSEWHERE = frozenset({"infinity", "infty", "oo", "inf", "unbounded", "max"})
_INTERVAL = "an interval is written [0,5], with a comma between two whole numbers"

# What is behind most bounds, and the number of digits below which all bounds are small enough.
_BEHIND = frozenset({",", "]", ")"})
_ALL_FIT = 19
# More digits than the largest bound has in the smallest unit.
_MAXIMUM_DIGITS = 40


def require_unit(unit: str) -> None:
    """Check that a unit is a key of `UNITS`.

    Raises:
        UnitError: it is not.
    """
    if unit not in UNITS:
        raise UnitError(f"the unit is one of {', '.join(UNITS)}, not {unit!r}")


def read_interval(cursor: Cursor, unit: str | None) -> Interval:
    """Parse an interval and move the cursor past it.

    Args:
        cursor: the cursor at the opening bracket.
        unit: the unit of the stream's time-stamps, a key of `UNITS`; None if it is not declared; or
            `LATER` if it will be, and then an interval with units becomes a `DurationInterval`.

    Raises:
        FormulaError: the interval is malformed or empty, or a bound is too large, has a unit
            although none is declared, or is not a whole number of the declared unit.
    """
    opening, opening_index = cursor.token, cursor.index
    cursor.index += 1
    lower_text, first_bound = cursor.token, cursor.index
    lower = _read_bound(cursor, unit, "the lower bound, a whole number")
    _read_comma(cursor, lower_text)
    upper = None
    if cursor.text_of(cursor.token) in INFINITY:
        cursor.index += 1
    else:
        upper = _read_bound(cursor, unit, "the upper bound, a whole number or *")
    closing = cursor.token
    if closing.kind not in {"]", ")"}:
        raise _bracket_missing(cursor, lower_text, opening)
    cursor.index += 1
    is_open = opening.kind == "(", upper is not None and closing.kind == ")"
    if (interval := make_interval(lower, upper, is_open)) is None:
        named = _constants_in(cursor, first_bound)
        if named and unit == LATER:
            # a length of time has no value yet; the text is read again when the unit is known
            return Interval(0, None)
        written = cursor.words(opening_index, cursor.index)
        hint = f"{' and '.join(named)}" if named else empty_hint(lower, upper)
        raise cursor.error(f"the interval {written} is empty", opening, hint)
    return interval


def _constants_in(cursor: Cursor, first: int) -> list[str]:
    """The constants between a token and the cursor, with their values."""
    names = [_constant_name(cursor, cursor.tokens[index]) for index in range(first, cursor.index)]
    return [f"{name} is {cursor.constants[name]}" for name in dict.fromkeys(names) if name]


def make_interval(
    lower: int | Duration, upper: int | Duration | None, is_open: tuple[bool, bool] = (False, False)
) -> Interval | None:
    """Make the interval between two bounds; with units it is a `DurationInterval`.

    Args:
        lower: the lower bound.
        upper: the upper bound, or None for infinity.
        is_open: whether the lower bound and the upper bound are excluded.

    Returns:
        The interval, or None if it is empty.
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


def read_bound(cursor: Cursor, unit: str | None = LATER) -> int | Duration:
    """Parse a text that is a single bound.

    Args:
        cursor: the cursor at the bound.
        unit: as for `read_interval`; with `LATER`, a bound with a unit becomes a `Duration`.

    Raises:
        FormulaError: the text is not a bound.
    """
    what = "a whole number, with or without a unit of time"
    bound = _read_bound(cursor, unit, what, is_alone=True)
    if cursor.token.kind != END:
        raise cursor.expected("the end of the bound")
    return bound


def _read_bound(
    cursor: Cursor, unit: str | None, what: str, *, is_alone: bool = False
) -> int | Duration:
    token = cursor.token
    if token.kind == NUMBER and cursor.ahead(1).kind in _BEHIND and len(token.value) < _ALL_FIT:
        cursor.index += 1
        return int(token.value)
    if (name := _constant_name(cursor, token)) is not None:
        cursor.index += 1
        return _value_of(cursor, token, name)
    if token.kind != NUMBER:
        is_name = token.kind == ATOM and cursor.text_of(token) == token.value
        hint = _constant_hint(token.value) if is_name else None
        if hint is None and cursor.ahead(-1).kind == ",":
            hint = "without an upper bound, write *, as in [0,*]"
        raise _expected(cursor, what, hint or _INTERVAL)
    cursor.index += 1
    digits = token.value.lstrip("0") or "0"
    number: int | Fraction
    if "." in digits:
        from fractions import Fraction

        # a unit follows
        if len(digits) >= _MAXIMUM_DIGITS:
            raise cursor.error(f"a bound has less than {_MAXIMUM_DIGITS} digits", token)
        number = Fraction(f"0{digits}")
    else:
        number = int(digits[:_MAXIMUM_DIGITS])
    value: int | Duration | Fraction = number
    if (
        len(digits) < _MAXIMUM_DIGITS
        and cursor.token.kind in {ATOM, OPERATOR}
        and cursor.token.value.isalpha()
        and (is_alone or _is_unit(cursor, token))
    ):
        value = _converted(cursor, token, number, unit)
        cursor.index += 1
    if isinstance(value, int) and value > MAXIMUM_BOUND:
        raise cursor.error(f"this bound is above the largest one, {MAXIMUM_BOUND}", token)
    return value  # type: ignore[return-value]


def _is_unit(cursor: Cursor, number: Token) -> bool:
    """Whether the word at the cursor belongs to the number before it: `5 s`, but not `5 resp`."""
    word = cursor.text_of(cursor.token)
    return number.end == cursor.token.start or UNIT_WORDS.get(word, word) in UNITS


def _constant_name(cursor: Cursor, token: Token) -> str | None:
    """The name of the constant at a token of an interval, or None."""
    is_name = token.kind in {ATOM, OPERATOR} and token.value in cursor.constants
    return token.value if is_name and cursor.text_of(token) not in INFINITY else None


def _constant_hint(name: str) -> str:
    if name.casefold() in _INFINITE_ELSEWHERE:
        return "no upper bound is written *, as in [0,*]"
    return f"a name is that of a constant in a policy file: const {name} = 10m"


def _value_of(cursor: Cursor, token: Token, name: str) -> int:
    """The value of a constant that is a bound."""
    value = cursor.constants[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        shown = "a text" if isinstance(value, str) else str(value)
        if value is None or isinstance(value, bool):
            shown = "null" if value is None else shown.lower()
        hint = "a bound is a whole number from 0, or a length of time, as in const w = 10m"
        raise cursor.error(f"the constant {name} is {shown}, which is no bound", token, hint)
    return value


def _converted(
    cursor: Cursor, number: Token, value: int | Fraction, unit: str | None
) -> int | Duration:
    """Convert a value with the unit at the cursor to the stream's unit, if that is known."""
    written = cursor.text_of(cursor.token)
    bound = cursor.text[number.start : number.end] + written
    written = UNIT_WORDS.get(written, written)
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

        if isinstance(value, int):
            return Duration(value, written)
        nanoseconds = value * UNITS[written]
        if nanoseconds.denominator > 1:
            raise cursor.error(f"{bound} is not a whole number of nanoseconds", number)
        return Duration.of_nanoseconds(int(nanoseconds))
    length = value * UNITS[written]
    converted = int(length // UNITS[unit])
    if converted * UNITS[unit] != length:
        message = f"{bound} is not a whole number of the stream's unit, {unit}"
        finer = None if isinstance(value, int) else "declare a finer unit, as in unit ms"
        raise cursor.error(message, number, finer)
    return converted


def _read_comma(cursor: Cursor, lower: Token) -> None:
    if cursor.token.kind == ",":
        cursor.index += 1
        return
    hint = None
    if cursor.token.kind in {"]", ")"}:
        bound = cursor.text[lower.start : cursor.ahead(-1).end]
        hint = f"an interval has two bounds: [0,{bound}] is at most, [{bound},{bound}] exactly"
    raise _expected(cursor, "',' and the upper bound", hint or _INTERVAL)


def _expected(cursor: Cursor, what: str, hint: str) -> FormulaError:
    """The error that something else was expected, also in place of what is no token, as `:`."""
    token = cursor.token
    if token.kind != INVALID or cursor.text_of(token) == "-":
        return cursor.expected(what, hint)
    if cursor.text_of(token) == "." and cursor.text[token.end : token.end + 1].isdigit():
        hint = "a bound is a whole number, with a smaller unit if need be, as in 1500ms"
    found = visible(cursor.text_of(token))
    message = f"expected {what}, found '{found}'"
    return formula_error(cursor.text, token.start, message, source=cursor.source, hint=hint)


def _bracket_missing(cursor: Cursor, lower: Token, opening: Token) -> FormulaError:
    """The error that an interval does not end behind its upper bound."""
    bounds = cursor.text[lower.start : cursor.ahead(-1).end]
    hint = f"write {opening.kind}{' '.join(bounds.split())}]"
    what = "']' or ')' at the end of the interval"
    is_other = (
        cursor.token.kind in {INVALID, ",", NUMBER} or cursor.token.start == cursor.ahead(-1).end
    )
    if is_other and cursor.token.kind != END:
        return _expected(cursor, what, hint)
    return cursor.error("']' is missing", cursor.token, hint)


def empty_hint(lower: int | Duration, upper: int | Duration | None) -> str | None:
    """Return a hint about an empty interval between these bounds, or None."""
    if upper is None:
        return None
    if _size(lower) > _size(upper):
        return f"the lower bound comes first: [{upper},{lower}]"
    return f"a round bracket leaves its bound out, a square one does not: [{lower},{upper}]"


def _size(bound: int | Duration) -> int:
    return bound if isinstance(bound, int) else bound.nanoseconds
