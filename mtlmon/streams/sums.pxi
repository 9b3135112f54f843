# cython: language_level=3
"""Windows of sums, averages, variances and standard deviations, which are exact."""

from libc.math cimport isinf, sqrt


cdef struct SumState:
    int64_t count
    Specials specials


cdef enum:
    # A pane has the words of a `SumState`: first the count, and last the specials.
    STATE_WORDS = 4
    SPECIAL_WORDS = 3
    # by how many powers of two sums are made smaller that no float has
    MUCH = 600
    # how many words a sum can have above the point, and below it
    MOST_SUM_WORDS = 20


cdef SumKind sum_kind(str kind) except <SumKind> -1:
    if kind == "sum":
        return SUM
    if kind == "avg":
        return AVERAGE
    if kind == "var":
        return VARIANCE
    if kind == "stddev":
        return DEVIATION
    raise ValueError(f"unknown sum {kind!r}")


cdef double deviation_of(
    const Numbers *sums, const Numbers *squares, uint32_t trace, int64_t count, double found
) noexcept nogil:
    """The root of a variance, also where no float has the latter."""
    if not isinf(found):
        return sqrt(found)
    found = variance(
        number_of(sums, trace), number_of(squares, trace), sums.width, sums.exponent - MUCH, count
    )
    return ldexp(sqrt(found), MUCH)


