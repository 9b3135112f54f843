"""Columns of tables as the values that expressions compute with, and back."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from mtlmon.policy.predicates.expression import Constant
    from mtlmon.policy.predicates.kinds import Kind
    from mtlmon.policy.predicates.numbers import Values

_COMPUTED = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "time": pa.int64(),
}
_TIME_UNITS = {UNITS[unit]: unit for unit in ("s", "ms", "us", "ns")}


def column_of(batch: pa.RecordBatch, name: str, data_type: pa.DataType) -> pa.Array:
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise ValueError(f"the batch has no column {name!r}, or several")
    column = batch.column(index)
    if column.type != data_type:
        raise ValueError(
            f"column {name!r} is of type {column.type}, "
            f"but predicates were compiled for {data_type}"
        )
    return column


def column_type(kind: Kind) -> pa.DataType:
    """Return the type of columns for values of a kind."""
    if kind.name == "time":
        if kind.is_date:
            return pa.date32()
        return pa.timestamp(_TIME_UNITS[kind.unit], "UTC" if kind.is_aware else None)
    if kind.name == "null":
        return pa.null()
    return pa.large_string() if kind.name == "text" else computed_type(kind)


def as_column(values: Values, kind: Kind, length: int) -> pa.Array:
    """Convert a result to an array of the type `column_type`."""
    wanted = column_type(kind)
    if kind.name == "null" or (isinstance(values, pa.Scalar) and not values.is_valid):
        return pa.nulls(length, wanted)
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, length)
    if pa.types.is_date32(wanted):
        if kind.unit != UNITS["d"]:
            values = pc.divide(values, UNITS["d"] // kind.unit)
        return values.cast(pa.int32()).view(wanted)
    if kind.name == "time":
        return values.view(wanted)
    return values if values.type == wanted else pc.cast(values, wanted)


def computed_type(kind: Kind) -> pa.DataType:
    """The type of results while they are computed; texts may also be of the type large_string."""
    if kind.name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return _COMPUTED.get(kind.name, pa.bool_())


def as_values(values: pa.Array, kind: Kind) -> Values:
    """Cast a column to the type in which values of its kind are computed."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kind.name == "integer":
        return values if values.type == pa.int64() else pc.cast(values, pa.int64())
    if kind.name == "float":
        return values if values.type == pa.float64() else pc.cast(values, pa.float64())
    if kind.name == "time":
        if pa.types.is_date32(values.type):
            values = values.view(pa.int32())
        return pc.cast(values, pa.int64())
    if kind.name == "text":
        # both sides of a comparison must have the same type
        return values if values.type == pa.string() else pc.cast(values, pa.large_string())
    if kind.name == "null":
        return pa.scalar(None, pa.bool_())
    return values


def as_scalar(value: Constant) -> Values:
    if isinstance(value, Decimal):
        return pa.scalar(float(value), pa.float64())
    if value is None:
        return pa.scalar(None, pa.bool_())
    return pa.scalar(value)


def where_true(values: Values | None, length: int) -> pa.BooleanArray:
    if isinstance(values, pa.Scalar):
        return pa.repeat(pa.scalar(bool(values.as_py())), length)
    return pc.fill_null(values, False)
