"""Ends of instances at their ticks, by values that their own streams have there.

It is not known which ticks an instance has before it has ended. So its values are computed here
between the rows that begin and end instances, by a machine (`native.EndingTicks`), and again with
those of all other streams, behind the task that has found out which instances live when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.errors import RowError
from mtlmon.policy.predicates.time_points import BEGINNINGS, ROWS
from mtlmon.streams import native
from mtlmon.streams.layer import LayerError
from mtlmon.streams.ticking import Ticks

if TYPE_CHECKING:
    import pyarrow as pa

    from mtlmon.streams.points import Points
    from mtlmon.streams.recursion import MachineTask

# The number of a kind of code that a machine does not have.
_NO_KIND = 63


class TicksOfEnds:
    """The ticks at which a machine says whether instances end.

    Args:
        frame: the number of the ticks.
        rows: that of the rows of the instances.
        period: the period of the ticks, as for `InstanceTicks`.
        task: the machine.
        clock: where instances begin; see `Lifetime`.

    Attributes:
        task: as given.
        native: the ticks.
    """

    def __init__(self, frame: int, rows: int, period: int, task: MachineTask, clock: int) -> None:
        self.task = task
        self._clock = clock
        self._frame = frame
        kinds = task.periods
        self.native = native.EndingTicks(
            task.machine,
            kinds.index(rows) if rows in kinds else _NO_KIND,
            kinds.index(frame),
            period % BEGINNINGS,
            period >= BEGINNINGS,
        )

    def begin(self, columns: dict[str, pa.Array], points: Points) -> None:
        """Begin with the rows of a batch, or the ticks of a trace, and the ticks between them."""
        count = points.batch(self._clock).count
        found = self.task.opened({self._clock: columns}, count)
        span = points.span
        left = sorted(span.left_out)
        self.native.begin(
            count,
            found.inputs,
            found.input_masks,
            found.results,
            found.validities,
            span.start,
            span.stop,
            span.traces,
            np.array([time for time, _ in left], np.int64),
            np.array([trace for _, trace in left], np.uint32),
        )

    def end(self, table: native.Instances, points: Points) -> None:
        """End with them.

        Raises:
            LayerError: an integer overflows at a tick.
            RowError: an integer overflows at a row.
        """
        own = self.native
        own.end()
        if own.failed_row is not None:
            error = RowError(self.task.overflow(), rows=(own.failed_row,))
            raise error if self._clock == ROWS else LayerError(self._clock, error, has_memory=True)
        if not own.has_failed:
            return
        times, numbers = np.array([own.failed_time]), np.array([own.failed_number], np.uint32)
        traces = np.empty(1, np.uint32)
        table.traces_of(numbers, traces)
        ticks = Ticks(times, numbers, points.places_of(times))
        points.add_instance_ticks(self._frame, ticks, traces)
        error = RowError(self.task.overflow(), rows=(0,))
        raise LayerError(self._frame, error, has_memory=True)
