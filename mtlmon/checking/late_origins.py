"""The rows of a log that verdicts are about, where verdicts are corrected.

They are kept until the bound of what is final is above them. A change has the row of its
time-point: a user looks that row up, and it stays the same for all changes of the time-point, as
its name does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.row_files import RowFiles
from mtlmon.checking.row_tracking import FoundRows
from mtlmon.drive.native import RowPlaces, VerdictRows
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from mtlmon.checking.sources import Origins
    from mtlmon.relational.correcting.points import ChangedAnswer

__all__ = ["AnswerRows", "LateOrigins", "origin_type"]

# So many rows more than twice those that were left make it worth looking for old ones.
_SPARE_ROWS = 4096


def origin_type() -> np.dtype[np.void]:
    """The type of where a row comes from: the number of a `file`, and the `row` in it."""
    return np.dtype([("row", np.int64), ("file", np.uint32)])


class LateOrigins:
    """Keeps the rows of time-points for as long as verdicts about them can change.

    Args:
        partition_of: for each policy, the number of its partition; None for those on ticks, which
            have no rows.

    Attributes:
        files: the files so far.
    """

    def __init__(self, partition_of: Sequence[int | None]) -> None:
        self.files = RowFiles()
        self._partition_of = tuple(partition_of)
        self._places = RowPlaces()
        self._swept = 0

    def numbered(self, origins: Origins | None) -> NDArray[np.void]:
        """Return where the rows of a batch come from, as an array of `origin_type()`."""
        assert origins is not None
        found = np.zeros(len(origins.rows), origin_type())
        found["row"], found["file"] = origins.rows, self.files.of(origins)
        return found

    def add(
        self,
        partition: int,
        time_stamps: NDArray[np.int64],
        traces: NDArray[np.uint32],
        offsets: NDArray[np.uint64],
        origins: NDArray[np.void],
    ) -> None:
        """Remember where rows of a partition come from, which have their names now."""
        columns = (
            np.ascontiguousarray(traces),
            np.ascontiguousarray(time_stamps),
            offsets.astype(np.uint32),
            np.ascontiguousarray(origins["file"]),
            np.ascontiguousarray(origins["row"]),
        )
        for policy, own in enumerate(self._partition_of):
            if own == partition:
                self._places.add(policy, len(origins), *columns)

    def found(self, verdicts: VerdictRows) -> FoundRows:
        """Return the rows of verdicts; they are still known then."""
        files, rows = self._places.take(verdicts, keeps=True)
        return FoundRows(np.frombuffer(files, np.uint32), np.frombuffer(rows, np.int64))

    def forget(self, final_below: Callable[[int], NDArray[np.int64] | None]) -> None:
        """Forget rows about which no verdict changes any more, if there may be many.

        Args:
            final_below: tells for each policy the time below which its verdicts are final, of all
                traces or of each; None if there is none.
        """
        if len(self._places) <= 2 * self._swept + _SPARE_ROWS:
            return
        for policy in range(len(self._partition_of)):
            bounds = final_below(policy)
            if bounds is not None:
                self._places.forget_below(policy, bounds)
        self._swept = len(self._places)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the rows take."""
        return self._places.held_bytes

    def snapshot(self) -> bytes:
        """Return the remembered rows as bytes for `restore`."""
        head = json.dumps([self.files.files, self._swept]).encode()
        return joined_parts([head, self._places.snapshot()])

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot; this object must be new.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            head, places = split_parts(snapshot)
            files, self._swept = json.loads(head)
            self.files.restore(files)
            self._places.restore(places, len(self._partition_of), len(files))
        except (ValueError, TypeError):
            raise damaged() from None


class AnswerRows(LateOrigins):
    """Keeps the rows of events for as long as answers of policies with variables can change.

    The log is one trace, and all policies have its time-points. A `PointHistory` tells their names.

    Attributes:
        dtype: the type of where an event comes from.
    """

    def __init__(self) -> None:
        super().__init__([0])
        self.dtype = origin_type()
        self._found = FoundRows(np.empty(0, np.uint32), np.empty(0, np.int64))

    def named(self, placed: NDArray[np.void], origins: NDArray[np.void]) -> None:
        """Take events that have their names now, as `Placements` has them."""
        if (origins["file"] >= len(self.files.files)).any():
            # it is behind a forged snapshot
            raise damaged()
        self.add(0, placed["time_stamp"], placed["trace"], placed["offset"], origins)

    def find(self, changes: Sequence[ChangedAnswer]) -> None:
        """Find the rows of changed answers, for `of`."""
        names = np.zeros(len(changes), verdict_type())
        names["time_stamp"] = [one.time_stamp for one in changes]
        names["offset"] = [one.offset for one in changes]
        rows = VerdictRows()
        rows.add(names.view(np.uint8), np.zeros(len(changes), np.uint32), 0)
        self._found = self.found(rows)

    def of(self, numbers: NDArray[np.uint64]) -> FoundRows:
        """Return the rows of some of these answers, by their numbers."""
        places = numbers.astype(np.intp)
        return FoundRows(self._found.files[places], self._found.rows[places])
