"""Monitors that read the events of one range."""

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
    """Events.

    Attributes:
        time_stamps: of the events.
        words: a row of 64-bit words for each, with the plan's atoms as bits.
        columns: atoms of masks by name, those that hold somewhere.
    """

    time_stamps: NDArray[np.int64]
    words: NDArray[np.uint64]
    columns: Columns


class RangeReader:
    """The events of a range as monitors of masked formulas are to see them.

    Args:
        place: the number of the range.
        carries: the values of families at boundaries, of all that are inside the formulas.
    """

    def __init__(self, plan: Plan, place: int, carries: Carries) -> None:
        needs = plan.needs
        self.plan = plan
        self.own = int(needs.starts[place]), int(needs.lasts[place])
        self._read = int(needs.first[place]), int(needs.last[place])
        self.is_last = place == plan.range_count - 1
        # the family, whether of UNTILs, its boundary and its value there
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
        """A monitor of an operand among `rows`.

        Its verdicts are those of a monitor of the whole trace, where the range needs them.
        """
        return RangeMonitor(
            self.rows.builder.program(operand),
            self.plan,
            self._end_time if not self._is_open else None,
        )

    @property
    def _is_open(self) -> bool:
        return any(is_future and value == OPEN for _, is_future, _, value in self._masks)

    @property
    def _end_time(self) -> EndTime:
        # a range that does not come to the end has read all that its time-points depend on
        return self.plan.end_time if self.is_last else "inf"

    def _columns(self, time_stamps: NDArray[np.int64]) -> Columns:
        """The atoms of masks at events, those that hold at some of them."""
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
        """An event before all those that are read, for a witness before them.

        It stands at the earliest time that there can be. Where the trace is read from its beginning
        there is an event beyond the boundary already, and none may be added.
        """
        is_held = any(not is_future and value == TRUE for _, is_future, _, value in self._masks)
        if self._read[0] == self.plan.trace[0] or not is_held:
            return None
        return self._added(0)

    def closing(self) -> Batch | None:
        """An event behind all those that are read, to end the waiting of UNTILs or to keep it up.

        It stands at the latest time that there is. Where the trace is read to its end there is an
        event beyond the boundary already, and none may be added.
        """
        trace_last = self.plan.trace[1]
        if self._read[1] == trace_last or not any(is_future for _, is_future, _, _ in self._masks):
            return None
        return self._added(trace_last)

    def batch(self, time_stamps: NDArray[np.int64], words: NDArray[np.uint64]) -> Batch:
        """Events with the atoms of masks."""
        return Batch(time_stamps, words, self._columns(time_stamps))

    def _added(self, time_stamp: int) -> Batch:
        """An event with nothing but atoms of masks."""
        words = np.zeros((1, max(1, (len(self.plan.atoms) + 63) // 64)), np.uint64)
        return self.batch(np.full(1, time_stamp, np.int64), words)


class RangeMonitor:
    """A monitor over the atoms of a program and those of masks, with Boolean verdicts.

    Args:
        end_time: what is known about the time after the events.
    """

    def __init__(self, program: Program, plan: Plan, end_time: EndTime) -> None:
        self._monitor = SuccessiveMonitor(program, plan.mode, resolve=True, end_time=end_time)
        self._base = plan.atoms
        self._number_of = {name: number for number, name in enumerate(self._base)}

    def feed(self, batch: Batch) -> NDArray[np.void]:
        """The verdicts that events bring."""
        time_stamps, words, columns = batch
        events = EventColumns(time_stamps, len(time_stamps))
        atoms = self._monitor.atoms
        # those of the program come first, in its order
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
        """The verdicts that the end brings."""
        return np.frombuffer(self._monitor.finish(), verdict_type())
