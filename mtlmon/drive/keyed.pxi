# cython: language_level=3
"""Monitor the events of many streams from arrays; each event carries its stream's number.

`traces/at_rest` loads the state of the stream before an event, and saves it afterwards.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memset

from mtlmon.arrays.native cimport EventColumns, Memory
from mtlmon.engine.native cimport (
    END_AT,
    END_LAST,
    EndTime,
    Guard,
    HELD_BUFFERS,
    HELD_KEY_STATES,
    HELD_VERDICTS,
    HOLDER_COUNT,
    MAX_TIME_STAMP,
    MemoryLimit,
    NO_FIXED_VERDICT,
    NumberReader,
    NumberWriter,
    Session,
    as_bytes,
    read_end_time,
)
from mtlmon.text.native cimport FILTER_ALL
from mtlmon.traces.native cimport (
    NO_NUMBER,
    Resting,
    Streams,
    WaitingStreams,
    put_streams,
    read_streams,
)

cdef enum:
    # The number of events between two checks for signals.
    SIGNAL_EVENTS = 1 << 16
    # Events are sparse for a policy if at most one of so many may make a difference to it.
    SPARSE = 8


@final
cdef class KeyedMonitors:
    """Monitors many streams, identified by the numbers 0, 1, 2, ..., against one formula.

    The arguments are those of `Monitor`, without `unknown`: events are columns of the atoms. A
    stream exists as soon as its number, or a larger one, is first mentioned. All streams share one
    clock: no event has a time-stamp below that of an earlier event. With `own_clocks`, this only
    holds for the events of one stream; the end of the log then matters to streams only if no more
    events come at all.
    """

    def __cinit__(
        self, formula, str mode not None="local", *, str bdd not None="auto", str unit=None,
        bint own_clocks=False
    ):
        self.guard = Guard("monitor")
        self.own_clocks = own_clocks
        self.streams = Streams(Session(formula, mode, bdd=bdd, unit=unit))
        self.block = EventBlock(self.streams.worker.letter_words)
        self.rows = VerdictRows()
        self.filter = FILTER_ALL

    @property
    def atoms(self):
        """The names of the atoms that the formula depends on."""
        return self.streams.worker.atoms

    @property
    def mode(self):
        """The mode of the monitors."""
        return self.streams.worker.mode

    def set_limit(self, MemoryLimit memory not None, size_t policies):
        """Join a run with a memory limit, as one of so many policies."""
        with self.guard:
            self.streams.worker.set_limit(memory, policies)

    @property
    def held_bytes(self):
        """The bytes that the monitors take."""
        cdef HeldBytes held
        memset(&held, 0, sizeof(HeldBytes))
        with self.guard:
            self.count_held(&held)
            return sum([held.of[k] for k in range(HOLDER_COUNT)])

    @property
    def counters(self):
        """The counters, as in `Monitors.counters`."""
        with self.guard:
            counters = self.streams.counters(self.streams.count)
            if self.ticking is not None:
                for name, verdict in (("true", VERDICT_TRUE), ("false", VERDICT_FALSE)):
                    slept = self.ticking.slept_count(verdict)
                    counters[name] += slept
                    counters["events"] += slept
            return counters

    @property
    def counts(self):
        """events, true and false of the counters."""
        if self.ticking is not None:
            counters = self.counters
            return counters["events"], counters["true"], counters["false"]
        with self.guard:
            return self.streams.event_count, self.streams.true_count, self.streams.false_count

    def feed(self, EventColumns events not None, numbers, offsets=None):
        """Process events.

        Args:
            events: the events.
            numbers: a buffer with the stream number of each event, of type uint32.
            offsets: likewise the offset of each event within its time-stamp; None if they are
                consecutive.

        Returns:
            records, owners: bytes of verdict records, and of uint32 numbers of their streams, in
            the order of events and, for each, of time-points.
        """
        cdef Memory memory = stream_numbers(numbers, events.count)
        cdef Memory places = None if offsets is None else stream_numbers(offsets, events.count)
        cdef const uint32_t *streams = <const uint32_t *> memory.buffer.buf
        cdef size_t first = 0
        with self.guard:
            self.streams.worker.enter()
            if places is not None:
                self.offsets = <const uint32_t *> places.buffer.buf
            try:
                self.check(events, 0, events.count)
                self.begin(events, 0, events.count, stream_count(streams, 0, events.count))
                while first < events.count:
                    with nogil:
                        self.resume(
                            events, streams, first,
                            min(<size_t> SIGNAL_EVENTS, events.count - first)
                        )
                    first += SIGNAL_EVENTS
                    PyErr_CheckSignals()
            finally:
                self.offsets = NULL
                self.streams.worker.leave()
            return self.rows.taken()[:2]

    def pass_time(self, numbers, uint64_t time_stamp):
        """Declare that some streams have no further event below a time-stamp.

        Args:
            numbers: a buffer with the numbers of the streams, of type uint32.
            time_stamp: the time-stamp.

        Returns:
            records, owners, changes: the verdicts as from `feed`, and for each of these streams, as
            the bytes of an int64, the least time-stamp at which time alone can bring another
            verdict; the largest of these integers if only an event can.
        """
        with self.guard:
            return self._pass_time(numbers, time_stamp)

    cdef tuple _pass_time(self, numbers, uint64_t time_stamp):
        cdef Memory memory = self.known_streams(numbers)
        cdef const uint32_t *streams = <const uint32_t *> memory.buffer.buf
        cdef size_t count = len(numbers)
        cdef bytes changes = PyBytes_FromStringAndSize(NULL, count * sizeof(int64_t))
        cdef int64_t *change = <int64_t *> <char *> changes
        cdef uint64_t earliest, next_change
        cdef size_t k
        if time_stamp > MAX_TIME_STAMP():
            raise ValueError("the time-stamp is too large")
        self.clock = max(self.clock, time_stamp)
        self.rows.count = 0
        with nogil:
            for k in range(count):
                change[k] = INT64_MAX
                self.done = k
                if self.streams.earliest_pending(streams[k], &earliest):
                    self.streams.settle(streams[k], time_stamp, &next_change)
                    self.take_from_worker(streams[k])
                    change[k] = <int64_t> min(next_change, <uint64_t> INT64_MAX)
        return (*self.rows.taken()[:2], changes)

    def snapshot(self, numbers):
        """Return the states of some streams as bytes for `restore`, in this order.

        The bytes contain no digest: the caller must protect them against damage.

        Args:
            numbers: a buffer with the numbers of the streams, of type uint32.

        Raises:
            MonitorBrokenError: one of them was interrupted in the middle of an event.
        """
        cdef NumberWriter writer = NumberWriter()
        cdef Memory memory
        cdef uint32_t none = 0
        cdef const uint32_t *streams
        with self.guard:
            memory = self.known_streams(numbers)
            streams = <const uint32_t *> memory.buffer.buf
            writer.put(self.clock)
            put_streams(
                writer, self.streams, self.clock, &none if streams == NULL else streams,
                len(numbers)
            )
            return writer.taken()

    def restore(self, snapshot):
        """Add the streams of a snapshot of other monitors.

        Returns:
            Their numbers, as the bytes of uint32 items: the next ones, unless some are free again.

        Raises:
            SnapshotError: the bytes are damaged, or belong to another formula or mode. The
                monitors must not be used after that.
        """
        cdef NumberReader reader = NumberReader()
        cdef uint64_t clock
        cdef bytes numbers
        with self.guard:
            reader.open(as_bytes(snapshot), 0)
            clock = reader.get(MAX_TIME_STAMP())
            numbers = read_streams(reader, self.streams, clock)
            reader.end()
            self.clock = max(self.clock, clock)
            return numbers

    def add(self, size_t count):
        """Add new streams; return their numbers, as `restore` does."""
        cdef bytes numbers
        cdef uint32_t *number
        cdef size_t k
        with self.guard:
            if count >= NO_NUMBER - self.streams.count:
                raise ValueError("too many streams")
            numbers = PyBytes_FromStringAndSize(NULL, count * sizeof(uint32_t))
            number = <uint32_t *> <char *> numbers
            for k in range(count):
                number[k] = self.streams.add()
            return numbers

    def drop(self, numbers):
        """Forget some streams, each named once; their numbers may become those of new ones."""
        cdef Memory memory
        cdef const uint32_t *streams
        cdef size_t k
        with self.guard:
            memory = self.known_streams(numbers)
            streams = <const uint32_t *> memory.buffer.buf
            for k in range(<size_t> len(numbers)):
                self.streams.drop(streams[k])

    def settled(self, numbers, uint64_t time_stamp):
        """Return for each of some streams whether it is as before its first event, as bytes 0, 1.

        Args:
            numbers: a buffer with the numbers of the streams, of type uint32.
            time_stamp: no event of these streams comes below it.
        """
        cdef Memory memory
        cdef const uint32_t *streams
        cdef size_t count = len(numbers)
        cdef bytes flags = PyBytes_FromStringAndSize(NULL, count)
        cdef char *flag = flags
        cdef size_t k
        with self.guard:
            memory = self.known_streams(numbers)
            streams = <const uint32_t *> memory.buffer.buf
            self.streams.worker.enter()
            try:
                for k in range(count):
                    flag[k] = self.streams.is_settled(streams[k], time_stamp)
            finally:
                self.streams.worker.leave()
        return flags

    def __len__(self):
        return self.streams.count

    cdef Memory known_streams(self, object numbers):
        """The memory of a buffer of numbers of streams that exist."""
        cdef Memory memory = stream_numbers(numbers, len(numbers))
        cdef const uint32_t *streams = <const uint32_t *> memory.buffer.buf
        cdef size_t count = len(numbers)
        cdef size_t k
        for k in range(count):
            if streams[k] >= self.streams.count:
                raise ValueError("there is no such stream")
        return memory

    def finish(self, uint32_t number, end_time=None):
        """End a stream; return the bytes of the verdict records this brings.

        `end_time` is as in `Monitor.finish`; "last" means the time-stamp of the last event of any
        stream. The stream is forgotten.
        """
        cdef Session worker = self.streams.worker
        cdef EndTime end = read_end_time(end_time)
        with self.guard:
            if number >= self.streams.count:
                return b""
            if end.kind == END_LAST:
                end.kind = END_AT
                end.time_stamp = self.clock
            self.streams.load(&self.streams.resting[number])
            try:
                worker.push_finish(&end)
                self.rows.count = 0
                self.done = 0
                self.take_from_worker(number)
                return self.rows.taken()[0]
            finally:
                self.streams.store(&self.streams.resting[number])
                worker.mark_ready()
                self.streams.clear(&self.streams.resting[number])

    @property
    def pending_streams(self):
        """The numbers of the streams that have undecided time-points."""
        cdef uint64_t time_stamp
        cdef uint32_t k
        with self.guard:
            return [
                k for k in range(self.streams.count)
                if self.streams.earliest_pending(k, &time_stamp)
            ]

    def pending(self, uint32_t number, uint64_t time_stamp=0):
        """The pending time-points of a stream, if no event is below a time-stamp."""
        with self.guard:
            if number >= self.streams.count:
                return []
            return self.streams.pending(number, time_stamp)

    cdef int check(self, EventColumns events, size_t first, size_t end) except -1:
        """Refuse events with time-stamps that are negative or out of order."""
        cdef size_t k
        if not self.own_clocks:
            events.check_time_stamps(self.clock, 0, first, end)
            return 0
        with nogil:
            k = events.first_negative(first, end)
        if k < end:
            events.check_time_stamps(0, 0, k, k + 1)
        return 0

    cdef int begin(
        self, EventColumns events, size_t first, size_t count, size_t streams
    ) except -1:
        """Prepare for events with checked time-stamps: create so many streams, clear the verdicts.
        """
        cdef size_t k
        self.rows.count = 0
        if count and not self.own_clocks:
            self.clock = events.time_stamp_of(first + count - 1)
        elif self.own_clocks:
            for k in range(first, first + count):
                self.clock = max(self.clock, events.time_stamp_of(k))
        self.streams.extend(streams)
        return 0

    cdef int resume(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count
    ) except -1 nogil:
        """Process some of the events, between `enter` and `leave` of the worker."""
        self.done = 0
        if self.rows_by_trace is not None:
            if self.is_passing:
                return self.resume_sparsely(events, numbers, first, count)
            self.streams.catch_up_before(events, self.rows_by_trace, first)
        while self.done < count:
            self.block.read(events, first + self.done, first + count)
            while self.block.next < self.block.count:
                try:
                    self.streams.run(
                        numbers + first + self.done, self.block.time_stamps + self.block.next,
                        self.block.letters + self.block.next * self.block.letter_words,
                        self.block.count - self.block.next,
                        NULL if self.offsets == NULL else self.offsets + first + self.done
                    )
                finally:
                    # Also after an error, for the verdicts of the events before it.
                    self.take_from_streams()
                    if self.waiting is not None:
                        self.waiting.note(numbers + first + self.done, self.streams.done)
                    self.done += self.streams.done
                    self.block.next += self.streams.done
        return 0

    cdef bint is_sparse(self, EventColumns events, size_t first, size_t count) noexcept nogil:
        """Whether events that make no difference can be passed over, and few of these make one."""
        cdef uint8_t verdict = self.streams.worker.program.empty_verdict
        return (
            verdict != NO_FIXED_VERDICT and not passes(self.filter, verdict)
            and self.ticking is None and self.offsets == NULL and not self.own_clocks
            and SPARSE * self.streams.count_moving(events, first, first + count) < count
        )

    cdef int resume_sparsely(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count
    ) except -1 nogil:
        """Process the events of a turn that make a difference."""
        cdef bint is_over = False
        self.streams.begin_sparse(events, self.rows_by_trace, first, count)
        try:
            while not is_over:
                try:
                    is_over = self.streams.run_sparse(
                        events, numbers, self.rows_by_trace, first, count
                    )
                finally:
                    # Also after an error, for the verdicts of the events before it.
                    self.take_from_streams()
        finally:
            if self.waiting is not None:
                self.waiting.note(self.rows_by_trace.traces, self.rows_by_trace.present_count)
            self.done = self.streams.done
            self.streams.count_passed()
        return 0

    cdef int resume_ticks(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count, uint64_t end
    ) except -1 nogil:
        """Process the ticks below a time, with some of the events where letters change."""
        self.ticking.resume(
            events, numbers, first, count, end, self.rows, self.filter, self.waiting
        )
        if self.ticking.next:
            self.clock = max(self.clock, self.ticking.next - self.ticking.period)
        return 0

    cdef int wait_for_time(self, uint64_t delay) except -1:
        """From now on, track which streams have had something pending for longer than `delay`."""
        self.waiting = WaitingStreams(self.streams, delay)
        self.waiting.renumber()
        return 0

    cdef uint32_t next_due(self) noexcept nogil:
        """The least number of a due stream that has not been settled, or NO_NUMBER."""
        if self.waiting is None or self.due_done == self.waiting.due_count:
            return NO_NUMBER
        return self.waiting.due[self.due_done]

    cdef int catch_up(self, uint32_t first, uint32_t end) except -1 nogil:
        """Let streams in a range of numbers take the rows that were passed over."""
        cdef uint32_t number
        if self.rows_by_trace is not None:
            self.streams.worker.enter()
            try:
                for number in range(first, end):
                    self.streams.catch_up_with(self.rows_by_trace, number)
            finally:
                self.streams.worker.leave()
        return 0

    cdef int settle_due(self, size_t first, size_t count, uint64_t time_stamp) except -1 nogil:
        """Settle the due streams in a range of numbers, as no event is below a time-stamp."""
        cdef uint32_t number = self.next_due()
        while number < first + count and number != NO_NUMBER:
            self.done = number - first
            self.catch_up(number, number + 1)
            self.streams.settle(number, time_stamp)
            self.take_from_worker(number)
            self.waiting.note(&number, 1)
            self.due_done += 1
            number = self.next_due()
        return 0

    cdef int end(
        self, size_t first, size_t count, uint64_t time_stamp, bint is_closed
    ) except -1 nogil:
        """End some streams; no event is below a time-stamp, with `is_closed` there is none at all.
        """
        cdef uint64_t earliest
        cdef size_t k
        cdef Resting *resting
        if self.own_clocks and not is_closed:
            return 0
        for k in range(first, min(first + count, <size_t> self.streams.count)):
            self.done = k - first
            if self.streams.earliest_pending(<uint32_t> k, &earliest):
                self.catch_up(<uint32_t> k, <uint32_t> k + 1)
                resting = &self.streams.resting[k]
                self.streams.load(resting)
                try:
                    if is_closed:
                        self.streams.worker.push_end()
                    else:
                        self.streams.worker.push_time(time_stamp)
                    self.take_from_worker(<uint32_t> k)
                finally:
                    self.streams.end(resting)
        return 0

    cdef void count_held(self, HeldBytes *held) noexcept nogil:
        """Add the bytes that the monitors take; call between two batches of events."""
        self.streams.count_held(held)
        if self.waiting is not None:
            held.of[HELD_KEY_STATES] += self.waiting.held_bytes()
        held.of[HELD_VERDICTS] += self.rows.held_bytes()
        held.of[HELD_BUFFERS] += self.block.held_bytes()
        if self.ticking is not None:
            held.of[HELD_KEY_STATES] += self.ticking.held_bytes()

    cdef int take_from_streams(self) except -1 nogil:
        """Append the verdicts of the last run, whose first event has the number `done`."""
        self.rows.put_owned(
            &self.streams.worker.output, self.streams.owners, self.filter, <uint32_t> self.done
        )
        return 0

    cdef int take_from_worker(self, uint32_t number) except -1 nogil:
        """Append the verdicts that the worker's last call has brought for a stream."""
        self.rows.put(
            self.streams.worker.verdicts, self.streams.worker.verdict_count, self.filter, number,
            <uint32_t> self.done
        )
        return 0


cdef size_t stream_count(const uint32_t *numbers, size_t first, size_t count) noexcept nogil:
    """How many streams there are if those of some events are: the largest number, plus 1."""
    cdef uint32_t largest = 0
    cdef size_t k
    for k in range(first, first + count):
        largest = max(largest, numbers[k])
    return 0 if count == 0 else <size_t> largest + 1


cdef Memory stream_numbers(object numbers, size_t count):
    """The memory of a buffer of stream numbers, one for each event."""
    cdef Memory memory = Memory(numbers, sizeof(uint32_t), count)
    if memory.buffer.strides[0] != sizeof(uint32_t):
        raise ValueError("numbers of streams have gaps between them")
    return memory
