# cython: language_level=3
"""Ticks of instances at which their own values say whether they end.

A machine has the values: it takes what windows look at from the rows of instances, and says at each
tick of an instance whether that ends it. All ticks of living instances are computed, in the order
of time, between the rows that begin and end instances; see `Instances.pass_ticks`.
"""


cdef struct InstanceTick:
    # The next tick of an instance that counts its ticks from its beginning.
    int64_t time
    uint32_t number


cdef inline int64_t time_after(int64_t time, int64_t length) noexcept nogil:
    """A time that is later by a length; the latest time if there is none."""
    return time + length if length <= INT64_MAX - time else INT64_MAX


@final
cdef class EndingTicks:
    """What ends instances at their ticks.

    machine: computes values of instances; the last output is true at a tick where an instance ends.
        It reads no columns at ticks.
    row_kind, tick_kind: the numbers of the kinds of its code that is for rows and for ticks.
    period: the length of time between two ticks.
    is_from_beginning: whether each instance counts them from its first row, which is no tick; they
        are at the multiples of the period otherwise.
    """

    cdef Machine machine
    cdef uint64_t row_kinds, tick_kinds
    cdef int64_t period
    cdef bint is_from_beginning
    cdef int64_t start          # all ticks below are done
    cdef int64_t stop           # at this time, there are ticks of the traces below `traces` only
    cdef uint32_t traces
    cdef int64_t next_time      # the next multiple of the period
    cdef InstanceTick *heap     # the next ticks of instances, the earliest one first
    cdef size_t heap_count, heap_room
    cdef list held
    cdef void **columns
    cdef Memory left_times, left_traces     # times and traces of ticks that are left out
    cdef size_t left_count
    cdef readonly bint has_failed           # whether an operation overflowed at a tick
    cdef readonly int64_t failed_time
    cdef readonly uint32_t failed_number
    cdef readonly object failed_row         # the row where one did, or None

    def __cinit__(
        self, Machine machine not None, uint64_t row_kind, uint64_t tick_kind, int64_t period,
        bint is_from_beginning
    ):
        if period < 1 or row_kind >= 64 or tick_kind >= 64 or not machine.output_count:
            raise ValueError("no such ticks")
        self.machine = machine
        self.row_kinds = <uint64_t> 1 << row_kind
        self.tick_kinds = <uint64_t> 1 << tick_kind
        self.period = period
        self.is_from_beginning = is_from_beginning

    def __dealloc__(self):
        free(self.heap)
        free(self.columns)

    def begin(
        self, size_t count, inputs, input_masks, results, validities, int64_t start, int64_t stop,
        uint32_t traces, left_times, left_traces
    ):
        """Begin with the next rows of instances.

        count: the number of rows.
        inputs, input_masks, results, validities: as for `Machine.run`.
        start: all ticks below this time are done.
        stop, traces: of ticks at this time, only those of the traces below this number come.
        left_times, left_traces: times and traces of ticks that are left out, arrays of types int64
            and uint32.
        """
        self.left_count = <size_t> len(left_times)
        self.left_times = contiguous(left_times, sizeof(int64_t), self.left_count)
        self.left_traces = contiguous(left_traces, sizeof(uint32_t), self.left_count)
        free(self.columns)
        self.columns = NULL
        self.held = []
        self.columns = self.machine.held_columns(
            self.held, inputs, input_masks, results, validities, count
        )
        self.start = start
        self.stop = stop
        self.traces = traces
        self.next_time = self.multiple_from(start)
        self.heap_count = 0
        self.has_failed = False
        self.failed_row = None

    def end(self):
        """Let go of the columns."""
        free(self.columns)
        self.columns = NULL
        self.held = None

    cdef int make_room(self, uint32_t instances, size_t rows) except -1:
        """Make room in the kernels for so many rows and ticks."""
        cdef size_t k
        for k in range(self.machine.kernel_count):
            (<Kernel> self.machine.kernels[k]).make_room(instances, rows)
        return 0

    cdef int64_t multiple_from(self, int64_t time) noexcept nogil:
        """The first multiple of the period that is not below a time."""
        cdef int64_t below = time // self.period * self.period
        return below if below == time else time_after(below, self.period)

    cdef int64_t first_of(self, int64_t birth) noexcept nogil:
        """The first tick that is not done of an instance that began at a time."""
        cdef int64_t passed = 0
        if self.start > birth:
            passed = (self.start - birth - 1) // self.period * self.period
        return time_after(birth + passed, self.period)

    cdef int64_t next_of_all(self) noexcept nogil:
        if self.is_from_beginning:
            return self.heap[0].time if self.heap_count else INT64_MAX
        return self.next_time

    cdef int push(self, uint32_t number, int64_t birth) except -1 nogil:
        """Add the ticks of an instance."""
        cdef size_t place = self.heap_count
        cdef size_t above
        cdef InstanceTick fresh
        if place == self.heap_room:
            resized(<void **> &self.heap, 2 * place + LEAST_PLACES, sizeof(InstanceTick))
            self.heap_room = 2 * place + LEAST_PLACES
        fresh.time = self.first_of(birth)
        fresh.number = number
        self.heap_count += 1
        while place:
            above = (place - 1) // 2
            if self.heap[above].time <= fresh.time:
                break
            self.heap[place] = self.heap[above]
            place = above
        self.heap[place] = fresh
        return 0

    cdef void replace_first(self, InstanceTick fresh) noexcept nogil:
        """Put another tick in the place of the earliest one."""
        cdef size_t place = 0
        cdef size_t below
        while True:
            below = 2 * place + 1
            if below >= self.heap_count:
                break
            if below + 1 < self.heap_count and self.heap[below + 1].time < self.heap[below].time:
                below += 1
            if fresh.time <= self.heap[below].time:
                break
            self.heap[place] = self.heap[below]
            place = below
        self.heap[place] = fresh

    cdef void pass_first(self, bint is_alive) noexcept nogil:
        """Go on to the next tick of the instance with the earliest one; it has none if it ended."""
        cdef InstanceTick fresh = self.heap[0]
        if is_alive:
            fresh.time = time_after(fresh.time, self.period)
        else:
            self.heap_count -= 1
            fresh = self.heap[self.heap_count]
        if self.heap_count:
            self.replace_first(fresh)

    cdef bint has_tick(self, int64_t time, uint32_t trace) noexcept nogil:
        """Whether a tick of an instance is not left out."""
        cdef const int64_t *times
        cdef const uint32_t *traces
        cdef size_t k
        if time == self.stop and trace >= self.traces:
            return False
        if self.left_count:
            times = <const int64_t *> self.left_times.buffer.buf
            traces = <const uint32_t *> self.left_traces.buffer.buf
            for k in range(self.left_count):
                if times[k] == time and traces[k] == trace:
                    return False
        return True

    cdef int take_row(self, int64_t time, uint32_t number, size_t row) except -1 nogil:
        """Take a row of an instance; returns as `Machine.compute` does."""
        if self.machine.compute_kinds(
            time, number, row, self.columns, self.row_kinds
        ) == OVERFLOWS:
            with gil:
                self.failed_row = row
            return OVERFLOWS
        return FOUND

    cdef int ends_at(self, int64_t time, uint32_t number) except -1 nogil:
        """Whether an instance ends at one of its ticks; OVERFLOWS if that is not known."""
        cdef const Register *last
        if self.machine.compute_kinds(
            time, number, 0, self.columns, self.tick_kinds
        ) == OVERFLOWS:
            self.has_failed = True
            self.failed_time = time
            self.failed_number = number
            return OVERFLOWS
        last = &self.machine.registers[
            self.machine.output_registers[self.machine.output_count - 1]
        ]
        return FOUND if last.is_valid and last.content.integer else NOTHING

    @property
    def held_bytes(self):
        """The number of bytes that the ticks take."""
        return self.heap_room * sizeof(InstanceTick)
