"""Atoms of a text log that are computed, as rows of policies with variables.

They become rows block by block, before the engine reads the time-points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtlmon.checking.text_logs import TextBatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtlmon.checking.text_streams import TextStreams
    from mtlmon.errors import MtlmonError
    from mtlmon.relational.input.native import RowEvents, RowScanner

__all__ = ["ComputedEvents"]

_WORD_BYTES = 8


class ComputedEvents:
    """Reads events as `RowEvents` does, and adds rows of computed atoms to their time-points.

    Args:
        events: reads the log; its atoms are at least those that the computed ones use.
        streams: computes the atoms.
        numbers: the number in time-points of each atom to compute, by its name.

    Attributes:
        rows: the scanner of the log, whose time-points have the rows.
    """

    def __init__(self, events: RowEvents, streams: TextStreams, numbers: Mapping[str, int]) -> None:
        self._events = events
        self._streams = streams
        self._numbers = numbers
        # how many events have been returned last
        self._count = 0
        self._error: MtlmonError | None = None
        self.rows: RowScanner = events.rows
        self.load = events.load
        self.load_end = events.load_end
        self.number_lines = events.number_lines
        self.snapshot = events.snapshot
        self.restore = events.restore

    def without_rows(self, events: RowEvents) -> ComputedEvents:
        """Return what reads a log only for the streams of this object.

        Args:
            events: reads the log, and drops its time-points.
        """
        return ComputedEvents(events, self._streams, {})

    @property
    def atoms(self) -> tuple[str, ...]:
        """The atoms of letters, in the order of their bits."""
        return self._events.atoms

    @property
    def scanner(self) -> RowEvents:
        """What knows what was read."""
        return self._events

    @property
    def last_time_stamp(self) -> int | None:
        """The time-stamp of the last line read, or None before the first line."""
        return self._events.last_time_stamp

    @property
    def held_bytes(self) -> int:
        """The bytes of memory that reading and streams take, not including the block."""
        return self._events.held_bytes + self._streams.held_bytes

    @property
    def lines(self) -> bytes:
        """After `number_lines`: bytes of the lines of the events that `read` has returned last."""
        return self._events.lines[: self._count * _WORD_BYTES]

    def read(self) -> tuple[bytes, bytes]:
        """Return the next events of the block, as `RowEvents.read` does.

        Raises:
            LogError: the next line cannot be read.
            MtlmonError: integers overflow at the next event, or at a tick before it.
        """
        # imported on use, as most logs have no computed atoms
        import numpy as np

        if self._error is not None:
            raise self._error
        times, letters = self._events.read()
        if not times:
            return times, letters
        atoms = self._events.atoms
        marks: dict[str, list[bytes]] = {name: [] for name in self._numbers}
        self._count = 0
        for piece in self._streams.pieces(TextBatch(times, letters, atoms)):
            self._count += len(piece.time_stamps)
            for name in marks if len(piece.time_stamps) else ():
                place = piece.atoms.index(name)
                words = piece.letters_of(0)[:, place // 64]
                held = words >> np.uint64(place % 64) & np.uint64(1)
                marks[name].append(held.astype(np.uint8).tobytes())
        for name, number in self._numbers.items():
            self.rows.points.mark(number, b"".join(marks[name]))
        self._error = self._streams.error
        if self._error is not None:
            # the events before are checked first
            self.rows.points.keep(self._count)
            if not self._count:
                raise self._error
        words_size = len(letters) // (len(times) // _WORD_BYTES)
        return times[: self._count * _WORD_BYTES], letters[: self._count * words_size]
