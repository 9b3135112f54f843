"""A batch of events of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from mtlmon.checking.time_points import ChosenPoints, chosen_points
from mtlmon.syntax.durations import Duration
from mtlmon.tables.columns.letters import Letters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from mtlmon.arrays.native import EventColumns
    from mtlmon.checking.sources import Origins
    from mtlmon.history.operations import Corrections
    from mtlmon.policy.definitions import Clock
    from mtlmon.policy.predicates.time_points import When
    from mtlmon.streams.atoms import Values


class EventBatch:
    """A batch of events, one for each usable row, in order.

    Attributes:
        events: the input for monitors, with the atoms in the requested order.
        numbers: for each event, the number of its key in `TableEvents.keys`; None without keys.
            With several partitions, these are the numbers of the first one.
        time_stamps: the time-stamps of the events.
        source: the name of the file, or None if the events have been sorted.
        rows: the numbers of the rows in the file, from 1; None if the events have been sorted.
        is_tail: whether this is the last row of a log without a line feed, which may still be
            incomplete.
        values: the values of the streams that `open_tables` was asked for, at the rows and at the
            ticks before them; None if it was not asked for any.
        tick_end: a time below which all ticks have come with this batch and those before it.
        has_all_ticks: whether no tick is left out because nothing changes there, from this batch
            on.
        origins: the files and rows of the events, if `TableEvents.track_rows` was called.
        corrections: what the rows do, if `open_tables` was asked for that.
        inputs: the columns that streams read, if the caller computes the streams.
        instances: for each partition, how many instances of streams were alive at once.
    """

    origins: Origins | None = None
    corrections: Corrections | None = None
    inputs: pa.RecordBatch | None = None
    instances: Sequence[Mapping[str, int]] = ()

    def __init__(
        self,
        letters: Letters,
        atoms: tuple[str, ...],
        time_stamps: NDArray[np.int64],
        numbers: Sequence[NDArray[np.uint32] | None],
        source: str | None,
        rows: NDArray[np.int64] | range | None,
        is_tail: bool = False,
        values: Values | None = None,
        tick_end: int = 0,
        has_all_ticks: bool = False,
    ) -> None:
        self.tick_end = tick_end
        self.has_all_ticks = has_all_ticks
        self.is_tail = is_tail
        self.values = values
        self._letters = letters
        self._atoms = atoms
        self.time_stamps = time_stamps
        self._numbers = tuple(numbers)
        self.source = source
        self.rows = rows
        self.events = letters.events(time_stamps, range(len(atoms)))

    def __len__(self) -> int:
        return len(self.time_stamps)

    @property
    def numbers(self) -> NDArray[np.uint32] | None:
        return self._numbers[0]

    def numbers_of(self, partition: int) -> NDArray[np.uint32] | None:
        """Return the number of each event's trace in a partition; None if it has one trace."""
        return self._numbers[partition]

    def shown_of(self, partition: int) -> Mapping[str, pa.Array]:
        """Return the values to show in a partition, by their names in `PolicyFile.shown`."""
        return self._letters.shown[partition] if self._letters.shown else {}

    @property
    def atoms(self) -> tuple[str, ...]:
        """The atoms of letters, in the order of their bits."""
        return self._atoms

    @property
    def first_row(self) -> int | None:
        """The number of the first row in the file, from 1; None if there is none."""
        return int(self.rows[0]) if self.rows is not None and len(self.rows) else None

    @property
    def letters(self) -> NDArray[np.uint64]:
        """The letters of the first partition."""
        return self.letters_of(0)

    def letters_of(self, partition: int) -> NDArray[np.uint64]:
        """Return the atoms of every event: one row of 64-bit words, whose bit i is atom i."""
        return self._letters.words(len(self), len(self._atoms), partition)

    def chosen(self, partition: int, clock: Clock) -> ChosenPoints:
        """Return the time-points of a clock in a partition."""
        ticks = None
        if clock.period is not None and self._letters.of_ticks:
            assert not isinstance(clock.period, Duration)
            ticks = self._letters.of_ticks[partition].get(cast("When", clock.period))
        return chosen_points(self, self._atoms, partition, clock, ticks)

    def events_of(self, atoms: Sequence[str], partition: int = 0) -> EventColumns:
        """Return the events as input for a monitor that has only these atoms, in this order."""
        numbers = [self._atoms.index(name) for name in atoms]
        return self._letters.events(self.time_stamps, numbers, partition)
