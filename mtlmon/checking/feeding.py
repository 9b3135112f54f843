"""Feeds rows and ticks to the monitors of a check, in order of time."""

from __future__ import annotations

import time

from mtlmon.support.processors import processor_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from concurrent.futures import ThreadPoolExecutor

    from mtlmon.arrays.native import EventColumns
    from mtlmon.checking.batch_points import BatchPoints
    from mtlmon.checking.sources import EventBatch, StreamNumbers, TimeStamps
    from mtlmon.drive.native import PolicyMonitors

__all__ = ["Feeder"]

# Threads share the policies once events fed together have taken this long.
_SHARED_SECONDS = 0.02


class Feeder:
    """Gives the monitors their rows, and the ticks before these, and lets all keys advance.

    Args:
        native: the monitors.
        policy_count: the number of policies.
        threads: how many threads may share the policies; None for one a processor.
        advance_every: the time after which all keys advance, or None.
        has_clocks: whether some policies are not on all rows.
        has_ticks: whether some are on ticks.
        repeats_ticks: whether the source leaves out ticks at which no atom changes.

    Attributes:
        clock: the last time-stamp; None before the first row and after the end.
        passed: time has passed up to here without events: no later one is below it.
        ticks_done: all ticks below this time have been checked.
        is_within_row: whether some ticks before the next row have been checked; there is no
            snapshot then.
    """

    def __init__(
        self,
        native: PolicyMonitors,
        policy_count: int,
        *,
        threads: int | None,
        advance_every: int | None,
        has_clocks: bool,
        has_ticks: bool,
        repeats_ticks: bool,
    ) -> None:
        self._native = native
        self._policy_count = policy_count
        self._threads = threads
        self._advance_every = advance_every
        self._has_clocks = has_clocks
        self._has_ticks = has_ticks
        self._repeats_ticks = repeats_ticks
        # The threads that share the policies; None until they are worth their cost.
        self._executor: ThreadPoolExecutor | None = None
        self._may_share = policy_count > 1
        self.clock: int | None = None
        self.passed = 0
        self.ticks_done = 0
        self.is_within_row = False

    def close(self) -> None:
        """End the threads."""
        if self._executor is not None:
            self._executor.shutdown()

    def feed(
        self,
        events: list[EventColumns],
        numbers: list[StreamNumbers],
        first: int,
        time_stamps: TimeStamps,
        points: BatchPoints,
        batch: EventBatch,
    ) -> Generator[None, None, None]:
        """Process the rows from `first` on, which have these time-stamps, and what comes with them.

        Between rows of different periods of `advance_every`, all keys advance. This yields between
        ticks that come before a row, if they are many.
        """
        every = self._advance_every
        if every is None or not len(time_stamps):
            rows = range(first, first + len(time_stamps))
            yield from self._rows(events, numbers, rows, points, batch)
            if len(time_stamps):
                self.clock = int(time_stamps[-1])
            return
        import numpy as np

        periods = np.asarray(time_stamps) // every
        before = periods[0] if self.clock is None else self.clock // every
        changes = set(np.flatnonzero(np.diff(periods, prepend=before)).tolist())
        starts = sorted({0, *changes})
        for start, end in zip(starts, [*starts[1:], len(periods)], strict=True):
            row = first + start
            if start in changes:
                bound: int | None = int(time_stamps[start])
                if self._repeats_ticks:
                    # first the ticks that come with this row, as if they had come before it
                    none = range(row, row)
                    yield from self._rows(events, numbers, none, points, batch, bound)
                elif self._has_ticks:
                    bound = self.clock
                self._native.advance(max(bound or 0, self.passed))
            rows = range(row, row + end - start)
            yield from self._rows(events, numbers, rows, points, batch)
            self.clock = int(time_stamps[end - 1])
        self.clock = int(time_stamps[-1])

    def _rows(
        self,
        events: list[EventColumns],
        numbers: list[StreamNumbers],
        rows: range,
        points: BatchPoints,
        batch: EventBatch,
        tick_end: int | None = None,
    ) -> Generator[None, None, None]:
        """Process rows, and the ticks before them in turns; yield between two turns.

        The ticks below `tick_end` are processed; by default those before the last row, or all of
        the batch if there are no rows.
        """
        if not self._repeats_ticks:
            self._process(events, numbers, rows.start, len(rows), points, batch)
            return
        import numpy as np

        from mtlmon.checking.tick_turns import tick_turns

        if batch.has_all_ticks:
            self._native.give_all_ticks()
        time_stamps = np.asarray(batch.time_stamps)
        if tick_end is None:
            tick_end = int(time_stamps[rows[-1]]) if rows else batch.tick_end
        done = self.ticks_done
        turns = tick_turns(self._native, points.tick_times, time_stamps, rows, tick_end, done)
        is_first = True
        for first, count, end in turns:
            if not is_first:
                # There is no snapshot between these ticks.
                was_within_row, self.is_within_row = self.is_within_row, True
                yield
                self.is_within_row = was_within_row
            is_first = False
            self._process(events, numbers, first, count, points, batch, end)
            self.ticks_done = end

    def _process(
        self,
        events: list[EventColumns],
        numbers: list[StreamNumbers],
        first: int,
        count: int,
        points: BatchPoints,
        batch: EventBatch,
        tick_end: int | None = None,
    ) -> None:
        """Process `count` events; if that takes long, let threads share the policies from now on.

        With cheap policies, threads cost more than they save: on a text log,
        two threads take 20 % more processor time, and the check is not done any sooner.
        """
        start = time.perf_counter()
        if self._has_clocks:
            import numpy as np

            self._native.feed(
                events,
                numbers,
                first,
                count,
                places=points.places,
                rows=len(batch.time_stamps),
                offsets=points.offsets,
                row_times=np.ascontiguousarray(batch.time_stamps),
                tick_end=tick_end,
            )
        else:
            self._native.feed(events, numbers, first, count)
        if self._may_share and time.perf_counter() - start > _SHARED_SECONDS:
            self._may_share = False
            self._executor = self._native.executor = _executor(self._policy_count, self._threads)


def _executor(policy_count: int, threads: int | None) -> ThreadPoolExecutor | None:
    """Return threads that run policies in parallel, or None if one thread is enough."""
    count = min(processor_count() if threads is None else threads, policy_count)
    if count == 1:
        return None
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count, "mtlmon-policies")
