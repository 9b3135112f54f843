"""The first violation of a log whose events may come late: the earliest one that is final.

It is the earliest violation that holds, once the bound of what is final is above it: below the
bound nothing is open or can change.
"""

from __future__ import annotations

import json
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.changes import Bound, ChangedAnswers, PolicyChanges
from mtlmon.history.changes import INSERTED, change_type
from mtlmon.relational.correcting.points import GONE
from mtlmon.relational.running import HOLDS
from mtlmon.support.snapshot_parts import damaged
from mtlmon.verdicts.arrays import FALSE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Protocol

    from mtlmon.checking.changes import Change
    from mtlmon.relational.correcting.points import PointHistory

    Name = tuple[int, ...]
    # a time-stamp, and what comes next in the order of violations of a kind, and at last the offset
    Place = tuple[int, Name]

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
    """Finds violations of policies with variables, which are by time-point, then by policy.

    Args:
        finds: for each policy whether it is a find, whose matches count only if it is alone.
        check: the check of these policies, whose history keeps what it has found.
        has_others: whether there are policies without variables beside these.

    Attributes:
        revision: the number of the last batch with changes.
    """

    takes = ChangedAnswers
    revision = 0

    def __init__(
        self, finds: Sequence[bool], check: AnswerCheck, *, has_others: bool = False
    ) -> None:
        is_alone = len(finds) == 1 and not has_others
        self._policies = [k for k, is_find in enumerate(finds) if is_alone or not is_find]
        self._check = check

    def violations(self, row: ChangedAnswers) -> Iterator[tuple[Place, int]]:
        """Yield the violations that changes are about: 1 for one that is there, -1 for one less."""
        for one in row.changes:
            if one.kind != HOLDS and one.policy in self._policies:
                place = one.time_stamp, (one.offset, one.policy, one.offset)
                yield place, -1 if one.change == GONE else 1

    @property
    def undecided(self) -> Place | None:
        """The earliest place at which a violation may still come; None if there is none."""
        found = self._check.history.earliest_open(self._policies)
        return None if found is None else (found[0], found[1:])

    def emit(self, time_stamp: int, own: Name) -> ChangedAnswers:
        """Return the answers of a violation, which are final."""
        _, policy, offset = own
        found = self._check.history.found_at(policy, time_stamp, offset)
        return ChangedAnswers(found, self._check.revision)


class FirstChanges:
    """Finds violations of policies without variables.

    On a single trace, violations are ordered by time-point, then by policy; with keys, by
    time-stamp, policy, key and offset. Keys are in the order in which their first events came.

    Args:
        check: the check of these policies.
        has_keys: whether there are keys.

    Attributes:
        revision: the number of the last batch with changes.
    """

    takes = PolicyChanges
    revision = 0

    def __init__(self, check: VerdictCheck, *, has_keys: bool) -> None:
        self._check = check
        self._has_keys = has_keys

    def violations(self, row: PolicyChanges) -> Iterator[tuple[Place, int]]:
        """Do what `FirstAnswer` does."""
        records = row.records
        records = records[(records["kind"] == FALSE) != (records["former"] == FALSE)]
        columns = (records[name].tolist() for name in ("time_stamp", "offset", "trace", "kind"))
        for time_stamp, offset, trace, kind in zip(*columns, strict=True):
            before = () if self._has_keys else (offset,)
            yield (time_stamp, (*before, row.policy, trace, offset)), 1 if kind == FALSE else -1

    @property
    def undecided(self) -> Place | None:
        """The earliest place at which a violation may still come; None if there is none."""
        found = self._check.earliest_pending
        if found is None:
            return None
        # rows of one time-stamp have no common order
        return found[0], () if self._has_keys else found[1:]

    def emit(self, time_stamp: int, own: Name) -> PolicyChanges:
        """Return what tells a violation, which is final."""
        policy, trace, offset = own[-3:]
        records = np.zeros(1, change_type())
        records["time_stamp"], records["offset"], records["trace"] = time_stamp, offset, trace
        records["kind"], records["operation"] = FALSE, INSERTED
        records["former"] = _STILL_OPEN
        return PolicyChanges(policy, records, self.revision)


class FirstViolation:
    """Takes changes, and passes on the first violation once it is final.

    Args:
        kinds: find the violations of the policies of each kind. Within a time-point, that of an
            earlier kind is the first.
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
        self._has_common_points = has_common_points
        # the time-stamp, the offset or 0, the number of the kind, and the place of its own
        self._live = LiveViolations()
        self.is_known = False
        self.open_before: tuple[tuple[int, int], int] | None = None

    def _name(self, number: int, place: Place) -> Name:
        time_stamp, own = place
        return time_stamp, own[0] if self._has_common_points else 0, number, *own

    def take(self, rows: Iterable[Change]) -> list[Change]:
        """Take changes and bounds; return those that tell the first violation, or none."""
        for row in rows:
            if self.is_known:
                return []
            if not isinstance(row, Bound):
                for number, one in enumerate(self._kinds):
                    if isinstance(row, one.takes):
                        one.revision = row.revision
                        for place, by in one.violations(row):  # type: ignore[arg-type]
                            self._live.add(self._name(number, place), by)
            # where each key has its own time, one that is yet to come may have an earlier violation
            elif row.policy is None:
                first = self._live.earliest
                if first is not None and first[0] < row.time_stamp:
                    return [row, self._emit(first)]
        return []

    def end(self) -> list[Change]:
        """End the log; return what tells the first violation, or nothing."""
        first = self._live.earliest
        if self.is_known or first is None:
            return []
        for number, one in enumerate(self._kinds):
            undecided = one.undecided
            if undecided is not None and self._name(number, undecided) < first:
                self.open_before = (first[0], first[-1]), undecided[0]
                return []
        return [self._emit(first)]

    def _emit(self, first: Name) -> Change:
        self.is_known = True
        time_stamp, _, kind, *own = first
        return self._kinds[kind].emit(time_stamp, tuple(own))

    def snapshot(self) -> bytes:
        """Return what is known as bytes for `restore`."""
        revisions = [one.revision for one in self._kinds]
        return json.dumps([self.is_known, revisions, self._live.parts()]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot; nothing must have been taken.

        Raises:
            SnapshotError: the bytes are not a snapshot.
        """
        try:
            self.is_known, revisions, live = json.loads(snapshot)
            for one, revision in zip(self._kinds, revisions, strict=True):
                one.revision = revision
            self._live.restore(live)
        except (ValueError, TypeError):
            raise damaged() from None
