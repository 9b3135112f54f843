"""Functions of floats as IEEE 754 defines them, from those of Python, which raise errors."""

from __future__ import annotations

import math
from collections.abc import Callable


def _of_one(function: Callable[[float], float]) -> Callable[..., float]:
    def found(value: float) -> float:
        try:
            return function(value)
        except ValueError:
            return math.nan

    return found


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _logarithm(value: float) -> float:
    return -math.inf if value == 0 else math.nan if value < 0 else math.log(value)


def _power(base: float, exponent: float) -> float:
    is_odd = math.isfinite(exponent) and exponent % 2 == 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and is_odd else math.inf
    except ValueError:
        if base == 0:
            # a negative power of a zero, whose sign odd exponents keep
            return math.copysign(math.inf, base) if is_odd else math.inf
        return math.nan


OF_FLOATS: dict[str, Callable[..., float]] = {
    "sqrt": _of_one(math.sqrt),
    "sin": _of_one(math.sin),
    "cos": _of_one(math.cos),
    "tan": _of_one(math.tan),
    "atan2": math.atan2,
    "exp": _exponential,
    "log": _logarithm,
    "pow": _power,
}
