"""The monitors of a bucket of keys, whose state rests as a journal between the batches of a query.

Events wait until the watermark has passed their time-stamp, so that no earlier event of their key
can come any more. Then they are monitored in the order of time. Finally, time is advanced to the
watermark, which can decide more verdicts. Only keys that have such events or that time decides
about are visited. What has come is appended to the journal as a step: whoever has all entries can
take it again. Where that is not so, or would take long, because streams are computed key by key or
late events correct verdicts, what the keys leave is appended as a segment. Once these entries
outweigh the first one, all keys become one segment, without those whose past no longer matters.

Where late events correct verdicts, the bucket also remembers what it has judged, batch by batch
(`past_records`). Keys with events from before the time that they have been judged up to are judged
again (`replays`), and the states of their monitors replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.checking.row_offsets import SuccessiveOffsets
from mtlmon.spark.common.trace_monitors import messages_of, points_of
from mtlmon.spark.streaming.bucket_records import NEVER, Segment, Step
from mtlmon.spark.streaming.changes import first_verdicts
from mtlmon.spark.streaming.event_records import Waiting, joined
from mtlmon.spark.streaming.live_bucket import LiveBucket
from mtlmon.spark.streaming.past_records import PastBatch
from mtlmon.spark.streaming.replays import Replay
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.drive.native import KeyedMonitors
    from mtlmon.spark.common.policies import CompiledPolicy, Policies
    from mtlmon.spark.common.trace_monitors import Points
    from mtlmon.spark.streaming.bucket_keys import BucketKeys
    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.event_records import DueEvents
    from mtlmon.spark.streaming.journal import Journal
    from mtlmon.spark.streaming.key_streams import KeyStreams
    from mtlmon.spark.streaming.past_records import Past
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors

__all__ = ["NO_STARTS", "BucketMonitors", "Outcome", "OwnedRecords", "fed", "owned_records"]


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


class Outcome(NamedTuple):
    """The result of a batch for a bucket.

    Attributes:
        appended: an entry to store behind the others, or None.
        folded: an entry to store in place of all others, or None.
        wakeup: the least horizon at which there is something to do without new events, or None.
        live: the bucket after that.
        verdicts: by the number of a policy, its verdict records; or records of changes, if there is
            a past.
        late: the rows of the events that came too late; None if there are none.
    """

    appended: bytes | None
    folded: bytes | None
    wakeup: int | None
    live: LiveBucket
    verdicts: dict[int, OwnedRecords]
    late: OwnedRecords | None


class BucketMonitors:
    """Lets one bucket after the other take events.

    Args:
        policies: the policies.
        records: how blocks and entries are encoded.
        shared: the monitors.
        streams: computes the atoms that depend on other rows; None if there are none.
        is_corrected: whether late events correct verdicts.
    """

    def __init__(
        self,
        policies: Policies,
        records: BucketRecords,
        shared: SharedMonitors,
        streams: KeyStreams | None = None,
        *,
        is_corrected: bool = False,
    ) -> None:
        self._records = records
        self._is_corrected = is_corrected
        self._streams = streams
        self._shared = shared
        self._monitors = list(zip(policies.policies, shared.monitors, strict=True))

    def visit(
        self,
        journal: Journal,
        blocks: Sequence[bytes],
        horizon: int,
        past: Past | None = None,
    ) -> Outcome:
        """Go on with a bucket.

        Args:
            journal: the journal of the bucket.
            blocks: the blocks of its new events, in the order in which they came.
            horizon: the least time-stamp of events that may still wait.
            past: what has been judged in earlier batches; None if all events below the horizon are
                too late.

        Raises:
            SnapshotError: the journal belongs to other policies or settings, or is damaged.
        """
        is_done = False
        try:
            live = self._revived(journal)
            entry, verdicts, late = self._visited(live, blocks, horizon, past)
            folded = None
            if journal.head is None or (entry is not None and not journal.head.has_room(entry)):
                entry, folded = None, self._folded(live, past.admitted_from if past else horizon)
            is_done = True
        finally:
            if not is_done:
                self._shared.is_broken = True
        return Outcome(entry, folded, live.wakeup, live, verdicts, late)

    def _revived(self, journal: Journal) -> LiveBucket:
        """Take the bucket from memory, and the entries that it does not have; or take them all."""
        held, entries = journal.revive()
        if isinstance(held, LiveBucket) and held.shared is self._shared:
            live = held
        else:
            live, entries = self._begun(), journal.all()
        for entry in map(self._records.decode, entries):
            if isinstance(entry, Segment):
                live.take_segment(entry)
            else:
                live.add(entry.keys)
                self._take(live, entry.events, entry.owners, entry.horizon)
        return live

    def _begun(self) -> LiveBucket:
        """A bucket without keys."""
        return LiveBucket(self._records, self._shared)

    def _visited(
        self, live: LiveBucket, blocks: Sequence[bytes], horizon: int, past: Past | None
    ) -> tuple[bytes | None, dict[int, OwnedRecords], OwnedRecords | None]:
        """Let a bucket take events.

        Returns:
            What leads from the journal before to the bucket as it is now, None if it has not
            changed; the verdicts; and the late events.
        """
        admitted_from = horizon if past is None else past.admitted_from
        columns, events, late = self._admitted(blocks, admitted_from)
        wakeup = live.wakeup
        changed = None if self._streams is None else self._streams.changed(live.keys)
        is_idle = changed is None and (wakeup is None or wakeup > horizon)
        if is_idle and not len(events.rows):
            return None, {}, late
        count = len(live.keys)
        owners = live.add(columns)
        work = self._take(live, events, owners, horizon, past, changed)
        if self._streams is None and not work.is_corrected:
            step = Step(horizon, live.keys.columns_from(count), events, owners)
            entry = self._records.encode_step(step)
        else:
            work.is_touched[owners] = True
            entry = self._records.encode(live.segment(np.flatnonzero(work.is_touched)))
        found = work.verdicts() if past is None else work.all_changes()
        return entry, found, late

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

    def _folded(self, live: LiveBucket, admitted_from: int) -> bytes:
        """Forget keys whose past makes no difference any more; return the others as a segment.

        Args:
            live: the bucket.
            admitted_from: the least time-stamp of events that are not too late.
        """
        goes = live.keys.settled_from <= admitted_from
        goes[live.busy] = False
        for _, monitors in self._monitors:
            goes &= np.frombuffer(monitors.settled(live.streams, admitted_from), np.bool_)
        if goes.any():
            live.keep(~goes)
        return self._records.encode(live.segment(np.arange(len(live.keys))))

    def _take(
        self,
        live: LiveBucket,
        events: Waiting,
        owners: NDArray[np.int64],
        horizon: int,
        past: Past | None = None,
        changed: NDArray[np.bool_] | None = None,
    ) -> _Work:
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
        work = _Work(live, is_judged, horizon, len(self._monitors))
        if is_judged.any():
            keys.next_wakeup[is_judged] = NEVER
            due_events, owners = events.take(due), owners[due]
            order = self._records.events.order(due_events.rows)
            order = order[np.argsort(owners[order], kind="stable")]
            due_events, owners = due_events.take(order), owners[order]
            if past is not None:
                self._correct(work, due_events, owners, past)
            else:
                keys.settled_from[is_judged] = horizon if self._is_corrected else 0
                self._monitor(work, due_events, owners, np.flatnonzero(is_judged))
        np.minimum.at(keys.next_wakeup, live.owners, live.waiting.rows[:, 0] + 1)
        return work

    def _correct(self, work: _Work, due: Waiting, owners: NDArray[np.int64], past: Past) -> None:
        """Monitor events, of which some are late; remember what is judged."""
        live, keys = work.live, work.live.keys
        is_behind = np.zeros(len(keys), np.bool_)
        is_behind[owners[due.rows[:, 0] < keys.settled_from[owners]]] = True
        ahead, behind = np.flatnonzero(work.is_touched & ~is_behind), np.flatnonzero(is_behind)
        index_of = np.zeros(len(keys), np.int64)
        for some in (ahead, behind):
            index_of[some] = np.arange(len(some))
        is_late = is_behind[owners]
        rows, numbers = due.rows[~is_late], owners[~is_late]
        of_keys, since = index_of[numbers], keys.settled_from[ahead]
        advances = advanced = np.empty(0, np.int64)
        states = [(one, b"") for one in self._shared.snapshot(live.streams[ahead])]
        remembered = Waiting(rows, None)
        if len(behind):
            work.is_corrected = True
            again = Replay(self._records, self._shared, self._monitors).run(
                keys.columns_of(behind),
                due.rows[is_late],
                index_of[owners[is_late]],
                past,
                work.horizon,
            )
            live.move(behind, again.streams)
            for number, (changes, of_changes) in enumerate(again.changes):
                work.add_changes(number, changes, behind[of_changes])
                states[number] = states[number][0], again.states[number]
            of_keys = np.append(of_keys, len(ahead) + again.owners)
            since = np.append(since, again.since)
            advances, advanced = again.advances, len(ahead) + again.advanced
            remembered = Waiting(np.concatenate([rows, again.events.rows]), None)
        self._monitor(work, Waiting(rows, None), numbers, np.flatnonzero(work.is_touched))
        keys.settled_from[work.is_touched] = work.horizon
        if past.admitted_from < work.horizon:
            batch = PastBatch(
                keys.columns_of(np.append(ahead, behind)),
                since,
                len(ahead),
                remembered,
                of_keys,
                advances,
                advanced,
                states,
            )
            past.store.put((past.number, work.horizon), batch.encoded(self._records))
            past.forget()

    def _monitor(
        self, work: _Work, due: Waiting, owners: NDArray[np.int64], judged: NDArray[np.int64]
    ) -> None:
        """Monitor events that are in order, key by key; then let time pass for some keys."""
        live = work.live
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

    def _monitor_key(self, work: _Work, key: int, due: Waiting) -> None:
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
        work: _Work,
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


class _Work:
    """What a visit finds.

    Args:
        live: the bucket.
        is_touched: by the number of a key, whether it is visited.
        horizon: the least time-stamp of events that are not late.
        policies: the number of policies.

    Attributes:
        is_corrected: whether late events have corrected verdicts.
    """

    def __init__(
        self, live: LiveBucket, is_touched: NDArray[np.bool_], horizon: int, policies: int
    ) -> None:
        self.live = live
        self.is_touched = is_touched
        self.horizon = horizon
        self.is_corrected = False
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
