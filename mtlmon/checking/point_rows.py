"""The rows of time-points that are known by their numbers in the log.

Answers of policies with variables have these numbers, so rows are kept in arrays, from the first
time-point that some policy has not answered.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.checking.row_files import RowFiles
from mtlmon.checking.row_tracking import FoundRows
from mtlmon.support.snapshot_parts import damaged, sized, take_sized

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.checking.row_files import RowPlace
    from mtlmon.checking.sources import EventBatch, Origins

__all__ = ["PointRows"]


class _Chunk(NamedTuple):
    """The rows of some time-points, which follow each other.

    Attributes:
        first: the number of the first one.
        files: the number of the file of each.
        rows: the number of its row in the file.
    """

    first: int
    files: NDArray[np.uint32]
    rows: NDArray[np.int64]


class PointRows:
    """Keeps the files and rows of time-points for as long as there may be answers about them.

    Args:
        by_stamp: whether all rows of one time-stamp are one time-point, which then has the first of
            these rows.

    Attributes:
        files: the files so far.
    """

    def __init__(self, *, by_stamp: bool = False) -> None:
        self.files = RowFiles()
        self._by_stamp = by_stamp
        self._last: int | None = None
        self._count = 0
        self._chunks: deque[_Chunk] = deque()

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the rows take."""
        return sum(one.files.nbytes + one.rows.nbytes for one in self._chunks)

    def add(self, time_stamps: NDArray[np.int64] | None, origins: Origins) -> None:
        """Take the next rows of the log.

        Args:
            time_stamps: their time-stamps; None if each row is a time-point.
            origins: where they come from.
        """
        if not len(origins.rows):
            return
        files, rows = self.files.of(origins), np.array(origins.rows, np.int64)
        if self._by_stamp:
            assert time_stamps is not None
            before = time_stamps[0] - 1 if self._last is None else self._last
            is_first = np.diff(time_stamps, prepend=np.int64(before)) != 0
            files, rows = files[is_first], rows[is_first]
            self._last = int(time_stamps[-1])
        if len(rows):
            self._chunks.append(_Chunk(self._count, files, rows))
            self._count += len(rows)

    def note(self, batch: EventBatch) -> None:
        """Take the rows of a batch, which tells where they come from."""
        if len(batch.time_stamps):
            assert batch.origins is not None
            self.add(np.asarray(batch.time_stamps, np.int64), batch.origins)

    def of(self, points: NDArray[np.uint64]) -> FoundRows:
        """Return the rows of time-points, by their numbers; they must not be forgotten."""
        files = np.empty(len(points), np.uint32)
        rows = np.empty(len(points), np.int64)
        numbers = points.astype(np.int64)
        firsts = np.array([one.first for one in self._chunks], np.int64)
        places = np.searchsorted(firsts, numbers, "right") - 1
        for place in np.unique(places).tolist():
            chunk, is_own = self._chunks[place], places == place
            own = numbers[is_own] - chunk.first
            files[is_own], rows[is_own] = chunk.files[own], chunk.rows[own]
        return FoundRows(files, rows)

    def place_of(self, point: int) -> RowPlace:
        """Return the row of a time-point."""
        found = self.of(np.array([point], np.uint64))
        return self.files.place(found.files[0], int(found.rows[0]))

    def forget(self, count: int) -> None:
        """Declare that nobody asks about the first `count` time-points of the log any more."""
        while self._chunks and self._chunks[0].first + len(self._chunks[0].rows) <= count:
            self._chunks.popleft()

    def snapshot(self) -> bytes:
        """Return what is kept as bytes for `restore`."""
        first = self._chunks[0].first if self._chunks else self._count
        head = json.dumps([self.files.files, self._last, self._count, first]).encode()
        files = b"".join(one.files.tobytes() for one in self._chunks)
        rows = b"".join(one.rows.tobytes() for one in self._chunks)
        return sized(head) + rows + files

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot; this object must be new.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        head, body = take_sized(snapshot)
        try:
            names, self._last, self._count, first = json.loads(head)
            self.files.restore(names)
            kept = self._count - first
            rows = np.frombuffer(body, np.int64, kept)
            files = np.frombuffer(body, np.uint32, kept, rows.nbytes)
        except (TypeError, ValueError):
            raise damaged() from None
        if len(body) != rows.nbytes + files.nbytes or (files >= len(names)).any():
            raise damaged()
        if kept:
            self._chunks.append(_Chunk(first, files, rows))
