"""Read Arrow columns as text cells."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.canonical import canonical_texts, is_text
from mtlmon.arrays.native import Offsets, texts_of_views

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "is_readable",
    "is_text",
    "list_offsets",
    "shortened",
    "shown_value",
    "text_array",
    "without_views",
]

_SHOWN = 60


def text_array(array: pa.Array) -> pa.Array:
    """Convert an array of any values to their canonical texts: strings without a dictionary.

    Raises:
        pa.ArrowException: values of this type cannot be converted to text.
    """
    return canonical_texts(array)


def list_offsets(array: pa.Array) -> tuple[Offsets, Any]:
    """The boundaries of an array's lists in the array of their items, and that array.

    A null list has no items.
    """
    if array.null_count:
        empty = pa.scalar([], array.type)
        array = pc.if_else(array.is_valid(), array, empty)
    items = array.values
    is_large = pa.types.is_large_list(array.type)
    return Offsets(array.buffers()[1], array.offset, len(array), len(items), is_large), items


def is_readable(kind: pa.DataType) -> bool:
    """Whether columns of a type can be read at all, for any purpose.

    The other types have parts that are not used here, and that libraries do not check well enough
    for damaged files.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return is_readable(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _is_simple(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_simple(kind.value_type)
    return _is_simple(kind)


def _is_simple(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        (is_text(kind) and not types.is_dictionary(kind))
        or types.is_null(kind)
        or types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or (types.is_temporal(kind) and not types.is_interval(kind))
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )


def without_views(array: pa.Array) -> pa.Array:
    """Convert text views in a readable column, as few functions of Arrow support views.

    Raises:
        ValueError: views are damaged, which full validation does not detect in null values.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return without_views(array.storage)
    if str(kind) == "string_view":
        validity, views, *pieces = array.buffers()
        offsets, text = texts_of_views(len(array), array.offset, validity, views, pieces)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
        texts = pa.Array.from_buffers(pa.large_string(), len(array), buffers)
        if not array.null_count:
            return texts
        return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.large_string()))
    if pa.types.is_dictionary(kind) and str(kind.value_type) == "string_view":
        return pa.DictionaryArray.from_arrays(array.indices, without_views(array.dictionary))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = without_views(array.values)
        if items.type == kind.value_type:
            return array
        is_large = pa.types.is_large_list(kind)
        plain = pa.large_list(items.type) if is_large else pa.list_(items.type)
        buffers = array.buffers()[:2]
        return pa.Array.from_buffers(
            plain, len(array), buffers, offset=array.offset, children=[items]
        )
    return array


def shown_value(array: pa.Array, place: int) -> str:
    """Show a value in a message; this must not fail, whatever the value is.

    Python has no times before the year 1, no times in nanoseconds, and no decimals with more digits
    than their type allows; Arrow files may have all of them.
    """
    try:
        value = array[place].as_py()
        text = f"{value:f}" if isinstance(value, Decimal) else str(value)
        if isinstance(value, Decimal) and "." in text:
            text = text.rstrip("0").rstrip(".")
        return shortened(repr(value) if isinstance(value, str) else text)
    except Exception:
        # Libraries of time zones raise their own exceptions.
        kind = array.type
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
            number = array.slice(place, 1).view(pa.int64())[0]
        elif pa.types.is_date32(kind):
            number = array.slice(place, 1).view(pa.int32())[0]
        else:
            return f"a value of type {kind}"
    except pa.ArrowException:
        return f"a value of type {kind}"
    return f"{number} (of type {kind})"


def shortened(text: str) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
