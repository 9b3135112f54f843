# cython: language_level=3
"""Windows [a,b]: aggregates over the rows that lie at least a and at most b before the present.

All traces share the clock, so rows enter and leave windows in one order, that of the log: one queue
serves all traces, and what leaves is taken off the state of its own trace. A window without an
upper bound forgets the rows that have entered.
"""

from libc.math cimport sqrt


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

    def __dealloc__(self):
        free_rows(&self.rows)

    cdef int set_bounds(self, int64_t lower, int64_t upper) except -1:
        if lower < 0 or -1 != upper < lower:
            raise ValueError(f"no interval from {lower} to {upper}")
        self.lower = lower
        self.upper = upper
        self.is_bounded = upper >= 0
        return 0

    cdef int make_room(self, uint32_t traces, size_t rows) except -1:
        reserve_rows(&self.rows, rows)
        if traces > self.traces:
            self.resize_traces(room_for(traces, self.traces))
        return 0

    cdef int resize_traces(self, uint32_t traces) except -1:
        """Give the states of traces more room, and clear the new ones."""
        raise NotImplementedError

    def begin(self):
        if not self.is_bounded:
            self.tail = self.entry
        forget_rows(&self.rows, self.tail)
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

    cdef int renumber(self, const uint32_t *numbers, size_t count, uint32_t kept) except -1:
        self.entry = renumber_rows(&self.rows, numbers, count, self.entry)
        self.tail = self.rows.start
        self.begin()
        return 0

    cdef int restart(self) except -1:
        restart_rows(&self.rows)
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
        cdef uint32_t traces = read_rows(&self.rows, reader)
        if entered > self.rows.end or (entered and not self.is_bounded):
            raise damaged()
        self.make_room(traces, 0)
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
        return rows_bytes(&self.rows)

    cdef object trace_bytes(self):
        """The most bytes of the state of a trace, without its rows."""
        raise NotImplementedError

    def most_bytes(self, traces, rows, rows_of_trace, batch):
        return (
            most_rows_bytes(&self.rows, rows, batch) + most_traces(traces) * self.trace_bytes()
        )


ctypedef fused AnyWindow:
    CountWindow
    SumWindow
    QueueWindow
    DistinctWindow
    QuantileWindow
    IntegralWindow


cdef inline int advance(AnyWindow window, int64_t now) except -1 nogil:
    """Let rows enter and leave the windows of all traces."""
    cdef Rows *rows = &window.rows
    cdef int64_t limit = now - window.lower
    cdef size_t index
    while window.entry < rows.end and rows.time_stamps[index_of(rows, window.entry)] <= limit:
        window.enter(index_of(rows, window.entry))
        window.entry += 1
    if window.is_bounded:
        limit = now - window.upper
        while window.tail < window.entry:
            index = index_of(rows, window.tail)
            if rows.time_stamps[index] >= limit:
                break
            if window.tail + AHEAD < rows.end:
                window.expect(rows.numbers[index + AHEAD])
            window.leave(index)
            window.tail += 1
    return 0


