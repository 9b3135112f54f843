# cython: language_level=3
"""Windows [a,b]: aggregates over the rows that lie at least a and at most b before the present.

All traces share the clock, so rows enter and leave windows in one order, that of the log: one queue
serves all traces, and what leaves is taken off the state of its own trace. A window without an
upper bound forgets the rows that have entered.

Where the state of each trace is by itself, the rows of each are in a ring of their own. What enters
or leaves changes the aggregate in the same way.
"""

cdef enum:
    INFINITE_BITS = 0x7FF0000000000000
    NAN_BITS = 0x7FF8000000000000


cdef class Window(Kernel):
    """The rows of a window, and where the window begins and ends among them.

    lower, upper: the bounds; -1 for no upper bound.
    """

    cdef Rows rows
    cdef Panes panes
    cdef int64_t lower, upper
    cdef bint is_bounded
    cdef uint64_t entry         # the position of the first row that has not entered yet
    cdef uint64_t tail          # of the first row that has not left yet
    cdef uint64_t marked_end, marked_entry, marked_tail     # at the last `begin`
    cdef Rings rings            # for states by trace; unless rows enter at once, and never leave
    cdef bint is_at_once

    def __dealloc__(self):
        free_rows(&self.rows)
        free(self.rings.of)
        free(self.rings.spare)
        free_panes(&self.panes)

    cdef int set_bounds(self, int64_t lower, int64_t upper) except -1:
        if lower < 0 or -1 != upper < lower:
            raise ValueError(f"no interval from {lower} to {upper}")
        self.lower = lower
        self.upper = upper
        self.is_bounded = upper >= 0
        return 0

    cdef int make_room(self, uint32_t traces, size_t rows) except -1:
        cdef uint32_t room = self.traces
        if traces > self.traces:
            room = room_for(traces, self.traces)
        return self.have_traces(room, rows)

    cdef int have_traces(self, uint32_t traces, size_t rows) except -1:
        """Have so many traces, and no room for more, so that saving them again changes nothing."""
        traces = max(traces, self.traces)
        reserve_panes(&self.panes, &self.rows, self.traces, traces, rows)
        if traces > self.traces:
            resize_rings(&self.rings, self.traces, traces)
            self.resize_traces(traces)
        return 0

    cdef int resize_traces(self, uint32_t traces) except -1:
        """Give the states of traces more room, and clear the new ones."""
        raise NotImplementedError

    def begin(self):
        if not self.is_bounded:
            self.tail = self.entry
        forget_rows(&self.rows, self.tail)
        begin_panes(&self.panes)
        self.marked_end = self.rows.end
        self.marked_entry = self.entry
        self.marked_tail = self.tail

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t place
        cdef uint32_t number
        for place in range(index_of(&self.rows, self.tail), index_of(&self.rows, self.rows.end)):
            number = self.rows.numbers[place]
            if number < count:
                flags[number] = 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        self.entry = renumber_rows(&self.rows, numbers, count, self.entry)
        self.tail = self.rows.start
        open_again(&self.panes, &self.rows, self.traces)
        self.begin()
        return 0

    cdef int restart(self) except -1:
        restart_rows(&self.rows)
        open_again(&self.panes, &self.rows, self.traces)
        self.entry = self.tail = 0
        self.begin()
        return 0

    cdef int visit_texts(self, const TextMarks *marks) except -1:
        visit_texts_of_rows(&self.rows, marks)
        return 0

    cdef int write(self, NumberWriter writer) except -1:
        writer.put(self.entry - self.tail)
        write_rows(&self.rows, writer)
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint64_t entered = reader.get(UINT32_MAX)
        cdef uint32_t traces = self.read_queue(&self.rows, reader)
        if entered > self.rows.end or (entered and not self.is_bounded):
            raise damaged()
        self.have_traces(traces, 0)
        open_again(&self.panes, &self.rows, self.traces)
        self.entry = entered
        self.begin()
        return 0

    cdef int require_rows(self) except -1:
        """Refuse a snapshot with fewer traces than its rows have."""
        cdef size_t place
        for place in range(index_of(&self.rows, self.rows.end)):
            if self.rows.numbers[place] >= self.traces:
                raise damaged()
        return 0

    cdef size_t bytes_held(self):
        cdef size_t found = rows_bytes(&self.rows) + panes_bytes(&self.panes, self.traces)
        if self.rings.of != NULL:
            found += self.traces * sizeof(Ring)
        return found

    # ---- states by trace -----------------------------------------------------------------------

    cdef int begin_by_trace(self) except -1:
        self.is_at_once = not self.is_bounded and self.lower == 0
        # a row that enters at once is the first one of the arrays
        resize_rows(&self.rows, LEAST_ROWS)
        if not self.is_at_once:
            init_rings(&self.rings)
        return 0

    cdef size_t state_words(self, uint32_t trace) noexcept nogil:
        cdef size_t total = 0 if self.is_bounded else self.total_words(trace)
        if self.is_at_once:
            return total
        return 1 + total + (1 + self.rows.has_values) * ring_count(&self.rings.of[trace])

    cdef void write_state(self, uint32_t trace, uint64_t *words) noexcept nogil:
        cdef const Ring *ring
        cdef size_t count, k, index
        if not self.is_at_once:
            ring = &self.rings.of[trace]
            count = ring_count(ring)
            words[0] = <uint64_t> (ring.entry - ring.start) << 32 | count
            words += 1
            for k in range(count):
                index = ring_index(ring, ring.start + <uint32_t> k)
                words[k] = <uint64_t> self.rows.time_stamps[index]
                if self.rows.has_values:
                    words[count + k] = <uint64_t> self.rows.values[index]
            words += (1 + self.rows.has_values) * count
        if not self.is_bounded:
            self.write_total(trace, words)

    cdef int read_state(self, uint32_t trace, const uint64_t *words, size_t size) except -1 nogil:
        if not self.is_at_once:
            self.empty_ring(trace)
            if words != NULL:
                self.fill_ring(trace, &words, &size)
        if not self.is_bounded:
            self.read_total(trace, words, size)
        elif size:
            with gil:
                raise damaged()
        return 0

    cdef int empty_ring(self, uint32_t trace) except -1 nogil:
        """Let all rows leave a window."""
        cdef Ring *ring = &self.rings.of[trace]
        if self.is_bounded:
            while ring.start != ring.entry:
                self.drop(ring_index(ring, ring.start))
                ring.start += 1
        ring.start = ring.entry = ring.end = 0
        return 0

    cdef int fill_ring(
        self, uint32_t trace, const uint64_t **written, size_t *size
    ) except -1 nogil:
        """Read the rows of a trace from words, and step over these."""
        cdef Ring *ring = &self.rings.of[trace]
        cdef const uint64_t *words = written[0] + 1
        cdef uint64_t count = 0
        cdef uint64_t entered = 0
        cdef uint64_t needed = 0
        cdef uint64_t k
        if size[0]:
            count = <uint32_t> written[0][0]
            entered = written[0][0] >> 32
            needed = 1 + (1 + <uint64_t> self.rows.has_values) * count
        if not needed or needed > size[0] or entered > (count if self.is_bounded else 0):
            with gil:
                raise damaged()
        for k in range(count):
            push_in_ring(
                &self.rings, &self.rows, trace, <int64_t> words[k],
                self.value_of_word(words[count + k]) if self.rows.has_values else 0
            )
        while ring.entry != <uint32_t> entered:
            self.take(ring_index(ring, ring.entry))
            ring.entry += 1
        written[0] += needed
        size[0] -= <size_t> needed
        return 0

    cdef int visit_texts_of_state(
        self, uint64_t *words, size_t size, const TextMarks *marks
    ) except -1:
        cdef size_t count, k
        if self.is_at_once:
            return self.visit_texts_of_total(words, marks)
        count = <uint32_t> words[0]
        for k in range(count if self.rows.has_values else 0):
            visit_text(<int64_t *> &words[1 + count + k], marks)
        if not self.is_bounded:
            self.visit_texts_of_total(words + 1 + (1 + self.rows.has_values) * count, marks)
        return 0

    cdef int take(self, size_t index) except -1 nogil:
        """Let a row enter the window of its trace."""
        with gil:
            raise NotImplementedError

    cdef int drop(self, size_t index) except -1 nogil:
        """Let a row leave the window of its trace."""
        with gil:
            raise NotImplementedError

    # What a window without an upper bound keeps of the rows that have entered.

    cdef size_t total_words(self, uint32_t trace) noexcept nogil:
        return 0

    cdef void write_total(self, uint32_t trace, uint64_t *words) noexcept nogil:
        pass

    cdef int read_total(self, uint32_t trace, const uint64_t *words, size_t size) except -1 nogil:
        """Read what `write_total` has written; that of a new trace if it is NULL."""
        with gil:
            raise NotImplementedError

    cdef int visit_texts_of_total(self, uint64_t *words, const TextMarks *marks) except -1:
        return 0

    cdef inline void expect_early(self, uint32_t trace) noexcept nogil:
        """Fetch where the rows of a trace are, which are needed soon."""
        if not self.is_at_once:
            prefetch(&self.rings.of[trace])

    cdef object trace_bytes(self):
        """The most bytes of the state of a trace, without its rows."""
        raise NotImplementedError

    def most_bytes(self, traces, rows, rows_of_trace, batch):
        return (
            most_rows_bytes(&self.rows, rows, batch) + most_traces(traces) * self.trace_bytes()
            + most_panes_bytes(&self.panes, traces, batch)
        )


