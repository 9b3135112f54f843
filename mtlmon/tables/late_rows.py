"""Rows of tables that come too late: how many, where the first one is, and what they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mtlmon.arrays.plain_arrays import number_array
from mtlmon.errors import MtlmonError, TableError
from mtlmon.syntax.bounds import UNITS

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.support.option_names import OptionNames
    from mtlmon.syntax.durations import Duration
    from mtlmon.tables.columns.times import Times
    from mtlmon.tables.columns.usable import UsableRows

__all__ = ["LateRows", "units_of"]


class LateRows:
    """Takes the rows that come too late.

    Args:
        write: gets them as text: lines as files have them, with the header of CSV before the first
            one; rows of other formats as JSON lines, with the columns that are read. None if they
            are only counted.

    Attributes:
        count: the number of rows.
        first: says where the first one is; None if there are none.
        header: the header of CSV that was written last; set it to continue a file that has one.
    """

    def __init__(self, write: Callable[[bytes], None] | None) -> None:
        self._write = write
        self.header = b""
        self.count = 0
        self.first: TableError | None = None

    def add(self, rows: UsableRows, places: NDArray[np.int64], reason: str) -> None:
        """Count rows, and write them.

        Args:
            rows: the rows of a block.
            places: the indices of those that come too late, of which there are some.
            reason: why they are too late, behind their time-stamp.
        """
        block = rows.block
        if self.first is None:
            place = int(places[0])
            message = f"time-stamp {rows.time_stamps[place]} comes too late: {reason}"
            self.first = block.error(rows.place(place), message)
        self.count += len(places)
        if self._write is None:
            return
        if block.text_of is None:
            cells = rows.batch.take(number_array(places)).to_pylist()
            texts = [json.dumps(row, default=str, ensure_ascii=False).encode() for row in cells]
        else:
            texts = [block.text_of(rows.place(place)).strip(b"\r\n") for place in places.tolist()]
            if block.header and block.header != self.header:
                self.header = block.header
                texts.insert(0, block.header.strip(b"\r\n"))
        self._write(b"".join(text + b"\n" for text in texts))

    def state(self) -> list[Any]:
        """Return what was refused so far, for `restore`, as JSON can write it."""
        first = self.first
        fields = None
        if first is not None:
            fields = [first.message, first.path, first.row, first.line, first.column]
        return [self.count, fields]

    def restore(self, state: Any) -> None:
        """Go on from a state."""
        self.count, fields = state
        if fields is not None:
            message, path, row, line, column = fields
            self.first = TableError(message, path=path, row=row, line=line, column=column)


def units_of(length: int | Duration, name: str, times: Times, names: OptionNames) -> int:
    """Return a length of time in time units; call this once rows have been read.

    Args:
        length: the length.
        name: the option that it is the value of.
        times: reads the times.
        names: how messages write options.

    Raises:
        MtlmonError: it is not a whole number of these units, or they are not known.
    """
    if isinstance(length, int):
        return length
    unit = times.known_unit
    given = names.written(name, str(length))
    if unit is None:
        advice = names.written("time_unit", "s")
        raise MtlmonError(
            f"{given} needs the unit of the time-stamps: add {advice}, for instance, or "
            "give a number of time units"
        )
    units, rest = divmod(length.nanoseconds, UNITS[unit])
    if rest:
        raise MtlmonError(f"{given} is not a whole number of the time-stamps' unit, {unit}")
    return units
