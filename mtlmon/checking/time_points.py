"""The time-points of policies that are not on all rows: rows where an atom holds, or ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from mtlmon.arrays.native import EventColumns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from mtlmon.checking.sources import TimeStamps
    from mtlmon.policy.definitions import Clock
    from mtlmon.streams.atoms import TickAtoms

__all__ = ["ChosenPoints", "PointBatch"]


class PointBatch(Protocol):
    """Rows and ticks with their atoms: what of `EventBatch` is needed to find time-points."""

    @property
    def time_stamps(self) -> TimeStamps:
        """The time-stamps of the rows."""

    @property
    def atoms(self) -> tuple[str, ...]:
        """The atoms of letters, in the order of their bits."""

    def chosen(self, partition: int, clock: Clock) -> ChosenPoints:
        """Return the time-points of a clock in a partition."""

    def events_of(self, atoms: Sequence[str], partition: int = 0) -> EventColumns:
        """Return the rows as input for a monitor with these atoms, in a partition."""

    def numbers_of(self, partition: int) -> NDArray[np.uint32] | None:
        """Return the number of each row's trace in a partition; None if it has one trace."""

    def letters_of(self, partition: int) -> NDArray[np.uint64]:
        """Return the atoms of every row: one row of 64-bit words, whose bit i is atom i."""

    def shown_of(self, partition: int) -> Mapping[str, pa.Array]:
        """Return the values to show in a partition, by their names in `PolicyFile.shown`."""


class ChosenPoints:
    """Some time-points of a batch, in order.

    Args:
        atoms: the names of the atoms.
        time_stamps: the time-stamps of the time-points.
        numbers: the numbers of their traces, of type uint32.
        places: the index of the row that each comes with, of type uint32; a tick comes with the
            first row above it, and the number of rows stands for no row of the batch.
        letters: the atoms, one row of 64-bit words for each time-point, whose bit i is atom i.
        shown: the values to show, by their names in `PolicyFile.shown`.

    Attributes:
        atoms: as given.
        time_stamps: as given.
        numbers: as given.
        places: as given.
        letters: as given.
        shown: as given.
    """

    def __init__(
        self,
        atoms: Sequence[str],
        time_stamps: NDArray[np.int64],
        numbers: NDArray[np.uint32],
        places: NDArray[np.uint32],
        letters: NDArray[np.uint64],
        shown: Mapping[str, pa.Array],
    ) -> None:
        self.atoms = tuple(atoms)
        self.time_stamps = np.ascontiguousarray(time_stamps)
        self.numbers = np.ascontiguousarray(numbers)
        self.places = np.ascontiguousarray(places)
        self.letters = letters
        self.shown = shown

    def __len__(self) -> int:
        return len(self.time_stamps)

    def events_of(self, atoms: Sequence[str]) -> EventColumns:
        """Return the time-points as input for a monitor with these atoms."""
        events = EventColumns(self.time_stamps, len(self))
        for place, name in enumerate(atoms):
            number = self.atoms.index(name)
            column = np.ascontiguousarray(self.letters[:, number // 64])
            events.add_bit_of_masks(place, column, number % 64)
        return events

    @classmethod
    def of_rows(
        cls, batch: PointBatch, atoms: Sequence[str], partition: int, atom: str
    ) -> ChosenPoints:
        """Return the rows of a batch where an atom holds."""
        letters = batch.letters_of(partition)
        number = atoms.index(atom)
        rows = np.flatnonzero(letters[:, number // 64] >> np.uint64(number % 64) & np.uint64(1))
        time_stamps = np.asarray(batch.time_stamps)[rows]
        shown = {name: one.take(rows) for name, one in batch.shown_of(partition).items()}
        own = batch.numbers_of(partition)
        numbers = np.zeros(len(rows), np.uint32) if own is None else np.asarray(own)[rows]
        return cls(atoms, time_stamps, numbers, rows.astype(np.uint32), letters[rows], shown)

    @classmethod
    def of_ticks(cls, found: TickAtoms | None) -> ChosenPoints:
        """Return ticks; None stands for no ticks at all."""
        if found is None:
            none = np.empty(0, np.uint32)
            return cls((), np.empty(0, np.int64), none, none, np.empty((0, 1), np.uint64), {})
        atoms = [name for name in found.atoms if name]
        ticks = found.ticks
        letters = np.zeros((len(ticks), max(1, (len(atoms) + 63) // 64)), np.uint64)
        for number, name in enumerate(atoms):
            held = np.asarray(found.atoms[name]).astype(np.uint64)
            letters[:, number // 64] |= held << np.uint64(number % 64)
        places = ticks.places.astype(np.uint32)
        return cls(atoms, ticks.time_stamps, ticks.numbers, places, letters, found.shown)


def chosen_points(
    batch: PointBatch,
    atoms: Sequence[str],
    partition: int,
    clock: Clock,
    ticks: TickAtoms | None,
) -> ChosenPoints:
    """Return the time-points of a clock.

    Args:
        batch: the rows.
        atoms: the atoms of their letters.
        partition: the number of the partition.
        clock: the clock.
        ticks: its ticks, if it has some.
    """
    if clock.atom is not None:
        return ChosenPoints.of_rows(batch, atoms, partition, clock.atom)
    return ChosenPoints.of_ticks(ticks)
