"""Check policies on a log: batches of events in, verdicts out, until the log ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NamedTuple

from mtlmon.analysis.reach import decision_delay
from mtlmon.drive.native import KeyedMonitors, PolicyMonitors
from mtlmon.engine.memory_limit import formula_bytes, memory_size
from mtlmon.engine.native import MemoryLimit

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from typing import SupportsIndex

    from mtlmon.arrays.native import EventColumns
    from mtlmon.checking.sources import EventSource, StreamNumbers, TimeStamps
    from mtlmon.drive.native import FirstViolation, VerdictRows
    from mtlmon.engine.pending import PendingTimePoint
    from mtlmon.policy import Policy

    EndTime = int | Literal["last", "inf"] | None

__all__ = ["LogCheck", "PolicyCounts", "end_time_of_all"]

# Look for idle keys when there are this many, and twice as many as after the last time.
_IDLE_KEYS = 1 << 16
# The number of events, times policies, to process before verdicts are taken out.
_SLICE_EVENTS = 1 << 16
_LEAST_EVENTS = 1 << 13
# The approximate size of an event's verdict until it is taken out.
_VERDICT_BYTES = 100


def _executor(policy_count: int) -> ThreadPoolExecutor | None:
    """Threads for policies, each of which runs separately; None if there is nothing to share."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    count = min(processors, policy_count)
    if count == 1:
        return None
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count, "mtlmon-policies")


def end_time_of_all(clock: int, end_time: EndTime) -> int | Literal["inf"] | None:
    """What is known about the time after every trace of a log with this last time-stamp."""
    if end_time == "inf":
        return "inf"
    if end_time == "last":
        return clock
    if end_time is not None and end_time >= clock:
        return end_time
    return clock - 1 if clock else None


class PolicyCounts(NamedTuple):
    """The counts of one policy, including equivalents.

    Attributes:
        events: the number of time-points.
        true: time-points that were decided to be true.
        false: time-points that were decided to be false.
    """

    events: int
    true: int
    false: int

    @property
    def undecided(self) -> int:
        return self.events - self.true - self.false


