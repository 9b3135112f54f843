# cython: language_level=3
"""Monitor several policies over the events of many streams in one pass.

Each policy has its own monitors. The policies take turns, each processing a batch of events. Their
verdicts are then sorted by event, and by policy within an event.
"""

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, UINT32_MAX, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from mtlmon.arrays.native cimport EventColumns, Memory
from mtlmon.engine.native cimport (
    HELD_EQUIVALENTS,
    HELD_VERDICTS,
    HeldBytes,
    MemoryLimit,
    NO_LIMIT,
)
from mtlmon.text.native cimport VerdictFilter
from mtlmon.text.native import VERDICT_FILTERS as _FILTERS
from mtlmon.traces.native cimport NO_NUMBER

cdef enum:
    BATCH = 1 << 13
    # the smallest batch, under a memory limit; and what an event's verdict takes in transit
    LEAST_BATCH = 1 << 8
    VERDICT_BYTES = 200


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
        executor: an executor of concurrent.futures, whose threads process policies; None to use
            only the calling thread.
        memory: the limit for everything together, which is checked every few thousand events.

    Attributes:
        executor: as given; can be set between two calls.
        memory: as given, or a counter without a limit.
        monitors: as given.
        verdicts: the VerdictRows of the calls so far: by event, then by policy, then in time-point
            order. At the end of the log, they are by stream instead of by event.
        violations: likewise for the false time-points, if they are collected.
        first: the earliest violation so far, or None if it is not wanted.
    """

    def __cinit__(
        self, list monitors not None, *, str verdicts="all", bint resolve=False,
        bint collect=False, bint find_first=False, list delays=None, executor=None,
        MemoryLimit memory=None
    ):
        cdef KeyedMonitors one
        cdef VerdictFilter filter = _FILTERS[verdicts]
        if not monitors or len(monitors) > UINT32_MAX:
            raise ValueError("expected at least one policy")
        for one in monitors:
            if one is None:
                raise TypeError("monitors are KeyedMonitors")
        self.monitors = list(monitors)
        self.policy_count = <uint32_t> len(monitors)
        self.parts = <Part *> calloc(self.policy_count, sizeof(Part))
        if self.parts == NULL:
            raise MemoryError("mtlmon: out of memory")
        for one, delay in zip(monitors, delays or ()):
            if delay is not None:
                one.wait_for_time(delay)
        self.executor = executor
        self.verdicts = VerdictRows()
        self.violations = VerdictRows()
        if find_first:
            self.first = FirstViolation(self.policy_count)
        self.delivery = Delivery(
            self.verdicts, filter, resolve, self.policy_count,
            self.violations if collect else None, self.first,
        )
        if self.delivery.resolver is None:
            for one in monitors:
                one.filter = filter
        self.memory = MemoryLimit() if memory is None else memory
        self.batch = min(
            <size_t> BATCH,
            max(
                <size_t> LEAST_BATCH,
                self.memory.share(8 * <size_t> self.policy_count) // VERDICT_BYTES,
            ),
        )
        if self.memory.allowed != NO_LIMIT():
            for one in monitors:
                one.set_limit(self.memory, self.policy_count)
        self.memory.hold_to(self)

    def __dealloc__(self):
        free(self.parts)

    def deliver_to(self, PolicyLines lines not None):
        """From now on, write verdicts as lines instead of collecting them in `verdicts`."""
        self.lines = self.delivery.sink = lines

    def feed(self, list events not None, numbers, size_t first=0, size_t count=SIZE_MAX):
        """Process some events.

        Args:
            events: for each policy, the events as EventColumns with the atoms of its monitors.
            numbers: the stream numbers of the events, a contiguous array of type uint32.
            first: the index of the first event to process.
            count: the number of events; all from `first` on if not given.

        Raises:
            TimeStampError: a time-stamp is not valid; nothing has changed.
            LimitError, MemoryError, KeyboardInterrupt: raised in the middle of an event; the
                verdicts of the events before are available.
            MemoryLimitError: likewise, or raised between two events.
        """
        cdef EventColumns columns
        cdef KeyedMonitors one
        cdef Memory memory
        cdef size_t total
        if len(events) != <Py_ssize_t> self.policy_count:
            raise ValueError(f"expected events for each of {self.policy_count} policies")
        columns = events[0]
        total = columns.count
        for columns in events:
            if columns.count != total:
                raise ValueError("different numbers of events")
        memory = stream_numbers(numbers, total)
        if first > total:
            raise ValueError("there are no such events")
        count = min(count, total - first)
        one = self.monitors[0]
        columns.check_time_stamps(one.clock, 0, first, first + count)
        for one, columns in zip(self.monitors, events):
            one.begin(columns, <const uint32_t *> memory.buffer.buf, first, count)
            one.streams.worker.enter()
        try:
            while count:
                self.go_on(
                    events, <const uint32_t *> memory.buffer.buf, first, min(self.batch, count)
                )
                first += min(self.batch, count)
                count -= min(self.batch, count)
                PyErr_CheckSignals()
        finally:
            for one in self.monitors:
                one.streams.worker.leave()

    cdef int go_on(
        self, list events, const uint32_t *numbers, size_t first, size_t count
    ) except -1:
        cdef EventColumns columns
        cdef KeyedMonitors one
        cdef uint32_t policy
        cdef size_t place = <size_t> numbers
        work = [
            (policy, events[policy], place, first, count) for policy in range(self.policy_count)
        ]
        if self.executor is None:
            failures = [self._go_on_one(part) for part in work]
        else:
            failures = self._share_out(work)
        for policy in range(self.policy_count):
            one = self.monitors[policy]
            # If one policy has failed, the other policies' later events are not counted.
            count = min(count, one.done)
            self.prepare(one, policy)
        columns = events[0]
        with nogil:
            self.merge(count, columns, first)
        for failure in failures:
            if failure is not None:
                raise failure
        self.memory.hold_to(self)
        return 0

    cdef void count_held(self, HeldBytes *held) noexcept with gil:
        cdef KeyedMonitors one
        for one in self.monitors:
            one.count_held(held)
        if self.delivery.resolver is not None:
            held.of[HELD_EQUIVALENTS] += self.delivery.resolver.held_bytes()
        held.of[HELD_VERDICTS] += self.verdicts.held_bytes() + self.violations.held_bytes()
        if self.lines is not None:
            held.of[HELD_VERDICTS] += self.lines.held_bytes()

    cdef bint relieve(self) except -1 with gil:
        cdef KeyedMonitors one
        for one in self.monitors:
            one.streams.relieve()
        return True

    cdef void set_room(self, MemoryLimit memory) noexcept with gil:
        cdef KeyedMonitors one
        for one in self.monitors:
            one.streams.set_room(memory)

    def _share_out(self, list work):
        """Let threads do the work. It is complete when this returns, and also when it raises."""
        futures = [self.executor.submit(self._go_on_one, part) for part in work]
        try:
            return [future.result() for future in futures]
        except BaseException:
            # A signal came. No thread may continue to use monitors in the background.
            for future in futures:
                if not future.cancel():
                    future.exception()
            raise

    def _go_on_one(self, tuple work):
        """Run one policy's monitors; return the exception they raised, or None."""
        cdef KeyedMonitors one = self.monitors[work[0]]
        cdef EventColumns columns = work[1]
        cdef const uint32_t *numbers = <const uint32_t *> <size_t> work[2]
        cdef size_t first = work[3]
        cdef size_t count = work[4]
        one.rows.count = 0
        try:
            with nogil:
                one.go_on(columns, numbers, first, count)
        except BaseException as error:
            return error
        return None

    def advance(self, uint64_t time_stamp):
        """Declare that no event is below a time-stamp.

        Streams in which nothing has been pending for longer than the delay are not touched.
        """
        cdef KeyedMonitors one
        cdef uint32_t policy, first
        for one in self.monitors:
            if one.waiting is not None:
                one.due_done = 0
                with nogil:
                    one.waiting.find_due(time_stamp)
        while True:
            first = min([(<KeyedMonitors> each).next_due() for each in self.monitors])
            if first == NO_NUMBER:
                self.end_of_time()
                return
            for policy in range(self.policy_count):
                one = self.monitors[policy]
                one.rows.count = 0
                with nogil:
                    one.settle_due(first, self.batch, time_stamp)
                self.prepare(one, policy)
            with nogil:
                self.merge(self.batch, None, 0)
            self.memory.hold_to(self)
            PyErr_CheckSignals()

    def finish(self, uint64_t time_stamp, bint is_closed):
        """End the log: no event is below a time-stamp; with `is_closed` there is none at all."""
        cdef KeyedMonitors one
        cdef uint32_t policy
        cdef size_t first
        for first in range(0, self.stream_count, self.batch):
            for policy in range(self.policy_count):
                one = self.monitors[policy]
                one.rows.count = 0
                with nogil:
                    one.end(first, self.batch, time_stamp, is_closed)
                self.prepare(one, policy)
            with nogil:
                self.merge(self.batch, None, 0)
            self.memory.hold_to(self)
            PyErr_CheckSignals()
        self.end_of_time()

    cdef void end_of_time(self) noexcept:
        """Attribute what the passing of time has brought to the previous event."""
        cdef KeyedMonitors one = self.monitors[0]
        if self.first is not None:
            self.first.begin_event(one.clock)
            self.first.end_event(self.event_count)

    def check(self):
        """Raise MemoryLimitError if too much memory is held."""
        self.memory.hold_to(self)

    @property
    def stream_count(self):
        """The number of streams."""
        return max([(<KeyedMonitors> one).streams.count for one in self.monitors])

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

    def forget_idle(self, uint64_t clock):
        """Forget the streams that behave like new ones, if no event is below `clock`.

        Returns:
            Bytes of uint32 numbers, by the number of a stream that which it has now, or 2^32-1 if
            it is forgotten; None if too few are idle, and nothing has changed.
        """
        cdef KeyedMonitors one
        cdef uint32_t total = self.stream_count
        cdef uint32_t kept = 0
        cdef uint32_t k
        cdef bint is_idle
        cdef uint32_t *numbers = <uint32_t *> malloc((total + <size_t> 1) * sizeof(uint32_t))
        if numbers == NULL:
            raise MemoryError("mtlmon: out of memory")
        try:
            for one in self.monitors:
                one.streams.extend(total)
            for k in range(total):
                is_idle = True
                for one in self.monitors:
                    if not one.streams.is_idle(k, clock):
                        is_idle = False
                        break
                numbers[k] = NO_NUMBER if is_idle else kept
                kept += not is_idle
            if 2 * <uint64_t> kept > total:
                return None
            for one in self.monitors:
                one.streams.renumber(numbers)
                if one.waiting is not None:
                    one.waiting.renumber()
            if self.delivery.resolver is not None and not self.delivery.resolver.renumber(
                numbers, self.policy_count
            ):
                raise MemoryError("mtlmon: out of memory")
            if self.lines is not None:
                self.lines.has_key = False
            return (<const char *> numbers)[:total * sizeof(uint32_t)]
        finally:
            free(numbers)

    # ---- verdicts ----------------------------------------------------------------------------

    cdef void prepare(self, KeyedMonitors monitors, uint32_t policy) noexcept:
        cdef Part *part = &self.parts[policy]
        part.records = monitors.rows.records
        part.streams = monitors.rows.streams
        part.places = monitors.rows.policies
        part.count = monitors.rows.count
        part.taken = 0

    cdef int merge(self, size_t count, EventColumns columns, size_t start) except -1 nogil:
        """Take the verdicts of the first `count` events, or streams, of all policies.

        columns: the events, starting at number `start`; None for streams.
        """
        cdef Part *part
        cdef size_t place = 0
        cdef size_t next_place
        cdef uint32_t policy, first
        cdef bint finds_first = self.first is not None and columns is not None
        # PERF: saves 2 % of a check of two cheap policies on a text log
        cdef bint is_direct = self.lines is not None and self.delivery.resolver is None
        while place < count:
            next_place = count
            if finds_first:
                self.first.begin_event(columns.time_stamp_of(start + place))
            for policy in range(self.policy_count):
                part = &self.parts[policy]
                first = part.taken
                while part.taken < part.count and part.places[part.taken] == place:
                    part.taken += 1
                if part.taken > first and is_direct:
                    self.lines.put(
                        part.records + first, part.taken - first, self.delivery.filter,
                        part.streams[first], policy
                    )
                elif part.taken > first:
                    self.delivery.put(
                        part.records + first, part.taken - first, False, part.streams[first],
                        policy
                    )
                if part.taken < part.count:
                    next_place = min(next_place, <size_t> part.places[part.taken])
            if finds_first:
                self.first.end_event(self.event_count + place + 1)
                if self.first.waits_for_time():
                    # The event then matters even if it brings no verdicts.
                    next_place = place + 1
            place = next_place
        if columns is not None:
            self.event_count += count
        return 0
