# cython: language_level=3
"""Windows of the first, last, smallest or largest value: chains through the queue of rows."""


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


cdef int64_t code_of_integer_code(QueueKind kind, int64_t code) noexcept nogil:
    """The code of a float for the code of an integer."""
    cdef int64_t cell = cell_of_integer(cell_of_code(kind, False, False, code))
    return order_code(kind, True, False, cell)


cdef inline bint is_wanted_less(
    QueueKind kind, const Ranks *ranks, int64_t code, int64_t other
) noexcept nogil:
    """Whether a code is wanted no more than another."""
    if ranks.places == NULL:
        return code <= other
    if kind == SMALLEST:
        return rank_of(ranks, code) >= rank_of(ranks, other)
    return rank_of(ranks, code) <= rank_of(ranks, other)


cdef inline int put_choice(
    QueueKind kind, Panes *panes, Rows *rows, uint64_t entry, uint64_t marked_end,
    int64_t time_stamp, uint32_t number, int64_t code
) except -1 nogil:
    """Push a row, or merge it into one of its trace and cell."""
    cdef size_t index
    if panes.width == 0:
        push_row(rows, time_stamp, number, code)
        return 0
    index = slot_of(panes, rows, entry, time_stamp, number)
    if index == SIZE_MAX:
        push_pane(rows, time_stamp, number, code)
    elif kind == LAST or (kind != FIRST and code > rows.values[index]):
        note_merge(panes, rows, marked_end, index, rows.values[index])
        rows.values[index] = code
    return 0


cdef inline void undo_choices(Panes *panes, Rows *rows) noexcept nogil:
    """Undo what `put_choice` has merged since the last `begin`."""
    cdef Change *change
    while panes.merges.count:
        panes.merges.count -= 1
        change = &panes.merges.changes[panes.merges.count]
        rows.values[change.place] = change.cell
    undo_panes(panes, rows)


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
        return self.is_replaced(self.rows.values[linked_index(&self.rows, position)], code)

    cdef inline bint is_replaced(self, int64_t code, int64_t later) noexcept nogil:
        """Whether a code is not wanted any more once there is a later one."""
        return self.kind != FIRST and (
            self.kind == LAST or is_wanted_less(self.kind, &self.ranks, code, later)
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

    def set_panes(self, int64_t width):
        # The order of texts is only known while rows are fed.
        return not self.is_text and set_width(&self.panes, &self.rows, width)

    cdef int put(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        return put_choice(
            self.kind, &self.panes, &self.rows, self.entry, self.marked_end, time_stamp, trace,
            order_code(self.kind, self.is_float, self.is_text, value)
        )

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
            if arguments is None and wanted == NULL and not self.panes.width and (
                self.ranks.places == NULL and self.kind in (LARGEST, SMALLEST)
            ):
                return run_extremes(self, batch, values, mask, results, validity)
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
        undo_choices(&self.panes, &self.rows)
        self.rebuild()

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        Window.renumber(self, numbers, count)
        return self.rebuild()

    cdef int64_t float_of(self, int64_t value) noexcept nogil:
        return code_of_integer_code(self.kind, value)

    cdef int read(self, NumberReader reader) except -1:
        Window.read(self, reader)
        return self.rebuild()

    cdef size_t bytes_held(self):
        return Window.bytes_held(self) + self.traces * sizeof(Chain)

    cdef object trace_bytes(self):
        return sizeof(Chain)

    # ---- states by trace -----------------------------------------------------------------------

    # The ring of a trace has the rows that may become the result, up to `chains[...].back`, and
    # behind a gap those that have not entered yet. A state is both, and how many are of the former.

    cdef bint has_states_by_trace(self):
        return self.panes.width == 0

    cdef int begin_by_trace(self) except -1:
        self.rows.has_links = False
        return Window.begin_by_trace(self)

    cdef int put_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t value
    ) except -1 nogil:
        cdef Ring *ring = &self.rings.of[trace]
        if ring.end - ring.start == ring.room:
            self.close_gap(trace)
        return push_in_ring(
            &self.rings, &self.rows, trace, time_stamp,
            order_code(self.kind, self.is_float, self.is_text, value)
        )

    cdef inline void move_row(
        self, const Ring *ring, uint32_t source, uint32_t target
    ) noexcept nogil:
        """Move a row to another position in its ring."""
        cdef size_t place = ring_index(ring, target)
        cdef size_t index = ring_index(ring, source)
        self.rows.time_stamps[place] = self.rows.time_stamps[index]
        self.rows.values[place] = self.rows.values[index]

    cdef void close_gap(self, uint32_t trace) noexcept nogil:
        """Let the rows that have not entered yet follow those that have."""
        cdef Ring *ring = &self.rings.of[trace]
        cdef uint32_t target = self.chains[trace].back
        cdef uint32_t source = ring.entry
        ring.entry = target
        while source != ring.end:
            self.move_row(ring, source, target)
            source += 1
            target += 1
        ring.end = target

    cdef int pass_trace(self, uint32_t trace, int64_t moment) except -1 nogil:
        cdef Ring *ring = &self.rings.of[trace]
        cdef uint32_t *back = &self.chains[trace].back
        cdef const int64_t *time_stamps = self.rows.time_stamps
        cdef const int64_t *codes = self.rows.values
        cdef int64_t limit = moment - self.lower
        cdef int64_t code
        cdef size_t index
        while ring.entry != ring.end:
            index = ring_index(ring, ring.entry)
            if time_stamps[index] > limit:
                break
            code = codes[index]
            while back[0] != ring.start and self.is_replaced(
                codes[ring_index(ring, back[0] - 1)], code
            ):
                back[0] -= 1
            self.move_row(ring, ring.entry, back[0])
            back[0] += 1
            ring.entry += 1
        limit = moment - self.upper
        while ring.start != back[0] and time_stamps[ring_index(ring, ring.start)] < limit:
            ring.start += 1
        if ring.entry == ring.end:
            ring.entry = ring.end = back[0]
        return 0

    cdef int get_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t *value
    ) except -1 nogil:
        cdef const Ring *ring = &self.rings.of[trace]
        self.pass_trace(trace, time_stamp)
        if ring.start == self.chains[trace].back:
            value[0] = 0
            return NOTHING
        value[0] = cell_of_code(
            self.kind, self.is_float, self.is_text, self.rows.values[ring_index(ring, ring.start)]
        )
        return FOUND

    cdef int step(self, const RowColumns *columns) except -1 nogil:
        return step_by_trace(self, columns)

    cdef inline void expect_by_trace(self, uint32_t trace) noexcept nogil:
        self.expect(trace)
        expect_ring(&self.rings, &self.rows, trace)

    cdef size_t state_words(self, uint32_t trace) noexcept nogil:
        self.close_gap(trace)
        return 1 + 2 * ring_count(&self.rings.of[trace])

    cdef int read_state(self, uint32_t trace, const uint64_t *words, size_t size) except -1 nogil:
        cdef Ring *ring = &self.rings.of[trace]
        ring.start = ring.entry = ring.end = self.chains[trace].back = 0
        if words != NULL:
            self.fill_ring(trace, &words, &size)
            self.chains[trace].back = ring.entry
        if size:
            with gil:
                raise damaged()
        return 0

    cdef int take(self, size_t index) except -1 nogil:
        # what is written has no rows that others replace
        return 0


