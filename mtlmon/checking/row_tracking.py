"""The rows of a log that verdicts are about.

Sources tell the origins of events (`Origins`) only if they are asked to (`track_rows`): text logs
the lines that the scanner counts, tables those of `Block.line_of`, from which errors have theirs,
too. Sorted rows carry their origins as two more words. The origins of undecided time-points are in
a hash table (`drive/row_places`) from the event to the verdict.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from mtlmon.checking.row_files import RowFiles
from mtlmon.drive.native import RowPlaces
from mtlmon.support.snapshot_parts import damaged, joined_parts, take_sized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.checking.batch_points import BatchPoints
    from mtlmon.checking.row_files import RowPlace
    from mtlmon.checking.sources import EventBatch
    from mtlmon.drive.native import FirstViolation, VerdictRows
    from mtlmon.policy.definitions import Clock

    VerdictNames = Literal["all", "boolean", "false", "first", "none"]

__all__ = ["FoundRows", "RowTracker"]

# as in snapshots of RowPlaces
_PLACE = np.dtype(
    [
        ("time_stamp", np.uint64),
        ("offset", np.uint64),
        ("row", np.int64),
        ("stream", np.uint32),
        ("policy", np.uint32),
        ("file", np.uint32),
        ("unused", np.uint32),
    ]
)


class FoundRows(NamedTuple):
    """The rows of some verdicts, in order.

    Attributes:
        files: the number of the file in `RowTracker.files`, of type uint32; 2^32 - 1 where there is
            no row.
        rows: the number of the row in its file, of type int64; -1 where there is no row.
    """

    files: NDArray[np.uint32]
    rows: NDArray[np.int64]

    @property
    def has_row(self) -> NDArray[np.bool_]:
        """Whether a verdict is about a row; ticks are not rows."""
        return self.rows >= 0

    def part(self, first: int, end: int) -> FoundRows:
        """Return some of them."""
        return FoundRows(self.files[first:end], self.rows[first:end])


class RowTracker:
    """Keeps the rows of the time-points of a check until their verdicts are taken out.

    The monitors have to give all verdicts, as the rows of verdicts that nobody wants are forgotten,
    too; the tracker leaves out the verdicts that are not wanted.

    Args:
        partition_of: for each policy, the number of its partition.
        clocks: for each policy its time-points, as `LogCheck.clocks`.
        verdicts: which verdicts are wanted.

    Attributes:
        files: the files so far.
        first_violation: the time-stamp of the earliest violation that was taken out so far, and its
            row; None if there is none, or it is no row.
    """

    def __init__(
        self,
        partition_of: Sequence[int],
        clocks: Sequence[Clock | None],
        verdicts: VerdictNames,
    ) -> None:
        self.files = RowFiles()
        self._partition_of = tuple(partition_of)
        self._clocks = tuple(clocks)
        self._verdicts: VerdictNames = verdicts
        self._places = RowPlaces()
        # for "first": the earliest violation so far, its row, and whether it is the first one
        self._first: tuple[int, int, int, int] | None = None
        self._first_row: tuple[int, int] | None = None
        self._is_known = False
        # the time-stamp of the earliest violation taken out, with the number of its file, and row
        self._earliest: tuple[int, int, int] | None = None

    @property
    def first_violation(self) -> tuple[int, RowPlace] | None:
        if self._earliest is None or self._earliest[2] < 0:
            return None
        time_stamp, file, row = self._earliest
        return time_stamp, self.files.place(file, row)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the rows of undecided time-points take."""
        return self._places.held_bytes

    def add(self, batch: EventBatch, first: int, end: int, points: BatchPoints) -> None:
        """Remember the rows `first` to `end` (exclusive) of a batch, which are checked next."""
        if self._verdicts == "none" or first == end:
            return
        origins = batch.origins
        assert origins is not None
        files = self.files.of(origins, first, end)
        numbers = np.ascontiguousarray(origins.rows[first:end], np.int64)
        for policy, (partition, clock) in enumerate(
            zip(self._partition_of, self._clocks, strict=True)
        ):
            rows = points.rows[partition]
            assert rows is not None
            stamps, traces, offsets = (column[first:end] for column in rows)
            own_files, own_rows = files, numbers
            if clock is not None and clock.has_ticks:
                # ticks are not rows
                continue
            # Those that wait for later values leave in the order in which they came, so they have
            # the offsets that they would have if they did not wait.
            if clock is not None and clock.atom is not None:
                places = points.places[policy]
                assert places is not None
                chosen = places[(places >= first) & (places < end)].astype(np.intp) - first
                stamps, traces, offsets = stamps[chosen], traces[chosen], offsets[chosen]
                own_files, own_rows = files[chosen], numbers[chosen]
            self._places.add(
                policy,
                len(stamps),
                np.ascontiguousarray(traces),
                np.ascontiguousarray(stamps),
                np.ascontiguousarray(offsets),
                own_files,
                own_rows,
            )

    def note_first(self, first: FirstViolation) -> None:
        """Remember the row of the earliest violation so far, whose verdict has not been taken."""
        violation = first.policy, first.stream, first.time_stamp, first.offset
        if violation != self._first:
            self._first = violation
            self._first_row = self._places.find(*violation)

    def know_first(self) -> None:
        """Declare that no earlier violation than the last one comes any more."""
        self._is_known = True

    def found(self, verdicts: VerdictRows) -> FoundRows:
        """Leave only the wanted verdicts in `verdicts`, and return their rows."""
        if self._verdicts != "first":
            files, rows = self._places.take(verdicts, self._verdicts)
            found = FoundRows(np.frombuffer(files, np.uint32), np.frombuffer(rows, np.int64))
            self._note_earliest(verdicts, found)
            return found
        self._places.take(verdicts, "none")
        if not self._is_known:
            return FoundRows(np.empty(0, np.uint32), np.empty(0, np.int64))
        self._is_known = False
        assert self._first is not None
        policy, stream, time_stamp, offset = self._first
        verdicts.add_false(time_stamp, offset, stream, policy)
        file, row = self._first_row or (2**32 - 1, -1)
        self._earliest = time_stamp, file, row
        return FoundRows(np.array([file], np.uint32), np.array([row], np.int64))

    def _note_earliest(self, verdicts: VerdictRows, found: FoundRows) -> None:
        """Remember the earliest violation; at one time, that of the first row."""
        violated = np.flatnonzero(np.frombuffer(verdicts.violations(), np.uint8))
        if not len(violated):
            return
        stamps = np.frombuffer(verdicts.time_stamps(), np.uint64)[violated]
        files, rows = found.files[violated], found.rows[violated]
        first = np.lexsort((rows, files, stamps))[0]
        one = int(stamps[first]), int(files[first]), int(rows[first])
        self._earliest = one if self._earliest is None else min(self._earliest, one)

    def keep(self, partition: int, numbers: bytes) -> None:
        """Give the traces of a partition new numbers, as `KeyTable.keep` does."""
        self._places.keep([own == partition for own in self._partition_of], numbers)

    def snapshot(self) -> bytes:
        """Return the remembered rows as bytes for `restore`."""
        known = [self.files.files, self._first, self._first_row, self._earliest]
        head = json.dumps(known).encode()
        body = np.sort(np.frombuffer(self._places.snapshot(), _PLACE)).tobytes()
        return joined_parts([head, body])

    def restore(self, snapshot: bytes) -> int:
        """Continue from a snapshot at the beginning of some bytes; return its length.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        head, rest = take_sized(snapshot)
        body, rest = take_sized(rest)
        try:
            files, first, row, earliest = json.loads(head)
            self.files.restore(files)
            self._places.restore(body, len(self._partition_of), len(files))
        except (TypeError, ValueError):
            raise damaged() from None
        self._first = None if first is None else tuple(first)
        self._first_row = None if row is None else tuple(row)
        self._earliest = None if earliest is None else tuple(earliest)
        return len(snapshot) - len(rest)
