"""What is done with the events of a range: finding out about boundaries, and giving verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mtlmon.cutting.carries import Stretches
from mtlmon.cutting.reading import RangeReader
from mtlmon.cutting.seekers import AtEnd, Combination, Decisive, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.cutting.carries import Carries, Finding
    from mtlmon.cutting.plan import Plan
    from mtlmon.cutting.reading import RangeMonitor
    from mtlmon.cutting.seekers import Seeker

    Events = Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]


class VerdictPass(NamedTuple):
    """Gives the verdicts of ranges; picklable.

    Attributes:
        plan: the ranges.
        carries: the values of all families at boundaries.
    """

    plan: Plan
    carries: Carries

    def __call__(self, place: int, batches: Events) -> Iterator[NDArray[np.void]]:
        """The verdicts of a range, as records of `verdict_type()`, in no certain order.

        Args:
            place: the number of the range.
            batches: time-stamps and letters of all events that the range needs.
        """
        reader = RangeReader(self.plan, place, self.carries)
        monitor = reader.monitor(reader.rows.of(self.plan.program.root))
        for records in _verdicts(reader, monitor, batches):
            yield within(records, *reader.own)


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

    def __call__(self, place: int, batches: Events) -> list[Finding]:
        """What a range does to them; arguments as for `VerdictPass`."""
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
        if seekers:
            _run(reader, seekers, batches)
        return [finding for seeker in seekers for finding in seeker.findings]

    def _zone(self, place: int, number: int) -> tuple[int, int]:
        """The time-points that a range answers for.

        The last range says what UNTILs are worth at their last boundary, so what is between its
        beginning and there is left to the range before.
        """
        needs = self.plan.needs
        first, last = int(needs.starts[place]), int(needs.lasts[place])
        is_future = self.plan.families.families[number].is_future
        if is_future and not self.plan.is_closed and place == self.plan.count - 2:
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

    def __call__(self, place: int, batches: Events) -> list[Finding]:
        """A finding for each combination that is impossible; arguments as for `VerdictPass`."""
        reader = RangeReader(self.plan, place, self.carries)
        if not reader.is_last:
            return []
        seekers = [
            Combination(reader, self.open_families, combination)
            for combination in range(1 << len(self.open_families))
        ]
        _run(reader, seekers, batches)
        return [finding for seeker in seekers for finding in seeker.findings]


def _run(reader: RangeReader, seekers: Sequence[Seeker], batches: Events) -> None:
    for time_stamps, words, columns in reader.batches(batches):
        for seeker in seekers:
            seeker.feed(time_stamps, words, columns)
    for seeker in seekers:
        seeker.finish()


def _verdicts(
    reader: RangeReader, monitor: RangeMonitor, batches: Events
) -> Iterator[NDArray[np.void]]:
    for time_stamps, words, columns in reader.batches(batches):
        yield monitor.feed(time_stamps, words, columns)
    yield monitor.finish()
