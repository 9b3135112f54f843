"""What the rows of a table do: insert events, take them back, let time pass, or count events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from mtlmon.errors import TableError
from mtlmon.history.operations import (
    ADVANCE,
    COMPLETE,
    INSERT,
    OPERATIONS,
    RETRACT,
    Corrections,
)
from mtlmon.policy.predicates.expression import column_of_schema
from mtlmon.support.option_names import PYTHON
from mtlmon.tables.columns.arrow_text import shown_value, text_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.support.option_names import OptionNames
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.columns.usable import UsableRows

__all__ = ["CorrectionColumns"]

_WORDS = {**OPERATIONS, "complete": COMPLETE}
_LARGEST = 2**63 - 1


class CorrectionColumns:
    """Reads what rows do, and the ids of their events.

    Args:
        operation: the column of operations, of which null means "insert"; None if all rows insert.
        id: the column of ids; null for rows without one. None if none has one.
        clock: whether time passes for "all" keys, or for each "key", as for `History`.
        complete: the columns of rows that count events: the start of the interval that ends at the
            row's time, which is null or has no column if there is none; and how many events there
            are in it. None if no row counts.
        new_end: the column with ends that retractions give to records; None if none do.
        times: reads the column of times.
        options: how messages write options.
    """

    def __init__(
        self,
        operation: str | None,
        id: str | None,
        clock: Literal["all", "key"] = "all",
        complete: tuple[str | None, str] | None = None,
        new_end: str | None = None,
        *,
        times: Times,
        options: OptionNames = PYTHON,
    ) -> None:
        self.operation = operation
        self.id = id
        self._clock = clock
        self._complete = complete
        self._new_end = new_end
        self._times = times
        self._options = options

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        names = (self.operation, self.id, *(self._complete or ()))
        return [name for name in names if name is not None]

    def need_no_key(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Tell which rows may be without a key: what they do is not about the rows of one."""
        found = np.zeros(batch.num_rows, np.bool_)
        if self.operation is None:
            return found
        words = batch.column(self.operation)
        if self._clock == "all":
            found |= _are_among(words, ADVANCE, COMPLETE)
        if self.id is not None:
            takes_back = np.asarray(batch.column(self.id).is_valid())
            if self._new_end is not None:
                # others become rows of their records
                new = column_of_schema(batch.schema, self._new_end)
                takes_back &= np.asarray(batch.column(new).is_null())
            found |= _are_among(words, RETRACT) & takes_back
        return found

    def read(self, rows: UsableRows) -> Corrections:
        """Return what rows do, up to the first one of which that is not known.

        It and those behind it are dropped; `rows.error` tells why.
        """
        operations = self._operations(rows)
        counted = None
        if operations is not None and self._complete is not None:
            counted = self._counted(rows, operations, *self._complete)
        return Corrections(operations, self._ids(rows), counted).between(0, len(rows.time_stamps))

    def _operations(self, rows: UsableRows) -> NDArray[np.uint8] | None:
        if self.operation is None:
            return None
        cells = rows.batch.column(self.operation)
        codes = np.zeros(len(cells), np.uint8)
        for place, word in enumerate(cells.to_pylist()):
            code = INSERT if word is None else _WORDS.get(word)
            if code is None:
                message = f"{shown_value(cells, place)} is none of {', '.join(_WORDS)}"
                _cut(rows, place, message, self.operation)
                break
            if code == COMPLETE and self._complete is None:
                option = self._options.written("complete", "START,COUNT")
                message = f"no columns say what the row counts: name them, as in {option}"
                _cut(rows, place, message, self.operation)
                break
            codes[place] = code
        return codes

    def _counted(
        self, rows: UsableRows, operations: NDArray[np.uint8], start: str | None, count: str
    ) -> NDArray[np.int64]:
        """Return the starts and counts of rows that count events."""
        found = np.zeros((len(operations), 2), np.int64)
        places = np.flatnonzero(operations == COMPLETE)
        places = places[places < len(rows.time_stamps)]
        if not len(places):
            return found
        counts = text_array(rows.batch.column(count).take(pa.array(places))).to_pylist()
        cells = pa.nulls(len(places))
        if start is not None:
            cells = rows.batch.column(start).take(pa.array(places))
        times, column = self._times.alike(), start or count
        starts, faults = times.read(cells)
        has_start = np.asarray(cells.is_valid())
        for own, place in enumerate(places.tolist()):
            text = counts[own]
            if faults is not None and faults[own] and has_start[own]:
                reason = times.message(cells, own, int(faults[own]), self._options)
                _cut(rows, place, f"no start of the interval that is counted: {reason}", column)
                break
            if starts[own] >= rows.time_stamps[place]:
                message = (
                    f"the interval that is counted is empty: it goes from {starts[own]} to below "
                    f"the row's time, {rows.time_stamps[place]}"
                )
                _cut(rows, place, message, column)
                break
            if text is None or not (text.isascii() and text.isdigit()) or int(text) > _LARGEST:
                shown = "no number" if text is None else f"{text!r} is no number"
                _cut(rows, place, f"{shown} of events: it is an integer from 0 on", count)
                break
            found[place] = starts[own], int(text)
        return found

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


def _are_among(cells: pa.Array, *codes: int) -> NDArray[np.bool_]:
    """Tell which cells say that a row does one of some things."""
    words = {word for word, found in _WORDS.items() if found in codes}
    return np.fromiter((word in words for word in cells.to_pylist()), np.bool_, len(cells))


def _cut(rows: UsableRows, place: int, message: str, column: str) -> None:
    """Keep the rows before one, which is an error."""
    rows.error = rows.block.error(rows.place(place), message, column)
    rows.cut(place)
