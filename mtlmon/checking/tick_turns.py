"""How many ticks policies take at a time, so that their verdicts do not fill the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from mtlmon.drive.native import PolicyMonitors

__all__ = ["TickTurn", "tick_turns"]

_MOST_TICKS = 1 << 18
"""About how many ticks of all policies and traces there are in a turn."""


class TickTurn(NamedTuple):
    """Some of the next rows, and the ticks that come before them.

    Attributes:
        first: the index of the first row.
        row_count: how many rows; 0 for some ticks before the first row.
        tick_end: the ticks below this time.
    """

    first: int
    row_count: int
    tick_end: int


def tick_turns(
    monitors: PolicyMonitors,
    events: Sequence[NDArray[np.int64]],
    time_stamps: NDArray[np.int64],
    rows: range,
    tick_end: int,
    done: int,
) -> Iterator[TickTurn]:
    """Yield the turns in which rows and the ticks before them are to be processed.

    Whoever iterates processes each turn before taking the next one.

    Args:
        monitors: the monitors.
        events: for each policy on ticks, in order, the times of the ticks that are given.
        time_stamps: the time-stamps of all rows of the batch.
        rows: which rows to process.
        tick_end: process the ticks below this time, which is not below the last of the rows.
        done: all ticks below this time have been processed.
    """
    first = rows.start
    while True:
        limit = _limit(monitors.awake, events, done)
        if limit >= tick_end:
            yield TickTurn(first, rows.stop - first, tick_end)
            return
        count = int(np.searchsorted(time_stamps[first : rows.stop], limit, "right"))
        done = int(time_stamps[first + count - 1]) if count else int(limit)
        yield TickTurn(first, count, done)
        first += count


def _limit(
    awake: Sequence[tuple[int, int]], events: Sequence[NDArray[np.int64]], done: int
) -> float:
    """A time below which there are about so many ticks as a turn has; at least one for each policy.

    Args:
        awake: for each policy on ticks, its period and how many of its traces are not at rest; the
            period is 0 if all ticks are given.
        events: for each of them, the times of the ticks that are given.
        done: all ticks below this time have been processed.
    """
    limit = float("inf")
    most = _MOST_TICKS // max(1, len(awake))
    for (period, count), given in zip(awake, events, strict=True):
        times = given[np.searchsorted(given, done) :]
        # at worst, all traces with new letters stay awake
        traces = count + np.arange(1, len(times) + 1)
        # no more than matters, as products of times could overflow
        ticks = traces * np.minimum((times - done) // period + 1, most) if period else traces
        place = int(np.searchsorted(ticks, most))
        if place < len(times):
            limit = min(limit, max(int(times[place]), done + max(1, period)))
        elif period and count + len(times):
            limit = min(limit, done + max(1, most // (count + len(times))) * period)
    return limit
