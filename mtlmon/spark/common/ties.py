"""Finds events of one trace and time-stamp whose order is not defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.spark.common.keys import changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.spark.common.events import Events

NO_ORDER = "nothing tells which comes first: give columns that do as order_within"
"""The end of messages about such events."""


class TieFinder:
    """Finds ties in sorted events, from batch to batch.

    Events tie if they have the same key, time-stamp and place. If all of them are equal, their
    order does not matter, and they are not counted.

    Args:
        columns: the columns in which equal events are equal too, because other rows see them.
    """

    def __init__(self, columns: Sequence[str] = ()) -> None:
        self._columns = columns
        # the last batch, and whether the group that its last event belongs to has been counted
        self._last: tuple[Events, int] | None = None
        self._is_counted = False

    def find(
        self, events: Events, places: NDArray[np.int64], starts: NDArray[np.uint32]
    ) -> NDArray[np.int64]:
        """Find groups of ties that have not been reported before.

        Args:
            events: the next events, at least one.
            places: numbers that are equal for events without an order.
            starts: the indices of events where another key begins.

        Returns:
            For every group with different events, the index of the first that differs from its
            predecessor.
        """
        times = events.time_stamps
        begins = np.ones(len(times), np.bool_)
        begins[1:] = (times[1:] != times[:-1]) | (places[1:] != places[:-1])
        begins[starts] = True
        before = self._last
        if before is not None and not (len(starts) and starts[0] == 0):
            begins[0] = times[0] != before[0].time_stamps[-1] or places[0] != before[1]
        found = np.empty(0, np.int64)
        # number 0 is the group with which the previous batch ended
        group_of_last = int(np.count_nonzero(begins))
        groups = found
        if not begins.all():
            words = events.own_words()
            first = words[:1] if before is None else before[0].own_words()[-1:]
            differs = (words != np.concatenate([first, words[:-1]])).any(axis=1)
            for name in self._columns:
                column = events.rows.column(name)
                earlier = column if before is None else before[0].rows.column(name)
                earlier = earlier.slice(0 if before is None else len(earlier) - 1, 1)
                differs |= changes(pa.concat_arrays([earlier, column]))
            differs &= ~begins
            rows = np.flatnonzero(differs)
            groups, where = np.unique(np.cumsum(begins)[rows], return_index=True)
            found = rows[where]
            if self._is_counted and len(groups) and groups[0] == 0:
                found = found[1:]
        is_counted = len(groups) > 0 and int(groups[-1]) == group_of_last
        self._is_counted = is_counted or (group_of_last == 0 and self._is_counted)
        self._last = events, int(places[-1])
        return found
