# cython: language_level=3
"""Monitor several policies over the events of many streams in one pass.

Each policy has its own monitors. The policies take turns, each processing a batch of events. Their
verdicts are then sorted by event, and by policy within an event.

Policies that divide the log into the same streams form a partition; each partition numbers its
streams by itself. So a stream is named by its policy and its number, and verdict records need no
more than these. Verdicts that only time or the end of the log decides come partition by partition,
because streams of different partitions have no common order.

By default, each row of a batch is an event of every policy. A policy can also have events of its
own, each with its place among the rows. Events are in the order of their places, and at one place
in the order of their time-stamps; the k-th events of several policies at one place and time-stamp
count as one event. Policies that take ticks (`run_ticks`) have an event of each stream at each
tick, and need only those where letters change; their events at one time-stamp are in the order of
the streams, and those of one stream count as one event.
"""

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, UINT32_MAX, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport (
    HELD_BUFFERS,
    HELD_EQUIVALENTS,
    HELD_VERDICTS,
    HeldBytes,
    MemoryLimit,
    NO_LIMIT,
    lowest_bit,
    reserve,
)
from mtlmon.text.native cimport FILTER_NONE, VerdictFilter
from mtlmon.text.native import VERDICT_FILTERS as _FILTERS
from mtlmon.traces.native cimport NO_NUMBER, RowsByTrace

cdef enum:
    BATCH = 1 << 13
    # PERF: each policy finds its tables out of the caches in its turn, so turns are longer while
    # few verdicts come
    LONGEST_TURN = 4 * BATCH
    FEW_VERDICTS = 4            # of an event
    # the smallest batch, under a memory limit; and what an event's verdict takes in transit
    LEAST_BATCH = 1 << 8
    VERDICT_BYTES = 200
    # into how many parts the policies are divided for threads, which take them in turn
    SHARES = 64


