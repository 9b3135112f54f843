"""The first violation of a log whose events may come late: the earliest one that is final.

It is the earliest violation that holds, once the bound of what is final is above it: below the
bound nothing is open or can change.
"""

from __future__ import annotations

import json
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.checking.changes import Bound, PolicyChanges
from mtlmon.history.changes import INSERTED, change_type
from mtlmon.relational.correcting.points import GONE
from mtlmon.relational.running import HOLDS
from mtlmon.support.snapshot_parts import damaged
from mtlmon.verdicts.arrays import FALSE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtlmon.relational.correcting.points import ChangedAnswer, PointHistory

    Name = tuple[int, ...]

__all__ = ["FirstAnswer", "FirstChanges", "LiveViolations"]

_STILL_OPEN = 3
# So many names more than twice those that are left make it worth leaving out old ones.
_SPARE_NAMES = 4096


class LiveViolations:
    """The violations that hold now, and the earliest of them.

    Their names are tuples of integers, in the order of violations; the time-stamp comes first.
    """

    def __init__(self) -> None:
        # how often each is there
        self._counts: dict[Name, int] = {}
        # with names that are there no longer
        self._heap: list[Name] = []

    def add(self, name: Name, by: int = 1) -> None:
        """Let a violation be there once more, or once less with -1."""
        count = self._counts.get(name, 0) + by
        if count:
            if name not in self._counts:
                heappush(self._heap, name)
            self._counts[name] = count
            return
        self._counts.pop(name, None)
        if len(self._heap) > 2 * len(self._counts) + _SPARE_NAMES:
            self._heap = list(self._counts)
            heapify(self._heap)

    @property
    def earliest(self) -> Name | None:
        """The earliest violation; None if there is none."""
        while self._heap and self._heap[0] not in self._counts:
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    def parts(self) -> list[list[int]]:
        """Return what `restore` needs."""
        return [[*name, count] for name, count in sorted(self._counts.items())]

    def restore(self, parts: Iterable[list[int]]) -> None:
        """Go on from what `parts` has returned."""
        for *name, count in parts:
            self.add(tuple(name), count)


class FirstAnswer:
    """Finds the first violation of policies with variables: by time-point, then by policy.

    Args:
        finds: for each policy whether it is a find, whose matches count only if it is alone.
        has_others: whether there are policies without variables beside these.

    Attributes:
        is_known: whether it is known.
        open: its time-stamp and offset at the end of the log, if one before it is undecided.
    """

    def __init__(self, finds: Sequence[bool], *, has_others: bool = False) -> None:
        self.is_known = False
        self.open: tuple[int, int] | None = None
        is_alone = len(finds) == 1 and not has_others
        self._policies = [k for k, is_find in enumerate(finds) if is_alone or not is_find]
        self._live = LiveViolations()

    def below(self, bound: int | None, history: PointHistory) -> list[ChangedAnswer]:
        """Return the answers of the first violation, if it is known now, or nothing.

        Args:
            bound: the time below which answers are final; None for all.
            history: the answers, whose changes since the last call have not been taken.
        """
        if self.is_known:
            return []
        for (policy, time_stamp, offset, kind, _), by in history.chunked.net.items():
            if kind != HOLDS and policy in self._policies:
                self._live.add((time_stamp, offset, policy), by)
        first = self._live.earliest
        if first is None or (bound is not None and first[0] >= bound):
            return []
        return self.tell(history)

    def note(self, changes: Iterable[ChangedAnswer]) -> None:
        """Note changes that were taken."""
        for one in changes:
            if one.kind != HOLDS and one.policy in self._policies:
                name = one.time_stamp, one.offset, one.policy
                self._live.add(name, -1 if one.change == GONE else 1)

    @property
    def earliest(self) -> Name | None:
        """Time-stamp, offset and policy of the earliest violation; None if there is none."""
        return self._live.earliest

    def earliest_open(self, history: PointHistory) -> Name | None:
        """Time-stamp, offset and policy of the earliest undecided time-point, or None."""
        return history.earliest_open(self._policies)

    def tell(self, history: PointHistory) -> list[ChangedAnswer]:
        """Return the answers of the earliest violation, which are final; there is one."""
        first = self._live.earliest
        assert first is not None
        self.is_known = True
        time_stamp, offset, policy = first
        return history.found_at(policy, time_stamp, offset)

    def end(self, history: PointHistory) -> list[ChangedAnswer]:
        """End the log, once the changes were taken; return what `below` does."""
        first = self._live.earliest
        if first is not None and not self.is_known:
            undecided = self.earliest_open(history)
            if undecided is not None and undecided < first:
                self.open = first[0], first[1]
                return []
        return self.below(None, history)

    def parts(self) -> list[Any]:
        """Return what `restore` needs."""
        return [self.is_known, self._live.parts()]

    def restore(self, parts: Sequence[Any]) -> None:
        """Go on from what `parts` has returned."""
        self.is_known, live = parts
        self._live.restore(live)


