"""The interface of logs that can be checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.arrays.native import EventColumns, KeyTable

    TimeStamps = NDArray[np.int64] | memoryview
    StreamNumbers = NDArray[np.uint32] | memoryview

__all__ = ["EventBatch", "EventSource"]


class EventBatch(Protocol):
    """A part of a log: consecutive events, in order."""

    @property
    def time_stamps(self) -> TimeStamps:
        """The time-stamps of the events."""

    @property
    def numbers(self) -> NDArray[np.uint32] | None:
        """For each event, the number of its trace; None if there is only one trace."""

    @property
    def letters(self) -> NDArray[np.uint64]:
        """The atoms of every event: one row of 64-bit words per event, whose bit i is atom i."""

    def events_of(self, atoms: Sequence[str]) -> EventColumns:
        """Return the events as input for a monitor with these atoms."""


class EventSource(Protocol):
    """A log, whose events can be read once."""

    @property
    def keys(self) -> KeyTable | None:
        """The keys of the traces, by number; None if there is only one trace."""

    @property
    def can_forget_keys(self) -> bool:
        """Whether future batches use the numbers that `keys` has by then, so that keys can go."""

    @property
    def clock(self) -> int | None:
        """The largest time-stamp so far, or None before the first event."""

    def __iter__(self) -> Iterator[EventBatch]: ...
