"""Read the keys of rows: columns of any type in, numbers of streams out."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.native import KeyTable
from mtlmon.arrays.texts import text_cells
from mtlmon.tables.columns.arrow_text import is_text, text_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# How many rows to look at to see whether keys are few.
_SAMPLED_ROWS = 1024

NO_NUMBER = 2**32 - 1
"""Stands for the number of an unknown key."""


def number_rows(keys: KeyTable, columns: Sequence[pa.Array]) -> NDArray[np.uint32]:
    """The number of every row's key, which must not be null in any column.

    Raises:
        LimitError: there are too many keys.
        pa.ArrowException: values of some type cannot be converted to text.
    """
    first = columns[0]
    if len(columns) == 1 and pa.types.is_integer(first.type) and _are_few(first):
        # PERF: with 10 (1,000) keys, a row takes 6 (14) instead of 31 (35) ns. With 100,000, it
        # would take 223 instead of 66 ns.
        codes = first.dictionary_encode()
        texts = codes.dictionary.cast(pa.string())
        first = pa.DictionaryArray.from_arrays(codes.indices, texts)
    numbers = np.empty(len(first), np.uint32)
    if len(columns) == 1 and pa.types.is_dictionary(first.type) and is_text(first.type):
        dictionary = text_array(first.dictionary)
        indices = np.asarray(first.indices.cast(pa.int32()))
        keys.number_dictionary(text_cells(dictionary), indices, len(first), numbers)
    else:
        # the texts must live as long as their cells
        texts = [text_array(column) for column in columns]
        keys.number_rows([text_cells(text) for text in texts], numbers)
    return numbers


def find_rows(keys: KeyTable, columns: Sequence[pa.Array]) -> NDArray[np.uint32]:
    """Return the number of every row's key; 2^32-1 where it is null, or has no number.

    Raises:
        pa.ArrowException: values of some type cannot be converted to text.
    """
    texts = [text_array(column) for column in columns]
    is_known = reduce(pc.and_, [text.is_valid() for text in texts])
    rows = np.flatnonzero(is_known)
    numbers = np.full(len(texts[0]), NO_NUMBER, np.uint32)
    # the texts must live as long as their cells
    known = [text.take(pa.array(rows)) for text in texts]
    found = np.empty(len(rows), np.uint32)
    keys.find_rows([text_cells(text) for text in known], found)
    numbers[rows] = found
    return numbers


def key_texts(keys: KeyTable | None, numbers: NDArray[np.uint32], column: int) -> pa.Array:
    """Return the texts of keys in one column."""
    assert keys is not None
    offsets, texts = keys.column(np.ascontiguousarray(numbers), column)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.large_string(), len(numbers), buffers).cast(pa.string())


def _are_few(column: pa.Array) -> bool:
    """Whether integers seem to have fewer different values than there are rows by far."""
    sampled = np.asarray(column)[:: max(1, len(column) // _SAMPLED_ROWS)]
    return len(column) >= _SAMPLED_ROWS and 4 * len(np.unique(sampled)) < 3 * len(sampled)
