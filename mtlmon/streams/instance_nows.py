"""The time-points as of which windows of instances are read from outside.

A window of an instance changes when a row of the instance comes, and when time lets a row enter or
leave it. Who reads it at a row or tick reads it as of then. So there is a time-point at each row of
the instance, and one at each row or tick that reads instances of the trace, for each of them that
has changed by itself since the last one. What has not changed is not computed anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mtlmon.policy.predicates.time_points import ROWS
from mtlmon.streams import native
from mtlmon.streams.layer import TakenTask
from mtlmon.streams.points import Readings
from mtlmon.streams.ticking import Ticks
from mtlmon.syntax.interval import MAXIMUM_BOUND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtlmon.streams.instances import Family
    from mtlmon.streams.layer import Columns, Layer
    from mtlmon.streams.points import Points

_NO_INSTANCE = 2**32 - 1


class InstanceNows:
    """Finds the time-points as of which windows of a family's instances are read.

    Args:
        frame: the number of these time-points, which is negative.
        family: the instances.

    Attributes:
        frame: as given.
        family: as given.
        periods: where others read windows: `ROWS`, and periods of ticks.
        delays: after how much time windows change by themselves.
    """

    def __init__(self, frame: int, family: Family) -> None:
        self.frame = frame
        self.family = family
        self.periods: set[int] = set()
        self.delays: list[int] = []
        self._changed = native.ChangedInstances(())

    def find_changes(self, layers: Sequence[Layer]) -> None:
        """Find out from the layers of the program how windows change; there were no rows yet."""
        delays = set()
        for layer in layers:
            for task in layer.tasks:
                if task.period == self.frame:
                    for kernel in task.kernels:
                        lower, upper, *_ = kernel.extent
                        delays |= {lower, upper + 1}
        # a row makes a difference at once where it is read; 0 is no limit here, too
        self.delays = sorted(delay for delay in delays if 0 < delay <= MAXIMUM_BOUND)
        self.forget_all()

    def add(self, _columns: Columns, points: Points) -> None:
        """Add the time-points of a batch, whose instances have begun and ended."""
        points.add_readings(self.frame, self._find(points))

    def _find(self, points: Points) -> Readings:
        family = self.family
        is_row = None
        if not points.has_ticks:
            rows = points.batch(ROWS)
            is_reader = None if ROWS in self.periods else np.zeros(rows.count, np.uint8)
            found = self._changed.find(family.table, rows, family.numbers, None, is_reader)
        else:
            joint, index = points.joint(sorted({ROWS, *self.periods}))
            numbers = np.full(joint.count, _NO_INSTANCE, np.uint32)
            numbers[index[ROWS]] = family.numbers
            behind = np.empty(joint.count, np.int64)
            is_reader = np.zeros(joint.count, np.uint8)
            is_row = np.zeros(joint.count, np.bool_)
            is_row[index[ROWS]] = True
            for period, places in index.items():
                own = points.ticks_of(period).places if period != ROWS else None
                behind[places] = np.arange(points.row_count) if own is None else own
                is_reader[places] |= period in self.periods
            found = self._changed.find(family.table, joint, numbers, behind, is_reader)
        times, passed, reading = (np.frombuffer(one, np.int64) for one in found[:3])
        instances, traces = (np.frombuffer(one, np.uint32) for one in found[3:5])
        if is_row is not None:
            is_row = is_row[reading]
        own = np.frombuffer(found[5], np.int64)
        return Readings(Ticks(times, instances, passed), traces, own, is_row)

    def begin(self) -> None:
        """Let `undo` return to the present state from now on."""
        self._changed.begin()

    def undo(self) -> None:
        """Return to the state at the last `begin`."""
        self._changed.undo()

    def keep(self, new_numbers: bytes) -> None:
        """Give instances new numbers; see `native.Instances.compact`."""
        self._changed.keep(new_numbers, self.family.table)

    def forget_all(self) -> None:
        """Return to the state before the first row."""
        self._changed = native.ChangedInstances(self.delays)

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        return self._changed.snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot; the instances have been restored.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        self._changed.restore(snapshot, self.family.table)

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the state takes."""
        return self._changed.held_bytes


class OwnRowsTask(TakenTask):
    """Values as of now, at the rows of the instances themselves."""

    def taken(self, points: Points) -> pa.Array:
        return pa.array(points.readings(self.argument_period).own)
