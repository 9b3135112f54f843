# cython: language_level=3
"""Values that never leave: aggregates without an upper bound, and the last values of a trace."""


cdef enum:
    MOST_DISTANCE = 1 << 24


cdef int moved_states(
    void *states, size_t item_size, uint32_t traces, const uint32_t *numbers, size_t count
) except -1:
    """Move the states of traces to their new numbers; clear the others.

    There may be more numbers than states, as the last traces may have had no row here.
    """
    cdef char *place = <char *> states
    cdef size_t kept = 0
    cdef size_t number
    for number in range(min(count, <size_t> traces)):
        if numbers[number] != FORGOTTEN:
            memmove(place + kept * item_size, place + number * item_size, item_size)
            kept += 1
    if traces > kept:
        memset(place + kept * item_size, 0, (traces - kept) * item_size)
    return 0


cdef uint32_t used_states(
    const void *states, size_t item_size, uint32_t traces
) noexcept nogil:
    """The number of traces up to the last one whose state is not all zeros.

    Snapshots have these, so they get smaller where traces are forgotten.
    """
    cdef const char *bytes = <const char *> states
    cdef size_t used = traces * item_size
    while used and bytes[used - 1] == 0:
        used -= 1
    return <uint32_t> ((used + item_size - 1) // item_size)


@final
cdef class Fold(Kernel):
    """The first, last, smallest or largest of all values that are at least `lower` old.

    kind, is_float, is_text: as for QueueWindow.
    lower: the age, in units of time.
    """

    cdef QueueKind kind
    cdef bint is_float, is_text
    cdef int64_t lower
    cdef Rows rows              # those that are not old enough yet
    cdef Panes panes
    cdef uint64_t entry
    cdef int64_t *codes
    cdef uint8_t *found         # whether there is a value
    cdef Journal journal
    cdef uint64_t marked_end, marked_entry
    cdef Rings rings            # for states by trace: those of a trace that are not old enough yet

    def __cinit__(self, str kind not None, bint is_float, int64_t lower, bint is_text=False):
        self.kind = queue_kind(kind)
        self.is_float = is_float
        self.is_text = is_text
        if lower < 0:
            raise ValueError(f"a negative age {lower}")
        self.lower = lower
        init_rows(&self.rows, True, False)

    def __dealloc__(self):
        free_rows(&self.rows)
        free(self.rings.of)
        free(self.rings.spare)
        free_panes(&self.panes)
        free(self.codes)
        free(self.found)
        free(self.journal.changes)

    cdef int make_room(self, uint32_t traces, size_t rows) except -1:
        cdef uint32_t room = self.traces
        reserve_changes(&self.journal, <size_t> (self.rows.end - self.entry) + rows)
        if traces > self.traces:
            room = room_for(traces, self.traces)
        reserve_panes(&self.panes, &self.rows, self.traces, room, rows)
        if traces > self.traces:
            resize_rings(&self.rings, self.traces, room)
            resized(<void **> &self.codes, room, sizeof(int64_t))
            resized(<void **> &self.found, room, 1)
            memset(self.codes + self.traces, 0, (room - self.traces) * sizeof(int64_t))
            memset(self.found + self.traces, 0, room - self.traces)
            self.traces = room
        return 0

    cdef inline bint is_wanted(self, uint32_t trace, int64_t code) noexcept nogil:
        """Whether the value with a code becomes that of a trace."""
        return self.kind == LAST or not self.found[trace] or not (
            self.kind == FIRST
            or is_wanted_less(self.kind, &self.ranks, code, self.codes[trace])
        )

    cdef inline void fold(self, uint32_t trace, int64_t code) noexcept nogil:
        if not self.is_wanted(trace, code):
            return
        note_change(&self.journal, trace, self.codes[trace], self.found[trace])
        self.codes[trace] = code
        self.found[trace] = 1

    cdef inline void expect(self, uint32_t trace) noexcept nogil:
        """Fetch the state of a trace, which is needed soon."""
        prefetch(&self.codes[trace])

    def set_panes(self, int64_t width):
        return not self.is_text and set_width(&self.panes, &self.rows, width)

    cdef int put(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        return put_choice(
            self.kind, &self.panes, &self.rows, self.entry, self.marked_end, time_stamp, trace,
            order_code(self.kind, self.is_float, self.is_text, value)
        )

    cdef int get(self, int64_t time_stamp, uint32_t trace, int64_t *value) except -1 nogil:
        cdef Rows *rows = &self.rows
        cdef int64_t limit = time_stamp - self.lower
        cdef size_t index
        while self.entry < rows.end:
            index = index_of(rows, self.entry)
            if rows.time_stamps[index] > limit:
                break
            self.fold(rows.numbers[index], rows.values[index])
            self.entry += 1
        value[0] = cell_of_code(self.kind, self.is_float, self.is_text, self.codes[trace])
        return self.found[trace]

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        with nogil:
            return run_rows(self, batch, arguments, values, mask, wanted, results, validity)

    def begin(self):
        forget_rows(&self.rows, self.entry)
        begin_panes(&self.panes)
        self.journal.count = 0
        self.marked_end = self.rows.end
        self.marked_entry = self.entry

    def undo(self):
        cdef Change *change
        while self.journal.count:
            self.journal.count -= 1
            change = &self.journal.changes[self.journal.count]
            self.codes[change.place] = change.cell
            self.found[change.place] = <uint8_t> change.note
        self.rows.end = self.marked_end
        self.entry = self.marked_entry
        undo_choices(&self.panes, &self.rows)

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t place
        for place in range(min(count, <size_t> self.traces)):
            flags[place] &= not self.found[place]
        for place in range(index_of(&self.rows, self.entry), index_of(&self.rows, self.rows.end)):
            if self.rows.numbers[place] < count:
                flags[self.rows.numbers[place]] = 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        moved_states(self.codes, sizeof(int64_t), self.traces, numbers, count)
        moved_states(self.found, 1, self.traces, numbers, count)
        self.entry = renumber_rows(&self.rows, numbers, count, self.entry)
        open_again(&self.panes, &self.rows, self.traces)
        self.begin()
        return 0

    cdef int restart(self) except -1:
        restart_rows(&self.rows)
        open_again(&self.panes, &self.rows, self.traces)
        self.entry = 0
        self.begin()
        return 0

    cdef int visit_texts(self, const TextMarks *marks) except -1:
        cdef size_t place
        for place in range(self.traces):
            if self.found[place]:
                visit_text(&self.codes[place], marks)
        visit_texts_of_rows(&self.rows, marks)
        return 0

    cdef int write(self, NumberWriter writer) except -1:
        cdef uint32_t number
        cdef uint32_t traces = used_states(self.found, 1, self.traces)
        write_rows(&self.rows, writer)
        writer.put(traces)
        for number in range(traces):
            writer.put(self.found[number])
            if self.found[number]:
                writer.put(zigzag(self.codes[number]))
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint32_t traces = self.read_queue(&self.rows, reader)
        cdef uint64_t count = reader.get_count(1)
        cdef size_t number
        self.make_room(max(traces, <uint32_t> min(count, <uint64_t> MOST_TRACES)), 0)
        for number in range(<size_t> count):
            self.found[number] = <uint8_t> reader.get(1)
            if self.found[number]:
                self.codes[number] = self.read_value(reader)
        open_again(&self.panes, &self.rows, self.traces)
        self.begin()
        return 0

    cdef int64_t float_of(self, int64_t value) noexcept nogil:
        return code_of_integer_code(self.kind, value)

    cdef size_t bytes_held(self):
        return (
            rows_bytes(&self.rows) + panes_bytes(&self.panes, self.traces)
            + self.traces * (sizeof(int64_t) + 1) + self.journal.room * sizeof(Change)
            + (self.traces * sizeof(Ring) if self.rings.of != NULL else 0)
        )

    def most_bytes(self, traces, rows, rows_of_trace, batch):
        return (
            most_rows_bytes(&self.rows, rows, batch)
            + most_panes_bytes(&self.panes, traces, batch)
            + most_traces(traces) * (sizeof(int64_t) + 1)
            + 2 * (rows + batch) * sizeof(Change)
        )

    # ---- states by trace -----------------------------------------------------------------------

    # With an age, the number of rows that are not old enough, their times and their codes; then the
    # code of the value, if there is one.

    cdef bint has_states_by_trace(self):
        return self.panes.width == 0

    cdef int begin_by_trace(self) except -1:
        if self.lower:
            resize_rows(&self.rows, LEAST_ROWS)
            init_rings(&self.rings)
        return 0

    cdef inline void fold_by_trace(self, uint32_t trace, int64_t code) noexcept nogil:
        if self.is_wanted(trace, code):
            self.codes[trace] = code
            self.found[trace] = 1

    cdef int put_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t value
    ) except -1 nogil:
        cdef int64_t code = order_code(self.kind, self.is_float, self.is_text, value)
        if self.lower:
            return push_in_ring(&self.rings, &self.rows, trace, time_stamp, code)
        self.fold_by_trace(trace, code)
        return 0

    cdef int pass_trace(self, uint32_t trace, int64_t moment) except -1 nogil:
        cdef Ring *ring
        cdef size_t index
        if self.lower:
            ring = &self.rings.of[trace]
            while ring.start != ring.end:
                index = ring_index(ring, ring.start)
                if self.rows.time_stamps[index] > moment - self.lower:
                    break
                self.fold_by_trace(trace, self.rows.values[index])
                ring.start += 1
        return 0

    cdef int get_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t *value
    ) except -1 nogil:
        self.pass_trace(trace, time_stamp)
        value[0] = cell_of_code(self.kind, self.is_float, self.is_text, self.codes[trace])
        return self.found[trace]

    cdef int step(self, const RowColumns *columns) except -1 nogil:
        return step_by_trace(self, columns)

    cdef inline void expect_early(self, uint32_t trace) noexcept nogil:
        if self.lower:
            prefetch(&self.rings.of[trace])

    cdef inline void expect_by_trace(self, uint32_t trace) noexcept nogil:
        self.expect(trace)
        if self.lower:
            expect_ring(&self.rings, &self.rows, trace)

    cdef size_t state_words(self, uint32_t trace) noexcept nogil:
        if self.lower == 0:
            return self.found[trace]
        return 1 + 2 * ring_count(&self.rings.of[trace]) + self.found[trace]

    cdef void write_state(self, uint32_t trace, uint64_t *words) noexcept nogil:
        cdef const Ring *ring
        cdef size_t count, k, index
        if self.lower:
            ring = &self.rings.of[trace]
            count = ring_count(ring)
            words[0] = count
            for k in range(count):
                index = ring_index(ring, ring.start + <uint32_t> k)
                words[1 + k] = <uint64_t> self.rows.time_stamps[index]
                words[1 + count + k] = <uint64_t> self.rows.values[index]
            words += 1 + 2 * count
        if self.found[trace]:
            words[0] = <uint64_t> self.codes[trace]

    cdef int read_state(self, uint32_t trace, const uint64_t *words, size_t size) except -1 nogil:
        cdef size_t first = 0
        cdef Ring *ring
        if self.lower:
            ring = &self.rings.of[trace]
            ring.start = ring.entry = ring.end = 0
            if words != NULL:
                first = self.fill_ring(trace, words, size)
        if size - first > 1:
            with gil:
                raise damaged()
        self.found[trace] = <uint8_t> (size - first)
        self.codes[trace] = self.value_of_word(words[first]) if size > first else 0
        return 0

    cdef size_t fill_ring(
        self, uint32_t trace, const uint64_t *words, size_t size
    ) except? 0 nogil:
        """Read the rows of a trace that are not old enough; return how many words they have."""
        cdef size_t count, k
        if size == 0 or words[0] > (size - 1) // 2:
            with gil:
                raise damaged()
        count = <size_t> words[0]
        for k in range(count):
            push_in_ring(
                &self.rings, &self.rows, trace, <int64_t> words[1 + k],
                self.value_of_word(words[1 + count + k])
            )
        return 1 + 2 * count

    cdef int visit_texts_of_state(
        self, uint64_t *words, size_t size, const TextMarks *marks
    ) except -1:
        cdef size_t first = 0
        cdef size_t k
        if self.lower:
            for k in range(<size_t> words[0]):
                visit_text(<int64_t *> &words[1 + words[0] + k], marks)
            first = 1 + 2 * <size_t> words[0]
        if size > first:
            visit_text(<int64_t *> &words[first], marks)
        return 0


