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
    """Some events of a log, in order."""

    @property
    def time_stamps(self) -> TimeStamps:
        """The time-stamps of the events."""

    @property
    def numbers(self) -> NDArray[np.uint32] | None:
        """The traces that the events belong to, by number; None if there is only one trace."""

    @property
    def letters(self) -> NDArray[np.uint64]:
        """The atoms of every event: one row of 64-bit words per event, whose bit i is atom i."""

    def events_of(self, atoms: Sequence[str]) -> EventColumns:
        """The events for a monitor with these atoms."""


class EventSource(Protocol):
    """A log, whose events can be read once."""

    @property
    def keys(self) -> KeyTable | None:
        """The keys of the traces, by number; None if there is only one trace."""

    @property
    def can_forget_keys(self) -> bool:
        """Whether future batches take the numbers of their keys from `keys` as it is then."""

    @property
    def clock(self) -> int | None:
        """The largest time-stamp so far, or None before the first event."""

    def __iter__(self) -> Iterator[EventBatch]: ...
