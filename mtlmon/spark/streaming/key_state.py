"""The monitors of one key of a stream, which rest as bytes between the batches of a query.

Events wait until the watermark has passed their time-stamp and no earlier one can come any more;
then they are monitored, in the order of time. Afterwards time is as far as the watermark is, so
that what time alone decides is decided.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon._core import Monitor
from mtlmon.drive.native import feed_columns
from mtlmon.errors import SnapshotError
from mtlmon.spark.streaming.settings import NO_SETTINGS, check_settings
from mtlmon.verdicts.arrays import EQUIVALENT, FALSE, TRUE, verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon._core import Verdict
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.event_records import EventRecords

_VERSION = 2
# version, number of policies, when to be woken (-1: never)
_HEAD = struct.Struct("<BHq")
_LENGTH = struct.Struct("<I")
_NEVER = -1


class KeyState(NamedTuple):
    """The state of a key between two batches.

    Attributes:
        next_wakeup: the least horizon at which there is something to do without a new event, or
            None.
        snapshots: of the monitors, one for each policy.
        waiting: bytes of the events that wait.
        settings: digests of what decides the meaning of the others, as `StreamSettings` has them.
    """

    next_wakeup: int | None
    snapshots: list[bytes]
    waiting: bytes
    settings: bytes = NO_SETTINGS

    def encoded(self) -> bytes:
        """The state as bytes."""
        next_wakeup = _NEVER if self.next_wakeup is None else self.next_wakeup
        parts = [_HEAD.pack(_VERSION, len(self.snapshots), next_wakeup), self.settings]
        for snapshot in self.snapshots:
            parts += [_LENGTH.pack(len(snapshot)), snapshot]
        return b"".join([*parts, self.waiting])

    @classmethod
    def decoded(cls, content: bytes) -> KeyState:
        """The state that bytes stand for.

        Raises:
            SnapshotError: they are none, or of another version.
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
            for _ in range(count):
                (length,) = _LENGTH.unpack_from(content, place)
                place += _LENGTH.size
                snapshots.append(content[place : place + length])
                place += length
            if place > len(content):
                raise SnapshotError("the state of the query is damaged")
        except struct.error:
            raise SnapshotError("the state of the query is damaged") from None
        return cls(
            None if next_wakeup == _NEVER else next_wakeup, snapshots, content[place:], settings
        )


class Outcome(NamedTuple):
    """What a batch of a query means to a key.

    Attributes:
        state: the state from then on; None if there is nothing to remember, and new monitors would
            answer all events to come in the same way.
        verdicts: the numbers of policies, and bytes of verdict records of each.
        late: bytes of the events that came too late.
    """

    state: KeyState | None
    verdicts: list[tuple[int, bytes]]
    late: bytes


class KeyMonitors:
    """Monitors for one key after the other, one for each policy."""

    def __init__(
        self, policies: Policies, records: EventRecords, settings: bytes = NO_SETTINGS
    ) -> None:
        self._records = records
        self._settings = settings
        self._monitors = [Monitor(policy.program, policies.mode) for policy in policies.policies]

    def visit(self, state: KeyState | None, blocks: Sequence[bytes], horizon: int) -> Outcome:
        """Goes on with a key.

        Args:
            state: its state, None if there is none yet.
            blocks: bytes of its new events, in the order in which they came.
            horizon: the least time-stamp of events that are not late.

        Raises:
            SnapshotError: the state is of other policies or settings, or damaged.
        """
        if state is not None:
            check_settings(state.settings, self._settings)
        late = b""
        waiting = self._records.read([b"" if state is None else state.waiting, *blocks])
        if blocks:
            # what has waited is not late, although the horizon may be beyond it by now
            is_late = waiting[:, 0] < horizon
            is_late[: 0 if state is None else len(state.waiting) // (8 * self._records.width)] = (
                False
            )
            late = waiting[is_late].tobytes()
            waiting = waiting[~is_late]
        is_due = waiting[:, 0] < horizon
        due, waiting = self._records.sorted(waiting[is_due]), waiting[~is_due]
        if state is None and not len(due) and not len(waiting):
            return Outcome(None, [], late)
        changes = [int(waiting[:, 0].min()) + 1] if len(waiting) else []
        if (
            state is not None
            and not len(due)
            and (state.next_wakeup is None or state.next_wakeup > horizon)
        ):
            wakeups = [*changes, *([] if state.next_wakeup is None else [state.next_wakeup])]
            next_wakeup = min(wakeups, default=None)
            kept = KeyState(next_wakeup, state.snapshots, waiting.tobytes(), self._settings)
            return Outcome(kept, [], late)
        verdicts = []
        snapshots = []
        settled: list[int | None] = []
        for number, monitor in enumerate(self._monitors):
            self._wake(monitor, None if state is None else state.snapshots, number)
            records = [*self._fed(monitor, due), *_records_of(monitor.advance(horizon))]
            if records:
                verdicts.append((number, b"".join(records)))
            if (change := monitor.next_change) is not None:
                changes.append(change)
            settled.append(monitor.settled_from)
            snapshots.append(monitor.snapshot())
        if not len(waiting) and (latest := _latest(settled)) is not None:
            if latest <= horizon:
                return Outcome(None, verdicts, late)
            changes.append(latest)
        awake = KeyState(min(changes, default=None), snapshots, waiting.tobytes(), self._settings)
        return Outcome(awake, verdicts, late)

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

    def _fed(self, monitor: Monitor, due: NDArray[np.int64]) -> Iterator[bytes]:
        """The verdict records that events bring."""
        if len(due):
            events = self._records.events(due, monitor.atoms)
            yield bytes(feed_columns(monitor, [events]))


def _latest(time_stamps: Sequence[int | None]) -> int | None:
    """The latest of time-stamps, None if one is not known."""
    known = [time_stamp for time_stamp in time_stamps if time_stamp is not None]
    return max(known) if len(known) == len(time_stamps) else None


def _records_of(verdicts: Sequence[Verdict]) -> Iterator[bytes]:
    """Verdicts as bytes of records."""
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
