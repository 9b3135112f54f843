"""Check policies on a log: read batches of events and produce verdicts until the log ends."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

from mtlmon.analysis.reach import decision_delay
from mtlmon.checking.partitions import partitions_of
from mtlmon.drive.native import (
    KeyedMonitors,
    PolicyMonitors,
    policies_snapshot,
    restore_policies,
)
from mtlmon.engine.memory_limit import formula_bytes, memory_size
from mtlmon.engine.native import MemoryLimit, clock_at_end
from mtlmon.errors import MtlmonError, SnapshotError
from mtlmon.policy.definitions import Clock
from mtlmon.support.processors import processor_count

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from typing import SupportsIndex

    import numpy as np
    from numpy.typing import NDArray

    from mtlmon.arrays.native import EventColumns
    from mtlmon.checking.row_offsets import RowOffsets
    from mtlmon.checking.shown import Messages
    from mtlmon.checking.sources import EventBatch, EventSource, StreamNumbers, TimeStamps
    from mtlmon.checking.time_points import ChosenPoints
    from mtlmon.drive.native import FirstViolation, PolicyLines, VerdictRows
    from mtlmon.engine.pending import PendingTimePoint
    from mtlmon.policy import Policy
    from mtlmon.policy.predicates.time_points import When

    EndTime = int | Literal["last", "inf"] | None

__all__ = ["LogCheck", "PolicyCounts", "end_time_of_all"]

_MAGIC = b"mtlmon check"
_VERSION = 4
_DIGEST_BYTES = 8
# Whether the check is stopped, its position, the clock and the first time-stamp (-1 for none).
_NUMBERS = struct.Struct("<?Qqq")
# For each partition: the number of keys of a check that is stopped (-1 for others), when to look
# for idle keys, and how many were forgotten.
_KEY_NUMBERS = struct.Struct("<qQQ")
# For each policy that is not on all rows, its time-points if the check is stopped (-1 for others).
_EVENT_NUMBER = struct.Struct("<q")

# Stands for rows among the periods of ticks.
_ROWS = 0
# Look for idle keys when there are this many, and twice as many as after the last time.
_IDLE_KEYS = 1 << 16
# The number of events, times policies, to process before verdicts are taken out.
_SLICE_EVENTS = 1 << 16
_LEAST_EVENTS = 1 << 13
# Threads share the policies once events fed together have taken this long.
_SHARED_SECONDS = 0.02
# The approximate size of an event's verdict until it is taken out.
_VERDICT_BYTES = 100


def _short_digest(data: bytes) -> bytes:
    """Return a digest that reveals damage, but not forgery."""
    # Imported on use, as it loads OpenSSL, which takes 8 ms and 3 MB.
    from hashlib import blake2b

    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _clock_of(policy: Policy) -> Clock | None:
    """The time-points of a policy, with a period in units of time; None for all rows.

    Raises:
        FormulaError: the period has a unit, but that of the time-stamps is not known.
    """
    clock = policy.clock
    if clock is None or not clock.has_ticks or isinstance(clock.period, int):
        return clock
    from mtlmon.policy.predicates.time_points import Waiting, period_in_units

    assert clock.period is not None
    assert not isinstance(clock.period, Waiting)
    return Clock(period=period_in_units(clock.period, None))


def _period_of(clock: Clock | None) -> int | None:
    """The period of a policy's ticks, in units of time; None if it is on rows."""
    period = None if clock is None else clock.period
    return period if isinstance(period, int) else None


def _refuse_waiting(verdicts: str, *, advances: bool) -> None:
    """Refuse what is about the time of the whole log, where rows wait for later values."""
    what = "the first violation" if verdicts == "first" else None
    if advances:
        what = "advancing all keys with time"
    if what is not None:
        raise MtlmonError(
            f"{what} is not possible where a policy uses next(...), because its rows wait for "
            "later ones"
        )


def _events_between(places: NDArray[np.uint32], first: int, last: int, row_count: int) -> int:
    """How many events come with the rows from `first` to `last`, exclusive; all without rows."""
    import numpy as np

    if not row_count:
        return len(places)
    start, end = np.searchsorted(places, [first, last])
    return int(end - start)


