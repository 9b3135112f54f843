"""Builds formulas in Python: constants, atoms, and a function for every prefix operator.

The binary operators are methods of `Formula`.

>>> from mtlmon import atoms, eventually
>>> request, response, cancel = atoms("request response cancel")
>>> request >> eventually(response | cancel, 0, 5)
parse('request IMPLIES EVENTUALLY[0,5] (response OR cancel)')
>>> (~cancel).until(response, 2, "8s")
parse('NOT cancel UNTIL[2,8s] response', unit='later')
"""

from __future__ import annotations

from operator import index

from mtlmon.syntax import operators as ops
from mtlmon.syntax.bounds import INFINITY, empty_hint, make_interval, read_bound
from mtlmon.syntax.cursor import Cursor
from mtlmon.syntax.formula import FALSE, TRUE, Formula, atom
from mtlmon.syntax.interval import MAXIMUM_BOUND, Interval
from mtlmon.syntax.report import formula_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import SupportsIndex

    from mtlmon.syntax.durations import Duration
    from mtlmon.syntax.operators import Operator

    Bound = SupportsIndex | str | timedelta | float

__all__ = [
    "FALSE",
    "TRUE",
    "always",
    "apply",
    "as_formula",
    "atom",
    "atoms",
    "conjunction",
    "disjunction",
    "eventually",
    "historically",
    "next_",
    "once",
    "previous",
]


def atoms(names: str) -> tuple[Formula, ...]:
    """Make several atoms from names that are separated by blanks.

    >>> p, q = atoms("p q")
    >>> p & ~q
    parse('p AND NOT q')
    """
    return tuple(map(atom, names.split()))


def conjunction(*formulas: Formula | bool) -> Formula:
    """Return the conjunction of formulas: true where all are true; `TRUE` if there are none.

    >>> conjunction(*atoms("p q r"))
    parse('p AND q AND r')
    """
    return _chain(ops.AND, TRUE, formulas)


def disjunction(*formulas: Formula | bool) -> Formula:
    """Return the disjunction of formulas: true where any is true; `FALSE` if there are none."""
    return _chain(ops.OR, FALSE, formulas)


def eventually(
    operand: Formula | bool, lower: Bound | None = None, upper: Bound | None = None
) -> Formula:
    """`EVENTUALLY[lower,upper] operand`: true at some time-point that far ahead, or now.

    Args:
        operand: a formula, or True or False.
        lower: the least distance: an integer in the unit of the time-stamps, a text with a unit of
            its own ("500ms", "5s", "2m", "1h", "30d") or a timedelta.
        upper: the largest distance; "inf" or math.inf for no limit. Without both bounds the
            interval is [0,*).

    Raises:
        FormulaError: a bound is negative, too large or invalid, or the interval is empty.
        TypeError: there is a lower bound but no upper one, or a bound has another type.

    >>> eventually(atom("p"), 0, 5)
    parse('EVENTUALLY[0,5] p')
    >>> eventually(atom("p"), 3, "inf")
    parse('EVENTUALLY[3,*) p')
    """
    return apply(ops.EVENTUALLY, (operand,), lower, upper)


def always(
    operand: Formula | bool, lower: Bound | None = None, upper: Bound | None = None
) -> Formula:
    """`ALWAYS[lower,upper] operand`: true at all time-points that far ahead, now included.

    Bounds and errors as in `eventually`.
    """
    return apply(ops.ALWAYS, (operand,), lower, upper)


def once(
    operand: Formula | bool, lower: Bound | None = None, upper: Bound | None = None
) -> Formula:
    """`ONCE[lower,upper] operand`: true at some time-point that far back, or now.

    Bounds and errors as in `eventually`.
    """
    return apply(ops.ONCE, (operand,), lower, upper)


def historically(
    operand: Formula | bool, lower: Bound | None = None, upper: Bound | None = None
) -> Formula:
    """`HISTORICALLY[lower,upper] operand`: true at all time-points that far back, now included.

    Bounds and errors as in `eventually`.
    """
    return apply(ops.HISTORICALLY, (operand,), lower, upper)


