"""Feeds the events of one range to monitors of masked formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from mtlmon.arrays.native import EventColumns
from mtlmon.cutting.carries import OPEN, TRUE
from mtlmon.cutting.masks import MaskedProgram
from mtlmon.drive.native import SuccessiveMonitor
from mtlmon.verdicts.arrays import verdict_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mtlmon.cutting.carries import Carries
    from mtlmon.cutting.plan import EndTime, Plan
    from mtlmon.engine.native import Program

    Columns: TypeAlias = dict[str, NDArray[np.bool_]]

_NO_STARTS = np.zeros(0, np.uint32)


class Batch(NamedTuple):
    """A batch of events.

    Attributes:
        time_stamps: the time-stamps of the events.
        words: a row of 64-bit words for each event, with the plan's atoms as bits.
        columns: the atoms of masks that hold at some event, by name.
    """

    time_stamps: NDArray[np.int64]
    words: NDArray[np.uint64]
    columns: Columns


class RangeReader:
    """Adds the atoms of masks to the events of a range, and makes monitors for them.

    Args:
        plan: the ranges.
        place: the number of the range.
        carries: the values at boundaries of all families that occur in the monitored formulas.
    """

    def __init__(self, plan: Plan, place: int, carries: Carries) -> None:
        needs = plan.needs
        self.plan = plan
        self.own = int(needs.starts[place]), int(needs.lasts[place])
        self._read = int(needs.first[place]), int(needs.last[place])
        self.is_last = place == plan.range_count - 1
        # the family, whether its rows are UNTILs, its boundary, its value there
        self._masks = [
            (
                family,
                plan.families.families[family].is_future,
                int(needs.boundaries[family][place]),
                int(carries[family][place]) if family in carries else 0,
            )
            for family in plan.masked(place)
        ]
        self.rows = MaskedProgram(plan.program, plan.families, plan.masked(place))
        self._atoms = self.rows.atoms

    def monitor(self, operand: int) -> RangeMonitor:
        """Make a monitor of an operand of `rows`.

        Where the range needs them, its verdicts are those of a monitor of the whole trace.
        """
        return RangeMonitor(
            self.rows.builder.program(operand, is_bounded=self.plan.program.is_bounded),
            self.plan,
            self._end_time if not self._is_open else None,
        )

    @property
    def _is_open(self) -> bool:
        return any(is_future and value == OPEN for _, is_future, _, value in self._masks)

    @property
    def _end_time(self) -> EndTime:
        # a range before the last one has read all that its time-points depend on
        return self.plan.end_time if self.is_last else "inf"

    def _columns(self, time_stamps: NDArray[np.int64]) -> Columns:
        """The atoms of masks that hold at some of the events."""
        columns: Columns = {}
        for family, is_future, boundary, value in self._masks:
            outside = time_stamps >= boundary if is_future else time_stamps < boundary
            if outside.any():
                columns[self._atoms.outside(family)] = outside
                if value == TRUE:
                    columns[self._atoms.witness(family)] = outside
                elif value == OPEN:
                    columns[self._atoms.open(family)] = outside
        return columns

    def opening(self) -> Batch | None:
        """Return an event to put before all events that are read, as a witness, or None.

        Its time-stamp is 0. If the trace is read from its beginning, there already is an event
        beyond the boundary, and none may be added.
        """
        is_held = any(not is_future and value == TRUE for _, is_future, _, value in self._masks)
        if self._read[0] == self.plan.trace[0] or not is_held:
            return None
        return self._added(0)

    def closing(self) -> Batch | None:
        """Return an event to put after all events that are read, or None.

        The event decides the UNTILs that are masked, or keeps them open. Its time-stamp is the last
        of the trace. If the trace is read to its end, there already is an event beyond the
        boundary, and none may be added.
        """
        trace_last = self.plan.trace[1]
        if self._read[1] == trace_last or not any(is_future for _, is_future, _, _ in self._masks):
            return None
        return self._added(trace_last)

    def batch(self, time_stamps: NDArray[np.int64], words: NDArray[np.uint64]) -> Batch:
        """Return the events with the atoms of masks."""
        return Batch(time_stamps, words, self._columns(time_stamps))

    def _added(self, time_stamp: int) -> Batch:
        """An event that only has atoms of masks."""
        words = np.zeros((1, max(1, (len(self.plan.atoms) + 63) // 64)), np.uint64)
        return self.batch(np.full(1, time_stamp, np.int64), words)


class RangeMonitor:
    """A monitor with Boolean verdicts, over the atoms of a program and those of masks.

    Args:
        program: the masked program.
        plan: the plan, which names the bits of letters and the mode.
        end_time: what is known about the time after the events.
    """

    def __init__(self, program: Program, plan: Plan, end_time: EndTime) -> None:
        self._monitor = SuccessiveMonitor(program, plan.mode, resolve=True, end_time=end_time)
        self._base = plan.atoms
        self._number_of = {name: number for number, name in enumerate(self._base)}

    def feed(self, batch: Batch) -> NDArray[np.void]:
        """Process events and return the new verdicts."""
        time_stamps, words, columns = batch
        events = EventColumns(time_stamps, len(time_stamps))
        atoms = self._monitor.atoms
        # the atoms of the program come first, in its order
        has_all = bool(self._base) and atoms[: len(self._base)] == self._base
        if has_all:
            for word in range((len(self._base) + 63) // 64):
                events.add_letters(len(self._base), words[:, word], word)
        for place, name in enumerate(atoms):
            number = self._number_of.get(name)
            if number is None:
                if name in columns:
                    events.add_bytes(place, columns[name].view(np.uint8))
            elif not has_all:
                events.add_bit_of_masks(place, words[:, number // 64], number % 64)
        records, _ = self._monitor.feed(events, _NO_STARTS)
        return np.frombuffer(records, verdict_type())

    def finish(self) -> NDArray[np.void]:
        """End the trace and return the last verdicts."""
        return np.frombuffer(self._monitor.finish(), verdict_type())
