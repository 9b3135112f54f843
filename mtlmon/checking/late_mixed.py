"""Check policies with variables and without on a log whose events may come late.

Each batch goes to both checks, which know nothing of each other; the bound of what is final is the
lower one of the two. For tables, policies with variables have a partition of their own, so atoms
that depend on other rows are computed for each kind by itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.checking.changes import Bound, PolicyChanges
from mtlmon.support.snapshot_parts import damaged, joined_parts, split_parts

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

    from mtlmon.checking.clocks import EndTime
    from mtlmon.checking.history_check import ArrivalSource, HistoryCheck
    from mtlmon.checking.late_first_of_both import FirstOfHistories
    from mtlmon.checking.late_valuations import ChangedAnswers, ValuationCheck
    from mtlmon.checking.sources import EventBatch
    from mtlmon.engine.native import MemoryLimit

    MixedChange = PolicyChanges | ChangedAnswers | Bound

__all__ = ["MixedHistories"]


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

    def tell(self) -> int:
        """Let the log refuse them; return how many there are."""
        if not self._places:
            return 0
        places = np.unique(np.concatenate(self._places))
        self._source.refuse(places, self._reason)
        return len(places)


class MixedHistories:
    """Checks both kinds of policies of a file on the same events, each in its own way.

    The changes of a batch come policy by policy, those without variables first, and then the bound
    below which nothing changes any more.

    Args:
        plain: checks the policies without variables; all keys share one time.
        others: checks those with variables.
        first: finds the first violation, if only that is wanted, once it is final; else None. The
            history of `others` must keep what it has found.
        keeps_all: whether `all_taken` is asked for.

    Attributes:
        plain: as given.
        others: as given.
        first: as given.
        refused_count: the number of events that came too late for some policy.
        is_within_row: whether some policies have not had the last batch yet.
    """

    def __init__(
        self,
        plain: HistoryCheck,
        others: ValuationCheck,
        first: FirstOfHistories | None = None,
        *,
        keeps_all: bool = False,
    ) -> None:
        self.plain = plain
        self.others = others
        self.first = first
        self.refused_count = 0
        self.is_within_row = False
        self._found: list[MixedChange] = []
        # all changes, where only the first violation is told
        self._every: list[MixedChange] | None = [] if keeps_all else None
        # below which time each kind is final, and what has been told
        self._finals: list[int] = [0, 0]
        self._told = 0

    def feed(self, batch: EventBatch, source: ArrivalSource) -> Generator[None, None, None]:
        """Check the next events; whenever this yields, there may be changes to take out.

        Args:
            batch: the events, as they come.
            source: the log that they come from.

        Raises:
            MtlmonError: as `HistoryCheck.feed` and `ValuationCheck.feed`.
        """
        refusals = _Refusals(source)
        self.is_within_row = True
        for _ in self.plain.feed(batch, refusals):
            yield from self._collected()
        if self.first is not None and len(batch.time_stamps):
            # what these keep may be final before the others are
            self.others.history.told_below = self._told
        for _ in self.others.feed(batch, refusals):
            yield from self._collected()
        self.refused_count += refusals.tell()
        self.is_within_row = False
        yield from self._bounded()

    def pass_time(self, time_stamp: int) -> Generator[None, None, None]:
        """Let time pass without events; whenever this yields, there may be changes to take out."""
        for _ in self.plain.pass_time(time_stamp):
            yield from self._collected()
        for _ in self.others.pass_time(time_stamp):
            yield from self._collected()
        yield from self._bounded()

    def end(self, source: ArrivalSource, end_time: EndTime = None) -> Generator[None, None, None]:
        """End the log: no more events come. Whenever this yields, there may be changes."""
        for _ in self.plain.end(source, end_time):
            yield from self._collected()
        for _ in self.others.end(source, end_time):
            yield from self._collected()
        yield from self._bounded()
        if self.first is not None and source.clock is not None:
            self._found += self.first.end(self.plain.earliest_pending, self.others)
            yield

    def _collected(self) -> Iterator[None]:
        """Take what the checks have found, and yield if that is to be taken out."""
        found: list[PolicyChanges | ChangedAnswers] = []
        for row in self.plain.verdicts.taken():
            if isinstance(row, Bound):
                self._finals[0] = row.time_stamp
            else:
                found.append(row)
        for changed in self.others.taken():
            if changed.changes:
                found.append(changed._replace(final_below=None))
            if changed.final_below is not None:
                self._finals[1] = changed.final_below
        if not found:
            return
        if self._every is not None:
            self._every += found
        if self.first is None:
            self._found += found
        else:
            for one in found:
                self.first.note(one)
        yield

    def _bounded(self) -> Iterator[None]:
        """Tell below which time nothing changes any more, if that is more than before."""
        yield from self._collected()
        if min(self._finals) <= self._told:
            return
        self._told = min(self._finals)
        if self._every is not None:
            self._every.append(Bound(self._told))
        if self.first is None:
            self._found.append(Bound(self._told))
        else:
            self._found += self.first.below(self._told, self.others)
        yield

    @property
    def is_stopped(self) -> bool:
        """Whether the first violation is known, if only that is wanted."""
        return self.first is not None and self.first.is_known

    @property
    def open_first(self) -> tuple[int, int] | None:
        """The first violation at the end of the log, if one before it is undecided."""
        return None if self.first is None else self.first.open_before

    def taken(self) -> list[MixedChange]:
        """Remove the changes that have not been taken out yet, and return them."""
        found, self._found = self._found, []
        return found

    def all_taken(self) -> list[MixedChange]:
        """Remove and return all changes, although only the first violation may be wanted."""
        assert self._every is not None
        found, self._every = self._every, []
        return found

    def close(self) -> None:
        """Do nothing: there are no threads."""

    # ---- snapshots -------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        first = None if self.first is None else self.first.parts()
        head = json.dumps([self.refused_count, self._finals, self._told, first]).encode()
        return joined_parts([head, self.plain.snapshot(), self.others.snapshot()])

    def restore(self, snapshot: bytes) -> None:
        """Continue from the snapshot of another check; this check must be new.

        Raises:
            SnapshotError: the bytes are not a snapshot of such policies.
        """
        try:
            head, plain, others = split_parts(snapshot)
            self.refused_count, self._finals, self._told, first = json.loads(head)
            if self.first is not None:
                self.first.restore(first)
        except (ValueError, TypeError):
            raise damaged() from None
        self.plain.restore(plain)
        self.others.restore(others)

    # ---- what is known ---------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The number of events that have been read, also of those that are refused."""
        return self.plain.position

    @property
    def late_count(self) -> int:
        """The number of events that were taken in below the largest time-stamp so far."""
        return self.plain.late_count

    @property
    def unmatched(self) -> int:
        """How many retractions have found no row."""
        return max(self.plain.unmatched, self.others.unmatched)

    @property
    def retracted(self) -> int:
        """How many rows were retracted, or replaced by others with their ids."""
        return max(self.plain.retracted, self.others.retracted)

    @property
    def judged_again(self) -> int:
        """How many time-points were judged again, as events came before them."""
        return self.plain.judged_again + self.others.judged_again

    @property
    def revision_count(self) -> int:
        """How often a verdict was changed or withdrawn, or an answer taken back or given again."""
        return self.plain.revision_count + self.others.revision_count

    @property
    def memory(self) -> MemoryLimit:
        """How much memory may be held."""
        return self.plain.memory

    @property
    def bound(self) -> int | None:
        """The bound that was told last; None if there was none."""
        return self._told or None
