"""Monitors sorted rows on executors, with one monitor for each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from mtlmon.drive.native import SuccessiveMonitor
from mtlmon.errors import MtlmonError, TimeStampError
from mtlmon.spark.common.events import HIDDEN, EventReader, row_error
from mtlmon.spark.common.keys import KeyRuns
from mtlmon.spark.common.ties import NO_ORDER, TieFinder
from mtlmon.spark.common.trace_streams import TraceStreams
from mtlmon.spark.common.verdicts import verdict_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from mtlmon.spark.common.events import Events, EventSource
    from mtlmon.spark.common.policies import Policies

Ties: TypeAlias = Literal["warn", "error", "allow"]
"""What to do about different events of one time-stamp without an order."""

PLACE = HIDDEN + "place"
"""The column with numbers that are equal for rows of one time-stamp without an order."""

EndTime: TypeAlias = int | Literal["last", "inf"] | None
"""What is known about the time after the last event of a trace, as for `SuccessiveMonitor`."""


def monitors_of(
    policies: Policies, resolve: bool, end_time: EndTime
) -> list[tuple[str | None, SuccessiveMonitor]]:
    """Make a monitor for each policy, with the policy's name.

    Raises:
        MtlmonError, TimeStampError: the end time is invalid.
    """
    if isinstance(end_time, bool):
        raise MtlmonError(f"end_time is a time-stamp, 'last', 'inf' or None, not {end_time}")
    mode = policies.mode
    return [
        (policy.name, SuccessiveMonitor(policy.program, mode, resolve=resolve, end_time=end_time))
        for policy in policies.policies
    ]


class RowMonitors:
    """Monitors sorted rows, for one trace after the other, with a monitor for each policy.

    Args:
        source: how rows become events.
        resolve: whether every time-point gets its Boolean verdict.
        end_time: what is known about the time after the last event of a trace.

    Attributes:
        columns: the columns of the rows, in their order.
    """

    def __init__(self, source: EventSource, resolve: bool, end_time: EndTime) -> None:
        self.columns = source.selection.names
        self._source = source
        self._reader = EventReader(source)
        self._monitors = monitors_of(source.policies, resolve, end_time)
        self._streams = TraceStreams(source) if source.remembering else None
        # the time-stamp of the last event
        self._clock = 0

    def read(self, batch: pa.RecordBatch) -> Events:
        """Read the events of a batch of rows, which can have more than the selected columns.

        Raises:
            TableError: a row is not an event.
        """
        return self._reader.read(batch)

    def with_streams(self, events: Events, starts: NDArray[np.uint32]) -> Events:
        """Add the atoms that depend on other rows; leave out events on which a stream has no value.

        Args:
            events: the next events.
            starts: the indices of the events with which another trace begins.

        Raises:
            TableError: a stream has no value on a row, and such rows are not skipped.
        """
        if self._streams is None or not self._is_in_order(events.time_stamps, starts):
            # `feed` raises the error about the order
            return events
        found = self._streams.add(events, starts)
        self._reader.refused.add(events.rows, found.refused)
        return found.events

    def feed(
        self, events: Events, starts: NDArray[np.uint32]
    ) -> Iterator[tuple[str | None, bytes, NDArray[np.uint32]]]:
        """Process the next events.

        Args:
            events: the events.
            starts: the indices of the events with which another trace begins.

        Yields:
            The name of a policy, the bytes of verdict records, and the numbers of their traces,
            where 0 is the trace before the first start.

        Raises:
            TableError: the time of an event is before that of the previous event.
        """
        for name, monitor in self._monitors:
            try:
                records, owners = monitor.feed(events.of(monitor.atoms), starts)
            except TimeStampError as error:
                if error.index is None:
                    raise
                raise row_error(self._source, events.rows, error.index, str(error)) from None
            yield name, records, np.frombuffer(owners, np.uint32)

    def _is_in_order(self, times: NDArray[np.int64], starts: NDArray[np.uint32]) -> bool:
        """Whether time-stamps do not decrease within a trace, also from the last event on."""
        decreases = np.diff(times, prepend=self._clock) < 0
        decreases[starts] = False
        if len(times):
            self._clock = int(times[-1])
        return not decreases.any()

    def report(self, ties: int = 0) -> None:
        """Send the counts to the driver when the task has ended or is stopped."""
        self._reader.report(ties)

    def finish(self) -> Iterator[tuple[str | None, bytes]]:
        """End the present trace; yield the names of policies and the bytes of verdict records."""
        for name, monitor in self._monitors:
            yield name, monitor.finish()


class OrderedRows:
    """Converts sorted rows to rows of verdicts; picklable, a function for `mapInArrow`.

    The columns are those that the source selects, in its order, followed by `PLACE` unless ties are
    allowed; their names do not matter. The rows of a key are consecutive and sorted by time. Memory
    does not depend on their number.

    Args:
        source: as for `RowMonitors`.
        resolve: as for `RowMonitors`.
        end_time: as for `RowMonitors`.
        ties: what to do about different events of one time-stamp without an order.
    """

    def __init__(
        self, source: EventSource, resolve: bool, end_time: EndTime, ties: Ties = "allow"
    ) -> None:
        self._source = source
        self._resolve = resolve
        self._end_time = end_time
        self._ties = ties

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the verdicts of a partition, with the columns of `verdict_schema`.

        Raises:
            TableError: a row is not an event, or it ties with another and that is an error.
        """
        monitors = RowMonitors(self._source, self._resolve, self._end_time)
        runs = KeyRuns(self._source.keys)
        ties = TieFinder(self._source.policies.columns if self._source.remembering else ())
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
                before = runs.last
                starts, keys = runs.read(events.rows)
                read = monitors.with_streams(events, starts)
                if len(read.time_stamps) < len(events.time_stamps):
                    # as if the other rows had never been there
                    runs.last = before
                    if not len(read.time_stamps):
                        continue
                    starts, keys = runs.read(read.rows)
                events = read
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
    """Drops rows that are not events; picklable, a function for `mapInArrow`.

    The columns are those that the source selects, in its order, followed by any others.

    Args:
        source: how rows become events.
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
