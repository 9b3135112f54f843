# cython: language_level=3
"""Finds the ticks at which a value may change, from the rows and from how far windows reach.

A row at time r makes a difference to a window [a,b] from r + a on, when it enters, and from
r + b + 1 on, when it has left: these are the delays of a program. So the values of a trace at a
tick T of period p can differ from those at the tick before only if for a row of the trace and a
delay d, T is the first multiple of p from r + d on. Such a tick is *due*. Between two due ticks,
the values of the trace stay as they are, and nothing is computed.
"""

from libc.stdlib cimport qsort


cdef struct Lead:
    # The rows that are yet to become due after a delay, at the ticks of a period.
    int64_t delay
    int64_t period
    uint64_t next               # the position of the first of them
    uint64_t marked_next        # at the last `begin`


cdef inline int64_t due_time(const Lead *lead, int64_t time_stamp) noexcept nogil:
    """The tick at which a row becomes due; INT64_MAX for none."""
    cdef int64_t rest
    if time_stamp > INT64_MAX - lead.delay:
        return INT64_MAX
    time_stamp += lead.delay
    rest = time_stamp % lead.period
    if rest == 0:
        return time_stamp
    if time_stamp > INT64_MAX - (lead.period - rest):
        return INT64_MAX
    return time_stamp + (lead.period - rest)


cdef int compared_numbers(const void *one, const void *other) noexcept nogil:
    cdef uint32_t left = (<const uint32_t *> one)[0]
    cdef uint32_t right = (<const uint32_t *> other)[0]
    return (left > right) - (left < right)