cdef int run_extremes(
    QueueWindow window, Batch batch, const int64_t *values, const uint8_t *mask, int64_t *results,
    uint8_t *validity
) noexcept nogil:
    """Do what `run_rows` does for the least or largest number at each row.

    PERF: as in `run_plainly`, what changes for each row is in registers.
    """
    cdef Rows *rows = &window.rows
    cdef int64_t *time_stamps = rows.time_stamps
    cdef uint32_t *numbers = rows.numbers
    cdef int64_t *codes = rows.values
    cdef uint32_t *following = rows.following
    cdef uint32_t *preceding = rows.preceding
    cdef Chain *chains = window.chains
    cdef Chain *chain
    cdef QueueKind kind = window.kind
    cdef bint is_float = window.is_float
    cdef int64_t lower = window.lower
    cdef int64_t upper = window.upper
    cdef uint32_t base = <uint32_t> rows.base
    cdef size_t end = index_of(rows, rows.end)
    cdef size_t entry = index_of(rows, window.entry)
    cdef size_t tail = index_of(rows, window.tail)
    cdef size_t count = batch.count
    cdef size_t k
    cdef uint32_t back, length
    cdef int64_t now, code
    for k in range(count):
        if k + AHEAD < count:
            prefetch(&chains[batch.trace(k + AHEAD)])
        now = batch.time_stamps[k]
        if mask == NULL or mask[k]:
            time_stamps[end] = now
            numbers[end] = batch.trace(k)
            codes[end] = order_code(kind, is_float, False, values[k])
            end += 1
        while entry < end and time_stamps[entry] <= now - lower:
            chain = &chains[numbers[entry]]
            code = codes[entry]
            length = chain.count
            back = chain.back
            while length and codes[<uint32_t> (back - base)] <= code:
                back = preceding[<uint32_t> (back - base)]
                length -= 1
            if length:
                following[<uint32_t> (back - base)] = base + <uint32_t> entry
                preceding[entry] = back
            else:
                chain.front = base + <uint32_t> entry
            chain.back = base + <uint32_t> entry
            chain.count = length + 1
            entry += 1
        while tail < entry and time_stamps[tail] < now - upper:
            if tail + AHEAD < end:
                prefetch(&chains[numbers[tail + AHEAD]])
            chain = &chains[numbers[tail]]
            if chain.count and chain.front == base + <uint32_t> tail:
                chain.front = following[tail]
                chain.count -= 1
            tail += 1
        chain = &chains[batch.trace(k)]
        if chain.count:
            results[k] = cell_of_code(
                kind, is_float, False, codes[<uint32_t> (chain.front - base)]
            )
            validity[k] = FOUND
        else:
            results[k] = 0
            validity[k] = NOTHING
    rows.end = rows.base + end
    window.entry = rows.base + entry
    window.tail = rows.base + tail
    return 0
