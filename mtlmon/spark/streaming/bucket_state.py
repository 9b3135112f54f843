"""The monitors of a bucket of keys, whose states rest as segments between the batches of a query.

Events wait until the watermark has passed their time-stamp, so that no earlier event of their key
can come any more. Then they are monitored in the order of time. Finally, time is advanced to the
watermark, which can decide more verdicts. Only keys that have events or that time decides about are
visited, and what they leave is appended as a segment. Once the appended segments outweigh the first
one, or if all keys were visited, all are folded into one, without the keys whose past no longer
matters.

Where late events correct verdicts, the bucket also remembers what it has judged, batch by batch
(`past_records`). Keys with events from before the time that they have been judged up to are judged
again (`replays`), and the states of their monitors replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mtlmon.checking.row_offsets import SuccessiveOffsets
from mtlmon.drive.native import KeyedMonitors
from mtlmon.errors import SnapshotError
from mtlmon.spark.common.trace_monitors import messages_of, points_of
from mtlmon.spark.streaming.bucket_keys import BucketKeys
from mtlmon.spark.streaming.bucket_records import NEVER, BucketRecords, KeyFacts, Segment
from mtlmon.spark.streaming.changes import first_verdicts
from mtlmon.spark.streaming.event_records import Waiting, joined
from mtlmon.spark.streaming.journal import outweighs
from mtlmon.spark.streaming.past_records import PastBatch
from mtlmon.spark.streaming.replays import Replay
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.event_records import DueEvents
    from mtlmon.spark.streaming.key_streams import KeyStreams
    from mtlmon.spark.streaming.past_records import Past

__all__ = ["BucketMonitors", "Outcome", "OwnedRecords"]

_MOST_SEGMENTS = 32


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
        appended: a segment to store behind the others, or None.
        folded: a segment to store in place of all others, or None.
        wakeup: the least horizon at which there is something to do without new events, or None.
        verdicts: by the number of a policy, its verdict records; or records of changes, if there is
            a past.
        late: the rows of the events that came too late; None if there are none.
    """

    appended: bytes | None
    folded: bytes | None
    wakeup: int | None
    verdicts: dict[int, OwnedRecords]
    late: OwnedRecords | None


