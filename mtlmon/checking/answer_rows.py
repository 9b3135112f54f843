"""The rows of a log that answers of policies with variables are about, where they are corrected.

It listens to the history of these policies, which names the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.late_origins import LateOrigins, origin_type
from mtlmon.checking.row_tracking import FoundRows
from mtlmon.drive.native import VerdictRows
from mtlmon.streams.named_rows import Names
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.checking.row_files import RowFiles
    from mtlmon.checking.sources import Origins
    from mtlmon.relational.correcting.points import ChangedAnswer

__all__ = ["AnswerRows"]


class AnswerRows:
    """Keeps the rows of time-points for as long as answers about them can change.

    A `PointHistory` tells which names events get.
    """

    def __init__(self) -> None:
        # the log is one trace, and all policies have its time-points
        self._origins = LateOrigins([0])
        # the rows that have no names yet, by their numbers
        self._numbers = np.empty(0, np.uint64)
        self._waiting = np.empty(0, origin_type())
        self._next = np.empty(0, origin_type())
        self._found = FoundRows(np.empty(0, np.uint32), np.empty(0, np.int64))

    def note(self, origins: Origins | None) -> None:
        """Take where the next events come from."""
        self._next = self._origins.of(origins)

    # ---- what the history tells ------------------------------------------------------------

    def come(self, numbers: NDArray[np.uint64]) -> None:
        """Take the numbers of the next rows."""
        self._numbers = np.concatenate([self._numbers, numbers])
        self._waiting = np.concatenate([self._waiting, self._next])

    def named(self, placed: NDArray[np.void]) -> None:
        """Take events that have their names now."""
        names = Names(placed["time_stamp"], placed["trace"], placed["offset"])
        places = np.searchsorted(self._numbers, placed["number"])
        self._origins.add(0, names, self._waiting[places])

    def keep(self, numbers: NDArray[np.uint64]) -> None:
        """Forget rows without names, but those with some numbers."""
        is_kept = np.isin(self._numbers, numbers)
        self._numbers, self._waiting = self._numbers[is_kept], self._waiting[is_kept]

    # ---- rows of answers -------------------------------------------------------------------

    @property
    def files(self) -> RowFiles:
        """The files so far."""
        return self._origins.files

    def find(self, changes: Sequence[ChangedAnswer]) -> None:
        """Find the rows of changed answers, for `of`."""
        names = np.zeros(len(changes), verdict_type())
        names["time_stamp"] = [one.time_stamp for one in changes]
        names["offset"] = [one.offset for one in changes]
        rows = VerdictRows()
        rows.add(names.view(np.uint8), np.zeros(len(changes), np.uint32), 0)
        self._found = self._origins.found(rows)

    def of(self, numbers: NDArray[np.uint64]) -> FoundRows:
        """Return the rows of some of these answers, by their numbers."""
        places = numbers.astype(np.intp)
        return FoundRows(self._found.files[places], self._found.rows[places])

    def forget(self, final_below: int) -> None:
        """Forget the rows of events below a time, if there may be many."""
        self._origins.forget(lambda _: np.array([final_below], np.int64))

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the rows take."""
        return int(self._origins.held_bytes + self._waiting.nbytes + self._numbers.nbytes)

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return what is known as bytes for `restore`."""
        parts = self._numbers.tobytes(), self._waiting.tobytes()
        return joined_parts([self._origins.snapshot(), *parts])

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            known, numbers, origins = split_parts(snapshot)
            self._origins.restore(known)
            self._waiting = np.frombuffer(origins, origin_type())
            self._numbers = np.frombuffer(numbers, np.uint64)
        except ValueError:
            raise damaged() from None
        if (
            len(self._waiting) != len(self._numbers)
            or (self._waiting["file"] >= len(self.files.files)).any()
        ):
            raise damaged()
