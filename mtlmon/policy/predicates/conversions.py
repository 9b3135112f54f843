"""Computes conversions, the functions of MonPoly's language.

They take and return values of Python. A result of None means that there is no value. An
ArithmeticError, or an integer that does not fit in 64 bits, is an error of the row.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.patterns import PatternError, compile_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtlmon.policy.predicates.operators import Operator

    Value = int | float | str | bool

_INTEGER = re.compile(r"[+-]?(?:[0-9]+|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = 4102444800
"""The time from which on all dates are that of 2100-01-01, as in MonPoly."""
_EARLIEST = -62135596800
"""The beginning of the year 1."""


def quotient(left: int, right: int) -> int:
    """Return the quotient of two integers without its fraction.

    Raises:
        ZeroDivisionError: the right integer is 0.

    >>> quotient(-7, 2)
    -3
    """
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def modulo(left: int, right: int) -> int:
    """Return what the quotient of two integers leaves over.

    Raises:
        ZeroDivisionError: the right integer is 0.

    >>> modulo(-7, 2)
    -1
    """
    return left - quotient(left, right) * right


def ratio(left: float, right: float) -> float | None:
    """Return the quotient of two floats, which can be infinite; None if it is not a number."""
    if right != 0:
        value = left / right
    else:
        value = math.copysign(math.inf, left) * math.copysign(1.0, right) if left else math.nan
    return None if math.isnan(value) else value


def integer_of_text(text: str) -> int | None:
    """Return the integer that a text is, or None if it is none.

    >>> integer_of_text("-42"), integer_of_text("0x1f"), integer_of_text("0.5")
    (-42, 31, None)
    """
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip("+-")
    is_plain = len(digits) < 2 or digits[1].isdigit()
    value = int(digits) if is_plain else int(digits, 0)
    return -value if text.startswith("-") else value


def float_of_text(text: str) -> float | None:
    """Return the number that a text is, or None if it is none or not a number."""
    try:
        value = None if "_" in text or text != text.strip() else float(text)
    except ValueError:
        return None
    return None if value is None or math.isnan(value) else value


def text_of_float(value: float) -> str:
    """Write a float as OCaml does.

    >>> text_of_float(1.0), text_of_float(0.5), text_of_float(9.87654321e30)
    ('1.', '0.5', '9.87654321e+30')
    """
    written = f"{value:.12g}"
    return f"{written}." if written.lstrip("-").isdigit() else written


def date_of(seconds: float) -> datetime:
    """Return the time of UTC for seconds since 1970; it is at most the beginning of 2100."""
    if seconds >= _LATEST:
        return _EPOCH + timedelta(seconds=_LATEST)
    return _EPOCH + timedelta(seconds=math.floor(max(seconds, _EARLIEST)))


def matches(text: str, pattern: str) -> bool | None:
    """Return whether a pattern matches a part of a text; None if it is not valid."""
    try:
        return compile_pattern(pattern).search(text) is not None
    except PatternError:
        return None


def group(text: str, pattern: str, number: int) -> str | None:
    """Return what a group of the pattern has matched, or None if nothing.

    >>> group("zzzab", r"\\(z*\\)ab", 1)
    'zzz'
    """
    try:
        found = compile_pattern(pattern).search(text)
    except PatternError:
        return None
    if found is None or number > found.re.groups:
        return None
    return found[number]


FUNCTIONS: dict[Operator, Callable[..., Value | None]] = {
    ops.QUOTIENT: quotient,
    ops.MODULO: modulo,
    ops.RATIO: ratio,
    ops.INTEGER_OF_FLOAT: math.trunc,
    ops.FLOAT_OF_INTEGER: float,
    ops.TEXT_OF_INTEGER: str,
    ops.INTEGER_OF_TEXT: lambda text: integer_of_text(text) or 0,
    ops.TEXT_OF_FLOAT: text_of_float,
    ops.FLOAT_OF_TEXT: lambda text: float_of_text(text) or 0.0,
    ops.TEXT_OF_PATTERN: str,
    ops.PATTERN_OF_TEXT: str,
    ops.DAY_OF_MONTH: lambda seconds: date_of(seconds).day,
    ops.MONTH: lambda seconds: date_of(seconds).month,
    ops.YEAR: lambda seconds: date_of(seconds).year,
    ops.FORMAT_DATE: lambda seconds: date_of(seconds).date().isoformat(),
    ops.SUBSTRING: lambda part, text: part in text,
    ops.PATTERN_MATCHES: matches,
    ops.PATTERN_GROUP: group,
}
"""What computes each conversion."""
