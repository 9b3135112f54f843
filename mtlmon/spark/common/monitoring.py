"""Monitors sorted rows on executors, with one monitor for each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from mtlmon.errors import TimeStampError
from mtlmon.spark.common.events import HIDDEN, EventReader, row_error
from mtlmon.spark.common.kept_rows import KeptRows
from mtlmon.spark.common.keys import KeyRuns
from mtlmon.spark.common.ties import NO_ORDER, TieFinder
from mtlmon.spark.common.trace_monitors import TraceMonitors, tick_limit
from mtlmon.spark.common.trace_streams import TracePiece, TraceStreams
from mtlmon.spark.common.verdicts import verdict_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.spark.common.events import Events, EventSource, RowSource
    from mtlmon.spark.common.trace_monitors import EndTime, Found

Ties: TypeAlias = Literal["warn", "error", "allow"]
"""What to do about different events of one time-stamp without an order."""

_NO_STARTS = np.array([], np.uint32)

KEPT = HIDDEN + "kept{}"
"""The columns that are kept for verdicts, by their numbers."""

PLACE = HIDDEN + "place"
"""The column with numbers that are equal for rows of one time-stamp without an order."""


class RowMonitors:
    """Monitors sorted rows, for one trace after the other, with a monitor for each policy.

    Args:
        source: how rows become events.
        resolve: whether every time-point gets its Boolean verdict.
        end_time: what is known about the time after the last event of a trace.
        log_clock: the last time-stamp of the log of all traces. If this is None, each trace is a
            log of its own; if then a policy is not on all rows, there must be only one trace.
        kept: keeps columns of rows until their verdicts are known; None if that is not needed.

    Attributes:
        columns: the columns of the rows, in their order.
    """

    def __init__(
        self,
        source: EventSource,
        resolve: bool,
        end_time: EndTime,
        log_clock: int | None = None,
        kept: KeptRows | None = None,
    ) -> None:
        self.columns = source.selection.names
        self._source = source
        self._reader = EventReader(source)
        self._monitors = TraceMonitors(source.policies, resolve, end_time, log_clock, kept)
        self._end_time = end_time
        self._log_clock = log_clock
        limit = None if log_clock is None else tick_limit(log_clock, end_time)
        self._streams = None
        if source.has_streams:
            is_complete = end_time == "inf"
            self._streams = TraceStreams(
                source, limit, self._reader.errors, is_complete=is_complete
            )
            if kept is not None:
                self._streams.track_rows()
        # the time-stamp of the last event; None before the first one
        self._clock: int | None = None

    def read(self, batch: pa.RecordBatch) -> Events:
        """Read the events of a batch of rows, which can have more than the selected columns.

        Raises:
            TableError: a row is not an event.
        """
        return self._reader.read(batch)

    def pieces(self, events: Events, starts: NDArray[np.uint32]) -> Iterator[TracePiece]:
        """Yield the next events with what depends on other rows, in pieces; `feed` takes these.

        Events on which a stream has no value are left out.

        Args:
            events: the next events.
            starts: the indices of the events with which another trace begins.

        Raises:
            TableError: a stream has no value on a row, and such rows are not skipped; or the time
                of an event is before that of the previous event.
        """
        if self._streams is None:
            yield TracePiece(events, np.empty(0, np.int64), [])
            return
        self._require_order(events, starts)
        for piece in self._streams.add(events, starts):
            self._reader.refused.add(events.rows, piece.refused)
            yield piece

    def rest(self) -> Iterator[TracePiece]:
        """Yield the rest of the last trace, for `feed` before `finish`: ticks, rows that waited."""
        if self._streams is None or self._clock is None:
            return
        clock = self._clock if self._log_clock is None else self._log_clock
        yield from self._streams.end(tick_limit(clock, self._end_time))

    def feed(self, piece: TracePiece, starts: NDArray[np.uint32]) -> Iterator[Found]:
        """Process the next events.

        Args:
            piece: the events.
            starts: the indices of those with which another trace begins.

        Yields:
            The verdicts of each policy; number 0 is the trace before the first start.

        Raises:
            TableError: the time of an event is before that of the previous event.
        """
        events = piece.events
        try:
            yield from self._monitors.feed(events, starts, piece.traces, events.rows)
        except TimeStampError as error:
            if error.index is None:
                raise
            raise row_error(self._source, events.rows, error.index, str(error)) from None

    def _require_order(self, events: Events, starts: NDArray[np.uint32]) -> None:
        """Check that time-stamps do not decrease within a trace, also from the last event on."""
        times = events.time_stamps
        if not len(times):
            return
        decreases = np.diff(times, prepend=self._clock or 0) < 0
        decreases[starts] = False
        if decreases.any():
            index = int(decreases.argmax())
            before = times[index - 1] if index else self._clock
            message = f"time-stamp {times[index]} at index {index} is below {before}"
            raise row_error(self._source, events.rows, index, message)
        self._clock = int(times[-1])

    def report(self, ties: int = 0) -> None:
        """Send the counts to the driver when the task has ended or is stopped."""
        ticks = 0 if self._streams is None else self._streams.ticks_left_out
        self._reader.report(ties, ticks)

    def finish(self) -> Iterator[Found]:
        """End the present trace and yield the verdicts that this brings; another may follow."""
        yield from self._monitors.finish(self._clock or 0)
        self._clock = None
        if self._streams is not None:
            self._streams.forget()


class OrderedRows:
    """Converts sorted rows to rows of verdicts; picklable, a function for `mapInArrow`.

    The columns are those that the source selects, in its order, followed by those that are kept,
    and by `PLACE` unless ties are allowed; their names do not matter. The rows of a key are
    consecutive and sorted by time. Memory does not depend on their number.

    Args:
        source: as for `RowMonitors`.
        resolve: as for `RowMonitors`.
        end_time: as for `RowMonitors`.
        ties: what to do about different events of one time-stamp without an order.
        log_clock: as for `RowMonitors`.
        kept: the names that the columns that are kept have with verdicts.
    """

    def __init__(
        self,
        source: EventSource,
        resolve: bool,
        end_time: EndTime,
        ties: Ties = "allow",
        log_clock: int | None = None,
        kept: Sequence[str] = (),
    ) -> None:
        self._log_clock = log_clock
        self._kept = {name: KEPT.format(number) for number, name in enumerate(kept)}
        self._source = source
        self._resolve = resolve
        self._end_time = end_time
        self._ties = ties
        self._has_messages = source.has_messages

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the verdicts of a partition, with the columns of `verdict_schema`.

        Raises:
            TableError: a row is not an event, or it ties with another and that is an error.
        """
        source, has_messages = self._source, self._has_messages
        kept = KeptRows(self._kept) if self._kept else None
        monitors = RowMonitors(source, self._resolve, self._end_time, self._log_clock, kept)
        runs, kept_runs = KeyRuns(source.keys), KeyRuns(source.keys)
        seen = source.policies.columns if source.has_streams else ()
        ties = TieFinder([*seen, *self._kept.values()])
        tie_count = 0
        places = [] if self._ties == "allow" else [PLACE]
        names = [*monitors.columns, *self._kept.values(), *places]
        # the key of the last event
        keys: dict[str, pa.Array] = {}
        try:
            for columns in batches:
                if columns.num_rows == 0:
                    continue
                events = monitors.read(pa.RecordBatch.from_arrays(columns.columns, names=names))
                if not events.rows.num_rows:
                    continue
                starts, _ = runs.read(events.rows)
                for piece in monitors.pieces(events, starts):
                    read = piece.events
                    own, own_starts = _last_of(keys), _NO_STARTS
                    if len(read.time_stamps):
                        # as if the rows that were left out had never been there
                        own_starts, own = kept_runs.read(read.rows)
                        keys = own
                        if self._ties != "allow":
                            tie_count += self._tie_count(ties, read, own_starts)
                    for found in monitors.feed(piece, own_starts):
                        yield from verdict_batches(found, own, has_messages=has_messages)
            last = _last_of(keys)
            for piece in monitors.rest():
                for found in monitors.feed(piece, _NO_STARTS):
                    yield from verdict_batches(found, last, has_messages=has_messages)
            for found in monitors.finish():
                yield from verdict_batches(found, last, has_messages=has_messages)
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


def _last_of(keys: dict[str, pa.Array]) -> dict[str, pa.Array]:
    return {name: key.slice(len(key) - 1) for name, key in keys.items()}


class GoodRows:
    """Drops rows that are not events; picklable, a function for `mapInArrow`.

    The columns are those that the source selects, in its order, followed by any others.

    Args:
        source: how rows become events.
    """

    def __init__(self, source: RowSource) -> None:
        self._source = source

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = self._source.reader()
        names = self._source.columns_read
        try:
            for batch in batches:
                more = [f"{HIDDEN}{number}" for number in range(batch.num_columns - len(names))]
                named = pa.RecordBatch.from_arrays(batch.columns, names=[*names, *more])
                yield reader.usable(named).rename_columns(batch.schema.names)
        finally:
            reader.report()
