"""Bounds with a unit of time, for use before the unit of the time-stamps is declared.

Such a bound becomes a number only then. Until then, it is in a `DurationInterval`, whose `lower`
and `upper` raise an error, so no pass has to know about units.
"""

from __future__ import annotations

from mtlmon.syntax.bounds import UNIT_WORDS, UNITS
from mtlmon.syntax.interval import MAXIMUM_BOUND, Interval
from mtlmon.syntax.report import formula_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, TypeAlias

    from mtlmon.errors import FormulaError

    _Bound: TypeAlias = "int | Duration"


class Duration:
    """A length of time as it was written; durations of the same length are equal.

    Attributes:
        amount: the number of units, at least 0.
        unit: the unit, a key of `mtlmon.syntax.bounds.UNITS`.
        nanoseconds: the length in nanoseconds.
    """

    __slots__ = ("amount", "unit")

    def __init__(self, amount: int, unit: str) -> None:
        self.amount = amount
        self.unit = unit

    @classmethod
    def of_nanoseconds(cls, nanoseconds: int) -> Duration:
        """Make a duration from nanoseconds, in the largest unit that divides them."""
        for unit, length in reversed(UNITS.items()):
            if nanoseconds % length == 0:
                return cls(nanoseconds // length, unit)
        raise AssertionError("a nanosecond is a unit")

    @classmethod
    def parse(cls, text: str) -> Duration | None:
        """Read a number and a unit, as 500ms or 0.5s; None if it is not.

        The number has at most nine digits before the point and behind it, and the length is a whole
        number of nanoseconds.

        >>> print(Duration.parse("0.5s"), Duration.parse("1.5min"), Duration.parse("0.5ns"))
        500ms 90s None
        """
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = UNIT_WORDS.get(text[len(number) :], text[len(number) :])
        whole, point, part = number.partition(".")
        digits = [whole, part] if point else [whole]
        if unit not in UNITS or not all(
            one.isascii() and one.isdigit() and len(one) <= 9 for one in digits
        ):
            return None
        if not point:
            return cls(int(number), unit)
        nanoseconds, rest = divmod(int(whole + part) * UNITS[unit], 10 ** len(part))
        return None if rest else cls.of_nanoseconds(nanoseconds)

    @property
    def nanoseconds(self) -> int:
        return self.amount * UNITS[self.unit]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Duration):
            return NotImplemented
        return self.nanoseconds == other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)

    def __reduce__(self) -> tuple[type[Duration], tuple[int, str]]:
        return Duration, (self.amount, self.unit)

    def __str__(self) -> str:
        return f"{self.amount}{self.unit}"


class DurationInterval(Interval):
    """An interval whose bounds have units and are not known as numbers yet.

    Formulas have such intervals before the unit of the time-stamps is declared; `in_unit` converts
    them to plain ones. A bound without a unit is in the unit of the time-stamps.

    Attributes:
        written: the bounds as written; the upper one is None for infinity.
        is_open: whether the lower bound and the upper bound are excluded.

    Raises:
        FormulaError: `lower` or `upper` is read.
    """

    __slots__ = ("is_open", "written")

    written: tuple[_Bound, _Bound | None]
    is_open: tuple[bool, bool]

    def __init__(
        self,
        lower: _Bound,
        upper: _Bound | None,
        is_open: tuple[bool, bool] = (False, False),
    ) -> None:
        object.__setattr__(self, "written", (lower, upper))
        object.__setattr__(self, "is_open", is_open)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an interval is immutable, {name} cannot be set")

    # The bounds of an interval become properties that raise: they are not known in time units yet.
    @property
    def lower(self) -> NoReturn:
        """Not known yet; raises a FormulaError."""
        raise self._undeclared()

    @property
    def upper(self) -> NoReturn:
        """Not known yet; raises a FormulaError."""
        raise self._undeclared()

    @property
    def is_bounded(self) -> bool:
        """Whether there is a finite upper bound."""
        return self.written[1] is not None

    @property
    def is_surely_empty(self) -> bool:
        """Whether the interval is empty whatever the unit of the time-stamps is."""
        lower, upper = self.written
        if not isinstance(lower, Duration) or not isinstance(upper, Duration):
            return False
        difference = upper.nanoseconds - lower.nanoseconds
        return difference < 0 or (difference == 0 and any(self.is_open))

    def in_unit(self, unit: str, context: str = "") -> Interval:
        """Convert the interval to a unit.

        Args:
            unit: the unit of the time-stamps, a key of `mtlmon.syntax.bounds.UNITS`.
            context: the text before the interval, for errors.

        Raises:
            FormulaError: a bound is not a whole number of units or is too large, or the interval
                is empty.
        """
        lower, upper = self.written
        place = len(context) + 1
        first = self._converted(lower, unit, context, place) + self.is_open[0]
        last = None
        if upper is not None:
            place += len(str(lower)) + 1
            last = self._converted(upper, unit, context, place) - self.is_open[1]
        if first > MAXIMUM_BOUND or (last is not None and last < first):
            raise self._error(f"the interval {self} is empty", context, len(context))
        return Interval(first, last)

    def _converted(self, bound: _Bound, unit: str, context: str, place: int) -> int:
        if isinstance(bound, int):
            return bound
        converted, rest = divmod(bound.nanoseconds, UNITS[unit])
        if rest:
            message = f"{bound} is not a whole number of the stream's unit, {unit}"
            raise self._error(message, context, place)
        if converted > MAXIMUM_BOUND:
            message = f"this bound is above the largest one, {MAXIMUM_BOUND}"
            raise self._error(message, context, place)
        return converted

    def _undeclared(self) -> FormulaError:
        lower, upper = self.written
        bound, place = (lower, 1) if isinstance(lower, Duration) else (upper, 2 + len(str(lower)))
        return self._error(
            f"{bound} has a unit, but the unit of the stream's time-stamps is not declared",
            "",
            place,
            "declare it, as in Monitor(formula, unit='ms') or formula.in_unit('ms')",
        )

    def _error(
        self, message: str, context: str, place: int, hint: str | None = None
    ) -> FormulaError:
        return formula_error(f"{context}{self}", place, message, source="<formula>", hint=hint)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DurationInterval):
            # not NotImplemented, because a plain interval would then read the bounds
            return False
        return self.written == other.written and self.is_open == other.is_open

    def __hash__(self) -> int:
        return hash((self.written, self.is_open))

    # the constructor takes other arguments than that of a plain interval
    def __reduce__(self) -> tuple[type[DurationInterval], tuple[object, ...]]:  # type: ignore[override]
        return DurationInterval, (*self.written, self.is_open)

    def __str__(self) -> str:
        lower, upper = self.written
        opening, closing = "[("[self.is_open[0]], "])"[self.is_open[1]]
        return f"{opening}{lower},*)" if upper is None else f"{opening}{lower},{upper}{closing}"

    def __repr__(self) -> str:
        return f"<DurationInterval {self}>"


