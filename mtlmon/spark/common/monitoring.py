"""What executors do with rows in order: one monitor at a time for each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from mtlmon.drive.native import SuccessiveMonitor
from mtlmon.errors import MtlmonError, TimeStampError
from mtlmon.spark.common.events import HIDDEN, EventReader, row_error
from mtlmon.spark.common.keys import KeyRuns
from mtlmon.spark.common.ties import NO_ORDER, TieFinder
from mtlmon.spark.common.verdicts import verdict_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from mtlmon.spark.common.events import Events, EventSource
    from mtlmon.spark.common.policies import Policies

Ties: TypeAlias = Literal["warn", "error", "allow"]
"""What becomes of different events of one time that nothing orders."""

PLACE = HIDDEN + "place"
"""The column of numbers that are equal for rows of one time that nothing orders."""

EndTime: TypeAlias = int | Literal["last", "inf"] | None
"""What is known about the time after the last event of a trace, as `SuccessiveMonitor` takes it."""


def monitors_of(
    policies: Policies, resolve: bool, end_time: EndTime
) -> list[tuple[str | None, SuccessiveMonitor]]:
    """A monitor for each policy, with its name.

    Raises:
        MtlmonError, TimeStampError: the end time is none.
    """
    if isinstance(end_time, bool):
        raise MtlmonError(f"end_time is a time-stamp, 'last', 'inf' or None, not {end_time}")
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

    def read(self, batch: pa.RecordBatch) -> Events:
        """The events of a batch of rows, which may have more columns than those wanted.

        Raises:
            TableError: a row is no event.
        """
        return self._reader.read(batch)

    def feed(
        self, events: Events, starts: NDArray[np.uint32]
    ) -> Iterator[tuple[str | None, bytes, NDArray[np.uint32]]]:
        """Go on to events, with some of which another trace begins.

        Yields:
            The name of a policy, bytes of verdict records, and the numbers of their traces: 0 is
            the one before the first start.

        Raises:
            TableError: an event is of a time before that of the event before.
        """
        for name, monitor in self._monitors:
            try:
                records, owners = monitor.feed(events.of(monitor.atoms), starts)
            except TimeStampError as error:
                if error.index is None:
                    raise
                raise row_error(self._source, events.rows, error.index, str(error)) from None
            yield name, records, np.frombuffer(owners, np.uint32)

    def report(self, ties: int = 0) -> None:
        """The task has ended, or goes no further: what it has counted goes to the driver."""
        self._reader.report(ties)

    def finish(self) -> Iterator[tuple[str | None, bytes]]:
        """The present trace has ended: the names of policies, and bytes of verdict records."""
        for name, monitor in self._monitors:
            yield name, monitor.finish()


class OrderedRows:
    """From rows in order to rows of verdicts; picklable, a function for `mapInArrow`.

    The columns are those that the source wants, in its order, then the one of `PLACE` unless ties
    are allowed; what they are called is no matter. Rows of a key come one after the other, by time.
    Memory does not depend on how many there are.

    Args:
        source: as for `RowMonitors`.
        resolve: as for `RowMonitors`.
        end_time: as for `RowMonitors`.
        ties: what becomes of different events of one time that nothing orders.
    """

    def __init__(
        self, source: EventSource, resolve: bool, end_time: EndTime, ties: Ties = "allow"
    ) -> None:
        self._source = source
        self._resolve = resolve
        self._end_time = end_time
        self._ties = ties

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The verdicts of a partition, with the columns of `verdict_schema`.

        Raises:
            TableError: a row is no event, or ties with another one and that is an error.
        """
        monitors = RowMonitors(self._source, self._resolve, self._end_time)
        runs = KeyRuns(self._source.selection.keys)
        ties = TieFinder()
        tie_count = 0
        names = [*monitors.columns, *([] if self._ties == "allow" else [PLACE])]
        last: dict[str, pa.Array] = {}
        try:
            for columns in batches:
                if columns.num_rows == 0:
                    continue
                events = monitors.read(pa.RecordBatch.from_arrays(columns.columns, names=names))
                if not events.rows.num_rows:
                    continue
                starts, keys = runs.read(events.rows)
                last = {name: key.slice(len(key) - 1) for name, key in keys.items()}
                if self._ties != "allow":
                    tie_count += self._tie_count(ties, events, starts)
                for name, records, owners in monitors.feed(events, starts):
                    yield from verdict_batches(name, keys, records, owners)
            for name, records in monitors.finish():
                yield from verdict_batches(name, last, records, None)
        finally:
            monitors.report(tie_count)

    def _tie_count(self, ties: TieFinder, events: Events, starts: NDArray[np.uint32]) -> int:
        found = ties.find(events, np.asarray(events.rows.column(PLACE)), starts)
        if len(found) and self._ties == "error":
            message = (
                f"another row of time-stamp {events.time_stamps[found[0]]} is a different event, "
                f"and {NO_ORDER}"
            )
            raise row_error(self._source, events.rows, int(found[0]), message)
        return len(found)


class GoodRows:
    """From rows to those that are events; picklable, a function for `mapInArrow`.

    The columns are those that the source wants, in its order, then any others.

    Args:
        source: how rows become events; rows that are none are left out.
    """

    def __init__(self, source: EventSource) -> None:
        self._source = source

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = EventReader(self._source)
        names = self._source.selection.names
        try:
            for batch in batches:
                more = [f"{HIDDEN}{number}" for number in range(batch.num_columns - len(names))]
                named = pa.RecordBatch.from_arrays(batch.columns, names=[*names, *more])
                yield reader.read(named).rows.rename_columns(batch.schema.names)
        finally:
            reader.report()
