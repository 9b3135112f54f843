"""What the rows of a table do: insert events, take them back, or only let time pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from mtlmon.checking.sources import Corrections
from mtlmon.errors import TableError
from mtlmon.history.operations import ADVANCE, INSERT, OPERATIONS, RETRACT
from mtlmon.tables.columns.arrow_text import shown_value, text_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.tables.columns.usable import UsableRows

__all__ = ["CorrectionColumns"]


class CorrectionColumns:
    """Reads what rows do, and the ids of their events.

    Args:
        operation: the column of operations, of which null means "insert"; None if all rows insert.
        id: the column of ids; null for rows without one. None if none has one.
        clock: whether time passes for "all" keys, or for each "key", as for `History`.
    """

    def __init__(
        self, operation: str | None, id: str | None, clock: Literal["all", "key"] = "all"
    ) -> None:
        self.operation = operation
        self.id = id
        self._clock = clock

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return [name for name in (self.operation, self.id) if name is not None]

    def need_no_key(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Tell which rows may be without a key: what they do is not about the rows of one."""
        found = np.zeros(batch.num_rows, np.bool_)
        if self.operation is None:
            return found
        words = batch.column(self.operation)
        if self._clock == "all":
            found |= _are_among(words, ADVANCE)
        if self.id is not None:
            found |= _are_among(words, RETRACT) & np.asarray(batch.column(self.id).is_valid())
        return found

    def read(self, rows: UsableRows) -> Corrections:
        """Return what rows do, up to the first one of which that is not known.

        It and those behind it are dropped; `rows.error` tells why.
        """
        operations = self._operations(rows)
        ids = self._ids(rows)
        count = len(rows.time_stamps)
        return Corrections(
            None if operations is None else operations[:count], None if ids is None else ids[:count]
        )

    def _operations(self, rows: UsableRows) -> NDArray[np.uint8] | None:
        if self.operation is None:
            return None
        cells = rows.batch.column(self.operation)
        codes = np.zeros(len(cells), np.uint8)
        for place, word in enumerate(cells.to_pylist()):
            code = INSERT if word is None else OPERATIONS.get(word)
            if code is None:
                message = f"{shown_value(cells, place)} is none of {', '.join(OPERATIONS)}"
                _cut(rows, place, message, self.operation)
                break
            codes[place] = code
        return codes

    def _ids(self, rows: UsableRows) -> list[str | None] | None:
        if self.id is None:
            return None
        # 7 and 7.0 are one id, and so are 7 and "7": other files may have it with another type
        try:
            ids: list[str | None] = text_array(rows.batch.column(self.id)).to_pylist()
        except pa.ArrowException as error:
            reason = " ".join(str(error).split())
            raise TableError(
                f"cannot write ids as text: {reason}", path=rows.block.path, column=self.id
            ) from None
        return ids


def _are_among(cells: pa.Array, code: int) -> NDArray[np.bool_]:
    """Tell which cells say that a row does something."""
    words = {word for word, found in OPERATIONS.items() if found == code}
    return np.fromiter((word in words for word in cells.to_pylist()), np.bool_, len(cells))


def _cut(rows: UsableRows, place: int, message: str, column: str) -> None:
    """Keep the rows before one, which is an error."""
    rows.error = rows.block.error(rows.place(place), message, column)
    rows.cut(place)
