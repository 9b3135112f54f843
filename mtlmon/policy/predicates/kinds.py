"""What kinds of values there are, and of which kind the columns of a table are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    import pyarrow as pa


class Kind(NamedTuple):
    """A kind of values.

    Attributes:
        name: what it is.
        words: a value of it, for messages.
        unit: of times, the nanoseconds that the column counts in.
        is_aware: of times, whether the column has a time zone.
        scale: of decimals, how many digits stand behind the point.
        precision: of decimals, how many digits there are.
    """

    name: str
    words: str
    unit: int = 0
    is_aware: bool = False
    scale: int = 0
    precision: int = 0


BOOLEAN = Kind("boolean", "true or false")
INTEGER = Kind("integer", "an integer")
FLOAT = Kind("float", "a number")
DECIMAL = Kind("decimal", "a decimal number")
TEXT = Kind("text", "a text")
TIME = Kind("time", "a time")
NULL = Kind("null", "null")
UNKNOWN = Kind("unknown", "not known")
"""Of a column whose table is not known yet, and of what is wrong already."""
OTHER = Kind("other", "of another type")
"""Of a column that predicates can only ask whether it is null."""

NUMBERS = frozenset({"integer", "float", "decimal"})
OPEN = frozenset({"null", "unknown"})
"""The names of kinds that fit everywhere."""

_LARGEST_PRECISION = 38


def kind_of(data_type: pa.DataType) -> Kind:
    """The kind of a column's values, by their type."""
    from pyarrow import types

    if types.is_dictionary(data_type):
        data_type = data_type.value_type
    if types.is_boolean(data_type):
        return BOOLEAN
    if types.is_integer(data_type):
        return INTEGER
    if types.is_floating(data_type):
        return FLOAT
    if types.is_decimal(data_type) and data_type.precision <= _LARGEST_PRECISION:
        return DECIMAL._replace(scale=data_type.scale, precision=data_type.precision)
    if is_text(data_type):
        return TEXT
    if types.is_timestamp(data_type):
        return TIME._replace(unit=UNITS[data_type.unit], is_aware=data_type.tz is not None)
    if types.is_date32(data_type):
        return TIME._replace(unit=UNITS["d"])
    if types.is_date64(data_type):
        return TIME._replace(unit=UNITS["ms"])
    return NULL if types.is_null(data_type) else OTHER


def is_text(data_type: pa.DataType) -> bool:
    """Whether the type is one of texts."""
    from pyarrow import types

    is_view = getattr(types, "is_string_view", None)
    return (
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or (is_view is not None and is_view(data_type))
    )