ctypedef fused ExactWindow:
    CountWindow
    SumWindow
    DistinctWindow
    QuantileWindow


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

    cdef inline int enter(self, size_t index) except -1 nogil:
        self.counts[self.rows.numbers[index]] += weight_of(&self.rows, index)
        return 0

    cdef inline int leave(self, size_t index) except -1 nogil:
        self.counts[self.rows.numbers[index]] -= weight_of(&self.rows, index)
        return 0

    def set_panes(self, int64_t width, size_t few_rows=FEW_ROWS):
        self.rows.has_weights = True
        return set_width(&self.panes, &self.rows, width, few_rows)

    cdef inline void merge(self, size_t index, size_t later) noexcept nogil:
        """Let a row stand for a later one, too."""
        self.rows.weights[index] += self.rows.weights[later]

    def condense(self):
        condense_window(self)

    cdef inline void expect(self, uint32_t trace) noexcept nogil:
        """Fetch the state of a trace, which is needed soon."""
        prefetch(&self.counts[trace])

    cdef int put(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        push_row(&self.rows, time_stamp, trace, value)
        return 0

    cdef int get(self, int64_t time_stamp, uint32_t trace, int64_t *value) except -1 nogil:
        advance(self, time_stamp)
        value[0] = self.counts[trace]
        return FOUND

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        with nogil:
            return run_rows(self, batch, arguments, values, mask, wanted, results, validity)

    def undo(self):
        take_back(self)

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t number
        Window.clear_unsettled(self, flags, count)
        for number in range(min(count, <size_t> self.traces)):
            if self.counts[number]:
                flags[number] = 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count, uint32_t kept) except -1:
        moved_states(self.counts, sizeof(int64_t), self.traces, numbers, count, kept)
        return Window.renumber(self, numbers, count, kept)

    cdef int write(self, NumberWriter writer) except -1:
        cdef uint32_t number
        Window.write(self, writer)
        if not self.is_bounded:
            writer.put(self.traces)
            for number in range(self.traces):
                writer.put(<uint64_t> self.counts[number])
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint64_t position
        cdef uint32_t traces, number
        Window.read(self, reader)
        if self.is_bounded:
            for position in range(self.tail, self.entry):
                self.enter(index_of(&self.rows, position))
            return 0
        traces = <uint32_t> min(<uint64_t> MOST_TRACES, reader.get_count(1))
        self.make_room(traces, 0)
        for number in range(traces):
            self.counts[number] = <int64_t> reader.get(INT64_MAX)
        return 0

    cdef size_t bytes_held(self):
        return Window.bytes_held(self) + self.traces * sizeof(int64_t)

    cdef object trace_bytes(self):
        return sizeof(int64_t)


cdef enum SumKind:
    SUM
    AVERAGE
    VARIANCE
    DEVIATION


cdef struct SumState:
    int64_t count
    Specials specials