class FirstChanges:
    """Takes the changes of verdicts, and passes on the first violation once it is final.

    On a single trace, violations are ordered by time-point, then by policy; with keys, by
    time-stamp, policy, key and offset. Keys are in the order in which their first events came.

    Args:
        has_keys: whether there are keys.

    Attributes:
        has_keys: as given.
        is_known: whether the first violation has been passed on.
        open_before: the first violation at the end of the log, as time-stamp and offset, and the
            time-stamp of an undecided time-point before it; None if there is none.
    """

    def __init__(self, *, has_keys: bool) -> None:
        self.is_known = False
        self.open_before: tuple[tuple[int, int], int] | None = None
        self.has_keys = has_keys
        self._live = LiveViolations()
        self._revision = 0

    def take(self, rows: Iterable[PolicyChanges | Bound]) -> list[PolicyChanges | Bound]:
        """Take changes and bounds; return those that tell the first violation, or none."""
        for row in rows:
            if self.is_known:
                return []
            if isinstance(row, PolicyChanges):
                self.note(row)
            elif row.policy is None:
                first = self.earliest
                if first is not None and first[0] < row.time_stamp:
                    return [row, self.tell()]
            # where each key has its own time, one that is yet to come may have an earlier violation
        return []

    def note(self, changes: PolicyChanges) -> None:
        """Note changes."""
        self._revision = changes.revision
        records = changes.records
        records = records[(records["kind"] == FALSE) != (records["former"] == FALSE)]
        columns = (records[name].tolist() for name in ("time_stamp", "offset", "trace", "kind"))
        for time_stamp, offset, trace, kind in zip(*columns, strict=True):
            if self.has_keys:
                name = time_stamp, changes.policy, trace, offset
            else:
                name = time_stamp, offset, changes.policy, trace
            self._live.add(name, 1 if kind == FALSE else -1)

    def end(self, undecided: Name | None) -> list[PolicyChanges | Bound]:
        """End the log; return what tells the first violation, or nothing.

        Args:
            undecided: as for `is_open`.
        """
        first = None if self.is_known else self.earliest
        if first is None:
            return []
        if undecided is not None and self.is_open(undecided):
            self.open_before = (first[0], first[1]), undecided[0]
            return []
        return [self.tell()]

    def is_open(self, undecided: Name) -> bool:
        """Whether an undecided time-point may be a violation before the earliest one.

        Args:
            undecided: time-stamp, offset and policy of the earliest undecided time-point.
        """
        first = self.earliest
        if first is None or self.has_keys:
            # rows of one time-stamp have no common order
            return first is not None and undecided[0] <= first[0]
        return undecided < first

    @property
    def earliest(self) -> Name | None:
        """Time-stamp, offset and policy of the earliest violation; None if there is none."""
        first = self._live.earliest
        if first is None or not self.has_keys:
            return None if first is None else first[:3]
        return first[0], first[3], first[1]

    def tell(self) -> PolicyChanges:
        """Return what tells the earliest violation, which is final; there is one."""
        first = self._live.earliest
        assert first is not None
        self.is_known = True
        time_stamp, *rest = first
        policy, trace, offset = rest if self.has_keys else (rest[1], rest[2], rest[0])
        records = np.zeros(1, change_type())
        records["time_stamp"], records["offset"], records["trace"] = time_stamp, offset, trace
        records["kind"], records["operation"] = FALSE, INSERTED
        records["former"] = _STILL_OPEN
        return PolicyChanges(policy, records, self._revision)

    def parts(self) -> list[Any]:
        """Return what `go_on` needs."""
        return [self.is_known, self._revision, self._live.parts()]

    def go_on(self, parts: Sequence[Any]) -> None:
        """Go on from what `parts` has returned; nothing must have been taken."""
        self.is_known, self._revision, live = parts
        self._live.restore(live)

    def snapshot(self) -> bytes:
        """Return what is known as bytes for `restore`."""
        return json.dumps(self.parts()).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have been taken.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            self.go_on(json.loads(snapshot))
        except (ValueError, TypeError):
            raise damaged() from None
