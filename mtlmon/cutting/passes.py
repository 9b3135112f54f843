"""What is done with the events of a range: finding out about boundaries, and giving verdicts."""

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
    """Follows the events of a range, with those that its reader adds to them."""

    def __init__(self, reader: RangeReader, followers: Sequence[Follower]) -> None:
        self._reader = reader
        self._followers = followers
        self._has_begun = False

    def feed(self, time_stamps: NDArray[np.int64], words: NDArray[np.uint64]) -> None:
        """Go on to events in the order of time, the letters in words of 64 bits."""
        self._begin()
        if len(time_stamps):
            self._give(self._reader.batch(time_stamps, words))

    def finish(self) -> None:
        """There are no more events."""
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
    """Gives the verdicts of a range while its events come in."""

    def __init__(self, reader: RangeReader, verdicts: Verdicts) -> None:
        super().__init__(reader, [verdicts])
        self._verdicts = verdicts

    def take(self) -> list[NDArray[np.void]]:
        """The verdicts since the last call, records of `verdict_type()` in no certain order."""
        return self._verdicts.take()


class SeekingWork(RangeWork):
    """Finds something out about a range."""

    def __init__(self, reader: RangeReader, seekers: Sequence[Seeker]) -> None:
        super().__init__(reader, seekers)
        self._seekers = seekers

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to find out; if not, the events need not be read."""
        return bool(self._seekers)

    @property
    def findings(self) -> list[Finding]:
        """What was found, after the end."""
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
        """On the range of this number."""
        reader = RangeReader(self.plan, place, self.carries)
        return VerdictWork(reader, Verdicts(reader, reader.rows.of(self.plan.program.root)))


class LevelPass(NamedTuple):
    """Finds out what ranges do to the families of one level; picklable.

    Attributes:
        plan: the ranges.
        level: of the families.
        carries: the values of families of lower levels at boundaries.
    """

    plan: Plan
    level: int
    carries: Carries

    def work(self, place: int) -> SeekingWork:
        """On the range of this number."""
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
        """The time-points that a range answers for.

        The last range says what UNTILs are worth at their last boundary, so what is between its
        beginning and there is left to the range before.
        """
        needs = self.plan.needs
        first, last = int(needs.starts[place]), int(needs.lasts[place])
        is_future = self.plan.families.families[number].is_future
        if is_future and not self.plan.is_closed and place == self.plan.range_count - 2:
            last = int(needs.boundaries[number][place]) - 1
        return first, last


class DependencePass(NamedTuple):
    """Finds out whether families that are open at the end of the trace depend on each other.

    Their values, as functions of the obligations that are left, are independent if each combination
    of true and false is possible. Then they may be told apart by variables of their own, and what a
    monitor of the whole trace can decide is just what monitors of ranges can.

    Attributes:
        plan: the ranges.
        carries: the values of all families.
        open_families: those that are open, by number.
    """

    plan: Plan
    carries: Carries
    open_families: Sequence[int]

    def work(self, place: int) -> SeekingWork:
        """On the range of this number; each finding is a combination that is impossible."""
        reader = RangeReader(self.plan, place, self.carries)
        if not reader.is_last:
            return SeekingWork(reader, [])
        seekers = [
            Combination(reader, self.open_families, combination)
            for combination in range(1 << len(self.open_families))
        ]
        return SeekingWork(reader, seekers)
