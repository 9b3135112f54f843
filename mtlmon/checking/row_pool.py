"""Rows that come late, or wait, and have no names yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.streams.late_rows import joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.streams.late_rows import Rows

__all__ = ["RowPool"]


class RowPool:
    """Rows that have no names yet, by the numbers of their contents."""

    def __init__(self) -> None:
        self._contents: list[NDArray[np.uint64]] = []
        self._parts: list[Rows] = []

    @property
    def count(self) -> int:
        return sum(map(len, self._contents))

    def add(self, contents: NDArray[np.uint64], rows: Rows) -> None:
        self._contents.append(contents)
        self._parts.append(rows)

    def clear(self) -> None:
        # the last one tells what columns there are
        nothing = np.empty(0, np.intp)
        self._contents = [np.empty(0, np.uint64)]
        self._parts = [one.taken(nothing) for one in self._parts[-1:]]

    def keep(self, contents: NDArray[np.uint64]) -> None:
        """Keep the rows with some contents."""
        known, rows = self._joined()
        kept = np.flatnonzero(np.isin(known, contents))
        self._contents, self._parts = [known[kept]], [rows.taken(kept)]

    def take(self, placed: NDArray[np.void]) -> Rows:
        """Return the rows that have been placed, with their names."""
        known, rows = self._joined()
        order = np.argsort(known, kind="stable")
        places = order[np.searchsorted(known[order], placed["content"])]
        taken = rows.taken(places)
        return taken._replace(
            time_stamps=np.ascontiguousarray(placed["time_stamp"]),
            traces=np.ascontiguousarray(placed["trace"]),
            offsets=np.ascontiguousarray(placed["offset"]),
        )

    def parts(self) -> tuple[NDArray[np.uint64], Rows]:
        """Return the rows and their contents, for `add`."""
        return self._joined()

    def _joined(self) -> tuple[NDArray[np.uint64], Rows]:
        self._contents = [np.concatenate(self._contents)]
        self._parts = [joined(self._parts)]
        return self._contents[0], self._parts[0]

    @property
    def byte_count(self) -> int:
        return sum(part.byte_count for part in self._parts)
