"""Queries of a relation over the rows of a log, which are evaluated as the rows come.

A record is final once no row can change it. In a log in the order of time, that is so when time has
passed the record's end. Where rows come late or are taken back, the answer to all rows so far is
told at once, and revised: records are inserted and deleted, and their ends are moved. What a query
remembers does not change while it goes on, so it is evaluated from the bound below which no row
comes or goes up to the present, as if the log ended there, and goes back to the bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.relations.looking_up import FIRST
from mtlmon.relations.numbering import numbered
from mtlmon.relations.records import NO_END, Records, in_order, typed, up_to
from mtlmon.relations.revised import RevisedRelation
from mtlmon.relations.rowwise import all_of
from mtlmon.streams.late_snapshots import rows_as_bytes, rows_of_bytes
from mtlmon.streams.named_rows import joined, without
from mtlmon.support.snapshot_parts import joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.streams.named_rows import Names, Rows

__all__ = ["Revision", "Revisions", "StandingQuery"]

INSERT, UPDATE, DELETE = range(3)
# PERF: to take rows in for good at each batch, too, took half as long again with five rows a batch
_SPARE_ROWS = 64
# What is cut has more records than rows, so these count as well.
_SPARE_RECORDS = 1_024


class StandingQuery(RevisedRelation):
    """A relation whose records are told as they become final.

    Args:
        read: how it reads the rows of the log.
    """

    situation = "is evaluated while the log is read"
    waits = True

    def settle(self, rows: Rows | None, watermark: int, now: int = NO_END) -> Records:
        """Take in rows; return the records that are final then, in the order of their ends.

        Args:
            rows: more rows; those that are not below the watermark wait for the next one.
            watermark: all rows below it are known; `NO_END` if no more come.
            now: as for `Query.settle`.

        Raises:
            MtlmonError: integers overflow in an expression of the relation.
        """
        query = self.query
        table = None if rows is None else self.table_of(rows)
        return self.taken_in(table, lambda tables: query.settle(tables, watermark, now))

    def finish(self, rows: Rows | None, end: int) -> Records:
        """Take in the last rows; return what is valid up to a time and has not been returned.

        Args:
            rows: more rows, or None.
            end: the time; `NO_END` for all.

        Raises:
            MtlmonError: as for `settle`; or a record without end is to be cut, and all is wanted.
        """
        found = in_order(up_to(self.settle(rows, NO_END, end), end))
        return found.taken(np.argsort(found.ends, kind="stable"))


class Revision(NamedTuple):
    """How records differ from those that were told before.

    Attributes:
        records: the records as they are now; those that are deleted, as they were.
        operations: for each, `INSERT`, `UPDATE` if its end has moved, or `DELETE`.
        old_ends: for each, the end that it had before; that of an inserted one is its end.
    """

    records: Records
    operations: NDArray[np.int8]
    old_ends: NDArray[np.int64]


class Revisions:
    """Tells the answer to all rows so far, and how it changes.

    It has the records that have begun. Those that would begin later, as rows leave a window, are
    not told before: with each row, most of them would change.

    Args:
        query: evaluates the rows below the bound, and goes on from there.
        spare: how many rows below the bound may be evaluated again and again, before the query
            takes them in for good.
    """

    def __init__(self, query: StandingQuery, spare: int = _SPARE_ROWS) -> None:
        self._query = query
        self._spare = spare
        self._rows: Rows | None = None
        # what was told and can change
        self._told: Records | None = None
        self.bound = self.now = FIRST

    def update(
        self, new: Rows | None, removed: Names, bound: int, now: int = NO_END
    ) -> Revision | None:
        """Take in rows, and take back others.

        Args:
            new: rows that come; None if none has ever come.
            removed: the names of those that go.
            bound: below this time, no row comes or goes any more; it does not decrease.
            now: the time that it is. At the end of the log, where the bound is `NO_END`, what is
                valid later is not wanted.

        Returns:
            What has changed; None if no row has ever come.

        Raises:
            MtlmonError: integers overflow in an expression of the relation.
        """
        parts = [one for one in (self._rows, new) if one is not None]
        if not parts:
            return None
        rows = joined(parts)
        rows = without(rows.taken(np.argsort(rows.time_stamps, kind="stable")), removed)
        self.bound, self.now = max(self.bound, bound), max(self.now, now)
        count = int(np.searchsorted(rows.time_stamps, self.bound))
        final: list[Records] = []
        self._rows = rows
        told = None
        if count < self._spare and bound != NO_END:
            told = self._to_end()
            if np.count_nonzero(told.ends <= self.bound) > _SPARE_RECORDS:
                told = None
        if told is None:
            final.append(self._query.settle(rows.between(0, count), self.bound, self.now))
            self._rows = rows.between(count, len(rows.time_stamps))
            told = self._to_end()
        before, self._told = self._told, told
        records = all_of([*final, told], told.schema)
        if bound == NO_END:
            records = up_to(records, self.now)
        return _difference(None if before is None else typed(before, records.schema), records)

    def _to_end(self) -> Records:
        """What the relation has behind the bound if no more rows come, and has begun."""
        state = self._query.state
        try:
            found = self._query.settle(self._rows, NO_END, self.now)
        finally:
            self._query.resume(state)
        return found.kept(found.starts <= self.now)

    @property
    def byte_count(self) -> int:
        """The number of bytes that rows and records take, about."""
        of_rows = 0 if self._rows is None else self._rows.byte_count
        return of_rows + (0 if self._told is None else self._told.held_bytes)

    def snapshot(self) -> bytes:
        """Return what it remembers beside the query as bytes, for `restore`."""
        times = (one.to_bytes(8, "little", signed=True) for one in (self.bound, self.now))
        return joined_parts([*times, *([] if self._rows is None else [rows_as_bytes(self._rows)])])

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot, with a query that has been restored.

        Raises:
            SnapshotError, ValueError: the bytes are damaged.
        """
        bound, now, *rows = split_parts(snapshot)
        self.bound, self.now = (int.from_bytes(one, "little", signed=True) for one in (bound, now))
        for one in rows:
            self._rows = rows_of_bytes(one, 0)
            self._told = self._to_end()