ctypedef fused AnyWindow:
    CountWindow
    SumWindow
    QueueWindow
    DistinctWindow
    QuantileWindow
    StepWindow


cdef inline int advance(AnyWindow window, int64_t now) except -1 nogil:
    """Let rows enter and leave the windows of all traces."""
    cdef Rows *rows = &window.rows
    cdef int64_t limit = now - window.lower
    cdef size_t index
    while window.entry < rows.end:
        index = index_of(rows, window.entry)
        if rows.time_stamps[index] > limit:
            break
        if window.entry + AHEAD < rows.end:
            window.expect(rows.numbers[index + AHEAD])
        window.enter(index)
        window.entry += 1
    if window.is_bounded:
        limit = now - window.upper
        while window.tail < window.entry:
            index = index_of(rows, window.tail)
            if rows.time_stamps[index] >= limit:
                break
            if AnyWindow is QuantileWindow:
                if window.tail + 3 * AHEAD < rows.end:
                    window.expect(rows.numbers[index + 3 * AHEAD])
                    window.expect_block(rows.numbers[index + 2 * AHEAD])
                    window.expect_codes(rows.numbers[index + AHEAD])
            elif window.tail + AHEAD < rows.end:
                window.expect(rows.numbers[index + AHEAD])
            window.leave(index)
            window.tail += 1
    return 0


