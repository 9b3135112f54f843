"""Check policies on a log: read batches of events and produce verdicts until the log ends."""

from __future__ import annotations

from mtlmon.analysis.reach import decision_delay
from mtlmon.checking.batch_points import points_of
from mtlmon.checking.check_snapshots import CheckNumbers, opened, sealed
from mtlmon.checking.clocks import (
    atoms_of_partitions,
    atoms_read,
    clock_of,
    period_of,
    refuse_waiting,
    tick_period,
)
from mtlmon.checking.feeding import Feeder
from mtlmon.checking.idle_keys import IdleKeys
from mtlmon.checking.partitions import partitions_of
from mtlmon.checking.triggered import Companions
from mtlmon.drive.native import (
    KeyedMonitors,
    PolicyMonitors,
    policies_snapshot,
    restore_policies,
)
from mtlmon.engine.compile import compile_formulas
from mtlmon.engine.memory_limit import formula_bytes, memory_size
from mtlmon.engine.native import MemoryLimit, clock_at_end, is_end_of_time
from mtlmon.errors import MtlmonError
from mtlmon.policy.limits import PolicyCounts, tallies_of
from mtlmon.support.snapshot_parts import damaged, sized, take_sized

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from typing import Literal, SupportsIndex

    from mtlmon.checking.clocks import EndTime
    from mtlmon.checking.row_offsets import RowOffsets
    from mtlmon.checking.row_tracking import RowTracker
    from mtlmon.checking.shown import Messages
    from mtlmon.checking.sources import EventBatch, EventSource, StreamNumbers
    from mtlmon.drive.native import FirstViolation, PolicyLines, VerdictRows
    from mtlmon.engine.pending import PendingTimePoint
    from mtlmon.policy import Policy
    from mtlmon.policy.definitions import Clock
    from mtlmon.policy.limits import Tally, Triggered

__all__ = ["LogCheck"]

