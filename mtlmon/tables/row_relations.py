"""Holds rows of a log back until the relations of its rows are known at their time.

The value at a row is that of the relation at the row's time, and this depends on all rows of the
time-stamp. So rows are held back until the log's time has passed theirs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.relations.records import after, table_as_bytes, table_of_bytes
from mtlmon.support.snapshot_parts import joined_parts, split_parts
from mtlmon.tables.columns.usable import rows_as_bytes, rows_of_bytes

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

    def snapshot(self, atom_count: int) -> bytes:
        """Return the rows that wait and the states of the relations, for `know_types`.

        Args:
            atom_count: the number of atoms of letters.
        """
        head = json.dumps([self._clock, self._watermark]).encode()
        held = joined_parts(rows_as_bytes(one, atom_count) for one in self._held)
        new = joined_parts(
            table_as_bytes(pa.concat_tables(tables, promote_options="permissive"))
            if tables
            else b""
            for tables in self._new
        )
        states = joined_parts(one.state() for one in self._relations)
        return joined_parts([head, held, new, states])

    def know_types(self, snapshot: bytes) -> None:
        """Let the relations know the columns of the log by a snapshot."""
        for relation, state in zip(self._relations, self._states(snapshot), strict=True):
            relation.know_types(state)

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; what looks up in the relations must be there.

        Raises:
            SnapshotError: it is of other relations, or damaged.
        """
        head, held, new, _ = split_parts(snapshot)
        self._clock, self._watermark = json.loads(head)
        self._held = [rows_of_bytes(one) for one in split_parts(held)]
        self.waiting = sum(len(one.time_stamps) for one in self._held)
        tables = split_parts(new)
        self._new = [[table_of_bytes(one)] if one else [] for one in tables]
        for relation, state in zip(self._relations, self._states(snapshot), strict=True):
            relation.restore_state(state)

    @staticmethod
    def _states(snapshot: bytes) -> list[bytes]:
        """The states of the relations."""
        return split_parts(split_parts(snapshot)[-1])

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
