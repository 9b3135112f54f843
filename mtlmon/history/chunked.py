"""Rows in chunks, in the order of time, each with the state that a machine had at its start.

A late row goes into its chunk, and a row that is taken back leaves it. The machine takes in that
chunk and those behind it again, up to one before which its state is what it was. So no machine
needs an algorithm for late rows: it takes in rows, and its states can be kept and compared.

This is for machines of one trace that take in many rows by one call: engines of policies with
variables, and relations of the rows of a log. Machines of many traces have native ones, as a call
for each trace would cost more than its rows: formulas `replay.pxi`, windows `streams/rounds.pxi`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["ChunkedRows"]


class Chunk(Protocol):
    """Rows, and the state before them.

    Attributes:
        start: no row below this time-stamp belongs here, but for the first chunk.
    """

    start: int

    @property
    def time_stamps(self) -> NDArray[np.int64]:
        """The time-stamps of the rows, in order."""

    def add(self, rows: Any, /) -> None:
        """Add rows behind the others."""

    def keep(self, places: NDArray[np.intp], /) -> None:
        """Keep some of the rows, perhaps in another order."""


ChunkT = TypeVar("ChunkT", bound=Chunk)


class ChunkedRows(ABC, Generic[ChunkT]):
    """The rows of a trace as far as they can change, and a machine that takes them in.

    Attributes:
        chunks: the chunks.
        dirty: during a replay, the places of chunks that have changed, and are yet to be taken in,
            with the last time-stamp at which they have.
        early_stops: how often that ended as the state was what it had been.
    """

    def __init__(self) -> None:
        self.chunks: list[ChunkT] = []
        self.dirty: dict[int, int] = {}
        self.early_stops = 0

    # ---- what a machine does ---------------------------------------------------------------

    @abstractmethod
    def load(self, chunk: ChunkT) -> None:
        """Let the machine have the state at the start of a chunk, not that at the end."""

    @abstractmethod
    def step(self, place: int) -> int:
        """Let the machine take in a chunk, which may become several; return the place behind."""

    @abstractmethod
    def is_settled(self, place: int, changed: int) -> bool:
        """Whether what follows stays as it is; if not, the state there is the one of the machine.

        Args:
            place: the chunk that would be next.
            changed: the last time-stamp of what has changed before.
        """

    @abstractmethod
    def go_live(self) -> None:
        """Let the state of the machine be the one at the end."""

    # ---- rows ------------------------------------------------------------------------------

    def place_of(self, time_stamp: int) -> int:
        """The last chunk in which a row of a time-stamp may be."""
        return max(0, bisect_right([chunk.start for chunk in self.chunks], time_stamp) - 1)

    def places_of(self, time_stamps: NDArray[np.int64]) -> NDArray[np.intp]:
        """The last chunk in which a row may be, for each time-stamp."""
        starts = np.array([chunk.start for chunk in self.chunks], np.int64)
        return np.maximum(np.searchsorted(starts, time_stamps, "right") - 1, 0)

    def insert(self, late: Any) -> dict[int, int]:
        """Put rows, which are in order, into their chunks, behind those of their time-stamps.

        Returns:
            The places of these chunks, and the last time-stamp that came there.
        """
        changed: dict[int, int] = {}
        places = self.places_of(late.time_stamps)
        for place in np.unique(places).tolist():
            first, last = np.searchsorted(places, [place, place + 1]).tolist()
            chunk = self.chunks[place]
            chunk.start = min(chunk.start, int(late.time_stamps[first]))
            chunk.add(late.between(first, last))
            chunk.keep(np.argsort(chunk.time_stamps, kind="stable"))
            changed[place] = int(late.time_stamps[last - 1])
        return changed

    def replay(self, changed_chunks: Mapping[int, int]) -> None:
        """Take in chunks that have changed again, and what follows as far as it may change.

        Args:
            changed_chunks: the places of the chunks, with the last time-stamps that have changed.
        """
        self.dirty = dict(changed_chunks)
        while self.dirty:
            place, changed = min(self.dirty), 0
            self.load(self.chunks[place])
            while True:
                changed = max(changed, self.dirty.get(place, 0))
                behind = self.step(place)
                by = behind - place - 1
                self.dirty = {one + by: time for one, time in self.dirty.items() if one > place}
                place = behind
                if place == len(self.chunks):
                    self.go_live()
                    break
                if self.is_settled(place, changed):
                    self.early_stops += 1
                    break
