"""What a log has to be to be checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.arrays.native import EventColumns, KeyTable

__all__ = ["EventBatch", "EventSource"]


class EventBatch(Protocol):
    """Some events of a log, in order."""

    @property
    def time_stamps(self) -> NDArray[np.int64]:
        """Of the events."""

    @property
    def numbers(self) -> NDArray[np.uint32] | None:
        """Of the traces that the events belong to; None if there is only one."""

    @property
    def letters(self) -> NDArray[np.uint64]:
        """The atoms of every event: 64-bit words in one row, bit i of which is atom i."""

    def events_of(self, atoms: Sequence[str]) -> EventColumns:
        """The events for a monitor with these atoms."""


class EventSource(Protocol):
    """A log, whose events are read once."""

    @property
    def keys(self) -> KeyTable | None:
        """Of traces, by number; None if there is only one."""

    @property
    def can_forget_keys(self) -> bool:
        """Whether all batches to come take the numbers of their keys from `keys` as it is then."""

    @property
    def clock(self) -> int | None:
        """The largest time-stamp so far, None before the first event."""

    def __iter__(self) -> Iterator[EventBatch]: ...
