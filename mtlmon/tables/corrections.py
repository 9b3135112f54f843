"""What the rows of a table do: insert events, take them back, or only let time pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.sources import Corrections
from mtlmon.history.operations import INSERT, OPERATIONS
from mtlmon.tables.columns.arrow_text import shown_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.tables.columns.usable import UsableRows

__all__ = ["CorrectionColumns"]


class CorrectionColumns:
    """Reads what rows do, and the ids of their events.

    Args:
        operation: the column of operations, of which null means "insert"; None if all rows insert.
        id: the column of ids, integers or texts; null for rows without one. None if none has one.
    """

    def __init__(self, operation: str | None, id: str | None) -> None:
        self.operation = operation
        self.id = id

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return [name for name in (self.operation, self.id) if name is not None]

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

    def _ids(self, rows: UsableRows) -> list[int | str | None] | None:
        if self.id is None:
            return None
        cells = rows.batch.column(self.id)
        ids: list[int | str | None] = cells.to_pylist()
        for place, name in enumerate(ids):
            if name is not None and type(name) not in (int, str):
                message = f"{shown_value(cells, place)} is neither an integer nor a text"
                _cut(rows, place, message, self.id)
                break
        return ids


def _cut(rows: UsableRows, place: int, message: str, column: str) -> None:
    """Keep the rows before one, which is an error."""
    rows.error = rows.block.error(rows.place(place), message, column)
    rows.cut(place)