def length_text(length: int, unit: str | None) -> str:
    """Write a length of time in the largest unit in which it is whole."""
    if unit is None:
        return f"{length:,} time unit{'' if length == 1 else 's'}"
    nanoseconds = length * UNITS[unit]
    name = next(
        name for name, size in reversed(UNITS.items()) if length == 0 or nanoseconds % size == 0
    )
    if length == 0:
        name = unit
    return f"{nanoseconds // UNITS[name]:,}{name}"


def elapsed_text(length: int, unit: str | None) -> str:
    """Write a length of time exactly, as in `1d 6h 20s`; only the number if there is no unit.

    >>> elapsed_text(108_020, "s"), elapsed_text(1500, "ms"), elapsed_text(5, None)
    ('1d 6h 20s', '1s 500ms', '5')
    """
    if unit is None:
        return str(length)
    parts = []
    rest = length * UNITS[unit]
    for name, size in reversed(UNITS.items()):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{name}")
    return " ".join(parts) or f"0{unit}"


def distance_text(distance: int, unit: str | None) -> str:
    """Say how far a time is from another one, in words for people.

    >>> distance_text(-90, "s"), distance_text(1, None), distance_text(-7, None)
    ('1m 30s before', '1 time unit after', '7 time units before')
    >>> distance_text(0, "s")
    'at the same time'
    """
    if not distance:
        return "at the same time"
    length = elapsed_text(abs(distance), unit)
    if unit is None:
        length += " time unit" if abs(distance) == 1 else " time units"
    return f"{length} {'before' if distance < 0 else 'after'}"


def interval_text(interval: Interval, unit: str | None) -> str:
    """Write an interval from which the parser makes an equal one, if the unit is declared.

    Args:
        interval: the interval.
        unit: the unit of its bounds, a key of `mtlmon.syntax.bounds.UNITS`; None writes bare
            numbers.

    >>> interval_text(Interval(0, 604_800), "s"), interval_text(Interval(90, None), "m")
    ('[0,7d]', '[90m,*)')
    """
    if unit is None or isinstance(interval, DurationInterval):
        return str(interval)
    lower, upper = _bound_text(interval.lower, unit), interval.upper
    return f"[{lower},*)" if upper is None else f"[{lower},{_bound_text(upper, unit)}]"


def _bound_text(bound: int, unit: str) -> str:
    return str(Duration.of_nanoseconds(bound * UNITS[unit])) if bound else "0"


def period_text(period: int | Duration, unit: str | None) -> str:
    """Write a period as in a policy file: with its unit, if that is known."""
    if isinstance(period, int) and unit in UNITS:
        return length_text(period, unit)
    return str(period)