cdef int result_of_sums(
    SumKind kind, bint is_float, int64_t count, const Specials *specials, const Numbers *sums,
    const Numbers *squares, uint32_t trace, int64_t *value
) noexcept nogil:
    """Compute what exact sums of so many values say: NOTHING if these are too few, or OVERFLOWS."""
    cdef const uint64_t *words = number_of(sums, trace)
    cdef bint has_squares = kind >= VARIANCE
    cdef double total
    if count < 1 + has_squares:
        value[0] = 0
        return NOTHING
    if kind == SUM and not is_float:
        value[0] = <int64_t> words[0]
        return FOUND if words[1] == <uint64_t> (value[0] >> 63) else OVERFLOWS
    if has_squares:
        total = NAN
        if not has_specials(specials):
            total = variance(words, number_of(squares, trace), sums.width, sums.exponent, count)
        if kind == DEVIATION:
            total = deviation_of(sums, squares, trace, count, total)
    elif has_specials(specials):
        total = special_sum(specials)
    else:
        total = rounded(words, sums.width, sums.exponent)
        if kind == AVERAGE and isinf(total):
            # no float has this sum, but one has the average
            total = rounded(words, sums.width, sums.exponent - MUCH)
            total = ldexp(total / <double> count, MUCH)
            memcpy(value, &total, sizeof(total))
            return FOUND
    if kind == AVERAGE:
        total /= <double> count
    memcpy(value, &total, sizeof(total))
    return FOUND


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
        self.kind = sum_kind(kind)
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
        cdef uint64_t *words = NULL
        cdef bint has_words = True
        squares.words = NULL
        if self.has_squares():
            squares = widened(&self.sums, exponent, 64, True)
        if self.panes.width:
            has_words = has_resized(
                <void **> &words, self.rows.room, self.pane_words(sums.width) * sizeof(uint64_t)
            )
        if sums.words == NULL or (self.has_squares() and squares.words == NULL) or not has_words:
            free(sums.words)
            free(squares.words)
            free(words)
            with gil:
                raise MemoryError("mtlmon: out of memory")
        if self.panes.width:
            self.take_panes(words, &sums, &squares)
        take_numbers(&self.sums, &sums)
        if self.has_squares():
            take_numbers(&self.squares, &squares)
        return 0

    cdef inline uint32_t pane_words(self, uint32_t width) noexcept nogil:
        """How many words a pane has: its count, a sum of so many words, its squares, its specials.

        PERF: what values need that are finite is together, as most often one line of the cache.
        """
        return STATE_WORDS + width * (3 if self.has_squares() else 1)

    cdef void take_panes(
        self, uint64_t *words, const Numbers *sums, const Numbers *squares
    ) noexcept nogil:
        """Move panes to wider ones."""
        cdef Rows *rows = &self.rows
        cdef uint32_t count = self.pane_words(sums.width)
        cdef uint64_t *target
        cdef const uint64_t *source
        cdef size_t index
        for index in range(index_of(rows, rows.start), index_of(rows, rows.end)):
            target = words + index * count
            source = words_of(rows, index)
            target[0] = source[0]
            take_number(target + 1, sums, source + 1, &self.sums)
            if self.has_squares():
                take_number(
                    target + 1 + sums.width, squares, source + 1 + self.sums.width, &self.squares
                )
            memcpy(
                target + count - SPECIAL_WORDS, source + rows.word_count - SPECIAL_WORDS,
                sizeof(Specials)
            )
        free(rows.words)
        rows.words = words
        rows.word_count = count

    cdef inline Specials *specials_of(self, size_t index) noexcept nogil:
        """The specials of a pane."""
        return <Specials *> (words_of(&self.rows, index + 1) - SPECIAL_WORDS)

    cdef inline int add_value(
        self, bint is_of_pane, size_t place, int64_t value, int sign
    ) except -1 nogil:
        """Add or subtract a value to or from a pane, or to or from the window of a trace."""
        cdef Term term
        cdef FloatClass found = term_of(self.is_float, value, &term)
        cdef int64_t *count
        cdef Specials *specials
        cdef uint64_t *sums
        cdef uint64_t *squares = NULL
        cdef uint32_t shift
        if found == FINITE and term.magnitude and not has_place(&self.sums, term.exponent, 64):
            self.widen(term.exponent)
        if is_of_pane:
            sums = words_of(&self.rows, place) + 1
            squares = sums + self.sums.width
            count = <int64_t *> sums - 1
            specials = self.specials_of(place)
        else:
            count = &self.states[place].count
            specials = &self.states[place].specials
            sums = number_of(&self.sums, place)
            if self.has_squares():
                squares = number_of(&self.squares, place)
        count[0] += sign
        if found != FINITE:
            count_special(specials, found, sign)
        elif term.magnitude:
            shift = <uint32_t> (term.exponent - self.sums.exponent)
            add_magnitude(
                sums, self.sums.width, term.magnitude, shift, term.is_negative ^ (sign < 0)
            )
            if self.has_squares():
                add_product(
                    squares, self.squares.width, term.magnitude, term.magnitude, 2 * shift,
                    sign < 0
                )
        return 0

    cdef inline int add_pane(self, size_t index, int sign) noexcept nogil:
        """Add a pane to the window of its trace, or subtract it."""
        cdef uint32_t trace = self.rows.numbers[index]
        cdef SumState *state = &self.states[trace]
        cdef const Specials *specials = self.specials_of(index)
        cdef const uint64_t *words = words_of(&self.rows, index) + 1
        state.count += sign * <int64_t> words_of(&self.rows, index)[0]
        state.specials.positive += sign * specials.positive
        state.specials.negative += sign * specials.negative
        state.specials.undefined += sign * specials.undefined
        add_number(number_of(&self.sums, trace), words, self.sums.width, sign < 0)
        if self.has_squares():
            add_number(
                number_of(&self.squares, trace), words + self.sums.width, self.squares.width,
                sign < 0
            )
        return 0

    cdef void add_total(self, uint32_t trace, uint32_t other, int sign) noexcept nogil:
        """Add the total of another trace to that of a trace, or subtract it."""
        cdef SumState *state = &self.states[trace]
        cdef const SumState *more = &self.states[other]
        state.count += sign * more.count
        state.specials.positive += sign * more.specials.positive
        state.specials.negative += sign * more.specials.negative
        state.specials.undefined += sign * more.specials.undefined
        add_number(
            number_of(&self.sums, trace), number_of(&self.sums, other), self.sums.width, sign < 0
        )
        if self.has_squares():
            add_number(
                number_of(&self.squares, trace), number_of(&self.squares, other),
                self.squares.width, sign < 0
            )

    cdef void clear_total(self, uint32_t trace) noexcept nogil:
        """Let the total of a trace be that of no values."""
        memset(&self.states[trace], 0, sizeof(SumState))
        memset(number_of(&self.sums, trace), 0, number_bytes(&self.sums))
        if self.has_squares():
            memset(number_of(&self.squares, trace), 0, number_bytes(&self.squares))

    cdef int move_totals(
        self, size_t width, uint32_t traces, const uint32_t *numbers, size_t count
    ) except -1:
        """Move the totals of traces to their new numbers, of which each has so many."""
        moved_states(self.states, width * sizeof(SumState), traces, numbers, count)
        moved_states(self.sums.words, width * number_bytes(&self.sums), traces, numbers, count)
        if self.has_squares():
            moved_states(
                self.squares.words, width * number_bytes(&self.squares), traces, numbers, count
            )
        return 0

    cdef inline int enter(self, size_t index) except -1 nogil:
        if self.panes.width:
            return self.add_pane(index, 1)
        return self.add_value(False, self.rows.numbers[index], self.rows.values[index], 1)

    cdef inline int leave(self, size_t index) except -1 nogil:
        if self.panes.width:
            return self.add_pane(index, -1)
        return self.add_value(False, self.rows.numbers[index], self.rows.values[index], -1)

    cdef inline void expect(self, uint32_t trace) noexcept nogil:
        """Fetch the state of a trace, which is needed soon."""
        prefetch(&self.states[trace])
        prefetch(number_of(&self.sums, trace))

    def set_panes(self, int64_t width):
        set_width(&self.panes, &self.rows, width)
        self.rows.has_values = False
        self.rows.word_count = self.pane_words(self.sums.width)
        return True

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
            self.add_value(True, index, value, 1)
        else:
            self.add_value(True, index, value, 1)
            note_merge(&self.panes, rows, self.marked_end, index, value)
        return 0

    cdef int get(self, int64_t time_stamp, uint32_t trace, int64_t *value) except -1 nogil:
        advance(self, time_stamp)
        return self.result(trace, value)

    cdef inline int result(self, uint32_t trace, int64_t *value) noexcept nogil:
        cdef const SumState *state = &self.states[trace]
        return result_of_sums(
            self.kind, self.is_float, state.count, &state.specials, &self.sums, &self.squares,
            trace, value
        )

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        with nogil:
            if (
                arguments is None and wanted == NULL and self.is_bounded and not self.panes.width
                and not self.is_float and self.kind <= AVERAGE and self.sums.width == 2
            ):
                return run_plainly(self, batch, values, mask, results, validity)
            return run_rows(self, batch, arguments, values, mask, wanted, results, validity)

    cdef inline void add_plainly(self, uint32_t trace, int64_t value, int sign) noexcept nogil:
        """Add or subtract an integer, where sums have two words."""
        cdef uint64_t *words = self.sums.words + 2 * <size_t> trace
        cdef uint64_t before = words[0]
        self.states[trace].count += sign
        if sign > 0:
            words[0] = before + <uint64_t> value
            words[1] += <uint64_t> (value >> 63) + (words[0] < before)
        else:
            words[0] = before - <uint64_t> value
            words[1] -= <uint64_t> (value >> 63) + (words[0] > before)

    cdef inline int value_plainly(self, uint32_t trace, int64_t *value) noexcept nogil:
        """Find the sum or average of integers, where sums have two words."""
        cdef const uint64_t *words = self.sums.words + 2 * <size_t> trace
        cdef int64_t count = self.states[trace].count
        cdef int64_t low = <int64_t> words[0]
        cdef bint fits = words[1] == <uint64_t> (low >> 63)
        cdef double total
        if count < 1:
            value[0] = 0
            return NOTHING
        if self.kind == SUM:
            value[0] = low
            return FOUND if fits else OVERFLOWS
        total = (<double> low if fits else rounded(words, 2, 0)) / <double> count
        memcpy(value, &total, sizeof(total))
        return FOUND

    def undo(self):
        cdef Journal *merges = &self.panes.merges
        cdef Change *change
        take_back(self)
        while merges.count:
            merges.count -= 1
            change = &merges.changes[merges.count]
            self.add_value(True, change.place, change.cell, -1)
        undo_panes(&self.panes, &self.rows)

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t number
        Window.clear_unsettled(self, flags, count)
        for number in range(min(count, <size_t> self.traces)):
            if self.states[number].count:
                flags[number] = 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        self.move_totals(1, self.traces, numbers, count)
        return Window.renumber(self, numbers, count)

    cdef int write(self, NumberWriter writer) except -1:
        cdef uint32_t number
        if self.panes.width:
            writer.put(self.sums.width)
            writer.put(zigzag(self.sums.exponent))
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
        cdef uint32_t width
        cdef int exponent
        if self.panes.width:
            self.read_width(reader)
        Window.read(self, reader)
        if self.panes.width:
            self.check_panes()
        if self.is_bounded:
            for position in range(self.tail, self.entry):
                self.enter(index_of(&self.rows, position))
            return 0
        width, exponent = self.sums.width, self.sums.exponent
        read_numbers(&self.sums, reader)
        if self.panes.width and (self.sums.width != width or self.sums.exponent != exponent):
            raise damaged()
        if self.has_squares():
            read_numbers(&self.squares, reader)
            if (
                self.squares.traces != self.sums.traces
                or self.squares.width != 2 * self.sums.width
                or self.squares.exponent != 2 * self.sums.exponent
                or self.squares.width >= MOST_WORDS
            ):
                raise damaged()
        reserve_panes(&self.panes, &self.rows, self.traces, self.sums.traces, 0)
        resized(<void **> &self.states, self.sums.traces, sizeof(SumState))
        memset(self.states, 0, self.sums.traces * sizeof(SumState))
        self.traces = self.sums.traces
        for number in range(self.traces):
            self.states[number].count = <int64_t> reader.get(INT64_MAX)
            read_specials(&self.states[number].specials, reader)
        return self.require_rows()

    cdef int read_width(self, NumberReader reader) except -1:
        """Let numbers and panes, all 0, have the width of a snapshot."""
        read_width(&self.sums, reader)
        if 2 * self.sums.width >= MOST_WORDS:
            raise damaged()
        clear_numbers(&self.sums)
        self.squares.width = 2 * self.sums.width
        self.squares.exponent = 2 * self.sums.exponent
        if self.has_squares():
            clear_numbers(&self.squares)
        self.rows.word_count = self.pane_words(self.sums.width)
        return resize_rows(&self.rows, self.rows.room)

    cdef int check_panes(self) except -1:
        """Refuse panes of a snapshot that stand for too many rows."""
        cdef const Specials *specials
        cdef size_t index
        for index in range(index_of(&self.rows, self.rows.end)):
            specials = self.specials_of(index)
            if (
                words_of(&self.rows, index)[0] > MOST_WEIGHT
                or <uint64_t> specials.positive > MOST_WEIGHT
                or <uint64_t> specials.negative > MOST_WEIGHT
                or <uint64_t> specials.undefined > MOST_WEIGHT
            ):
                raise damaged()
        return 0

    cdef size_t bytes_held(self):
        cdef size_t item = sizeof(SumState) + number_bytes(&self.sums)
        if self.has_squares():
            item += number_bytes(&self.squares)
        return Window.bytes_held(self) + self.traces * item

    cdef object trace_bytes(self):
        cdef object words = most_words(&self.sums, self.is_float, 64)
        return sizeof(SumState) + (1 + 2 * self.has_squares()) * words * sizeof(uint64_t)

    def most_bytes(self, traces, rows, rows_of_trace, batch):
        # panes become wider with the numbers
        cdef object wide = 0
        if self.panes.width:
            wide = self.trace_bytes() - self.rows.word_count * sizeof(uint64_t)
        return (
            Window.most_bytes(self, traces, rows, rows_of_trace, batch)
            + max(LEAST_ROWS, 2 * (2 * rows + batch)) * wide
        )

    cdef bint has_states_by_trace(self):
        return self.panes.width == 0

    # A total is its count with a mark of specials, these, and sums with the words that they need,
    # so that equal totals have equal words however wide the numbers of a kernel are.

    cdef size_t total_words(self, uint32_t trace) noexcept nogil:
        cdef size_t words = 1 + number_words(&self.sums, trace)
        if has_specials(&self.states[trace].specials):
            words += SPECIAL_WORDS
        return words + (number_words(&self.squares, trace) if self.has_squares() else 0)

    cdef void write_total(self, uint32_t trace, uint64_t *words) noexcept nogil:
        cdef const SumState *state = &self.states[trace]
        cdef bint is_special = has_specials(&state.specials)
        words[0] = <uint64_t> state.count << 1 | is_special
        words += 1
        if is_special:
            memcpy(words, &state.specials, sizeof(Specials))
            words += SPECIAL_WORDS
        words += write_number(&self.sums, trace, words)
        if self.has_squares():
            write_number(&self.squares, trace, words)

    cdef int read_total(self, uint32_t trace, const uint64_t *words, size_t size) except -1 nogil:
        cdef SumState *state = &self.states[trace]
        cdef size_t done = 1
        self.clear_total(trace)
        if words == NULL:
            return 0
        if size == 0 or (words[0] & 1 and size < 1 + SPECIAL_WORDS):
            with gil:
                raise damaged()
        state.count = <int64_t> (words[0] >> 1)
        if words[0] & 1:
            memcpy(&state.specials, words + 1, sizeof(Specials))
            done += SPECIAL_WORDS
        self.widen_for(words + done, size - done)
        done += read_number(&self.sums, trace, words + done)
        if self.has_squares():
            done += read_number(&self.squares, trace, words + done)
        if done != size:
            with gil:
                raise damaged()
        return 0

    cdef int widen_for(self, const uint64_t *words, size_t size) except -1 nogil:
        """Make all numbers wide enough for written ones."""
        cdef int exponent = 0
        cdef size_t count
        while wanted_exponent(&self.sums, words, size, MOST_SUM_WORDS, &exponent):
            self.widen(exponent)
        if self.has_squares():
            count = 1 + <size_t> (words[0] % MOST_WORDS)
            while wanted_exponent(
                &self.squares, words + count, size - count, 2 * MOST_SUM_WORDS, &exponent
            ):
                self.widen((exponent // 128 + (exponent > 0)) * 64)
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
