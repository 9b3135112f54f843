"""The ticks of streams with `per` and `every`: each instance has its own, while it is alive.

They are time-points with the numbers of instances, and are found after the rows of a batch have
begun and ended instances: at all ticks of those that are alive, or at those that are due as for
traces, with one more queue whose traces are instances. Expressions that read them from outside, at
rows or ticks, see these ticks, and the beginnings and ends of instances, in one order
(`Points.instance_meeting`). A tick of a trace that is left out takes those of its instances with
it.

Ticks are at the multiples of a period, or each instance counts them from its first row: then they
are that many times the period later, and `own_dues` finds those that are due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtlmon.policy.predicates.time_points import BEGINNINGS, ROWS
from mtlmon.streams.due_ticks import DueTicks
from mtlmon.streams.own_dues import OwnDues
from mtlmon.streams.points import moments_behind, tick_times
from mtlmon.streams.ticking import LATEST, NO_TICKS, Ticks, multiples

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.policy.predicates.environment import Environment
    from mtlmon.streams.delays import Delays
    from mtlmon.streams.instances import Family
    from mtlmon.streams.layer import Columns
    from mtlmon.streams.points import Points


class TimeColumn(NamedTuple):
    """The column of times, which has a value at ticks.

    Attributes:
        name: its name.
        type: its type.
        environment: the units.
    """

    name: str
    type: pa.DataType
    environment: Environment


class InstanceTicks:
    """Finds the ticks of the instances of a family.

    The ticks of an instance are those at which it is alive. If `find_due` is called, only those are
    found at which values may change.

    Args:
        frame: the number of these time-points, which is negative.
        family: the instances.
        period: the period of the ticks; from `BEGINNINGS` on, each instance counts them from its
            beginning.
        time: the time column, if rows have it.

    Attributes:
        frame: as given.
        family: as given.
        period: the period, in units of time.
        is_from_beginning: whether each instance counts the ticks from its beginning.
        delays: when rows make a difference to values; None if others do, too.
    """

    def __init__(self, frame: int, family: Family, period: int, time: TimeColumn | None) -> None:
        self.frame = frame
        self.family = family
        self._time = time
        self.is_from_beginning = period >= BEGINNINGS
        self.period = period - BEGINNINGS if self.is_from_beginning else period
        self.delays: Delays | None = None
        self._due: DueTicks | OwnDues | None = None

    def find_due(self, delays: Delays) -> None:
        """Find only the ticks at which values may change, from the first row on."""
        self.delays = delays
        if self.is_from_beginning:
            self._due = OwnDues(self.period, delays)
        else:
            self._due = DueTicks((self.period,), delays)

    def find_all(self) -> None:
        """Find all ticks from now on."""
        self._due = None

    @property
    def due(self) -> DueTicks | OwnDues | None:
        """Finds the ticks at which values may change; None if all are found."""
        return self._due

    def add(self, columns: Columns, points: Points) -> None:
        """Add the ticks of a batch, whose instances have begun and ended."""
        found, traces = self._find(points)
        points.add_instance_ticks(self.frame, found, traces)
        if self._time is not None:
            name, kind, environment = self._time
            columns[self.frame][name] = tick_times(found.time_stamps, kind, environment)

    def _find(self, points: Points) -> tuple[Ticks, NDArray[np.uint32]]:
        """The ticks, with the numbers of instances, and the numbers of their traces."""
        table = self.family.table
        times, numbers = self._candidates(points)
        if not len(times):
            return NO_TICKS, NO_TICKS.numbers
        places = points.places_of(times)
        is_kept = np.empty(len(times), np.uint8)
        table.living_at(numbers, moments_behind(places), times, is_kept)
        chosen = np.flatnonzero(is_kept)
        ticks = Ticks(times[chosen], numbers[chosen], places[chosen])
        traces = np.empty(len(ticks), np.uint32)
        table.traces_of(ticks.numbers, traces)
        kept = points.is_in_span(ticks.time_stamps, traces)
        return ticks.chosen(kept), traces[kept]

    def _candidates(self, points: Points) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Times and instances, alive or not, in order of time."""
        limit = points.span.limit
        rows = points.batch(self.family.frame)
        if isinstance(self._due, OwnDues):
            numbers = rows.numbers_of_traces
            return self._due.ticks(rows.times, numbers, limit, self.family.table)
        if self._due is not None:
            found, _ = self._due.ticks(rows.times, rows.numbers_of_traces, limit)
            return found.time_stamps, found.numbers
        if self.is_from_beginning:
            return self._from_beginnings(points.span.start, limit)
        times = multiples((self.period,), points.span.start, limit)
        count = self.family.table.count
        return np.repeat(times, count), np.tile(np.arange(count, dtype=np.uint32), len(times))

    def _from_beginnings(
        self, start: int, limit: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """The times and instances of ticks that are counted from beginnings."""
        table, period = self.family.table, self.period
        numbers = np.arange(table.count, dtype=np.uint32)
        births = np.empty(len(numbers), np.int64)
        table.births_of(numbers, births)
        # how many periods after its birth the first and the last tick of an instance are
        first = np.maximum(1, -((births - start) // period))
        last = (limit - 1 - births) // period
        counts = np.maximum(0, last - first + 1)
        owners = np.repeat(np.arange(len(numbers)), counts)
        steps = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        times = births[owners] + (first[owners] + steps) * period
        order = np.lexsort((owners, times))
        return times[order], numbers[owners[order]]

    def time_behind(self, done: int, count: int) -> int:
        """Return a time below which there are about so many ticks that come from one time on.

        There is at least one, if any is to come. It is for ticks that are all found.
        """
        living = self.family.table.living
        if not living:
            return LATEST
        return min(LATEST, done + max(1, count // living) * self.period + 1)

    def tick_counts(
        self, time_stamps: NDArray[np.int64], start: int, of_traces: NDArray[np.int64]
    ) -> NDArray[np.int64] | int:
        """Return how many ticks there are before each of the next rows at most.

        Those that are due are not counted, as there are no more than the rows that make them so.

        Args:
            time_stamps: the times of the rows.
            start: all ticks below this time are done.
            of_traces: how many ticks of traces there are before each row at most.
        """
        if self._due is not None:
            return 0
        counts = np.maximum(0, -(-time_stamps // self.period) - -(-start // self.period))
        # each row, or tick of a trace, may begin an instance
        begun = np.arange(len(time_stamps)) if self.family.lifetime.clock == ROWS else of_traces
        instances = self.family.table.count + np.minimum(begun, 2**30)
        most: NDArray[np.int64] = np.minimum(counts, 2**30) * instances
        return most

    def begin(self) -> None:
        """Let `undo` return to the present state from now on."""
        if self._due is not None:
            self._due.begin()

    def undo(self) -> None:
        """Return to the state at the last `begin`."""
        if self._due is not None:
            self._due.undo()

    def keep(self, new_numbers: bytes) -> None:
        """Give instances new numbers; see `native.Instances.compact`."""
        if self._due is not None:
            self._due = self._due.kept(new_numbers)

    def forget_all(self) -> None:
        """Return to the state before the first row."""
        if self._due is not None:
            self._due = self._due.emptied()

    def snapshot(self) -> bytes:
        """Return the state as bytes for `restore`."""
        return b"" if self._due is None else self._due.snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot.

        Raises:
            ValueError: the bytes are not a snapshot.
        """
        if isinstance(self._due, OwnDues):
            self._due = self._due.restored(snapshot, self.family.table.count)
        elif self._due is not None:
            self._due = self._due.restored(snapshot)
        elif snapshot:
            raise ValueError("not a snapshot of ticks")

    @property
    def held_bytes(self) -> int:
        """The number of bytes that the state takes."""
        return 0 if self._due is None else self._due.held_bytes