class BucketMonitors:
    """The monitors, one for each policy, which are used for one bucket after the other.

    Args:
        policies: the policies.
        records: how blocks and segments are encoded.
        streams: computes the atoms that depend on other rows; None if there are none.
    """

    def __init__(
        self, policies: Policies, records: BucketRecords, streams: KeyStreams | None = None
    ) -> None:
        self._records = records
        self._streams = streams
        self._monitors = [
            (policy, KeyedMonitors(policy.program, policies.mode, own_clocks=True))
            for policy in policies.policies
        ]

    def visit(
        self,
        stored: Sequence[bytes],
        blocks: Sequence[bytes],
        horizon: int,
        past: Past | None = None,
    ) -> Outcome:
        """Continue with a bucket.

        Args:
            stored: the segments of the bucket, in their order.
            blocks: the blocks of its new events, in the order in which they came.
            horizon: the least time-stamp of events that may still wait.
            past: what has been judged in earlier batches; None if all events below the horizon are
                too late.

        Raises:
            SnapshotError: the segments belong to other policies or settings, or are damaged.
        """
        segments = [self._records.decode(one) for one in stored]
        new_keys, events = self._records.read_blocks(blocks)
        keys = BucketKeys(segments, new_keys)
        late = None
        admitted_from = horizon if past is None else past.admitted_from
        is_late = events.rows[:, 0] < admitted_from
        on_time = np.flatnonzero(~is_late)
        if is_late.any():
            late = _late(new_keys, events, np.flatnonzero(is_late))
        is_touched = keys.next_wakeup <= horizon
        is_touched[keys.of_events[on_time]] = True
        touched = np.flatnonzero(is_touched)
        if not len(touched) and stored:
            return Outcome(None, None, _least(keys.next_wakeup), {}, late)

        self._restore(segments, keys)
        waiting, of_waiting = keys.waiting(segments, is_touched)
        current = joined([*waiting, events.take(on_time)])
        owners = np.append(of_waiting, keys.of_events[on_time])
        order = self._records.events.order(current.rows)
        order = order[np.argsort(owners[order], kind="stable")]
        current, owners = current.take(order), owners[order]
        is_due = current.rows[:, 0] < horizon
        due, left = np.flatnonzero(is_due), np.flatnonzero(~is_due)
        work = _Work(keys, touched, horizon, len(self._monitors))
        if past is None:
            self._monitor(work, current.take(due), owners[due], touched)
        else:
            self._correct(work, current.take(due), owners[due], past)
        np.minimum.at(work.next_wakeup, work.place_of[owners[left]], current.rows[left, 0] + 1)
        segment = Segment(
            keys.columns_of(touched),
            work.facts(),
            current.take(left),
            work.place_of[owners[left]],
            [one.snapshot(keys.stream_of[touched]) for _, one in self._monitors],
        )
        wakeups = keys.next_wakeup.copy()
        wakeups[touched] = work.next_wakeup
        found = work.verdicts() if past is None else work.all_changes()
        outcome = Outcome(None, None, _least(wakeups), found, late)
        # a segment of all keys needs no others, which would only be read again
        if stored and len(stored) < _MOST_SEGMENTS and len(touched) < keys.count:
            appended = self._records.encode(segment)
            if not outweighs([*map(len, stored), len(appended)]):
                return outcome._replace(appended=appended)
        folded = self._folded(segments, keys, is_touched, segment, admitted_from)
        if past is not None:
            past.forget()
        return outcome._replace(folded=folded)

    def _restore(self, segments: Sequence[Segment], keys: BucketKeys) -> None:
        """Give each key of each segment the next number in the monitors, then each new key."""
        for number, (_, monitors) in enumerate(self._monitors):
            monitors.forget_all()
            try:
                for segment in segments:
                    if len(segment.monitors) != len(self._monitors):
                        raise SnapshotError(f"there are {len(segment.monitors)} policies in it")
                    monitors.restore(segment.monitors[number])
            except SnapshotError as error:
                raise SnapshotError(
                    f"the state of the query does not fit the policies: {error}; other policies "
                    "or another mode need a checkpointLocation of their own"
                ) from None
            if len(monitors) != keys.entry_count:
                raise SnapshotError("the state of the query is damaged")
            monitors.extend(keys.stream_count)

    def _correct(self, work: _Work, due: Waiting, owners: NDArray[np.int64], past: Past) -> None:
        """Monitor events, of which some are late; remember what is judged."""
        keys, touched = work.keys, work.touched
        is_judged = keys.next_wakeup <= work.horizon
        is_judged[owners] = True
        # Time does not pass for the others, which only wait: a past batch would have to tell.
        work.next_wakeup[:] = np.where(is_judged[touched], NEVER, keys.next_wakeup[touched])
        work.settled_from[:] = np.where(
            is_judged[touched], work.horizon, keys.settled_from[touched]
        )
        is_behind = np.zeros(keys.count, np.bool_)
        is_behind[owners[due.rows[:, 0] < keys.settled_from[owners]]] = True
        ahead, behind = np.flatnonzero(is_judged & ~is_behind), np.flatnonzero(is_behind)
        index_of = np.zeros(keys.count, np.int64)
        for some in (ahead, behind):
            index_of[some] = np.arange(len(some))
        is_late = is_behind[owners]
        rows, numbers = due.rows[~is_late], owners[~is_late]
        of_keys, since = index_of[numbers], keys.settled_from[ahead]
        advances = advanced = np.empty(0, np.int64)
        states = [(one.snapshot(keys.stream_of[ahead]), b"") for _, one in self._monitors]
        remembered = Waiting(rows, None)
        if len(behind):
            again = Replay(self._records, self._monitors).run(
                keys.columns_of(behind),
                due.rows[is_late],
                index_of[owners[is_late]],
                past,
                work.horizon,
            )
            keys.move(behind, again.streams, len(self._monitors[0][1]))
            for number, (changes, of_changes) in enumerate(again.changes):
                work.add_changes(number, changes, behind[of_changes])
                states[number] = states[number][0], again.states[number]
            of_keys = np.append(of_keys, len(ahead) + again.owners)
            since = np.append(since, again.since)
            advances, advanced = again.advances, len(ahead) + again.advanced
            remembered = Waiting(np.concatenate([rows, again.events.rows]), None)
        self._monitor(work, Waiting(rows, None), numbers, np.flatnonzero(is_judged))
        if past.admitted_from < work.horizon and is_judged.any():
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

    def _monitor(
        self, work: _Work, due: Waiting, owners: NDArray[np.int64], judged: NDArray[np.int64]
    ) -> None:
        """Monitor events that are in order, key by key; then let time pass for some keys."""
        numbers = work.keys.stream_of[owners]
        if self._streams is None:
            starts = 1 + np.flatnonzero(np.diff(owners))
            self._feed(
                work, self._records.events.due(due.rows), numbers, SuccessiveOffsets(), starts
            )
        else:
            ends = np.searchsorted(owners, work.touched, "right").tolist()
            start = 0
            for place, end in enumerate(ends):
                self._monitor_key(work, place, due.take(np.arange(start, end)))
                start = end
        numbers = work.keys.stream_of[judged]
        places = work.place_of[judged]
        for number, (policy, monitors) in enumerate(self._monitors):
            # Rows that wait for later values are of earlier times, so time alone decides nothing.
            if not policy.waits:
                records, of_records, changes = monitors.pass_time(numbers, work.horizon)
                work.add(number, records, of_records)
                changed = np.frombuffer(changes, np.int64)
                work.next_wakeup[places] = np.minimum(work.next_wakeup[places], changed)

    def _monitor_key(self, work: _Work, place: int, due: Waiting) -> None:
        """Monitor the events of one key, with what depends on its other rows."""
        streams, key = self._streams, work.touched[place]
        assert streams is not None
        streams.begin_key(work.keys.values_of(key))
        streams.restore(work.keys.streams_of(key))
        # The events of one time-stamp are due at once, so their offsets begin with 0.
        offsets = SuccessiveOffsets()
        for piece in streams.pieces(due, work.horizon):
            number = work.keys.stream_of[key]
            self._feed(work, piece, number, offsets, _NO_STARTS)
        work.streams[place] = streams.snapshot()
        settled_from = streams.settled_from
        work.settled_from[place] = NEVER if settled_from is None else settled_from
        if (tick := streams.next_tick) is not None:
            work.next_wakeup[place] = min(work.next_wakeup[place], tick + 1)

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
        for number, (policy, monitors) in enumerate(self._monitors):
            points = points_of(policy, events, of_rows)
            if points.events.count:
                own = np.broadcast_to(numbers, len(events.time_stamps))
                if points.places is not None:
                    own = own[points.places]
                elif len(own) != points.events.count:
                    own = np.broadcast_to(numbers, points.events.count)
                own = np.ascontiguousarray(own)
                work.add(number, *monitors.feed(points.events, own, points.offsets))
                work.add_messages(number, messages_of(policy, points))

    def _folded(
        self,
        segments: Sequence[Segment],
        keys: BucketKeys,
        is_touched: NDArray[np.bool_],
        latest: Segment,
        horizon: int,
    ) -> bytes:
        """Encode all keys whose past matters for events from the horizon on as one segment."""
        touched = np.flatnonzero(is_touched)
        facts = keys.facts_with(touched, latest.facts)
        waiting, owners = keys.waiting(segments, ~is_touched)
        owners = np.append(owners, touched[latest.owners])
        goes = facts.settled_from <= horizon
        goes[owners] = False
        for _, monitors in self._monitors:
            goes &= np.frombuffer(monitors.settled(keys.stream_of, horizon), np.bool_)
        kept = np.flatnonzero(~goes)
        place_of = np.cumsum(~goes) - 1
        segment = Segment(
            keys.columns_of(kept),
            facts.take(kept),
            joined([*waiting, latest.waiting]),
            place_of[owners],
            [one.snapshot(keys.stream_of[kept]) for _, one in self._monitors],
        )
        return self._records.encode(segment)


