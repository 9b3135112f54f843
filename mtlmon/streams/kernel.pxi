# cython: language_level=3
"""What all kernels have in common: how rows go through them, and how a batch is undone.

An integer may overflow in a row, which is then left out, as if it had never been there. So a kernel
keeps what it needs to return to the state before the batch: the rows that have left stay in the
queue until the next batch, and states that rows cannot restore have a journal. The program names
only the first row whose overflow depends on earlier rows, because without that row the others may
not overflow.
"""

from libc.stdint cimport uint8_t

from mtlmon.engine.native cimport as_bytes


cdef enum:
    # What `get` returns: no result, a result, or one that does not fit.
    NOTHING
    FOUND
    OVERFLOWS


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
        self.make_room(
            batch.traces if arguments is None else max(batch.traces, arguments.traces), given
        )
        if self.run(
            batch, arguments, value_cells, mask_bytes, wanted_bytes,
            <int64_t *> result_memory.buffer.buf, valid
        ) == 0:
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
        self.renumber(numbers, count, <uint32_t> kept)

    cdef int renumber(self, const uint32_t *numbers, size_t count, uint32_t kept) except -1:
        raise NotImplementedError

    def mark_texts(self, flags):
        """For cells that are numbers of texts: find those that the state has.

        flags: a writable array of bytes, one for each text; those of texts in the state become 1.
        """
        cdef Memory memory = contiguous(flags, 1, 0, True)
        cdef TextMarks marks
        marks.flags = <uint8_t *> memory.buffer.buf
        marks.numbers = NULL
        marks.count = <size_t> memory.buffer.shape[0]
        self.begin()
        self.visit_texts(&marks)

    def renumber_texts(self, new_numbers):
        """For cells that are numbers of texts: give the texts new numbers.

        new_numbers: bytes of uint32 items, indexed by the current number.
        """
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef TextMarks marks
        marks.flags = NULL
        marks.numbers = <const uint32_t *> memory.buffer.buf
        marks.count = <size_t> memory.buffer.shape[0] // sizeof(uint32_t)
        self.begin()
        self.visit_texts(&marks)

    cdef int visit_texts(self, const TextMarks *marks) except -1:
        """Visit all cells."""
        raise NotImplementedError

    def snapshot(self):
        """Return the state as bytes for `restore`."""
        cdef NumberWriter writer = NumberWriter()
        self.begin()
        self.write(writer)
        return writer.taken()

    cdef int write(self, NumberWriter writer) except -1:
        raise NotImplementedError

    def forget_all(self):
        """Return to the state before the first row."""
        if self.traces:
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
        self.read(reader)
        reader.end()

    cdef int64_t float_of(self, int64_t value) noexcept:
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
    IntegralWindow
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


cdef int run_rows(
    AnyKernel kernel, Batch batch, Batch arguments, const int64_t *values, const uint8_t *mask,
    const uint8_t *wanted, int64_t *results, uint8_t *validity
) except -1 nogil:
    """Put and get each row; one compiled loop for each class of kernels."""
    cdef size_t k
    cdef uint32_t trace = 0
    cdef bint is_wanted
    cdef int found
    cdef int64_t last, unused
    if arguments is not None:
        return run_apart(kernel, batch, arguments, values, mask, results, validity)
    for k in range(batch.count):
        if k + AHEAD < batch.count:
            kernel.expect(batch.trace(k + AHEAD))
        trace = batch.trace(k)
        is_wanted = wanted == NULL or wanted[k] != 0
        found = NOTHING
        if AnyKernel is Last:
            if is_wanted:
                found = kernel.get(batch.time_stamps[k], trace, &results[k])
        if mask == NULL or mask[k]:
            kernel.put(batch.time_stamps[k], trace, 0 if values == NULL else values[k])
        if AnyKernel is not Last:
            if is_wanted:
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
