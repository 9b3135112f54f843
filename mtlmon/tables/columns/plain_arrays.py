"""Arrays of Arrow that have no nulls, made of buffers.

PERF: where pandas is installed, Arrow imports it when it first converts a value of Python or an
array of numpy. That takes 0.2 seconds. Arrays that are made of buffers need no conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["boolean_array", "integer_array", "repeated_text"]


def integer_array(numbers: NDArray[np.int32] | NDArray[np.int64]) -> pa.Array:
    """Return integers of 32 or 64 bits as an array of Arrow; contiguous ones are not copied."""
    kind = pa.int32() if numbers.dtype == np.int32 else pa.int64()
    buffer = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, len(numbers), [None, buffer])


def boolean_array(values: NDArray[np.bool_]) -> pa.BooleanArray:
    """Return truth values as an array of Arrow."""
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])


def repeated_text(text: str, count: int) -> pa.DictionaryArray:
    """Return a text, repeated so many times, as a dictionary array."""
    data = text.encode()
    ends = pa.py_buffer(np.array([0, len(data)], np.int32))
    texts = pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(data)])
    return pa.DictionaryArray.from_arrays(integer_array(np.zeros(count, np.int32)), texts)
