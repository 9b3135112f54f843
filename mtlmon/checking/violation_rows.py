"""The rows of some violations, found while the log is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.row_offsets import RowOffsets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtlmon.checking.log_check import LogCheck
    from mtlmon.checking.row_files import RowPlace
    from mtlmon.checking.sources import EventBatch

__all__ = ["ViolationRows"]


class ViolationRows:
    """Finds the files and rows of violations; violations at ticks have none.

    Args:
        check: the check of the policies.
        violations: policy, number of the trace, time-stamp and offset of each violation.
    """

    def __init__(self, check: LogCheck, violations: Iterable[tuple[int, int, int, int]]) -> None:
        partition_of = self._partition_of = check.partitions.of_policies
        self._has_rows = [clock is None or not clock.has_ticks for clock in check.clocks]
        # by partition: number of the trace, time-stamp and offset
        self._wanted: dict[int, set[tuple[int, int, int]]] = {}
        for policy, *point in violations:
            if self._has_rows[policy]:
                number, time_stamp, offset = point
                wanted = self._wanted.setdefault(partition_of[policy], set())
                wanted.add((number, time_stamp, offset))
        self._offsets = {partition: RowOffsets() for partition in self._wanted}
        self._found: dict[tuple[int, int, int, int], RowPlace] = {}

    def note(self, batch: EventBatch) -> None:
        """Take the next batch of the log, which tells the origins of its events."""
        origins = batch.origins
        times = np.asarray(batch.time_stamps)
        if not len(times):
            return
        assert origins is not None
        for partition, wanted in self._wanted.items():
            own = batch.numbers_of(partition)
            numbers = np.zeros(len(times), np.uint32) if own is None else np.asarray(own)
            one = self._offsets[partition]
            offsets = one.offsets(times, numbers)
            one.add(times, numbers, offsets)
            stamps = [time_stamp for _, time_stamp, _ in wanted]
            for place in np.flatnonzero(np.isin(times, stamps)).tolist():
                point = int(numbers[place]), int(times[place]), int(offsets[place])
                if point in wanted:
                    self._found[(partition, *point)] = origins.place(place)

    @property
    def is_complete(self) -> bool:
        """Whether all rows have been found."""
        return len(self._found) == sum(map(len, self._wanted.values()))

    def of(self, violation: tuple[int, int, int, int]) -> RowPlace | None:
        """Return the row of a violation; None if it has no row."""
        policy, *point = violation
        if not self._has_rows[policy]:
            return None
        number, time_stamp, offset = point
        return self._found.get((self._partition_of[policy], number, time_stamp, offset))
