# cython: language_level=3
"""Sums over the steps between successive values in a window: integrals, and growth of counters."""

from libc.math cimport isfinite, isinf


cdef enum:
    # what is written of the value that has left a window
    LEFT_WORDS = 3
    # how many words an area can have above the point, and below it
    MOST_AREA_WORDS = MOST_SUM_WORDS + 2


cdef enum StepKind:
    # what is added up of two successive values
    HELD                # the earlier one, times the time between them
    LINES               # the area under the line between them
    INCREASES           # how much larger the later one is; all of it if it is smaller
    RATES               # the same, and the sum is divided by a length of time
    CHANGES             # 1 if they differ
    RESETS              # 1 if the later one is smaller


cdef StepKind step_kind(str kind) except <StepKind> -1:
    if kind == "integral":
        return HELD
    if kind == "lines":
        return LINES
    if kind == "increase":
        return INCREASES
    if kind == "rate":
        return RATES
    if kind == "changes":
        return CHANGES
    if kind == "resets":
        return RESETS
    raise ValueError(f"no steps of kind {kind!r}")


cdef struct Area:
    # The last value that entered the window, and the last one that left it.
    int64_t entered, entered_at
    int64_t left, left_at
    uint8_t has_entered, has_left
    uint8_t has_step            # whether several values have entered
    Specials specials


