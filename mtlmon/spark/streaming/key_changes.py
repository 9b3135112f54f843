"""Which keys of a bucket the changes of relations are about, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.arrays.native import KeyTable
from mtlmon.policy.predicates.time_points import Changes
from mtlmon.relations.looking_up import FIRST
from mtlmon.relations.of_rows import RowRelation
from mtlmon.relations.records import NO_END
from mtlmon.tables.columns.keys import NO_NUMBER, find_rows, number_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Changes as ChangeTimes
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.bucket_keys import BucketKeys

__all__ = ["KeyChanges"]


class KeyChanges:
    """The changes of relations that are time-points of policies.

    Those of tables are known from the beginning, so it is known when each key has the next one.
    Those of rows are known in the batch in which buckets hear of them.

    Args:
        policies: the policies of one partition of traces.
        keys: the key columns of their traces.
    """

    def __init__(self, policies: Policies, keys: Sequence[str]) -> None:
        self._has_keys = bool(keys)
        self._of_tables: list[_TableChanges] = []
        self._of_rows: list[ChangeTimes] = []
        for period in policies.wanted:
            if isinstance(period, Changes):
                relation = (policies.looked_up or {})[period.relation]
                changes = relation.changes(keys)
                if isinstance(relation, RowRelation):
                    self._of_rows.append(changes)
                else:
                    self._of_tables.append(_TableChanges(changes, has_keys=self._has_keys))

    def changed(self, keys: BucketKeys, since: int = FIRST) -> NDArray[np.bool_] | None:
        """Return for which keys relations of rows change in this batch; None if for none.

        Args:
            keys: the keys.
            since: changes below this time are known.
        """
        if not self._of_rows:
            return None
        found = np.zeros(len(keys), np.bool_)
        for changes in self._of_rows:
            times, values = changes.between(since, NO_END)
            if len(times) and self._has_keys:
                numbers = keys.find(values)
                found[numbers[numbers != NO_NUMBER]] = True
            elif len(times):
                found[:] = True
        return found if found.any() else None

    def next_change(self, key: Sequence[pa.Array], start: int) -> int | None:
        """Return when the next change of a relation of tables is for a key, or None.

        Args:
            key: the columns of the key, with one row.
            start: the least time.
        """
        found = [changes.first(key, start) for changes in self._of_tables]
        return min((time for time in found if time is not None), default=None)


class _TableChanges:
    """The times at which a relation of tables changes, by the key.

    Args:
        changes: the changes.
        has_keys: whether they come with the values of key columns.
    """

    def __init__(self, changes: ChangeTimes, *, has_keys: bool) -> None:
        times, values = changes.between(FIRST, NO_END)
        self._table: KeyTable | None = None
        self._starts = np.array([0, len(times)])
        if has_keys and len(times):
            # nulls are no keys of traces
            is_known = np.flatnonzero(np.all([np.asarray(one.is_valid()) for one in values], 0))
            self._table = KeyTable(len(values))
            numbers = number_rows(self._table, [one.take(is_known) for one in values])
            order = np.argsort(numbers, kind="stable")
            times = times[is_known][order]
            self._starts = np.searchsorted(numbers[order], np.arange(len(self._table) + 1))
        self._times = times

    def first(self, key: Sequence[pa.Array], start: int) -> int | None:
        """Return the time of the first change for a key from a time on, or None."""
        number = 0
        if self._table is not None:
            number = int(find_rows(self._table, key)[0])
            if number == NO_NUMBER:
                return None
        first, last = self._starts[number : number + 2].tolist()
        place = first + int(np.searchsorted(self._times[first:last], start))
        return int(self._times[place]) if place < last else None