@final
cdef class PolicyMonitors(MemoryHolder):
    """Monitors several policies over the same events of many streams.

    Args:
        monitors: a KeyedMonitors for each policy, new and not used elsewhere.
        verdicts: which verdicts are wanted: "all", "boolean", "false" or "none".
        resolve: whether equivalences are replaced by their Boolean verdicts.
        collect: whether to also collect all violations, resolved.
        find_first: whether to find the earliest violation.
        delays: for each policy, how long a time-point can stay pending at most, or None if there is
            no such limit; required if `advance` is used.
        partitions: for each policy, the number of its partition: 0, 1, ...; None if all have the
            same streams.
        memory: the limit for everything together, which is checked every few thousand events.
        shown: how many policies have verdicts; those behind them are only counted. None means all.
        on_ticks: for each policy, whether its events are ticks; None if none are.

    Attributes:
        executor: an executor of concurrent.futures, whose threads process policies; None at first,
            to use only the calling thread. It can be set between two calls.
        memory: as given, or a counter without a limit.
        monitors: as given.
        partition_count: the number of partitions.
        verdicts: the VerdictRows of the calls so far: by event, then by policy, then in time-point
            order. At the end of the log, they are by partition and stream instead of by event.
        violations: likewise for the false time-points, if they are collected.
        first: the earliest violation so far, or None if it is not wanted.
    """

    def __cinit__(
        self, list monitors not None, *, str verdicts="all", bint resolve=False,
        bint collect=False, bint find_first=False, list delays=None, list partitions=None,
        MemoryLimit memory=None, shown=None, list on_ticks=None
    ):
        cdef KeyedMonitors one
        cdef uint32_t policy
        cdef VerdictFilter filter = _FILTERS[verdicts]
        if not monitors or len(monitors) > UINT32_MAX:
            raise ValueError("expected at least one policy")
        for one in monitors:
            if one is None:
                raise TypeError("monitors are KeyedMonitors")
        self.monitors = list(monitors)
        self.policy_count = <uint32_t> len(monitors)
        self.parts = <Part *> calloc(self.policy_count, sizeof(Part))
        self.answering_words = (self.policy_count + 63) // 64
        if on_ticks is None:
            on_ticks = [False] * len(monitors)
        elif len(on_ticks) != len(monitors):
            raise ValueError("expected for each policy whether it is on ticks")
        self.order = EventOrder(self.monitors, on_ticks)
        self.partition_of = <uint32_t *> calloc(self.policy_count, sizeof(uint32_t))
        if self.parts == NULL or self.partition_of == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.partition_count = 1
        if partitions is not None:
            if len(partitions) != len(monitors) or (
                set(partitions) != set(range(max(partitions) + 1))
            ):
                raise ValueError("expected the number of a partition for each policy")
            self.partition_count = max(partitions) + 1
            for policy in range(self.policy_count):
                self.partition_of[policy] = partitions[policy]
        self.rows_by_trace = [None] * self.partition_count
        self.first_policies = [
            next(one for one in range(self.policy_count) if self.partition_of[one] == number)
            for number in range(self.partition_count)
        ]
        for one, delay in zip(monitors, delays or ()):
            if delay is not None:
                one.wait_for_time(delay)
        self.verdicts = VerdictRows()
        self.violations = VerdictRows()
        self.shown_count = self.policy_count
        if shown is not None:
            if not 0 < shown <= len(monitors):
                raise ValueError("expected at least one policy with verdicts")
            self.shown_count = shown
        if find_first:
            self.first = FirstViolation(self.policy_count)
            if any(on_ticks):
                self.first.with_ticks(on_ticks)
        self.delivery = Delivery(
            self.verdicts, filter, resolve, self.policy_count,
            self.violations if collect else None, self.first,
        )
        for policy, one in enumerate(monitors):
            if policy >= self.shown_count:
                one.filter = FILTER_NONE
            elif self.delivery.resolver is None:
                one.filter = filter
        self.memory = MemoryLimit() if memory is None else memory
        self.batch = min(
            <size_t> BATCH,
            max(
                <size_t> LEAST_BATCH,
                self.memory.share(8 * <size_t> self.policy_count) // VERDICT_BYTES,
            ),
        )
        self.turn = self.batch
        if self.memory.allowed != NO_LIMIT():
            for one in monitors:
                one.set_limit(self.memory, self.policy_count)
        self.memory.hold_to(self)

    def __dealloc__(self):
        free(self.parts)
        free(self.partition_of)
        free(self.answering)

    def run_ticks(self, periods not None, str verdicts=None):
        """From now on, let policies have an event of each stream at each tick of a period.

        A stream has the same letter at each tick until an event with another one is given; its
        first tick is always given. Streams are at rest, and cost nothing, while ticks change
        nothing and bring no verdict that is wanted. Not possible if the first violation is wanted.

        Args:
            periods: for each policy its period, or None if its events are of rows; 0 for ticks at
                any times, all of which are given.
            verdicts: which verdicts of these policies are wanted, if not all that the constructor
                says.
        """
        cdef KeyedMonitors one
        cdef VerdictFilter filter
        cdef uint32_t policy
        cdef bint collects
        cdef VerdictFilter wanted = self.delivery.filter
        if verdicts is not None:
            wanted = _FILTERS[verdicts]
        if self.first is not None or len(periods) != <Py_ssize_t> self.policy_count:
            raise ValueError("expected a period or None for each policy, and no first violation")
        for policy, (one, period) in enumerate(zip(self.monitors, periods)):
            filter = wanted if policy < self.shown_count else FILTER_NONE
            collects = self.delivery.violations is not None and policy < self.shown_count
            if period is not None:
                if period < 0:
                    raise ValueError(f"a period is not {period}")
                if self.delivery.resolver is None:
                    one.filter = filter
                one.ticking = TickRuns(
                    one.streams, max(1, period),
                    not passes(filter, VERDICT_FALSE) and not collects,
                    not passes(filter, VERDICT_TRUE),
                )
                one.ticking.is_given = one.ticking.is_complete = period == 0

    def give_all_ticks(self):
        """From now on, let policies have the events at ticks that are given, and no others."""
        cdef KeyedMonitors one
        for one in self.monitors:
            if one.ticking is not None and not one.ticking.is_given:
                one.ticking.give_all()
                # The streams at rest have taken all ticks so far.
                if one.ticking.done:
                    one.clock = max(
                        one.clock, (one.ticking.done - 1) // one.ticking.period * one.ticking.period
                    )

    @property
    def needs_all_ticks(self):
        """Whether `give_all_ticks` has been called, also before a snapshot."""
        cdef KeyedMonitors one
        for one in self.monitors:
            if one.ticking is not None and one.ticking.is_complete and not one.ticking.is_given:
                return True
        return False

    @property
    def awake(self):
        """For each policy that takes ticks: its period, and how many streams are not at rest.

        The period is 0 if all ticks are given.
        """
        cdef KeyedMonitors one
        return [
            (0 if one.ticking.is_given else one.ticking.period, one.ticking.awake.count)
            for one in self.monitors if one.ticking is not None
        ]

    def deliver_to(self, PolicyLines lines not None):
        """From now on, write verdicts as lines instead of collecting them in `verdicts`."""
        self.lines = self.delivery.sink = lines

    def feed(
        self, list events not None, numbers, size_t first=0, size_t count=SIZE_MAX, *,
        places=None, rows=None, offsets=None, row_times=None, tick_end=None
    ):
        """Process some events.

        Args:
            events: for each policy, the events as EventColumns with the atoms of its monitors.
            numbers: the stream numbers of the events, a contiguous array of type uint32; or a list
                with such an array for each policy.
            first: the index of the first row to process.
            count: the number of rows; all from `first` on if not given.
            places: for each policy, the index of the row that each event comes with, a contiguous
                array of type uint32 that never decreases; None stands for an event for each row.
                Events after the last row have the number of rows as their place. None if all
                policies have an event for each row.
            rows: the number of rows, required with `places`.
            offsets: for each policy, the offset of each event within its time-stamp, a contiguous
                array of type uint32; None stands for consecutive offsets. None if all policies have
                these.
            row_times: the time-stamps of all rows, a contiguous array of type int64; required if
                policies take ticks, and with `places` if the first violation is wanted.
            tick_end: the ticks below this time are taken, and no later events of these policies;
                not below the time-stamp of the last row to process.

        Raises:
            TimeStampError: a time-stamp is not valid; nothing has changed.
            LimitError, MemoryError, KeyboardInterrupt: raised in the middle of an event; the
                verdicts of the events before are available.
            MemoryLimitError: likewise, or raised between two events.
        """
        cdef EventColumns columns
        cdef KeyedMonitors one
        cdef EventOrder order = self.order
        cdef Source *source
        cdef const Source *known = NULL
        cdef list memories = []
        cdef uint32_t policy
        cdef size_t row_count, turn
        cdef size_t streams = 0
        cdef uint64_t last_tick_end = 0
        if len(events) != <Py_ssize_t> self.policy_count:
            raise ValueError(f"expected events for each of {self.policy_count} policies")
        if places is not None and rows is None:
            raise ValueError("the number of rows is missing")
        columns = events[0]
        row_count = columns.count if places is None else rows
        order.open(events, numbers, places, offsets, row_count, memories)
        if first > row_count:
            raise ValueError("there are no such events")
        count = min(count, row_count - first)
        if tick_end is not None or self.first is not None and places is not None:
            order.open_row_times(row_times, row_count, memories)
        if tick_end is not None:
            last_tick_end = tick_end
        if places is not None or offsets is not None:
            # rows have other names, or are no events
            self.catch_up()
            self.stop_passing()
        for policy in range(self.policy_count):
            source = &order.sources[policy]
            one = self.monitors[policy]
            columns = events[policy]
            if one.ticking is not None and (tick_end is None or not order.has_places):
                raise ValueError("the end of ticks is missing")
            order.find_events(policy, columns, first, first + count, row_count, last_tick_end)
            if order.has_places or policy == 0:
                one.check(columns, source.first, source.first + source.count)
        for policy in range(self.policy_count):
            source = &order.sources[policy]
            one = self.monitors[policy]
            # PERF: most policies have the same numbers, of thousands of events
            if policy == 0 or source.numbers != known.numbers or source.first != known.first or (
                source.count != known.count
            ):
                known = source
                streams = stream_count(source.numbers, source.first, source.count)
            one.begin(events[policy], source.first, source.count, streams)
            one.offsets = source.offsets
            one.streams.worker.enter()
        try:
            while count or order.has_places:
                turn = min(self.turn, count)
                if turn < count and order.row_times != NULL:
                    last_tick_end = <uint64_t> order.row_times[first + turn - 1]
                elif tick_end is not None:
                    last_tick_end = tick_end
                for policy in range(self.policy_count):
                    order.find_events(
                        policy, events[policy], first, first + turn, row_count, last_tick_end
                    )
                self.resume(events, first, turn)
                first += turn
                count -= turn
                PyErr_CheckSignals()
                if not count:
                    break
        finally:
            for one in self.monitors:
                one.offsets = NULL
                one.streams.worker.leave()

    cdef int resume(self, list events, size_t first, size_t count) except -1:
        """Let each policy process its events of the turn; take the verdicts."""
        cdef EventColumns columns
        cdef KeyedMonitors one
        cdef EventOrder order = self.order
        cdef Source *source
        cdef uint32_t policy
        cdef size_t row_count = count
        cdef size_t verdicts = 0
        cdef size_t k
        self.begin_passing(events)
        if self.executor is None:
            failures = self._resume_some(events, 0, self.policy_count)
        else:
            failures = self._share_out(events)
        if order.has_places:
            order.set_positions(events, first, count)
            count = order.position_count
        for policy in range(self.policy_count):
            one = self.monitors[policy]
            source = &order.sources[policy]
            # If one policy has failed, the other policies' later events are not counted.
            if one.ticking is not None:
                if one.ticking.has_failed:
                    count = min(count, <size_t> source.positions[one.rows.count])
                for k in range(one.rows.count):
                    one.rows.policies[k] = source.positions[k]
            elif not order.has_places:
                count = min(count, one.done)
            elif one.done < source.count:
                count = min(count, <size_t> source.positions[one.done])
            if order.has_places and one.ticking is None:
                for k in range(one.rows.count):
                    one.rows.policies[k] = source.positions[one.rows.policies[k]]
            self.prepare(one, policy)
            verdicts += one.rows.count
            self.parts[policy].events_before = one.streams.event_count - one.done
            self.parts[policy].event_count = one.done
        if verdicts > FEW_VERDICTS * count or self.memory.allowed != NO_LIMIT():
            self.turn = self.batch
        else:
            self.turn = min(2 * self.turn, <size_t> LONGEST_TURN)
        columns = events[0]
        with nogil:
            self.merge(count, columns, first)
        for failure in failures:
            if failure is not None:
                # states stay as they are
                self.stop_passing()
                self.event_count += row_count if order.has_places else count
                raise failure
        if self.first is not None and order.has_places:
            self.pass_rows(first, row_count, count)
        self.event_count += row_count if order.has_places else count
        self.memory.hold_to(self)
        return 0

    cdef int begin_passing(self, list events) except -1:
        """Find which policies can pass over rows of the turn, and the rows by trace for them."""
        cdef RowsByTrace rows
        cdef KeyedMonitors one
        cdef EventOrder order = self.order
        cdef Source *source
        cdef uint32_t policy, partition
        cdef size_t streams
        if order.has_places:
            return 0
        for policy in range(self.policy_count):
            one = self.monitors[policy]
            source = &order.sources[policy]
            partition = self.partition_of[policy]
            one.is_passing = one.is_sparse(events[policy], source.first, source.count)
            if one.is_passing and self.rows_by_trace[partition] is None:
                self.rows_by_trace[partition] = self.last_rows(partition)
        for partition in range(self.partition_count):
            rows = self.rows_by_trace[partition]
            if rows is not None:
                policy = self.first_policies[partition]
                source = &order.sources[policy]
                one = self.monitors[policy]
                rows.begin(
                    events[policy], source.numbers, source.first, source.count,
                    one.streams.count
                )
        for policy in range(self.policy_count):
            one = self.monitors[policy]
            one.rows_by_trace = self.rows_by_trace[self.partition_of[policy]]
        return 0

    cdef int stop_passing(self) except -1:
        cdef KeyedMonitors one
        self.rows_by_trace = [None] * self.partition_count
        for one in self.monitors:
            one.rows_by_trace = None
        return 0

    cdef RowsByTrace last_rows(self, uint32_t partition):
        """The last row of each trace of a partition, as the states of its policies know it."""
        cdef RowsByTrace rows = RowsByTrace()
        cdef KeyedMonitors one
        cdef uint64_t time_stamp = 0
        cdef uint64_t offset = 0
        cdef uint32_t policy, trace
        for policy in range(self.policy_count):
            one = self.monitors[policy]
            if self.partition_of[policy] == partition:
                for trace in range(one.streams.count):
                    if one.streams.last_point(trace, &time_stamp, &offset):
                        rows.note_state(trace, time_stamp, offset)
        return rows

    cdef int catch_up(self) except -1:
        """Let states be as if no rows had been passed over; call between two calls of `feed`."""
        cdef KeyedMonitors one
        for one in self.monitors:
            one.catch_up(0, one.streams.count)
        return 0

    cdef void count_held(self, HeldBytes *held) noexcept with gil:
        cdef KeyedMonitors one
        cdef RowsByTrace rows
        for one in self.monitors:
            one.count_held(held)
        for rows in self.rows_by_trace:
            if rows is not None:
                held.of[HELD_BUFFERS] += rows.held_bytes()
        if self.delivery.resolver is not None:
            held.of[HELD_EQUIVALENTS] += self.delivery.resolver.held_bytes()
        held.of[HELD_VERDICTS] += self.verdicts.held_bytes() + self.violations.held_bytes()
        if self.lines is not None:
            held.of[HELD_VERDICTS] += self.lines.held_bytes()
        held.of[HELD_BUFFERS] += (
            self.order.held_bytes() + self.answering_room * sizeof(uint64_t)
        )

    cdef bint relieve(self) except -1 with gil:
        cdef KeyedMonitors one
        for one in self.monitors:
            one.streams.relieve()
        return True

    cdef void set_room(self, MemoryLimit memory) noexcept with gil:
        cdef KeyedMonitors one
        for one in self.monitors:
            one.streams.set_room(memory)

    def _share_out(self, list events):
        """Let threads do what `_resume_some` does for all policies.

        The work is complete when this returns, and also when it raises.
        """
        cdef uint64_t shares = min(<uint64_t> SHARES, self.policy_count)
        bounds = [share * self.policy_count // shares for share in range(shares + 1)]
        futures = [
            self.executor.submit(self._resume_some, events, first, end)
            for first, end in zip(bounds, bounds[1:])
        ]
        try:
            return [failure for future in futures for failure in future.result()]
        except BaseException:
            # A signal came. No thread may continue to use monitors in the background.
            for future in futures:
                if not future.cancel():
                    future.exception()
            raise

    def _resume_some(self, list events, uint32_t first, uint32_t end):
        """Run the monitors of some policies; return for each the exception it raised, or None."""
        cdef uint32_t policy
        return [self._resume_one(policy, events[policy]) for policy in range(first, end)]

    cdef object _resume_one(self, uint32_t policy, EventColumns columns):
        cdef KeyedMonitors one = self.monitors[policy]
        cdef const Source *source = &self.order.sources[policy]
        one.rows.count = 0
        try:
            with nogil:
                if one.ticking is not None:
                    one.resume_ticks(
                        columns, source.numbers, source.first, source.count, source.tick_end
                    )
                else:
                    one.resume(columns, source.numbers, source.first, source.count)
        except BaseException as error:
            return error
        return None

    def advance(self, uint64_t time_stamp):
        """Declare that no event is below a time-stamp.

        Streams in which nothing has been pending for longer than the delay are not touched.
        """
        cdef KeyedMonitors one
        cdef uint32_t policy, first, partition
        for one in self.monitors:
            if one.waiting is not None:
                one.due_done = 0
                with nogil:
                    one.waiting.find_due(time_stamp)
        partition = 0
        while partition < self.partition_count:
            first = NO_NUMBER
            for policy in range(self.policy_count):
                one = self.monitors[policy]
                if self.partition_of[policy] == partition:
                    first = min(first, one.next_due())
            if first == NO_NUMBER:
                partition += 1
                continue
            for policy in range(self.policy_count):
                one = self.monitors[policy]
                one.rows.count = 0
                if self.partition_of[policy] == partition:
                    with nogil:
                        one.settle_due(first, self.batch, time_stamp)
                self.prepare(one, policy)
            with nogil:
                self.merge(self.batch, None, 0)
            self.memory.hold_to(self)
            PyErr_CheckSignals()
        self.end_of_time(time_stamp)

    def next_due(self, uint64_t time_stamp):
        """Return the first time up to a time-stamp at which time alone decides something.

        If time decides nothing until then, this is the time-stamp. Time decides the same, in the
        same order, whether it passes in small steps or from one of these times to the next.
        """
        cdef KeyedMonitors one
        for one in self.monitors:
            if one.waiting is not None:
                with nogil:
                    one.waiting.find_next(&time_stamp)
        return time_stamp

    def finish(self, uint64_t time_stamp, bint is_closed):
        """End the log: no event is below a time-stamp; with `is_closed` there is none at all."""
        cdef KeyedMonitors one
        cdef uint32_t policy, partition
        cdef size_t first
        for partition in range(self.partition_count):
            for first in range(0, self.streams_of(partition), self.batch):
                for policy in range(self.policy_count):
                    one = self.monitors[policy]
                    one.rows.count = 0
                    if self.partition_of[policy] == partition:
                        with nogil:
                            one.end(first, self.batch, time_stamp, is_closed)
                    self.prepare(one, policy)
                with nogil:
                    self.merge(self.batch, None, 0)
                self.memory.hold_to(self)
                PyErr_CheckSignals()
        self.end_of_time(time_stamp)

    cdef void end_of_time(self, uint64_t time_stamp) noexcept:
        """Attribute what the passing of time has brought to the previous event.

        time_stamp: no event is below this time.
        """
        cdef KeyedMonitors one
        cdef uint32_t policy
        if self.first is None:
            return
        for one in self.monitors:
            time_stamp = max(time_stamp, one.clock)
        self.first.begin_event(time_stamp)
        if self.first.end_event(self.event_count):
            for policy, one in enumerate(self.monitors):
                self.first.known_events[policy] = one.streams.event_count

    def check(self):
        """Raise MemoryLimitError if too much memory is held."""
        self.memory.hold_to(self)

    @property
    def stream_counts(self):
        """The number of streams of each partition."""
        return [self.streams_of(partition) for partition in range(self.partition_count)]

    cdef uint32_t streams_of(self, uint32_t partition) noexcept:
        """The number of streams of a partition."""
        cdef KeyedMonitors one
        cdef uint32_t count = 0
        cdef uint32_t policy
        for policy in range(self.policy_count):
            one = self.monitors[policy]
            if self.partition_of[policy] == partition:
                count = max(count, one.streams.count)
        return count

    @property
    def open_count(self):
        """The time-points whose equivalence has no value yet, if equivalences are resolved."""
        return self.delivery.resolver.open_count if self.delivery.resolver is not None else 0

    @property
    def earliest_pending(self):
        """The earliest pending time-point of any policy and stream: its time-stamp, its offset and
        the policy's number; None if there is none.
        """
        cdef KeyedMonitors one
        cdef uint64_t earliest = 0, earliest_offset = 0
        cdef uint64_t time_stamp = 0, offset = 0
        cdef uint32_t earliest_policy = 0
        cdef uint32_t policy, k
        cdef bint is_found = False
        for policy in range(self.policy_count):
            one = self.monitors[policy]
            for k in range(one.streams.count):
                if one.streams.earliest_point(k, &time_stamp, &offset) and (
                    not is_found
                    or time_stamp < earliest
                    or (time_stamp == earliest and offset < earliest_offset)
                ):
                    earliest = time_stamp
                    earliest_offset = offset
                    earliest_policy = policy
                    is_found = True
        return (earliest, earliest_offset, earliest_policy) if is_found else None

    def next_offset(self, uint32_t policy, uint32_t stream, uint64_t time_stamp):
        """Return the offset that the next event of a stream has if it has a time-stamp."""
        cdef KeyedMonitors one = self.monitors[policy]
        cdef uint64_t last = 0, offset = 0
        if stream >= one.streams.count or not one.streams.last_point(stream, &last, &offset):
            return 0
        return offset + 1 if last == time_stamp else 0

    def forget_idle(self, uint64_t clock, uint32_t partition=0, bytes can_go=None):
        """Forget a partition's streams that behave like new ones, if no event is below `clock`.

        Args:
            clock: a time-stamp that no further event is below.
            partition: the number of the partition.
            can_go: a byte for each stream, 0 if it must stay; None if all can go.

        Returns:
            Bytes of uint32 numbers, by the number of a stream that which it has now, or 2^32-1 if
            it is forgotten; None if too few are idle, and nothing has changed.
        """
        cdef KeyedMonitors one
        cdef RowsByTrace rows
        cdef list monitors
        cdef uint32_t policy
        cdef uint32_t total = self.streams_of(partition)
        cdef uint32_t kept = 0
        cdef uint32_t k
        cdef bint is_idle
        cdef const uint8_t *flags = NULL
        if can_go is not None:
            if <uint64_t> len(can_go) < total:
                raise ValueError(f"{len(can_go)} flags for {total} streams")
            flags = <const uint8_t *> <const char *> can_go
        cdef uint32_t *numbers = <uint32_t *> malloc((total + <size_t> 1) * sizeof(uint32_t))
        if numbers == NULL:
            raise MemoryError("mtlmon: out of memory")
        try:
            monitors = [
                self.monitors[policy] for policy in range(self.policy_count)
                if self.partition_of[policy] == partition
            ]
            for one in monitors:
                one.streams.extend(total)
                if one.ticking is not None:
                    # ticks go on for ever
                    return None
            rows = self.rows_by_trace[partition]
            for k in range(total):
                is_idle = flags == NULL or flags[k] != 0
                if rows is not None and k < rows.trace_count and (
                    rows.latest[k].number and rows.latest[k].time_stamp >= clock
                ):
                    # states do not know of rows that were passed over
                    is_idle = False
                for one in monitors if is_idle else ():
                    if not one.streams.is_idle(k, clock):
                        is_idle = False
                        break
                numbers[k] = NO_NUMBER if is_idle else kept
                kept += not is_idle
            if 2 * <uint64_t> kept > total:
                return None
            for one in monitors:
                one.streams.renumber(numbers)
                if one.waiting is not None:
                    one.waiting.renumber()
            if rows is not None:
                rows.renumber(numbers)
            if self.delivery.resolver is not None and not self.delivery.resolver.renumber(
                numbers, self.policy_count, self.partition_of, partition
            ):
                raise MemoryError("mtlmon: out of memory")
            if self.lines is not None:
                self.lines.forget_keys()
            return (<const char *> numbers)[:total * sizeof(uint32_t)]
        finally:
            free(numbers)

    # ---- verdicts ----------------------------------------------------------------------------

    cdef void prepare(self, KeyedMonitors monitors, uint32_t policy) noexcept:
        """Prepare the verdicts of a policy's monitors for `merge`."""
        cdef Part *part = &self.parts[policy]
        part.records = monitors.rows.records
        part.streams = monitors.rows.streams
        part.places = monitors.rows.policies
        part.count = monitors.rows.count
        part.taken = 0

    cdef int find_answering(self, size_t count) except -1 nogil:
        """Find to which policies each of the first `count` events, or streams, brings verdicts."""
        cdef const Part *part
        cdef uint32_t policy, k
        cdef uint64_t *word
        self.answering_end = 0
        for policy in range(self.policy_count):
            part = &self.parts[policy]
            if part.count:
                self.answering_end = max(
                    self.answering_end, <size_t> part.places[part.count - 1] + 1
                )
        count = self.answering_end = min(self.answering_end, count)
        if count == 0:
            return 0
        reserve(
            <void **> &self.answering, &self.answering_room, count * self.answering_words,
            sizeof(uint64_t)
        )
        memset(self.answering, 0, count * self.answering_words * sizeof(uint64_t))
        for policy in range(self.policy_count):
            part = &self.parts[policy]
            word = self.answering + (policy >> 6)
            for k in range(part.count):
                if part.places[k] >= count:
                    break
                word[<size_t> part.places[k] * self.answering_words] |= (
                    <uint64_t> 1 << (policy & 63)
                )
        return 0

    cdef bint is_answered(self, size_t place) noexcept nogil:
        """Whether an event brings verdicts."""
        cdef const uint64_t *words = self.answering + place * self.answering_words
        cdef uint32_t k
        for k in range(self.answering_words if place < self.answering_end else 0):
            if words[k]:
                return True
        return False

    cdef int take_answers(self, size_t first, size_t end) except -1 nogil:
        """Take the verdicts that events `first` to `end` - 1 bring: by event, and policy by policy.
        """
        cdef const uint64_t *words = self.answering
        cdef size_t count = self.answering_words
        # PERF: saves 2 % of a check of two cheap policies on a text log
        cdef bint is_direct = self.lines is not None and self.delivery.resolver is None
        cdef Part *part
        cdef uint64_t bits
        cdef size_t place, k
        cdef uint32_t policy, taken
        for place in range(first, min(end, self.answering_end)):
            for k in range(count):
                bits = words[place * count + k]
                while bits:
                    policy = <uint32_t> (64 * k) + <uint32_t> lowest_bit(bits)
                    bits &= bits - 1
                    part = &self.parts[policy]
                    taken = part.taken
                    while part.taken < part.count and part.places[part.taken] == place:
                        part.taken += 1
                    if is_direct:
                        self.lines.put(
                            part.records + taken, part.taken - taken, self.delivery.filter,
                            part.streams[taken], policy
                        )
                    else:
                        self.delivery.put(
                            part.records + taken, part.taken - taken, False, part.streams[taken],
                            policy
                        )
        return 0

    cdef int merge(self, size_t count, EventColumns columns, size_t start) except -1 nogil:
        """Take the verdicts of the first `count` events, or streams, of all policies.

        columns: the events, starting at number `start`; None for streams.
        """
        cdef size_t place
        self.find_answering(count)
        if self.first is None or columns is None:
            self.take_answers(0, count)
            return 0
        for place in range(count):
            # For a violation that waits, an event matters even if it brings no verdicts.
            if place and not self.is_answered(place) and not (
                self.first.waits_for_time() or self.first.has_news
            ):
                continue
            if self.order.has_places and not self.first.has_news:
                self.pass_rows(start, self.order.rows_before[place], place)
            self.first.begin_event(
                self.order.times[place] if self.order.has_places
                else columns.time_stamp_of(start + place)
            )
            self.take_answers(place, place + 1)
            if (place + 1 == count or self.order.is_row_done(start, place)) and (
                self.first.end_event(self.event_count + self.order.rows_read(start, place))
            ):
                self.note_events(place + 1)
        return 0

    cdef void pass_rows(self, size_t first, size_t count, size_t place) noexcept nogil:
        """Let rows tell the time that no policy has as events.

        first: the first row of the turn.
        count: how many rows come before a position.
        place: the position.
        """
        cdef size_t row
        if not self.first.waits_for_time():
            return
        row = self.order.row_behind(self.first.time_stamp)
        if row < first + count:
            self.first.begin_event(<uint64_t> self.order.row_times[row])
            if self.first.end_event(self.event_count + (row + 1 - first)):
                self.note_events(place)

    cdef void note_events(self, size_t end) noexcept nogil:
        """Set the known time-points of all policies to those before a position of the turn."""
        cdef const Part *part
        cdef uint32_t policy
        for policy in range(self.policy_count):
            part = &self.parts[policy]
            self.first.known_events[policy] = (
                part.events_before + self.order.events_before(policy, end, part.event_count)
            )
