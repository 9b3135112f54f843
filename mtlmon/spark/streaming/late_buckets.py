"""Judges events of keys again when others come late, and finds which verdicts have changed.

For each key, a bucket has two streams in the monitors: one at the present horizon, and its *base*,
at an earlier time before which no event can come any more; and it has all that has been judged in
between. When events of a key come late, this is judged from the base on in the same order, once as
it was and once with the late events in their places. Verdicts that differ are changes. So no
operator has an algorithm for late events.

The journal is that of any bucket: a segment with the bases and what has been judged since, then the
steps of batches. Bases move on when their keys are judged again, and when a segment is written. The
times that have passed are judged, too, as equivalences depend on them.

`mtlmon.history` keeps a state for each few events and stops where one is unchanged. But it keeps
all events as long as a verdict can change: for ever, where a formula looks ahead without a bound.
Here, the states of time-points that wait stand for them, which a stream without an end needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.errors import SnapshotError
from mtlmon.spark.common.trace_monitors import points_of
from mtlmon.spark.streaming.bucket_state import BucketMonitors
from mtlmon.spark.streaming.changes import differences
from mtlmon.spark.streaming.entries import DAMAGED
from mtlmon.spark.streaming.event_records import Waiting
from mtlmon.spark.streaming.live_bucket import LiveBucket
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.spark.streaming.bucket_records import BucketRecords, Segment
    from mtlmon.spark.streaming.bucket_state import OwnedRecords, Work
    from mtlmon.spark.streaming.entries import Entry
    from mtlmon.spark.streaming.shared_monitors import SharedMonitors

__all__ = ["LateBuckets"]


class Judged(NamedTuple):
    """Events of keys that have been judged, and times that have passed for keys.

    Attributes:
        rows: the events, as rows of integers; those of one time-stamp and key are in their order.
        owners: for each, the number of its key.
        advances: the times.
        advanced: for each, the number of the key.
    """

    rows: NDArray[np.int64]
    owners: NDArray[np.int64]
    advances: NDArray[np.int64]
    advanced: NDArray[np.int64]

    @classmethod
    def nothing(cls, width: int) -> Judged:
        """No events of so many integers each."""
        none = np.empty(0, np.int64)
        return cls(np.empty((0, width), np.int64), none, none, none)

    @classmethod
    def together(cls, parts: Sequence[Judged]) -> Judged:
        """Return what some parts have, in their order."""
        return cls(*(np.concatenate(some) for some in zip(*parts, strict=True)))

    def split(self, time: int) -> tuple[Judged, Judged]:
        """Return what is before a time, and the rest; the passing of time is before its events."""
        return self._parted(self.rows[:, 0] < time, self.advances <= time)

    def of_keys(self, is_wanted: NDArray[np.bool_]) -> tuple[Judged, Judged]:
        """Return what is of some keys, and the rest."""
        return self._parted(is_wanted[self.owners], is_wanted[self.advanced])

    def numbered(self, numbers: NDArray[np.int64]) -> Judged:
        """Return it with other numbers of the keys."""
        return Judged(self.rows, numbers[self.owners], self.advances, numbers[self.advanced])

    def _parted(
        self, rows: NDArray[np.bool_], advances: NDArray[np.bool_]
    ) -> tuple[Judged, Judged]:
        first, second = (
            Judged(self.rows[some], self.owners[some], self.advances[more], self.advanced[more])
            for some, more in ((rows, advances), (~rows, ~advances))
        )
        return first, second

    def encoded(self) -> list[bytes]:
        """Return it as parts of an entry."""
        owners, advanced = self.owners.astype(np.uint32), self.advanced.astype(np.uint32)
        return [one.tobytes() for one in (self.rows, owners, self.advances, advanced)]

    @classmethod
    def decoded(cls, parts: Sequence[bytes], width: int, keys: int) -> Judged:
        """Decode the parts.

        Args:
            parts: the parts.
            width: the number of integers in an event.
            keys: the number of keys.

        Raises:
            SnapshotError: they are damaged.
        """
        try:
            rows, owners, advances, advanced = (
                np.frombuffer(part, kind)
                for part, kind in zip(parts, (np.int64, np.uint32) * 2, strict=True)
            )
            rows = rows.reshape(-1, width)
        except ValueError as error:
            raise SnapshotError(f"{DAMAGED}: {error}") from None
        for some, own in ((rows, owners), (advances, advanced)):
            if len(some) != len(own) or int(own.max(initial=0)) >= max(1, keys):
                raise SnapshotError(DAMAGED)
        return cls(rows, owners.astype(np.int64), advances, advanced.astype(np.int64))


class LateBucket(LiveBucket):
    """A bucket whose past can be judged again.

    Attributes:
        bases: by the number of a key, the number of its stream at its base.
    """

    def __init__(self, records: BucketRecords, shared: SharedMonitors) -> None:
        super().__init__(records, shared)
        self.bases = np.empty(0, np.uint32)
        self._past = [Judged.nothing(records.events.width)]

    @property
    def past(self) -> Judged:
        """What has been judged since the bases, in the order in which that was."""
        if len(self._past) > 1:
            self._past = [Judged.together(self._past)]
        return self._past[0]

    @past.setter
    def past(self, judged: Judged) -> None:
        self._past = [judged]

    def note(self, judged: Judged) -> None:
        """Add what has been judged."""
        self._past.append(judged)

    def __del__(self) -> None:
        if len(self.bases) and not self.shared.is_broken:
            self.shared.drop(self.bases)
        super().__del__()

    @property
    def remembered(self) -> NDArray[np.uint32]:
        return self.bases

    @property
    def busy(self) -> NDArray[np.int64]:
        return np.concatenate([self.owners, self.past.owners, self.past.advanced])

    @property
    def held_bytes(self) -> int:
        bases = self.shared.held_bytes_of(len(self.bases))
        past = sum(one.nbytes for part in self._past for one in part)
        return super().held_bytes + bases + past

    def _append(self, streams: NDArray[np.uint32]) -> None:
        super()._append(streams)
        self.bases = np.append(self.bases, self._copies(streams))

    def _copies(self, streams: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return self.shared.restore(self.shared.snapshot(streams))

    def copies_of_bases(self, keys: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return new streams with the states of some keys at their bases."""
        return self._copies(self.bases[keys])

    def keep(self, is_kept: NDArray[np.bool_]) -> None:
        self.shared.drop(self.bases[~is_kept])
        self.bases = self.bases[is_kept]
        self.past = self.past.numbered(np.cumsum(is_kept) - 1)
        super().keep(is_kept)

    def take_segment(self, segment: Segment) -> None:
        count = len(self.shared.monitors)
        states, past = segment.monitors[:count], segment.monitors[count:]
        super().take_segment(segment._replace(monitors=states))
        self.past = Judged.decoded(past, self.past.rows.shape[1], len(self.keys))

    def segment(self, numbers: NDArray[np.int64]) -> Segment:
        found = super().segment(numbers)
        return found._replace(monitors=[*found.monitors, *self.past.encoded()])


