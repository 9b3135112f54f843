"""Holds rows of a log back until the relations of its rows are known at their time.

The value at a row is that of the relation at the row's time, and this depends on all rows of the
time-stamp. So rows are held back until the log's time has passed theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.relations.records import after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mtlmon.relations.of_rows import RowRelation
    from mtlmon.tables.columns.usable import UsableRows

__all__ = ["RowRelations"]


class RowRelations:
    """Holds rows back until relations are known at their time.

    Args:
        relations: the relations.
        ticks_end: returns a time below which all ticks have been computed; infinity without ticks.

    Attributes:
        waiting: the number of rows that are held back.
    """

    def __init__(self, relations: Sequence[RowRelation], ticks_end: Callable[[], float]) -> None:
        self._relations = tuple(relations)
        self._ticks_end = ticks_end
        # rows of one time-stamp, the latest
        self._held: list[UsableRows] = []
        self.waiting = 0
        self._clock: int | None = None
        self._watermark: int | None = None
        # the columns of rows that relations have not taken in
        self._new: list[list[pa.Table]] = [[] for _ in self._relations]

    @property
    def held_bytes(self) -> int:
        """The number of bytes that records and rows take."""
        return sum(one.held_bytes for one in self._relations)

    def admit(self, rows: UsableRows) -> Iterator[UsableRows]:
        """Take in rows, in order of time; yield those whose time the log has passed.

        Relations are looked up at the times of what is yielded until more is asked for.

        Raises:
            MtlmonError: a relation does not fit the columns, or integers overflow in it.
        """
        count = len(rows.time_stamps)
        if not count:
            return
        last = int(rows.time_stamps[-1])
        stamps = np.ascontiguousarray(rows.time_stamps, np.int64)
        for relation, new in zip(self._relations, self._new, strict=True):
            columns = [pa.array(stamps), pa.array(after(stamps)), *relation.read(rows.batch)]
            new.append(pa.Table.from_arrays(columns, names=["", " ", *relation.columns]))
        if last == self._clock:
            self._hold(rows)
            return
        passed = int(np.searchsorted(stamps, last))
        # also if no row waits, since there can be ticks between the time that has passed and these
        if passed or self._clock is not None:
            self._advance_to(last)
        held, self._held, self.waiting = self._held, [], 0
        self._clock = last
        yield from held
        if passed:
            yield rows.taken(passed)
        self._hold(rows)

    def _hold(self, rows: UsableRows) -> None:
        self._held.append(rows)
        self.waiting += len(rows.time_stamps)

    def _advance_to(self, watermark: int) -> None:
        """Let relations know all rows below a time."""
        if self._watermark is not None and watermark <= self._watermark:
            return
        self._watermark = watermark
        since = self._ticks_end()
        for relation, new in zip(self._relations, self._new, strict=True):
            rows = pa.concat_tables(new, promote_options="permissive") if new else None
            relation.advance(rows, watermark, since)
            new.clear()

    def look_ahead(self, time_stamp: int) -> None:
        """Declare that no row below a time comes any more, and leave rows held back.

        Raises:
            MtlmonError: integers overflow in a relation.
        """
        if self._clock is not None:
            self._advance_to(time_stamp)

    def pass_time(self, time_stamp: int) -> Iterator[UsableRows]:
        """Declare that no row below a time comes any more; yield the rows that have waited for it.

        Raises:
            MtlmonError: integers overflow in a relation.
        """
        if self._clock is None or self._clock >= time_stamp:
            return
        self._advance_to(time_stamp)
        held, self._held, self.waiting = self._held, [], 0
        yield from held

    def finish(self) -> Iterator[UsableRows]:
        """Yield all rows that are held back: no more rows come."""
        if self._held and self._clock is not None:
            yield from self.pass_time(self._clock + 1)