# The number of events, times policies, to process before verdicts are taken out.
_SLICE_EVENTS = 1 << 16
_LEAST_EVENTS = 1 << 13
# The same where no verdicts but violations are wanted, which are mostly few.
_LEAST_EVENTS_OF_FEW = 1 << 15
# The approximate size of an event's verdict until it is taken out.
_VERDICT_BYTES = 100


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

        gets_all_ticks: whether the source leaves out no ticks; see `repeats_ticks`.
        passes_time: whether `pass_time` will be called.
        other_keys: the key columns of policies of another kind, which have partitions as well.
        counts_triggered: whether to count how often the left sides of implications hold. Not
            possible with "first", as a check that stops leaves the rest of the log unread.
        rows: whether to find the rows that verdicts are about; the source must track them, and
            verdicts must be taken out by `row_tracker.found`.

    Attributes:
        atoms: the atoms that the policies need at rows, in order of first occurrence.
        atoms_of_partitions: for each partition, the atoms of its policies: at rows under 0, at
            ticks by period.
        partitions: how the policies divide the log into traces; the source has the same partitions.
        first_time_stamp: the first time-stamp of the log, or None before the first event.
        position: the number of events of the log that have been checked, including those of the
            runs whose snapshots this one continues.
        saves_ticks: set this if no row is read again after a snapshot, so that it can be taken
            when ticks that no row follows have been checked.
        repeats_ticks: whether the source may leave out ticks at which no atom changes: see
            `EventSource.only_due_ticks`.
        slice_events: the largest number of events to process before `run` and `feed` yield. You can
            set it.
        is_stopped: whether the first violation has been found. The counts then cover the events up
            to the one at which it was known to be the first, although more may have been read.
        memory: how much memory is held, and the peak. Sources that receive this object add what
            they hold.
        messages: set this to get the messages of triggers for the verdicts of each batch; None for
            no messages.
        emits_first: whether the first violation is among the verdicts as soon as the check has
            stopped. Clear this to call `emit_first` yourself, if it may not be the first of all.
        row_tracker: finds the rows of verdicts; None if they are not wanted.

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
        gets_all_ticks: bool = False,
        passes_time: bool = False,
        other_keys: Iterable[tuple[str, ...]] = (),
        counts_triggered: bool = False,
        rows: bool = False,
    ) -> None:
        self.policies = tuple(policies)
        if any(policy.is_first_order for policy in policies):
            from mtlmon.policy.needs import refuse_first_order

            refuse_first_order(policies)
        self.messages: Messages | None = None
        self.emits_first = True
        # Companions come behind the policies, and their verdicts are only counted.
        has_companions = counts_triggered and verdicts != "first"
        self._companions = Companions(self.policies if has_companions else ())
        monitored = (*self.policies, *self._companions.policies)
        self._clocks = [clock_of(policy) for policy in monitored]
        self._has_clocks = any(clock is not None for clock in self._clocks)
        self._has_ticks = any(one is not None and one.has_ticks for one in self._clocks)
        self._has_changes = any(
            clock is not None and clock.has_ticks and period_of(clock) is None
            for clock in self._clocks
        )
        waits = [one is not None and one.waits for one in self._clocks]
        self._has_waiting = any(waits)
        if self._has_waiting:
            refuse_waiting(advances=advance_every is not None)
        keys = (policy.key for policy in self.policies)
        self.partitions = partitions_of(keys, key, others=other_keys)
        of_policies = self.partitions.of_policies
        self._partition_of = [*of_policies, *(of_policies[k] for k in self._companions.owners)]
        if not isinstance(max_memory, MemoryLimit):
            max_memory = MemoryLimit(None if max_memory is None else memory_size(max_memory))
        self.memory = max_memory
        self.memory.note("formula", formula_bytes(*(policy.formula for policy in monitored)))
        self._monitors: list[KeyedMonitors] = []
        held = 0
        for program in compile_formulas(policy.formula for policy in monitored):
            own_clocks = waits[len(self._monitors)]
            self._monitors.append(KeyedMonitors(program, mode, bdd=bdd, own_clocks=own_clocks))
            if self.memory.limit is not None:
                # With many policies, the limit may already be exceeded here.
                self._monitors[-1].set_limit(self.memory, len(monitored))
                held += self._monitors[-1].held_bytes
                self.memory.note("expressions", held)
                self.memory.check()
        self.memory.note("expressions", 0)
        names = atoms_read((one.atoms for one in self._monitors), self.policies)
        reading = zip(self._partition_of, self._clocks, names, strict=True)
        self.atoms_of_partitions = atoms_of_partitions(len(self.partitions.columns), reading)
        self.atoms = tuple(
            dict.fromkeys(name for needed in self.atoms_of_partitions for name in needed.get(0, ()))
        )
        self._wants_first = verdicts == "first"
        self._selection = (verdicts, resolve, collect, keep_keys, *(["rows"] if rows else []))
        self.row_tracker: RowTracker | None = None
        if rows:
            from mtlmon.checking.row_tracking import RowTracker

            self.row_tracker = RowTracker(of_policies, self._clocks[: len(of_policies)], verdicts)
        # Kept violations refer to keys by number.
        self._keeps_keys = keep_keys or collect or self._wants_first
        self._collects_first = collect and self._wants_first
        self._threads = threads
        delays: list[int | None] | None = None
        self._ticks_wait = False
        if advance_every is not None or passes_time:
            # Where rows wait for later values, time alone decides nothing.
            delays = [
                None if has_waiting else decision_delay(policy.formula)
                for policy, has_waiting in zip(self.policies, waits, strict=False)
            ]
            # Nothing that time decides of companions is waited for.
            delays += [None] * len(self._companions.policies)
            # The first violation may be known once time has passed a tick.
            self._ticks_wait = any(
                (delay or self._wants_first) and clock is not None and clock.has_ticks
                for delay, clock in zip(delays, self._clocks, strict=True)
            )
        wanted = "none" if verdicts == "first" else verdicts
        self._native = PolicyMonitors(
            self._monitors,
            shown=len(self.policies),
            verdicts="all" if rows and verdicts != "none" else wanted,
            resolve=resolve,
            collect=collect and not self._wants_first,
            find_first=self._wants_first,
            delays=delays,
            partitions=self._partition_of,
            memory=self.memory,
            on_ticks=[one is not None and one.has_ticks for one in self._clocks],
        )
        # PERF: repeating letters for the first violation, but at every tick, as the verdicts before
        # it are counted, took 7.5 s instead of 10.4 s for 100,000 keys of which 1 % are active, and
        # 2.5 s instead of 1.2 s for a million ticks of one trace
        self.repeats_ticks = self._has_ticks and not self._wants_first and not gets_all_ticks
        if self.repeats_ticks:
            periods = [tick_period(clock) for clock in self._clocks]
            self._native.run_ticks(periods, wanted)
        has_few = wanted in {"false", "none"} and not rows
        least = _LEAST_EVENTS_OF_FEW if has_few else _LEAST_EVENTS
        self.slice_events = max(_SLICE_EVENTS // len(self._monitors), least)
        if self.memory.limit is not None:
            share = self.memory.limit // 8 // len(self._monitors)
            self.slice_events = max(1, min(self.slice_events, share // _VERDICT_BYTES))
        self._advance_every = advance_every
        count = len(self.partitions.columns)
        self.position = 0
        self.saves_ticks = False
        # For each partition whose policies choose rows, the offsets of its rows.
        self._row_offsets: list[RowOffsets | None] = [None] * count
        with_messages = {
            self._partition_of[number]
            for number, policy in enumerate(self.policies)
            if policy.message is not None and policy.message.is_later
        }
        for partition, clock in zip(self._partition_of, self._clocks, strict=True):
            is_chosen = clock is not None and clock.atom is not None
            if rows or is_chosen or partition in with_messages:
                from mtlmon.checking.row_offsets import RowOffsets

                self._row_offsets[partition] = RowOffsets()
        self._idle = IdleKeys(self._native, self._row_offsets, self.row_tracker)
        self._feeder = Feeder(
            self._native,
            len(self._monitors),
            threads=threads,
            advance_every=advance_every,
            has_clocks=self._has_clocks,
            has_ticks=self._has_ticks,
            repeats_ticks=self.repeats_ticks,
        )
        # If the first violation is wanted, by partition: how many keys there are, and how many
        # there were when it was known that no earlier violation is among the rows checked.
        self._keys = [0] * count
        self._known_keys = [0] * count
        # If the first violation is wanted: for each policy on rows that wait for later values, its
        # number, and time-stamp and trace of the earliest one; None before that is asked.
        self._waiting: list[tuple[int, tuple[int, int]]] | None = None
        # once the log has ended: a time-stamp that no further event is below
        self._end_clock: int | None = None
        self.first_time_stamp: int | None = None
        self.is_stopped = False

    @property
    def is_within_row(self) -> bool:
        """Whether some ticks before the next row have been checked; there is no snapshot then."""
        return self._feeder.is_within_row

    @property
    def has_ticks(self) -> bool:
        """Whether some policies are on ticks."""
        return self._has_ticks

    @property
    def needs_all_ticks(self) -> bool:
        """Whether the source must leave out no ticks from now on, as a tick has been lost."""
        return self._native.needs_all_ticks

    @property
    def has_all_violations(self) -> bool:
        """Whether the wanted verdicts have all violations; some can be in equivalences."""
        verdicts, resolves, *_ = self._selection
        if verdicts in ("none", "first"):
            return verdicts == "first"
        return bool(resolves) or all(one.mode == "naive" for one in self.monitors)

    @property
    def keys_forgotten(self) -> list[int]:
        """For each partition, how many keys had nothing left to remember and were forgotten."""
        return self._idle.forgotten

    @property
    def verdicts(self) -> VerdictRows:
        """The wanted verdicts that have not been taken out yet."""
        return self._native.verdicts

    @property
    def violations(self) -> VerdictRows:
        """The collected violations that have not been taken out yet."""
        return self._native.violations

    @property
    def monitors(self) -> list[KeyedMonitors]:
        """The native monitors, by policy."""
        return self._monitors[: len(self.policies)]

    @property
    def modes(self) -> list[Literal["local", "global", "naive"]]:
        """The modes that the policies run in."""
        return [one.mode for one in self.monitors]

    @property
    def triggered(self) -> list[Triggered | None]:
        """For each policy how often its left side held; None if it has none, or is not counted."""
        if not self._companions.policies:
            return [None] * len(self.policies)
        hidden = self._monitors[len(self.policies) :]
        return self._companions.triggered([one.counters["true"] for one in hidden], self.counts)

    @property
    def tallies(self) -> list[Tally]:
        """What is counted of each policy."""
        return tallies_of(self.policies, self.counts, self.triggered)

    @property
    def counts(self) -> list[PolicyCounts]:
        """The counts by policy."""
        first = self._native.first
        if self.is_stopped and first is not None:
            return [PolicyCounts(*first.counts(number)) for number in range(len(self.policies))]
        return [PolicyCounts(*one.counts) for one in self.monitors]

    @property
    def event_count(self) -> int:
        """The number of events that have been checked and count for the verdicts."""
        first = self._native.first
        return first.event_count if self.is_stopped and first is not None else self.position

    @property
    def clocks(self) -> list[Clock | None]:
        """For each policy its time-points, with periods in units of time; None for all rows."""
        return self._clocks[: len(self.policies)]

    @property
    def state_bytes(self) -> list[int]:
        """The bytes that the states of all keys take by partition, without the keys themselves."""
        counts = [0] * len(self.partitions.columns)
        for partition, one in zip(self._partition_of, self._monitors, strict=True):
            counts[partition] += one.counters["bytes"]
        return counts

    @property
    def key_counts(self) -> list[int]:
        """The current number of traces of each partition, of which policies have seen events."""
        if self.is_stopped:
            return list(self._known_keys)
        counts = self._native.stream_counts
        return counts + [0] * (len(self.partitions.columns) - len(counts))

    @property
    def clock(self) -> int | None:
        """No later event is below this time; None before the first event and after the last."""
        clock = self._feeder.clock
        return None if clock is None else max(clock, self._feeder.passed)

    @property
    def first(self) -> FirstViolation | None:
        """The earliest violation so far, if only the first one is wanted; else None."""
        first = self._native.first
        return first if first is not None and first.is_found else None

    @property
    def earliest_pending(self) -> tuple[int, int] | None:
        """Time-stamp and offset of the earliest undecided time-point, or None."""
        earliest = self._earliest_pending()
        return None if earliest is None else earliest[:2]

    @property
    def open_first(self) -> tuple[FirstViolation, int] | None:
        """The earliest violation so far and the time-stamp of the earliest undecided time-point.

        None unless there are both, and the undecided time-point may become the first violation.
        """
        first = self._native.first
        if self.is_stopped or first is None or not first.is_found:
            return None
        earliest = self._earliest_pending()
        return None if earliest is None else (first, earliest[0])

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
        partitions = self._partition_of
        offsets = self._row_offsets
        chosen = points_of(batch, self._monitors, partitions, self._clocks, offsets)
        events, own_numbers = chosen.events, chosen.numbers
        self._note_waiting(source)
        if self.messages is not None:
            self.messages.add(batch, chosen)
        count = len(batch.time_stamps)
        numbers: list[StreamNumbers] = []
        for partition in range(len(self.partitions.columns)):
            own = batch.numbers_of(partition)
            numbers.append(memoryview(bytes(4 * count)).cast("I") if own is None else own)
        of_policies = [
            numbers[partition] if chosen is None else chosen
            for partition, chosen in zip(partitions, own_numbers, strict=True)
        ]
        # A batch without rows has ticks that come before the next row.
        self._feeder.is_within_row = not count
        can_forget = not self._keeps_keys and self._idle.may_forget(source)
        if self._threads != 1 and not can_forget:
            source.prepare_next()
        starts = {*range(0, max(count, 1), self.slice_events)}
        starts.update(cut for cut in cuts if 0 < cut < count)
        ends = iter([*sorted(starts)[1:], count])
        for first in sorted(starts):
            time_stamps = batch.time_stamps[first : next(ends)]
            if self.first_time_stamp is None and count:
                self.first_time_stamp = int(time_stamps[0])
            if self.row_tracker is not None:
                self.row_tracker.add(batch, first, first + len(time_stamps), chosen)
            self._note_memory()
            end = first + len(time_stamps)
            is_whole = False
            try:
                yield from self._feeder.feed(events, of_policies, first, time_stamps, chosen, batch)
                is_whole = end == count
            finally:
                self._look_for_first(is_within_batch=not is_whole)
            if self._wants_first:
                self._note_keys(numbers, first, end)
            self.position += len(time_stamps)
            for one, rows in zip(self._row_offsets, chosen.rows, strict=True):
                if one is not None and rows is not None:
                    one.add(rows[0][first:end], rows[1][first:end], rows[2][first:end])
            yield
            if self.is_stopped:
                return
        # Only now have all verdicts with numbers of keys been taken out.
        clock = self._feeder.clock
        if not self._keeps_keys and clock is not None:
            self._idle.forget(source, clock, self.messages)

    def _note_memory(self) -> None:
        """Note how much memory is held for undecided time-points, beside the monitors' own."""
        if self.row_tracker is not None or self.messages is not None:
            held = 0 if self.row_tracker is None else self.row_tracker.held_bytes
            held += 0 if self.messages is None else self.messages.held_bytes
            self.memory.note("pending", held)

    def pass_time(self, source: EventSource, time_stamp: int) -> Generator[None, None, None]:
        """Declare that no later event is below a time; whenever this yields, there may be verdicts.

        Verdicts come in the order in which time decides them, and do not depend on how many calls
        it takes to get to a time.

        Args:
            source: the log, which refuses such events from now on.
            time_stamp: the time, which is above the last event.
        """
        if self._waiting is None:
            self._note_waiting(source)
        while self._feeder.passed < time_stamp:
            until = self.next_due(source, time_stamp)
            if self._has_ticks:
                for batch in source.ticks_until(until):
                    yield from self.feed(batch, source)
                    if self.is_stopped:
                        return
            self._feeder.passed = until
            self._native.advance(until)
            self._note_time()
            yield
            if self.is_stopped:
                return

    def next_due(self, source: EventSource, limit: int) -> int:
        """Return a time before which time alone brings no verdict, ticks apart, up to a limit.

        Args:
            source: the log.
            limit: the limit, up to which time has not passed yet.
        """
        until = max(self._native.next_due(limit), self._feeder.passed + 1)
        first = self._native.first
        if first is not None and first.needs_later_time:
            until = max(min(until, first.time_stamp + 1), self._feeder.passed + 1)
        return self._after_next_tick(source, until) if self._ticks_wait else until

    def _after_next_tick(self, source: EventSource, limit: int) -> int:
        """Return a time at which the next tick has been checked, and none that follows it.

        It is the limit if there is no tick below that.

        Ticks whose verdicts wait for later ones can be decided by time before the next tick comes.
        """
        done = max(source.clock or 0, self._feeder.passed)
        periods = (period for clock in self._clocks if (period := period_of(clock)) is not None)
        ticks = [-(-done // period) * period for period in periods]
        change = source.next_change(done, limit) if self._has_changes else None
        ticks += [] if change is None else [change]
        return min(limit, min(ticks, default=limit) + 1)

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
        is_closed = is_end_of_time(following)
        self._note_waiting(source)
        if self._has_ticks:
            limit = clock + 1 if following is None else following
            for batch in source.ticks_until(limit):
                yield from self.feed(batch, source)
                if self.is_stopped:
                    return
        if self._has_waiting and is_closed:
            for batch in source.released():
                yield from self.feed(batch, source)
                if self.is_stopped:
                    return
        self._end_clock = max(clock if following is None else following, self._feeder.passed)
        self._native.finish(self._end_clock, is_closed)
        self._feeder.clock = None
        self._note_time()
        yield

    def _note_waiting(self, source: EventSource) -> None:
        """Find the earliest rows that wait for later values, before another batch is prepared."""
        if not (self._wants_first and self._has_waiting):
            return
        self._waiting = []
        for policy, clock in enumerate(self._clocks):
            if clock is not None and clock.waits:
                found = source.earliest_waiting(self._partition_of[policy], clock)
                self._waiting += [] if found is None else [(policy, found)]

    def _note_keys(self, numbers: Sequence[StreamNumbers], start: int, end: int) -> None:
        """Count the keys of rows that have been checked, and those up to the first violation."""

        def counts(last: int) -> list[int]:
            return [
                before if last == start else max(before, _largest(own[start:last]) + 1)
                for before, own in zip(self._keys, numbers, strict=True)
            ]

        first = self._native.first
        assert first is not None
        if first.is_found and first.event_count >= self.position:
            self._known_keys = counts(start + first.event_count - self.position)
        self._keys = counts(end)

    def _note_time(self) -> None:
        """Look for the earliest violation after time has passed without rows."""
        first = self._native.first
        if first is not None and first.is_found and first.event_count >= self.position:
            self._known_keys = self._keys
        self._look_for_first()

    def snapshot(self) -> bytes:
        """Return the state of the check after `position` events as bytes for `restore`.

        The snapshot does not include the texts of the keys.

        Raises:
            MtlmonError: verdicts wait to be taken out, an event was interrupted, some ticks before
                a row have been checked (`is_within_row`), or the log has ended.
        """
        if self._end_clock is not None:
            raise MtlmonError("no snapshot after the end of the log")
        if self.is_within_row and not self.saves_ticks:
            raise MtlmonError("no snapshot between the ticks before a row")
        numbers = CheckNumbers(
            self.is_stopped,
            self.position,
            self._feeder.clock,
            self.first_time_stamp,
            self._keys,
            self._known_keys,
            self._idle.limits,
            self._idle.forgotten,
        )
        offsets = b"".join(one.snapshot() for one in self._row_offsets if one is not None)
        rows = b"" if self.row_tracker is None else self.row_tracker.snapshot()
        messages = b"" if self.messages is None else self.messages.snapshot()
        body = numbers.pack() + offsets + rows + sized(messages)
        body += policies_snapshot(self._native, self._feeder.passed)
        return sealed(self._settings(), body)

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
        body = opened(snapshot, self._settings())
        numbers, body = CheckNumbers.unpack(body)
        for offsets in self._row_offsets:
            if offsets is not None:
                body = body[offsets.restore(body) :]
        if self.row_tracker is not None:
            body = body[self.row_tracker.restore(body) :]
        messages, body = take_sized(body)
        if self.messages is not None and messages:
            self.messages.restore(messages)
        restore_policies(self._native, body)
        first = self._native.first
        if numbers.is_stopped and (first is None or not first.is_found):
            raise damaged()
        self.is_stopped = numbers.is_stopped
        self.position = numbers.position
        self.first_time_stamp = numbers.first_time_stamp
        self._keys = numbers.keys
        self._known_keys = numbers.known_keys
        self._feeder.clock = numbers.clock
        self._feeder.ticks_done = numbers.clock or 0
        self._idle.limits = numbers.idle_limits
        self._idle.forgotten = numbers.forgotten

    @property
    def moment(self) -> tuple[int, int]:
        """How far time has passed without rows, and below what time all ticks have been checked.

        It is not part of a snapshot: set it behind `restore`, if rows are not read again.
        """
        return self._feeder.passed, self._feeder.ticks_done

    @moment.setter
    def moment(self, moment: tuple[int, int]) -> None:
        self._feeder.passed, self._feeder.ticks_done = moment

    def _settings(self) -> list[tuple[str, object]]:
        """Return the settings that a snapshot depends on, each with words for an error message."""
        texts = [(policy.name, str(policy.formula)) for policy in self.policies]
        return [
            ("other policies or another mode", (texts, self.modes)),
            ("policies with other keys", self.partitions),
            ("policies on other time-points", list(map(str, self.clocks))),
            ("another selection of verdicts", self._selection),
            ("another period after which all keys advance", self._advance_every),
            (
                "a check that counts other left sides of implications (--fail-on-vacuous)",
                [str(policy.formula) for policy in self._companions.policies],
            ),
        ]

    def close(self) -> None:
        """End the threads of the check; no more events can come."""
        self._feeder.close()

    def _look_for_first(self, *, is_within_batch: bool = False) -> None:
        """Look for the earliest violation; stop once no earlier or simultaneous one can come.

        Args:
            is_within_batch: whether the rest of the batch may let go rows that have waited.
        """
        first = self._native.first
        if first is None or not first.is_found:
            return
        if self.row_tracker is not None:
            self.row_tracker.note_first(first)
        if self.messages is not None:
            self.messages.note_first(first)
        if is_within_batch and self._has_waiting:
            return
        earliest = self._earliest_pending()
        if first.needs_later_time and self._feeder.clock is not None:
            return
        if first.has_keys:
            is_first = earliest is None or earliest[0] > first.time_stamp
        else:
            found = (first.time_stamp, first.offset, first.policy)
            is_first = earliest is None or earliest > found
        if is_first:
            self.is_stopped = True
            if self.emits_first:
                self.emit_first()

    def emit_first(self) -> None:
        """Put the first violation among the verdicts of a check that has stopped."""
        first = self._native.first
        assert first is not None
        violation = (first.time_stamp, first.offset, first.stream, first.policy)
        if self.row_tracker is not None:
            self.row_tracker.know_first()
        self.verdicts.add_false(*violation)
        if self._collects_first:
            self.violations.add_false(*violation)

    def _earliest_pending(self) -> tuple[int, int, int] | None:
        """Return time-stamp, offset and policy of the earliest undecided time-point.

        Rows that wait for later values are among them.
        """
        waiting = [
            (time_stamp, self._native.next_offset(policy, number, time_stamp), policy)
            for policy, (time_stamp, number) in self._waiting or ()
        ]
        if self._end_clock is None:
            earliest = self._native.earliest_pending
            return min([*waiting, *([] if earliest is None else [earliest])], default=None)
        # What the end has decided is not saved with the other states.
        pending = (
            (point.time_stamp, point.offset, policy)
            for policy in range(len(self.policies))
            for number in self.pending_keys(policy)
            for point in self.pending(policy, number)
        )
        return min([*waiting, *pending], default=None)


def _largest(numbers: StreamNumbers) -> int:
    """Return the largest of some numbers of traces."""
    # one trace has no array
    return 0 if isinstance(numbers, memoryview) else int(numbers.max())
