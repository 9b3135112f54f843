"""The first violation of a log whose events may come late: the earliest one that is final.

It is the earliest violation that holds, once the bound of what is final is above it: below the
bound nothing is open or can change.
"""

from __future__ import annotations

import json
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlmon.checking.changes import Bound, ChangedAnswers, PolicyChanges
from mtlmon.history.changes import INSERTED, change_type
from mtlmon.relational.correcting.points import GONE
from mtlmon.relational.running import HOLDS
from mtlmon.support.snapshot_parts import damaged
from mtlmon.verdicts.arrays import FALSE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol

    from mtlmon.checking.changes import Change
    from mtlmon.relational.correcting.points import PointHistory

    Name = tuple[int, ...]

    class VerdictCheck(Protocol):
        """Checks policies without variables."""

        @property
        def earliest_pending(self) -> Name | None: ...

    class AnswerCheck(Protocol):
        """Checks policies with variables."""

        revision: int

        @property
        def history(self) -> PointHistory: ...


__all__ = ["FirstAnswer", "FirstChanges", "FirstViolation", "LiveViolations"]

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
        check: the check of these policies, whose history keeps what it has found.
        has_others: whether there are policies without variables beside these.
    """

    takes = ChangedAnswers

    def __init__(
        self, finds: Sequence[bool], check: AnswerCheck, *, has_others: bool = False
    ) -> None:
        is_alone = len(finds) == 1 and not has_others
        self._policies = [k for k, is_find in enumerate(finds) if is_alone or not is_find]
        self._live = LiveViolations()
        self._check = check

    def note(self, row: ChangedAnswers) -> None:
        """Note changes."""
        for one in row.changes:
            if one.kind != HOLDS and one.policy in self._policies:
                name = one.time_stamp, one.offset, one.policy
                self._live.add(name, -1 if one.change == GONE else 1)

    def passed(self, bound: int) -> None:
        """Know that the first violation is not below a time."""
        self._check.history.emitted_below = bound

    @property
    def earliest(self) -> Name | None:
        """Time-stamp, offset and policy of the earliest violation; None if there is none."""
        return self._live.earliest

    @property
    def undecided(self) -> Name | None:
        """Time-stamp, offset and policy of the earliest undecided time-point, or None."""
        return self._check.history.earliest_open(self._policies)

    def is_open(self, undecided: Name) -> bool:
        """Whether an undecided time-point may be a violation before the earliest one."""
        return self.earliest is not None and undecided < self.earliest

    def emit(self) -> ChangedAnswers:
        """Return the answers of the earliest violation, which are final; there is one."""
        first = self.earliest
        assert first is not None
        time_stamp, offset, policy = first
        found = self._check.history.found_at(policy, time_stamp, offset)
        return ChangedAnswers(found, self._check.revision)

    def parts(self) -> list[Any]:
        """Return what `restore` needs."""
        return self._live.parts()

    def restore(self, parts: Sequence[Any]) -> None:
        """Go on from what `parts` has returned."""
        self._live.restore(parts)


class FirstChanges:
    """Finds the first violation of policies without variables.

    On a single trace, violations are ordered by time-point, then by policy; with keys, by
    time-stamp, policy, key and offset. Keys are in the order in which their first events came.

    Args:
        check: the check of these policies.
        has_keys: whether there are keys.
    """

    takes = PolicyChanges

    def __init__(self, check: VerdictCheck, *, has_keys: bool) -> None:
        self._check = check
        self._has_keys = has_keys
        self._live = LiveViolations()
        self._revision = 0

    def note(self, row: PolicyChanges) -> None:
        """Note changes."""
        self._revision = row.revision
        records = row.records
        records = records[(records["kind"] == FALSE) != (records["former"] == FALSE)]
        columns = (records[name].tolist() for name in ("time_stamp", "offset", "trace", "kind"))
        for time_stamp, offset, trace, kind in zip(*columns, strict=True):
            if self._has_keys:
                name = time_stamp, row.policy, trace, offset
            else:
                name = time_stamp, offset, row.policy, trace
            self._live.add(name, 1 if kind == FALSE else -1)

    def passed(self, bound: int) -> None:
        """Do nothing: what is final is told from what was noted."""

    @property
    def earliest(self) -> Name | None:
        """Time-stamp, offset and policy of the earliest violation; None if there is none."""
        first = self._live.earliest
        if first is None or not self._has_keys:
            return None if first is None else first[:3]
        return first[0], first[3], first[1]

    @property
    def undecided(self) -> Name | None:
        """Time-stamp, offset and policy of the earliest undecided time-point, or None."""
        return self._check.earliest_pending

    def is_open(self, undecided: Name) -> bool:
        """Whether an undecided time-point may be a violation before the earliest one."""
        first = self.earliest
        if first is None or self._has_keys:
            # rows of one time-stamp have no common order
            return first is not None and undecided[0] <= first[0]
        return undecided < first

    def emit(self) -> PolicyChanges:
        """Return what tells the earliest violation, which is final; there is one."""
        first = self._live.earliest
        assert first is not None
        time_stamp, *rest = first
        policy, trace, offset = rest if self._has_keys else (rest[1], rest[2], rest[0])
        records = np.zeros(1, change_type())
        records["time_stamp"], records["offset"], records["trace"] = time_stamp, offset, trace
        records["kind"], records["operation"] = FALSE, INSERTED
        records["former"] = _STILL_OPEN
        return PolicyChanges(policy, records, self._revision)

    def parts(self) -> list[Any]:
        """Return what `restore` needs."""
        return [self._revision, self._live.parts()]

    def restore(self, parts: Sequence[Any]) -> None:
        """Go on from what `parts` has returned; nothing must have been noted."""
        self._revision, live = parts
        self._live.restore(live)


class FirstViolation:
    """Takes changes, and passes on the first violation once it is final.

    Args:
        kinds: find the first violation of the policies of each kind. Within a time-point, that of
            an earlier kind is the first.
        has_common_points: whether the kinds have the same time-points, in one order. Else, within a
            time-stamp all violations of an earlier kind come first.

    Attributes:
        is_known: whether the first violation has been passed on.
        open_before: the first violation at the end of the log, as time-stamp and offset, and the
            time-stamp of an undecided time-point before it; None if there is none.
    """

    def __init__(
        self, kinds: Sequence[FirstChanges | FirstAnswer], *, has_common_points: bool = True
    ) -> None:
        self._kinds = kinds
        self._parts = 2 if has_common_points else 1
        self.is_known = False
        self.open_before: tuple[tuple[int, int], int] | None = None

    def take(self, rows: Iterable[Change]) -> list[Change]:
        """Take changes and bounds; return those that tell the first violation, or none."""
        for row in rows:
            if self.is_known:
                return []
            if not isinstance(row, Bound):
                for one in self._kinds:
                    if isinstance(row, one.takes):
                        one.note(row)  # type: ignore[arg-type]
            # where each key has its own time, one that is yet to come may have an earlier violation
            elif row.policy is None:
                point = self._earliest
                if point is not None and point[0] < row.time_stamp:
                    return [row, self._emit()]
                for one in self._kinds:
                    one.passed(row.time_stamp)
        return []

    def end(self) -> list[Change]:
        """End the log; return what tells the first violation, or nothing."""
        point = self._earliest
        if self.is_known or point is None:
            return []
        first = self._first
        for number, one in enumerate(self._kinds):
            undecided = one.undecided
            if undecided is None:
                continue
            if number == first:
                is_open = one.is_open(undecided)
            else:
                place = undecided[: self._parts]
                is_open = place < point[: self._parts] or (
                    number < first and place == point[: self._parts]
                )
            if is_open:
                self.open_before = (point[0], point[1]), undecided[0]
                return []
        return [self._emit()]

    @property
    def _first(self) -> int:
        """The number of the kind that has the earliest violation; there is one."""
        found = [
            (one.earliest[: self._parts], number)
            for number, one in enumerate(self._kinds)
            if one.earliest is not None
        ]
        return min(found)[1]

    @property
    def _earliest(self) -> Name | None:
        """Time-stamp, offset and policy of the earliest violation; None if there is none."""
        if all(one.earliest is None for one in self._kinds):
            return None
        return self._kinds[self._first].earliest

    def _emit(self) -> Change:
        self.is_known = True
        return self._kinds[self._first].emit()

    def snapshot(self) -> bytes:
        """Return what is known as bytes for `restore`."""
        return json.dumps([self.is_known, *(one.parts() for one in self._kinds)]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have been taken.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            self.is_known, *parts = json.loads(snapshot)
            for one, part in zip(self._kinds, parts, strict=True):
                one.restore(part)
        except (ValueError, TypeError):
            raise damaged() from None