class LateBuckets(BucketMonitors):
    """Lets one bucket after the other take events, of which some come late.

    The policies have neither streams nor ticks.
    """

    def begin(self, key: tuple[object, ...]) -> LiveBucket:
        return LateBucket(self._records, self._shared)

    def _take_segment(self, live: LiveBucket, segment: Segment) -> None:
        assert isinstance(live, LateBucket)
        live.take_segment(segment)
        self._judge(live.streams, live.past)

    def snapshot(self, node: LiveBucket, horizon: int) -> Entry:
        assert isinstance(node, LateBucket)
        before, node.past = node.past.split(self._admission.admits_from(horizon))
        self._judge(node.bases, before)
        return super().snapshot(node, horizon)

    def _found(self, work: Work) -> dict[int, OwnedRecords]:
        return work.all_changes()

    def _judge_due(self, work: Work, due: Waiting, owners: NDArray[np.int64]) -> None:
        live = work.live
        assert isinstance(live, LateBucket)
        keys = live.keys
        is_behind = np.zeros(len(keys), np.bool_)
        is_behind[owners[due.rows[:, 0] < keys.settled_from[owners]]] = True
        touched = np.flatnonzero(work.is_touched)
        new = Judged(due.rows, owners, np.full(len(touched), work.horizon), touched)
        if is_behind.any():
            again, _ = new.of_keys(is_behind)
            self._judge_again(work, live, is_behind, again)
            is_late = is_behind[owners]
            due, owners = due.take(np.flatnonzero(~is_late)), owners[~is_late]
        self._monitor(work, due, owners)
        live.note(new)
        keys.settled_from[touched] = work.horizon

    def _judge_again(
        self, work: Work, live: LateBucket, is_behind: NDArray[np.bool_], new: Judged
    ) -> None:
        """Judge what has been judged of some keys, with what is new, of which some is late."""
        behind = np.flatnonzero(is_behind)
        own, others = live.past.of_keys(is_behind)
        before, old = own.split(self._admission.admits_from(work.horizon))
        self._judge(live.bases, before)
        live.past = Judged.together([others, old])
        first, second = live.copies_of_bases(behind), live.copies_of_bases(behind)
        was = self._judge(_placed(first, behind, len(live.keys)), old)
        now = self._judge(_placed(second, behind, len(live.keys)), Judged.together([old, new]))
        for number, (one, other) in enumerate(zip(was, now, strict=True)):
            changes, of_changes = differences(one, first, other, second)
            work.add_changes(number, changes, behind[of_changes])
        self._shared.drop(first)
        live.move(behind, second)

    def _judge(
        self, streams: NDArray[np.uint32], items: Judged
    ) -> list[tuple[NDArray[np.void], NDArray[np.uint32]]]:
        """Let keys take events and times in order; return the verdicts of each policy.

        Args:
            streams: by the number of a key, the number of its stream.
            items: the events and times.
        """
        order = np.argsort(items.rows[:, 0], kind="stable")
        rows, owners = items.rows[order], streams[items.owners[order]]
        found: list[list[tuple[bytes, bytes]]] = [[] for _ in self._monitors]
        start = 0
        for time in [*np.unique(items.advances).tolist(), None]:
            end = len(rows) if time is None else int(np.searchsorted(rows[:, 0], time))
            due = self._records.events.due(rows[start:end])
            passed = np.unique(streams[items.advanced[items.advances == time]])
            for (policy, monitors), own in zip(self._monitors, found, strict=True):
                if start < end:
                    own.append(
                        monitors.feed(points_of(policy, due, None).events, owners[start:end])
                    )
                if time is not None:
                    own.append(monitors.pass_time(passed, time)[:2])
            start = end
        return [
            (
                np.frombuffer(b"".join(records for records, _ in own), verdict_type()),
                np.frombuffer(b"".join(numbers for _, numbers in own), np.uint32),
            )
            for own in found
        ]


def _placed(streams: NDArray[np.uint32], keys: NDArray[np.int64], count: int) -> NDArray[np.uint32]:
    """The streams of some keys by the numbers of these, of so many."""
    found = np.zeros(count, np.uint32)
    found[keys] = streams
    return found
