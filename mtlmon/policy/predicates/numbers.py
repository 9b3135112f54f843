"""Arithmetic and comparisons of columns, exact where those of Arrow are not.

Arguments are arrays of the same length or scalars, of type int64, float64 or decimal. A null in an
argument makes the result null. Arrow rounds an integer to compare it with a float, has no
remainder, and truncates the quotient of integers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.canonical import is_number
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.integers import LARGEST, SMALLEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from numpy.typing import NDArray

    from mtlmon.policy.predicates.operators import Operator

    Numbers: TypeAlias = NDArray[Any]

Values: TypeAlias = "pa.Array | pa.Scalar"

COMPARE: dict[Operator, Callable[..., Values]] = {
    ops.EQUAL: pc.equal,
    ops.NOT_EQUAL: pc.not_equal,
    ops.LESS: pc.less,
    ops.LESS_EQUAL: pc.less_equal,
    ops.GREATER: pc.greater,
    ops.GREATER_EQUAL: pc.greater_equal,
}

_COMPARE_NUMBERS: dict[Operator, Callable[..., Numbers]] = {
    ops.EQUAL: np.equal,
    ops.NOT_EQUAL: np.not_equal,
    ops.LESS: np.less,
    ops.LESS_EQUAL: np.less_equal,
    ops.GREATER: np.greater,
    ops.GREATER_EQUAL: np.greater_equal,
}

LONG_INTEGER = (
    "{} is an integer that a float does not tell apart from its neighbours, and nothing says that "
    "all numbers are integers: declare the argument, as in atom NAME(COLUMN: int)"
)
"""Why an integer cannot be the value of a variable that may have fractions."""

_TWO_TO_63 = 2.0**63
# Lists with up to this many members are compared with each member in turn.
_FEW = 8
# Integers up to this size can be represented exactly as floats.
_EXACT_IN_FLOAT = 2**53


def to_floats(values: Values) -> Values:
    """Convert integers or decimals to the nearest floats."""
    if pa.types.is_decimal(values.type):
        # Arrow's own conversion can be off by a unit in the last place
        return pc.cast(pc.cast(values, pa.string()), pa.float64())
    return pc.cast(values, pa.float64(), safe=False)


def as_before(values: pa.Array, known: pa.DataType) -> pa.Array:
    """Give values of a column the type that earlier ones had, if they can have it.

    Columns without any value have that type, and so have numbers where there were floats.
    """
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), known)
    if known == pa.float64() and values.type != known and is_number(values.type):
        return to_floats(values)
    return values


def inexact_integers(integers: pa.Array) -> pa.Array:
    """Return whether each integer differs from the nearest float; null where it is null."""
    if _fit_floats(integers):
        return pc.if_else(pc.is_null(integers), None, pa.scalar(False))
    return compare_integers_with_floats(ops.NOT_EQUAL, integers, to_floats(integers))


def divide(left: Values, right: Values) -> Values:
    """Divide floats; the result is null where the divisor is 0."""
    return pc.divide(left, _null_where(pc.equal(right, 0.0), right))


def integer_remainder(left: Values, right: Values) -> Values:
    """The remainder of integers, with the sign of the dividend; null where the divisor is 0."""
    # division by -1 could overflow, and has the same remainder as division by 1
    safe = pc.if_else(pc.equal(right, -1), 1, _null_where(pc.equal(right, 0), right))
    return pc.subtract(left, pc.multiply(pc.divide(left, safe), safe))


def float_remainder(left: Values, right: Values) -> Values:
    """The exact remainder of floats; signs and zeros are treated as for integers."""
    right = _null_where(pc.equal(right, 0.0), right)
    with np.errstate(invalid="ignore"):
        found = np.fmod(to_numpy(left), to_numpy(right))
    return from_numpy(found, left, right)


def compare_with_constant(
    operator: Operator, values: Values, constant: Fraction, scale: int = 0
) -> Values:
    """Compare integers, or decimals with `scale` digits after the point, with a rational number.

    The comparison is exact: all possible values lie on a grid, and are compared with the neighbour
    of the constant on that grid.
    """
    from fractions import Fraction

    shifted = constant * Fraction(10) ** scale
    floor = shifted.numerator // shifted.denominator
    if pa.types.is_decimal(values.type):
        limit = 10**values.type.precision - 1
        smallest, largest = -limit, limit
    else:
        smallest, largest = SMALLEST, LARGEST
    if floor > largest or floor < smallest:
        return _same(values, _holds_beyond(operator, is_above=floor > largest))
    if floor != shifted:
        if operator in {ops.EQUAL, ops.NOT_EQUAL}:
            return _same(values, operator is ops.NOT_EQUAL)
        is_below = operator in {ops.LESS, ops.LESS_EQUAL}
        operator = ops.LESS_EQUAL if is_below else ops.GREATER
    if pa.types.is_decimal(values.type):
        unscaled = Decimal((floor < 0, tuple(map(int, str(abs(floor)))), -scale))
        return COMPARE[operator](values, pa.scalar(unscaled, values.type))
    return COMPARE[operator](values, pa.scalar(floor, pa.int64()))


def compare_floats_with_integer(operator: Operator, values: Values, constant: int) -> Values:
    """Compare floats with an integer, exactly."""
    nearest = float(constant)
    if nearest != constant:
        if operator in {ops.EQUAL, ops.NOT_EQUAL}:
            return _same(values, operator is ops.NOT_EQUAL)
        # no float lies between the two
        is_below = operator in {ops.LESS, ops.LESS_EQUAL}
        if nearest > constant:
            operator = ops.LESS if is_below else ops.GREATER_EQUAL
        else:
            operator = ops.LESS_EQUAL if is_below else ops.GREATER
    return COMPARE[operator](values, pa.scalar(nearest, pa.float64()))


def compare_integers_with_floats(operator: Operator, integers: Values, floats: Values) -> Values:
    """Compare integers with floats exactly; no integer is equal to NaN, or below or above it."""
    if _fit_floats(integers):
        return COMPARE[operator](to_floats(integers), floats)
    whole, other = to_numpy(integers), to_numpy(floats)
    is_inside = (other >= -_TWO_TO_63) & (other < _TWO_TO_63)
    floor = np.floor(np.where(is_inside, other, 0.0))
    order = _order(whole, floor.astype(np.int64), np.where(is_inside, other, 0.0) > floor)
    order = np.where(other >= _TWO_TO_63, -1, np.where(other < -_TWO_TO_63, 1, order))
    found = _COMPARE_NUMBERS[operator](order, 0)
    is_nan = np.isnan(other)
    found = found | is_nan if operator is ops.NOT_EQUAL else found & ~is_nan
    return from_numpy(found, integers, floats)


def compare_units(operator: Operator, coarse: Values, fine: Values, factor: int) -> Values:
    """Compare integers with others whose unit is smaller by a factor of `factor`."""
    whole, parts = to_numpy(coarse), to_numpy(fine)
    found = _COMPARE_NUMBERS[operator](_order(whole, parts // factor, parts % factor != 0), 0)
    return from_numpy(found, coarse, fine)


def compare_decimals(operator: Operator, left: Values, right: Values) -> Values:
    """Compare decimals or integers, exactly."""
    left, right = _as_decimal(left), _as_decimal(right)
    scale = max(left.type.scale, right.type.scale)
    digits = max(value.type.precision - value.type.scale for value in (left, right))
    common = pa.decimal256(digits + scale, scale)
    return COMPARE[operator](pc.cast(left, common), pc.cast(right, common))


def is_member(values: Values, members: pa.Array) -> Values:
    """Whether each value is one of the members; null where the value is null."""
    if 0 < len(members) <= _FEW and not pa.types.is_string(members.type):
        # PERF: two integers in a million rows: 1 ms, 22 ms with is_in; no gain for texts
        found = pc.equal(values, members[0])
        for member in members[1:]:
            found = pc.or_(found, pc.equal(values, member))
        return found
    found = pc.is_in(values, value_set=members)
    return _null_where(pc.is_null(values), found)


def least(left: Values, right: Values) -> Values:
    """The smaller of two values of one type; NaN if one of them is NaN, 0.0 if it is a zero.

    Which zero numpy takes of 0.0 and -0.0 depends on their place in the batch.
    """
    if left.type != pa.float64():
        return pc.min_element_wise(left, right, skip_nulls=False)
    return from_numpy(np.minimum(to_numpy(left), to_numpy(right)) + 0.0, left, right)


def greatest(left: Values, right: Values) -> Values:
    """The larger of two values of one type; NaN if one of them is NaN, 0.0 if it is a zero."""
    if left.type != pa.float64():
        return pc.max_element_wise(left, right, skip_nulls=False)
    return from_numpy(np.maximum(to_numpy(left), to_numpy(right)) + 0.0, left, right)


def to_numpy(values: Values) -> Numbers:
    """Convert values to numpy, with 0 for null; a scalar becomes an array of length 1."""
    if isinstance(values, pa.Scalar):
        values = pa.array([values.as_py()], values.type)
    found: Numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    return found


def from_numpy(found: Numbers, *arguments: Values) -> Values:
    """Convert numbers of numpy to Arrow, with nulls where an argument is null.

    The result is a scalar if all arguments are.
    """
    if all(isinstance(argument, pa.Scalar) for argument in arguments):
        is_null = not all(argument.is_valid for argument in arguments)
        return pa.array(found, mask=np.array([is_null]))[0]
    mask = np.zeros(len(found), bool)
    for argument in arguments:
        mask |= _missing(argument)
    return pa.array(found, mask=mask)


def _as_decimal(values: Values) -> Values:
    return values if pa.types.is_decimal(values.type) else pc.cast(values, pa.decimal128(19, 0))


def _null_where(condition: Values, values: Values) -> Values:
    return pc.if_else(condition, pa.scalar(None, values.type), values)


def _same(values: Values, value: bool) -> Values:
    """The value wherever `values` is not null."""
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), value)


def _holds_beyond(operator: Operator, *, is_above: bool) -> bool:
    """Whether the comparison holds with a constant above, or below, all possible values."""
    if operator in {ops.EQUAL, ops.NOT_EQUAL}:
        return operator is ops.NOT_EQUAL
    return (operator in {ops.LESS, ops.LESS_EQUAL}) == is_above


def _fit_floats(integers: Values) -> bool:
    """Whether all of the integers can be represented exactly as floats."""
    if isinstance(integers, pa.Scalar):
        value = integers.as_py()
        return value is None or abs(value) <= _EXACT_IN_FLOAT
    ends = pc.min_max(integers)
    smallest, largest = ends["min"].as_py(), ends["max"].as_py()
    return smallest is None or (smallest >= -_EXACT_IN_FLOAT and largest <= _EXACT_IN_FLOAT)


def _order(whole: Numbers, floor: Numbers, has_fraction: Numbers) -> Numbers:
    """-1, 0 or 1 if an integer is below, equal to or above `floor` plus a fraction."""
    at_floor = np.where(has_fraction, -1, 0)
    return np.where(whole < floor, -1, np.where(whole > floor, 1, at_floor))


def _missing(values: Values) -> Numbers:
    if isinstance(values, pa.Scalar):
        return np.array([not values.is_valid])
    found: Numbers = pc.is_null(values).to_numpy(zero_copy_only=False)
    return found