ctypedef fused ExactWindow:
    CountWindow
    SumWindow
    DistinctWindow
    QuantileWindow
    StepWindow


cdef inline int push_by_trace(
    ExactWindow window, int64_t time_stamp, uint32_t trace, int64_t value
) except -1 nogil:
    """Append a row to those of its trace; let it enter if nothing else can happen to it."""
    if window.is_at_once:
        window.rows.numbers[0] = trace
        window.rows.time_stamps[0] = time_stamp
        if window.rows.has_values:
            window.rows.values[0] = value
        return window.enter(0)
    return push_in_ring(&window.rings, &window.rows, trace, time_stamp, value)


cdef inline int advance_trace(ExactWindow window, int64_t now, uint32_t trace) except -1 nogil:
    """Let rows enter and leave the window of one trace."""
    cdef Ring *ring
    cdef const int64_t *time_stamps = window.rows.time_stamps
    cdef int64_t limit = now - window.lower
    cdef size_t index
    if window.is_at_once:
        return 0
    ring = &window.rings.of[trace]
    while ring.entry != ring.end:
        index = ring_index(ring, ring.entry)
        if time_stamps[index] > limit:
            break
        window.enter(index)
        ring.entry += 1
    if not window.is_bounded:
        ring.start = ring.entry
        return 0
    limit = now - window.upper
    while ring.start != ring.entry:
        index = ring_index(ring, ring.start)
        if time_stamps[index] >= limit:
            break
        window.leave(index)
        ring.start += 1
    return 0


