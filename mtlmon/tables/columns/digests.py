"""Columns of values as bytes for digests, which do not depend on how rows come in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.checking.event_digest import Texts
from mtlmon.tables.columns.arrow_text import text_array

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from mtlmon.checking.sources import Corrections

__all__ = ["correction_columns", "digest_columns"]


def correction_columns(corrections: Corrections | None) -> list[Buffer | Texts]:
    """Return the columns of a digest for what rows do, if they do anything but insert events."""
    if corrections is None:
        return []
    operations, ids = corrections
    columns: list[Buffer | Texts] = []
    if operations is not None:
        columns.append(np.ascontiguousarray(operations).data)
    if ids is not None:
        # 1 and "1" are different ids
        columns += digest_columns(
            pa.array([None if one is None else repr(one) for one in ids], pa.string())
        )
    return columns


def digest_columns(array: pa.Array) -> list[Buffer | Texts]:
    """Return the columns of a digest for an array: the length of each value, and the values.

    Null has no bytes, but a length of its own.
    """
    valid = np.asarray(array.is_valid())
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind):
        values = np.ascontiguousarray(array.drop_null().to_numpy(zero_copy_only=False))
        lengths = np.full(len(array), values.dtype.itemsize, np.int64)
        joined = values.tobytes()
    else:
        texts = text_array(array)
        lengths = np.asarray(pc.binary_length(texts).fill_null(0)).astype(np.int64)
        joined = b"".join(text.encode() for text in texts.drop_null().to_pylist())
    lengths[~valid] = 0
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    lengths[~valid] = -1
    return [lengths.data, Texts(starts.tobytes(), joined)]
