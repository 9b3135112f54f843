"""Check the policies of a file on a log whose events may come late, kind by kind.

Policies without variables are one kind, and those with variables another. Each batch goes to the
check of each kind, which knows nothing of the other; what is final for both is final. For tables,
policies with variables have a partition of their own, so atoms that depend on other rows are
computed for each kind by itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.changes import Bound
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from mtlmon.checking.changes import Change
    from mtlmon.checking.clocks import EndTime
    from mtlmon.checking.history_check import ArrivalSource, HistoryCheck
    from mtlmon.checking.late_events import LateCheck
    from mtlmon.checking.late_valuations import ValuationCheck
    from mtlmon.checking.sources import EventBatch
    from mtlmon.engine.native import MemoryLimit

__all__ = ["LateChecks"]


class _Refusals:
    """Collects which events of a batch come too late, in the place of the log."""

    def __init__(self, source: ArrivalSource) -> None:
        self._source = source
        self._places: list[NDArray[np.int64]] = []
        self._reason = ""

    @property
    def clock(self) -> int | None:
        return self._source.clock

    def refuse(self, places: NDArray[np.int64], reason: str) -> None:
        self._places.append(places)
        self._reason = reason

    def emit(self) -> int:
        """Let the log refuse them; return how many there are."""
        if not self._places:
            return 0
        places = np.unique(np.concatenate(self._places))
        self._source.refuse(places, self._reason)
        return len(places)


class LateChecks:
    """Checks the policies of a file on the same events, those of each kind in their own way.

    The changes of a batch come kind by kind, and then the bound below which nothing changes any
    more. Whenever an iterator yields, there may be changes to take out.

    Args:
        plain: checks the policies without variables; None if there are none. Beside others, all
            keys share one time.
        answers: checks those with variables; None if there are none.

    Attributes:
        plain: as given.
        answers: as given.
        checks: those that there are.
        refused_count: the number of events that came too late for some policy.
        is_within_row: whether some policies have not had the last batch yet; there is no snapshot
            then.
    """

    def __init__(self, plain: HistoryCheck | None, answers: ValuationCheck | None) -> None:
        self.plain = plain
        self.answers = answers
        self.checks: list[LateCheck] = [one for one in (plain, answers) if one is not None]
        self.refused_count = 0
        self.is_within_row = False
        self._found: list[Change] = []
        # below which time each kind is final, and what has been told
        self._finals = [0] * len(self.checks)
        self._emitted = 0
        self._keep_until_emitted()

    def feed(self, batch: EventBatch, source: ArrivalSource) -> Iterator[None]:
        """Check the next events.

        Args:
            batch: the events, as they come.
            source: the log that they come from.

        Raises:
            MtlmonError: as `LateCheck.feed`.
        """
        refusals = _Refusals(source)
        self.is_within_row = True
        try:
            for check in self.checks:
                for _ in check.feed(batch, refusals):
                    self._collect(check)
                    yield
        finally:
            self.refused_count += refusals.emit()
        self.is_within_row = False
        yield

    def pass_time(self, time_stamp: int) -> Iterator[None]:
        """Let time pass without events."""
        for check in self.checks:
            for _ in check.pass_time(time_stamp):
                self._collect(check)
                yield

    def end(self, source: ArrivalSource, end_time: EndTime = None) -> Iterator[None]:
        """End the log: no more events come."""
        for check in self.checks:
            for _ in check.end(source, end_time):
                self._collect(check)
                yield

    def _collect(self, check: LateCheck) -> None:
        """Take what a check has found; once all have, tell below which time nothing changes."""
        for row in check.taken():
            if isinstance(row, Bound) and row.policy is None:
                self._finals[self.checks.index(check)] = row.time_stamp
            else:
                self._found.append(row)
        if check is self.checks[-1] and min(self._finals) > self._emitted:
            self._emitted = min(self._finals)
            self._found.append(Bound(self._emitted))
            self._keep_until_emitted()

    def _keep_until_emitted(self) -> None:
        """Let the check of verdicts keep what belongs to them until these are final for all."""
        if self.plain is not None and self.answers is not None:
            self.plain.emitted_below = self._emitted

    def taken(self) -> list[Change]:
        """Remove the changes that have not been taken out yet, and return them."""
        found, self._found = self._found, []
        return found

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        head = json.dumps([self.refused_count, self._finals, self._emitted]).encode()
        return joined_parts([head, *(check.snapshot() for check in self.checks)])

    def restore(self, snapshot: bytes) -> None:
        """Continue from the snapshot of other checks; these must be new.

        Raises:
            SnapshotError: the bytes are not a snapshot of such policies.
        """
        try:
            head, *parts = split_parts(snapshot)
            self.refused_count, self._finals, self._emitted = json.loads(head)
            pairs = list(zip(self.checks, parts, strict=True))
        except (ValueError, TypeError):
            raise damaged() from None
        for check, part in pairs:
            check.restore(part)
        self._keep_until_emitted()

    # ---- what is known ---------------------------------------------------------------------

    @property
    def bounds(self) -> list[Bound]:
        """The bounds that have been told."""
        found = [one for check in self.checks for one in check.bounds if one.policy is not None]
        return [Bound(self._emitted), *found] if self._emitted else found

    @property
    def counting(self) -> NDArray[np.bool_] | None:
        """For each row as it came, whether it counts at the end.

        None if policies differ in that, as a row may be late for one key and not for another.
        """
        found = [one.counting for check in self.checks for one in check.outcomes if one is not None]
        is_same = all(np.array_equal(one, found[0]) for one in found)
        return found[0] if found and is_same else None

    def last_time(self) -> int:
        """The time of the last row that is left, or up to which time has passed without one."""
        return max(check.last_time() for check in self.checks)

    @property
    def position(self) -> int:
        """The number of events that have been read, also of those that are refused."""
        return self.checks[0].position

    @property
    def late_count(self) -> int:
        """The number of events that were taken in below the largest time-stamp so far."""
        return self.checks[0].late_count

    @property
    def unmatched(self) -> int:
        """How many retractions have found no row."""
        return max(check.unmatched for check in self.checks)

    @property
    def retracted(self) -> int:
        """How many rows were retracted, or replaced by others with their ids."""
        return max(check.retracted for check in self.checks)

    @property
    def judged_again(self) -> int:
        """How many time-points were judged again, as events came before them."""
        return sum(check.judged_again for check in self.checks)

    @property
    def revision_count(self) -> int:
        """How often a verdict was changed or withdrawn, or an answer taken back or given again."""
        return sum(check.revision_count for check in self.checks)

    @property
    def memory(self) -> MemoryLimit:
        """How much memory may be held."""
        return self.checks[0].memory
