"""The monitors of one key of a stream, which are stored as bytes between the batches of a query.

Events wait until the watermark has passed their time-stamp, so that no earlier event can come any
more. Then they are monitored in the order of time. Finally, time is advanced to the watermark,
which can decide more verdicts.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon._core import Monitor
from mtlmon.checking.row_offsets import SuccessiveOffsets
from mtlmon.drive.native import feed_columns
from mtlmon.errors import SnapshotError
from mtlmon.spark.common.trace_monitors import messages_of, points_of
from mtlmon.spark.streaming.settings import NO_SETTINGS, check_settings
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE, verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtlmon._core import Verdict
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.event_records import DueEvents, EventRecords
    from mtlmon.spark.streaming.key_streams import KeyStreams

_VERSION = 3
# version, number of policies, next wake-up (-1: never)
_HEAD = struct.Struct("<BHq")
_LENGTH = struct.Struct("<I")
_NEVER = -1
_NO_STARTS = np.array([], np.uint32)


class KeyState(NamedTuple):
    """The state of a key between two batches.

    Attributes:
        next_wakeup: the least horizon at which there is something to do without a new event, or
            None.
        snapshots: the snapshots of the monitors, one for each policy.
        waiting: the bytes of the events that wait.
        settings: digests of the settings that the state depends on, from `stream_settings`.
        streams: the snapshot of the streams; empty if there are none.
    """

    next_wakeup: int | None
    snapshots: list[bytes]
    waiting: bytes
    settings: bytes = NO_SETTINGS
    streams: bytes = b""

    def encoded(self) -> bytes:
        """Encode the state as bytes."""
        next_wakeup = _NEVER if self.next_wakeup is None else self.next_wakeup
        parts = [_HEAD.pack(_VERSION, len(self.snapshots), next_wakeup), self.settings]
        for snapshot in (*self.snapshots, self.streams):
            parts += [_LENGTH.pack(len(snapshot)), snapshot]
        return b"".join([*parts, self.waiting])

    @classmethod
    def decoded(cls, content: bytes) -> KeyState:
        """Decode a state from bytes.

        Raises:
            SnapshotError: the bytes are not a state, or belong to another version.
        """
        try:
            version, count, next_wakeup = _HEAD.unpack_from(content)
            if version != _VERSION:
                raise SnapshotError(
                    f"the state of the query is of version {version}, this is {_VERSION}: it was "
                    "made by another version of mtlmon and needs a checkpointLocation of its own"
                )
            place = _HEAD.size + len(NO_SETTINGS)
            settings = content[_HEAD.size : place]
            snapshots = []
            for _ in range(count + 1):
                (length,) = _LENGTH.unpack_from(content, place)
                place += _LENGTH.size
                snapshots.append(content[place : place + length])
                place += length
            if place > len(content):
                raise SnapshotError("the state of the query is damaged")
        except struct.error:
            raise SnapshotError("the state of the query is damaged") from None
        *snapshots, streams = snapshots
        return cls(
            None if next_wakeup == _NEVER else next_wakeup,
            snapshots,
            content[place:],
            settings,
            streams,
        )


class Outcome(NamedTuple):
    """The result of a batch for a key.

    Attributes:
        state: the new state, or None if there is nothing to remember, because new monitors would
            give the same verdicts on all later events.
        verdicts: pairs of the number of a policy and the bytes of its verdict records.
        late: the bytes of the events that came too late.
        messages: for policies with messages, by number, those of the false verdicts, in order.
    """

    state: KeyState | None
    verdicts: list[tuple[int, bytes]]
    late: bytes
    messages: dict[int, list[str | None]]


class KeyMonitors:
    """The monitors, one for each policy, which are used for one key after the other.

    Args:
        policies: the policies.
        records: how events are encoded.
        settings: digests of the settings that states depend on.
        streams: computes the atoms that depend on other rows; None if there are none.
    """

    def __init__(
        self,
        policies: Policies,
        records: EventRecords,
        settings: bytes = NO_SETTINGS,
        streams: KeyStreams | None = None,
    ) -> None:
        self._records = records
        self._settings = settings
        self._streams = streams
        self._monitors = [
            (policy, Monitor(policy.program, policies.mode)) for policy in policies.policies
        ]

    def visit(self, state: KeyState | None, blocks: Sequence[bytes], horizon: int) -> Outcome:
        """Continue with a key.

        Args:
            state: the state of the key, or None if there is none yet.
            blocks: the bytes of its new events, in the order in which they came.
            horizon: the least time-stamp of events that are not late.

        Raises:
            SnapshotError: the state belongs to other policies or settings, or is damaged.
        """
        if state is not None:
            check_settings(state.settings, self._settings)
        late = b""
        before = b"" if state is None else state.waiting
        waiting = self._records.unpack([before, *blocks])
        times = waiting.rows[:, 0]
        is_due = times < horizon
        if blocks:
            # waiting events are not late, although the horizon may have passed them by now
            is_late = is_due.copy()
            is_late[: len(self._records.unpack([before]).rows) if before else 0] = False
            late = waiting.rows[is_late].tobytes()
            is_due &= ~is_late
            waiting, is_due = waiting.take(np.flatnonzero(~is_late)), is_due[~is_late]
        due = waiting.take(np.flatnonzero(is_due))
        due = due.take(self._records.order(due.rows))
        waiting = waiting.take(np.flatnonzero(~is_due))
        if state is None and not len(due.rows) and not len(waiting.rows):
            return Outcome(None, [], late, {})
        left = self._records.pack(waiting)
        changes = [int(waiting.rows[:, 0].min()) + 1] if left else []
        if (
            state is not None
            and not len(due.rows)
            and (state.next_wakeup is None or state.next_wakeup > horizon)
        ):
            wakeups = [*changes, *([] if state.next_wakeup is None else [state.next_wakeup])]
            next_wakeup = min(wakeups, default=None)
            kept = KeyState(next_wakeup, state.snapshots, left, self._settings, state.streams)
            return Outcome(kept, [], late, {})
        if self._streams is not None:
            self._streams.restore(b"" if state is None else state.streams)
        for number, (_, monitor) in enumerate(self._monitors):
            self._wake(monitor, None if state is None else state.snapshots, number)
        found: dict[int, list[bytes]] = {}
        messages: dict[int, list[str | None]] = {}
        snapshots = []
        settled: list[int | None] = []
        streams = b""
        if self._streams is None:
            self._feed(self._records.due(due.rows), SuccessiveOffsets(), found, messages)
        else:
            # The events of one time-stamp are due at once, so their offsets begin with 0.
            offsets = SuccessiveOffsets()
            for piece in self._streams.pieces(due, horizon):
                self._feed(piece, offsets, found, messages)
            streams = self._streams.snapshot()
            settled.append(self._streams.settled_from)
            if (tick := self._streams.next_tick) is not None:
                changes.append(tick + 1)
        for number, (policy, monitor) in enumerate(self._monitors):
            # Rows that wait for later values are of earlier times, so time alone decides nothing.
            if not policy.waits:
                found.setdefault(number, []).extend(_records_of(monitor.advance(horizon)))
                if (change := monitor.next_change) is not None:
                    changes.append(change)
            settled.append(monitor.settled_from)
            snapshots.append(monitor.snapshot())
        verdicts = [(number, b"".join(found[number])) for number in sorted(found) if found[number]]
        if not left and (latest := _latest(settled)) is not None:
            if latest <= horizon:
                return Outcome(None, verdicts, late, messages)
            changes.append(latest)
        next_wakeup = min(changes, default=None)
        awake = KeyState(next_wakeup, snapshots, left, self._settings, streams)
        return Outcome(awake, verdicts, late, messages)

    def _wake(self, monitor: Monitor, snapshots: Sequence[bytes] | None, number: int) -> None:
        if snapshots is None:
            monitor.reset()
            return
        try:
            if len(snapshots) != len(self._monitors):
                raise SnapshotError(f"there are {len(snapshots)} policies in it")
            monitor.restore(snapshots[number])
        except SnapshotError as error:
            raise SnapshotError(
                f"the state of the query does not fit the policies: {error}; other policies or "
                "another mode need a checkpointLocation of their own"
            ) from None

    def _feed(
        self,
        events: DueEvents,
        offsets: SuccessiveOffsets,
        found: dict[int, list[bytes]],
        messages: dict[int, list[str | None]],
    ) -> None:
        """Feed events to all monitors, and add the verdict records and messages of each policy."""
        of_rows = offsets.taken(events.time_stamps, _NO_STARTS)
        for number, (policy, monitor) in enumerate(self._monitors):
            points = points_of(policy, events, of_rows)
            if points.events.count:
                records = bytes(feed_columns(monitor, [points.events], points.offsets))
                found.setdefault(number, []).append(records)
                if (texts := messages_of(policy, points)) is not None:
                    messages.setdefault(number, []).extend(texts)


def _latest(time_stamps: Sequence[int | None]) -> int | None:
    """The latest of the time-stamps, or None if one is not known."""
    known = [time_stamp for time_stamp in time_stamps if time_stamp is not None]
    return max(known) if len(known) == len(time_stamps) else None


def _records_of(verdicts: Sequence[Verdict]) -> Iterator[bytes]:
    """Convert verdicts to bytes of records."""
    if not verdicts:
        return
    records = np.zeros(len(verdicts), verdict_type())
    for record, verdict in zip(records, verdicts, strict=True):
        record["time_stamp"] = verdict.time_stamp
        record["offset"] = verdict.offset
        record["kind"] = TRUE if verdict.value else FALSE
        if verdict.ref is not None:
            record["kind"] = EQUIVALENT
            record["reference_time_stamp"], record["reference_offset"] = verdict.ref
    yield records.tobytes()
