"""Corrects verdicts of policies with streams, ticks or look-ups, where rows of a stream come late.

What such a policy says at a row depends on other rows, of its key and perhaps of all. So for each
key, the bucket remembers the states of its streams and monitors at a time before which no row can
come any more, the events since, and the verdicts that these have brought. Whatever changes, a key
is judged from there up to the horizon as if it had never been; what it says now and has said before
is compared. No operator and no stream has an algorithm for late events.

A key is judged again if it has new events, if time decides about it, or if relations of rows are
not what they were at the times of its events or ticks. What is remembered goes on to a later time
whenever a key is judged. As relations are told from the last such time only, a key is visited once
its earliest event or tick is before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.row_offsets import SuccessiveOffsets
from mtlmon.errors import SnapshotError
from mtlmon.spark.streaming.bucket_records import NEVER
from mtlmon.spark.streaming.bucket_state import NO_STARTS, BucketMonitors, fed, owned_records
from mtlmon.spark.streaming.changes import differences
from mtlmon.spark.streaming.entries import DAMAGED
from mtlmon.spark.streaming.event_records import joined
from mtlmon.spark.streaming.live_bucket import LiveBucket
from mtlmon.support.snapshot_parts import joined_parts, split_parts
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.bucket_records import BucketRecords, Segment, Step
    from mtlmon.spark.streaming.bucket_state import OwnedRecords
    from mtlmon.spark.streaming.event_records import DueEvents, Waiting
    from mtlmon.spark.streaming.key_streams import KeyStreams
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors

    Emitted = tuple[NDArray[np.void], NDArray[np.int64]]

__all__ = ["StreamCorrections"]


class _CorrectedBucket(LiveBucket):
    """A bucket whose states are of the past, with all events since.

    Attributes:
        emitted: for each policy, the verdicts since, and the numbers of their keys.
    """

    def __init__(self, records: BucketRecords, shared: SharedMonitors) -> None:
        super().__init__(records, shared)
        nothing = np.empty(0, verdict_type()), np.empty(0, np.int64)
        self.emitted: list[Emitted] = [nothing] * len(shared.monitors)

    @property
    def busy(self) -> NDArray[np.int64]:
        return np.concatenate([self.owners, *(owners for _, owners in self.emitted)])

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + sum(one.nbytes for emitted in self.emitted for one in emitted)

    def keep(self, is_kept: NDArray[np.bool_]) -> None:
        numbers = np.cumsum(is_kept) - 1
        self.emitted = [(records, numbers[owners]) for records, owners in self.emitted]
        super().keep(is_kept)

    def emit_again(self, number: int, is_other: NDArray[np.bool_], emitted: Emitted) -> None:
        """Replace the verdicts of a policy about some keys."""
        records, owners = self.emitted[number]
        kept = ~is_other[owners]
        self.emitted[number] = (
            _together(records[kept], emitted[0]),
            np.concatenate([owners[kept], emitted[1]]),
        )

    def take_segment(self, segment: Segment) -> None:
        count = len(self.emitted)
        emitted = segment.monitors[count:]
        if len(emitted) != count:
            raise SnapshotError(DAMAGED)
        super().take_segment(segment._replace(monitors=segment.monitors[:count]))
        numbers = self.keys.add(segment.keys)
        is_other = np.zeros(len(self.keys), np.bool_)
        is_other[numbers] = True
        try:
            for policy, content in enumerate(emitted):
                records, owners = split_parts(content)
                found = np.frombuffer(records, verdict_type())
                own = numbers[np.frombuffer(owners, np.uint32)]
                self.emit_again(policy, is_other, (found, own))
        except (ValueError, IndexError) as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None

    def segment(self, numbers: NDArray[np.int64]) -> Segment:
        places = np.full(len(self.keys), -1, np.int64)
        places[numbers] = np.arange(len(numbers))
        emitted = []
        for records, owners in self.emitted:
            own = places[owners]
            is_own = own >= 0
            indices = own[is_own].astype(np.uint32)
            emitted.append(joined_parts([records[is_own].tobytes(), indices.tobytes()]))
        found = super().segment(numbers)
        return found._replace(monitors=[*found.monitors, *emitted])


class StreamCorrections(BucketMonitors):
    """Lets one bucket after the other take events, of which some are late.

    Args:
        policies: the policies.
        records: how blocks and entries are encoded.
        shared: the monitors.
        streams: computes what depends on other rows.
        lateness: how far below the horizon events are taken in.
    """

    def __init__(
        self,
        policies: Policies,
        records: BucketRecords,
        shared: SharedMonitors,
        streams: KeyStreams,
        lateness: int,
    ) -> None:
        super().__init__(policies, records, shared, streams, lateness)
        self._key_streams = streams
        self._lateness = lateness

    def begin(self, key: tuple[object, ...]) -> LiveBucket:
        return _CorrectedBucket(self._records, self._shared)

    def _updated(
        self, live: LiveBucket, columns: list[pa.Array], events: Waiting, horizon: int
    ) -> tuple[Segment | Step | None, dict[int, OwnedRecords]]:
        assert isinstance(live, _CorrectedBucket)
        streams = self._key_streams
        is_judged = live.keys.next_wakeup <= horizon
        for found in (
            streams.changed(live.keys),
            streams.concerned(live.waiting, live.owners, len(live.keys)),
        ):
            if found is not None:
                is_judged |= found
        owners = live.add(columns)
        is_judged = np.append(is_judged, np.zeros(len(live.keys) - len(is_judged), np.bool_))
        is_judged[owners[events.rows[:, 0] < horizon]] = True
        is_stored = is_judged.copy()
        is_stored[owners] = True
        if not is_stored.any():
            return None, {}
        due, due_owners = self._due(live, events, owners, is_judged, horizon)
        judged = np.flatnonzero(is_judged)
        live.horizon = horizon
        changes = {}
        if len(judged):
            admits_from = self._admission.admits_from(horizon)
            changes = self._judge(live, judged, due, due_owners, admits_from)
        waiting = live.waiting.rows[:, 0] >= horizon
        of_waiting = live.owners[waiting]
        np.minimum.at(live.keys.next_wakeup, of_waiting, live.waiting.rows[waiting, 0] + 1)
        return live.segment(np.flatnonzero(is_stored)), changes

    def _due(
        self,
        live: _CorrectedBucket,
        events: Waiting,
        owners: NDArray[np.int64],
        is_judged: NDArray[np.bool_],
        horizon: int,
    ) -> tuple[Waiting, NDArray[np.int64]]:
        """Add events; return those that are to be judged, key by key and in order.

        Of those of a time-stamp, what has been judged before is first. They wait no longer.
        """
        is_old = np.append(
            live.waiting.rows[:, 0] < live.horizon, np.zeros(len(events.rows), np.bool_)
        )
        events = joined([live.waiting, events])
        owners = np.append(live.owners, owners)
        is_due = (events.rows[:, 0] < horizon) & is_judged[owners]
        left, due = np.flatnonzero(~is_due), np.flatnonzero(is_due)
        live.waiting, live.owners = events.take(left), owners[left]
        events, owners, is_old = events.take(due), owners[due], is_old[due]
        places = np.arange(len(due))
        new = np.flatnonzero(~is_old)
        places[new[self._records.events.order(events.rows[new])]] = np.arange(len(new))
        order = np.lexsort((places, ~is_old, events.rows[:, 0], owners))
        return events.take(order), owners[order]

    def _judge(
        self,
        live: _CorrectedBucket,
        judged: NDArray[np.int64],
        due: Waiting,
        owners: NDArray[np.int64],
        admitted_from: int,
    ) -> dict[int, OwnedRecords]:
        """Judge keys from what is remembered of them; return the changes of their verdicts."""
        keys, streams, horizon = live.keys, self._key_streams, live.horizon
        firsts = np.searchsorted(owners, judged)
        lasts = np.searchsorted(owners, judged, "right")
        early = due.rows[:, 0] < admitted_from
        counts = np.append(0, np.cumsum(early))
        middles = firsts + counts[lasts] - counts[firsts]
        before: list[list[DueEvents]] = []
        after: list[list[DueEvents]] = []
        earliest = np.full(len(judged), NEVER)
        spans = zip(judged.tolist(), firsts.tolist(), middles.tolist(), lasts.tolist(), strict=True)
        for place, (key, first, middle, last) in enumerate(spans):
            streams.begin_key(keys, key)
            streams.restore(keys.streams[key])
            old = due.take(np.arange(first, middle))
            before.append(list(streams.pieces(old, admitted_from, horizon)))
            keys.streams[key] = streams.snapshot()
            settled_from = streams.settled_from
            keys.settled_from[key] = NEVER if settled_from is None else settled_from
            after.append(list(streams.pieces(due.take(np.arange(middle, last)), horizon)))
            keys.next_wakeup[key] = NEVER
            if (tick := streams.next_tick) is not None:
                keys.next_wakeup[key] = tick + 1
            earliest[place] = min(map(_earliest, after[-1]), default=NEVER)
        # the events since are those to be remembered
        kept = np.flatnonzero(~early)
        live.waiting = joined([live.waiting, due.take(kept)])
        live.owners = np.append(live.owners, owners[kept])

        found = self._fed(before, live.streams[judged], admitted_from)
        again = self._shared.restore(self._shared.snapshot(live.streams[judged]))
        wakeups = keys.next_wakeup[judged]
        now = self._fed(after, again, horizon, wakeups)
        is_judged = np.zeros(len(keys), np.bool_)
        is_judged[judged] = True
        numbers = judged.astype(np.uint32)
        changes = {}
        has_emitted = np.zeros(len(judged), np.bool_)
        for policy, (early_emitted, emitted) in enumerate(zip(found, now, strict=True)):
            records, of_keys = live.emitted[policy]
            own = is_judged[of_keys]
            was = records[own], of_keys[own].astype(np.uint32)
            of_said = np.append(early_emitted[1], emitted[1])
            said = _together(early_emitted[0], emitted[0]), numbers[of_said]
            changed, of_changes = differences(was, numbers, said, numbers)
            live.emit_again(policy, is_judged, (emitted[0], judged[emitted[1]]))
            has_emitted[emitted[1]] = True
            if len(changed):
                found_keys = judged[of_changes]
                changes[policy] = owned_records(keys, found_keys, changed.tobytes())
        self._shared.drop(again)
        # once all this can change no more
        later = np.where(has_emitted | (earliest < NEVER), horizon, NEVER - self._lateness - 1)
        if streams.hears:
            later = np.where(earliest < NEVER, earliest, later)
        keys.next_wakeup[judged] = np.minimum(wakeups, later + self._lateness + 1)
        return changes

    def _fed(
        self,
        pieces: Iterable[Sequence[DueEvents]],
        streams: NDArray[np.uint32],
        until: int,
        wakeups: NDArray[np.int64] | None = None,
    ) -> list[Emitted]:
        """Feed what was computed for some keys, and let time pass for them.

        Args:
            pieces: the events and ticks of each key.
            streams: the numbers of their streams.
            until: the time.
            wakeups: gets the horizons at which time decides something.

        Returns:
            For each policy, the verdicts, and for each of these the index of its key.
        """
        records: list[list[bytes]] = [[] for _ in self._monitors]
        owners: list[list[bytes]] = [[] for _ in self._monitors]
        for number, some in zip(streams, pieces, strict=True):
            # The events of one time-stamp are together, so their offsets begin with 0.
            offsets = SuccessiveOffsets()
            for piece in some:
                of_rows = offsets.taken(piece.time_stamps, NO_STARTS)
                for policy, _, one in fed(self._monitors, piece, number, of_rows):
                    records[policy].append(one[0])
                    owners[policy].append(one[1])
        for policy, (_, monitors) in enumerate(self._monitors):
            found, of_found, changed = monitors.pass_time(streams, until)
            records[policy].append(found)
            owners[policy].append(of_found)
            if wakeups is not None:
                np.minimum(wakeups, np.frombuffer(changed, np.int64), out=wakeups)
        order = np.argsort(streams)
        return [
            (
                np.frombuffer(b"".join(some), verdict_type()),
                order[
                    np.searchsorted(streams, np.frombuffer(b"".join(own), np.uint32), sorter=order)
                ],
            )
            for some, own in zip(records, owners, strict=True)
        ]


def _together(one: NDArray[np.void], other: NDArray[np.void]) -> NDArray[np.void]:
    """All verdicts of both."""
    return np.concatenate([one, other], dtype=verdict_type())


def _earliest(events: DueEvents) -> int:
    """The time of the first event or tick; `NEVER` if there is none."""
    found = int(events.time_stamps.min(initial=NEVER))
    for ticks in events.letters.of_ticks:
        for one in ticks.values():
            found = min(found, int(one.ticks.time_stamps.min(initial=NEVER)))
    return found
