"""Convert columns of Arrow to the 64-bit cells of kernels, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.arrays.native import KeyTable
from mtlmon.arrays.plain_arrays import boolean_array, number_array
from mtlmon.arrays.texts import text_cells
from mtlmon.policy.predicates import kinds
from mtlmon.policy.predicates.columns import column_type
from mtlmon.policy.predicates.numbers import to_floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.policy.predicates.kinds import Kind

Cells: TypeAlias = "NDArray[np.int64]"
Mask: TypeAlias = "NDArray[np.uint8]"


class Texts:
    """Numbers texts, so that kernels can keep them as cells."""

    def __init__(self) -> None:
        self._table = KeyTable(1)
        self._ranks = np.empty(0, np.uint32)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the texts take."""
        return self._table.held_bytes + self._ranks.nbytes

    def ranks(self) -> NDArray[np.uint32]:
        """Return the place of each text in their order, by its number."""
        count = len(self)
        if len(self._ranks) != count:
            every = np.arange(count, dtype=np.int64)
            order = pc.sort_indices(self.texts(every, np.ones(count, np.uint8)))
            self._ranks = np.empty(count, np.uint32)
            self._ranks[order.to_numpy()] = np.arange(count, dtype=np.uint32)
        return self._ranks

    def numbers(self, texts: pa.Array) -> Cells:
        """Return the number of each text; for null, that of the empty text."""
        filled = pc.fill_null(texts, "")
        if len(filled) == 0:
            return np.empty(0, np.int64)
        numbers = np.empty(len(filled), np.uint32)
        self._table.number_rows([text_cells(filled)], numbers)
        return numbers.astype(np.int64)

    def texts(self, cells: Cells, validity: Mask) -> pa.Array:
        """Return the texts with these numbers, with null where `validity` is 0."""
        is_valid = pa.array(validity.view(np.bool_))
        if not validity.any():
            return pa.nulls(len(cells), pa.large_string())
        numbers = np.where(validity, cells, cells[validity.argmax()]).astype(np.uint32)
        starts, content = self._table.column(numbers, 0)
        buffers = [is_valid.buffers()[1], pa.py_buffer(starts), pa.py_buffer(content)]
        return pa.Array.from_buffers(pa.large_string(), len(cells), buffers)

    def __len__(self) -> int:
        return len(self._table)

    def keep(self, is_kept: NDArray[np.bool_]) -> bytes:
        """Forget texts, and number the others anew.

        Returns:
            The new numbers as 32-bit integers, indexed by the current ones; 2^32-1 for texts that
            are forgotten.
        """
        numbers = np.where(is_kept, np.cumsum(is_kept) - 1, 2**32 - 1).astype(np.uint32).tobytes()
        self._table.keep(numbers)
        self._ranks = np.empty(0, np.uint32)
        return numbers

    def snapshot(self) -> bytes:
        """Return the texts as bytes for `restore`."""
        return self._table.snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Replace all texts by those of a snapshot."""
        self._table = KeyTable(1)
        self._table.restore(snapshot)
        self._ranks = np.empty(0, np.uint32)


def cell_kind(kind: Kind) -> Kind:
    """The kind of the values that kernels keep for values of a kind."""
    return kinds.FLOAT if kind.name == "decimal" else kind


def to_cells(values: pa.Array, kind: Kind, texts: Texts) -> tuple[Cells, Mask | None]:
    """Convert a column to cells and, if there are nulls, a mask with 0 for them."""
    if kind.name == "text":
        cells = texts.numbers(values)
    elif kind.name == "boolean":
        cells = _numbers(pc.cast(values, pa.int64()))
    elif kind.name in {"float", "decimal"}:
        floats = values if values.type == pa.float64() else to_floats(values)
        cells = _numbers(floats).view(np.int64)
    elif kind.name in {"integer", "time"}:
        days = values.cast(pa.int32()) if kind.is_date else values
        cells = _numbers(days.cast(pa.int64()) if kind.is_date else values)
    else:
        cells = np.zeros(len(values), np.int64)
    if not values.null_count:
        return cells, None
    return cells, is_set(values.is_valid())


def room_for_results(count: int) -> tuple[Cells, Mask]:
    """Return arrays for the results of a kernel and their validity, with arbitrary content.

    The memory is Arrow's, which uses it again: new memory of the system costs more than a count.
    """
    cells = np.frombuffer(pa.allocate_buffer(8 * count), np.int64)
    return cells, np.frombuffer(pa.allocate_buffer(count), np.uint8)


def is_set(booleans: pa.Array) -> Mask:
    """Return where Booleans without nulls are true."""
    mask: NDArray[np.bool_] = booleans.to_numpy(zero_copy_only=False)
    return mask.view(np.uint8)


def from_cells(cells: Cells, validity: Mask, kind: Kind, texts: Texts) -> pa.Array:
    """Convert cells to a column, with null where `validity` is 0."""
    if kind.name == "text":
        return texts.texts(cells, validity)
    if kind.name == "null":
        return pa.nulls(len(cells))
    if kind.name == "boolean":
        return boolean_array(cells != 0, validity)
    if kind.name == "float":
        return number_array(cells.view(np.float64), validity)
    values = number_array(cells, validity)
    if kind.name == "time":
        if kind.is_date:
            values = values.cast(pa.int32())
        return values.view(column_type(kind))
    return values


def _numbers(values: pa.Array) -> NDArray[np.int64]:
    """The buffer of numbers of 64 bits; a number under a null is arbitrary."""
    buffer = values.buffers()[1]
    if buffer is None:
        return np.zeros(len(values), np.int64)
    return np.frombuffer(buffer, np.int64, len(values), 8 * values.offset)