def _difference(before: Records | None, now: Records) -> Revision:
    """How records differ from earlier ones: each is known by its start and its columns."""
    old = now.taken(np.empty(0, np.int64)) if before is None else before
    both = all_of([old, now], now.schema)
    count, of_old = len(both), len(old)
    is_old = np.arange(count) < of_old
    keys = _numbers([pa.array(both.starts), *both.columns], count)
    # what is the same on both sides, as often as it is there, was told
    whole = _numbers([pa.array(keys), pa.array(both.ends)], count)
    left = np.flatnonzero(~_matched(whole, is_old))
    # of what is left, the first end on one side is moved to the first one on the other side
    order = left[np.lexsort((both.ends[left], is_old[left], keys[left]))]
    is_moved = _matched(keys[order], is_old[order])
    gone, come = order[is_old[order] & ~is_moved], order[~is_old[order] & ~is_moved]
    old_ends, new_ends = order[is_old[order] & is_moved], order[~is_old[order] & is_moved]
    rows = np.concatenate([gone, new_ends, come])
    operations = np.repeat(
        np.array([DELETE, UPDATE, INSERT], np.int8), [len(gone), len(new_ends), len(come)]
    )
    ends = np.concatenate([both.ends[gone], both.ends[old_ends], both.ends[come]])
    return Revision(both.taken(rows), operations, ends)


def _numbers(columns: Sequence[pa.Array], count: int) -> NDArray[np.int64]:
    """Equal numbers for rows that are equal in all columns."""
    found, _ = numbered(columns, count)
    return found.astype(np.int64)


def _matched(numbers: NDArray[np.int64], is_old: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows of either side are matched by others of their number, the first ones first."""
    found = np.zeros(len(numbers), np.bool_)
    limit = int(numbers.max(initial=0)) + 1
    counts = [np.bincount(numbers[side], minlength=limit) for side in (is_old, ~is_old)]
    least = np.minimum(*counts)
    for side in (np.flatnonzero(is_old), np.flatnonzero(~is_old)):
        order = side[np.argsort(numbers[side], kind="stable")]
        own = numbers[order]
        ranks = np.arange(len(own)) - np.searchsorted(own, own)
        found[order] = ranks < least[own]
    return found
