"""Builds values in Python: columns, windows over them, and comparisons, which are formulas.

>>> from mtlmon import once
>>> from mtlmon.policy.values import avg, column
>>> (avg("speed", 0, "15m") < 15) >> once(column("jams") > 2, 0, "1h")
parse('"avg[0,15m](speed) < 15" IMPLIES ONCE[0,1h] "jams > 2"', unit='later')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.parser import parse_expression
from mtlmon.policy.predicates.printer import column_text, constant_text
from mtlmon.syntax import operators as formula_ops
from mtlmon.syntax.bounds import LATER
from mtlmon.syntax.build import apply
from mtlmon.syntax.conditions import ConditionName, written_with_conditions
from mtlmon.syntax.formula import TRUE, Formula, atom

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta
    from decimal import Decimal
    from typing import TypeAlias

    from mtlmon.syntax.build import Bound

    Constant = bool | int | float | str | Decimal | None
    Operand: TypeAlias = "Value | Constant"
    Argument: TypeAlias = "Value | Formula | str"

__all__ = [
    "Value",
    "all_",
    "any_",
    "avg",
    "changes",
    "column",
    "count",
    "distinct",
    "first",
    "increase",
    "integral",
    "last",
    "mad",
    "max_",
    "median",
    "min_",
    "quantile",
    "rate",
    "resets",
    "stddev",
    "sum_",
    "value",
    "var",
]


class Value:
    """A value of a row, such as a column or the average of one over a window.

    Calculate with `+ - * / %`. Comparisons are formulas: `avg("speed", 0, "15m") < 15`. In both,
    the other side is a value or a constant; a text is a constant there. Values are immutable.

    Args:
        text: the value, as in policy files.

    Raises:
        FormulaError: the text is not valid.
    """

    __slots__ = ("_is_whole", "_text")

    def __init__(self, text: str) -> None:
        expression = parse_expression(text, "<value>", unit=LATER)
        self._text = str(expression)
        self._is_whole = not expression.operands or expression.operator in _CLOSED

    @property
    def operand(self) -> str:
        """The text as an operand."""
        return self._text if self._is_whole else f"({self._text})"

    def last(self, distance: int = 1, *, default: Constant = None) -> Value:
        """Return the value that is some values ago: `.last()` of policy files.

        Args:
            distance: how many values ago, at least 1.
            default: the value where there is none.
        """
        return self._offset("last", str(distance), default)

    def next(self, distance: int = 1, *, default: Constant = None) -> Value:
        """Return the value that is some values ahead: `.next()` of policy files."""
        return self._offset("next", str(distance), default)

    def at(
        self, ago: int | str | timedelta, *, is_later: bool = False, default: Constant = None
    ) -> Value:
        """Return the last value that is at least that old: `.at(-5m)` for `at("5m")`.

        Args:
            ago: a length of time.
            is_later: whether the last value so much later is meant, as in `.at(+5m)`.
            default: the value where there is none.
        """
        interval = apply(formula_ops.ONCE, (TRUE,), ago, ago).interval
        length = str(interval)[1:].partition(",")[0]
        return self._offset("at", f"{'+' if is_later else '-'}{length}", default)

    def hold(self, distance: int = 0, *, default: Constant = None) -> Value:
        """Return the newest value that is not null, this row included: `.hold()`.

        Args:
            distance: how many values before the newest one.
            default: the value where there is none.
        """
        return self._offset("hold", str(distance) if distance else "", default)

    def is_null(self) -> Formula:
        """Return the formula that the value is null."""
        return _condition(f"{self.operand} is null")

    def is_in(self, constants: Iterable[Constant]) -> Formula:
        """Return the formula that the value is one of some constants."""
        return _condition(f"{self.operand} in ({', '.join(map(_constant, constants))})")

    def _offset(self, word: str, argument: str, default: Constant) -> Value:
        parts = [argument] if argument else []
        if default is not None:
            parts.append(f"or: {_constant(default)}")
        return Value(f"{self.operand}.{word}({', '.join(parts)})")

    def __add__(self, other: Operand) -> Value:
        return Value(f"{self.operand} + {_operand(other)}")

    def __radd__(self, other: Constant) -> Value:
        return Value(f"{_operand(other)} + {self.operand}")

    def __sub__(self, other: Operand) -> Value:
        return Value(f"{self.operand} - {_operand(other)}")

    def __rsub__(self, other: Constant) -> Value:
        return Value(f"{_operand(other)} - {self.operand}")

    def __mul__(self, other: Operand) -> Value:
        return Value(f"{self.operand} * {_operand(other)}")

    def __rmul__(self, other: Constant) -> Value:
        return Value(f"{_operand(other)} * {self.operand}")

    def __truediv__(self, other: Operand) -> Value:
        return Value(f"{self.operand} / {_operand(other)}")

    def __rtruediv__(self, other: Constant) -> Value:
        return Value(f"{_operand(other)} / {self.operand}")

    def __mod__(self, other: Operand) -> Value:
        return Value(f"{self.operand} % {_operand(other)}")

    def __neg__(self) -> Value:
        return Value(f"-{self.operand}")

    def __lt__(self, other: Operand) -> Formula:
        return _condition(f"{self.operand} < {_operand(other)}")

    def __le__(self, other: Operand) -> Formula:
        return _condition(f"{self.operand} <= {_operand(other)}")

    def __gt__(self, other: Operand) -> Formula:
        return _condition(f"{self.operand} > {_operand(other)}")

    def __ge__(self, other: Operand) -> Formula:
        return _condition(f"{self.operand} >= {_operand(other)}")

    def __eq__(self, other: object) -> Formula:  # type: ignore[override]
        return _condition(f"{self.operand} = {_operand(other)}")

    def __ne__(self, other: object) -> Formula:  # type: ignore[override]
        return _condition(f"{self.operand} != {_operand(other)}")

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        raise TypeError(f"the value {self._text} is not known yet: compare it with something")

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"value({self._text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Value, (self._text,)


_CLOSED = frozenset({*ops.FUNCTIONS.values(), *ops.OFFSETS.values(), ops.OVER, ops.INSTANCE})
_CLOSED |= ops.WINDOWS | ops.LOOK_UPS
"""The operators with operands that bring their own parentheses."""


def value(text: str) -> Value:
    """Return the value that a text of policy files stands for, as in `value("hour(ts)") >= 8`."""
    return Value(text)


def column(name: str) -> Value:
    """Return the value of a column."""
    return Value(column_text(name))


def count(condition: Argument | None = None, lower: Bound = 0, upper: Bound = "inf") -> Value:
    """Return the number of rows within an interval back in time at which a condition holds.

    Args:
        condition: a formula without temporal operators, or the name of an atom; without it, all
            rows count.
        lower: the least distance, as for `mtlmon.once`.
        upper: the largest distance.
    """
    return _window("count", condition, lower, upper)


def any_(condition: Argument, lower: Bound = 0, upper: Bound = "inf") -> Formula:
    """Return the formula that a condition holds at some row; arguments as for `count`."""
    return _condition(str(_window("any", condition, lower, upper)))


def all_(condition: Argument, lower: Bound = 0, upper: Bound = "inf") -> Formula:
    """Return the formula that a condition fails at no row; arguments as for `count`."""
    return _condition(str(_window("all", condition, lower, upper)))


def avg(of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None) -> Value:
    """Return the mean of a value over the rows within an interval back in time.

    Args:
        of: a value, or the name of a column.
        lower: the least distance, as for `mtlmon.once`.
        upper: the largest distance.
        default: the result where no row has a value; None is null.
    """
    return _window("avg", of, lower, upper, default)


def sum_(
    of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None
) -> Value:
    """Return the sum of a value; arguments as for `avg`."""
    return _window("sum", of, lower, upper, default)


def min_(
    of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None
) -> Value:
    """Return the least value; arguments as for `avg`."""
    return _window("min", of, lower, upper, default)


def max_(
    of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None
) -> Value:
    """Return the greatest value; arguments as for `avg`."""
    return _window("max", of, lower, upper, default)


def first(
    of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None
) -> Value:
    """Return the oldest value; arguments as for `avg`."""
    return _window("first", of, lower, upper, default)


def last(
    of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None
) -> Value:
    """Return the newest value; arguments as for `avg`."""
    return _window("last", of, lower, upper, default)


def distinct(of: Argument, lower: Bound = 0, upper: Bound = "inf") -> Value:
    """Return the number of different values; arguments as for `avg`."""
    return _window("distinct", of, lower, upper)


def var(of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None) -> Value:
    """Return the variance of a sample; arguments as for `avg`."""
    return _window("var", of, lower, upper, default)


def stddev(
    of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None
) -> Value:
    """Return the standard deviation of a sample; arguments as for `avg`."""
    return _window("stddev", of, lower, upper, default)


def median(
    of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None
) -> Value:
    """Return the median; arguments as for `avg`."""
    return _window("median", of, lower, upper, default)


def mad(of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None) -> Value:
    """Return the median of the absolute deviations from the median; arguments as for `avg`."""
    return _window("mad", of, lower, upper, default)


def quantile(
    of: Argument,
    share: float | Decimal,
    lower: Bound = 0,
    upper: Bound = "inf",
    *,
    default: Constant = None,
) -> Value:
    """Return a quantile, interpolated linearly; `share` is from 0 to 1, the rest as for `avg`."""
    return _window("quantile", of, lower, upper, default, _constant(share))


def integral(
    of: Argument,
    lower: Bound = 0,
    upper: Bound = "inf",
    *,
    linear: bool = False,
    default: Constant = None,
) -> Value:
    """Return the integral over time, if each value holds until the next; arguments as for `avg`.

    If it is linear, it is the area under the lines between successive values.
    """
    parameters = ["linear"] if linear else []
    return _window("integral", of, lower, upper, default, *parameters)


def increase(
    of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None
) -> Value:
    """Return how much a counter has grown; arguments as for `avg`."""
    return _window("increase", of, lower, upper, default)


def rate(of: Argument, lower: Bound, upper: Bound, *, default: Constant = None) -> Value:
    """Return how much a counter has grown for each second; arguments as for `avg`."""
    return _window("rate", of, lower, upper, default)


def changes(
    of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None
) -> Value:
    """Return how often a value is not the one before; arguments as for `avg`."""
    return _window("changes", of, lower, upper, default)


def resets(
    of: Argument, lower: Bound = 0, upper: Bound = "inf", *, default: Constant = None
) -> Value:
    """Return how often a value is less than the one before; arguments as for `avg`."""
    return _window("resets", of, lower, upper, default)


def _window(
    word: str,
    of: Argument | None,
    lower: Bound,
    upper: Bound,
    default: Constant = None,
    *parameters: str,
) -> Value:
    interval = apply(formula_ops.ONCE, (TRUE,), lower, upper).interval
    shown = "[0,*)" if interval is None or not str(interval) else str(interval)
    parts = [*([] if of is None else [_argument(of)]), *parameters]
    if default is not None:
        parts.append(f"or: {_constant(default)}")
    return Value(f"{word}{shown}({', '.join(parts)})")


def _argument(of: Argument) -> str:
    """The text of the argument of a window."""
    if isinstance(of, Formula):
        return written_with_conditions(of) or str(of)
    return column_text(of) if isinstance(of, str) else str(of)


def _operand(other: object) -> str:
    if isinstance(other, Value):
        return other.operand
    text = _constant(other)
    return f"({text})" if text.startswith("-") else text


def _constant(constant: object) -> str:
    """The text of a constant.

    Raises:
        TypeError: it is none.
    """
    from decimal import Decimal

    if isinstance(constant, float):
        constant = Decimal(repr(constant))
    if constant is None or isinstance(constant, bool | int | str | Decimal):
        return constant_text(constant)
    raise TypeError(
        f"a constant is a number, a text, True, False or None, not {type(constant).__name__}"
    )


def _condition(text: str) -> Formula:
    """Return the formula that is a condition."""
    return atom(ConditionName(str(parse_expression(text, "<value>", unit=LATER))))