cdef struct Event:
    # That a row entered or left, and what it took the place of.
    uint32_t trace
    uint8_t is_entry, had_value, had_step
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
cdef class StepWindow(Window):
    """A sum over the steps between successive values.

    Each trace has the exact sum over the steps between the last row that left the window and the
    last one that entered.

    The integral is that of the held value, from the first value of the trace on: steps are value *
    length, and the steps at both ends of the window are added on reading. With lines, values do not
    hold, but go to the next one on a line. Steps are lines, and have twice their area. On reading,
    the one in which the window begins is taken off, and what lies in the window is added to the
    rounded sum of the others.

    The others are about counters, and their steps are those between the values in the window. So
    the step to the first of these is taken off on reading.

    kind: "integral", "lines", "increase", "rate", "changes" or "resets".
    is_float: whether values are floats; otherwise, they are integers.
    length: for a rate, what the increase is divided by.
    """

    cdef StepKind kind
    cdef bint is_counter        # whether only steps between values in the window count
    cdef bint is_float
    cdef double length
    cdef Area *areas
    cdef Chain *chains          # of the rows in the window, if its first value matters
    cdef Numbers sums
    cdef Event *events          # those of the batch
    cdef size_t event_count, event_room
    cdef size_t noted           # how many places an event takes
    cdef int64_t from_end, to_end   # how far before the present the window ends and begins

    def __cinit__(
        self, str kind not None, bint is_float, int64_t lower, int64_t upper, double length=1
    ):
        self.kind = step_kind(kind)
        self.is_counter = self.kind != HELD and self.kind != LINES
        self.is_float = is_float
        self.length = length
        self.noted = 1
        self.set_bounds(lower, upper)
        self.from_end = self.lower
        self.to_end = self.upper
        if not self.is_counter:
            # a row leaves when the window begins at its time-stamp: its step is then the first one
            self.upper -= self.is_bounded
        init_rows(&self.rows, True, self.has_chains())
        self.sums.width = 4
        self.sums.exponent = -128 if is_float and not self.counts_steps() else 0

    cdef inline bint counts_steps(self) noexcept nogil:
        return self.kind == CHANGES or self.kind == RESETS

    cdef inline bint has_chains(self) noexcept nogil:
        return self.kind != HELD and self.is_bounded

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

    cdef inline int add_between(
        self, uint32_t trace, int64_t cell, int64_t other, int64_t length, int sign
    ) except -1 nogil:
        """Add or subtract the step between two successive values."""
        if self.is_counter:
            return self.add_growth(trace, cell, other, sign)
        self.add_step(trace, cell, length, sign)
        if self.kind == LINES:
            self.add_step(trace, other, length, sign)
        return 0

    cdef int add_growth(
        self, uint32_t trace, int64_t cell, int64_t other, int sign
    ) except -1 nogil:
        if not self.counts_steps():
            return self.add_increase(trace, cell, other, sign)
        if self.is_counted(cell, other):
            add_magnitude(number_of(&self.sums, trace), self.sums.width, 1, 0, sign < 0)
        return 0

    cdef inline bint is_counted(self, int64_t cell, int64_t other) noexcept nogil:
        """Whether a step is a change, or a reset."""
        cdef double before, after
        if not self.is_float:
            return other != cell if self.kind == CHANGES else other < cell
        before = number_of_cell(True, cell)
        after = number_of_cell(True, other)
        return after != before if self.kind == CHANGES else after < before

    cdef int add_increase(
        self, uint32_t trace, int64_t cell, int64_t other, int sign
    ) except -1 nogil:
        """Add or subtract the increase from a value to the next one, exactly."""
        cdef double before, after
        cdef int64_t found
        cdef bint is_reset = other < cell
        if self.is_float:
            before = number_of_cell(True, cell)
            after = number_of_cell(True, other)
            is_reset = not after >= before
            if not (isfinite(before) and isfinite(after)):
                if not is_reset:
                    after -= before
                memcpy(&found, &after, sizeof(found))
                return self.add_step(trace, found, 1, sign)
        self.add_step(trace, other, 1, sign)
        return 0 if is_reset else self.add_step(trace, cell, 1, -sign)

    cdef inline void note(
        self, uint32_t trace, bint is_entry, bint had_value, int64_t cell, int64_t time_stamp
    ) noexcept nogil:
        cdef Event *event = &self.events[self.event_count]
        event.trace = trace
        event.is_entry = is_entry
        event.had_value = had_value
        event.had_step = self.areas[trace].has_step
        event.cell = cell
        event.time_stamp = time_stamp
        # with states by trace, nothing is taken back, and one place serves all
        self.event_count += self.noted

    cdef inline int enter(self, size_t index) except -1 nogil:
        cdef uint32_t trace = self.rows.numbers[index]
        cdef Area *area = &self.areas[trace]
        cdef int64_t now = self.rows.time_stamps[index]
        cdef int64_t cell = self.rows.values[index]
        self.note(trace, True, area.has_entered, area.entered, area.entered_at)
        if area.has_entered:
            self.add_between(trace, area.entered, cell, now - area.entered_at, 1)
            area.has_step = True
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
            self.add_between(trace, area.left, cell, now - area.left_at, -1)
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
        if self.is_counter:
            return self.growth(trace, value)
        if not area.has_entered or self.is_before_lines(area, time_stamp):
            value[0] = 0
            return NOTHING
        if self.kind == LINES:
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

    cdef int growth(self, uint32_t trace, int64_t *value) except -1 nogil:
        """Compute what the steps between the values in the window add up to."""
        cdef Area *area = &self.areas[trace]
        cdef size_t index = 0
        cdef bint is_alone = not area.has_step
        cdef bint has_step_before
        cdef int found
        value[0] = 0
        if self.is_bounded:
            if not self.has_first(trace, &index):
                return NOTHING
            is_alone = self.count_of(trace) < 2
        elif not area.has_entered:
            return NOTHING
        if is_alone:
            return FOUND if self.counts_steps() else NOTHING
        has_step_before = self.is_bounded and area.has_left
        if has_step_before:
            self.add_between(trace, area.left, self.rows.values[index], 0, -1)
        found = self.sum_of(trace, value)
        if has_step_before:
            self.add_between(trace, area.left, self.rows.values[index], 0, 1)
        return found

    cdef int sum_of(self, uint32_t trace, int64_t *value) noexcept nogil:
        """Compute the sum of a trace: an integer, if values are or steps are counted."""
        cdef const uint64_t *words = number_of(&self.sums, trace)
        cdef uint32_t place
        cdef double total
        if self.counts_steps() or (self.kind == INCREASES and not self.is_float):
            value[0] = <int64_t> words[0]
            for place in range(1, self.sums.width):
                if words[place] != <uint64_t> (value[0] >> 63):
                    return OVERFLOWS
            return FOUND
        if has_specials(&self.areas[trace].specials):
            total = special_sum(&self.areas[trace].specials)
        else:
            total = rounded(words, self.sums.width, self.sums.exponent)
        if self.kind == RATES:
            total /= self.length
        memcpy(value, &total, sizeof(total))
        return FOUND

    cdef inline uint32_t count_of(self, uint32_t trace) noexcept nogil:
        """How many rows of a trace are in the window."""
        if self.is_by_trace:
            return self.rings.of[trace].entry - self.rings.of[trace].start
        return self.chains[trace].count

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
        self.add_between(trace, area.left, first, length, -1)
        if has_specials(&area.specials):
            total = special_sum(&area.specials)
        else:
            total = rounded(
                number_of(&self.sums, trace), self.sums.width, self.sums.exponent - 1
            )
        self.add_between(trace, area.left, first, length, 1)
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
                    self.add_between(
                        event.trace, event.cell, area.entered, area.entered_at - event.time_stamp,
                        -1
                    )
                area.has_step = event.had_step
                area.entered = event.cell
                area.entered_at = event.time_stamp
                area.has_entered = event.had_value
            else:
                if event.had_value:
                    self.add_between(
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
        if self.is_bounded and self.is_counter:
            # a step from a value that has left does not count
            return 0
        for number in range(min(count, <size_t> self.traces)):
            if self.areas[number].has_entered:
                flags[number] = 0
        return 0

    cdef int visit_texts(self, const TextMarks *marks) except -1:
        cdef uint32_t number
        cdef Area *area
        Window.visit_texts(self, marks)
        for number in range(self.traces):
            area = &self.areas[number]
            if area.has_entered:
                visit_text(&area.entered, marks)
            if area.has_left:
                visit_text(&area.left, marks)
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
            writer.put(<uint64_t> area.has_step << 1 | area.has_entered)
            writer.put(area.has_left)
            writer.put(zigzag(area.entered))
            writer.put(<uint64_t> area.entered_at)
            writer.put(zigzag(area.left))
            writer.put(<uint64_t> area.left_at)
            write_specials(&area.specials, writer)
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint64_t flags
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
            flags = reader.get(3)
            area.has_entered = flags & 1
            area.has_step = flags >> 1 != 0
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

    # If it is bounded, the rows make the sum; that of an area needs also the last value that has
    # left, if there is one, and its time. Otherwise, the last value that has entered is there with
    # the sum.

    cdef inline bint keeps_left(self) noexcept nogil:
        return self.is_bounded and not self.is_counter

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
        return Window.state_words(self, trace) + (LEFT_WORDS if self.keeps_left() else 0)

    cdef void write_state(self, uint32_t trace, uint64_t *words) noexcept nogil:
        cdef const Area *area = &self.areas[trace]
        Window.write_state(self, trace, words)
        if self.keeps_left():
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
        if not self.keeps_left() or words == NULL:
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

    cdef int visit_texts_of_total(self, uint64_t *words, const TextMarks *marks) except -1:
        visit_text(<int64_t *> &words[1], marks)
        return 0

    cdef size_t total_words(self, uint32_t trace) noexcept nogil:
        cdef size_t words = 3 + number_words(&self.sums, trace)
        return words + (SPECIAL_WORDS if has_specials(&self.areas[trace].specials) else 0)

    cdef void write_total(self, uint32_t trace, uint64_t *words) noexcept nogil:
        cdef const Area *area = &self.areas[trace]
        cdef bint is_special = has_specials(&area.specials)
        words[0] = <uint64_t> is_special
        words[0] |= <uint64_t> area.has_entered << 1 | <uint64_t> area.has_step << 2
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
        area.has_entered = words[0] >> 1 & 1
        area.has_step = words[0] >> 2 != 0
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
