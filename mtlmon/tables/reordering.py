"""Put the rows of tables into the order of time, as far as they are not too late.

The meaning is that of `mtlmon.text.native.LineOrder`, for rows instead of lines: a row below the
*frontier*, the largest time-stamp so far less the time that rows wait, is refused; rows up to it
are released in the order of their times, and those of one time in the order in which they came.

Times can be finer than time-stamps. Then, rows of the frontier itself wait, as others of its
time-stamp may still come that are before them.

This happens before streams and keys see the rows. Blocks in order pass unchanged, and only blocks
that overlap are merged. While a pipe is silent, `--idle` releases rows beside the generator that
waits for the next ones.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from mtlmon.arrays.plain_arrays import number_array
from mtlmon.checking.sources import Pause
from mtlmon.errors import MtlmonError
from mtlmon.support.snapshot_parts import joined_parts, split_parts
from mtlmon.tables.columns.concatenation import concatenated
from mtlmon.tables.columns.letters import Letters
from mtlmon.tables.columns.usable import (
    PLACE_COLUMNS,
    SortedBlock,
    UsableRows,
    rows_as_bytes,
    rows_of_bytes,
    with_places,
)
from mtlmon.tables.late_rows import LateRows, units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.engine.native import MemoryLimit
    from mtlmon.support.option_names import OptionNames
    from mtlmon.syntax.durations import Duration
    from mtlmon.tables.columns.times import Times

__all__ = ["RowOrder"]


class RowOrder:
    """Takes usable rows, and yields them in the order of time.

    Args:
        wait: how far below the largest time-stamp so far a row may be, as a length of time or a
            number of time units.
        late: gets the rows that come too late, as for `LateRows`.
        times: reads the times.
        names: how messages write options.
        atom_count: the number of atoms of letters.
        columns: the columns that are needed once atoms have been read; None for all of them.
        most_rows: how many rows to yield at once; None if there is no limit.
        memory: the memory limit of the run, which counts the rows that wait.
        need_no_key: tells which rows of a batch may be without a key; None if all need one.
        counting: for each row as it comes, whether it counts; those behind these do not. None if
            all count.

    Attributes:
        need_no_key: as given.
        late: takes the rows that come too late.
        clock: the largest time-stamp of the rows that were yielded, or None before the first one.
    """

    def __init__(
        self,
        wait: int | Duration,
        late: Callable[[bytes], None] | None,
        times: Times,
        names: OptionNames,
        atom_count: int,
        *,
        columns: Sequence[str] | None,
        most_rows: int | None,
        memory: MemoryLimit,
        need_no_key: Callable[[pa.RecordBatch], NDArray[np.bool_]] | None = None,
        counting: NDArray[np.bool_] | None = None,
    ) -> None:
        self.need_no_key = need_no_key
        # for the rows that are still to come
        self._counting = counting
        self._wait = wait
        self._units: int | None = None
        self.late = LateRows(late)
        self._times = times
        self._names = names
        self._atom_count = atom_count
        self._columns = columns
        self._most_rows = most_rows
        self._memory = memory
        # how many rows wait, and how large rows are
        self._count = 0
        self._seen_rows = 0
        self._seen_bytes = 0
        self.clock: int | None = None
        self._latest = 0
        # time has passed up to here without rows
        self._passed = 0
        # how many rows have come, and the numbers of those that only that has refused, from 0 on
        self._arrived = 0
        self._refused_by_time: list[int] = []
        # the time that passes behind some rows that are read again, and those of them to refuse
        self._again: tuple[int, int, list[int]] | None = None
        # in the order of time, each and together
        self._waiting: deque[UsableRows] = deque()
        # whether times are finer than time-stamps
        self._is_fine = False
        # whether the last row, which may be incomplete, has come
        self._is_tail = False

    def ordered(
        self, usable: Generator[UsableRows | Pause, None, None]
    ) -> Generator[UsableRows | Pause, None, None]:
        """Yield the rows in the order of time.

        At the end of the log, and before an error, all rows are yielded. Those at the end are
        marked as its tail, as rows may still be written that belong before them.

        Raises:
            MtlmonError: the unit of the time to wait does not fit, or columns change their types.
        """
        try:
            with closing(usable):
                for rows in usable:
                    if isinstance(rows, Pause):
                        yield rows
                        continue
                    error, rows.error = rows.error, None
                    self._add(rows)
                    yield from self._released(self._frontier)
                    if error is not None:
                        raise error
        except MtlmonError:
            yield from self._released(None)
            raise
        self._is_tail = True
        yield from self._released(None)

    @property
    def has_rows(self) -> bool:
        """Whether rows wait."""
        return bool(self._waiting)

    def pass_time(self, time_stamp: int) -> Iterator[UsableRows]:
        """Declare that rows below a time come too late from now on; yield those up to it."""
        self._passed = max(self._passed, time_stamp)
        yield from self._released(self._frontier)

    def passed_time(self) -> tuple[int, int, list[int]] | None:
        """Return how time has passed without rows, as `LineOrder` does, for rows."""
        return (self._arrived, self._passed, self._refused_by_time) if self._passed else None

    def pass_again(self, arrived: int, time_stamp: int, refused: list[int]) -> None:
        """Let time pass as it did before the first rows were read before; call this first."""
        if arrived:
            self._again = arrived, time_stamp, refused
        else:
            self._passed = time_stamp

    def _late_by_time(self, stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Where rows come too late because time has passed without rows; these have not come."""
        first, self._arrived = self._arrived, self._arrived + len(stamps)
        if self._again is None:
            return stamps < self._passed
        arrived, passed, refused = self._again
        numbers = np.arange(first, self._arrived)
        is_late = np.isin(numbers, refused)
        if self._arrived >= arrived:
            self._again, self._passed = None, passed
            is_late |= (numbers >= arrived) & (stamps < passed)
        return is_late

    @property
    def _frontier(self) -> int:
        """No row below this time is taken any more; call this after rows have been read."""
        return max(self._passed, self._latest - min(self._latest, self._time_to_wait))

    @property
    def _time_to_wait(self) -> int:
        """The time to wait in time units; call this after rows have been read.

        Raises:
            MtlmonError: it is not a whole number of these, or they have no unit.
        """
        if self._units is None:
            self._units = units_of(self._wait, "wait", self._times, self._names)
        return self._units

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the rows that wait, and what is known by the others, for `restore`."""
        head = [
            self.clock,
            self._latest,
            self._passed,
            self._is_fine,
            self._seen_rows,
            self._seen_bytes,
            self.late.state(),
        ]
        waiting = b""
        if self._waiting:
            rows = self._merged(list(self._waiting))
            self._waiting = deque([rows])
            waiting = rows_as_bytes(rows, self._atom_count)
        return joined_parts([json.dumps(head).encode(), waiting])

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have come."""
        head, waiting = split_parts(snapshot)
        (
            self.clock,
            self._latest,
            self._passed,
            self._is_fine,
            self._seen_rows,
            self._seen_bytes,
            late,
        ) = json.loads(head)
        self.late.restore(late)
        if waiting:
            rows = rows_of_bytes(waiting)
            self._count = len(rows.time_stamps)
            self._waiting.append(rows)

    # ---- rows that come --------------------------------------------------------------------

    def _add(self, rows: UsableRows) -> None:
        """Let rows wait, and refuse those that come too late."""
        if self._counting is not None:
            is_counted = np.zeros(len(rows.time_stamps), np.bool_)
            known = self._counting[: len(is_counted)]
            is_counted[: len(known)] = known
            self._counting = self._counting[len(known) :]
            rows.keep(is_counted)
        stamps = rows.time_stamps
        if not len(stamps):
            return
        self._is_tail = self._is_tail or rows.block.is_tail
        latest = np.maximum(np.maximum.accumulate(stamps), self._latest)
        # differences of numbers from 0 on cannot overflow
        is_late = latest - stamps > self._time_to_wait
        is_late_by_time = self._late_by_time(stamps) & ~is_late
        if is_late_by_time.any():
            numbers = np.flatnonzero(is_late_by_time) + (self._arrived - len(stamps))
            self._refused_by_time += numbers.tolist()
            is_late |= is_late_by_time
        self._latest = int(latest[-1])
        if is_late.any():
            reason = f"it is more than the wait, {self._time_to_wait}, below the largest one so far"
            places = np.flatnonzero(is_late)
            self.late.add(rows, places, reason)
            rows.keep(~is_late)
            stamps = rows.time_stamps
            if not len(stamps):
                return
        self._count += len(stamps)
        self._seen_rows += len(stamps)
        self._seen_bytes += rows.batch.nbytes + 16 * len(stamps)
        self._memory.note("sorting", self._count * self._seen_bytes // self._seen_rows)
        self._memory.check()
        least = int(stamps.min())
        self._is_fine = self._is_fine or rows.rests is not None
        if self._is_fine:
            # all rows of a time-stamp may have to change places
            least -= 1
        parts = []
        is_back = stamps[1:] < stamps[:-1]
        if rows.rests is not None:
            is_back |= (stamps[1:] == stamps[:-1]) & (rows.rests[1:] < rows.rests[:-1])
        if is_back.any():
            parts.append(rows)
        while self._waiting and self._waiting[-1].time_stamps[-1] > least:
            parts = parts or [rows]
            parts.append(self._waiting.pop())
        if not parts:
            self._waiting.append(rows)
            return
        parts.reverse()
        earlier = parts[0]
        before = int(np.searchsorted(earlier.time_stamps, least, "right"))
        if earlier is not rows and before:
            self._waiting.append(earlier.taken(before))
        self._waiting.append(self._merged(parts))

    def _merged(self, parts: list[UsableRows]) -> UsableRows:
        """Sort rows by time.

        Raises:
            MtlmonError: columns change their types.
        """
        stamps = np.concatenate([one.time_stamps for one in parts])
        rests = None
        if self._is_fine:
            rests = np.concatenate(
                [
                    np.zeros_like(one.time_stamps) if one.rests is None else one.rests
                    for one in parts
                ]
            )
            order = np.lexsort((rests, stamps))
            rests = rests[order]
        else:
            order = np.argsort(stamps, kind="stable")
        words = np.concatenate(
            [one.letters.words(len(one.time_stamps), self._atom_count) for one in parts]
        )
        tables = [pa.Table.from_batches([self._placed(one)]) for one in parts]
        try:
            table = concatenated(tables)
        except pa.ArrowException as error:
            raise MtlmonError(
                "columns change their types, but rows that wait need one type for each: "
                f"{' '.join(str(error).split())}"
            ) from None
        # PERF: to take rows out of several chunks needs a tenth more time.
        (batch,) = table.combine_chunks().to_batches()
        batch = batch.take(number_array(order))
        block = SortedBlock(batch, parts[0].block.path, 1, None)
        rows = UsableRows(block, stamps.take(order), rests)
        rows.letters = Letters(words.take(order, axis=0), {})
        return rows

    def _placed(self, rows: UsableRows) -> pa.RecordBatch:
        """Return the columns of rows that are needed, and where the rows come from."""
        if isinstance(rows.block, SortedBlock):
            return rows.batch
        batch = with_places(rows)
        if self._columns is not None:
            batch = batch.select([*self._columns, *PLACE_COLUMNS])
        for place, field in enumerate(batch.schema):
            if pa.types.is_dictionary(field.type) and field.name not in PLACE_COLUMNS:
                # The dictionaries of others differ.
                decoded = batch.column(place).dictionary_decode()
                batch = batch.set_column(place, field.name, decoded)
        return batch

    # ---- rows that go ----------------------------------------------------------------------

    def _released(self, frontier: int | None) -> Iterator[UsableRows]:
        """Yield the rows up to a time, or all rows."""
        while self._waiting:
            rows = self._waiting[0]
            count = len(rows.time_stamps)
            if frontier is not None and rows.time_stamps[-1] >= frontier:
                side: Literal["left", "right"] = "left" if self._is_fine else "right"
                count = int(np.searchsorted(rows.time_stamps, frontier, side))
            if self._most_rows is not None:
                count = min(count, self._most_rows)
            if not count:
                return
            if count < len(rows.time_stamps):
                rows = rows.taken(count)
            else:
                self._waiting.popleft()
            if self._is_tail != rows.block.is_tail:
                rows.block = rows.block._replace(is_tail=self._is_tail)
            self._count -= count
            self.clock = int(rows.time_stamps[-1])
            yield rows
            if rows.error is not None:
                raise rows.error
