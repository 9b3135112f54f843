"""Find the years of times that are written without one, as in `Dec 31 23:59:58`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtlmon.support.ready_patterns import MONTHS

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A log goes on in the next year if its month falls by so many. Where it falls by fewer, rows are
# not in the order of time.
_FALL = 6
_DECEMBER = 11


class YearCounter:
    """Writes times without a year in ISO 8601, line after line of a log.

    Args:
        year: the year in which the log begins.
    """

    def __init__(self, year: int) -> None:
        self._first = year
        self._year = year
        self._month: int | None = None

    def with_years(self, times: pa.Array) -> pa.Array:
        """Return times with years; those that do not begin with a month's name stay as they are.

        Args:
            times: texts such as `Dec  1 23:59:58`, in the order of lines.
        """
        names = pa.array(MONTHS, times.type)
        found = pc.index_in(pc.utf8_slice_codeunits(times, 0, 3), names)
        has_month = found.is_valid()
        months = np.asarray(found.drop_null())
        if not len(months):
            return times
        some = times.filter(has_month)
        day = pc.replace_substring(pc.utf8_slice_codeunits(some, 4, 6), " ", "0")
        of_day = pc.replace_substring(pc.utf8_slice_codeunits(some, 7), ",", ".")
        begin = self._months_in_years(months, times.type)
        time, nothing = pa.scalar("T", times.type), pa.scalar("", times.type)
        written = pc.binary_join_element_wise(begin, day, time, of_day, nothing)
        return pc.replace_with_mask(times, has_month, written)

    def _months_in_years(self, months: NDArray[np.int32], kind: pa.DataType) -> pa.Array:
        """The beginnings of dates, as `2024-12-`."""
        # The months of many lines are equal.
        ends = np.append(np.flatnonzero(np.diff(months)), len(months) - 1)
        texts = [self._in_year(month) for month in months[ends].tolist()]
        counts = np.diff(ends, prepend=-1)
        return pa.array(texts, kind).take(pa.array(np.repeat(np.arange(len(ends)), counts)))

    def _in_year(self, month: int) -> str:
        before = month if self._month is None else self._month
        if before - month >= _FALL:
            self._year += 1
        elif month - before == _DECEMBER and self._year > self._first:
            # a line of the old year among those of the new one
            self._year -= 1
        self._month = month
        return f"{self._year:04}-{month + 1:02}-"
