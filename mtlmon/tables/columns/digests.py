"""Columns of values as bytes for digests, which do not depend on how rows come in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.checking.event_digest import Texts
from mtlmon.tables.columns.arrow_text import text_array

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from mtlmon.history.operations import Corrections

__all__ = ["correction_columns", "digest_columns"]


def correction_columns(corrections: Corrections | None) -> list[Buffer | Texts]:
    """Return the columns of a digest for what rows do, if they do anything but insert events."""
    if corrections is None:
        return []
    operations, ids, counted = corrections
    columns: list[Buffer | Texts] = []
    if operations is not None:
        columns.append(np.ascontiguousarray(operations).data)
    if counted is not None:
        columns.append(np.ascontiguousarray(counted).data)
    if ids is not None:
        columns += digest_columns(pa.array(ids, pa.string()))
    return columns


def digest_columns(array: pa.Array) -> list[Buffer | Texts]:
    """Return the columns of a digest for an array: the length of each value, and the values.

    Values are their canonical texts, as a column can have another type once the log has grown. Null
    has no bytes, but a length of its own.
    """
    if pa.types.is_nested(array.type):
        shown = [None if one is None else repr(one) for one in array.to_pylist()]
        array = pa.array(shown, pa.large_string())
    texts = text_array(array).cast(pa.large_string())
    is_null = np.asarray(texts.is_null())
    if texts.null_count:
        texts = texts.fill_null("")
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    joined = b"" if data is None else bytes(memoryview(data)[starts[0] : starts[-1]])
    lengths = np.diff(starts)
    lengths[is_null] = -1
    return [lengths.data, Texts((starts - starts[0]).tobytes(), joined)]
