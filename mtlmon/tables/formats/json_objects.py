"""Read columns of JSON lines that are written in the usual way, without the library for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.tables.native import ObjectColumns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from numpy.typing import NDArray

    Kind = Literal["text", "integer", "float", "boolean", "null"]

__all__ = ["PlainObjects"]

_KINDS: dict[pa.DataType, Kind] = {
    pa.string(): "text",
    pa.int64(): "integer",
    pa.float64(): "float",
    pa.bool_(): "boolean",
    pa.null(): "null",
}
_MOST_COLUMNS = 64
_PART_BYTES = 1 << 21


class PlainObjects:
    """Reads blocks of lines, unless something in them is unusual.

    PERF: four columns of 10^6 lines of 68 bytes take 0.10 s of processor time, and with the
    library 0.55 s. A command that reads these 68 MB takes 133 MB of memory if blocks of 4 MB are
    read as a whole, 122 MB in parts of 2 MB, as with the library, and 118 MB in parts of 1 MB, but
    then 20% longer.
    """

    def __init__(self) -> None:
        self._columns: dict[str, pa.DataType] = {}
        self._reader: ObjectColumns | None = None
        # how many blocks were unusual, and how many of the next ones the library reads
        self._missed = 0
        self._skipped = 0

    def read(
        self, text: NDArray[np.uint8], columns: Mapping[str, pa.DataType]
    ) -> dict[str, pa.ChunkedArray] | None:
        """Return columns, or None if the library must read them, or there are no rows.

        Args:
            text: complete lines.
            columns: the types of the columns, which are members of the objects.
        """
        if self._skipped:
            self._skipped -= 1
            return None
        if not 0 < len(columns) <= _MOST_COLUMNS or not _KINDS.keys() >= {*columns.values()}:
            return None
        if self._reader is None or self._columns != columns:
            self._columns = dict(columns)
            self._reader = ObjectColumns((name, _KINDS[kind]) for name, kind in columns.items())
        parts: dict[str, list[pa.Array]] = {name: [] for name in columns}
        behind = 0
        while behind < len(text):
            found = self._reader.read(text, len(text), behind, _PART_BYTES)
            if found is None:
                self._missed += 1
                self._skipped = self._missed
                return None
            count, behind = found
            for place, (name, kind) in enumerate(columns.items() if count else ()):
                parts[name].append(_array(self._reader, place, kind, count))
        if not any(parts.values()):
            return None
        return {name: pa.chunked_array(one) for name, one in parts.items()}


def _array(reader: ObjectColumns, place: int, kind: pa.DataType, count: int) -> pa.Array:
    """A column that has been read."""
    nulls = reader.null_count(place)
    if pa.types.is_null(kind) or nulls == count:
        return pa.nulls(count, kind)
    bits = (count + 7) // 8
    validity = np.zeros(bits, np.uint8) if nulls else None
    parts: list[NDArray[np.generic]] = []
    if pa.types.is_string(kind):
        texts = np.empty(reader.text_size(place), np.uint8)
        parts = [np.empty(count + 1, np.int32), texts]
        reader.write(place, parts[0], validity, texts)
    else:
        is_boolean = pa.types.is_boolean(kind)
        parts = [np.zeros(bits, np.uint8) if is_boolean else np.empty(count, np.int64)]
        reader.write(place, parts[0], validity)
    buffers = [None if validity is None else pa.py_buffer(validity), *map(pa.py_buffer, parts)]
    return pa.Array.from_buffers(kind, count, buffers, nulls)
