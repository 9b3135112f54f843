"""What expressions mean, row by row: plain Python, None for null, written for obviousness."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.doors import Expression
from tests.reference.float_functions import OF_FLOATS


class Overflow(Exception):
    """An integer is outside of 64 bits."""


class Instant:
    """A date or a time of a column: microseconds since 1970."""

    def __init__(self, microseconds: Fraction) -> None:
        self.microseconds = microseconds


class World(NamedTuple):
    """What a row does not say.

    Attributes:
        types: for each column "integer", "float", "decimal", "text", "boolean", "time", "date" or
            "null", and for the time column "seconds".
        zone: the time zone of `hour` and the like.
    """

    types: Mapping[str, str] = {}
    zone: str = "UTC"


_NO_WORLD = World()


def evaluate(node: Expression, row: Mapping[str, Any], world: World = _NO_WORLD) -> Any:
    """The value of an expression on a row."""
    name = node.operator.name
    if name == "COLUMN":
        return _column_value(row[str(node.value)])
    if name == "CONSTANT":
        return node.value
    values = [evaluate(operand, row, world) for operand in node.operands]
    if name in {"IF", "coalesce", "min", "max"}:
        if name == "IF":
            value = values[1] if values[0] else values[2]
        elif name == "coalesce":
            value = values[1] if values[0] is None else values[0]
        else:
            value = _extreme(name, [_typed(value, _type(node, world)) for value in values])
        return _typed(value, _type(node, world))
    if name in {"AND", "OR"}:
        decisive = name == "OR"
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    if name == "IS_NULL":
        return values[0] is None
    if name == "IS_NOT_NULL":
        return values[0] is not None
    if None in values:
        return None
    if name == "NOT":
        return not values[0]
    if name in {"IN", "NOT_IN"}:
        assert isinstance(node.value, tuple)
        is_member = any(_compare("EQUAL", values[0], value) for value in node.value)
        return is_member == (name == "IN")
    if name in _CLOCKS:
        return _CLOCKS[name](_wall_clock(values[0], _type(node.operands[0], world), world.zone))
    if name == "SUBTRACT" and all(isinstance(value, Instant) for value in values):
        return int((values[0].microseconds - values[1].microseconds) / 10**6)
    if name in _TEXT_FUNCTIONS:
        return _TEXT_FUNCTIONS[name](*values)
    if name in _CONVERSIONS:
        value = _CONVERSIONS[name](*values)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise Overflow
        return value
    if name in _ORDER:
        return _compare(name, *values)
    return _arithmetic(name, *values)


def _type(node: Expression, world: World) -> str:
    """The type of an expression, whatever its value is."""
    name = node.operator.name
    if name == "COLUMN":
        return world.types.get(str(node.value), "null")
    if name == "CONSTANT":
        types = {bool: "boolean", int: "integer", Decimal: "float", str: "text"}
        return types.get(type(node.value), "null")
    types_of_operands = [_type(operand, world) for operand in node.operands]
    if name in {"IF", "coalesce", "min", "max"}:
        one, other = types_of_operands[-2:]
        if other in {one, "null"}:
            return one
        if {one, other} <= {"time", "date"}:
            return "time"
        if {one, other} == {"integer", "seconds"}:
            return "integer"
        return other if one == "null" else "float"
    if name in {"lower", "upper", "weekday", "date", "time_of_day"}:
        return "text"
    if name in {"hour", "minute", "length"}:
        return "integer"
    if name in {*OF_FLOATS, "DIVIDE"}:
        return "float"
    if name in {"ADD", "SUBTRACT", "MULTIPLY", "REMAINDER", "NEGATE", "abs", "floor", "round"}:
        are_floats = any("float" in kind or "decimal" in kind for kind in types_of_operands)
        return "float" if are_floats else "integer"
    return "boolean"


def _typed(value: Any, wanted: str) -> Any:
    """A value as one of the type, which its own type fits."""
    return float(value) if wanted == "float" and value is not None else value


def _extreme(name: str, values: list[Any]) -> Any:
    if None in values:
        return None
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        return math.nan
    if isinstance(values[0], Instant):
        values.sort(key=lambda value: value.microseconds)
    else:
        values.sort()
    found = values[0] if name == "min" else values[1]
    # a zero is 0.0
    return found + 0.0 if isinstance(found, float) else found


def _wall_clock(value: Instant | int, kind: str, zone: str) -> datetime:
    microseconds = value * 10**6 if isinstance(value, int) else value.microseconds
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(microseconds))
    return time if kind == "date" else time.astimezone(ZoneInfo(zone))


_CLOCKS: dict[str, Callable[[datetime], Any]] = {
    "hour": lambda time: time.hour,
    "minute": lambda time: time.minute,
    "weekday": lambda time: time.strftime("%a").lower(),
    "date": lambda time: f"{time:%Y-%m-%d}",
    "time_of_day": lambda time: f"{time:%H:%M:%S}",
}


def _column_value(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value > 2**63 - 1:
        raise Overflow
    if isinstance(value, date):
        return Instant(_microseconds(value))
    return value


def _microseconds(value: date) -> Fraction:
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return Fraction((value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))


_TEXT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": lambda text, part: part in text,
    # $ is the end of the text for RE2, for Python also a line break at the end; \d is 0 to 9
    "matches": lambda text, pattern: bool(re.search(pattern.replace("$", r"\Z"), text, re.ASCII)),
    "lower": str.lower,
    "upper": str.upper,
    "length": len,
}


def _whole_quotient(left: int, right: int) -> Any:
    if right == 0:
        raise Overflow
    return int(Fraction(left, right))


def _truncated(value: float) -> Any:
    if math.isinf(value):
        raise Overflow
    return math.trunc(value)


def _infinite_quotient(left: float, right: float) -> Any:
    left, right = float(left), float(right)
    if right:
        return left / right
    return math.nan if left == 0 else math.copysign(math.inf, left) * math.copysign(1, right)


def _number(kind: Callable[..., Any], text: str) -> Any:
    try:
        return kind("" if re.search(r"[_\s]", text) else text)
    except ValueError:
        return kind(0)


def _ocaml_float(value: float) -> str:
    written = f"{float(value):.12g}"
    return written if re.search("[.einf]", written) else written + "."


def _day(seconds: float) -> datetime:
    return datetime(1970, 1, 1) + timedelta(seconds=math.floor(min(seconds, 4102444800)))


def _searched(text: str, pattern: str) -> Any:
    """A match of a pattern in which groups and choices, and nothing else, have a backslash."""
    swapped = re.sub(
        r"\\?[()|]", lambda found: found[0][1:] if len(found[0]) > 1 else "\\" + found[0], pattern
    )
    return re.search(swapped, text, re.MULTILINE)


def _group(text: str, pattern: str, number: int) -> Any:
    found = _searched(text, pattern)
    return None if found is None or number > len(found.groups()) else found[number]


_CONVERSIONS: dict[str, Callable[..., Any]] = {
    "quotient": _whole_quotient,
    "ratio": _infinite_quotient,
    "modulo": lambda left, right: left - right * _whole_quotient(left, right),
    "f2i": _truncated,
    "i2f": float,
    "i2s": str,
    "s2i": lambda text: _number(int, text),
    "f2s": _ocaml_float,
    "s2f": lambda text: _number(float, text),
    "r2s": lambda pattern: pattern,
    "s2r": lambda text: text,
    "DAY_OF_MONTH": lambda seconds: _day(seconds).day,
    "MONTH": lambda seconds: _day(seconds).month,
    "YEAR": lambda seconds: _day(seconds).year,
    "FORMAT_DATE": lambda seconds: _day(seconds).date().isoformat(),
    "SUBSTRING": lambda part, text: part in text,
    "MATCHES": lambda text, pattern: _searched(text, pattern) is not None,
    "GROUP": _group,
}

_ORDER: dict[str, Callable[..., Any]] = {
    "EQUAL": lambda a, b: a == b,
    "NOT_EQUAL": lambda a, b: a != b,
    "LESS": lambda a, b: a < b,
    "LESS_EQUAL": lambda a, b: a <= b,
    "GREATER": lambda a, b: a > b,
    "GREATER_EQUAL": lambda a, b: a >= b,
}


def _compare(name: str, left: Any, right: Any) -> Any:
    if isinstance(left, Instant) or isinstance(right, Instant):
        left, right = _instant(left), _instant(right)
    elif isinstance(left, float) and isinstance(right, Decimal):
        right = float(right)
    elif isinstance(right, float) and isinstance(left, Decimal):
        left = float(left)
    # Python compares numbers of all other types exactly
    return _ORDER[name](left, right)


def _instant(value: Instant | str) -> Fraction:
    if isinstance(value, Instant):
        return value.microseconds
    return _microseconds(datetime.fromisoformat(value))


def _arithmetic(name: str, *values: Any) -> Any:
    if name not in {"DIVIDE", *OF_FLOATS} and all(isinstance(value, int) for value in values):
        result = _on_integers(name, *values)
        if result is not None and not -(2**63) <= result < 2**63:
            raise Overflow
        return result
    return _on_floats(name, *map(float, values))


def _on_integers(name: str, left: int, right: int = 0) -> Any:
    if name == "REMAINDER":
        return None if right == 0 else int(math.copysign(1, left)) * (abs(left) % abs(right))
    return _SIMPLE[name](left, right)


def _on_floats(name: str, left: float, right: float = 0.0) -> Any:
    if name in {"DIVIDE", "REMAINDER"} and right == 0:
        return None
    if name == "DIVIDE":
        return left / right
    if name in OF_FLOATS:
        return OF_FLOATS[name](*([left, right] if name in {"atan2", "pow"} else [left]))
    if name in {"floor", "round"} and math.isfinite(left):
        return float(math.floor(left) if name == "floor" else round(left))
    if name == "REMAINDER":
        return math.nan if math.isinf(left) else math.fmod(left, right)
    return _SIMPLE[name](left, right)


_SIMPLE: dict[str, Callable[..., Any]] = {
    "ADD": lambda a, b: a + b,
    "SUBTRACT": lambda a, b: a - b,
    "MULTIPLY": lambda a, b: a * b,
    "NEGATE": lambda a, _: -a,
    "abs": lambda a, _: abs(a),
    "floor": lambda a, _: a,
    "round": lambda a, _: a,
}