class LogCheck:
    """Monitors several policies on the events of a log, in one pass.

    The verdicts are those of a separate monitor for each policy and key. They come event by event,
    and policy by policy within an event; the verdicts at the end of the log come key by key.

    Args:
        policies: the policies to check on the log.
        mode: as for `Monitor`.
        bdd: likewise.
        verdicts: which verdicts are wanted; "first" is the earliest violation, after which nothing
            is read: by time-point and policy, or, with keys, by time-stamp, policy and key.
        resolve: whether to report the Boolean verdict of every time-point instead of equivalences.
        collect: whether to keep all violations, resolved, in `violations`; with "first", only the
            first one.
        advance_every: whenever this much time has passed, advance all keys, so that what time alone
            decides does not wait for the key's next event.
        keep_keys: whether to never forget a key, so that its number stays the same; `collect`
            implies this.
        max_memory: how much memory the formulas, monitors, keys, sorting and waiting verdicts may
            hold together: a number of bytes, a text such as "500M", or the MemoryLimit of a run;
            None means no limit.

    Attributes:
        atoms: the atoms of the policies, in order of first occurrence.
        monitors: the native monitors, by policy.
        first_time_stamp: the first time-stamp of the log, or None before the first event.
        is_stopped: whether the first violation has been found. The counts then cover the events up
            to the one at which it was known to be the first, although more may have been read.
        keys_forgotten: the number of keys that had nothing left to remember and were forgotten.
        memory: how much memory is held, and the peak. Sources that receive this object add what
            they hold.

    Raises:
        MemoryLimitError: the formulas alone take more memory than `max_memory`.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        mode: Literal["local", "global", "naive"] = "local",
        *,
        bdd: Literal["auto", "cudd", "autoref"] = "auto",
        verdicts: Literal["all", "boolean", "false", "first", "none"] = "all",
        resolve: bool = False,
        collect: bool = False,
        advance_every: int | None = None,
        keep_keys: bool = False,
        max_memory: SupportsIndex | str | MemoryLimit | None = None,
    ) -> None:
        self.policies = tuple(policies)
        if not isinstance(max_memory, MemoryLimit):
            max_memory = MemoryLimit(None if max_memory is None else memory_size(max_memory))
        self.memory = max_memory
        self.memory.note("formula", formula_bytes(*(policy.formula for policy in policies)))
        self.monitors: list[KeyedMonitors] = []
        held = 0
        for policy in policies:
            self.monitors.append(KeyedMonitors(policy.formula, mode, bdd=bdd))
            if self.memory.limit is not None:
                self.monitors[-1].set_limit(self.memory, len(policies))
            # With many policies, the limit may already be exceeded here.
            held += self.monitors[-1].held_bytes
            self.memory.note("expressions", held)
            self.memory.check()
        self.memory.note("expressions", 0)
        self.atoms = tuple(dict.fromkeys(name for one in self.monitors for name in one.atoms))
        self._wants_first = verdicts == "first"
        # Kept violations refer to keys by number.
        self._keeps_keys = keep_keys or collect or self._wants_first
        self._collects_first = collect and self._wants_first
        self._executor = _executor(len(self.monitors))
        delays = None
        if advance_every is not None:
            delays = [decision_delay(policy.formula) for policy in policies]
        self._native = PolicyMonitors(
            self.monitors,
            verdicts="none" if verdicts == "first" else verdicts,
            resolve=resolve,
            collect=collect and not self._wants_first,
            find_first=self._wants_first,
            delays=delays,
            executor=self._executor,
            memory=self.memory,
        )
        self._slice = max(_SLICE_EVENTS // len(self.monitors), _LEAST_EVENTS)
        if self.memory.limit is not None:
            share = self.memory.limit // 8 // len(self.monitors)
            self._slice = max(1, min(self._slice, share // _VERDICT_BYTES))
        self._advance_every = advance_every
        self._idle_keys = _IDLE_KEYS
        # the number of events that were read, and of keys, as far as they count
        self._events = 0
        self._keys: int | None = None
        self._clock: int | None = None
        # once the log has ended: no event is below this time-stamp
        self._end_clock: int | None = None
        self.first_time_stamp: int | None = None
        self.is_stopped = False
        self.keys_forgotten = 0

    @property
    def verdicts(self) -> VerdictRows:
        """The wanted verdicts that have not been taken out yet."""
        return self._native.verdicts

    @property
    def violations(self) -> VerdictRows:
        """The collected violations that have not been taken out yet."""
        return self._native.violations

    @property
    def counts(self) -> list[PolicyCounts]:
        """The counts by policy."""
        first = self._native.first
        if self.is_stopped and first is not None:
            events = first.event_count
            return [
                PolicyCounts(events, *first.counts(number)) for number in range(len(self.policies))
            ]
        counters = [one.counters for one in self.monitors]
        return [PolicyCounts(one["events"], one["true"], one["false"]) for one in counters]

    @property
    def event_count(self) -> int:
        """The number of events that were checked."""
        first = self._native.first
        return first.event_count if self.is_stopped and first is not None else self._events

    @property
    def state_bytes(self) -> int:
        """The bytes that the states of all keys take, without the keys themselves."""
        return sum(one.counters["bytes"] for one in self.monitors)

    @property
    def key_count(self) -> int:
        """The current number of traces."""
        return self._native.stream_count if self._keys is None else self._keys

    @property
    def open_first(self) -> tuple[FirstViolation, int] | None:
        """A violation that may not be the first one, and the time-stamp of the earliest undecided
        time-point.
        """
        first = self._native.first
        earliest = self._earliest_pending()
        if self.is_stopped or first is None or not first.is_found or earliest is None:
            return None
        return first, earliest[0]

    def pending_keys(self, policy: int) -> list[int]:
        """The numbers of the traces with undecided time-points of a policy."""
        return self.monitors[policy].pending_streams

    def pending(self, policy: int, number: int) -> list[PendingTimePoint]:
        """The undecided time-points of a policy on one trace."""
        return self.monitors[policy].pending(number, self._end_clock or 0)

    def run(self, source: EventSource, end_time: EndTime = None) -> Generator[None, None, None]:
        """Check the log; whenever this yields, there may be verdicts to take out.

        Args:
            source: the log, with `atoms` at least.
            end_time: what is known about the time after the log, for all keys. If nothing is known,
                all keys advance to the last time-stamp of the log, as they share the same time.

        Raises:
            LimitError, LogError, TableError, OSError: raised by monitors and sources. The verdicts
                on the events before the error are available.
            MemoryLimitError: more memory is held than allowed; the verdicts are available as above.
        """
        try:
            yield from self._run(source)
        finally:
            if self._executor is not None:
                self._executor.shutdown()
        if not self.is_stopped:
            self._end(source.clock, end_time)
            yield

    def _run(self, source: EventSource) -> Generator[None, None, None]:
        if self._native.first is not None and source.keys is not None:
            self._native.first.with_keys()
        for batch in source:
            events = [batch.events_of(one.atoms) for one in self.monitors]
            numbers = batch.numbers
            if numbers is None:
                numbers = memoryview(bytes(4 * len(batch.time_stamps))).cast("I")
            for first in range(0, len(batch.time_stamps), self._slice):
                time_stamps = batch.time_stamps[first : first + self._slice]
                if self.first_time_stamp is None:
                    self.first_time_stamp = int(time_stamps[0])
                keys = self.key_count
                try:
                    self._feed(events, numbers, first, time_stamps)
                finally:
                    self._look_for_first()
                if self.is_stopped:
                    known = numbers[first : first + self.event_count - self._events]
                    self._keys = max(keys, int(max(known, default=0)) + 1)
                self._events += len(time_stamps)
                yield
                if self.is_stopped:
                    return
            # Only now have all verdicts with numbers of keys been taken out.
            self._forget_idle(source)

    def _feed(
        self,
        events: list[EventColumns],
        numbers: StreamNumbers,
        first: int,
        time_stamps: TimeStamps,
    ) -> None:
        """Process the events from `first` on, which have these time-stamps.

        Between events of different periods of `advance_every`, all keys advance.
        """
        every = self._advance_every
        if every is None:
            self._native.feed(events, numbers, first, len(time_stamps))
            self._clock = int(time_stamps[-1])
            return
        import numpy as np

        periods = np.asarray(time_stamps) // every
        before = periods[0] if self._clock is None else self._clock // every
        changes = set(np.flatnonzero(np.diff(periods, prepend=before)).tolist())
        starts = sorted({0, *changes})
        for start, end in zip(starts, [*starts[1:], len(periods)], strict=True):
            if start in changes:
                self._native.advance(int(time_stamps[start]))
            self._native.feed(events, numbers, first + start, end - start)
        self._clock = int(time_stamps[-1])

    def _end(self, clock: int | None, end_time: EndTime) -> None:
        if clock is None:
            return
        known = end_time_of_all(clock, end_time)
        if known != "inf":
            clock = 0 if known is None else known + 1
        self._native.finish(clock, known == "inf")
        self._end_clock = clock
        self._clock = None
        self._look_for_first()

    def _look_for_first(self) -> None:
        """Keep the earliest violation; stop once no earlier or simultaneous one can come."""
        first = self._native.first
        if first is None or not first.is_found:
            return
        earliest = self._earliest_pending()
        if first.has_keys:
            # With keys, the same time-stamp may come again.
            if self._clock is not None and self._clock <= first.time_stamp:
                return
            is_first = earliest is None or earliest[0] > first.time_stamp
        else:
            found = (first.time_stamp, first.offset, first.policy)
            is_first = earliest is None or earliest > found
        if is_first:
            self.is_stopped = True
            violation = (first.time_stamp, first.offset, first.stream, first.policy)
            self.verdicts.add_false(*violation)
            if self._collects_first:
                self.violations.add_false(*violation)

    def _earliest_pending(self) -> tuple[int, int, int] | None:
        """The earliest undecided time-point of all traces: time-stamp, offset and policy."""
        if self._end_clock is None:
            return self._native.earliest_pending
        # What the end has decided is not saved with the other states.
        pending = (
            (point.time_stamp, point.offset, policy)
            for policy in range(len(self.policies))
            for number in self.pending_keys(policy)
            for point in self.pending(policy, number)
        )
        return min(pending, default=None)

    def _forget_idle(self, source: EventSource) -> None:
        if (
            self._keeps_keys
            or self._clock is None
            or source.keys is None
            or not source.can_forget_keys
            or self.key_count < self._idle_keys
        ):
            return
        before = self.key_count
        numbers = self._native.forget_idle(self._clock)
        if numbers is not None:
            source.keys.keep(numbers)
            self.keys_forgotten += before - self.key_count
        self._idle_keys = max(_IDLE_KEYS, 2 * self.key_count)
