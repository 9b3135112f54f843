"""Puts events that come late into the order of time, as far as they are not too late.

The meaning is that of `mtlmon.text.native.LineOrder`, which logs are read through: an event below
the *frontier*, the largest time-stamp so far less the time that events wait, comes too late, which
is an error here; events up to it are released in the order of their time-stamps, and those of one
time-stamp in the order in which they came.
"""

from __future__ import annotations

from datetime import timedelta
from heapq import heappop, heappush
from operator import index
from typing import TYPE_CHECKING, Generic, TypeVar

from mtlmon.errors import EventTypeError, MtlmonError, TimeStampError
from mtlmon.syntax.bounds import UNITS
from mtlmon.syntax.durations import Duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Wait = int | str | timedelta

__all__ = ["EventOrder", "ordered", "wait_units"]

LARGEST_TIME_STAMP = (1 << 63) - 1
_MICROSECOND = timedelta(microseconds=1)

Item = TypeVar("Item")


class EventOrder(Generic[Item]):
    """Takes events, and returns them in the order of time.

    Args:
        wait: how far below the largest time-stamp so far an event may be, in time units.

    Attributes:
        wait: as given.
        position: how many events came before the one that was returned last.
    """

    def __init__(self, wait: int) -> None:
        self.wait = wait
        self.position = 0
        self._count = 0
        self._latest = 0
        # time has passed up to here without events
        self._passed = 0
        self._waiting: list[tuple[int, int, Item]] = []

    @property
    def frontier(self) -> int:
        """No event below this time is taken any more."""
        return max(self._passed, self._latest - self.wait)

    def add(self, time_stamp: int, event: Item) -> None:
        """Take an event.

        Raises:
            TimeStampError: it comes too late.
        """
        __tracebackhide__ = True
        if time_stamp < self.frontier:
            raise TimeStampError(
                f"time-stamp {time_stamp} comes too late: it is below {self.frontier}, "
                + (
                    "up to which time has passed"
                    if self._passed == self.frontier
                    else f"the largest one so far minus the wait of {self.wait}"
                )
            )
        self._latest = max(self._latest, time_stamp)
        heappush(self._waiting, (time_stamp, self._count, event))
        self._count += 1

    def pass_time(self, time_stamp: int) -> None:
        """Declare that events below a time come too late from now on."""
        self._passed = max(self._passed, time_stamp)

    def released(self) -> Iterator[Item]:
        """Yield the events before which none can come any more."""
        while self._waiting and self._waiting[0][0] <= self.frontier:
            _, self.position, event = heappop(self._waiting)
            yield event

    def finish(self) -> Iterator[Item]:
        """Yield the other events: no more events come."""
        while self._waiting:
            _, self.position, event = heappop(self._waiting)
            yield event


def ordered(
    events: Iterable[Item], order: EventOrder[Item], time_of: Callable[[Item], Any]
) -> Iterator[Item]:
    """Yield events in the order of time.

    Args:
        events: the events as they come.
        order: puts them into order.
        time_of: returns the time-stamp of an event.

    Raises:
        TimeStampError: a time-stamp is negative or too large, or comes too late.
        EventTypeError: a time-stamp is no integer.
    """
    __tracebackhide__ = True
    for position, event in enumerate(events):
        given = time_of(event)
        try:
            time_stamp = index(given)
        except TypeError:
            raise EventTypeError(
                f"event {position}: a time-stamp is an integer, not {given!r}", index=position
            ) from None
        if not 0 <= time_stamp <= LARGEST_TIME_STAMP:
            raise TimeStampError(
                f"event {position}: time-stamp {time_stamp} is not between 0 and 2^63-1",
                index=position,
            )
        try:
            order.add(time_stamp, event)
        except TimeStampError as error:
            raise TimeStampError(f"event {position}: {error}", index=position) from None
        yield from order.released()
    yield from order.finish()


def wait_units(wait: Wait, unit: str | None) -> int:
    """Return how late an event may be, in time units.

    Args:
        wait: a number of time units, a length of time as a text, or a timedelta.
        unit: the unit of the time-stamps, or None if it is not known.

    Raises:
        MtlmonError: `wait` is something else, or no whole number of the unit.
    """
    __tracebackhide__ = True
    if isinstance(wait, int) and wait >= 0:
        return wait
    length = Duration.parse(wait) if isinstance(wait, str) else None
    if isinstance(wait, timedelta) and wait >= timedelta(0):
        length = Duration(wait // _MICROSECOND, "us")
    if length is None:
        raise MtlmonError(
            f"wait={wait!r} is neither a number of time units from 0 on nor a length of time, as "
            "in wait='5s'"
        )
    if unit is None:
        raise MtlmonError(
            f"wait={wait!r} needs the unit of the time-stamps: add unit='s', for instance, or give "
            "a number of time units"
        )
    units, rest = divmod(length.nanoseconds, UNITS[unit])
    if rest:
        raise MtlmonError(f"wait={wait!r} is not a whole number of the time-stamps' unit, {unit}")
    return units