cdef inline void expect_rows(ExactWindow window, uint32_t trace) noexcept nogil:
    """Fetch the state of a trace, and its rows."""
    window.expect(trace)
    if not window.is_at_once:
        expect_ring(&window.rings, &window.rows, trace)


ctypedef fused PlainWindow:
    CountWindow
    SumWindow


cdef int run_plainly(
    PlainWindow window, Batch batch, const int64_t *values, const uint8_t *mask, int64_t *results,
    uint8_t *validity
) noexcept nogil:
    """Do what `run_rows` does, for the result at each row of a window that forgets rows.

    This is for windows to which a row is added without errors, by `add_plainly`.

    PERF: with 1,000 traces, counts take 6.0 ns a row instead of 11.6, sums of integers 10.3 instead
    of 21, as what changes for each row is in registers and not in the objects. In loops of their
    own, they took 5.4 and 11.1 ns.
    """
    cdef Rows *rows = &window.rows
    cdef int64_t *time_stamps = rows.time_stamps
    cdef uint32_t *numbers = rows.numbers
    cdef int64_t *kept = rows.values
    cdef int64_t lower = window.lower
    cdef int64_t upper = window.upper
    cdef size_t end = index_of(rows, rows.end)
    cdef size_t entry = index_of(rows, window.entry)
    cdef size_t tail = index_of(rows, window.tail)
    cdef size_t count = batch.count
    cdef size_t k
    cdef uint32_t trace
    cdef int64_t now
    cdef int found = FOUND
    for k in range(count):
        if k + AHEAD < count:
            window.expect(batch.trace(k + AHEAD))
        trace = batch.trace(k)
        now = batch.time_stamps[k]
        if mask == NULL or mask[k]:
            time_stamps[end] = now
            numbers[end] = trace
            if kept != NULL:
                kept[end] = values[k]
            end += 1
        while entry < end and time_stamps[entry] <= now - lower:
            window.add_plainly(numbers[entry], 0 if kept == NULL else kept[entry], 1)
            entry += 1
        while tail < entry and time_stamps[tail] < now - upper:
            if tail + AHEAD < end:
                window.expect(numbers[tail + AHEAD])
            window.add_plainly(numbers[tail], 0 if kept == NULL else kept[tail], -1)
            tail += 1
        found = window.value_plainly(trace, &results[k])
        validity[k] = <uint8_t> found
        if found == OVERFLOWS:
            break
    rows.end = rows.base + end
    window.entry = rows.base + entry
    window.tail = rows.base + tail
    return OVERFLOWS if found == OVERFLOWS else 0


cdef inline int take_back(ExactWindow window) except -1:
    """Undo a batch, for aggregates whose additions can be undone exactly."""
    cdef uint64_t position
    # A row that has both entered and left changes nothing. Those that entered go first, so that no
    # window has more rows than before or after.
    for position in range(max(window.marked_entry, window.tail), window.entry):
        window.leave(index_of(&window.rows, position))
    for position in range(window.marked_tail, min(window.marked_entry, window.tail)):
        window.enter(index_of(&window.rows, position))
    window.tail = window.marked_tail
    window.entry = window.marked_entry
    window.rows.end = window.marked_end
    return 0