def _or_minus_one(number: int | None) -> int:
    return -1 if number is None else number


def _or_none(number: int) -> int | None:
    return None if number < 0 else number


def _executor(policy_count: int, threads: int | None) -> ThreadPoolExecutor | None:
    """Return threads that run policies in parallel, or None if one thread is enough."""
    count = min(processor_count() if threads is None else threads, policy_count)
    if count == 1:
        return None
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count, "mtlmon-policies")


def end_time_of_all(clock: int, end_time: EndTime) -> int | Literal["inf"] | None:
    """Return what is known about the time after every trace of a log.

    Args:
        clock: the last time-stamp of the log.
        end_time: what is known about the time after the log.

    Returns:
        The time up to which no more events come, "inf", or None if nothing is known.
    """
    following = clock_at_end(clock, end_time)
    if following is None:
        return "inf"
    return following - 1 if following else None


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
        """The number of time-points that have no verdict."""
        return self.events - self.true - self.false


class _TimePoints(NamedTuple):
    """The time-points of policies that come with a batch.

    Attributes:
        events: for each policy its events.
        numbers: for each policy the numbers of their traces; None if they are all rows.
        places: likewise, the rows that they come with.
        offsets: likewise, their offsets within their time-stamps; None if these are consecutive.
        rows: for each partition whose policies choose rows, the time-stamps, traces and offsets of
            all rows.
        tick_times: for each policy on ticks, the times of these.
    """

    events: list[EventColumns]
    numbers: list[NDArray[np.uint32] | None]
    places: list[NDArray[np.uint32] | None]
    offsets: list[NDArray[np.uint32] | None]
    rows: list[tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]] | None]
    tick_times: list[NDArray[np.int64]]


def _rows_of(
    batch: EventBatch, partition: int, offsets: RowOffsets
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]:
    """The time-stamps, traces and offsets of the rows of a batch."""
    import numpy as np

    time_stamps = np.asarray(batch.time_stamps)
    own = batch.numbers_of(partition)
    numbers = np.zeros(len(time_stamps), np.uint32) if own is None else own
    return time_stamps, numbers, offsets.offsets(time_stamps, numbers)


