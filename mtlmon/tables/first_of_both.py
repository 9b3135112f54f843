"""The first violation where some policies have variables and others do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtlmon.checking import LogCheck
    from mtlmon.relational.running import RelationalRun

__all__ = ["FirstOfBoth"]


class FirstOfBoth:
    """Finds out whether the first violation is one of the policies with variables or of the others.

    Each kind finds its own first violation. That of one kind is the first of all if no time-point
    before it can violate the other kind. Time-points are in the order of time-stamp and offset, and
    policies without variables come first. With keys, or if all rows of a time-stamp are one
    time-point to policies with variables, there is no common order within a time-stamp: there, all
    policies without variables come first.

    Args:
        check: the policies without variables, of which the first violation is wanted.
        has_keys: whether they divide the log by keys.
        by_stamp: whether all rows of one time-stamp are one time-point of the others.

    Attributes:
        is_known: whether the first violation is known. It is then among the verdicts or answers of
            its policies, which hold back those that may not be the first.
        has_variables: once it is, whether it is one of the policies with variables.
    """

    def __init__(self, check: LogCheck, *, has_keys: bool, by_stamp: bool) -> None:
        self._check = check
        check.tells_first = False
        self._has_keys = has_keys
        self._has_common_points = not by_stamp
        self._parts = 1 if has_keys or by_stamp else 2
        self.is_known = False
        self.has_variables = False

    def look(self, run: RelationalRun) -> bool:
        """Return whether the first violation is known, after a batch.

        The policies with variables may have seen rows of later batches, too.

        Args:
            run: the policies with variables, of which the first violation is wanted.
        """
        if self.is_known:
            return True
        tracker = self._check.row_tracker
        if tracker is not None:
            # forget the rows of verdicts that nobody takes
            tracker.found(self._check.verdicts)
        if self._is_without_variables(run):
            self.is_known = True
            self._check.tell_first()
        elif self._is_with_variables(run):
            self.is_known = self.has_variables = True
            run.tell_first()
        return self.is_known

    def snapshot(self) -> bytes:
        """Return what is known as bytes for `restore`, beside snapshots of check and run."""
        return bytes([self.is_known, self.has_variables])

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot; the first violation has been told if it is known."""
        self.is_known, self.has_variables = map(bool, snapshot)

    def candidate(self, run: RelationalRun) -> tuple[int, int] | None:
        """Return the first violation found, while an earlier time-point is undecided; or None."""
        first = self._check.first
        points = [] if first is None else [(first.time_stamp, first.offset)]
        if run.first_point is not None:
            points.append(run.first_point)
        return None if self.is_known else min(points, default=None)

    def _is_without_variables(self, run: RelationalRun) -> bool:
        first = self._check.first
        if first is None or not self._check.is_stopped:
            return False
        point = first.time_stamp, first.offset
        other = run.first_point if run.is_stopped else run.earliest_open()
        return other is None or point[: self._parts] <= other[: self._parts]

    def _is_with_variables(self, run: RelationalRun) -> bool:
        if not run.is_stopped or run.first_point is None:
            return False
        point = run.first_point
        is_behind = self._has_common_points and self._check.position < run.point_count
        if is_behind and not self._check.is_stopped:
            # the others have not seen the rows that it took
            return False
        clock = self._check.clock
        has_order = not self._has_keys and not self._check.has_ticks
        if not has_order and clock is not None and clock <= point[0]:
            # another row or tick of the time-stamp may still violate one without variables
            return False
        first = self._check.first
        others = [self._check.earliest_pending]
        if first is not None:
            others.append((first.time_stamp, first.offset))
        return all(one is None or one[: self._parts] > point[: self._parts] for one in others)
