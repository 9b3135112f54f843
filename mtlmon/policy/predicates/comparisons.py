"""Compares values of different kinds exactly: decimals, floats, times in different units."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.canonical import canonical_texts
from mtlmon.policy.predicates import numbers
from mtlmon.policy.predicates import operators as ops
from mtlmon.policy.predicates.columns import as_column, as_values
from mtlmon.policy.predicates.instants import read_instant
from mtlmon.policy.predicates.integers import LARGEST, SMALLEST
from mtlmon.policy.predicates.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from mtlmon.policy.predicates.expression import Constant, Expression
    from mtlmon.policy.predicates.numbers import Values
    from mtlmon.policy.predicates.operators import Operator


def rank(node: Expression, kind: Kind) -> int:
    """The order of operands in a comparison: columns before constants, times before texts."""
    if kind.name == "time":
        return 0
    if node.operator is ops.CONSTANT:
        return 4 if kind.name == "integer" else 5
    return {"decimal": 1, "integer": 2}.get(kind.name, 3)


def with_constant(operator: Operator, constant: Fraction, scale: int, values: Values) -> Values:
    return numbers.compare_with_constant(operator, values, constant, scale)


def floats_with_integer(operator: Operator, constant: int, values: Values) -> Values:
    return numbers.compare_floats_with_integer(operator, values, constant)


def compare_times(operator: Operator, one: Kind, other: Kind) -> Callable[..., Values]:
    if one.unit == other.unit:
        return numbers.COMPARE[operator]
    if one.unit > other.unit:
        return lambda left, right: numbers.compare_units(
            operator, left, right, one.unit // other.unit
        )
    mirrored = ops.MIRRORED[operator]
    return lambda left, right: numbers.compare_units(mirrored, right, left, other.unit // one.unit)


def compare_as_texts(operator: Operator, both: tuple[Kind, Kind], *values: Values) -> Values:
    """Tell whether texts equal values of another kind, which are compared by canonical texts."""
    left, right = (_as_texts(one, kind) for one, kind in zip(values, both, strict=True))
    return numbers.COMPARE[operator](left, right)


def _as_texts(values: Values, kind: Kind) -> Values:
    if isinstance(values, pa.Scalar):
        return _as_texts(as_column(values, kind, 1), kind)[0]
    if kind.name == "time" and not pa.types.is_temporal(values.type):
        values = as_column(values, kind, len(values))
    return canonical_texts(values).cast(pa.large_string())


def instant_in(text: str, kind: Kind) -> Fraction:
    """Convert a time to the unit of a column."""
    read = read_instant(text)
    assert read is not None
    return read[0] / kind.unit


def is_element(
    values: Values, lists: Values, *, kind: Kind, element: str, is_negated: bool
) -> Values:
    """Whether each value is in the list of its row; null where the value or the list is null.

    Elements that are null are equal to nothing.
    """
    if isinstance(lists, pa.Scalar) or kind.name == "null":
        return pa.scalar(None, pa.bool_())
    flat = as_values(pc.list_flatten(lists), Kind(element, ""))
    rows = pc.list_parent_indices(lists)
    each = values if isinstance(values, pa.Scalar) else values.take(rows)
    if element == "null":
        found = pa.nulls(len(flat), pa.bool_())
    elif kind.name == element:
        found = pc.equal(flat, pc.cast(each, flat.type))
    elif element == "integer":
        found = numbers.compare_integers_with_floats(ops.EQUAL, flat, _broadcast(each, len(flat)))
    else:
        found = numbers.compare_integers_with_floats(ops.EQUAL, _broadcast(each, len(flat)), flat)
    is_in = np.zeros(len(lists), bool)
    is_in[rows.filter(pc.fill_null(found, False)).to_numpy()] = True
    answer = pa.array(is_in != is_negated, mask=np.asarray(lists.is_null()))
    if isinstance(values, pa.Scalar):
        return answer if values.is_valid else pa.nulls(len(lists), pa.bool_())
    return pc.if_else(values.is_valid(), answer, pa.scalar(None, pa.bool_()))


def _broadcast(values: Values, length: int) -> pa.Array:
    return pa.repeat(values, length) if isinstance(values, pa.Scalar) else values


def is_member(values: Values, members: pa.Array, is_negated: bool) -> Values:
    found = numbers.is_member(values, members)
    return pc.invert(found) if is_negated else found


def members_of(values: tuple[Constant, ...], kind: Kind) -> pa.Array:
    """The values of a list that values of this kind can be equal to."""
    if kind.name == "time":
        instants = [instant_in(str(value), kind) for value in values]
        return pa.array([int(found) for found in instants if _is_int64(found)], pa.int64())
    if kind.name == "integer":
        from fractions import Fraction

        fractions = [Fraction(value) for value in values if isinstance(value, int | Decimal)]
        return pa.array([int(found) for found in fractions if _is_int64(found)], pa.int64())
    if kind.name == "decimal":
        data_type = pa.decimal128(kind.precision, kind.scale)
        decimals = [Decimal(value) for value in values if isinstance(value, int | Decimal)]
        return pa.array([value for value in decimals if _is_decimal(value, kind)], data_type)
    if kind.name == "float":
        floats = [
            float(value)
            for value in values
            if isinstance(value, int | Decimal) and _is_float(value)
        ]
        # only here does Arrow distinguish 0.0 from -0.0
        floats += [-0.0] if 0.0 in floats else []
        return pa.array(floats, pa.float64())
    return pa.array(values)


def _is_int64(value: Fraction) -> bool:
    return value.denominator == 1 and SMALLEST <= value <= LARGEST


def _is_float(value: int | Decimal) -> bool:
    """Whether a float can be equal to the value; a number with a point means the nearest float."""
    return isinstance(value, Decimal) or float(value) == value


def _is_decimal(value: Decimal, kind: Kind) -> bool:
    from fractions import Fraction

    shifted = Fraction(value) * Fraction(10) ** kind.scale
    return shifted.denominator == 1 and abs(shifted) < 10**kind.precision