@final
cdef class SumWindow(Window):
    """Sums, averages, variances or standard deviations of samples.

    Sums, and for variances sums of squares, are exact until the result is rounded.

    kind: "sum", "avg", "var" or "stddev".
    is_float: whether values are floats; otherwise, they are integers.
    """

    cdef SumKind kind
    cdef bint is_float
    cdef SumState *states
    cdef Numbers sums
    cdef Numbers squares        # unused for sums and averages

    def __cinit__(self, str kind not None, bint is_float, int64_t lower, int64_t upper):
        kinds = {"sum": SUM, "avg": AVERAGE, "var": VARIANCE, "stddev": DEVIATION}
        if kind not in kinds:
            raise ValueError(f"unknown sum {kind!r}")
        self.kind = kinds[kind]
        self.is_float = is_float
        self.set_bounds(lower, upper)
        init_rows(&self.rows, True, False)
        self.sums.width = 4 if is_float else 2
        self.sums.exponent = -128 if is_float else 0
        self.squares.width = 2 * self.sums.width
        self.squares.exponent = 2 * self.sums.exponent

    def __dealloc__(self):
        free(self.states)
        free(self.sums.words)
        free(self.squares.words)

    cdef inline bint has_squares(self) noexcept nogil:
        return self.kind >= VARIANCE

    cdef int resize_traces(self, uint32_t traces) except -1:
        resized(<void **> &self.states, traces, sizeof(SumState))
        memset(self.states + self.traces, 0, (traces - self.traces) * sizeof(SumState))
        resize_numbers(&self.sums, traces)
        if self.has_squares():
            resize_numbers(&self.squares, traces)
        self.traces = traces
        return 0

    cdef int widen(self, int exponent) except -1 nogil:
        """Make all numbers wide enough for terms with this exponent."""
        cdef Numbers sums = widened(&self.sums, exponent, 64, False)
        cdef Numbers squares
        squares.words = NULL
        if self.has_squares():
            squares = widened(&self.sums, exponent, 64, True)
        if sums.words == NULL or (self.has_squares() and squares.words == NULL):
            free(sums.words)
            free(squares.words)
            with gil:
                raise MemoryError("mtlmon: out of memory")
        take_numbers(&self.sums, &sums)
        if self.has_squares():
            take_numbers(&self.squares, &squares)
        return 0

    cdef inline int change(self, size_t index, int sign) except -1 nogil:
        """Add or subtract the value of a row."""
        cdef uint32_t trace = self.rows.numbers[index]
        cdef SumState *state = &self.states[trace]
        cdef Term term
        cdef FloatClass found = term_of(self.is_float, self.rows.values[index], &term)
        cdef uint32_t shift
        cdef int64_t weight = sign * weight_of(&self.rows, index)
        state.count += weight
        if found != FINITE:
            count_special(&state.specials, found, weight)
            return 0
        if term.magnitude == 0:
            return 0
        if not has_place(&self.sums, term.exponent, 64):
            self.widen(term.exponent)
        shift = <uint32_t> (term.exponent - self.sums.exponent)
        add_magnitude(
            number_of(&self.sums, trace), self.sums.width, term.magnitude, shift,
            term.is_negative ^ (sign < 0)
        )
        if self.has_squares():
            add_product(
                number_of(&self.squares, trace), self.squares.width, term.magnitude,
                term.magnitude, 2 * shift, sign < 0
            )
        return 0

    cdef inline int enter(self, size_t index) except -1 nogil:
        return self.change(index, 1)

    cdef inline int leave(self, size_t index) except -1 nogil:
        return self.change(index, -1)

    cdef inline void expect(self, uint32_t trace) noexcept nogil:
        """Fetch the state of a trace, which is needed soon."""
        prefetch(&self.states[trace])
        prefetch(number_of(&self.sums, trace))

    def set_panes(self, int64_t width, size_t few_rows=FEW_ROWS):
        if self.has_squares():
            return False
        self.rows.has_weights = True
        return set_width(&self.panes, &self.rows, width, few_rows)

    def condense(self):
        condense_sums(self)

    cdef int put(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        push_row(&self.rows, time_stamp, trace, value)
        return 0

    cdef int get(self, int64_t time_stamp, uint32_t trace, int64_t *value) except -1 nogil:
        cdef SumState *state
        cdef const uint64_t *sums
        cdef double total
        advance(self, time_stamp)
        state = &self.states[trace]
        sums = number_of(&self.sums, trace)
        if state.count < 1 + self.has_squares():
            value[0] = 0
            return NOTHING
        if self.kind == SUM and not self.is_float:
            value[0] = <int64_t> sums[0]
            return FOUND if sums[1] == <uint64_t> (value[0] >> 63) else OVERFLOWS
        if self.has_squares():
            total = NAN
            if not has_specials(&state.specials):
                total = variance(
                    sums, number_of(&self.squares, trace), self.sums.width, self.sums.exponent,
                    state.count
                )
            if self.kind == DEVIATION:
                total = sqrt(total)
        elif has_specials(&state.specials):
            total = special_sum(&state.specials)
        else:
            total = rounded(sums, self.sums.width, self.sums.exponent)
        if self.kind == AVERAGE:
            total /= <double> state.count
        memcpy(value, &total, sizeof(total))
        return FOUND

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        with nogil:
            return run_rows(self, batch, arguments, values, mask, wanted, results, validity)

    def undo(self):
        take_back(self)

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t number
        Window.clear_unsettled(self, flags, count)
        for number in range(min(count, <size_t> self.traces)):
            if self.states[number].count:
                flags[number] = 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count, uint32_t kept) except -1:
        moved_states(self.states, sizeof(SumState), self.traces, numbers, count, kept)
        moved_states(
            self.sums.words, number_bytes(&self.sums), self.traces, numbers, count, kept
        )
        if self.has_squares():
            moved_states(
                self.squares.words, number_bytes(&self.squares), self.traces, numbers, count, kept
            )
        return Window.renumber(self, numbers, count, kept)

    cdef int write(self, NumberWriter writer) except -1:
        cdef uint32_t number
        Window.write(self, writer)
        if self.is_bounded:
            return 0
        write_numbers(&self.sums, writer)
        if self.has_squares():
            write_numbers(&self.squares, writer)
        for number in range(self.traces):
            writer.put(<uint64_t> self.states[number].count)
            write_specials(&self.states[number].specials, writer)
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint64_t position
        cdef uint32_t number
        Window.read(self, reader)
        if self.is_bounded:
            for position in range(self.tail, self.entry):
                self.enter(index_of(&self.rows, position))
            return 0
        read_numbers(&self.sums, reader)
        if self.has_squares():
            read_numbers(&self.squares, reader)
            if (
                self.squares.traces != self.sums.traces
                or self.squares.width != 2 * self.sums.width
                or self.squares.exponent != 2 * self.sums.exponent
            ):
                raise damaged()
        resized(<void **> &self.states, self.sums.traces, sizeof(SumState))
        memset(self.states, 0, self.sums.traces * sizeof(SumState))
        self.traces = self.sums.traces
        for number in range(self.traces):
            self.states[number].count = <int64_t> reader.get(INT64_MAX)
            read_specials(&self.states[number].specials, reader)
        return self.require_rows()

    cdef size_t bytes_held(self):
        cdef size_t item = sizeof(SumState) + number_bytes(&self.sums)
        if self.has_squares():
            item += number_bytes(&self.squares)
        return Window.bytes_held(self) + self.traces * item

    cdef object trace_bytes(self):
        cdef object words = most_words(&self.sums, self.is_float, 64)
        return sizeof(SumState) + (1 + 2 * self.has_squares()) * words * sizeof(uint64_t)