_NO_STARTS = np.array([], np.int64)


class _Work:
    """What a visit finds.

    Args:
        keys: the keys of the bucket.
        touched: the numbers of those that are visited, in increasing order.
        horizon: the least time-stamp of events that are not late.
        policies: the number of policies.
    """

    def __init__(
        self, keys: BucketKeys, touched: NDArray[np.int64], horizon: int, policies: int
    ) -> None:
        self.keys = keys
        self.touched = touched
        self.horizon = horizon
        # the index of a key among those that are visited, by its number
        self.place_of = np.zeros(keys.count, np.int64)
        self.place_of[touched] = np.arange(len(touched))
        self.next_wakeup = np.full(len(touched), NEVER, np.int64)
        self.settled_from = np.zeros(len(touched), np.int64)
        self.streams = [b""] * len(touched)
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

    def facts(self) -> KeyFacts:
        """Return what is known of the keys that are visited."""
        streams = pa.array(self.streams, pa.large_binary())
        return KeyFacts(self.next_wakeup, self.settled_from, streams)

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
        key_of = np.zeros(self.keys.stream_count, np.int64)
        key_of[self.keys.stream_of] = np.arange(self.keys.count)
        found = {}
        for policy, records in enumerate(self._records):
            if records:
                streams = np.frombuffer(b"".join(self._owners[policy]), np.uint32)
                verdicts = np.frombuffer(b"".join(records), verdict_type())
                assert len(verdicts) == len(streams)
                found[policy] = verdicts, key_of[streams]
        return found

    def _owned(
        self,
        keys: NDArray[np.int64],
        records: bytes,
        messages: list[str | None] | None = None,
    ) -> OwnedRecords:
        """Records with the columns of their keys."""
        numbers, owners = np.unique(keys, return_inverse=True)
        columns = self.keys.columns_of(numbers)
        return OwnedRecords(columns, owners.astype(np.uint32), records, messages)


def _late(keys: Sequence[pa.Array], events: Waiting, places: NDArray[np.int64]) -> OwnedRecords:
    """The rows of late events."""
    own = [key.take(pa.array(places)) for key in keys]
    owners = np.arange(len(places), dtype=np.uint32)
    return OwnedRecords(own, owners, np.ascontiguousarray(events.rows[places]).tobytes())


def _least(wakeups: NDArray[np.int64]) -> int | None:
    """The least of some time-stamps, or None if it is `NEVER`."""
    least = int(wakeups.min(initial=NEVER))
    return None if least == NEVER else least
