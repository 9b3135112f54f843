# cython: language_level=3
"""What all kernels have in common: how rows go through them, and how a batch is undone.

An integer may overflow in a row, which is then left out, as if it had never been there. So a kernel
keeps what it needs to return to the state before the batch: the rows that have left stay in the
queue until the next batch, and states that rows cannot restore have a journal. The program names
only the first row whose overflow depends on earlier rows, because without that row the others may
not overflow.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memcmp

from mtlmon.engine.native cimport as_bytes


cdef struct TextMarks:
    # What to do with cells that are numbers of texts: set flags, or give them new numbers.
    uint8_t *flags
    const uint32_t *numbers
    size_t count


cdef struct Ranks:
    # The place of each text in their order, by its number; NULL for kernels without texts.
    const uint32_t *places
    size_t count


cdef inline uint32_t rank_of(const Ranks *ranks, int64_t cell) noexcept nogil:
    """The place of a text in the order; 0 for what no text has, as in a forged snapshot."""
    return ranks.places[cell] if <uint64_t> cell < ranks.count else 0


cdef inline void visit_text(int64_t *cell, const TextMarks *marks) noexcept nogil:
    if <uint64_t> cell[0] < marks.count:
        if marks.flags != NULL:
            marks.flags[cell[0]] = 1
        else:
            cell[0] = marks.numbers[cell[0]]


cdef inline TextMarks marks_to_set(Memory flags) noexcept:
    """Flags of texts, one byte for each."""
    cdef TextMarks marks
    marks.flags = <uint8_t *> flags.buffer.buf
    marks.numbers = NULL
    marks.count = <size_t> flags.buffer.shape[0]
    return marks


cdef inline TextMarks marks_to_renumber(Memory new_numbers) noexcept:
    """New numbers of texts, four bytes for each."""
    cdef TextMarks marks
    marks.flags = NULL
    marks.numbers = <const uint32_t *> new_numbers.buffer.buf
    marks.count = <size_t> new_numbers.buffer.shape[0] // sizeof(uint32_t)
    return marks


cdef void visit_texts_of_rows(Rows *rows, const TextMarks *marks) noexcept nogil:
    cdef size_t place
    for place in range(index_of(rows, rows.start), index_of(rows, rows.end)):
        visit_text(&rows.values[place], marks)


cdef inline int64_t cell_of_integer(int64_t value) noexcept nogil:
    """The cell of the float that is nearest to an integer."""
    cdef double number = <double> value
    cdef int64_t cell
    memcpy(&cell, &number, sizeof(cell))
    return cell


cdef class Kernel:
    """One aggregate or offset over the rows of many traces.

    A row is first `put`, if its value is not null, and then `get` tells the result at the row. Only
    a kernel that excludes the present takes the two steps in either order.

    Between `begin` and the next `begin`, `undo` takes everything back. Cells are of 64 bits:
    integers, floats as their bits, Booleans as 0 and 1, texts as numbers.
    """

    cdef uint32_t traces        # how many traces there is room for
    # for kernels that compare texts
    cdef Memory rank_memory
    cdef Ranks ranks
    # whether the state of each trace is by itself, and so at a time of its own; where such states
    # are saved, and the number of this kernel among several
    cdef readonly bint is_by_trace
    cdef Arena arena
    cdef size_t number
    # while a snapshot is read: whether it has integers, which are floats here
    cdef bint from_integers

    cdef int make_room(self, uint32_t traces, size_t rows) except -1:
        """Make room for the traces below `traces`, and for so many rows in the next calls."""
        raise NotImplementedError

    cdef int put(self, int64_t time_stamp, uint32_t trace, int64_t value) except -1 nogil:
        """Add the value of a row; there must be room for it."""
        with gil:
            raise NotImplementedError

    cdef int get(self, int64_t time_stamp, uint32_t trace, int64_t *value) except -1 nogil:
        """Compute the result at a row; returns NOTHING for null, FOUND or OVERFLOWS."""
        with gil:
            raise NotImplementedError

    cdef int run(
        self, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
        const uint8_t *wanted, int64_t *results, uint8_t *validity
    ) except -1:
        """Put all rows of a batch, and get those that are wanted, all if `wanted` is NULL.

        With `arguments`, put their rows instead, and get each row of the batch behind those that
        are no later. Stop with OVERFLOWS at the first that overflows.
        """
        raise NotImplementedError

    def feed(
        self, Batch batch not None, values, mask, results, validity, wanted=None,
        Batch arguments=None
    ):
        """Compute the results at the rows of a batch.

        values: a contiguous array of 64-bit items; None if the kernel takes no values.
        mask: a contiguous array of bytes: 0 for rows whose value is null; None if there are none.
        results: a contiguous array of 64-bit items for the results.
        validity: a contiguous array of bytes, which become 0 where the result is null, else 1.
        wanted: a contiguous array of bytes: 0 for rows whose result is not computed and becomes
        null; None if all are.
        arguments: the rows that values and mask are of, which come before those of the batch at
        the same time; None if they are the rows of the batch.

        Returns the number of rows with a result: if it is below the number of rows, the result of
        the next row overflows. In this case, the caller has to call `undo`.
        """
        cdef size_t count = batch.count
        cdef size_t given = batch.count if arguments is None else arguments.count
        cdef Memory value_memory, mask_memory, wanted_memory
        cdef Memory result_memory = contiguous(results, sizeof(int64_t), count, True)
        cdef Memory validity_memory = contiguous(validity, 1, count, True)
        cdef const int64_t *value_cells = NULL
        cdef const uint8_t *mask_bytes = NULL
        cdef const uint8_t *wanted_bytes = NULL
        cdef uint8_t *valid = <uint8_t *> validity_memory.buffer.buf
        cdef size_t k
        cdef int found
        if values is not None:
            value_memory = contiguous(values, sizeof(int64_t), given)
            value_cells = <const int64_t *> value_memory.buffer.buf
        elif self.takes_values():
            raise ValueError("expected values")
        if mask is not None:
            mask_memory = contiguous(mask, 1, given)
            mask_bytes = <const uint8_t *> mask_memory.buffer.buf
        if wanted is not None:
            wanted_memory = contiguous(wanted, 1, count)
            wanted_bytes = <const uint8_t *> wanted_memory.buffer.buf
        if self.is_by_trace or batch.is_by_trace:
            if wanted is not None or arguments is not None:
                raise ValueError("states by trace have results at all rows")
            found = self.run_by_trace(
                batch, value_cells, mask_bytes, <int64_t *> result_memory.buffer.buf, valid
            )
        else:
            self.make_room(
                batch.traces if arguments is None else max(batch.traces, arguments.traces), given
            )
            found = self.run(
                batch, arguments, value_cells, mask_bytes, wanted_bytes,
                <int64_t *> result_memory.buffer.buf, valid
            )
        if found == 0:
            return count
        for k in range(count):
            if valid[k] == OVERFLOWS:
                return k
        raise AssertionError("no row overflows")

    cdef bint takes_values(self):
        return True

    def set_ranks(self, ranks):
        """Say in what order texts are; needed before rows or a snapshot with other texts.

        ranks: a contiguous array of 32-bit items: for each number of a text its place in the order.
        """
        cdef size_t count = <size_t> len(ranks)
        self.rank_memory = contiguous(ranks, sizeof(uint32_t), count)
        self.ranks.places = <const uint32_t *> self.rank_memory.buffer.buf
        self.ranks.count = count

    def set_panes(self, int64_t width):
        """Say that results are only wanted at multiples of a width, which divides all bounds.

        Call this before the first row. Rows that no such result can tell apart are then merged.

        Returns whether this kernel does so.
        """
        return False

    def begin(self):
        """Begin a batch: what was done before can no longer be undone."""
        raise NotImplementedError

    def undo(self):
        """Return to the state at the last `begin`."""
        raise NotImplementedError

    def settled(self, flags):
        """Find the traces whose state is like that of a new trace, and will stay so without rows.

        flags: a writable array of bytes, one for each trace; the byte becomes 0 if the trace is not
        settled.
        """
        cdef Memory memory = contiguous(flags, 1, 0, True)
        self.clear_unsettled(<uint8_t *> memory.buffer.buf, <size_t> memory.buffer.shape[0])

    cdef int clear_unsettled(self, uint8_t *flags, size_t count) except -1:
        raise NotImplementedError

    def keep(self, new_numbers):
        """Give traces new numbers, in the same order, and forget others.

        new_numbers: bytes of uint32 items, indexed by the current number; 2^32-1 for traces to
        forget. There must be one for each trace that had a row.
        """
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef const uint32_t *numbers = <const uint32_t *> memory.buffer.buf
        cdef size_t count = <size_t> memory.buffer.shape[0] // sizeof(uint32_t)
        cdef size_t kept = 0
        cdef size_t k
        self.begin()
        for k in range(count):
            if numbers[k] != FORGOTTEN:
                if numbers[k] != kept:
                    raise ValueError("new numbers are not in the order of the present ones")
                kept += 1
        self.renumber(numbers, count)

    cdef int renumber(self, const uint32_t *numbers, size_t count) except -1:
        raise NotImplementedError

    def mark_texts(self, flags):
        """For cells that are numbers of texts: find those that the state has.

        flags: a writable array of bytes, one for each text; those of texts in the state become 1.
        """
        cdef Memory memory = contiguous(flags, 1, 0, True)
        cdef TextMarks marks = marks_to_set(memory)
        self.visit_all_texts(&marks)

    def renumber_texts(self, new_numbers):
        """For cells that are numbers of texts: give the texts new numbers.

        new_numbers: bytes of uint32 items, indexed by the current number.
        """
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef TextMarks marks = marks_to_renumber(memory)
        self.visit_all_texts(&marks)

    cdef int visit_all_texts(self, const TextMarks *marks) except -1:
        self.begin()
        if self.is_by_trace:
            self.visit_texts_by_trace(marks)
        else:
            self.visit_texts(marks)
        if self.arena is not None:
            self.arena.visit_texts(self, marks)
        return 0

    cdef int visit_texts(self, const TextMarks *marks) except -1:
        """Visit all cells."""
        raise NotImplementedError

    def snapshot(self):
        """Return the state as bytes for `restore`."""
        cdef NumberWriter writer = NumberWriter()
        self.begin()
        if self.is_by_trace:
            self.write_by_trace(writer)
        else:
            self.write(writer)
        return writer.taken()

    cdef int write(self, NumberWriter writer) except -1:
        raise NotImplementedError

    def forget_all(self):
        """Return to the state before the first row."""
        cdef uint32_t trace
        if self.is_by_trace:
            for trace in range(self.traces):
                self.read_state(trace, NULL, 0)
        elif self.traces:
            self.keep(b"\xff" * (self.traces * sizeof(uint32_t)))
            self.restart()

    cdef int restart(self) except -1:
        """Begin to number rows anew, after all traces have been forgotten."""
        raise NotImplementedError

    def restore(self, snapshot, bint from_integers=False):
        """Continue from the snapshot of a kernel with the same arguments, whatever this one had.

        from_integers: that kernel took integers where this one takes floats.

        Raises:
            SnapshotError: the bytes are not such a snapshot. The kernel must not be used after
                that.
        """
        cdef NumberReader reader = NumberReader()
        self.forget_all()
        reader.open(as_bytes(snapshot), 0)
        self.from_integers = from_integers
        if self.is_by_trace:
            self.read_by_trace(reader)
        else:
            self.read(reader)
        self.from_integers = False
        reader.end()

    cdef int64_t float_of(self, int64_t value) noexcept nogil:
        """What a kernel of integers keeps for a value, as this one keeps it."""
        return cell_of_integer(value)

    cdef int64_t read_value(self, NumberReader reader) except? -1:
        """Read a value of a snapshot."""
        cdef int64_t value = unzigzag(reader.get(UINT64_MAX))
        return self.float_of(value) if self.from_integers else value

    cdef uint32_t read_queue(self, Rows *rows, NumberReader reader) except? 4294967295:
        """Read rows with values; see `read_rows`."""
        cdef uint32_t traces = read_rows(rows, reader)
        cdef size_t place
        if self.from_integers and rows.has_values:
            for place in range(index_of(rows, rows.start), index_of(rows, rows.end)):
                rows.values[place] = self.float_of(rows.values[place])
        return traces

    cdef int read(self, NumberReader reader) except -1:
        raise NotImplementedError

    # ---- states by trace -----------------------------------------------------------------------

    @property
    def can_be_by_trace(self):
        """Whether the state of each trace can be by itself; see `by_trace`."""
        return self.has_states_by_trace()

    cdef bint has_states_by_trace(self):
        return False

    def by_trace(self):
        """Let the state of each trace be by itself, and at a time of its own.

        Call this before the first row. Then rows come in the order of time in each trace, whatever
        the order between traces is, and nothing can be undone.
        """
        if not self.has_states_by_trace() or self.traces:
            raise ValueError("this kernel has no states by trace, or has had rows")
        self.begin_by_trace()
        self.is_by_trace = True

    cdef int begin_by_trace(self) except -1:
        return 0

    cdef int run_by_trace(
        self, Batch batch, const int64_t *values, const uint8_t *mask, int64_t *results,
        uint8_t *validity
    ) except -1:
        """Do what `run` does, where each trace has its own state, and save states at marks."""
        cdef RowColumns columns
        self.check_marks(batch)
        self.make_room(batch.traces, 0)
        columns.count = batch.count
        columns.numbers = batch.numbers
        columns.time_stamps = batch.time_stamps
        columns.values = values
        columns.mask = mask
        columns.results = results
        columns.validity = validity
        columns.marks = batch.marks
        with nogil:
            return self.step(&columns)

    cdef int check_marks(self, Batch batch) except -1:
        """Refuse a batch of the other kind, and marks without a place for the states."""
        if not (self.is_by_trace and batch.is_by_trace):
            raise ValueError("states are by trace, or the batch is, but not both")
        if batch.marks.moments != NULL and (
            self.arena is None or self.number >= batch.marks.width
        ):
            raise ValueError("there is no place for states at marks")
        return 0

    cdef int step(self, const RowColumns *columns) except -1 nogil:
        """Compute the results at rows; returns OVERFLOWS at the first that overflows."""
        with gil:
            raise NotImplementedError

    cdef int put_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t value
    ) except -1 nogil:
        """Do what `put` does, where each trace has its own state; makes the room for the row."""
        with gil:
            raise NotImplementedError

    cdef int get_by_trace(
        self, int64_t time_stamp, uint32_t trace, int64_t *value
    ) except -1 nogil:
        """Do what `get` does, where each trace has its own state."""
        with gil:
            raise NotImplementedError

    cdef int pass_trace(self, uint32_t trace, int64_t moment) except -1 nogil:
        """Let time pass in a trace: forget what no row from this time on can see."""
        return 0

    cdef size_t state_words(self, uint32_t trace) noexcept nogil:
        """How many words the state of a trace has."""
        return 0

    cdef void write_state(self, uint32_t trace, uint64_t *words) noexcept nogil:
        """Write the state of a trace; equal states have equal words."""
        pass

    cdef int read_state(self, uint32_t trace, const uint64_t *words, size_t size) except -1 nogil:
        """Let a trace have a state, whatever it had; NULL for that of a new trace.

        Words that are no state raise SnapshotError.
        """
        with gil:
            raise NotImplementedError

    cdef int visit_texts_of_state(
        self, uint64_t *words, size_t size, const TextMarks *marks
    ) except -1:
        """Visit all cells of a written state."""
        raise NotImplementedError

    cdef inline int64_t value_of_word(self, uint64_t word) noexcept nogil:
        """A value of a written state."""
        return self.float_of(<int64_t> word) if self.from_integers else <int64_t> word

    cdef uint64_t save(self, uint32_t trace, int64_t moment) except? 0 nogil:
        """Save the state of a trace as of a moment, below which none of its rows comes."""
        cdef uint64_t place
        self.pass_trace(trace, moment)
        place = self.arena.take(self.state_words(trace), self.number)
        self.write_state(trace, self.arena.at(place))
        return place

    cdef int load(self, uint32_t trace, uint64_t place) except -1 nogil:
        """Let a trace have a state that was saved; that of a new trace if the place is 0."""
        if place == 0:
            return self.read_state(trace, NULL, 0)
        return self.read_state(trace, self.arena.at(place), self.arena.size_at(place))

    cdef int move(self, uint32_t trace, uint32_t target, int64_t moment) except -1 nogil:
        """Let another trace have the state of a trace, as of a moment."""
        cdef uint64_t place = self.save(trace, moment)
        self.load(target, place)
        self.arena.free(place)
        return 0

    cdef bint is_same(self, uint32_t trace, int64_t moment, uint64_t place) except -1 nogil:
        """Whether the state of a trace as of a moment is one that was saved."""
        cdef uint64_t scratch
        cdef size_t size
        cdef bint found
        self.pass_trace(trace, moment)
        size = self.state_words(trace)
        if size != self.arena.size_at(place):
            return False
        scratch = self.arena.take(size, self.number)
        self.write_state(trace, self.arena.at(scratch))
        found = memcmp(
            self.arena.at(scratch), self.arena.at(place), size * sizeof(uint64_t)
        ) == 0
        self.arena.free(scratch)
        return found

    cdef int write_by_trace(self, NumberWriter writer) except -1:
        """Write the states of all traces, those behind the last one that had rows left out."""
        cdef uint64_t *words = NULL
        cdef uint32_t trace
        cdef size_t k, size
        writer.put(self.traces)
        try:
            for trace in range(self.traces):
                size = self.state_words(trace)
                resized(<void **> &words, size, sizeof(uint64_t))
                self.write_state(trace, words)
                writer.put(size)
                for k in range(size):
                    writer.put(words[k])
        finally:
            free(words)
        return 0

    cdef int read_by_trace(self, NumberReader reader) except -1:
        cdef uint64_t *words = NULL
        cdef uint64_t traces = reader.get_count(1)
        cdef uint32_t trace
        cdef size_t k, size
        if traces > MOST_TRACES:
            raise damaged()
        self.make_room(<uint32_t> traces, 0)
        try:
            for trace in range(<uint32_t> traces):
                size = <size_t> reader.get_count(1)
                resized(<void **> &words, size, sizeof(uint64_t))
                for k in range(size):
                    words[k] = reader.get(UINT64_MAX)
                self.read_state(trace, words, size)
        finally:
            free(words)
        return 0

    cdef int visit_texts_by_trace(self, const TextMarks *marks) except -1:
        """Visit the texts in the states of all traces."""
        cdef uint64_t *words = NULL
        cdef uint32_t trace
        cdef size_t size
        try:
            for trace in range(self.traces):
                size = self.state_words(trace)
                resized(<void **> &words, size, sizeof(uint64_t))
                self.write_state(trace, words)
                self.visit_texts_of_state(words, size, marks)
                if marks.numbers != NULL:
                    self.read_state(trace, words, size)
        finally:
            free(words)
        return 0

    @property
    def held_bytes(self):
        """The number of bytes that the state takes."""
        return self.bytes_held()

    cdef size_t bytes_held(self):
        raise NotImplementedError

    def most_bytes(self, traces, rows, rows_of_trace, batch):
        """The most bytes that the state takes, for whole numbers.

        traces: how many traces there are.
        rows: how many rows the kernel has to keep at most between two batches.
        rows_of_trace: how many of them are of one trace.
        batch: the most rows of a batch.
        """
        raise NotImplementedError


cdef uint32_t room_for(uint32_t traces, uint32_t room):
    """How many traces to make room for, so that growing by single traces stays cheap."""
    return max(traces, <uint32_t> min(<uint64_t> MOST_TRACES, <uint64_t> room + room // 2))


cdef object most_traces(object traces):
    """For how many traces there is room at most, if there are so many."""
    return traces + traces // 2


ctypedef fused AnyKernel:
    CountWindow
    SumWindow
    QueueWindow
    DistinctWindow
    QuantileWindow
    StepWindow
    Fold
    Last


cdef int run_apart(
    AnyKernel kernel, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
    int64_t *results, uint8_t *validity
) except -1 nogil:
    """Put each row of the arguments, and get each row of the batch."""
    cdef size_t row = 0
    cdef size_t first, k
    cdef int found
    cdef int64_t last, unused
    for k in range(batch.count + 1):
        if AnyKernel is CountWindow:
            if kernel.panes.width:
                first = row
                while row < arguments.count and (
                    k == batch.count or arguments.time_stamps[row] <= batch.time_stamps[k]
                ):
                    row += 1
                kernel.put_in_panes(arguments, first, row, mask)
        while row < arguments.count and (
            k == batch.count or arguments.time_stamps[row] <= batch.time_stamps[k]
        ):
            if AnyKernel is not Last:
                # PERF: with 100,000 traces, counts took 31 ns a row, sums 90 ns; fetching 16 rows
                # ahead instead of 8 changed nothing, as did one line of the cache for each pane.
                # Merging rows in a second pass took 40 and 130 ns, merged rows of choices 120
                # instead of 40.
                if kernel.panes.width and row + 2 * AHEAD < arguments.count:
                    prefetch(&kernel.panes.latest[arguments.trace(row + 2 * AHEAD)])
                    expect_slot(&kernel.panes, &kernel.rows, arguments.trace(row + AHEAD))
            if mask == NULL or mask[row]:
                kernel.put(
                    arguments.time_stamps[row], arguments.trace(row),
                    0 if values == NULL else values[row]
                )
            row += 1
        if k == batch.count:
            break
        if k + AHEAD < batch.count:
            kernel.expect(batch.trace(k + AHEAD))
        found = kernel.get(batch.time_stamps[k], batch.trace(k), &results[k])
        validity[k] = <uint8_t> found
        if found == OVERFLOWS:
            return OVERFLOWS
    if AnyKernel is not Last:
        # so that windows do not grow; see `run_rows`
        if row:
            last = arguments.time_stamps[row - 1]
            if not batch.count or batch.time_stamps[batch.count - 1] <= last:
                kernel.get(last_tick(&kernel.panes, last), arguments.trace(row - 1), &unused)
    return 0


ctypedef fused KernelByTrace:
    CountWindow
    SumWindow
    QueueWindow
    DistinctWindow
    QuantileWindow
    StepWindow
    Fold
    Last


cdef int step_by_trace(KernelByTrace kernel, const RowColumns *columns) except -1 nogil:
    """Put and get each row, where each trace has its own state.

    PERF: this is a loop of its own. One loop with a branch for where rows are kept cost the kernels
    of rows in one order up to 5%.
    """
    cdef const int64_t *moments = columns.marks.moments
    cdef size_t count = columns.count
    cdef size_t mark = 0
    cdef size_t k
    cdef uint32_t trace
    cdef int found = FOUND
    cdef bint is_below = False      # whether the row itself does not count
    if KernelByTrace is Last:
        is_below = not kernel.counts_present
    for k in range(count):
        if k + 2 * AHEAD < count:
            kernel.expect_early(columns.numbers[k + 2 * AHEAD])
            kernel.expect_by_trace(columns.numbers[k + AHEAD])
        trace = columns.numbers[k]
        if moments != NULL and moments[k] != NO_MARK:
            columns.marks.places[mark * columns.marks.width + kernel.number] = kernel.save(
                trace, moments[k]
            )
            mark += 1
        if KernelByTrace is Last:
            if is_below:
                found = kernel.get_by_trace(columns.time_stamps[k], trace, &columns.results[k])
        if columns.mask == NULL or columns.mask[k]:
            kernel.put_by_trace(
                columns.time_stamps[k], trace,
                0 if columns.values == NULL else columns.values[k]
            )
        if not is_below:
            found = kernel.get_by_trace(columns.time_stamps[k], trace, &columns.results[k])
        columns.validity[k] = <uint8_t> found
        if found == OVERFLOWS:
            return OVERFLOWS
    return 0


cdef int run_rows(
    AnyKernel kernel, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
    const uint8_t *wanted, int64_t *results, uint8_t *validity
) except -1 nogil:
    """Put and get each row; one compiled loop for each class of kernels."""
    cdef size_t k
    cdef uint32_t trace = 0
    cdef bint is_wanted
    cdef bint is_below = False      # whether the row itself does not count
    cdef int found
    cdef int64_t last, unused
    if arguments is not None:
        return run_apart(kernel, batch, arguments, values, mask, results, validity)
    if AnyKernel is Last:
        is_below = not kernel.counts_present
    for k in range(batch.count):
        if AnyKernel is QuantileWindow:
            if k + 3 * AHEAD < batch.count:
                kernel.expect(batch.trace(k + 3 * AHEAD))
                kernel.expect_block(batch.trace(k + 2 * AHEAD))
                kernel.expect_codes(batch.trace(k + AHEAD))
        elif k + AHEAD < batch.count:
            kernel.expect(batch.trace(k + AHEAD))
        trace = batch.trace(k)
        is_wanted = wanted == NULL or wanted[k] != 0
        found = NOTHING
        if AnyKernel is Last:
            if is_wanted and is_below:
                found = kernel.get(batch.time_stamps[k], trace, &results[k])
        if mask == NULL or mask[k]:
            kernel.put(batch.time_stamps[k], trace, 0 if values == NULL else values[k])
        if is_wanted and not is_below:
            found = kernel.get(batch.time_stamps[k], trace, &results[k])
        validity[k] = <uint8_t> found
        if found == OVERFLOWS:
            return OVERFLOWS
    if AnyKernel is not Last:
        # Rows leave on reading only. Without this, windows that are read at ticks or rows that do
        # not come would grow.
        if wanted != NULL and batch.count and not wanted[batch.count - 1]:
            last = last_tick(&kernel.panes, batch.time_stamps[batch.count - 1])
            kernel.get(last, trace, &unused)
    return 0