cdef enum QueueKind:
    FIRST
    LAST
    LARGEST
    SMALLEST


cdef QueueKind queue_kind(str name) except? FIRST:
    kinds = {"first": FIRST, "last": LAST, "max": LARGEST, "min": SMALLEST}
    if name not in kinds:
        raise ValueError(f"unknown aggregate {name!r}")
    return kinds[name]


cdef inline int64_t order_code(
    QueueKind kind, bint is_float, bint is_text, int64_t cell
) noexcept nogil:
    """A number for a cell, so that the wanted one of several cells has the largest number.

    NaN is wanted most. -0.0 is below 0.0, so that results do not depend on the order of rows.
    Texts keep their numbers; see `is_wanted_less`.
    """
    if kind == FIRST or kind == LAST or is_text:
        return cell
    if is_float:
        if cell & INT64_MAX > INFINITE_BITS:
            return INT64_MAX
        if cell < 0:
            cell ^= INT64_MAX
    return ~cell if kind == SMALLEST else cell


cdef inline int64_t cell_of_code(
    QueueKind kind, bint is_float, bint is_text, int64_t code
) noexcept nogil:
    if kind == FIRST or kind == LAST or is_text:
        return code
    if is_float and code == INT64_MAX:
        return NAN_BITS
    if kind == SMALLEST:
        code = ~code
    return code ^ INT64_MAX if is_float and code < 0 else code


cdef inline bint is_wanted_less(
    QueueKind kind, const Ranks *ranks, int64_t code, int64_t other
) noexcept nogil:
    """Whether a code is wanted no more than another."""
    if ranks.places == NULL:
        return code <= other
    if kind == SMALLEST:
        return rank_of(ranks, code) >= rank_of(ranks, other)
    return rank_of(ranks, code) <= rank_of(ranks, other)


cdef struct Chain:
    # The positions of the first and last row, and the number of rows.
    uint32_t front, back, count