def next_(
    operand: Formula | bool, lower: Bound | None = None, upper: Bound | None = None
) -> Formula:
    """`NEXT[lower,upper] operand`: true at the next time-point, which is that far ahead.

    Bounds and errors as in `eventually`.
    """
    return apply(ops.NEXT, (operand,), lower, upper)


def previous(
    operand: Formula | bool, lower: Bound | None = None, upper: Bound | None = None
) -> Formula:
    """`PREVIOUS[lower,upper] operand`: true at the time-point before, which is that far back.

    Bounds and errors as in `eventually`.
    """
    return apply(ops.PREVIOUS, (operand,), lower, upper)


def apply(
    operator: Operator,
    operands: tuple[Formula | bool, ...],
    lower: Bound | None = None,
    upper: Bound | None = None,
) -> Formula:
    """Apply an operator to operands and bounds as users give them; errors as in `eventually`."""
    return Formula(operator, tuple(map(as_formula, operands)), _interval(lower, upper))


def as_formula(operand: object) -> Formula:
    """Convert an operand as users give it to a formula.

    Raises:
        TypeError: it is neither a formula nor a bool.
    """
    if isinstance(operand, Formula):
        return operand
    if isinstance(operand, bool):
        return TRUE if operand else FALSE
    hint = f": atom({operand!r}) is one, parse reads others" if isinstance(operand, str) else ""
    raise TypeError(f"an operand is a formula, True or False, not {type(operand).__name__}{hint}")


def _chain(operator: Operator, empty: Formula, formulas: tuple[Formula | bool, ...]) -> Formula:
    if not formulas:
        return empty
    result = as_formula(formulas[0])
    for formula in formulas[1:]:
        result = Formula(operator, (result, as_formula(formula)))
    return result


def _interval(lower: Bound | None, upper: Bound | None) -> Interval | None:
    if lower is None and upper is None:
        return None
    if upper is None:
        raise TypeError(
            f"an interval has two bounds: (0, {lower!r}) is at most {lower}, "
            f"({lower!r}, {lower!r}) exactly, ({lower!r}, 'inf') at least"
        )
    first, last = 0 if lower is None else _bound(lower), _bound(upper)
    if first is None:
        raise TypeError("a lower bound is not infinite")
    if (interval := make_interval(first, last)) is None:
        text = f"[{first},{last}]"
        raise formula_error(
            text,
            0,
            f"the interval {text} is empty",
            source="<interval>",
            hint=empty_hint(first, last),
        )
    return interval


def _bound(bound: Bound) -> int | Duration | None:
    """Convert a bound as users give it; None means infinity."""
    if isinstance(bound, int):
        return _checked(bound, bound)
    if isinstance(bound, str):
        return None if bound.strip() in INFINITY else read_bound(Cursor(bound, "<bound>"))
    if isinstance(bound, float):
        if bound == float("inf"):
            return None
        raise TypeError(f"a bound is a whole number, not {bound}; '500ms' is one with a unit")
    from datetime import timedelta

    from mtlmon.syntax.durations import Duration

    if not isinstance(bound, timedelta):
        try:
            return _checked(index(bound), bound)
        except TypeError:
            raise TypeError(
                "a bound is an integer, a text such as '5s', a timedelta or infinity, "
                f"not {type(bound).__name__}"
            ) from None
    # the timedeltas of pandas also have nanoseconds
    seconds = bound.days * 86400 + bound.seconds
    nanoseconds = (seconds * 10**6 + bound.microseconds) * 1000 + getattr(bound, "nanoseconds", 0)
    _checked(nanoseconds, bound)
    return Duration.of_nanoseconds(nanoseconds)


def _checked(value: int, bound: object) -> int:
    if not 0 <= value <= MAXIMUM_BOUND:
        message = f"a bound is from 0 to {MAXIMUM_BOUND}, not {bound}"
        raise formula_error(str(bound), 0, message, source="<bound>")
    return value
