"""Followers process the events of a range: some give verdicts, others compute findings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from mtlmon.cutting.carries import AT_END, FALSE, OPEN, TRUE, Finding, Stretches
from mtlmon.cutting.families import SINCE, UNTIL
from mtlmon.verdicts.arrays import FALSE as FALSE_KIND
from mtlmon.verdicts.arrays import TRUE as TRUE_KIND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mtlmon.cutting.reading import Batch, RangeReader


def within(records: NDArray[np.void], first: int, last: int) -> NDArray[np.void]:
    """Select the verdicts with time-stamps from first to last."""
    time_stamps = records["time_stamp"]
    return records[(time_stamps >= first) & (time_stamps <= last)]


class Follower(ABC):
    """Processes the events of a range."""

    @abstractmethod
    def feed(self, batch: Batch) -> None:
        """Process the next events; there is at least one."""

    @abstractmethod
    def finish(self) -> None:
        """End the range: no more events follow."""


class Verdicts(Follower):
    """Computes the verdicts of a range on an operand of its reader's rows."""

    def __init__(self, reader: RangeReader, operand: int) -> None:
        self._monitor = reader.monitor(operand)
        self._bounds = reader.own
        self._given: list[NDArray[np.void]] = []

    def feed(self, batch: Batch) -> None:
        self._given.append(within(self._monitor.feed(batch), *self._bounds))

    def finish(self) -> None:
        self._given.append(within(self._monitor.finish(), *self._bounds))

    def take(self) -> list[NDArray[np.void]]:
        """Return the verdicts since the last call, as records of `verdict_type()`."""
        given, self._given = self._given, []
        return given


class Seeker(Follower):
    """Computes findings."""

    @property
    @abstractmethod
    def findings(self) -> list[Finding]:
        """What was found; complete after `finish`."""


class Decisive(Seeker):
    """Finds the decisive time-points of stretches: where g holds, or neither f nor g does.

    Args:
        reader: the reader of the range.
        stretches: the stretches of one family.
        first: the time-stamp of the first time-point that counts.
        last: the time-stamp of the last one.
    """

    def __init__(self, reader: RangeReader, stretches: Stretches, first: int, last: int) -> None:
        family = reader.plan.families.families[stretches.family]
        holds = reader.rows.of(family.right)
        fails = reader.rows.builder.conjunction(reader.rows.of(family.left) ^ 1, holds ^ 1)
        self._stretches = stretches
        self._bounds = first, last
        self._monitors = [(reader.monitor(holds), TRUE), (reader.monitor(fails), FALSE)]

    def feed(self, batch: Batch) -> None:
        for monitor, value in self._monitors:
            self._take(monitor.feed(batch), value)

    def finish(self) -> None:
        for monitor, value in self._monitors:
            self._take(monitor.finish(), value)

    def _take(self, records: NDArray[np.void], value: int) -> None:
        records = within(records[records["kind"] == TRUE_KIND], *self._bounds)
        self._stretches.add(records["time_stamp"], records["offset"], value)

    @property
    def findings(self) -> list[Finding]:
        return self._stretches.findings


class AtEnd(Seeker):
    """Finds the value of an UNTIL at its last boundary, in the last range."""

    def __init__(self, reader: RangeReader, family: int) -> None:
        self._family = family
        self._boundary = int(reader.plan.boundaries(family)[-1])
        self._monitor = reader.monitor(_until(reader, family))
        self._time_stamp: int | None = None
        self._value = OPEN

    def feed(self, batch: Batch) -> None:
        time_stamps = batch.time_stamps
        if self._time_stamp is None and time_stamps[-1] >= self._boundary:
            self._time_stamp = int(time_stamps[np.searchsorted(time_stamps, self._boundary)])
        self._take(self._monitor.feed(batch))

    def finish(self) -> None:
        self._take(self._monitor.finish())

    def _take(self, records: NDArray[np.void]) -> None:
        if self._time_stamp is None:
            return
        here = (records["time_stamp"] == self._time_stamp) & (records["offset"] == 0)
        for kind in records["kind"][here]:
            self._value = TRUE if kind == TRUE_KIND else FALSE

    @property
    def findings(self) -> list[Finding]:
        assert self._time_stamp is not None
        return [Finding(self._family, AT_END, self._time_stamp, 0, self._value)]


class Combination(Seeker):
    """Checks whether UNTILs can have a given combination of values at their last boundaries.

    A single formula says so at the last time-point: each UNTIL held, or did not hold, at its
    boundary, which an atom marks. If the formula is false, the combination is impossible.

    Args:
        reader: the reader of the last range.
        families: the numbers of the families.
        combination: bit k is the value of families[k].
    """

    def __init__(self, reader: RangeReader, families: Sequence[int], combination: int) -> None:
        builder, atoms = reader.rows.builder, reader.rows.atoms
        self._combination = combination
        self._is_possible = True
        self._marks = {
            atoms.here(family): int(reader.plan.boundaries(family)[-1]) for family in families
        }
        always, together = 1, 1
        for place, family in enumerate(families):
            here = builder.conjunction(builder.atom(atoms.here(family)), _until(reader, family))
            once = builder.row(SINCE, always, here, 0, None)
            is_false = not combination >> place & 1
            together = builder.conjunction(together, once ^ is_false)
        self._monitor = reader.monitor(together)
        self._last = -1, -1

    def feed(self, batch: Batch) -> None:
        time_stamps = batch.time_stamps
        before = self._last[0]
        columns = dict(batch.columns)
        for name, boundary in self._marks.items():
            if before < boundary <= time_stamps[-1]:
                here = np.zeros(len(time_stamps), np.bool_)
                here[np.searchsorted(time_stamps, boundary)] = True
                columns[name] = here
        last = int(time_stamps[-1])
        count = len(time_stamps) - int(np.searchsorted(time_stamps, last))
        self._last = last, count - 1 + (self._last[1] + 1 if last == before else 0)
        # verdicts on earlier last events do not count any more
        self._is_possible = not self._is_false(self._monitor.feed(batch._replace(columns=columns)))

    def finish(self) -> None:
        if self._is_false(self._monitor.finish()):
            self._is_possible = False

    def _is_false(self, records: NDArray[np.void]) -> bool:
        time_stamp, offset = self._last
        here = (records["time_stamp"] == time_stamp) & (records["offset"] == offset)
        return bool((records["kind"][here] == FALSE_KIND).any())

    @property
    def findings(self) -> list[Finding]:
        if self._is_possible:
            return []
        return [Finding(self._combination, AT_END, *self._last, FALSE)]


def _until(reader: RangeReader, family: int) -> int:
    one = reader.plan.families.families[family]
    return reader.rows.builder.row(
        UNTIL, reader.rows.of(one.left), reader.rows.of(one.right), 0, None
    )
