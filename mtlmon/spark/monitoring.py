"""What executors do with rows in order: one monitor at a time for each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from mtlmon._successive import SuccessiveMonitor
from mtlmon.errors import TimeStampError
from mtlmon.spark.events import EventReader, row_error
from mtlmon.spark.keys import KeyRuns
from mtlmon.spark.verdicts import verdict_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from mtlmon.spark.events import EventSource
    from mtlmon.spark.policies import Policies

EndTime: TypeAlias = int | Literal["last", "inf"] | None
"""What is known about the time after the last event of a trace, as `SuccessiveMonitor` takes it."""


def monitors_of(
    policies: Policies, resolve: bool, end_time: EndTime
) -> list[tuple[str | None, SuccessiveMonitor]]:
    """A monitor for each policy, with its name.

    Raises:
        MtlmonError, TimeStampError: the end time is none.
    """
    mode = policies.mode
    return [
        (policy.name, SuccessiveMonitor(policy.program, mode, resolve=resolve, end_time=end_time))
        for policy in policies.policies
    ]


class RowMonitors:
    """Monitors of rows in order, one for each policy, for traces that come one after the other.

    Args:
        source: how rows become events.
        resolve: whether every time-point gets its Boolean verdict.
        end_time: what is known about the time after the last event of a trace.

    Attributes:
        columns: those of the rows, in their order.
    """

    def __init__(self, source: EventSource, resolve: bool, end_time: EndTime) -> None:
        self.columns = source.selection.names
        self._source = source
        self._reader = EventReader(source)
        self._monitors = monitors_of(source.policies, resolve, end_time)

    def feed(
        self, batch: pa.RecordBatch, starts: NDArray[np.uint32]
    ) -> Iterator[tuple[str | None, bytes, NDArray[np.uint32]]]:
        """Go on to a batch of rows, with some of which another trace begins.

        Yields:
            The name of a policy, bytes of verdict records, and the numbers of their traces: 0 is
            the one before the first start.

        Raises:
            TableError: a row is no event, or one of a time before that of the row before.
        """
        events = self._reader.read(batch)
        for name, monitor in self._monitors:
            try:
                records, owners = monitor.feed(events.of(monitor.atoms), starts)
            except TimeStampError as error:
                if error.index is None:
                    raise
                raise row_error(self._source, batch, error.index, str(error)) from None
            yield name, records, np.frombuffer(owners, np.uint32)

    def finish(self) -> Iterator[tuple[str | None, bytes]]:
        """The present trace has ended: the names of policies, and bytes of verdict records."""
        for name, monitor in self._monitors:
            yield name, monitor.finish()


class OrderedRows:
    """From rows in order to rows of verdicts; picklable, a function for `mapInArrow`.

    The columns are those that the source wants, in its order; what they are called is no matter.
    Rows of a key come one after the other, by time. Memory does not depend on how many there are.

    Args:
        source: as for `RowMonitors`.
        resolve: as for `RowMonitors`.
        end_time: as for `RowMonitors`.
    """

    def __init__(self, source: EventSource, resolve: bool, end_time: EndTime) -> None:
        self._source = source
        self._resolve = resolve
        self._end_time = end_time

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The verdicts of a partition, with the columns of `verdict_schema`.

        Raises:
            TableError: a row is no event.
        """
        monitors = RowMonitors(self._source, self._resolve, self._end_time)
        runs = KeyRuns(self._source.selection.keys)
        names = list(monitors.columns)
        last: dict[str, pa.Array] = {}
        for columns in batches:
            if columns.num_rows == 0:
                continue
            batch = pa.RecordBatch.from_arrays(columns.columns, names=names)
            starts, keys = runs.read(batch)
            last = {name: key.slice(len(key) - 1) for name, key in keys.items()}
            for name, records, owners in monitors.feed(batch, starts):
                yield from verdict_batches(name, keys, records, owners)
        for name, records in monitors.finish():
            yield from verdict_batches(name, last, records, None)
