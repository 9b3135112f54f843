# cython: language_level=3
"""Integrals over windows of values that hold until the next, or of the lines between values."""


cdef enum:
    # what is written of the value that has left a window
    LEFT_WORDS = 3
    # how many words an area can have above the point, and below it
    MOST_AREA_WORDS = MOST_SUM_WORDS + 2


cdef struct Area:
    # The last value that entered the window, and the last one that left it.
    int64_t entered, entered_at
    int64_t left, left_at
    bint has_entered, has_left
    Specials specials


cdef struct Event:
    # That a row entered or left, and what it took the place of.
    uint32_t trace
    bint is_entry, had_value
    int64_t cell, time_stamp


cdef inline double number_of_cell(bint is_float, int64_t cell) noexcept nogil:
    cdef double number
    if not is_float:
        return <double> cell
    memcpy(&number, &cell, sizeof(number))
    return number


cdef double end_of_line(double begin, double end, int64_t length, int64_t part) noexcept nogil:
    """The area under the end of a line: its last `part` units of time, of `length`."""
    cdef double share, cut
    if part == 0:
        return 0
    if isinf(begin) or isinf(end):
        return begin + end
    share = <double> part / <double> length
    cut = begin * share + end * (1 - share)
    return <double> part * (cut * 0.5 + end * 0.5)