@final
cdef class Dues:
    """The due ticks of many traces.

    Between `begin` and the next `begin`, `undo` takes everything back.

    delays: after which delays rows make a difference; 0 is among them.
    periods: the periods of ticks.
    grain: what divides all periods and all bounds of windows. Of the rows of a trace that lie
        between two multiples of it, and of those at a multiple, only the first is kept.
    """

    cdef Rows rows
    cdef Lead *leads
    cdef size_t lead_count
    cdef int64_t grain
    cdef uint64_t marked_end
    cdef int64_t *latest        # for each trace, the grains up to its last row; -1 for no row
    cdef uint64_t *marks        # a bit for each trace, all 0 between two calls
    cdef uint32_t traces        # how many traces there is room for
    cdef readonly uint32_t trace_count      # how many traces have had rows
    cdef uint32_t marked_trace_count
    cdef uint32_t *found        # numbers of the traces that are due at a tick
    cdef uint32_t found_room
    # due ticks, in order
    cdef int64_t *due_times
    cdef uint32_t *due_numbers
    cdef size_t due_count, due_room

    def __cinit__(self, delays, periods, int64_t grain):
        cdef size_t k = 0
        if grain < 1 or 0 not in delays or any([period < 1 for period in periods]):
            raise ValueError("no such delays, periods or grain")
        init_rows(&self.rows, False, False)
        self.grain = grain
        self.lead_count = <size_t> len(delays) * <size_t> len(periods)
        resized(<void **> &self.leads, self.lead_count, sizeof(Lead))
        memset(self.leads, 0, self.lead_count * sizeof(Lead))
        for delay in delays:
            for period in periods:
                self.leads[k].delay = delay
                self.leads[k].period = period
                k += 1

    def __dealloc__(self):
        free_rows(&self.rows)
        free(self.leads)
        free(self.latest)
        free(self.marks)
        free(self.found)
        free(self.due_times)
        free(self.due_numbers)

    cdef int make_room(self, uint32_t traces) except -1:
        cdef size_t words
        cdef uint32_t k
        if traces <= self.traces:
            return 0
        traces = room_for(traces, self.traces)
        words = (<size_t> traces + 63) // 64
        resized(<void **> &self.latest, traces, sizeof(int64_t))
        resized(<void **> &self.marks, words, sizeof(uint64_t))
        resized(<void **> &self.found, traces, sizeof(uint32_t))
        for k in range(self.traces, traces):
            self.latest[k] = -1
        memset(self.marks, 0, words * sizeof(uint64_t))
        self.traces = traces
        return 0

    cdef inline int64_t grain_of(self, int64_t time_stamp) noexcept nogil:
        return time_stamp // self.grain * 2 + (time_stamp % self.grain != 0)

    def add(self, Batch batch not None):
        """Add rows; they are no earlier than those before, and than all ticks that were found."""
        cdef size_t k
        cdef uint32_t trace
        cdef int64_t grain = 0
        cdef int64_t limit = -1
        if not batch.count:
            return
        self.make_room(batch.traces)
        reserve_rows(&self.rows, batch.count)
        with nogil:
            for k in range(batch.count):
                if k + AHEAD < batch.count:
                    prefetch(&self.latest[batch.trace(k + AHEAD)])
                trace = batch.trace(k)
                if batch.time_stamps[k] > limit:
                    # PERF: divisions for each row took 5 ns
                    grain = self.grain_of(batch.time_stamps[k])
                    limit = cell_limit(batch.time_stamps[k], self.grain)
                if self.latest[trace] != grain:
                    self.latest[trace] = grain
                    push_row(&self.rows, batch.time_stamps[k], trace, 0)
        self.trace_count = max(self.trace_count, batch.traces)

    cdef int64_t next_time(self) noexcept nogil:
        """The next due tick; INT64_MAX for none."""
        cdef int64_t least = INT64_MAX
        cdef Lead *lead
        cdef size_t k
        for k in range(self.lead_count):
            lead = &self.leads[k]
            if lead.next < self.rows.end:
                least = min(
                    least, due_time(lead, self.rows.time_stamps[index_of(&self.rows, lead.next)])
                )
        return least

    cdef size_t due_at(self, int64_t time_stamp) noexcept nogil:
        """Find the traces that are due at the next due tick; return how many."""
        cdef Rows *rows = &self.rows
        cdef Lead *lead
        cdef size_t count = 0
        cdef size_t index, k
        cdef int64_t limit
        cdef uint32_t trace
        for k in range(self.lead_count):
            lead = &self.leads[k]
            if time_stamp % lead.period:
                continue
            limit = time_stamp - lead.delay
            while lead.next < rows.end:
                index = index_of(rows, lead.next)
                if rows.time_stamps[index] > limit:
                    break
                trace = rows.numbers[index]
                lead.next += 1
                if not self.marks[trace >> 6] >> (trace & 63) & 1:
                    self.marks[trace >> 6] |= <uint64_t> 1 << (trace & 63)
                    self.found[count] = trace
                    count += 1
        return count

    cdef void sort_found(self, size_t count) noexcept nogil:
        """Bring the traces that were found in order, and clear their marks."""
        cdef size_t words = (<size_t> self.traces + 63) // 64
        cdef size_t place = 0
        cdef size_t k
        cdef uint64_t word
        # PERF: sorting takes about 60 ns a trace, looking through the marks 1 ns for 64 traces
        if count < words // 64:
            qsort(self.found, count, sizeof(uint32_t), &compared_numbers)
            for k in range(count):
                self.marks[self.found[k] >> 6] = 0
            return
        for k in range(words):
            word = self.marks[k]
            self.marks[k] = 0
            while word:
                self.found[place] = <uint32_t> (k * 64 + count_trailing_zeros(word))
                place += 1
                word &= word - 1

    def find(self, int64_t limit):
        """Find the due ticks below a time, and go on behind them.

        Returns bytes: their times as int64, and the numbers of their traces as uint32.
        """
        cdef int64_t time_stamp
        cdef size_t count, k
        self.due_count = 0
        with nogil:
            while True:
                time_stamp = self.next_time()
                if time_stamp >= limit:
                    break
                count = self.due_at(time_stamp)
                self.sort_found(count)
                if self.due_count + count > self.due_room:
                    self.reserve_dues(self.due_count + count)
                for k in range(count):
                    self.due_times[self.due_count + k] = time_stamp
                    self.due_numbers[self.due_count + k] = self.found[k]
                self.due_count += count
        result = (
            (<const char *> self.due_times)[:self.due_count * sizeof(int64_t)],
            (<const char *> self.due_numbers)[:self.due_count * sizeof(uint32_t)],
        )
        return result

    cdef int reserve_dues(self, size_t count) except -1 nogil:
        cdef size_t room = max(count, 2 * self.due_room)
        # until both arrays have the new size, the smaller size counts
        resized(<void **> &self.due_times, room, sizeof(int64_t))
        resized(<void **> &self.due_numbers, room, sizeof(uint32_t))
        self.due_room = room
        return 0

    def counts(self, Batch batch not None, counts):
        """Compute how many due ticks there are at most below each of the next rows.

        counts: a contiguous array of int64 for the results; two rows of a trace that are due at
        one tick count twice.
        """
        cdef Memory memory = contiguous(counts, sizeof(int64_t), batch.count, True)
        cdef int64_t *results = <int64_t *> memory.buffer.buf
        cdef Rows *rows = &self.rows
        cdef Lead *lead
        cdef uint64_t place
        cdef size_t own, row, k
        cdef int64_t limit
        with nogil:
            memset(results, 0, batch.count * sizeof(int64_t))
            for k in range(self.lead_count):
                lead = &self.leads[k]
                place = lead.next
                own = 0
                for row in range(batch.count):
                    if batch.time_stamps[row]:
                        limit = batch.time_stamps[row] - 1
                        # of those below the row, the last tick of the period
                        limit = limit - limit % lead.period - lead.delay
                        while place < rows.end and (
                            rows.time_stamps[index_of(rows, place)] <= limit
                        ):
                            place += 1
                        while own < row and batch.time_stamps[own] <= limit:
                            own += 1
                    results[row] += <int64_t> (place - lead.next + own)

    def time_behind(self, size_t count):
        """Return a time below which about so many ticks are due, at least one if any is."""
        cdef int64_t next_time = self.next_time()
        cdef int64_t limit = INT64_MAX
        cdef size_t share = count // self.lead_count
        cdef Lead *lead
        cdef size_t k
        for k in range(self.lead_count):
            lead = &self.leads[k]
            if share < self.rows.end - lead.next:
                limit = min(
                    limit,
                    due_time(
                        lead, self.rows.time_stamps[index_of(&self.rows, lead.next + share)]
                    ),
                )
        return max(limit, next_time + (next_time < INT64_MAX))

    def begin(self):
        """Begin a batch: what was done before can no longer be undone."""
        cdef uint64_t oldest = self.rows.end
        cdef size_t k
        for k in range(self.lead_count):
            self.leads[k].marked_next = self.leads[k].next
            oldest = min(oldest, self.leads[k].next)
        forget_rows(&self.rows, oldest)
        self.marked_end = self.rows.end
        self.marked_trace_count = self.trace_count

    def undo(self):
        """Return to the state at the last `begin`."""
        cdef uint64_t place
        cdef size_t k
        for place in range(self.marked_end, self.rows.end):
            # if an earlier row lies in the same grain, it is merely kept twice from now on
            self.latest[self.rows.numbers[index_of(&self.rows, place)]] = -1
        self.rows.end = self.marked_end
        for k in range(self.lead_count):
            self.leads[k].next = self.leads[k].marked_next
        self.trace_count = self.marked_trace_count

    def keep(self, new_numbers):
        """Give traces new numbers and forget others; see `Kernel.keep`."""
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef const uint32_t *numbers = <const uint32_t *> memory.buffer.buf
        cdef size_t count = <size_t> memory.buffer.shape[0] // sizeof(uint32_t)
        cdef Rows *rows = &self.rows
        cdef size_t first, last, place, k
        cdef size_t kept = 0
        cdef uint32_t number, trace_count
        self.begin()
        first = index_of(rows, rows.start)
        last = index_of(rows, rows.end)
        for place in range(first, last):
            for k in range(self.lead_count):
                # rows that have gone leave a gap before `first`
                if self.leads[k].marked_next == rows.start + (place - first):
                    self.leads[k].next = kept
            number = rows.numbers[place]
            if number >= count or numbers[number] == FORGOTTEN:
                continue
            rows.time_stamps[kept] = rows.time_stamps[place]
            rows.numbers[kept] = numbers[number]
            kept += 1
        for k in range(self.lead_count):
            if self.leads[k].marked_next == rows.end:
                self.leads[k].next = kept
        rows.base = rows.start = 0
        rows.end = kept
        trace_count = 0
        for place in range(min(count, <size_t> self.trace_count)):
            trace_count += numbers[place] != FORGOTTEN
        self.trace_count = trace_count
        self.find_latest()
        self.begin()

    cdef void find_latest(self) noexcept:
        """Find the last grain of each trace, as far as rows of it are kept."""
        cdef uint64_t place
        cdef size_t index
        cdef uint32_t k
        for k in range(self.traces):
            self.latest[k] = -1
        for place in range(self.rows.start, self.rows.end):
            index = index_of(&self.rows, place)
            self.latest[self.rows.numbers[index]] = self.grain_of(self.rows.time_stamps[index])

    def snapshot(self):
        """Return the state as bytes for `restore`."""
        cdef NumberWriter writer = NumberWriter()
        cdef size_t k
        self.begin()
        writer.put(self.trace_count)
        for k in range(self.lead_count):
            writer.put(self.leads[k].next - self.rows.start)
        write_rows(&self.rows, writer)
        return writer.taken()

    def restore(self, snapshot):
        """Continue from the snapshot of an object with the same arguments, whatever this one had.

        Raises:
            SnapshotError: the bytes are not such a snapshot. The object must not be used after
                that.
        """
        cdef NumberReader reader = NumberReader()
        cdef uint32_t traces
        cdef size_t k
        reader.open(as_bytes(snapshot), 0)
        restart_rows(&self.rows)
        self.trace_count = <uint32_t> reader.get(MOST_TRACES)
        for k in range(self.lead_count):
            self.leads[k].next = reader.get(UINT32_MAX)
        traces = read_rows(&self.rows, reader)
        reader.end()
        if traces > self.trace_count:
            raise damaged()
        for k in range(self.lead_count):
            if self.leads[k].next > self.rows.end:
                raise damaged()
        self.make_room(traces)
        self.find_latest()
        self.begin()

    @property
    def held_bytes(self):
        """The number of bytes that the state takes."""
        return (
            rows_bytes(&self.rows)
            + self.traces * (sizeof(int64_t) + sizeof(uint32_t)) + self.traces // 8
            + self.due_room * (sizeof(int64_t) + sizeof(uint32_t))
        )

    def most_bytes(self, traces, rows, batch, ticks):
        """The most bytes that the state takes, for whole numbers.

        traces: how many traces there are.
        rows: how many rows have to be kept at most between two batches.
        batch: the most rows of a batch.
        ticks: the most ticks that are found at once.
        """
        cdef object room = most_traces(traces)
        return (
            most_rows_bytes(&self.rows, rows, batch)
            + room * (sizeof(int64_t) + sizeof(uint32_t)) + room // 8
            + 2 * ticks * (sizeof(int64_t) + sizeof(uint32_t))
        )


cdef extern from *:
    """
    #define count_trailing_zeros(word) __builtin_ctzll(word)
    """
    int count_trailing_zeros(uint64_t word) noexcept nogil
