"""Numbers for the different values of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# Numbers below this many times the rows are used as they are; arrays have a place for each.
_ROOM = 2
_LEAST_ROOM = 1024
_MOST = 2**62
_INTEGERS = (pa.int64(), pa.int32(), pa.date32())


def numbered(columns: Sequence[pa.Array], length: int) -> tuple[NDArray[np.uint32], int]:
    """Number rows by their values: equal numbers for equal values, where nulls are equal.

    Args:
        columns: columns of a relation; without any, all rows are equal.
        length: the number of rows.

    Returns:
        The numbers, and a limit that all of them are below; not every number occurs.
    """
    numbers = np.zeros(length, np.int64)
    limit = 1
    for column in columns:
        found, count = _numbers_of(column)
        if limit > _MOST // count:
            numbers, limit = _close(numbers)
        numbers = numbers * count + found if limit > 1 else found
        limit *= count
    if limit > _room(length):
        numbers, limit = _close(numbers)
    return numbers.astype(np.uint32), limit


def _numbers_of(column: pa.Array) -> tuple[NDArray[np.int64], int]:
    length = len(column)
    if column.null_count == length:
        return np.zeros(length, np.int64), 1
    if not column.null_count and (column.type in _INTEGERS or pa.types.is_timestamp(column.type)):
        integers = _integers(column)
        low, high = int(integers.min()), int(integers.max())
        if high - low < _room(length):
            return integers - low, high - low + 1
    return _encoded(column)


def _integers(column: pa.Array) -> NDArray[np.int64]:
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    found: NDArray[np.int64] = column.to_numpy().astype(np.int64, copy=False)
    return found


def _encoded(column: pa.Array) -> tuple[NDArray[np.int64], int]:
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), max(1, len(encoded.dictionary))


def _close(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Number numbers anew, without gaps."""
    return _encoded(pa.array(numbers))


def _room(length: int) -> int:
    return _ROOM * length + _LEAST_ROOM


def ranks(column: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the rank of each value, and the values in order; ranks of nulls have no meaning."""
    values = pc.drop_null(pc.unique(column))
    values = values.take(pc.sort_indices(values))
    if not len(values):
        return np.zeros(len(column), np.int64), values
    places = pc.fill_null(pc.index_in(column, values), 0)
    return places.to_numpy().astype(np.int64), values