@final
cdef class IntegralWindow(Window):
    """The integral over time of the held value, from the first value of the trace on.

    Each trace has the exact sum of value * length over the steps between the last row that left the
    window and the last one that entered. The steps at both ends of the window are added on reading.

    If it is linear, values do not hold, but go to the next one on a line. Steps are lines, and have
    twice their area. On reading, the one in which the window begins is taken off, and what lies in
    the window is added to the rounded sum of the others.

    is_float: whether values are floats; otherwise, they are integers.
    is_linear: whether there are lines between values.
    """

    cdef bint is_float, is_linear
    cdef Area *areas
    cdef Chain *chains          # of the rows in the window, if it is linear and bounded
    cdef Numbers sums
    cdef Event *events          # those of the batch
    cdef size_t event_count, event_room
    cdef size_t noted           # how many places an event takes
    cdef int64_t from_end, to_end   # how far before the present the window ends and begins

    def __cinit__(self, bint is_float, int64_t lower, int64_t upper, bint is_linear=False):
        self.is_float = is_float
        self.is_linear = is_linear
        self.noted = 1
        self.set_bounds(lower, upper)
        # A row leaves when the window begins at its time-stamp: its step is then the first one.
        self.from_end = self.lower
        self.to_end = self.upper
        self.upper -= self.is_bounded
        init_rows(&self.rows, True, self.has_chains())
        self.sums.width = 4
        self.sums.exponent = -128 if is_float else 0

    cdef inline bint has_chains(self) noexcept nogil:
        return self.is_linear and self.is_bounded

    def __dealloc__(self):
        free(self.areas)
        free(self.chains)
        free(self.sums.words)
        free(self.events)

    cdef int make_room(self, uint32_t traces, size_t rows) except -1:
        cdef size_t events
        Window.make_room(self, traces, rows)
        if self.is_by_trace:
            return 0
        events = self.event_count + 2 * (<size_t> (self.rows.end - self.tail) + rows)
        if events > self.event_room:
            resized(<void **> &self.events, events, sizeof(Event))
            self.event_room = events
        return 0

    cdef int resize_traces(self, uint32_t traces) except -1:
        resized(<void **> &self.areas, traces, sizeof(Area))
        memset(self.areas + self.traces, 0, (traces - self.traces) * sizeof(Area))
        resize_numbers(&self.sums, traces)
        if self.has_chains():
            resized(<void **> &self.chains, traces, sizeof(Chain))
            memset(self.chains + self.traces, 0, (traces - self.traces) * sizeof(Chain))
        self.traces = traces
        return 0

    cdef int add_step(
        self, uint32_t trace, int64_t cell, int64_t length, int sign
    ) except -1 nogil:
        """Add or subtract cell * length to the sum of a trace."""
        cdef Term term
        cdef FloatClass found
        cdef Numbers wide
        if length == 0:
            return 0
        found = term_of(self.is_float, cell, &term)
        if found != FINITE:
            count_special(&self.areas[trace].specials, found, sign)
            return 0
        if term.magnitude == 0:
            return 0
        if not has_place(&self.sums, term.exponent, 128):
            wide = widened(&self.sums, term.exponent, 128, False)
            if wide.words == NULL:
                with gil:
                    raise MemoryError("mtlmon: out of memory")
            take_numbers(&self.sums, &wide)
        add_product(
            number_of(&self.sums, trace), self.sums.width, term.magnitude, <uint64_t> length,
            <uint32_t> (term.exponent - self.sums.exponent), term.is_negative ^ (sign < 0)
        )
        return 0

    cdef inline int add_line(
        self, uint32_t trace, int64_t cell, int64_t other, int64_t length, int sign
    ) except -1 nogil:
        """Add or subtract what is between two values; the later one does not count for steps."""
        self.add_step(trace, cell, length, sign)
        if self.is_linear:
            self.add_step(trace, other, length, sign)
        return 0

    cdef inline void note(
        self, uint32_t trace, bint is_entry, bint had_value, int64_t cell, int64_t time_stamp
    ) noexcept nogil:
        cdef Event *event = &self.events[self.event_count]
        event.trace = trace
        event.is_entry = is_entry
        event.had_value = had_value
        event.cell = cell
        event.time_stamp = time_stamp
        # with states by trace, nothing is taken back, and one place serves all
        self.event_count += self.noted

    cdef inline int enter(self, size_t index) except -1 nogil:
        cdef uint32_t trace = self.rows.numbers[index]
        cdef Area *area = &self.areas[trace]
        cdef int64_t now = self.rows.time_stamps[index]
        cdef int64_t cell = self.rows.values[index]
        if area.has_entered:
            self.add_line(trace, area.entered, cell, now - area.entered_at, 1)
        self.note(trace, True, area.has_entered, area.entered, area.entered_at)
        area.entered = cell
        area.entered_at = now
        area.has_entered = True
        if self.has_chains() and not self.is_by_trace:
            self.link(index)
        return 0

    cdef inline void link(self, size_t index) noexcept nogil:
        """Put a row at the end of the chain of its trace."""
        cdef Chain *chain = &self.chains[self.rows.numbers[index]]
        cdef uint32_t position = <uint32_t> (index + self.rows.base)
        if chain.count:
            self.rows.following[linked_index(&self.rows, chain.back)] = position
        else:
            chain.front = position
        chain.back = position
        chain.count += 1

    cdef inline int leave(self, size_t index) except -1 nogil:
        cdef uint32_t trace = self.rows.numbers[index]
        cdef Area *area = &self.areas[trace]
        cdef int64_t now = self.rows.time_stamps[index]
        cdef int64_t cell = self.rows.values[index]
        cdef Chain *chain
        if area.has_left:
            self.add_line(trace, area.left, cell, now - area.left_at, -1)
        self.note(trace, False, area.has_left, area.left, area.left_at)
        area.left = cell
        area.left_at = now
        area.has_left = True
        if self.has_chains() and not self.is_by_trace:
            chain = &self.chains[trace]
            chain.front = self.rows.following[index]
            chain.count -= 1
        return 0

    cdef inline void expect(self, uint32_t trace) noexcept nogil:
        """Fetch the state of a trace, which is needed soon."""
        prefetch(&self.areas[trace])
        prefetch(number_of(&self.sums, trace))

    cdef int put(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        push_row(&self.rows, time_stamp, trace, value)
        return 0

    cdef int get(self, int64_t time_stamp, uint32_t trace, int64_t *value) except -1 nogil:
        cdef Area *area
        cdef int64_t last_step, first_step
        cdef double total
        if self.is_by_trace:
            advance_trace(self, time_stamp, trace)
        else:
            advance(self, time_stamp)
        area = &self.areas[trace]
        if not area.has_entered or self.is_before_lines(area, time_stamp):
            value[0] = 0
            return NOTHING
        if self.is_linear:
            total = self.area_of_lines(trace, time_stamp)
            memcpy(value, &total, sizeof(total))
            return FOUND
        # The last step goes on to the end of the window; the first one begins with the window.
        last_step = time_stamp - self.from_end - area.entered_at
        first_step = time_stamp - self.to_end - area.left_at if area.has_left else 0
        if area.entered_at == area.left_at and area.has_left:
            # both are one step, or the earlier of two values has no length
            last_step -= first_step
            first_step = 0
        self.add_step(trace, area.entered, last_step, 1)
        self.add_part(trace, area.left, first_step, -1)
        if has_specials(&area.specials):
            total = special_sum(&area.specials)
        else:
            total = rounded(number_of(&self.sums, trace), self.sums.width, self.sums.exponent)
        self.add_step(trace, area.entered, last_step, -1)
        self.add_part(trace, area.left, first_step, 1)
        memcpy(value, &total, sizeof(total))
        return FOUND

    cdef inline bint is_before_lines(self, const Area *area, int64_t time_stamp) noexcept nogil:
        """Whether the window begins after all values, of which none has a line to a next one."""
        return self.has_chains() and area.entered_at < time_stamp - self.to_end

    cdef double area_of_lines(self, uint32_t trace, int64_t time_stamp) except? -1 nogil:
        cdef Area *area = &self.areas[trace]
        cdef int64_t first = 0, length = 0
        cdef double cut = 0, total
        cdef size_t index = 0
        if area.has_left and self.has_first(trace, &index):
            first = self.rows.values[index]
            length = self.rows.time_stamps[index] - area.left_at
            cut = end_of_line(
                number_of_cell(self.is_float, area.left), number_of_cell(self.is_float, first),
                length, self.rows.time_stamps[index] - (time_stamp - self.to_end)
            )
        self.add_line(trace, area.left, first, length, -1)
        if has_specials(&area.specials):
            total = special_sum(&area.specials)
        else:
            total = rounded(
                number_of(&self.sums, trace), self.sums.width, self.sums.exponent - 1
            )
        self.add_line(trace, area.left, first, length, 1)
        return total + cut

    cdef inline bint has_first(self, uint32_t trace, size_t *index) noexcept nogil:
        """Whether there is a row in the window; find the first one."""
        cdef const Ring *ring
        if self.is_by_trace:
            ring = &self.rings.of[trace]
            if ring.start == ring.entry:
                return False
            index[0] = ring_index(ring, ring.start)
            return True
        if self.chains[trace].count == 0:
            return False
        index[0] = linked_index(&self.rows, self.chains[trace].front)
        return True

    cdef inline int add_part(
        self, uint32_t trace, int64_t cell, int64_t length, int sign
    ) except -1 nogil:
        """As `add_step`, for a part of a step: an infinite step without it is still infinite."""
        cdef Term term
        if term_of(self.is_float, cell, &term) == FINITE:
            return self.add_step(trace, cell, length, sign)
        return 0

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        with nogil:
            return run_rows(self, batch, arguments, values, mask, wanted, results, validity)

    def begin(self):
        Window.begin(self)
        self.event_count = 0

    def undo(self):
        cdef Event *event
        cdef Area *area
        while self.event_count:
            self.event_count -= 1
            event = &self.events[self.event_count]
            area = &self.areas[event.trace]
            if event.is_entry:
                if event.had_value:
                    self.add_line(
                        event.trace, event.cell, area.entered, area.entered_at - event.time_stamp,
                        -1
                    )
                area.entered = event.cell
                area.entered_at = event.time_stamp
                area.has_entered = event.had_value
            else:
                if event.had_value:
                    self.add_line(
                        event.trace, event.cell, area.left, area.left_at - event.time_stamp, 1
                    )
                area.left = event.cell
                area.left_at = event.time_stamp
                area.has_left = event.had_value
        self.tail = self.marked_tail
        self.entry = self.marked_entry
        self.rows.end = self.marked_end
        self.make_chains()

    cdef void make_chains(self) noexcept:
        """Make the chains of the rows that have entered and not left."""
        cdef uint64_t position
        if self.has_chains() and self.traces:
            memset(self.chains, 0, self.traces * sizeof(Chain))
            for position in range(self.tail, self.entry):
                self.link(index_of(&self.rows, position))

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t number
        Window.clear_unsettled(self, flags, count)
        for number in range(min(count, <size_t> self.traces)):
            if self.areas[number].has_entered:
                flags[number] = 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        moved_states(self.areas, sizeof(Area), self.traces, numbers, count)
        moved_states(self.sums.words, number_bytes(&self.sums), self.traces, numbers, count)
        Window.renumber(self, numbers, count)
        self.make_chains()
        return 0

    cdef int write(self, NumberWriter writer) except -1:
        cdef uint32_t number
        cdef Area *area
        Window.write(self, writer)
        write_numbers(&self.sums, writer)
        for number in range(self.traces):
            area = &self.areas[number]
            writer.put(area.has_entered)
            writer.put(area.has_left)
            writer.put(zigzag(area.entered))
            writer.put(<uint64_t> area.entered_at)
            writer.put(zigzag(area.left))
            writer.put(<uint64_t> area.left_at)
            write_specials(&area.specials, writer)
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint32_t number
        cdef Area *area
        Window.read(self, reader)
        read_numbers(&self.sums, reader)
        resized(<void **> &self.areas, self.sums.traces, sizeof(Area))
        if self.has_chains():
            resized(<void **> &self.chains, self.sums.traces, sizeof(Chain))
        self.traces = self.sums.traces
        for number in range(self.traces):
            area = &self.areas[number]
            area.has_entered = reader.get(1) != 0
            area.has_left = reader.get(1) != 0
            area.entered = self.read_value(reader)
            area.entered_at = <int64_t> reader.get(INT64_MAX)
            area.left = self.read_value(reader)
            area.left_at = <int64_t> reader.get(INT64_MAX)
            read_specials(&area.specials, reader)
        self.require_rows()
        self.make_chains()
        return 0

    cdef size_t bytes_held(self):
        return (
            Window.bytes_held(self) + self.event_room * sizeof(Event)
            + self.traces * (self.state_bytes() + number_bytes(&self.sums))
        )

    cdef size_t state_bytes(self):
        return sizeof(Area) + self.has_chains() * sizeof(Chain)

    cdef object trace_bytes(self):
        cdef object words = most_words(&self.sums, self.is_float, 128)
        return self.state_bytes() + words * sizeof(uint64_t)

    def most_bytes(self, traces, rows, rows_of_trace, batch):
        return (
            Window.most_bytes(self, traces, rows, rows_of_trace, batch)
            + 2 * (rows + batch) * sizeof(Event)
        )

    # ---- states by trace -----------------------------------------------------------------------

    # If it is bounded, the rows, and whether a value has left, that value and its time: these make
    # the sum. Otherwise, the last value that has entered is there with the sum.

    cdef bint has_states_by_trace(self):
        return True

    cdef int begin_by_trace(self) except -1:
        self.rows.has_links = False
        self.noted = 0
        resized(<void **> &self.events, 1, sizeof(Event))
        self.event_room = 1
        return Window.begin_by_trace(self)

    cdef int put_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t value
    ) except -1 nogil:
        return push_by_trace(self, time_stamp, trace, value)

    cdef int get_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t *value
    ) except -1 nogil:
        return self.get(time_stamp, trace, value)

    cdef int step(self, const RowColumns *columns) except -1 nogil:
        return step_by_trace(self, columns)

    cdef int pass_trace(self, uint32_t trace, int64_t moment) except -1 nogil:
        return advance_trace(self, moment, trace)

    cdef int take(self, size_t index) except -1 nogil:
        return self.enter(index)

    cdef inline void expect_by_trace(self, uint32_t trace) noexcept nogil:
        expect_rows(self, trace)

    cdef size_t state_words(self, uint32_t trace) noexcept nogil:
        return Window.state_words(self, trace) + (LEFT_WORDS if self.is_bounded else 0)

    cdef void write_state(self, uint32_t trace, uint64_t *words) noexcept nogil:
        cdef const Area *area = &self.areas[trace]
        Window.write_state(self, trace, words)
        if self.is_bounded:
            words += Window.state_words(self, trace)
            words[0] = area.has_left
            words[1] = <uint64_t> area.left
            words[2] = <uint64_t> area.left_at

    cdef int read_state(self, uint32_t trace, const uint64_t *words, size_t size) except -1 nogil:
        cdef Area *area = &self.areas[trace]
        cdef Ring *ring
        memset(area, 0, sizeof(Area))
        memset(number_of(&self.sums, trace), 0, number_bytes(&self.sums))
        if not self.is_at_once:
            ring = &self.rings.of[trace]
            ring.start = ring.entry = ring.end = 0
        if not self.is_bounded or words == NULL:
            return Window.read_state(self, trace, words, size)
        if size < LEFT_WORDS:
            with gil:
                raise damaged()
        size -= LEFT_WORDS
        if words[size]:
            area.has_left = area.has_entered = True
            area.left = area.entered = self.value_of_word(words[size + 1])
            area.left_at = area.entered_at = <int64_t> words[size + 2]
        return Window.read_state(self, trace, words, size)

    cdef size_t total_words(self, uint32_t trace) noexcept nogil:
        cdef size_t words = 3 + number_words(&self.sums, trace)
        return words + (SPECIAL_WORDS if has_specials(&self.areas[trace].specials) else 0)

    cdef void write_total(self, uint32_t trace, uint64_t *words) noexcept nogil:
        cdef const Area *area = &self.areas[trace]
        cdef bint is_special = has_specials(&area.specials)
        words[0] = <uint64_t> area.has_entered << 1 | is_special
        words[1] = <uint64_t> area.entered
        words[2] = <uint64_t> area.entered_at
        words += 3
        if is_special:
            memcpy(words, &area.specials, sizeof(Specials))
            words += SPECIAL_WORDS
        write_number(&self.sums, trace, words)

    cdef int read_total(self, uint32_t trace, const uint64_t *words, size_t size) except -1 nogil:
        cdef Area *area = &self.areas[trace]
        cdef size_t done = 3
        cdef int exponent = 0
        cdef Numbers wide
        if words == NULL:
            return 0
        if size < 3 or (words[0] & 1 and size < 3 + SPECIAL_WORDS):
            with gil:
                raise damaged()
        area.has_entered = words[0] >> 1 != 0
        area.entered = self.value_of_word(words[1])
        area.entered_at = <int64_t> words[2]
        if words[0] & 1:
            memcpy(&area.specials, words + done, sizeof(Specials))
            done += SPECIAL_WORDS
        while wanted_exponent(
            &self.sums, words + done, size - done, MOST_AREA_WORDS, &exponent
        ):
            wide = widened(&self.sums, exponent, 128, False)
            if wide.words == NULL:
                with gil:
                    raise MemoryError("mtlmon: out of memory")
            take_numbers(&self.sums, &wide)
        done += read_number(&self.sums, trace, words + done)
        if done != size:
            with gil:
                raise damaged()
        return 0
