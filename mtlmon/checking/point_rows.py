"""The rows of the time-points of a log, in few bytes."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mtlmon.checking.sources import Origins

__all__ = ["PointRows"]

MOST_RUNS = 1 << 20


class PointRows:
    """Knows the rows of the time-points of a log, where each row is one.

    It remembers where rows do not follow each other, which is rare: at comments, for instance, and
    at the beginnings of files. Where this is more than a million times, as in a sorted table, it
    forgets all rows, and knows no others.
    """

    def __init__(self) -> None:
        self._files: list[str | None] = []
        self._numbers: dict[str | None, int] = {}
        self._count = 0
        self._is_full = False
        # the runs: their first time-points, with the files and rows of these
        self._firsts = array("q")
        self._file_of = array("q")
        self._rows = array("q")

    def add(self, origins: Origins) -> None:
        """Take the rows of the next time-points."""
        rows = np.asarray(origins.rows, np.int64)
        if self._is_full or not len(rows):
            return
        numbers = np.array([self._number_of(name) for name in origins.files], np.int64)
        if origins.file_of is None:
            files = np.full(len(rows), numbers[0])
        else:
            files = numbers[origins.file_of]
        file_before, row_before = -1, -1
        if self._firsts:
            file_before = self._file_of[-1]
            row_before = self._rows[-1] + self._count - 1 - self._firsts[-1]
        is_first = (np.diff(rows, prepend=row_before) != 1) | (
            np.diff(files, prepend=file_before) != 0
        )
        firsts = np.flatnonzero(is_first)
        self._firsts.extend((firsts + self._count).tolist())
        self._file_of.extend(files[firsts].tolist())
        self._rows.extend(rows[firsts].tolist())
        self._count += len(rows)
        if len(self._firsts) > MOST_RUNS:
            self._is_full = True
            self._firsts, self._file_of, self._rows = array("q"), array("q"), array("q")

    def _number_of(self, name: str | None) -> int:
        """The number of a file."""
        number = self._numbers.setdefault(name, len(self._files))
        if number == len(self._files):
            self._files.append(name)
        return number

    def of(self, point: int) -> tuple[str | None, int] | None:
        """Return the file and row of a time-point, if they are known."""
        run = bisect_right(self._firsts, point) - 1
        if run < 0 or point >= self._count:
            return None
        return self._files[self._file_of[run]], self._rows[run] + point - self._firsts[run]
