"""The monitors of a bucket of keys, whose state rests as a journal between the batches of a query.

Events wait until the watermark has passed their time-stamp, so that no earlier event of their key
can come in time any more. Then they are monitored in the order of time. Finally, time is advanced
to the watermark, which can decide more verdicts. Only keys that have such events or that time
decides about are visited. What has come is appended to the journal as a step: whoever has all
entries can take it again. Where that is not so, or would take long, because streams are computed
key by key, what the keys leave is appended as a segment. Once these entries outweigh the first one,
all keys become one segment, without those whose past no longer matters.

A key wakes up at its earliest waiting event, its next tick, or the next time-stamp at which time
alone can bring a verdict, and its bucket with the earliest of its keys. Ticks below the watermark
are due, as no row below it can come any more. The monitors are those of the worker
(`shared_monitors`).

Where late events correct verdicts, what is stored of a key is its base: its states at a time before
which no event can come any more, what it has taken since, and the verdicts that this has brought.
When something comes late, the key is judged from the base on as if it had never been; what it says
now and has said before is compared. No operator and no stream has an algorithm for late events. The
times that have passed and brought a verdict are taken again, too, as equivalences depend on them.
Keys without late events go on from their present, which is in memory only. The base moves on when a
key is judged from there, at the latest once it is two latenesses old. If policies look values up in
relations of rows, a key is always judged from its base, as relations may be others now; and the
base is never older than the lateness, as relations are told no further back.

`mtlmon.history` keeps a state for each few events and stops where one is unchanged. But it keeps
all events as long as a verdict can change: for ever, where a formula looks ahead without a bound.
Here, the states of time-points that wait stand for them, which a stream without an end needs.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from mtlmon.checking.row_offsets import SuccessiveOffsets
from mtlmon.spark.common.trace_monitors import messages_of, points_of
from mtlmon.spark.streaming.bucket_keys import NO_STREAM
from mtlmon.spark.streaming.bucket_records import NEVER, Segment
from mtlmon.spark.streaming.changes import differences, first_verdicts
from mtlmon.spark.streaming.event_records import Waiting
from mtlmon.spark.streaming.lateness import Admission
from mtlmon.spark.streaming.live_bucket import (
    NO_VERDICTS,
    KeyVerdicts,
    LiveBucket,
    Taken,
)
from mtlmon.spark.streaming.nodes import Machine
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.spark.common.events import Events
    from mtlmon.spark.common.policies import Policies
    from mtlmon.spark.streaming.bucket_keys import BucketKeys
    from mtlmon.spark.streaming.bucket_records import BucketRecords
    from mtlmon.spark.streaming.entries import Entry
    from mtlmon.spark.streaming.key_streams import KeyStreams
    from mtlmon.spark.streaming.live_bucket import States
    from mtlmon.spark.streaming.nodes import Sent
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors

_NONE = np.empty(0, np.int64)

Changes: TypeAlias = "list[list[tuple[NDArray[np.void], NDArray[np.int64]]]]"
"""Records of changes of each policy, with the numbers of their keys."""

__all__ = ["Answers", "BucketMonitors", "OwnedRecords"]


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
        self._hears = streams is not None and streams.hears
        # how much older than the lateness bases get
        self._slack = 0 if self._hears else lateness or 0

    def begin(self, key: tuple[object, ...]) -> LiveBucket:
        return LiveBucket(self._records, self._shared, corrects=self._admission.corrects)

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
            if entry.monitors:
                node.take_segment(entry)
            else:
                node.add(entry.keys)
                self._take(node, entry.events, entry.owners, entry.horizon)

    def update(self, node: LiveBucket, sent: Sent) -> tuple[Entry | None, Answers]:
        horizon, streams = sent.horizon, self._streams
        columns, events = self._records.read_blocks(sent.blocks)
        is_late = events.rows[:, 0] < self._admission.admits_from(horizon)
        late = None
        if is_late.any():
            places = np.flatnonzero(is_late)
            own = [column.take(pa.array(places)) for column in columns]
            rows = np.ascontiguousarray(events.rows[places]).tobytes()
            late = OwnedRecords(own, np.arange(len(places), dtype=np.uint32), rows)
            on_time = np.flatnonzero(~is_late)
            columns = [column.take(pa.array(on_time)) for column in columns]
            events = events.take(on_time)
        changed = None
        if streams is not None:
            streams.notify(sent.side)
            past = node.past if self._admission.corrects and self._hears else None
            changed = streams.changed(node.keys, past)
        wakeup = node.next_change
        is_idle = changed is None and (wakeup is None or wakeup > horizon)
        if is_idle and not len(events.rows):
            return None, Answers({}, late)
        count = len(node.keys)
        owners = node.add(columns)
        is_judged, verdicts = self._take(node, events, owners, horizon, changed)
        if streams is None:
            new = node.keys.columns_of(np.arange(count, len(node.keys)))
            entry = self._records.encode(Segment(horizon, new, events, owners))
        else:
            is_judged[owners] = True
            entry = self._records.encode(node.segment(np.flatnonzero(is_judged)))
        return entry, Answers(verdicts, late)

    def snapshot(self, node: LiveBucket, horizon: int) -> Entry:
        admits_from = self._admission.admits_from(horizon)
        node.forget(node.keys.facts["settled_from"] <= admits_from, admits_from)
        return self._records.encode(node.segment(np.arange(len(node.keys))))

    def _take(
        self,
        live: LiveBucket,
        events: Waiting,
        owners: NDArray[np.int64],
        horizon: int,
        changed: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.bool_], dict[int, OwnedRecords]]:
        """Take events that are not too late, and the time up to a horizon.

        Relations change for the keys `changed`, of those that were there before.

        Returns:
            By the number of a key, whether it has been judged; and the verdicts.
        """
        keys = live.keys
        due = live.due(events, owners, horizon)
        is_judged = keys.facts["next_wakeup"] <= horizon
        if changed is not None:
            is_judged[: len(changed)] |= changed
        is_judged[due.owners] = True
        verdicts: dict[int, OwnedRecords] = {}
        if is_judged.any():
            order = self._records.events.order(due.events.rows)
            order = order[np.argsort(due.owners[order], kind="stable")]
            due = Taken(due.events.take(order), due.owners[order])
            if self._admission.corrects:
                verdicts = self._corrected(live, is_judged, due)
            else:
                found = self._run(live, live.bases, np.flatnonzero(is_judged), due, horizon)
                verdicts = {
                    policy: _owned(keys, own.keys, own.records.tobytes(), found.messages[policy])
                    for policy, own in enumerate(found.verdicts)
                    if len(own.keys)
                }
        np.minimum.at(
            keys.facts["next_wakeup"], live.waiting.owners, live.waiting.events.rows[:, 0] + 1
        )
        return is_judged, verdicts

    def _corrected(
        self, live: LiveBucket, is_judged: NDArray[np.bool_], due: Taken
    ) -> dict[int, OwnedRecords]:
        """Judge events that are in order, and the time up to the horizon; return changes."""
        horizon, facts = live.horizon, live.keys.facts
        is_again = live.present.monitors == NO_STREAM
        is_again[due.owners[due.events.rows[:, 0] < facts["judged_to"][due.owners]]] = True
        ends = self._admission.admits_from(horizon) - self._slack
        is_old = is_judged & ~is_again & (facts["oldest"] < ends)
        is_again &= is_judged
        changes: Changes = [[] for _ in self._monitors]
        if self._streams is None:
            # PERF: first without what is new, so that they say what they have said before
            nothing = Taken(self._records.events.nothing, _NONE)
            self._judge_again(live, changes, is_old, nothing, passes=False)
        else:
            is_again |= is_old
        going = np.flatnonzero(is_judged & ~is_again)
        new, others = due.of_keys(is_again)
        found = self._run(live, live.present, going, others, horizon)
        for own, verdicts in zip(changes, found.verdicts, strict=True):
            own.append((first_verdicts(verdicts.records), verdicts.keys))
        passed = np.append(found.passed, self._judge_again(live, changes, is_again, new))
        facts["oldest"][passed] = np.minimum(facts["oldest"][passed], horizon)
        times = np.full(len(passed), horizon)
        live.note(others._replace(advances=times, advanced=passed, verdicts=found.verdicts))
        judged = np.flatnonzero(is_judged)
        facts["judged_to"][judged] = horizon
        oldest = facts["oldest"][judged]
        live.drop_present(judged if self._hears else judged[oldest == NEVER])
        # to move the base on
        lasts = 1 + self._slack + (self._admission.lateness or 0)
        wakeups = np.maximum(np.minimum(oldest, NEVER - lasts) + lasts, horizon + 1)
        wakeups[oldest == NEVER] = NEVER
        next_wakeup = facts["next_wakeup"]
        next_wakeup[judged] = np.minimum(next_wakeup[judged], wakeups)
        return {
            policy: _owned(live.keys, owners, b"".join(one.tobytes() for one, _ in own))
            for policy, own in enumerate(changes)
            if len(owners := np.concatenate([keys for _, keys in own]))
        }

    def _judge_again(
        self,
        live: LiveBucket,
        changes: Changes,
        is_again: NDArray[np.bool_],
        new: Taken,
        *,
        passes: bool = True,
    ) -> NDArray[np.int64]:
        """Judge some keys from their bases, with what is new; move these on, and add changes.

        Returns:
            The keys for which time that passes up to the horizon, if it does, brings verdicts.
        """
        again = np.flatnonzero(is_again)
        if not len(again):
            return _NONE
        admits_from = self._admission.admits_from(live.horizon)
        known, past = live.past.of_keys(is_again)
        early, later = Taken.together([known, new]).ordered().split(admits_from)
        before = self._run(live, live.bases, again, early, admits_from, passes=False)
        live.begin_present(again)
        live.keys.facts["oldest"][again] = NEVER
        now = self._run(live, live.present, again, later, live.horizon, passes=passes)
        live.past = Taken.together([past, later._replace(verdicts=now.verdicts)])
        for policy, own in enumerate(zip(before.verdicts, now.verdicts, strict=True)):
            said = KeyVerdicts.together(own)
            changes[policy].append(differences(known.verdicts[policy], said))
        return now.passed if passes else _NONE

    def _run(
        self,
        live: LiveBucket,
        states: States,
        judged: NDArray[np.int64],
        taken: Taken,
        until: int,
        *,
        passes: bool = True,
    ) -> Found:
        """Let the states of some keys take what they have not taken; then let time pass for them.

        Args:
            live: the bucket.
            states: the states.
            judged: the numbers of the keys.
            taken: events below a time and times, by key and in their order.
            until: the time: all ticks below it come, too.
            passes: whether that time passes in the monitors.
        """
        found = Found(self._shared)
        if not len(judged):
            return found
        keys, streams = live.keys, self._streams
        next_wakeup, settled_from = keys.facts["next_wakeup"], keys.facts["settled_from"]
        next_wakeup[judged], settled_from[judged] = NEVER, 0
        if streams is None:
            for span, time in taken.spans():
                events = self._records.events.due(span.events.rows)
                starts = 1 + np.flatnonzero(np.diff(span.owners))
                self._feed(found, live, events, span.owners, states, SuccessiveOffsets(), starts)
                if time is not None:
                    self._pass_time(found, states.monitors[span.advanced], time)
        else:
            for key, own in zip(judged, taken.of_each(judged), strict=True):
                streams.begin_key(keys, int(key))
                streams.restore(states.streams[key])
                # The events of one time-stamp are together, so their offsets begin with 0.
                offsets = SuccessiveOffsets()
                for span, time in own.spans():
                    below = until if time is None else time
                    for piece in streams.pieces(span.events, below, live.horizon):
                        self._feed(found, live, piece, key, states, offsets, _NONE)
                    if time is not None:
                        self._pass_time(found, states.monitors[span.advanced], time)
                states.streams[key] = streams.snapshot()
                settled, tick = streams.settled_from, streams.next_tick
                settled_from[key] = NEVER if settled is None else settled
                next_wakeup[key] = NEVER if tick is None else tick + 1
        if passes:
            wakeups = self._pass_time(found, states.monitors[judged], until)
            next_wakeup[judged] = np.minimum(next_wakeup[judged], wakeups)
        return found

    def _feed(
        self,
        found: Found,
        live: LiveBucket,
        events: Events,
        keys: NDArray[np.int64] | np.int64,
        states: States,
        offsets: SuccessiveOffsets,
        starts: NDArray[np.int64],
    ) -> None:
        """Feed events, and ticks, to all monitors; `keys` are those of events, or the one of all.

        `starts` are the indices of events with which another key begins.
        """
        if self._admission.corrects:
            ticks = [one.ticks for own in events.letters.of_ticks for one in own.values()]
            times = np.concatenate([events.time_stamps, *(one.time_stamps for one in ticks)])
            np.minimum.at(live.keys.facts["oldest"], np.broadcast_to(keys, len(times)), times)
        of_rows = offsets.taken(events.time_stamps, starts)
        numbers = states.monitors[keys]
        for policy, (compiled, monitors) in enumerate(self._monitors):
            points = points_of(compiled, events, of_rows)
            if not points.events.count:
                continue
            own = np.broadcast_to(numbers, len(events.time_stamps))
            if points.places is not None:
                own = own[points.places]
            elif len(own) != points.events.count:
                own = np.broadcast_to(numbers, points.events.count)
            own = np.ascontiguousarray(own)
            found.add(policy, *monitors.feed(points.events, own, points.offsets))
            found.add_messages(policy, messages_of(compiled, points))

    def _pass_time(self, found: Found, streams: NDArray[np.uint32], time: int) -> NDArray[np.int64]:
        """Let time pass in all monitors; return the horizons at which it decides more."""
        wakeups = np.full(len(streams), NEVER)
        passed = [_NONE]
        for policy, (compiled, monitors) in enumerate(self._monitors):
            # Rows that wait for later values are of earlier times, so time alone decides nothing.
            if not compiled.waits:
                records, owners, changed = monitors.pass_time(streams, time)
                passed.append(found.add(policy, records, owners))
                wakeups = np.minimum(wakeups, np.frombuffer(changed, np.int64))
        found.passed = np.unique(np.concatenate(passed))
        return wakeups


class Found:
    """What monitors find.

    Args:
        shared: the monitors.

    Attributes:
        passed: the keys of verdicts that the last passing of time has brought.
        messages: for each policy, the messages of the false verdicts; None if it has none.
    """

    def __init__(self, shared: SharedMonitors) -> None:
        self._shared = shared
        self._parts: list[list[KeyVerdicts]] = [[NO_VERDICTS] for _ in shared.monitors]
        self.passed = _NONE
        self.messages: list[list[str | None] | None] = [None] * len(shared.monitors)

    def add(self, policy: int, records: bytes, owners: bytes) -> NDArray[np.int64]:
        """Add verdict records and the numbers of their streams; return those of their keys."""
        keys = self._shared.key_of[np.frombuffer(owners, np.uint32)]
        if records:
            self._parts[policy].append(KeyVerdicts(np.frombuffer(records, verdict_type()), keys))
        return keys

    def add_messages(self, policy: int, messages: list[str | None] | None) -> None:
        """Add the messages of false verdicts."""
        if messages is not None:
            self.messages[policy] = [*(self.messages[policy] or ()), *messages]

    @cached_property
    def verdicts(self) -> tuple[KeyVerdicts, ...]:
        """The verdicts of each policy."""
        return tuple(map(KeyVerdicts.together, self._parts))


def _owned(
    keys: BucketKeys,
    numbers: NDArray[np.int64],
    records: bytes,
    messages: list[str | None] | None = None,
) -> OwnedRecords:
    """Records of the keys with some numbers."""
    is_owner = np.zeros(len(keys), np.bool_)
    is_owner[numbers] = True
    places = (np.cumsum(is_owner) - 1)[numbers].astype(np.uint32)
    return OwnedRecords(keys.columns_of(np.flatnonzero(is_owner)), places, records, messages)