class LogCheck:
    """Monitors several policies on the events of a log, in one pass.

    The verdicts are those of a separate monitor for each policy and key. They come event by event,
    and policy by policy within an event. Verdicts that only time or the end of the log brings come
    partition by partition, in the order in which policies first use them; then key by key, in the
    order of the keys' first events; then policy by policy.

    Args:
        policies: the policies to check on the log.
        key: the key columns of the policies that name none themselves.
        mode: as for `Monitor`.
        bdd: as for `Monitor`.
        verdicts: which verdicts are wanted. "first" means only the earliest violation, by
            time-point and policy, or, with keys, by time-stamp, policy and key. The check stops
            once that is known.
        resolve: whether to report the Boolean verdict of every time-point instead of equivalences.
        collect: whether to keep all violations, resolved, in `violations`; with "first", only the
            first one.
        advance_every: whenever this much time has passed, advance all keys, so that verdicts that
            time alone decides do not wait for the key's next event.
        keep_keys: whether to never forget a key, so that its number stays the same; `collect`
            implies this.
        max_memory: how much memory the formulas, monitors, keys, sorting and waiting verdicts may
            hold together: a number of bytes, a text such as "500M", or the MemoryLimit of a run;
            None means no limit.
        threads: how many threads may share the policies; None means one for each processor. With
            one, the batches of the log are not prepared by another thread either.

        loses_ticks: whether the source leaves out ticks at which integers overflow.
        passes_time: whether `pass_time` will be called.

    Attributes:
        atoms: the atoms that the policies need at rows, in order of first occurrence.
        partitions: how the policies divide the log into traces; the source has the same partitions.
        monitors: the native monitors, by policy.
        first_time_stamp: the first time-stamp of the log, or None before the first event.
        position: the number of events of the log that have been checked, including those of the
            runs whose snapshots this one continues.
        repeats_ticks: whether the source may leave out ticks at which no atom changes: see
            `EventSource.only_due_ticks`.
        slice_events: the largest number of events to process before `run` and `feed` yield. You can
            set it.
        is_stopped: whether the first violation has been found. The counts then cover the events up
            to the one at which it was known to be the first, although more may have been read.
        keys_forgotten: for each partition, the number of keys that had nothing left to remember and
            were forgotten.
        memory: how much memory is held, and the peak. Sources that receive this object add what
            they hold.
        messages: set this to get the messages of triggers for the verdicts of each batch; None for
            no messages.

    Raises:
        MemoryLimitError: the formulas alone take more memory than `max_memory`.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        mode: Literal["local", "global", "naive"] = "local",
        *,
        key: Sequence[str] = (),
        bdd: Literal["auto", "cudd", "autoref"] = "auto",
        verdicts: Literal["all", "boolean", "false", "first", "none"] = "all",
        resolve: bool = False,
        collect: bool = False,
        advance_every: int | None = None,
        keep_keys: bool = False,
        max_memory: SupportsIndex | str | MemoryLimit | None = None,
        threads: int | None = None,
        loses_ticks: bool = False,
        passes_time: bool = False,
    ) -> None:
        self.policies = tuple(policies)
        if any(policy.is_find or policy.formula.is_first_order for policy in policies):
            from mtlmon.policy.needs import refuse_first_order

            refuse_first_order(policies)
        self.messages: Messages | None = None
        self._clocks = [_clock_of(policy) for policy in self.policies]
        self._has_clocks = any(clock is not None for clock in self._clocks)
        self._has_ticks = any(one is not None and one.has_ticks for one in self._clocks)
        waits = [one is not None and one.waits for one in self._clocks]
        self._has_waiting = any(waits)
        if self._has_waiting:
            _refuse_waiting(verdicts, advances=advance_every is not None or passes_time)
        self.partitions = partitions_of((policy.key for policy in self.policies), key)
        if not isinstance(max_memory, MemoryLimit):
            max_memory = MemoryLimit(None if max_memory is None else memory_size(max_memory))
        self.memory = max_memory
        self.memory.note("formula", formula_bytes(*(policy.formula for policy in policies)))
        self.monitors: list[KeyedMonitors] = []
        held = 0
        for policy in policies:
            own_clocks = waits[len(self.monitors)]
            self.monitors.append(
                KeyedMonitors(policy.formula, mode, bdd=bdd, own_clocks=own_clocks)
            )
            if self.memory.limit is not None:
                self.monitors[-1].set_limit(self.memory, len(policies))
            # With many policies, the limit may already be exceeded here.
            held += self.monitors[-1].held_bytes
            self.memory.note("expressions", held)
            self.memory.check()
        self.memory.note("expressions", 0)
        self.atoms = tuple(
            dict.fromkeys(
                name for needed in self.atoms_of_partitions for name in needed.get(_ROWS, ())
            )
        )
        self._wants_first = verdicts == "first"
        self._selection = (verdicts, resolve, collect, keep_keys)
        # Kept violations refer to keys by number.
        self._keeps_keys = keep_keys or collect or self._wants_first
        self._collects_first = collect and self._wants_first
        # the threads that share the policies; None until they are worth their cost
        self._executor: ThreadPoolExecutor | None = None
        self._may_share = len(self.monitors) > 1
        self._threads = threads
        delays = None
        if advance_every is not None or passes_time:
            delays = [decision_delay(policy.formula) for policy in policies]
        self._native = PolicyMonitors(
            self.monitors,
            verdicts="none" if verdicts == "first" else verdicts,
            resolve=resolve,
            collect=collect and not self._wants_first,
            find_first=self._wants_first,
            delays=delays,
            partitions=list(self.partitions.of_policies),
            memory=self.memory,
        )
        self.repeats_ticks = self._has_ticks and not self._wants_first and not loses_ticks
        if self.repeats_ticks:
            self._native.run_ticks([_period_of(clock) for clock in self._clocks])
        self.slice_events = max(_SLICE_EVENTS // len(self.monitors), _LEAST_EVENTS)
        if self.memory.limit is not None:
            share = self.memory.limit // 8 // len(self.monitors)
            self.slice_events = max(1, min(self.slice_events, share // _VERDICT_BYTES))
        self._advance_every = advance_every
        count = len(self.partitions.columns)
        self._idle_keys = [_IDLE_KEYS] * count
        self.position = 0
        # For each partition whose policies choose rows, the offsets of its rows.
        self._row_offsets: list[RowOffsets | None] = [None] * count
        for partition, clock in zip(self.partitions.of_policies, self._clocks, strict=True):
            if clock is not None and clock.atom is not None:
                from mtlmon.checking.row_offsets import RowOffsets

                self._row_offsets[partition] = RowOffsets()
        # Time has passed up to here without events: no later one is below it.
        self._passed = 0
        # All ticks below this time have been checked.
        self._ticks_done = 0
        # Whether some ticks before the next row have been checked; there is no snapshot then.
        self.is_within_row = False
        # Once the check has stopped: for each policy that is not on all rows, its time-points.
        self._events_at_stop: list[int | None] = [None] * len(self.policies)
        # once the check has stopped: the numbers of keys up to the first violation, by partition
        self._keys: list[int] | None = None
        self._clock: int | None = None
        # once the log has ended: a time-stamp that no further event is below
        self._end_clock: int | None = None
        self.first_time_stamp: int | None = None
        self.is_stopped = False
        self.keys_forgotten = [0] * count

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
            return [
                PolicyCounts(first.event_count if own is None else own, *first.counts(number))
                for number, own in enumerate(self._events_at_stop)
            ]
        counters = [one.counters for one in self.monitors]
        return [PolicyCounts(one["events"], one["true"], one["false"]) for one in counters]

    @property
    def event_count(self) -> int:
        """The number of events that have been checked and count for the verdicts."""
        first = self._native.first
        return first.event_count if self.is_stopped and first is not None else self.position

    @property
    def atoms_of_partitions(self) -> list[dict[When, list[str]]]:
        """For each partition, the atoms of its policies: at rows under 0, at ticks by period."""
        atoms: list[dict[When, dict[str, None]]] = [{} for _ in self.partitions.columns]
        partitions = self.partitions.of_policies
        for partition, one, clock in zip(partitions, self.monitors, self._clocks, strict=True):
            when: When = _ROWS
            if clock is not None and clock.period is not None:
                assert isinstance(clock.period, int | tuple)
                when = clock.period
            needed = atoms[partition].setdefault(when, {})
            needed.update(dict.fromkeys(one.atoms))
            if clock is not None and clock.atom is not None:
                needed[clock.atom] = None
        return [{period: list(some) for period, some in one.items()} for one in atoms]

    @property
    def clocks(self) -> list[Clock | None]:
        """For each policy its time-points, with periods in units of time; None for all rows."""
        return list(self._clocks)

    @property
    def state_bytes(self) -> list[int]:
        """The bytes that the states of all keys take by partition, without the keys themselves."""
        counts = [0] * len(self.partitions.columns)
        for partition, one in zip(self.partitions.of_policies, self.monitors, strict=True):
            counts[partition] += one.counters["bytes"]
        return counts

    @property
    def key_counts(self) -> list[int]:
        """The current number of traces of each partition."""
        return self._native.stream_counts if self._keys is None else list(self._keys)

    @property
    def open_first(self) -> tuple[FirstViolation, int] | None:
        """The earliest violation so far and the time-stamp of the earliest undecided time-point.

        None unless there are both, and the undecided time-point may become the first violation.
        """
        first = self._native.first
        earliest = self._earliest_pending()
        if self.is_stopped or first is None or not first.is_found or earliest is None:
            return None
        return first, earliest[0]

    def pending_keys(self, policy: int) -> list[int]:
        """Return the numbers of the traces on which a policy has undecided time-points."""
        return self.monitors[policy].pending_streams

    def pending(self, policy: int, number: int) -> list[PendingTimePoint]:
        """Return the undecided time-points of a policy on one trace."""
        clock = self._clocks[policy]
        # Rows that wait may be of any time.
        known = 0 if clock is not None and clock.waits else self._end_clock or 0
        return self.monitors[policy].pending(number, known)

    def deliver_to(self, lines: PolicyLines) -> None:
        """From now on, write wanted verdicts as lines instead of collecting them in `verdicts`.

        The first violation, if only that is wanted, is still collected.
        """
        self._native.deliver_to(lines)

    def run(self, source: EventSource, end_time: EndTime = None) -> Generator[None, None, None]:
        """Check the log; whenever this yields, there may be verdicts to take out.

        Args:
            source: the log; its batches must have all of `atoms`.
            end_time: what is known about the time after the log, for all keys. If nothing is known,
                all keys advance to the last time-stamp of the log, as they share the same time.

        Raises:
            LimitError, LogError, TableError, OSError: a monitor or the source has failed. The
                verdicts on the events before the error are available.
            MemoryLimitError: more memory is held than allowed; the verdicts are available as above.
        """
        try:
            for batch in source if not self.is_stopped else ():
                yield from self.feed(batch, source)
                if self.is_stopped:
                    break
            if not self.is_stopped:
                yield from self.end(source, end_time)
        finally:
            self.close()

    def feed(
        self, batch: EventBatch, source: EventSource, cuts: Iterable[int] = ()
    ) -> Generator[None, None, None]:
        """Check the next events of the log, for callers that replace `run` by their own loop.

        Whenever this yields, there may be verdicts to take out. Once they are taken out, `snapshot`
        can be called. The caller must have taken all of them out before this ends, because keys may
        be forgotten then.

        Args:
            batch: the events.
            source: the log that the events come from.
            cuts: numbers of events of the batch: this yields after so many of them, too.
        """
        if self._native.first is not None and any(one is not None for one in source.key_tables):
            self._native.first.with_keys()
        if self.messages is not None:
            self.messages.add(batch)
        chosen = self._time_points(batch)
        events, own_numbers, places = chosen.events, chosen.numbers, chosen.places
        count = len(batch.time_stamps)
        numbers: list[StreamNumbers] = []
        for partition in range(len(self.partitions.columns)):
            own = batch.numbers_of(partition)
            numbers.append(memoryview(bytes(4 * count)).cast("I") if own is None else own)
        of_policies = [
            numbers[partition] if chosen is None else chosen
            for partition, chosen in zip(self.partitions.of_policies, own_numbers, strict=True)
        ]
        # A batch without rows has ticks that come before the next row.
        self.is_within_row = not count
        if self._threads != 1 and not self._may_forget(source):
            source.prepare_next()
        starts = {*range(0, max(count, 1), self.slice_events)}
        starts.update(cut for cut in cuts if 0 < cut < count)
        ends = iter([*sorted(starts)[1:], count])
        for first in sorted(starts):
            time_stamps = batch.time_stamps[first : next(ends)]
            if self.first_time_stamp is None and count:
                self.first_time_stamp = int(time_stamps[0])
            keys = self.key_counts
            events_before = self._event_counts()
            try:
                yield from self._feed(events, of_policies, first, time_stamps, chosen, batch)
            finally:
                self._look_for_first()
            if self.is_stopped:
                last = first + self.event_count - self.position
                self._keys = [
                    max(before, int(max(known[first:last], default=0)) + 1)
                    for before, known in zip(keys, numbers, strict=True)
                ]
                self._events_at_stop = [
                    None if own is None else before + _events_between(own, first, last, count)
                    for before, own in zip(events_before, places, strict=True)
                ]
            self.position += len(time_stamps)
            end = first + len(time_stamps)
            for one, rows in zip(self._row_offsets, chosen.rows, strict=True):
                if one is not None and rows is not None:
                    one.add(rows[0][first:end], rows[1][first:end], rows[2][first:end])
            yield
            if self.is_stopped:
                return
        # Only now have all verdicts with numbers of keys been taken out.
        self._forget_idle(source)

    def pass_time(self, source: EventSource, time_stamp: int) -> Generator[None, None, None]:
        """Declare that no later event is below a time; whenever this yields, there may be verdicts.

        Args:
            source: the log, which refuses such events from now on.
            time_stamp: the time, which is above the last event.
        """
        if self._has_ticks:
            for batch in source.ticks_until(time_stamp):
                yield from self.feed(batch, source)
                if self.is_stopped:
                    return
        self._passed = max(self._passed, time_stamp)
        self._native.advance(self._passed)
        self._look_for_first()
        yield

    def end(self, source: EventSource, end_time: EndTime = None) -> Generator[None, None, None]:
        """End the log: no more events come. Whenever this yields, there may be verdicts.

        Args:
            source: the log.
            end_time: as for `run`.
        """
        clock = source.clock
        if clock is None:
            return
        following = clock_at_end(clock, end_time)
        if self._has_ticks:
            limit = clock + 1 if following is None else following
            for batch in source.ticks_until(limit):
                yield from self.feed(batch, source)
                if self.is_stopped:
                    return
        if self._has_waiting and following is None:
            for batch in source.released():
                yield from self.feed(batch, source)
        self._end_clock = max(clock if following is None else following, self._passed)
        self._native.finish(self._end_clock, following is None)
        self._clock = None
        self._look_for_first()
        yield

    def _event_counts(self) -> list[int]:
        """How many time-points each policy has had, if that may be needed."""
        if not self._has_clocks or not self._wants_first:
            return [0] * len(self.monitors)
        return [one.counters["events"] for one in self.monitors]

    def _time_points(self, batch: EventBatch) -> _TimePoints:
        """Return the time-points of each policy that come with a batch."""
        found = _TimePoints([], [], [], [], [], [])
        for partition, offsets in enumerate(self._row_offsets):
            found.rows.append(None if offsets is None else _rows_of(batch, partition, offsets))
        chosen: dict[tuple[int, Clock], ChosenPoints] = {}
        partitions = self.partitions.of_policies
        for one, partition, clock in zip(self.monitors, partitions, self._clocks, strict=True):
            if clock is None:
                found.events.append(batch.events_of(one.atoms, partition))
                found.numbers.append(None)
                found.places.append(None)
                found.offsets.append(None)
                continue
            if (partition, clock) not in chosen:
                chosen[partition, clock] = batch.chosen(partition, clock)
            points = chosen[partition, clock]
            if clock.has_ticks:
                found.tick_times.append(points.time_stamps)
            found.events.append(points.events_of(one.atoms))
            found.numbers.append(points.numbers)
            found.places.append(points.places)
            rows = found.rows[partition]
            is_of_rows = clock.atom is not None and rows is not None
            found.offsets.append(rows[2][points.places] if is_of_rows and rows else None)
        return found

    def snapshot(self) -> bytes:
        """Return the state of the check after `position` events as bytes for `restore`.

        The snapshot does not include the texts of the keys.

        Raises:
            MtlmonError: verdicts wait to be taken out, an event was interrupted, some ticks before
                a row have been checked (`is_within_row`), or the log has ended.
        """
        if self._end_clock is not None:
            raise MtlmonError("no snapshot after the end of the log")
        if self.is_within_row:
            raise MtlmonError("no snapshot between the ticks before a row")
        head = b"".join(_short_digest(repr(value).encode()) for _, value in self._settings())
        numbers = _NUMBERS.pack(
            self.is_stopped,
            self.position,
            _or_minus_one(self._clock),
            _or_minus_one(self.first_time_stamp),
        )
        keys = [None] * len(self._idle_keys) if self._keys is None else self._keys
        for count, idle, forgotten in zip(keys, self._idle_keys, self.keys_forgotten, strict=True):
            numbers += _KEY_NUMBERS.pack(_or_minus_one(count), idle, forgotten)
        for events in self._events_at_stop:
            numbers += _EVENT_NUMBER.pack(_or_minus_one(events))
        for offsets in self._row_offsets:
            numbers += b"" if offsets is None else offsets.snapshot()
        body = head + numbers + policies_snapshot(self._native)
        return _MAGIC + bytes([_VERSION]) + _short_digest(body) + body

    def restore(self, snapshot: bytes) -> None:
        """Continue from the snapshot of another check; this check must be new.

        The caller goes on with the event that follows the first `position` events of the log. All
        keys must have the same numbers as before.

        Raises:
            SnapshotError: the bytes are not a snapshot, or are damaged, or belong to other policies
                or settings, or to another version. The check must not be used after that.
            MtlmonError: events were checked before.
        """
        if self.position:
            raise MtlmonError("a check can only be restored before its first event")
        head = len(_MAGIC) + 1
        body = snapshot[head + _DIGEST_BYTES :]
        if not snapshot.startswith(_MAGIC) or len(snapshot) < head + _DIGEST_BYTES:
            raise SnapshotError("this is not a snapshot of a check of policies")
        if snapshot[head - 1] != _VERSION:
            raise SnapshotError(
                f"the snapshot has version {snapshot[head - 1]}; this version of mtlmon reads "
                f"version {_VERSION} only"
            )
        if snapshot[head : head + _DIGEST_BYTES] != _short_digest(body):
            raise SnapshotError("the snapshot is damaged: its digest does not fit its content")
        place = 0
        for what, value in self._settings():
            if body[place : place + _DIGEST_BYTES] != _short_digest(repr(value).encode()):
                raise SnapshotError(f"the snapshot is of {what}")
            place += _DIGEST_BYTES
        events_at = place + _NUMBERS.size + _KEY_NUMBERS.size * len(self._idle_keys)
        after = events_at + _EVENT_NUMBER.size * len(self.policies)
        if len(body) < after:
            raise SnapshotError("the snapshot is damaged: it does not describe a state")
        is_stopped, position, clock, first = _NUMBERS.unpack_from(body, place)
        parts = _KEY_NUMBERS.iter_unpack(body[place + _NUMBERS.size : events_at])
        for offsets in self._row_offsets:
            after += 0 if offsets is None else offsets.restore(body[after:])
        keys, idle, forgotten = (list(one) for one in zip(*parts, strict=True))
        restore_policies(self._native, body[after:])
        if is_stopped and (self._native.first is None or not self._native.first.is_found):
            raise SnapshotError("the snapshot is damaged: it does not describe a state")
        end = events_at + _EVENT_NUMBER.size * len(self.policies)
        found = _EVENT_NUMBER.iter_unpack(body[events_at:end])
        self._events_at_stop = [_or_none(number) for (number,) in found]
        self.is_stopped = is_stopped
        self.position = position
        self._keys = None if min(keys) < 0 else keys
        self._clock = _or_none(clock)
        self._ticks_done = self._clock or 0
        self.first_time_stamp = _or_none(first)
        self._idle_keys = idle
        self.keys_forgotten = forgotten

    def _settings(self) -> list[tuple[str, object]]:
        """Return the settings that a snapshot depends on, each with words for an error message."""
        modes = [one.mode for one in self.monitors]
        texts = [(policy.name, str(policy.formula)) for policy in self.policies]
        return [
            ("other policies or another mode", (texts, modes)),
            ("policies with other keys", self.partitions),
            ("policies on other time-points", list(map(str, self._clocks))),
            ("another selection of verdicts", self._selection),
            ("another period after which all keys advance", self._advance_every),
        ]

    def close(self) -> None:
        """End the threads of the check; no more events can come."""
        if self._executor is not None:
            self._executor.shutdown()

    def _feed(
        self,
        events: list[EventColumns],
        numbers: list[StreamNumbers],
        first: int,
        time_stamps: TimeStamps,
        points: _TimePoints,
        batch: EventBatch,
    ) -> Generator[None, None, None]:
        """Process the rows from `first` on, which have these time-stamps, and what comes with them.

        Between rows of different periods of `advance_every`, all keys advance. This yields between
        ticks that come before a row, if they are many.
        """
        every = self._advance_every
        if every is None or not len(time_stamps):
            rows = range(first, first + len(time_stamps))
            yield from self._feed_rows(events, numbers, rows, points, batch)
            if len(time_stamps):
                self._clock = int(time_stamps[-1])
            return
        import numpy as np

        periods = np.asarray(time_stamps) // every
        before = periods[0] if self._clock is None else self._clock // every
        changes = set(np.flatnonzero(np.diff(periods, prepend=before)).tolist())
        starts = sorted({0, *changes})
        for start, end in zip(starts, [*starts[1:], len(periods)], strict=True):
            if start in changes:
                # Ticks that come with this row are below it.
                bound = self._clock if self._has_ticks else int(time_stamps[start])
                self._native.advance(max(bound or 0, self._passed))
            row = first + start
            rows = range(row, row + end - start)
            yield from self._feed_rows(events, numbers, rows, points, batch)
            self._clock = int(time_stamps[end - 1])
        self._clock = int(time_stamps[-1])

    def _feed_rows(
        self,
        events: list[EventColumns],
        numbers: list[StreamNumbers],
        rows: range,
        points: _TimePoints,
        batch: EventBatch,
    ) -> Generator[None, None, None]:
        """Process rows, and the ticks before them in turns; yield between two turns."""
        if not self.repeats_ticks:
            self._feed_policies(events, numbers, rows.start, len(rows), points, batch)
            return
        import numpy as np

        from mtlmon.checking.tick_turns import tick_turns

        time_stamps = np.asarray(batch.time_stamps)
        end = int(time_stamps[rows[-1]]) if rows else batch.tick_end
        turns = tick_turns(
            self._native, points.tick_times, time_stamps, rows, end, self._ticks_done
        )
        is_first = True
        for first, count, tick_end in turns:
            if not is_first:
                # There is no snapshot between these ticks.
                was_within_row, self.is_within_row = self.is_within_row, True
                yield
                self.is_within_row = was_within_row
            is_first = False
            self._feed_policies(events, numbers, first, count, points, batch, tick_end)
            self._ticks_done = tick_end

    def _feed_policies(
        self,
        events: list[EventColumns],
        numbers: list[StreamNumbers],
        first: int,
        count: int,
        points: _TimePoints,
        batch: EventBatch,
        tick_end: int | None = None,
    ) -> None:
        """Process `count` events; if that takes long, let threads share the policies from now on.

        With cheap policies, threads cost more than they save: on a text log,
        two threads take 20 % more processor time, and the check is not done any sooner.
        """
        start = time.perf_counter()
        if self._has_clocks:
            self._native.feed(
                events,
                numbers,
                first,
                count,
                places=points.places,
                rows=len(batch.time_stamps),
                offsets=points.offsets,
                row_times=batch.time_stamps,
                tick_end=tick_end,
            )
        else:
            self._native.feed(events, numbers, first, count)
        if self._may_share and time.perf_counter() - start > _SHARED_SECONDS:
            self._may_share = False
            self._executor = self._native.executor = _executor(len(self.monitors), self._threads)

    def _look_for_first(self) -> None:
        """Look for the earliest violation; stop once no earlier or simultaneous one can come."""
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
        """Return time-stamp, offset and policy of the earliest undecided time-point."""
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

    def _may_forget(self, source: EventSource) -> bool:
        """Whether keys may be forgotten after the events that have been read."""
        return (
            not self._keeps_keys
            and source.can_forget_keys
            and any(
                keys is not None and len(keys) >= most
                for keys, most in zip(source.key_tables, self._idle_keys, strict=True)
            )
        )

    def _forget_idle(self, source: EventSource) -> None:
        """Forget the keys that have nothing left to remember, if there are many keys."""
        if self._clock is None or not self._may_forget(source):
            return
        for partition, keys in enumerate(source.key_tables):
            count = self.key_counts[partition]
            if keys is None or count < self._idle_keys[partition]:
                continue
            settled = source.settled_traces(partition, count)
            offsets = self._row_offsets[partition]
            if offsets is not None:
                # The next rows of these traces may have the same time-stamp.
                can_go = bytearray(settled or b"\1" * count)
                for number in offsets.traces:
                    can_go[number] = 0
                settled = bytes(can_go)
            numbers = self._native.forget_idle(self._clock, partition, settled)
            left = self.key_counts[partition]
            if numbers is not None:
                source.keep_traces(partition, numbers)
                if offsets is not None:
                    offsets.keep(numbers)
                self.keys_forgotten[partition] += count - left
            self._idle_keys[partition] = max(_IDLE_KEYS, 2 * left)
