# cython: language_level=3
"""Windows of ticks, which go by the number of a tick and not by its time.

The ticks of a trace follow each other without a gap, so a window [a,b] of ticks has those from one
number of ticks ago to another. Ticks that are left out repeat a value, and may be left out once all
values of the window are that one: then the window is what it would be if they had been put.

PERF: windows of time that got the ticks that were left out, again in each batch, took seven times
as long.
"""


@final
cdef class TickWindow(Kernel):
    """Counts, sums, averages, variances or standard deviations of the values at ticks.

    kind: "count", "sum", "avg", "var" or "stddev".
    is_float: whether values are floats; otherwise, they are integers.
    first, last: how many ticks ago the latest and the earliest tick of the window are.
    """

    cdef bint is_count
    cdef SumWindow sums         # of the values in the window; it has no rows of its own
    cdef uint64_t first
    cdef uint64_t length        # a tick leaves the window when so many others came after it
    # For each trace its latest values, each at its number modulo `capacity`, which is `length` or
    # at least the number of ticks of any trace; whether they are not null; how many there were.
    cdef size_t capacity
    cdef int64_t *cells
    cdef uint8_t *are_valid
    cdef uint64_t *counts
    cdef Journal journal

    def __cinit__(self, str kind not None, bint is_float, uint64_t first, uint64_t last):
        if not first <= last < MOST_DISTANCE:
            raise ValueError(f"no window from {first} to {last} ticks ago")
        self.is_count = kind == "count"
        self.sums = SumWindow("sum" if self.is_count else kind, is_float, 0, -1)
        self.first = first
        self.length = last + 1
        self.capacity = <size_t> min(self.length, <uint64_t> 16)

    def __dealloc__(self):
        free(self.cells)
        free(self.are_valid)
        free(self.counts)
        free(self.journal.changes)

    cdef bint takes_values(self):
        return not self.is_count

    cdef int make_room(self, uint32_t traces, size_t rows) except -1:
        cdef uint32_t room
        reserve_changes(&self.journal, rows)
        self.sums.make_room(traces, 0)
        if traces > self.traces:
            room = room_for(traces, self.traces)
            resized(<void **> &self.cells, room, self.capacity * sizeof(int64_t))
            resized(<void **> &self.are_valid, room, self.capacity)
            resized(<void **> &self.counts, room, sizeof(uint64_t))
            memset(self.counts + self.traces, 0, (room - self.traces) * sizeof(uint64_t))
            self.traces = room
        return 0

    cdef int lengthen(self) except -1 nogil:
        """Make room for more ticks of each trace, none of which has more than there is room for."""
        cdef size_t capacity = <size_t> min(self.length, 2 * <uint64_t> self.capacity)
        cdef size_t trace, count
        cdef int64_t *cells = NULL
        cdef uint8_t *are_valid = NULL
        if not (
            has_resized(<void **> &cells, self.traces, capacity * sizeof(int64_t))
            and has_resized(<void **> &are_valid, self.traces, capacity)
        ):
            free(cells)
            free(are_valid)
            with gil:
                raise MemoryError("mtlmon: out of memory")
        for trace in range(self.traces):
            count = <size_t> self.counts[trace]
            memcpy(
                cells + trace * capacity, self.cells + trace * self.capacity,
                count * sizeof(int64_t)
            )
            memcpy(are_valid + trace * capacity, self.are_valid + trace * self.capacity, count)
        free(self.cells)
        free(self.are_valid)
        self.cells = cells
        self.are_valid = are_valid
        self.capacity = capacity
        return 0

    cdef inline void expect(self, uint32_t trace) noexcept nogil:
        """Fetch the state of a trace, which is needed soon."""
        prefetch(&self.counts[trace])
        self.sums.expect(trace)

    cdef inline size_t place_of(self, uint32_t trace, uint64_t number) noexcept nogil:
        return <size_t> trace * self.capacity + <size_t> (number % self.capacity)

    cdef inline int add(self, uint32_t trace, size_t place, int sign) except -1 nogil:
        """Add a value to the sums, or subtract it, if it is not null."""
        if self.are_valid[place]:
            self.sums.add_value(False, trace, self.cells[place], sign)
        return 0

    cdef inline int put_tick(self, uint32_t trace, bint is_valid, int64_t value) except -1 nogil:
        cdef uint64_t number = self.counts[trace]
        cdef size_t place
        if number == self.capacity and self.capacity < self.length:
            self.lengthen()
        place = self.place_of(trace, number)
        if number < self.length:
            # the room is new
            self.cells[place] = 0
            self.are_valid[place] = False
        note_change(&self.journal, trace, self.cells[place], self.are_valid[place])
        self.add(trace, place, -1)
        self.cells[place] = value
        self.are_valid[place] = is_valid
        self.counts[trace] = number + 1
        if number >= self.first:
            self.add(trace, self.place_of(trace, number - self.first), 1)
        return 0

    cdef inline int result(self, uint32_t trace, int64_t *value) except -1 nogil:
        if self.is_count:
            value[0] = self.sums.states[trace].count
            return FOUND
        return self.sums.get(0, trace, value)

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        cdef size_t k
        cdef uint32_t trace
        cdef int found
        if arguments is not None:
            raise ValueError("the ticks of the results are not among those of the argument")
        with nogil:
            for k in range(batch.count):
                if k + AHEAD < batch.count:
                    self.expect(batch.trace(k + AHEAD))
                trace = batch.trace(k)
                self.put_tick(
                    trace, mask == NULL or mask[k] != 0, 0 if values == NULL else values[k]
                )
                found = NOTHING
                if wanted == NULL or wanted[k]:
                    found = self.result(trace, &results[k])
                validity[k] = <uint8_t> found
                if found == OVERFLOWS:
                    return OVERFLOWS
        return 0

    def begin(self):
        self.journal.count = 0
        self.sums.begin()

    def undo(self):
        cdef const Change *change
        cdef uint32_t trace
        cdef uint64_t number
        cdef size_t place
        while self.journal.count:
            self.journal.count -= 1
            change = &self.journal.changes[self.journal.count]
            trace = <uint32_t> change.place
            self.counts[trace] -= 1
            number = self.counts[trace]
            if number >= self.first:
                self.add(trace, self.place_of(trace, number - self.first), -1)
            place = self.place_of(trace, number)
            self.cells[place] = change.cell
            self.are_valid[place] = <uint8_t> change.note
            self.add(trace, place, 1)

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t number
        for number in range(min(count, <size_t> self.traces)):
            flags[number] &= self.counts[number] == 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        cdef size_t item = self.capacity * sizeof(int64_t)
        moved_states(self.cells, item, self.traces, numbers, count)
        moved_states(self.are_valid, self.capacity, self.traces, numbers, count)
        moved_states(self.counts, sizeof(uint64_t), self.traces, numbers, count)
        self.sums.renumber(numbers, count)
        return 0

    cdef int restart(self) except -1:
        self.sums.restart()
        return 0

    cdef int write(self, NumberWriter writer) except -1:
        cdef uint32_t trace
        cdef uint64_t number, count
        cdef size_t place
        writer.put(self.traces)
        for trace in range(self.traces):
            count = min(self.counts[trace], self.length)
            writer.put(count)
            for number in range(self.counts[trace] - count, self.counts[trace]):
                place = self.place_of(trace, number)
                writer.put(self.are_valid[place])
                if self.are_valid[place]:
                    writer.put(zigzag(self.cells[place]))
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint64_t traces = reader.get_count(1)
        cdef uint32_t trace
        cdef uint64_t number, count
        cdef size_t place
        if traces > MOST_TRACES:
            raise damaged()
        self.make_room(<uint32_t> traces, 0)
        for trace in range(<uint32_t> traces):
            count = reader.get(self.length)
            for number in range(count):
                if number == self.capacity:
                    self.lengthen()
                place = self.place_of(trace, number)
                self.are_valid[place] = <uint8_t> reader.get(1)
                self.cells[place] = 0
                if self.are_valid[place]:
                    self.cells[place] = self.read_value(reader)
                # as `lengthen` needs it
                self.counts[trace] = number + 1
                if number >= self.first:
                    self.add(trace, self.place_of(trace, number - self.first), 1)
        self.begin()
        return 0

    cdef size_t bytes_held(self):
        cdef size_t item = self.capacity * (sizeof(int64_t) + 1) + sizeof(uint64_t)
        return (
            self.traces * item + self.journal.room * sizeof(Change) + self.sums.bytes_held()
        )

    def most_bytes(self, traces, rows, rows_of_trace, batch):
        return (
            most_traces(traces) * (self.length * (sizeof(int64_t) + 1) + sizeof(uint64_t))
            + 2 * batch * sizeof(Change)
            + self.sums.most_bytes(traces, 0, 0, 0)
        )
