# cython: language_level=3
"""Windows of the sums of many ticks, of which a few panes are kept.

Results are wanted at the multiples of a length only, which divides the bounds of the window and is
many periods of the ticks. So of the ticks between two multiples, and of the one at a multiple, an
exact sum is enough; such a set of ticks is a cell, as in `panes.pxi`. Each trace has as many cells
as a window has, one behind the other, and the sum of those in its window.

As in `tick_windows.pxi`, ticks that are left out repeat a value, and may be left out once all
values of the window are that one. When ticks come again, all cells get what has been left out. Of
each trace that has ticks in a batch, the state before is kept for `undo`.
"""


@final
cdef class TickPanes(Kernel):
    """Counts, sums, averages, variances or standard deviations of the values at ticks.

    kind: "count", "sum", "avg", "var" or "stddev".
    is_float: whether values are floats; otherwise, they are integers.
    period: the period of the ticks.
    ticks: how many periods a pane has.
    first, last: how many panes ago the window ends and begins.
    """

    cdef bint is_count
    cdef SumWindow sums         # of the cells of each trace, and behind them of its window
    cdef int64_t period, ticks, first, last
    cdef size_t capacity        # how many cells a trace has
    cdef int64_t *latest        # the number of the last tick of each trace, plus 1; 0 for none
    cdef int64_t *cells         # its value there
    cdef uint8_t *are_valid
    cdef uint32_t *stamps       # the batch in which its state was saved last
    cdef uint32_t stamp
    cdef uint64_t *saved        # states of traces before the batch
    cdef size_t saved_size, saved_room

    def __cinit__(
        self, str kind not None, bint is_float, int64_t period, int64_t ticks, int64_t first,
        int64_t last
    ):
        if not (period > 0 and 1 < ticks < MOST_DISTANCE and 0 <= first <= last < MOST_DISTANCE):
            raise ValueError(f"no window from {first} to {last} panes of {ticks} ticks ago")
        self.is_count = kind == "count"
        self.sums = SumWindow("sum" if self.is_count else kind, is_float, 0, -1)
        self.period = period
        self.ticks = ticks
        self.first = first
        self.last = last
        self.capacity = 2 * <size_t> last + 1
        self.stamp = 1

    def __dealloc__(self):
        free(self.latest)
        free(self.cells)
        free(self.are_valid)
        free(self.stamps)
        free(self.saved)

    cdef bint takes_values(self):
        return not self.is_count

    cdef int make_room(self, uint32_t traces, size_t rows) except -1:
        cdef uint32_t room
        if traces <= self.traces:
            return 0
        room = room_for(traces, self.traces)
        if room > MOST_TRACES // (self.capacity + 1):
            raise LimitError("more than 2^32 panes of a window")
        resized(<void **> &self.latest, room, sizeof(int64_t))
        resized(<void **> &self.cells, room, sizeof(int64_t))
        resized(<void **> &self.are_valid, room, 1)
        resized(<void **> &self.stamps, room, sizeof(uint32_t))
        self.sums.have_traces(room * <uint32_t> (self.capacity + 1), 0)
        memset(self.latest + self.traces, 0, (room - self.traces) * sizeof(int64_t))
        memset(self.cells + self.traces, 0, (room - self.traces) * sizeof(int64_t))
        memset(self.are_valid + self.traces, 0, room - self.traces)
        memset(self.stamps + self.traces, 0, (room - self.traces) * sizeof(uint32_t))
        self.traces = room
        return 0

    # ---- cells ---------------------------------------------------------------------------------

    cdef inline uint32_t window_of(self, uint32_t trace) noexcept nogil:
        """The number of the sum of a trace's window."""
        return trace * <uint32_t> (self.capacity + 1) + <uint32_t> self.capacity

    cdef inline uint32_t cell_of(self, uint32_t trace, int64_t cell) noexcept nogil:
        """The number of a cell's sum; cells before the first multiple have negative numbers."""
        cdef int64_t capacity = <int64_t> self.capacity
        cdef int64_t place = cell % capacity
        if place < 0:
            place += capacity
        return trace * <uint32_t> (self.capacity + 1) + <uint32_t> place

    cdef inline int64_t cell_at(self, int64_t tick) noexcept nogil:
        return 2 * (tick // self.ticks) + (tick % self.ticks != 0)

    cdef inline int64_t entered_at(self, int64_t tick) noexcept nogil:
        """The last cell in the window at the last multiple up to a tick."""
        return 2 * (tick // self.ticks - self.first)

    cdef int put_tick(
        self, int64_t time, uint32_t trace, bint is_valid, int64_t value
    ) except -1 nogil:
        cdef int64_t tick = time // self.period
        cdef int64_t cell = self.cell_at(tick)
        cdef int64_t last, oldest
        cdef int64_t capacity = <int64_t> self.capacity
        if self.stamps[trace] != self.stamp:
            self.save_trace(trace)
        if self.latest[trace]:
            if tick > self.latest[trace]:
                self.repeat(trace, tick - 1)
            last = self.cell_at(self.latest[trace] - 1)
            if cell > last:
                oldest = cell - capacity
                if oldest <= self.entered_at(self.latest[trace] - 1):
                    self.sums.add_total(
                        self.window_of(trace), self.cell_of(trace, oldest), -1
                    )
                self.sums.clear_total(self.cell_of(trace, cell))
        self.latest[trace] = tick + 1
        self.cells[trace] = value
        self.are_valid[trace] = is_valid
        if is_valid:
            self.sums.add_value(False, self.cell_of(trace, cell), value, 1)
        if tick % self.ticks == 0:
            for last in range(self.entered_at(tick) - 1, self.entered_at(tick) + 1):
                if last > cell - capacity:
                    self.sums.add_total(self.window_of(trace), self.cell_of(trace, last), 1)
        return 0

    cdef int repeat(self, uint32_t trace, int64_t tick) except -1 nogil:
        """Let all ticks up to one have had the last value."""
        cdef int64_t newest = self.cell_at(tick)
        cdef int64_t oldest = newest - <int64_t> self.capacity + 1
        cdef int64_t cell, count, k
        cdef int64_t known[2]
        self.latest[trace] = tick + 1
        known[0] = known[1] = oldest - 1
        self.sums.clear_total(self.window_of(trace))
        for cell in range(oldest, newest + 1):
            self.sums.clear_total(self.cell_of(trace, cell))
            if known[cell & 1] >= oldest and cell < newest:
                self.sums.add_total(
                    self.cell_of(trace, cell), self.cell_of(trace, known[cell & 1]), 1
                )
            elif self.are_valid[trace]:
                count = self.ticks - 1 if cell & 1 else 1
                if cell == newest and cell & 1:
                    count = tick % self.ticks
                for k in range(count):
                    self.sums.add_value(False, self.cell_of(trace, cell), self.cells[trace], 1)
            known[cell & 1] = cell
            if cell <= self.entered_at(tick):
                self.sums.add_total(self.window_of(trace), self.cell_of(trace, cell), 1)
        return 0

    cdef inline int result(self, uint32_t trace, int64_t *value) except -1 nogil:
        if self.is_count:
            value[0] = self.sums.states[self.window_of(trace)].count
            return FOUND
        return self.sums.result(self.window_of(trace), value)

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
                trace = batch.trace(k)
                self.put_tick(
                    batch.time_stamps[k], trace, mask == NULL or mask[k] != 0,
                    0 if values == NULL else values[k]
                )
                found = NOTHING
                if wanted == NULL or wanted[k]:
                    found = self.result(trace, &results[k])
                validity[k] = <uint8_t> found
                if found == OVERFLOWS:
                    return OVERFLOWS
        return 0

    # ---- states of traces ----------------------------------------------------------------------

    cdef int save_trace(self, uint32_t trace) except -1 nogil:
        """Keep the state of a trace before the batch."""
        cdef uint32_t first = trace * <uint32_t> (self.capacity + 1)
        cdef uint32_t number
        cdef size_t size
        self.stamps[trace] = self.stamp
        self.reserve_saved(4)
        self.saved[self.saved_size] = trace
        self.saved[self.saved_size + 1] = <uint64_t> self.latest[trace]
        self.saved[self.saved_size + 2] = <uint64_t> self.cells[trace]
        self.saved[self.saved_size + 3] = self.are_valid[trace]
        self.saved_size += 4
        if not self.latest[trace]:
            return 0
        for number in range(first, first + <uint32_t> self.capacity + 1):
            size = self.sums.total_words(number)
            self.reserve_saved(1 + size)
            self.saved[self.saved_size] = size
            self.sums.write_total(number, self.saved + self.saved_size + 1)
            self.saved_size += 1 + size
        return 0

    cdef int reserve_saved(self, size_t more) except -1 nogil:
        if self.saved_size + more > self.saved_room:
            self.saved_room = max(self.saved_size + more, 2 * self.saved_room)
            resized(<void **> &self.saved, self.saved_room, sizeof(uint64_t))
        return 0

    def begin(self):
        self.saved_size = 0
        if self.stamp == UINT32_MAX:
            memset(self.stamps, 0, self.traces * sizeof(uint32_t))
            self.stamp = 0
        self.stamp += 1

    def undo(self):
        cdef size_t place = 0
        cdef uint32_t trace, first, number
        while place < self.saved_size:
            trace = <uint32_t> self.saved[place]
            self.latest[trace] = <int64_t> self.saved[place + 1]
            self.cells[trace] = <int64_t> self.saved[place + 2]
            self.are_valid[trace] = <uint8_t> self.saved[place + 3]
            place += 4
            first = trace * <uint32_t> (self.capacity + 1)
            for number in range(first, first + <uint32_t> self.capacity + 1):
                if self.latest[trace]:
                    self.sums.read_total(number, self.saved + place + 1, self.saved[place])
                    place += 1 + self.saved[place]
                else:
                    self.sums.clear_total(number)
        self.begin()

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t number
        for number in range(min(count, <size_t> self.traces)):
            flags[number] &= self.latest[number] == 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        moved_states(self.latest, sizeof(int64_t), self.traces, numbers, count)
        moved_states(self.cells, sizeof(int64_t), self.traces, numbers, count)
        moved_states(self.are_valid, 1, self.traces, numbers, count)
        self.sums.move_totals(self.capacity + 1, self.traces, numbers, count)
        return 0

    cdef int restart(self) except -1:
        self.sums.restart()
        return 0

    cdef int write(self, NumberWriter writer) except -1:
        cdef uint32_t trace, number
        cdef size_t size, k
        writer.put(self.traces)
        for trace in range(self.traces):
            writer.put(<uint64_t> self.latest[trace])
            if not self.latest[trace]:
                continue
            writer.put(self.are_valid[trace])
            if self.are_valid[trace]:
                writer.put(zigzag(self.cells[trace]))
            for number in range(self.cell_of(trace, 0), self.window_of(trace) + 1):
                size = self.sums.total_words(number)
                self.saved_size = 0
                self.reserve_saved(size)
                self.sums.write_total(number, self.saved)
                writer.put(size)
                for k in range(size):
                    writer.put(self.saved[k])
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint64_t traces = reader.get_count(1)
        cdef uint32_t trace, number
        cdef size_t size, k
        if traces > MOST_TRACES:
            raise damaged()
        self.make_room(<uint32_t> traces, 0)
        for trace in range(<uint32_t> traces):
            self.latest[trace] = <int64_t> reader.get(INT64_MAX)
            if not self.latest[trace]:
                continue
            self.are_valid[trace] = <uint8_t> reader.get(1)
            if self.are_valid[trace]:
                self.cells[trace] = self.read_value(reader)
            for number in range(self.cell_of(trace, 0), self.window_of(trace) + 1):
                size = reader.get_count(1)
                self.saved_size = 0
                self.reserve_saved(size)
                for k in range(size):
                    self.saved[k] = reader.get(UINT64_MAX)
                self.sums.read_total(number, self.saved, size)
        self.begin()
        return 0

    cdef size_t bytes_held(self):
        cdef size_t item = 2 * sizeof(int64_t) + 1 + sizeof(uint32_t)
        return (
            self.traces * item + self.saved_room * sizeof(uint64_t) + self.sums.bytes_held()
        )

    def most_bytes(self, traces, rows, rows_of_trace, batch):
        cdef object panes = most_traces(traces) * (self.capacity + 1)
        cdef object item = self.sums.trace_bytes() + 3 * sizeof(uint64_t)
        # each trace can have been saved
        return (
            128 * most_traces(traces) + 2 * panes * item + self.sums.most_bytes(panes, 0, 0, 0)
        )
