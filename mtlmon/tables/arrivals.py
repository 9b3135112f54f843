"""The rows of tables as they come, whatever the order of their times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.sources import Pause
from mtlmon.history.operations import COMPLETE, RETRACT
from mtlmon.tables.late_rows import LateRows

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.errors import TableError
    from mtlmon.history.operations import Corrections
    from mtlmon.relations.revised import RevisedRelations
    from mtlmon.tables.columns.usable import UsableRows
    from mtlmon.tables.corrections import CorrectionColumns

__all__ = ["Arrivals"]

# So many rows a batch has at most.
_MOST_ROWS = 1 << 15


class Arrivals:
    """Yields usable rows as they come, in the place of `RowOrder`.

    Args:
        late: gets the rows that come too late, as for `LateRows`.
        columns: reads what rows do; None if all insert events.
        relations: the relations of the rows, which get to know the columns; None if there are none.

    Attributes:
        relations: as given.
        late: takes the rows that come too late, which only their reader knows.
        clock: the largest time-stamp of the rows that were yielded, or None before the first one.
        has_rows: whether rows wait: no.
        corrections: what the rows do that were yielded last; None if all insert events.
        steps_back: how many rows have come in the same batch as a row of their time-stamp that is
            before them but has a later time.
        first_step_back: says where the first one is; None if there is none.
        cuts: whether what is yielded ends before a row that is later than all rows so far.
    """

    has_rows = False

    def __init__(
        self,
        late: Callable[[bytes], None] | None,
        columns: CorrectionColumns | None = None,
        relations: RevisedRelations | None = None,
    ) -> None:
        self.relations = relations
        self.cuts = False
        self._columns = columns
        self.corrections: Corrections | None = None
        self.late = LateRows(late)
        self.clock: int | None = None
        self._last: UsableRows | None = None
        self.steps_back = 0
        self.first_step_back: TableError | None = None

    def ordered(
        self, usable: Generator[UsableRows | Pause, None, None]
    ) -> Generator[UsableRows | Pause, None, None]:
        """Yield the same rows."""
        for rows in usable:
            if isinstance(rows, Pause):
                yield rows
                continue
            if self._columns is not None:
                self.corrections = self._columns.read(rows)
            stamps = rows.time_stamps
            if self.corrections is not None and self.corrections.operations is not None:
                # the time of a retraction is that of its event, and counts let time pass once all
                # events have come
                has_none = np.isin(self.corrections.operations, (RETRACT, COMPLETE))
                stamps = np.where(has_none, -1, stamps)
            for count in self._counts(stamps):
                known = self.corrections
                piece = rows if count == len(rows.time_stamps) else rows.taken(count)
                own, stamps = stamps[:count], stamps[count:]
                if len(own) and (latest := int(own.max())) >= 0:
                    self.clock = max(self.clock or 0, latest)
                if known is not None:
                    self.corrections = known.between(0, count)
                if self.relations is not None:
                    self.relations.read(piece.batch)
                self._last = piece
                self._count_steps_back(piece)
                yield piece
                if known is not None:
                    self.corrections = known.between(count, None)

    def _counts(self, stamps: NDArray[np.int64]) -> list[int]:
        """How many rows each piece of a batch has."""
        if not self.cuts or not len(stamps):
            # PERF: histories hold a batch, each for itself, until they have judged it
            whole, rest = divmod(len(stamps), _MOST_ROWS)
            return [_MOST_ROWS] * whole + ([rest] if rest or not whole else [])
        latest = np.maximum.accumulate(np.maximum(stamps, -1 if self.clock is None else self.clock))
        cuts = np.flatnonzero(np.diff(latest)) + 1
        counts: list[int] = np.diff([0, *cuts, len(stamps)]).tolist()
        return counts

    def _count_steps_back(self, rows: UsableRows) -> None:
        """Count rows of one time-stamp that come in another order than that of their times."""
        if rows.rests is None:
            return
        order = np.argsort(rows.time_stamps, kind="stable")
        stamps, rests = rows.time_stamps[order], rows.rests[order]
        places = order[1:][(stamps[1:] == stamps[:-1]) & (rests[1:] < rests[:-1])]
        self.steps_back += len(places)
        if len(places) and self.first_step_back is None:
            place = rows.place(int(places.min()))
            self.first_step_back = rows.block.error(place, "this row steps back")

    @property
    def need_no_key(self) -> Callable[[pa.RecordBatch], NDArray[np.bool_]] | None:
        """Tells which rows of a batch may be without a key; None if all need one."""
        return None if self._columns is None else self._columns.need_no_key

    def snapshot(self) -> bytes:
        """Return what is known by the rows so far, for `restore`."""
        return json.dumps([self.clock, self.steps_back, self.late.state()]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot."""
        self.clock, self.steps_back, late = json.loads(snapshot)
        self.late.restore(late)

    def drop(self, count: int) -> None:
        """Leave out what the first of the rows do that were yielded last: they are skipped."""
        if self.corrections is not None:
            self.corrections = self.corrections.between(count, None)

    def refuse(self, places: NDArray[np.int64], reason: str) -> None:
        """Refuse some of the rows that were yielded last.

        Args:
            places: the indices of the rows, of which there are some.
            reason: why they are too late.
        """
        assert self._last is not None
        self.late.add(self._last, places, reason)

    def error(self, place: int, reason: str) -> TableError:
        """Return the error of one of the rows that were yielded last; `reason` follows its time."""
        rows = self._last
        assert rows is not None
        message = f"the row of time-stamp {rows.time_stamps[place]} {reason}"
        return rows.block.error(rows.place(place), message)

    def pass_time(self, time_stamp: int) -> Iterator[UsableRows]:
        """Yield nothing: no rows wait for this time."""
        return iter(())
