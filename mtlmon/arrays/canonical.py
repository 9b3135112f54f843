"""The canonical text of values: equal values of any types have the same, and others do not.

Keys, look-ups and digests compare values of columns by it, where types may differ:

- a text is itself;
- a number is written by its value, whatever its type: a whole number below 10^38 in digits (`7` for
  7.0, `0` for -0.0), another one as the shortest decimal that is read as that float, or as the
  decimal itself;
- `true` and `false`;
- a time by its instant, without zeros at the end of its fraction.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["canonical_cells", "canonical_number", "canonical_texts", "is_number", "is_text"]

# Whole numbers of up to so many digits are written in digits, and others with an exponent.
_MOST_DIGITS = 38
# Numbers with a point are written with an exponent if more zeros follow the point.
_MOST_ZEROS = 5
_INT64 = 2.0**63


def is_text(data_type: pa.DataType) -> bool:
    """Whether the values are texts, plain or in a dictionary."""
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    return _is_plain(data_type) or str(data_type) == "string_view"


def is_number(data_type: pa.DataType) -> bool:
    """Whether the values are numbers, which are not in a dictionary."""
    types = pa.types
    return bool(
        types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type)
    )


def canonical_texts(array: pa.Array) -> pa.Array:
    """Return the canonical texts of the values of an array, null where they are null.

    Texts that are not in a dictionary are returned as they are.

    Raises:
        pa.ArrowException: values of this type cannot be converted to text.
    """
    kind = array.type
    if _is_plain(kind):
        return array
    if pa.types.is_dictionary(kind):
        values = canonical_texts(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    if pa.types.is_nested(kind):
        what = "objects" if pa.types.is_struct(kind) else "lists"
        raise pa.ArrowNotImplementedError(f"its values are {what}")
    if pa.types.is_floating(kind):
        return _of_floats(array.cast(pa.float64()))
    if pa.types.is_decimal(kind):
        return _of_decimals(array)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        array = array.cast(pa.timestamp(kind.unit, "UTC"))
    texts = array.cast(pa.large_string())
    if (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and kind.unit != "s":
        texts = pc.replace_substring_regex(texts, r"\.?0*(Z?)$", r"\1")
    return texts


def canonical_cells(array: pa.Array) -> list[object]:
    """Return the values of an array, of which equal rows have equal ones: numbers as texts.

    A column of integers can become one of floats later.
    """
    return (canonical_texts(array) if is_number(array.type) else array).to_pylist()  # type: ignore[no-any-return]


def canonical_number(value: int | float | Decimal) -> str:
    """Return the canonical text of a number.

    >>> [canonical_number(one) for one in (7.0, Decimal("7.00"), -0.0, 0.1, 1e20, 1e40, 1e-7)]
    ['7', '7', '0', '0.1', '100000000000000000000', '1e+40', '1e-7']
    """
    if isinstance(value, float):
        if value - value != 0:
            return str(value)
        is_exact = value.is_integer() and abs(value) < 10**_MOST_DIGITS
        value = int(value) if is_exact else Decimal(repr(value))
    sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    shortest = text.rstrip("0")
    exponent += len(text) - len(shortest)
    if not shortest:
        return "0"
    return "-" * sign + _written(shortest, exponent)


def _written(digits: str, exponent: int) -> str:
    """Write some digits, the last of which is not 0, times a power of ten."""
    point = len(digits) + exponent
    if exponent >= 0 and point <= _MOST_DIGITS:
        return digits + "0" * exponent
    if exponent < 0 and point > 0:
        return f"{digits[:point]}.{digits[point:]}"
    if exponent < 0 and point >= -_MOST_ZEROS:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def _of_floats(array: pa.Array) -> pa.Array:
    is_small = pc.less(pc.abs(array), _INT64)
    is_whole = pc.and_(is_small, pc.equal(pc.floor(array), array))
    if is_whole.true_count + array.null_count == len(array):
        return array.cast(pa.int64()).cast(pa.large_string())
    whole = pc.if_else(is_whole, array, None).cast(pa.int64()).cast(pa.large_string())
    texts = pc.if_else(is_whole, whole, array.cast(pa.large_string()))
    # Arrow writes large floats with an exponent.
    is_odd = pc.match_substring(texts, "e+")
    return _corrected(texts, is_odd, array, canonical_number)


def _of_decimals(array: pa.Array) -> pa.Array:
    texts = array.cast(pa.large_string())
    # an exponent, or many digits
    is_odd = pc.or_(
        pc.match_substring(texts, "E"), pc.greater(pc.binary_length(texts), _MOST_DIGITS)
    )
    if array.type.scale > 0:
        texts = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    return _corrected(texts, is_odd, array.cast(pa.large_string()), _of_decimal_text)


def _of_decimal_text(text: str) -> str:
    return canonical_number(Decimal(text))


def _corrected(
    texts: pa.Array, is_odd: pa.BooleanArray, values: pa.Array, text_of: Callable[..., str]
) -> pa.Array:
    """Replace some texts by those that a function gives for their values."""
    if not is_odd.true_count:
        return texts
    found = [text_of(value) for value in values.filter(is_odd).to_pylist()]
    return pc.replace_with_mask(
        texts, pc.fill_null(is_odd, False), pa.array(found, pa.large_string())
    )


def _is_plain(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))
