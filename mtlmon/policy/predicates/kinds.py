"""The kinds of values in predicates, and the kind of each type of column."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    import pyarrow as pa


class Kind(NamedTuple):
    """A kind of values.

    Attributes:
        name: the name of the kind.
        words: how messages call a value of this kind.
        unit: for times, the unit of the column in nanoseconds; for integers that count time since
            1970, their unit.
        is_aware: for times, whether the column has a time zone.
        scale: for decimals, the number of digits after the point.
        precision: for decimals, the number of all digits.
        is_date: for times, whether they are whole days, which no time zone moves.
        element: for lists, of which a predicate can ask what is in them, the name of the kind of
            their elements.
    """

    name: str
    words: str
    unit: int = 0
    is_aware: bool = False
    scale: int = 0
    precision: int = 0
    is_date: bool = False
    element: str = ""


BOOLEAN = Kind("boolean", "true or false")
INTEGER = Kind("integer", "an integer")
FLOAT = Kind("float", "a number")
DECIMAL = Kind("decimal", "a decimal number")
TEXT = Kind("text", "a text")
TIME = Kind("time", "a time")
NULL = Kind("null", "null")
UNKNOWN = Kind("unknown", "not known")
"""The kind of columns before the table is known, and of expressions with an error."""
OTHER = Kind("other", "of another type")
"""Of a column that a predicate can only test whether it is null, or what is in it."""

ELEMENTS = frozenset({"boolean", "integer", "float", "text", "null"})
"""The names of the kinds of the elements of lists in which values are looked for."""
NUMBERS = frozenset({"integer", "float", "decimal"})
OPEN = frozenset({"null", "unknown"})
"""The names of the kinds that fit everywhere."""

DECLARED = {"int": INTEGER, "float": FLOAT, "bool": BOOLEAN, "text": TEXT, "time": TIME}
"""The kind for each type that a declaration can name."""

_LARGEST_PRECISION = 38


def kind_of(data_type: pa.DataType) -> Kind:
    """Return the kind of a column's values for their type."""
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
        return TIME._replace(unit=UNITS["d"], is_date=True)
    if types.is_date64(data_type):
        return TIME._replace(unit=UNITS["ms"], is_date=True)
    if types.is_list(data_type) or types.is_large_list(data_type):
        element = kind_of(data_type.value_type).name
        return OTHER._replace(words="a list", element=element) if element in ELEMENTS else OTHER
    return NULL if types.is_null(data_type) else OTHER


def joined(one: Kind, other: Kind) -> Kind | None:
    """Return the kind of values that are of one kind or the other, or None if there is none."""
    if one == other or other.name in OPEN:
        return one
    if one.name in OPEN:
        return other
    if {one.name, other.name} == {"integer"}:
        return INTEGER
    if {one.name, other.name} <= NUMBERS:
        return FLOAT
    if one.name == other.name == "time" and one.is_aware == other.is_aware:
        return TIME._replace(
            unit=min(one.unit, other.unit),
            is_aware=one.is_aware,
            is_date=one.is_date and other.is_date,
        )
    return None


def equal_as_texts(one: Kind, other: Kind) -> bool:
    """Whether a text is compared with another value, which is by the canonical text of that."""
    names = {one.name, other.name}
    return "text" in names and bool(names & {*NUMBERS, "boolean", "time"})


def fits(kind: Kind, wanted: Kind) -> bool:
    """Whether values of a kind can stand where another is wanted; integers are floats, too."""
    if kind.name == wanted.name or kind.name in OPEN:
        return True
    return {kind.name, wanted.name} <= NUMBERS and wanted.name != "integer"


def is_text(data_type: pa.DataType) -> bool:
    """Whether values of the type are texts."""
    from pyarrow import types

    is_view = getattr(types, "is_string_view", None)
    return (
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or (is_view is not None and is_view(data_type))
    )
