"""The monitors of a bucket of keys, whose state rests as a journal between the batches of a query.

Events wait until the watermark has passed their time-stamp, so that no earlier event of their key
can come any more. Then they are monitored in the order of time. Finally, time is advanced to the
watermark, which can decide more verdicts. Only keys that have such events or that time decides
about are visited. What has come is appended to the journal as a step: whoever has all entries can
take it again. Where that is not so, or would take long, because streams are computed key by key,
what the keys leave is appended as a segment. Once these entries outweigh the first one, all keys
become one segment, without those whose past no longer matters.

A key wakes up at its earliest waiting event, its next tick, or the next time-stamp at which time
alone can bring a verdict, and its bucket with the earliest of its keys. Ticks below the watermark
are due, as no row below it can come any more. The monitors are those of the worker
(`shared_monitors`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.checking.row_offsets import SuccessiveOffsets
from mtlmon.spark.common.trace_monitors import messages_of, points_of
from mtlmon.spark.streaming.bucket_records import NEVER, Segment, Step
from mtlmon.spark.streaming.changes import first_verdicts
from mtlmon.spark.streaming.event_records import joined
from mtlmon.spark.streaming.lateness import Admission
from mtlmon.spark.streaming.live_bucket import LiveBucket
from mtlmon.spark.streaming.nodes import Machine
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.drive.native import KeyedMonitors
    from mtlmon.spark.common.policies import CompiledPolicy, Policies
    from mtlmon.spark.common.trace_monitors import Points
    from mtlmon.spark.streaming.bucket_keys import BucketKeys
    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.entries import Entry
    from mtlmon.spark.streaming.event_records import DueEvents, Waiting
    from mtlmon.spark.streaming.key_streams import KeyStreams
    from mtlmon.spark.streaming.nodes import Sent
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors

__all__ = [
    "NO_STARTS",
    "Answers",
    "BucketMonitors",
    "OwnedRecords",
    "Work",
    "fed",
    "owned_records",
]


class OwnedRecords(NamedTuple):
    """Records of some keys.

    Attributes:
        keys: the columns of the keys.
        owners: for each record, the index of its key.
        records: the bytes of the records: verdicts, changes of verdicts, or events.
        messages: the messages of the false verdicts, in order; None if the policy has none.
    """

    keys: list[pa.Array]
    owners: NDArray[np.uint32]
    records: bytes
    messages: list[str | None] | None = None


class Answers(NamedTuple):
    """What a bucket says in a batch.

    Attributes:
        verdicts: by the number of a policy, its verdict records; or records of changes, if late
            events correct verdicts.
        late: the rows of the events that came too late; None if there are none.
    """

    verdicts: dict[int, OwnedRecords]
    late: OwnedRecords | None


class BucketMonitors(Machine[LiveBucket, Answers]):
    """Lets one bucket after the other take events.

    Args:
        policies: the policies.
        records: how blocks and entries are encoded.
        shared: the monitors.
        streams: computes the atoms that depend on other rows; None if there are none.
        lateness: how far below the horizon events are taken in; None if they correct nothing.
    """

    def __init__(
        self,
        policies: Policies,
        records: BucketRecords,
        shared: SharedMonitors,
        streams: KeyStreams | None = None,
        lateness: int | None = None,
    ) -> None:
        self._records = records
        self._streams = streams
        self._shared = shared
        self._monitors = list(zip(policies.policies, shared.monitors, strict=True))
        self._admission = Admission(lateness)

    def begin(self, key: tuple[object, ...]) -> LiveBucket:
        return LiveBucket(self._records, self._shared)

    def fits(self, node: object) -> bool:
        return isinstance(node, LiveBucket) and node.shared is self._shared

    def fail(self) -> None:
        self._shared.is_broken = True

    def close(self) -> None:
        if self._streams is not None:
            self._streams.report()

    def wakes_with_horizon(self, key: tuple[object, ...]) -> bool:
        # bucket 0 also says what is final
        return self._admission.corrects and key == (0,)

    def replay(self, node: LiveBucket, entries: Sequence[Entry]) -> None:
        for entry in map(self._records.decode, entries):
            if isinstance(entry, Segment):
                self._take_segment(node, entry)
            else:
                node.add(entry.keys)
                self._take(node, entry.events, entry.owners, entry.horizon)

    def _take_segment(self, live: LiveBucket, segment: Segment) -> None:
        """Replace what is known of the keys of a segment."""
        live.take_segment(segment)

    def update(self, node: LiveBucket, sent: Sent) -> tuple[Entry | None, Answers]:
        if self._streams is not None:
            self._streams.notify(sent.side)
        columns, events, late = self._admitted(
            sent.blocks, self._admission.admits_from(sent.horizon)
        )
        entry, verdicts = self._updated(node, columns, events, sent.horizon)
        return None if entry is None else self._records.encode(entry), Answers(verdicts, late)

    def _updated(
        self, live: LiveBucket, columns: list[pa.Array], events: Waiting, horizon: int
    ) -> tuple[Segment | Step | None, dict[int, OwnedRecords]]:
        """Let a bucket take events, with the columns of their keys, that are not too late.

        Returns:
            What leads from the journal before to the bucket as it is now, None if it has not
            changed; and the verdicts.
        """
        wakeup = live.next_change
        changed = None if self._streams is None else self._streams.changed(live.keys)
        is_idle = changed is None and (wakeup is None or wakeup > horizon)
        if is_idle and not len(events.rows):
            return None, {}
        count = len(live.keys)
        owners = live.add(columns)
        work = self._take(live, events, owners, horizon, changed)
        if self._streams is None:
            return Step(horizon, live.keys.columns_from(count), events, owners), self._found(work)
        work.is_touched[owners] = True
        return live.segment(np.flatnonzero(work.is_touched)), self._found(work)

    def _found(self, work: Work) -> dict[int, OwnedRecords]:
        """The verdicts of a visit."""
        return work.verdicts()

    def _admitted(
        self, blocks: Sequence[bytes], admitted_from: int
    ) -> tuple[list[pa.Array], Waiting, OwnedRecords | None]:
        """Read blocks: the columns of keys and the events, and those that are too late."""
        columns, events = self._records.read_blocks(blocks)
        is_late = events.rows[:, 0] < admitted_from
        if not is_late.any():
            return columns, events, None
        late = _late(columns, events, np.flatnonzero(is_late))
        on_time = np.flatnonzero(~is_late)
        columns = [column.take(pa.array(on_time)) for column in columns]
        return columns, events.take(on_time), late

    def snapshot(self, node: LiveBucket, horizon: int) -> Entry:
        admits_from = self._admission.admits_from(horizon)
        goes = node.keys.settled_from <= admits_from
        goes[node.busy] = False
        for _, monitors in self._monitors:
            goes &= np.frombuffer(monitors.settled(node.streams, admits_from), np.bool_)
        if goes.any():
            node.keep(~goes)
        return self._records.encode(node.segment(np.arange(len(node.keys))))

    def _take(
        self,
        live: LiveBucket,
        events: Waiting,
        owners: NDArray[np.int64],
        horizon: int,
        changed: NDArray[np.bool_] | None = None,
    ) -> Work:
        """Take events that are not too late, and the time up to a horizon.

        Relations change for the keys `changed`, of those that were there before.
        """
        keys = live.keys
        events = joined([live.waiting, events])
        owners = np.append(live.owners, owners)
        is_due = events.rows[:, 0] < horizon
        due, left = np.flatnonzero(is_due), np.flatnonzero(~is_due)
        live.waiting, live.owners = events.take(left), owners[left]
        is_judged = keys.next_wakeup <= horizon
        if changed is not None:
            is_judged[: len(changed)] |= changed
        is_judged[owners[due]] = True
        live.horizon = max(live.horizon, horizon)
        work = Work(live, is_judged, horizon, len(self._monitors))
        if is_judged.any():
            keys.next_wakeup[is_judged] = NEVER
            due_events, owners = events.take(due), owners[due]
            order = self._records.events.order(due_events.rows)
            order = order[np.argsort(owners[order], kind="stable")]
            due_events, owners = due_events.take(order), owners[order]
            self._judge_due(work, due_events, owners)
        np.minimum.at(keys.next_wakeup, live.owners, live.waiting.rows[:, 0] + 1)
        return work

    def _judge_due(self, work: Work, due: Waiting, owners: NDArray[np.int64]) -> None:
        """Judge events that are in order, key by key, and the time up to the horizon."""
        work.live.keys.settled_from[work.is_touched] = 0
        self._monitor(work, due, owners)

    def _monitor(self, work: Work, due: Waiting, owners: NDArray[np.int64]) -> None:
        """Monitor events that are in order, key by key; then let time pass for the keys."""
        live = work.live
        judged = np.flatnonzero(work.is_touched)
        if self._streams is None:
            starts = 1 + np.flatnonzero(np.diff(owners))
            events = self._records.events.due(due.rows)
            self._feed(work, events, live.streams[owners], SuccessiveOffsets(), starts)
        else:
            ends = np.searchsorted(owners, judged, "right").tolist()
            start = 0
            for key, end in zip(judged.tolist(), ends, strict=True):
                self._monitor_key(work, key, due.take(np.arange(start, end)))
                start = end
        wakeups = live.keys.next_wakeup
        for number, (policy, monitors) in enumerate(self._monitors):
            # Rows that wait for later values are of earlier times, so time alone decides nothing.
            if not policy.waits:
                found = monitors.pass_time(live.streams[judged], work.horizon)
                work.add(number, *found[:2])
                changed = np.frombuffer(found[2], np.int64)
                wakeups[judged] = np.minimum(wakeups[judged], changed)

    def _monitor_key(self, work: Work, key: int, due: Waiting) -> None:
        """Monitor the events of one key, with what depends on its other rows."""
        streams, keys = self._streams, work.live.keys
        assert streams is not None
        streams.begin_key(keys, key)
        streams.restore(keys.streams[key])
        # The events of one time-stamp are due at once, so their offsets begin with 0.
        offsets = SuccessiveOffsets()
        for piece in streams.pieces(due, work.horizon):
            self._feed(work, piece, work.live.streams[key], offsets, NO_STARTS)
        keys.streams[key] = streams.snapshot()
        settled_from = streams.settled_from
        keys.settled_from[key] = NEVER if settled_from is None else settled_from
        if (tick := streams.next_tick) is not None:
            keys.next_wakeup[key] = min(keys.next_wakeup[key], tick + 1)

    def _feed(
        self,
        work: Work,
        events: DueEvents,
        numbers: NDArray[np.uint32] | np.uint32,
        offsets: SuccessiveOffsets,
        starts: NDArray[np.int64],
    ) -> None:
        """Feed events to all monitors; `numbers` are those of their keys, or of their one key."""
        of_rows = offsets.taken(events.time_stamps, starts)
        for number, points, found in fed(self._monitors, events, numbers, of_rows):
            work.add(number, *found)
            work.add_messages(number, messages_of(self._monitors[number][0], points))


def fed(
    monitors: Sequence[tuple[CompiledPolicy, KeyedMonitors]],
    events: DueEvents,
    numbers: NDArray[np.uint32] | np.uint32,
    offsets: NDArray[np.uint32],
) -> Iterator[tuple[int, Points, tuple[bytes, bytes]]]:
    """Feed events to all monitors.

    Args:
        monitors: the policies and their monitors.
        events: the events, and ticks.
        numbers: the numbers of the streams of the events, or of their one stream.
        offsets: the offsets of the events within their time-stamps.

    Yields:
        The number of each policy that has time-points there, these, and the verdicts: records,
        and the numbers of their streams.
    """
    for number, (policy, own_monitors) in enumerate(monitors):
        points = points_of(policy, events, offsets)
        if points.events.count:
            own = np.broadcast_to(numbers, len(events.time_stamps))
            if points.places is not None:
                own = own[points.places]
            elif len(own) != points.events.count:
                own = np.broadcast_to(numbers, points.events.count)
            own = np.ascontiguousarray(own)
            yield number, points, own_monitors.feed(points.events, own, points.offsets)


NO_STARTS = np.array([], np.int64)


class Work:
    """What a visit finds.

    Args:
        live: the bucket.
        is_touched: by the number of a key, whether it is visited.
        horizon: the least time-stamp of events that are not late.
        policies: the number of policies.
    """

    def __init__(
        self, live: LiveBucket, is_touched: NDArray[np.bool_], horizon: int, policies: int
    ) -> None:
        self.live = live
        self.is_touched = is_touched
        self.horizon = horizon
        self._records: list[list[bytes]] = [[] for _ in range(policies)]
        self._owners: list[list[bytes]] = [[] for _ in range(policies)]
        self._messages: list[list[str | None] | None] = [None] * policies
        self._changes: dict[int, tuple[NDArray[np.void], NDArray[np.int64]]] = {}

    def add(self, policy: int, records: bytes, owners: bytes) -> None:
        """Add verdict records, whose owners are the numbers of streams."""
        if records:
            self._records[policy].append(records)
            self._owners[policy].append(owners)

    def add_messages(self, policy: int, messages: list[str | None] | None) -> None:
        """Add the messages of false verdicts."""
        if messages is not None:
            self._messages[policy] = [*(self._messages[policy] or ()), *messages]

    def add_changes(self, policy: int, changes: NDArray[np.void], keys: NDArray[np.int64]) -> None:
        """Set the changes of verdicts after judging again, with the numbers of their keys."""
        if len(changes):
            self._changes[policy] = changes, keys

    def verdicts(self) -> dict[int, OwnedRecords]:
        """Return the verdicts of each policy that has any."""
        return {
            policy: self._owned(numbers, records.tobytes(), self._messages[policy])
            for policy, (records, numbers) in self._found().items()
        }

    def all_changes(self) -> dict[int, OwnedRecords]:
        """Return the changes of each policy that has any, of which most are first verdicts."""
        parts: dict[int, list[tuple[NDArray[np.void], NDArray[np.int64]]]] = {
            policy: [(first_verdicts(records), numbers)]
            for policy, (records, numbers) in self._found().items()
        }
        for policy, found in self._changes.items():
            parts.setdefault(policy, []).append(found)
        return {
            policy: self._owned(
                np.concatenate([numbers for _, numbers in some]),
                b"".join(changes.tobytes() for changes, _ in some),
            )
            for policy, some in parts.items()
        }

    def _found(self) -> dict[int, tuple[NDArray[np.void], NDArray[np.int64]]]:
        """The verdicts of each policy that has any, and the numbers of their keys."""
        found = {}
        for policy, records in enumerate(self._records):
            if records:
                streams = np.frombuffer(b"".join(self._owners[policy]), np.uint32)
                verdicts = np.frombuffer(b"".join(records), verdict_type())
                assert len(verdicts) == len(streams)
                found[policy] = verdicts, self.live.shared.key_of[streams]
        return found

    def _owned(
        self,
        keys: NDArray[np.int64],
        records: bytes,
        messages: list[str | None] | None = None,
    ) -> OwnedRecords:
        """Records with the columns of their keys."""
        return owned_records(self.live.keys, keys, records, messages)


def owned_records(
    keys: BucketKeys,
    numbers: NDArray[np.int64],
    records: bytes,
    messages: list[str | None] | None = None,
) -> OwnedRecords:
    """Return records of the keys with some numbers."""
    is_owner = np.zeros(len(keys), np.bool_)
    is_owner[numbers] = True
    owners = (np.cumsum(is_owner) - 1)[numbers]
    columns = keys.columns_of(np.flatnonzero(is_owner))
    return OwnedRecords(columns, owners.astype(np.uint32), records, messages)


def _late(keys: Sequence[pa.Array], events: Waiting, places: NDArray[np.int64]) -> OwnedRecords:
    """The rows of late events."""
    own = [key.take(pa.array(places)) for key in keys]
    owners = np.arange(len(places), dtype=np.uint32)
    return OwnedRecords(own, owners, np.ascontiguousarray(events.rows[places]).tobytes())
