"""Passes over the ranges: some compute the values at boundaries, the last gives verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.cutting.carries import Stretches
from mtlmon.cutting.followers import AtEnd, Combination, Decisive, Verdicts
from mtlmon.cutting.reading import RangeReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.cutting.carries import Carries, Finding
    from mtlmon.cutting.followers import Follower, Seeker
    from mtlmon.cutting.plan import Plan
    from mtlmon.cutting.reading import Batch


class RangeWork:
    """Gives followers the events of a range, and those that its reader adds."""

    def __init__(self, reader: RangeReader, followers: Sequence[Follower]) -> None:
        self._reader = reader
        self._followers = followers
        self._has_begun = False

    def feed(self, time_stamps: NDArray[np.int64], words: NDArray[np.uint64]) -> None:
        """Process the next events, which are in order of time; `words` has a row for each."""
        self._begin()
        if len(time_stamps):
            self._give(self._reader.batch(time_stamps, words))

    def finish(self) -> None:
        """End the range: no more events follow."""
        self._begin()
        self._give(self._reader.closing())
        for follower in self._followers:
            follower.finish()

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._give(self._reader.opening())

    def _give(self, batch: Batch | None) -> None:
        if batch is not None:
            for follower in self._followers:
                follower.feed(batch)


class VerdictWork(RangeWork):
    """Computes the verdicts of a range while its events come in."""

    def __init__(self, reader: RangeReader, verdicts: Verdicts) -> None:
        super().__init__(reader, [verdicts])
        self._verdicts = verdicts

    def take(self) -> list[NDArray[np.void]]:
        """Return the verdicts since the last call: records of `verdict_type()`, in no order."""
        return self._verdicts.take()


class SeekingWork(RangeWork):
    """Computes the findings about a range."""

    def __init__(self, reader: RangeReader, seekers: Sequence[Seeker]) -> None:
        super().__init__(reader, seekers)
        self._seekers = seekers

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to find; if not, the events need not be read."""
        return bool(self._seekers)

    @property
    def findings(self) -> list[Finding]:
        """What was found; complete after `finish`."""
        return [finding for seeker in self._seekers for finding in seeker.findings]


class VerdictPass(NamedTuple):
    """Gives the verdicts of ranges; picklable.

    Attributes:
        plan: the ranges.
        carries: the values of all families at boundaries.
    """

    plan: Plan
    carries: Carries

    def work(self, place: int) -> VerdictWork:
        """Begin to work on the range with this number."""
        reader = RangeReader(self.plan, place, self.carries)
        return VerdictWork(reader, Verdicts(reader, reader.rows.of(self.plan.program.root)))


class LevelPass(NamedTuple):
    """Computes the effect of ranges on the families of one level; picklable.

    Attributes:
        plan: the ranges.
        level: the level of the families.
        carries: the values of families of lower levels at boundaries.
    """

    plan: Plan
    level: int
    carries: Carries

    def work(self, place: int) -> SeekingWork:
        """Begin to work on the range with this number."""
        reader = RangeReader(self.plan, place, self.carries)
        seekers: list[Seeker] = []
        for number in self.plan.cut():
            family = self.plan.families.families[number]
            if family.level != self.level:
                continue
            if reader.is_last and not self.plan.is_closed:
                if family.is_future:
                    seekers.append(AtEnd(reader, number))
                continue
            stretches = Stretches(number, family.is_future, self.plan.boundaries(number))
            first, last = stretches.bounds(*self._zone(place, number))
            if first <= last:
                seekers.append(Decisive(reader, stretches, first, last))
        return SeekingWork(reader, seekers)

    def _zone(self, place: int, number: int) -> tuple[int, int]:
        """The first and the last time-stamp that a range is responsible for.

        The last range gives the values of UNTILs at their last boundary, so the range before it is
        also responsible for the time up to there.
        """
        needs = self.plan.needs
        first, last = int(needs.starts[place]), int(needs.lasts[place])
        is_future = self.plan.families.families[number].is_future
        if is_future and not self.plan.is_closed and place == self.plan.range_count - 2:
            last = int(needs.boundaries[number][place]) - 1
        return first, last


class DependencePass(NamedTuple):
    """Checks whether families that are open at the end of the trace depend on each other.

    Their values, as functions of the remaining obligations, are independent if each combination of
    true and false is possible. Then each can be replaced by a variable of its own, and monitors of
    ranges decide the same time-points as a monitor of the whole trace.

    Attributes:
        plan: the ranges.
        carries: the values of all families at boundaries.
        open_families: the numbers of the open families.
    """

    plan: Plan
    carries: Carries
    open_families: Sequence[int]

    def work(self, place: int) -> SeekingWork:
        """Begin to work on a range; each finding is an impossible combination."""
        reader = RangeReader(self.plan, place, self.carries)
        if not reader.is_last:
            return SeekingWork(reader, [])
        seekers = [
            Combination(reader, self.open_families, combination)
            for combination in range(1 << len(self.open_families))
        ]
        return SeekingWork(reader, seekers)