@final
cdef class Last(Kernel):
    """The k-th value below the present row, or up to it.

    distance: k, from 1.
    counts_present: whether the value at the present row is among them.
    """

    cdef uint32_t distance
    cdef bint counts_present
    cdef int64_t *cells         # for each trace its last `distance` values, in a ring
    cdef uint64_t *counts       # the number of all values of a trace
    cdef Journal journal

    def __cinit__(self, uint32_t distance, bint counts_present=False):
        if distance < 1 or distance > MOST_DISTANCE:
            raise ValueError(f"a distance of {distance} values")
        self.distance = distance
        self.counts_present = counts_present

    def __dealloc__(self):
        free(self.cells)
        free(self.counts)
        free(self.journal.changes)

    cdef int make_room(self, uint32_t traces, size_t rows) except -1:
        cdef uint32_t room
        cdef size_t item = self.distance * sizeof(int64_t)
        reserve_changes(&self.journal, rows)
        if traces > self.traces:
            room = room_for(traces, self.traces)
            resized(<void **> &self.cells, room, item)
            resized(<void **> &self.counts, room, sizeof(uint64_t))
            memset(
                self.cells + <size_t> self.traces * self.distance, 0, (room - self.traces) * item
            )
            memset(self.counts + self.traces, 0, (room - self.traces) * sizeof(uint64_t))
            self.traces = room
        return 0

    cdef inline void expect(self, uint32_t trace) noexcept nogil:
        """Fetch the state of a trace, which is needed soon."""
        prefetch(&self.counts[trace])

    cdef int put(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        cdef size_t place = <size_t> trace * self.distance
        if self.distance > 1:
            place += self.counts[trace] % self.distance
        note_change(&self.journal, place, self.cells[place], trace)
        self.cells[place] = value
        self.counts[trace] += 1
        return 0

    cdef int get(self, int64_t time_stamp, uint32_t trace, int64_t *value) except -1 nogil:
        cdef size_t place = <size_t> trace * self.distance
        if self.distance > 1:
            # the oldest of the values, which the next one replaces
            place += self.counts[trace] % self.distance
        value[0] = self.cells[place]
        return self.counts[trace] >= self.distance

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        with nogil:
            return run_rows(self, batch, arguments, values, mask, wanted, results, validity)

    def begin(self):
        self.journal.count = 0

    def undo(self):
        cdef Change *change
        while self.journal.count:
            self.journal.count -= 1
            change = &self.journal.changes[self.journal.count]
            self.cells[change.place] = change.cell
            self.counts[change.note] -= 1

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        cdef size_t number
        for number in range(min(count, <size_t> self.traces)):
            flags[number] &= self.counts[number] == 0
        return 0

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        cdef size_t item = self.distance * sizeof(int64_t)
        moved_states(self.cells, item, self.traces, numbers, count)
        moved_states(self.counts, sizeof(uint64_t), self.traces, numbers, count)
        return 0

    cdef int restart(self) except -1:
        return 0

    cdef int visit_texts(self, const TextMarks *marks) except -1:
        cdef size_t number, place, kept
        for number in range(self.traces):
            kept = <size_t> min(self.counts[number], <uint64_t> self.distance)
            for place in range(kept):
                visit_text(&self.cells[number * self.distance + place], marks)
        return 0

    cdef int write(self, NumberWriter writer) except -1:
        cdef uint32_t number
        cdef uint64_t count, age
        cdef uint32_t traces = used_states(self.counts, sizeof(uint64_t), self.traces)
        writer.put(traces)
        for number in range(traces):
            count = min(self.counts[number], <uint64_t> self.distance)
            writer.put(count)
            for age in range(count, 0, -1):
                writer.put(zigzag(self.cells[
                    <size_t> number * self.distance + (self.counts[number] - age) % self.distance
                ]))
        return 0

    cdef int read(self, NumberReader reader) except -1:
        cdef uint64_t traces = reader.get_count(1)
        cdef uint32_t number
        cdef uint64_t k
        if traces > MOST_TRACES:
            raise damaged()
        self.make_room(<uint32_t> traces, 0)
        for number in range(<uint32_t> traces):
            self.counts[number] = reader.get(self.distance)
            for k in range(self.counts[number]):
                self.cells[<size_t> number * self.distance + k] = self.read_value(reader)
        return 0

    cdef size_t bytes_held(self):
        cdef size_t item = (self.distance + 1) * sizeof(int64_t)
        return self.traces * item + self.journal.room * sizeof(Change)

    def most_bytes(self, traces, rows, rows_of_trace, batch):
        return (
            most_traces(traces) * (self.distance + 1) * sizeof(int64_t)
            + 2 * batch * sizeof(Change)
        )

    # ---- states by trace: the values, the oldest first -----------------------------------------

    cdef bint has_states_by_trace(self):
        return True

    cdef int put_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t value
    ) except -1 nogil:
        cdef size_t place = <size_t> trace * self.distance
        if self.distance > 1:
            place += self.counts[trace] % self.distance
        self.cells[place] = value
        self.counts[trace] += 1
        return 0

    cdef int get_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t *value
    ) except -1 nogil:
        return self.get(time_stamp, trace, value)

    cdef int step(self, const RowColumns *columns) except -1 nogil:
        return step_by_trace(self, columns)

    cdef inline void expect_early(self, uint32_t trace) noexcept nogil:
        pass

    cdef inline void expect_by_trace(self, uint32_t trace) noexcept nogil:
        self.expect(trace)

    cdef size_t state_words(self, uint32_t trace) noexcept nogil:
        return <size_t> min(self.counts[trace], <uint64_t> self.distance)

    cdef void write_state(self, uint32_t trace, uint64_t *words) noexcept nogil:
        cdef uint64_t count = min(self.counts[trace], <uint64_t> self.distance)
        cdef uint64_t k
        for k in range(count):
            words[k] = <uint64_t> self.cells[
                <size_t> trace * self.distance
                + (self.counts[trace] - count + k) % self.distance
            ]

    cdef int read_state(self, uint32_t trace, const uint64_t *words, size_t size) except -1 nogil:
        cdef size_t k
        if size > self.distance:
            with gil:
                raise damaged()
        self.counts[trace] = size
        for k in range(size):
            self.cells[<size_t> trace * self.distance + k] = self.value_of_word(words[k])
        return 0

    cdef int visit_texts_of_state(
        self, uint64_t *words, size_t size, const TextMarks *marks
    ) except -1:
        cdef size_t k
        for k in range(size):
            visit_text(<int64_t *> &words[k], marks)
        return 0
