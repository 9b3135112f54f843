"""The rows at which streams with `per` may have values in instances that they do not belong to.

`on` says where a stream has values. If that can be at rows of other instances, a row calls those
for which the condition may be true: one for each value that the condition says to be that behind
`per`, as in `on seller = id or buyer = id`, or all that are alive. Each of them has a time-point at
the row. So such a stream costs what the calls do, and only its instances keep something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams.instance_groups import FORGOTTEN
from mtlmon.streams.instances import where_true
from mtlmon.streams.layer import TakenTask
from mtlmon.streams.points import call_places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.streams.instances import Family, KeyColumn
    from mtlmon.streams.layer import Columns
    from mtlmon.streams.points import Integers, Numbers, Points


# For how many ticks such a time-point counts, as it has all columns of an instance.
_WEIGHT = 8


class CallColumns(NamedTuple):
    """Columns that say which instances rows call.

    Attributes:
        keys: the columns with the key of an instance; () for all living instances of the trace.
        where: the column that is true at the rows that call them; None for all rows.
    """

    keys: tuple[KeyColumn, ...]
    where: str | None


class InstanceCalls:
    """Finds the time-points at which rows call instances of a family.

    Args:
        frame: the number of these time-points, which is negative.
        family: the instances.
        calls: which instances are called.

    Attributes:
        frame: as given.
        family: as given.
        calls: as given.
    """

    def __init__(self, frame: int, family: Family, calls: list[CallColumns]) -> None:
        self.frame = frame
        self.family = family
        self.calls = calls

    @property
    def calls_all(self) -> bool:
        """Whether a row may call all living instances of its trace."""
        return any(not keys for keys, _ in self.calls)

    def counts(
        self, numbers: Numbers | None, count: int, known: Mapping[str, pa.Array]
    ) -> Integers:
        """Return what the time-points before each of the next rows count for at most, as ticks do.

        Args:
            numbers: the numbers of the rows' traces, or None for one trace.
            count: the number of rows.
            known: columns of the rows that are known already.
        """
        calling = np.zeros(count, np.bool_)
        for keys, where in self.calls:
            if not keys:
                found = None if where is None else known.get(where)
                calling |= True if found is None else where_true(found).view(np.bool_)
        if numbers is None:
            numbers = np.zeros(count, np.uint32)
        living = np.empty(int(numbers.max(initial=0)) + 1, np.int64)
        self.family.table.count_living(living)
        # each row may begin an instance
        of_rows = np.where(calling, living[numbers] + np.arange(1, count + 1), 0)
        before: Integers = _WEIGHT * (np.cumsum(of_rows) - of_rows)
        return before

    def add(self, columns: Columns, points: Points) -> None:
        """Add the time-points of a batch, whose instances have begun and ended."""
        table, rows, own = self.family.table, points.batch(ROWS), columns[ROWS]
        found: list[Integers] = []
        for keys, where in self.calls:
            if keys:
                numbers = np.empty(rows.count, np.uint32)
                table.find(rows, *self.family.cells_of(keys, own), numbers)
                called = np.flatnonzero(numbers != FORGOTTEN)
                found.append(call_places(called, numbers[called]))
                continue
            is_calling = None if where is None else where_true(own[where])
            found.append(np.frombuffer(table.living_of(rows, is_calling), np.int64))
        points.add_calls(self.frame, np.unique(np.concatenate(found)), self.family.numbers)


class SameRowsTask(TakenTask):
    """Values in instances at the rows that call them, as far as they have time-points there.

    Their own time-points are rows or calls of the instances.
    """

    def taken(self, points: Points) -> pa.Array:
        places, is_found = points.same_rows(self.argument_period, self.period)
        return pa.array(places, mask=~is_found)