@final
cdef class CountWindow(Window):
    """Counts the rows in the window; nulls among them are not counted."""

    cdef int64_t *counts

    def __cinit__(self, int64_t lower, int64_t upper):
        self.set_bounds(lower, upper)
        init_rows(&self.rows, False, False)

    def __dealloc__(self):
        free(self.counts)

    cdef bint takes_values(self):
        return False

    cdef int resize_traces(self, uint32_t traces) except -1:
        resized(<void **> &self.counts, traces, sizeof(int64_t))
        memset(self.counts + self.traces, 0, (traces - self.traces) * sizeof(int64_t))
        self.traces = traces
        return 0

    cdef inline int64_t weight_of(self, size_t index) noexcept nogil:
        """How many rows a row stands for."""
        return <int64_t> self.rows.words[index] if self.rows.word_count else 1

    cdef inline int enter(self, size_t index) except -1 nogil:
        self.counts[self.rows.numbers[index]] += self.weight_of(index)
        return 0

    cdef inline int leave(self, size_t index) except -1 nogil:
        self.counts[self.rows.numbers[index]] -= self.weight_of(index)
        return 0

    def set_panes(self, int64_t width):
        set_width(&self.panes, &self.rows, width)
        self.rows.word_count = 1
        return True

    cdef inline void expect(self, uint32_t trace) noexcept nogil:
        """Fetch the state of a trace, which is needed soon."""
        prefetch(&self.counts[trace])

    cdef int put(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        cdef Rows *rows = &self.rows
        cdef size_t index
        if self.panes.width == 0:
            push_row(rows, time_stamp, trace, value)
            return 0
        index = slot_of(&self.panes, rows, self.entry, time_stamp, trace)
        if index == SIZE_MAX:
            index = index_of(rows, rows.end)
            push_pane(rows, time_stamp, trace, value)
        else:
            note_merge(&self.panes, rows, self.marked_end, index, 1)
        rows.words[index] += 1
        return 0

    cdef int put_in_panes(
        self, Batch batch, size_t first, size_t last, const uint8_t *mask
    ) except -1 nogil:
        """Put the rows of a batch from `first` to before `last`, where rows are merged.

        PERF: what changes for each row is in registers; see `run_plainly`.
        """
        cdef Rows *rows = &self.rows
        cdef Panes *panes = &self.panes
        cdef int64_t *time_stamps = rows.time_stamps
        cdef uint32_t *numbers = rows.numbers
        cdef uint64_t *words = rows.words
        cdef uint32_t *latest = panes.latest
        cdef uint64_t base = rows.base
        cdef int64_t limit = panes.limit
        cdef size_t end = index_of(rows, rows.end)
        cdef size_t entry = index_of(rows, self.entry)
        # rows before these cannot be merged into
        cdef size_t opened = index_of(rows, max(panes.opened, rows.base))
        cdef size_t begin = max(opened, entry)
        cdef size_t marked = index_of(rows, self.marked_end)
        cdef size_t k, index
        cdef uint32_t trace
        cdef int64_t now
        for k in range(first, last):
            if k + 2 * AHEAD < last:
                prefetch(&latest[batch.trace(k + 2 * AHEAD)])
                index = <uint32_t> (latest[batch.trace(k + AHEAD)] - <uint32_t> base)
                if index < end:
                    prefetch(&numbers[index])
                    prefetch(&words[index])
            if mask != NULL and not mask[k]:
                continue
            now = batch.time_stamps[k]
            trace = batch.trace(k)
            if now > limit:
                limit = cell_limit(now, panes.width)
                opened = end
                begin = max(opened, entry)
            # the low bits of the position tell the index, since there are fewer rows than 2^32
            index = <uint32_t> (latest[trace] - <uint32_t> base)
            if begin <= index < end and numbers[index] == trace:
                words[index] += 1
                if index < marked:
                    note_change(&panes.merges, index, 1, 0)
                continue
            latest[trace] = <uint32_t> (base + end)
            if end == rows.room:
                rows.end = base + end
                reserve_rows(rows, 1)
                time_stamps, numbers, words = rows.time_stamps, rows.numbers, rows.words
            time_stamps[end] = now
            numbers[end] = trace
            words[end] = 1
            end += 1
        rows.end = base + end
        panes.limit = limit
        panes.opened = base + opened
        return 0

    cdef int get(self, int64_t time_stamp, uint32_t trace, int64_t *value) except -1 nogil:
        advance(self, time_stamp)
        return self.result(trace, value)

    cdef inline int result(self, uint32_t trace, int64_t *value) noexcept nogil:
        value[0] = self.counts[trace]
        return FOUND

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        with nogil:
            if arguments is None and wanted == NULL and self.is_bounded and not self.panes.width:
                return run_plainly(self, batch, values, mask, results, validity)
            return run_rows(self, batch, arguments, values, mask, wanted, results, validity)

    cdef inline void add_plainly(self, uint32_t trace, int64_t value, int sign) noexcept nogil:
        self.counts[trace] += sign

    cdef inline int value_plainly(self, uint32_t trace, int64_t *value) noexcept nogil:
        value[0] = self.counts[trace]
        return FOUND

    def undo(self):
        cdef Journal *merges = &self.panes.merges
        take_back(self)
        while merges.count:
            merges.count -= 1
            self.rows.words[merges.changes[merges.count].place] -= 1
        undo_panes(&self.panes, &self.rows)

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t number
        Window.clear_unsettled(self, flags, count)
        for number in range(min(count, <size_t> self.traces)):
            if self.counts[number]:
                flags[number] = 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        moved_states(self.counts, sizeof(int64_t), self.traces, numbers, count)
        return Window.renumber(self, numbers, count)

    cdef int write(self, NumberWriter writer) except -1:
        cdef uint32_t number
        cdef uint32_t traces = used_states(self.counts, sizeof(int64_t), self.traces)
        Window.write(self, writer)
        if not self.is_bounded:
            writer.put(traces)
            for number in range(traces):
                writer.put(<uint64_t> self.counts[number])
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint64_t position
        cdef uint32_t traces, number
        Window.read(self, reader)
        if self.rows.word_count:
            for position in range(self.rows.start, self.rows.end):
                if self.rows.words[index_of(&self.rows, position)] > MOST_WEIGHT:
                    raise damaged()
        if self.is_bounded:
            for position in range(self.tail, self.entry):
                self.enter(index_of(&self.rows, position))
            return 0
        traces = <uint32_t> min(<uint64_t> MOST_TRACES, reader.get_count(1))
        self.have_traces(traces, 0)
        for number in range(traces):
            self.counts[number] = <int64_t> reader.get(INT64_MAX)
        return 0

    cdef size_t bytes_held(self):
        return Window.bytes_held(self) + self.traces * sizeof(int64_t)

    cdef object trace_bytes(self):
        return sizeof(int64_t)

    cdef bint has_states_by_trace(self):
        return self.panes.width == 0

    cdef size_t total_words(self, uint32_t trace) noexcept nogil:
        return 1

    cdef void write_total(self, uint32_t trace, uint64_t *words) noexcept nogil:
        words[0] = <uint64_t> self.counts[trace]

    cdef int read_total(self, uint32_t trace, const uint64_t *words, size_t size) except -1 nogil:
        if words != NULL and (size != 1 or words[0] >> 63):
            with gil:
                raise damaged()
        self.counts[trace] = 0 if words == NULL else <int64_t> words[0]
        return 0

    cdef int put_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t value
    ) except -1 nogil:
        return push_by_trace(self, time_stamp, trace, value)

    cdef int get_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t *value
    ) except -1 nogil:
        advance_trace(self, time_stamp, trace)
        return self.result(trace, value)

    cdef int step(self, const RowColumns *columns) except -1 nogil:
        return step_by_trace(self, columns)

    cdef int pass_trace(self, uint32_t trace, int64_t moment) except -1 nogil:
        return advance_trace(self, moment, trace)

    cdef int take(self, size_t index) except -1 nogil:
        return self.enter(index)

    cdef int drop(self, size_t index) except -1 nogil:
        return self.leave(index)

    cdef inline void expect_by_trace(self, uint32_t trace) noexcept nogil:
        expect_rows(self, trace)
