"""Rows that come late, or wait, and have no names yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.arrays.ordering import order_of
from mtlmon.checking.late_origins import origin_type
from mtlmon.history.following import IS_REMOVED
from mtlmon.streams.named_rows import joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.streams.named_rows import Rows

__all__ = ["RowPool", "Taken", "staying"]


class Taken(NamedTuple):
    """Rows that have been placed.

    Attributes:
        rows: the rows, in the order in which they came.
        flags: their flags.
        places: where each placed row is among them.
        origins: where each placed row comes from; None if that is not known.
    """

    rows: Rows
    flags: NDArray[np.uint8]
    places: NDArray[np.intp]
    origins: NDArray[np.void] | None


class RowPool:
    """Rows that have no names yet, by their numbers among all rows, as `Placements` has them.

    Args:
        has_origins: whether rows come with where they come from, an array of `origin_type()`.
    """

    def __init__(self, *, has_origins: bool = False) -> None:
        self._numbers: list[NDArray[np.uint64]] = []
        self._parts: list[Rows] = []
        self._has_origins = has_origins
        self._origins: list[NDArray[np.void]] = []

    @property
    def count(self) -> int:
        return sum(map(len, self._numbers))

    def add(
        self,
        numbers: NDArray[np.uint64],
        rows: Rows,
        origins: NDArray[np.void] | None = None,
    ) -> None:
        """Add rows, whose numbers are above those of the rows before."""
        self._numbers.append(numbers)
        self._parts.append(rows)
        if origins is not None:
            self._origins.append(origins)

    def clear(self) -> None:
        # the last one tells what columns there are
        nothing = np.empty(0, np.intp)
        self._numbers = [np.empty(0, np.uint64)]
        self._parts = [one.taken(nothing) for one in self._parts[-1:]]
        self._origins = []

    def keep(self, numbers: NDArray[np.uint64]) -> None:
        """Keep the rows with some numbers."""
        known, rows = self._joined()
        kept = np.flatnonzero(np.isin(known, numbers))
        self._numbers, self._parts = [known[kept]], [rows.taken(kept)]
        if self._has_origins:
            self._origins = [self.origins[kept]]

    def take(self, placed: NDArray[np.void]) -> Taken:
        """Return the rows that have been placed, with their offsets.

        PERF: mostly these are all rows, and in the order of time. To bring them into that of
        `placed` and back took a sixth of the time of windows without late rows.
        """
        known, rows = self._joined()
        places = _places_of(known, placed["number"])
        origins = self.origins[places] if self._has_origins else None
        if len(places) < len(known):
            kept = np.sort(places)
            rows, places = rows.taken(kept), np.searchsorted(kept, places)
        offsets, flags = np.empty(len(places), np.uint64), np.empty(len(places), np.uint8)
        offsets[places], flags[places] = placed["offset"], placed["flags"]
        return Taken(rows._replace(offsets=offsets), flags, places, origins)

    def parts(self) -> tuple[NDArray[np.uint64], Rows]:
        """Return the rows and their numbers, for `add`."""
        return self._joined()

    @property
    def origins(self) -> NDArray[np.void]:
        """Where the rows come from."""
        self._origins = [np.concatenate([np.empty(0, origin_type()), *self._origins])]
        return self._origins[0]

    def _joined(self) -> tuple[NDArray[np.uint64], Rows]:
        self._numbers = [np.concatenate(self._numbers)]
        self._parts = [joined(self._parts)]
        return self._numbers[0], self._parts[0]

    @property
    def byte_count(self) -> int:
        of_origins = sum(origins.nbytes for origins in self._origins)
        return of_origins + sum(part.byte_count for part in self._parts)


def _places_of(known: NDArray[np.uint64], numbers: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Where numbers are among those that are known, which are in order and have all of them.

    PERF: where no row waits, the known ones are without a gap; to search took a tenth of the time
    of windows without late rows.
    """
    if len(known) and int(known[-1] - known[0]) == len(known) - 1:
        places: NDArray[np.intp] = (numbers - known[0]).astype(np.intp)
    else:
        places = np.searchsorted(known, numbers)
    return places


def staying(rows: Rows, flags: NDArray[np.uint8]) -> tuple[Rows, NDArray[np.intp] | None]:
    """Return the rows that were not retracted, in the order of time, and their places.

    Those of a trace and time-stamp stay in their order. The places are None if these are all rows
    as they are.
    """
    places = np.flatnonzero(flags & IS_REMOVED == 0)
    order = order_of(rows.time_stamps[places])
    if order is None and len(places) == len(flags):
        return rows, None
    if order is not None:
        places = places[order]
    return rows.taken(places), places