@final
cdef class QueueWindow(Window):
    """The first, last, smallest or largest value in a window.

    The rows of a trace that may still become the result are a chain within the rows of all traces:
    each is wanted less than the ones before it.

    kind: "first", "last", "min" or "max".
    is_float: whether values are floats; otherwise, their cells are compared as integers.
    is_text: whether they are the numbers of texts, which are compared by their ranks.
    """

    cdef QueueKind kind
    cdef bint is_float, is_text
    cdef Chain *chains

    def __cinit__(
        self, str kind not None, bint is_float, int64_t lower, int64_t upper, bint is_text=False
    ):
        self.kind = queue_kind(kind)
        self.is_float = is_float
        self.is_text = is_text
        self.set_bounds(lower, upper)
        if not self.is_bounded:
            raise ValueError("a window without an upper bound is a fold")
        init_rows(&self.rows, True, True)

    def __dealloc__(self):
        free(self.chains)

    cdef int resize_traces(self, uint32_t traces) except -1:
        resized(<void **> &self.chains, traces, sizeof(Chain))
        memset(self.chains + self.traces, 0, (traces - self.traces) * sizeof(Chain))
        self.traces = traces
        return 0

    cdef inline bint is_superseded(self, uint32_t position, int64_t code) noexcept nogil:
        """Whether a row cannot become the result once a later one has this code."""
        if self.kind == FIRST:
            return False
        return self.kind == LAST or is_wanted_less(
            self.kind, &self.ranks, self.rows.values[linked_index(&self.rows, position)], code
        )

    cdef inline int enter(self, size_t index) except -1 nogil:
        cdef Rows *rows = &self.rows
        cdef Chain *chain = &self.chains[rows.numbers[index]]
        cdef uint32_t position = <uint32_t> (index + rows.base)
        while chain.count and self.is_superseded(chain.back, rows.values[index]):
            chain.back = rows.preceding[linked_index(rows, chain.back)]
            chain.count -= 1
        if chain.count:
            rows.following[linked_index(rows, chain.back)] = position
            rows.preceding[index] = chain.back
        else:
            chain.front = position
        chain.back = position
        chain.count += 1
        return 0

    cdef inline int leave(self, size_t index) except -1 nogil:
        cdef Chain *chain = &self.chains[self.rows.numbers[index]]
        if chain.count and chain.front == <uint32_t> (index + self.rows.base):
            chain.front = self.rows.following[index]
            chain.count -= 1
        return 0

    cdef inline void expect(self, uint32_t trace) noexcept nogil:
        """Fetch the state of a trace, which is needed soon."""
        prefetch(&self.chains[trace])

    def set_panes(self, int64_t width, size_t few_rows=FEW_ROWS):
        # The order of texts is only known while rows are fed.
        return not self.is_text and set_width(&self.panes, &self.rows, width, few_rows)

    cdef inline void merge(self, size_t index, size_t later) noexcept nogil:
        """Let a row have the value of a later one, if that is wanted more."""
        choose(self.kind, &self.rows, index, later)

    def condense(self):
        if condense_window(self):
            self.rebuild()

    cdef int put(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        push_row(
            &self.rows, time_stamp, trace, order_code(self.kind, self.is_float, self.is_text, value)
        )
        return 0

    cdef int get(self, int64_t time_stamp, uint32_t trace, int64_t *value) except -1 nogil:
        cdef Chain *chain
        advance(self, time_stamp)
        chain = &self.chains[trace]
        if chain.count == 0:
            value[0] = 0
            return NOTHING
        value[0] = cell_of_code(
            self.kind, self.is_float, self.is_text,
            self.rows.values[linked_index(&self.rows, chain.front)]
        )
        return FOUND

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        with nogil:
            return run_rows(self, batch, arguments, values, mask, wanted, results, validity)

    cdef int rebuild(self) except -1:
        """Make the chains of the rows that have entered and not left."""
        cdef uint64_t position
        if self.traces:
            memset(self.chains, 0, self.traces * sizeof(Chain))
        for position in range(self.tail, self.entry):
            self.enter(index_of(&self.rows, position))
        return 0

    def undo(self):
        self.tail = self.marked_tail
        self.entry = self.marked_entry
        self.rows.end = self.marked_end
        self.rebuild()

    cdef int renumber(self, const uint32_t *numbers, size_t count, uint32_t kept) except -1:
        Window.renumber(self, numbers, count, kept)
        return self.rebuild()

    cdef int read(self, NumberReader reader) except -1:
        Window.read(self, reader)
        return self.rebuild()

    cdef size_t bytes_held(self):
        return Window.bytes_held(self) + self.traces * sizeof(Chain)

    cdef object trace_bytes(self):
        return sizeof(Chain)
