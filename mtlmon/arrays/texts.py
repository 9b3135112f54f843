"""Read Arrow columns of texts as cells, without copying."""

from __future__ import annotations

import pyarrow as pa

from mtlmon.arrays.native import TextCells

__all__ = ["text_cells"]


def text_cells(array: pa.Array) -> TextCells:
    """The cells of an array of strings, without copying."""
    validity, offsets, text = array.buffers()
    is_large = pa.types.is_large_string(array.type)
    if not array.null_count:
        validity = None
    return TextCells(len(array), array.offset, validity, offsets, text, is_large)
