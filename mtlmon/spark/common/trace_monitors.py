"""A monitor for each policy, each fed with the time-points of its policy, trace after trace.

`points_of` finds the time-points of a policy among rows and ticks, in batches and in streams. There
may be traces without time-points, and rows that a condition has chosen keep their offsets among all
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from mtlmon.arrays.native import EventColumns
from mtlmon.checking.clocks import end_time_of_all
from mtlmon.checking.row_offsets import SuccessiveOffsets
from mtlmon.checking.shown import ValueRows, violated_at
from mtlmon.drive.native import SuccessiveMonitor
from mtlmon.errors import MtlmonError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.checking.time_points import PointBatch
    from mtlmon.spark.common.kept_rows import KeptRows
    from mtlmon.spark.common.policies import CompiledPolicy, Policies

EndTime: TypeAlias = int | Literal["last", "inf"] | None
"""What is known about the time after the last event of a trace, as for `SuccessiveMonitor`."""


class Found(NamedTuple):
    """Verdicts of a policy.

    Attributes:
        name: the name of the policy.
        records: the bytes of verdict records.
        owners: the numbers of their traces; None if all are of the present one.
        messages: the messages of the false ones, in order; None if there are none.
        kept: the kept columns of the rows that they are about; None if nothing is kept.
    """

    name: str | None
    records: bytes
    owners: NDArray[np.uint32] | None
    messages: Sequence[str | None] | None = None
    kept: pa.RecordBatch | None = None


class Points(NamedTuple):
    """The time-points of a policy.

    Attributes:
        events: the time-points, for its monitor.
        offsets: their offsets within their time-stamps; None if these are consecutive.
        traces: the numbers of the traces of ticks; None for rows.
        places: the indices of rows; None for all rows and for ticks.
        words: the atoms, one row of 64-bit words for each time-point.
        atoms: the names of these atoms.
        shown: the values to show.
    """

    events: EventColumns
    offsets: NDArray[np.uint32] | None
    traces: NDArray[np.uint32] | None
    places: NDArray[np.uint32] | None
    words: NDArray[np.uint64] | None
    atoms: Sequence[str]
    shown: Mapping[str, pa.Array]


def points_of(
    policy: CompiledPolicy, batch: PointBatch, offsets: NDArray[np.uint32] | None
) -> Points:
    """Return the time-points of a policy among some rows and the ticks that come with them.

    Args:
        policy: the policy.
        batch: the rows.
        offsets: the offsets of the rows within their time-stamps; None if no policy chooses rows.
    """
    atoms = policy.program.atoms
    if policy.clock is None:
        words = None if policy.message is None else batch.letters_of(0)
        rows = batch.events_of(atoms)
        return Points(rows, None, None, None, words, batch.atoms, batch.shown_of(0))
    points = batch.chosen(0, policy.clock)
    events = EventColumns(points.time_stamps, 0)
    if len(points):
        events = points.events_of(atoms)
    found = Points(events, None, None, None, points.letters, points.atoms, points.shown)
    if policy.clock.atom is None:
        return found._replace(traces=points.numbers)
    own = None if offsets is None else np.ascontiguousarray(offsets[points.places])
    return found._replace(offsets=own, places=points.places)


def messages_of(policy: CompiledPolicy, points: Points) -> list[str | None] | None:
    """Return the messages of a policy at the time-points that violate it; None if it has none."""
    message, own_atoms = policy.message, policy.program.atoms
    if message is None or points.words is None:
        return None
    if message.violations is None and own_atoms[0] not in points.atoms:
        return []
    places = violated_at(message, own_atoms, points.atoms, points.words, points.shown).tolist()
    rows = ValueRows(points.shown, places)
    return [message.at(rows.row(index)) for index in range(len(places))]


def monitors_of(
    policies: Policies, resolve: bool, end_time: EndTime, log_clock: int | None = None
) -> list[tuple[CompiledPolicy, SuccessiveMonitor]]:
    """Make a monitor for each policy.

    Args:
        policies: the policies.
        resolve: whether every time-point gets its Boolean verdict.
        end_time: what is known about the time after the last event of a trace.
        log_clock: the last time-stamp of the log of all traces, if that is known.

    Raises:
        MtlmonError, TimeStampError: the end time is invalid.
    """
    if isinstance(end_time, bool):
        raise MtlmonError(f"end_time is a time-stamp, 'last', 'inf' or None, not {end_time}")
    mode = policies.mode
    end = end_time if log_clock is None else end_time_of_all(log_clock, end_time)
    return [
        (
            policy,
            SuccessiveMonitor(policy.program, mode, resolve=resolve, end_time=_end_of(policy, end)),
        )
        for policy in policies.policies
    ]


def _end_of(policy: CompiledPolicy, end_time: EndTime) -> EndTime:
    """Return what is known about the time after the last time-point of a trace of a policy.

    Rows that wait for later values may be of any time, unless no more rows come at all.
    """
    return None if policy.waits and end_time != "inf" else end_time


def tick_limit(clock: int, end_time: EndTime) -> int:
    """Return the time below which a log has ticks.

    Args:
        clock: the last time-stamp of the log.
        end_time: what is known about the time after it.
    """
    end = end_time_of_all(clock, end_time)
    if end == "inf":
        return clock + 1
    return 0 if end is None else end + 1


class TraceMonitors:
    """Feeds events to a monitor for each policy, for one trace after the other.

    Args:
        policies: the policies, of one partition of traces.
        resolve: whether every time-point gets its Boolean verdict.
        end_time: what is known about the time after the last event of a trace.
        log_clock: the last time-stamp of the log of all traces. If this is None, each trace is a
            log of its own; if then a policy is not on all rows, there must be only one trace.
        kept: keeps columns of rows until their verdicts are known; None if that is not needed.
    """

    def __init__(
        self,
        policies: Policies,
        resolve: bool,
        end_time: EndTime,
        log_clock: int | None = None,
        kept: KeptRows | None = None,
    ) -> None:
        self._monitors = monitors_of(policies, resolve, end_time, log_clock)
        self._end_time = end_time
        self._log_clock = log_clock
        chooses_rows = any(
            one.clock is not None and one.clock.atom is not None for one in policies.policies
        )
        self._offsets = SuccessiveOffsets() if chooses_rows else None
        self._kept = kept

    def feed(
        self,
        batch: PointBatch,
        starts: NDArray[np.uint32],
        traces: NDArray[np.int64] | None = None,
        rows: pa.RecordBatch | None = None,
    ) -> Iterator[Found]:
        """Process the next events.

        Args:
            batch: the events, with ticks sorted by trace.
            starts: the indices of the events with which another trace begins.
            traces: for each event the number of its trace as ticks have it; needed if there are
                ticks and starts.
            rows: the rows of the events, if columns of them are kept.

        Yields:
            The verdicts of each policy; number 0 is the trace before the first start.

        Raises:
            TimeStampError: the time of an event is before that of the previous event.
        """
        offsets = None
        if self._offsets is not None:
            offsets = self._offsets.taken(np.asarray(batch.time_stamps), starts)
        kept = self._kept
        if kept is not None:
            assert rows is not None
            kept.add(rows, np.asarray(batch.time_stamps), starts)
        for policy, monitor in self._monitors:
            points = points_of(policy, batch, offsets)
            own = starts
            if points.places is not None:
                own = np.searchsorted(points.places, starts).astype(np.uint32)
            elif points.traces is not None:
                # The numbers of ticks as `traces` has them, and those of the starts.
                begun = starts if traces is None else traces[starts]
                own = np.searchsorted(points.traces, begun).astype(np.uint32)
            if kept is not None and not policy.is_on_ticks:
                kept.expect(points.places)
            records, owner_bytes = monitor.feed(points.events, own, points.offsets)
            owners = np.frombuffer(owner_bytes, np.uint32)
            yield Found(
                policy.name,
                records,
                owners,
                messages_of(policy, points),
                self._kept_of(policy, records, owners),
            )

    def finish(self, clock: int) -> Iterator[Found]:
        """End the present trace, whose last time-stamp is `clock`."""
        for policy, monitor in self._monitors:
            end: EndTime = None
            if policy.clock is not None and self._log_clock is None:
                end = _end_of(policy, end_time_of_all(clock, self._end_time))
            records = monitor.finish(end)
            yield Found(policy.name, records, None, None, self._kept_of(policy, records, None))
        if self._offsets is not None:
            self._offsets = SuccessiveOffsets()
        if self._kept is not None:
            self._kept.end_trace()

    def _kept_of(
        self, policy: CompiledPolicy, records: bytes, owners: NDArray[np.uint32] | None
    ) -> pa.RecordBatch | None:
        """Return the kept columns of the rows that verdicts of a policy are about."""
        if self._kept is None:
            return None
        return self._kept.found(records, owners, are_rows=not policy.is_on_ticks)
