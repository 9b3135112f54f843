# cython: language_level=3
"""Rows of many traces in chunks, with states by trace; late rows are computed again in rounds.

The rows of a trace are in chunks, in the order of time, each with the state of the trace at its
start. A late row goes into its chunk, and rows are computed again from the start of that chunk on,
up to a chunk whose state is what it was. A round computes the next chunk of all traces that have
not come so far, by one call. So a late row costs chunks of its own trace, and hardly a call.

Programs that have no states by trace have one state for all traces, or for each one (`WholeState`).
All rows are one trace here then, or each chunk is computed by a call of its own.

How kernels keep the rows of each trace by themselves is in `by_trace.pxi`; which programs cannot
yet, in `round_rows.py`.

Rows in order are one call whatever their chunks are, as kernels save states at marks before rows. A
state is words in one block of memory (`arena.pxi`), written so that equal states have equal words.
It is saved as of a moment, since what has expired depends on it: the start of its chunk, but for
the first chunk of a trace the time below which no row comes, as late ones may come before its first
row. A snapshot has the states before all rows and the rows, which are computed again.
"""

from cpython.ref cimport PyObject


@final
cdef class RoundHistory:
    """The rows of many traces as far as they can change, with their states between them.

    kernels: all kernels of a program, which have states by trace and have had no row. The state of
        a trace has twice its number there; the odd numbers are for traces that are computed again.
    compute: called to compute rows in the order of time in each trace, with bytes: the numbers of
        their states, their places among the rows of the caller, and the moments and places of
        `Batch.mark`, or None and None.
    spacing: how many rows a chunk has at least, if they are within the span.
    span: how far behind the start of a chunk its rows may be; -1 for any time. With one state for
        all traces, this is asked only of rows that are more than the chunk should have.
    """

    cdef tuple kept_kernels
    cdef WholeState whole       # the only kernel, if it is one; else None
    cdef PyObject **kernels
    cdef size_t kernel_count
    cdef object compute
    cdef Arena arena
    cdef uint32_t spacing
    cdef int64_t span
    cdef RowTrace *traces
    cdef uint32_t trace_count, trace_room, swept
    cdef RowBuffers buffers
    cdef uint32_t *dirty        # the traces to compute again
    cdef size_t dirty_count, dirty_room
    cdef int64_t bound          # no row of any trace below comes or goes
    cdef size_t chunk_bytes     # of chunks and their rows
    cdef uint64_t next_number   # of the next new chunk
    cdef readonly size_t chunk_count
    cdef readonly size_t row_count
    cdef readonly size_t replayed       # how many rows were computed again
    cdef readonly size_t rounds

    def __cinit__(self, kernels, compute, uint32_t spacing, int64_t span=-1):
        cdef size_t k
        self.kept_kernels = tuple(kernels)
        self.kernel_count = <size_t> len(self.kept_kernels)
        if self.kernel_count > MOST_KERNELS or spacing < 1:
            raise ValueError("too many kernels, or chunks without rows")
        self.compute = compute
        self.spacing = spacing
        self.span = span
        self.arena = Arena()
        if self.kernel_count == 1 and isinstance(self.kept_kernels[0], WholeState):
            self.whole = self.kept_kernels[0]
        resized(<void **> &self.kernels, self.kernel_count, sizeof(PyObject *))
        for k in range(self.kernel_count):
            if self.whole is None and isinstance(self.kept_kernels[k], WholeState):
                raise TypeError("a state of a whole program is the only one")
            if not (isinstance(self.kept_kernels[k], Kernel) and self.kept_kernels[k].is_by_trace):
                raise TypeError("not a kernel with states by trace")
            self.kernels[k] = <PyObject *> self.kept_kernels[k]
            (<Kernel> self.kernels[k]).arena = self.arena
            (<Kernel> self.kernels[k]).number = k

    def __dealloc__(self):
        cdef uint32_t number, place
        for number in range(self.trace_count):
            for place in range(self.traces[number].first, self.traces[number].count):
                free(self.traces[number].chunks[place].words)
            free(self.traces[number].chunks)
        free(self.traces)
        free(self.dirty)
        free(self.kernels)
        free(self.buffers.slots)
        free(self.buffers.places)
        free(self.buffers.moments)

    cdef int make_buffers(self, size_t count) except -1 nogil:
        cdef RowBuffers *own = &self.buffers
        if count > own.room:
            count = max(count, own.room + own.room // 2)
            resized(<void **> &own.slots, count, sizeof(uint32_t))
            resized(<void **> &own.places, count, sizeof(uint64_t))
            resized(<void **> &own.moments, count, sizeof(int64_t))
            own.room = count
        return 0

    cdef int make_traces(self, uint32_t count) except -1:
        cdef uint32_t room
        if count <= self.trace_count:
            return 0
        if count > self.trace_room:
            room = room_for(count, self.trace_room)
            resized(<void **> &self.traces, room, sizeof(RowTrace))
            self.trace_room = room
        memset(self.traces + self.trace_count, 0, (count - self.trace_count) * sizeof(RowTrace))
        self.trace_count = count
        return 0

    # ---- chunks --------------------------------------------------------------------------------

    cdef inline uint64_t *row_at(self, const RowChunk *chunk, size_t place) noexcept nogil:
        return chunk.words + self.kernel_count + place * ROW_WORDS

    cdef inline size_t words_for(self, size_t rows) noexcept nogil:
        return self.kernel_count + rows * ROW_WORDS

    cdef int make_row_room(self, RowChunk *chunk, size_t count) except -1 nogil:
        """Make room for so many rows in a chunk."""
        cdef size_t room
        if count <= chunk.room:
            return 0
        if count > UINT32_MAX // 2:
            with gil:
                raise LimitError("a trace has more than 2^31 - 1 rows that can change")
        room = max(count, max(<size_t> FEW_ROWS, <size_t> chunk.room + chunk.room // 2))
        resized(<void **> &chunk.words, self.words_for(room), sizeof(uint64_t))
        self.chunk_bytes += (room - chunk.room) * ROW_WORDS * sizeof(uint64_t)
        chunk.room = <uint32_t> room
        return 0

    cdef RowChunk *new_chunk(
        self, RowTrace *trace, uint32_t place, int64_t start
    ) except NULL nogil:
        """Insert a chunk without rows and without a state."""
        cdef uint32_t room
        cdef RowChunk fresh
        memset(&fresh, 0, sizeof(RowChunk))
        if trace.count == trace.room:
            room = max(<uint32_t> FEW_CHUNKS, trace.room + trace.room // 2 + 1)
            resized(<void **> &trace.chunks, room, sizeof(RowChunk))
            trace.room = room
        resized(<void **> &fresh.words, self.words_for(FEW_ROWS), sizeof(uint64_t))
        memset(fresh.words, 0, self.kernel_count * sizeof(uint64_t))
        fresh.room = FEW_ROWS
        fresh.start = start
        fresh.most = self.spacing
        fresh.number = self.next_number
        self.next_number += 1
        self.chunk_count += 1
        memmove(
            &trace.chunks[place + 1], &trace.chunks[place],
            (trace.count - place) * sizeof(RowChunk)
        )
        trace.chunks[place] = fresh
        trace.count += 1
        self.chunk_bytes += sizeof(RowChunk) + self.words_for(FEW_ROWS) * sizeof(uint64_t)
        return &trace.chunks[place]

    cdef void free_chunk(self, RowChunk *chunk) noexcept nogil:
        self.free_state(chunk)
        free(chunk.words)
        self.row_count -= chunk.count
        self.chunk_count -= 1
        self.chunk_bytes -= sizeof(RowChunk) + self.words_for(chunk.room) * sizeof(uint64_t)

    cdef void free_state(self, RowChunk *chunk) noexcept nogil:
        cdef size_t k
        for k in range(self.kernel_count):
            self.arena.free(chunk.words[k])
            chunk.words[k] = 0
        chunk.is_saved = False

    cdef uint32_t most_rows(self, const RowChunk *chunk) noexcept nogil:
        """How many rows a chunk should have: they take no less memory than its state."""
        cdef size_t words = 0
        cdef size_t k
        for k in range(self.kernel_count):
            words += self.arena.size_at(chunk.words[k])
        return <uint32_t> min(
            <size_t> UINT32_MAX // 4, max(<size_t> self.spacing, words // ROW_WORDS)
        )

    cdef uint32_t chunk_at(self, const RowTrace *trace, int64_t time_stamp) noexcept nogil:
        """The last chunk that does not start later; the first one if all do."""
        cdef uint32_t low = trace.first
        cdef uint32_t high = trace.count
        cdef uint32_t middle
        while high - low > 1:
            middle = low + (high - low) // 2
            if trace.chunks[middle].start <= time_stamp:
                low = middle
            else:
                high = middle
        return low

    cdef size_t rows_until(self, const RowChunk *chunk, int64_t time_stamp) noexcept nogil:
        """How many rows of a chunk are not later than a time.

        PERF: a relation that changes concerns thousands of rows, and chunks of whole programs have
        thousands, too. Looking at these one by one took 12% of a run of policies on changes of
        relations with 1% of the rows late.
        """
        cdef size_t low = 0
        cdef size_t high = chunk.count
        cdef size_t middle
        while low < high:
            middle = low + (high - low) // 2
            if <int64_t> self.row_at(chunk, middle)[0] <= time_stamp:
                low = middle + 1
            else:
                high = middle
        return low

    cdef int soil(self, uint32_t number, uint32_t place) except -1 nogil:
        """Let a chunk be computed again."""
        cdef RowTrace *trace = &self.traces[number]
        trace.chunks[place].is_dirty = True
        if trace.is_dirty:
            trace.dirty_from = min(trace.dirty_from, place)
            trace.dirty_to = max(trace.dirty_to, place)
            return 0
        if self.dirty_count == self.dirty_room:
            resized(
                <void **> &self.dirty, 2 * self.dirty_room + SWEPT_TRACES, sizeof(uint32_t)
            )
            self.dirty_room = 2 * self.dirty_room + SWEPT_TRACES
        self.dirty[self.dirty_count] = number
        self.dirty_count += 1
        trace.is_dirty = True
        trace.dirty_from = trace.dirty_to = place
        return 0

    # ---- batches -------------------------------------------------------------------------------

    def push(self, numbers, time_stamps, offsets, places, signs):
        """Take rows of traces in the order of time, each behind all of its time-stamp and trace.

        All are contiguous arrays, of 64-bit items but for the numbers of traces, which have 32,
        and for the signs, which have 8.

        places: where new rows are among those of the caller.
        signs: 1 for a new row, -1 for one that goes, 0 for one to compute again, as something else
            has changed: these are known by trace, time-stamp and offset.
        """
        cdef size_t count = <size_t> len(time_stamps)
        cdef Memory number_memory = contiguous(numbers, sizeof(uint32_t), count)
        cdef Memory time_memory = contiguous(time_stamps, sizeof(int64_t), count)
        cdef Memory offset_memory = contiguous(offsets, sizeof(uint64_t), count)
        cdef Memory place_memory = contiguous(places, sizeof(uint64_t), count)
        cdef Memory sign_memory = contiguous(signs, 1, count)
        cdef const uint32_t *traces = <const uint32_t *> number_memory.buffer.buf
        cdef const int64_t *times = <const int64_t *> time_memory.buffer.buf
        cdef const uint64_t *names = <const uint64_t *> offset_memory.buffer.buf
        cdef const uint64_t *own = <const uint64_t *> place_memory.buffer.buf
        cdef const signed char *sign = <const signed char *> sign_memory.buffer.buf
        cdef uint32_t largest = 0
        cdef uint32_t *in_order = NULL
        cdef size_t k
        cdef size_t kept = 0
        cdef bint is_calm
        if count > UINT32_MAX:
            raise LimitError("a batch has more than 2^32 - 1 rows")
        with nogil:
            for k in range(count):
                largest = max(largest, traces[k])
        if largest >= MOST_TRACES // 2:
            raise LimitError("more than 2^31 different keys")
        resized(<void **> &in_order, count, sizeof(uint32_t))
        try:
            self.make_traces(largest + 1 if count else 0)
            with nogil:
                # first those that come, so that they can go
                for k in range(count):
                    if k + AHEAD < count:
                        prefetch(&self.traces[traces[k + AHEAD]])
                    if sign[k] <= 0:
                        continue
                    if not self.is_late(traces[k], times[k]):
                        in_order[kept] = <uint32_t> k
                        kept += 1
                    else:
                        self.insert(traces[k], times[k], names[k], own[k])
                for k in range(count):
                    if sign[k] <= 0:
                        self.find(traces[k], times[k], names[k], sign[k] < 0)
            # rows in order come to states that know of those that are late
            is_calm = self.dirty_count == 0
            if not is_calm:
                self.replay()
            if kept and self.whole is not None:
                self.append_wholly(in_order, kept, traces, times, names, own, is_calm)
            elif kept:
                self.append(in_order, kept, traces, times, names, own)
        finally:
            free(in_order)

    cdef inline bint is_late(self, uint32_t number, int64_t time_stamp) noexcept nogil:
        """Whether a row comes below one that is there."""
        cdef const RowTrace *trace = &self.traces[number]
        return trace.has_begun and time_stamp < trace.last and trace.first < trace.count

    cdef int insert(
        self, uint32_t number, int64_t time_stamp, uint64_t offset, uint64_t own
    ) except -1 nogil:
        """Put a late row into its chunk."""
        cdef RowTrace *trace = &self.traces[number]
        cdef uint32_t place = self.chunk_at(trace, time_stamp)
        cdef RowChunk *chunk = &trace.chunks[place]
        cdef size_t at = self.rows_until(chunk, time_stamp)
        cdef uint64_t *row
        self.make_row_room(chunk, <size_t> chunk.count + 1)
        row = self.row_at(chunk, at)
        memmove(
            row + ROW_WORDS, row, (chunk.count - at) * ROW_WORDS * sizeof(uint64_t)
        )
        row[0] = <uint64_t> time_stamp
        row[1] = offset
        row[2] = own
        chunk.count += 1
        self.row_count += 1
        chunk.start = min(chunk.start, time_stamp)
        return self.soil(number, place)

    cdef int find(
        self, uint32_t number, int64_t time_stamp, uint64_t offset, bint leaves
    ) except -1 nogil:
        """Let a row be computed again, or remove it; those that are forgotten stay as they are."""
        cdef RowTrace *trace = &self.traces[number]
        cdef RowChunk *chunk
        cdef uint64_t *row
        cdef uint32_t place
        cdef size_t at
        if trace.first == trace.count:
            return 0
        place = self.chunk_at(trace, time_stamp)
        while True:
            chunk = &trace.chunks[place]
            for at in range(self.rows_until(chunk, time_stamp), 0, -1):
                row = self.row_at(chunk, at - 1)
                if <int64_t> row[0] < time_stamp:
                    break
                if row[1] == offset:
                    if leaves:
                        memmove(
                            row, row + ROW_WORDS,
                            (chunk.count - at) * ROW_WORDS * sizeof(uint64_t)
                        )
                        chunk.count -= 1
                        self.row_count -= 1
                    return self.soil(number, place)
            # rows of one time-stamp may be in several chunks
            if place == trace.first or chunk.start < time_stamp:
                return 0
            place -= 1

    cdef int append(
        self, const uint32_t *in_order, size_t count, const uint32_t *traces, const int64_t *times,
        const uint64_t *names, const uint64_t *own
    ) except -1:
        """Compute rows in order, and save states where chunks begin."""
        cdef size_t marks = 0
        cdef size_t k
        with nogil:
            self.make_buffers(count)
            for k in range(count):
                if k + 2 * AHEAD < count:
                    self.expect_chunk(traces[in_order[k + 2 * AHEAD]])
                    self.expect_row(traces[in_order[k + AHEAD]])
                marks += self.append_row(
                    k, traces[in_order[k]], times[in_order[k]], names[in_order[k]],
                    own[in_order[k]]
                )
        saved = bytearray(marks * self.kernel_count * sizeof(uint64_t))
        self.call(count, marks, saved)
        self.keep_states(in_order, count, traces, saved)
        return 0

    cdef bint append_row(
        self, size_t k, uint32_t number, int64_t time_stamp, uint64_t offset, uint64_t own
    ) except -1 nogil:
        """Put a row at the end of its trace; returns whether it begins a chunk."""
        cdef RowTrace *trace = &self.traces[number]
        cdef RowChunk *chunk = NULL
        cdef uint64_t *row
        cdef uint32_t grown = self.spacing
        cdef bint begins = trace.first == trace.count
        self.buffers.slots[k] = 2 * number
        self.buffers.places[k] = own
        self.buffers.moments[k] = NO_MARK
        if not begins:
            chunk = &trace.chunks[trace.count - 1]
            begins = chunk.count >= chunk.most or self.is_beyond(chunk, time_stamp)
        if begins:
            # a late row may come before this one, but not below the bound
            self.buffers.moments[k] = time_stamp
            self.forget_of(trace, self.bound)
            if trace.first == trace.count:
                self.buffers.moments[k] = min(time_stamp, trace.bound)
            else:
                chunk = &trace.chunks[trace.count - 1]
                # its state is not known yet, but has not grown by more than this
                grown = <uint32_t> min(
                    <size_t> UINT32_MAX // 4,
                    chunk.most + 2 * self.kernel_count * chunk.count // ROW_WORDS
                )
            chunk = self.new_chunk(trace, trace.count, time_stamp)
            chunk.most = max(self.spacing, grown)
        self.make_row_room(chunk, <size_t> chunk.count + 1)
        row = self.row_at(chunk, chunk.count)
        row[0] = <uint64_t> time_stamp
        row[1] = offset
        row[2] = own
        chunk.count += 1
        self.row_count += 1
        trace.has_begun = True
        trace.last = time_stamp
        return begins

    cdef inline bint is_beyond(self, const RowChunk *chunk, int64_t time_stamp) noexcept nogil:
        """Whether a time is too far behind the start of a chunk."""
        return self.span >= 0 and time_stamp - chunk.start > self.span

    cdef int keep_states(
        self, const uint32_t *in_order, size_t count, const uint32_t *traces, saved
    ) except -1:
        """Give chunks that have begun the states that were saved before their first rows."""
        cdef const uint64_t *places = <const uint64_t *> <char *> saved
        cdef RowChunk *chunk
        cdef RowTrace *trace
        cdef size_t k, j
        with nogil:
            for k in range(count):
                if self.buffers.moments[k] == NO_MARK:
                    continue
                trace = &self.traces[traces[in_order[k]]]
                # the first one without a state: chunks of a trace begin in the order of its rows
                chunk = &trace.chunks[self.unsaved(trace)]
                for j in range(self.kernel_count):
                    chunk.words[j] = places[j]
                places += self.kernel_count
                chunk.is_saved = True
                chunk.most = self.most_rows(chunk)
        return 0

    cdef uint32_t unsaved(self, const RowTrace *trace) noexcept nogil:
        """The first of the chunks at the end that have no state; there is one."""
        cdef uint32_t low = trace.first
        cdef uint32_t high = trace.count - 1
        cdef uint32_t middle
        while low < high:
            middle = low + (high - low) // 2
            if trace.chunks[middle].is_saved:
                low = middle + 1
            else:
                high = middle
        return low

    cdef inline void expect_chunk(self, uint32_t number) noexcept nogil:
        cdef const RowTrace *trace = &self.traces[number]
        if trace.first < trace.count:
            prefetch(&trace.chunks[trace.count - 1])

    cdef inline void expect_row(self, uint32_t number) noexcept nogil:
        cdef const RowTrace *trace = &self.traces[number]
        cdef const RowChunk *chunk
        if trace.first < trace.count:
            chunk = &trace.chunks[trace.count - 1]
            prefetch(self.row_at(chunk, chunk.count))

    cdef int call(self, size_t count, size_t marks, saved) except -1:
        """Compute the rows in the buffers."""
        cdef RowBuffers *own = &self.buffers
        cdef size_t k
        for k in range(self.kernel_count):
            (<Kernel> self.kernels[k]).make_room(2 * self.trace_count, 0)
        self.compute(
            (<char *> own.slots)[: count * sizeof(uint32_t)],
            (<char *> own.places)[: count * sizeof(uint64_t)],
            (<char *> own.moments)[: count * sizeof(int64_t)] if marks else None,
            saved if marks else None,
        )
        return 0

    # ---- rounds --------------------------------------------------------------------------------

    cdef int replay(self) except -1:
        """Compute again what has changed: in each round the next chunk of all traces."""
        cdef size_t count = self.dirty_count
        cdef size_t k, rows
        cdef Replay *replays = NULL
        resized(<void **> &replays, count, sizeof(Replay))
        try:
            for k in range(self.kernel_count):
                (<Kernel> self.kernels[k]).make_room(2 * <uint32_t> count, 0)
            with nogil:
                for k in range(count):
                    replays[k].trace = self.dirty[k]
                    replays[k].slot = 2 * <uint32_t> k + 1
                    replays[k].chunk = self.traces[self.dirty[k]].dirty_from
                    self.load(&replays[k])
            while count:
                self.rounds += 1
                if self.whole is not None:
                    for k in range(count):
                        self.replay_wholly(&replays[k])
                else:
                    with nogil:
                        rows = self.gather(replays, count)
                    if rows:
                        self.replayed += rows
                        self.call(rows, 0, None)
                with nogil:
                    count = self.resume(replays, count)
            self.dirty_count = 0
        finally:
            free(replays)
        return 0

    cdef int load(self, const Replay *replay) except -1 nogil:
        """Let a replay have the state at the start of its chunk."""
        cdef const RowChunk *chunk = &self.traces[replay.trace].chunks[replay.chunk]
        cdef size_t k
        for k in range(self.kernel_count):
            (<Kernel> self.kernels[k]).load(replay.slot, chunk.words[k])
        return 0

    cdef size_t gather(self, const Replay *replays, size_t count) except? 0 nogil:
        """Put the rows of the next chunk of each trace into the buffers; return how many."""
        cdef RowChunk *chunk
        cdef size_t rows = 0
        cdef size_t k, place
        for k in range(count):
            self.split(&replays[k])
            rows += self.traces[replays[k].trace].chunks[replays[k].chunk].count
        self.make_buffers(rows)
        rows = 0
        for k in range(count):
            chunk = &self.traces[replays[k].trace].chunks[replays[k].chunk]
            chunk.is_dirty = False
            for place in range(chunk.count):
                self.buffers.slots[rows] = replays[k].slot
                self.buffers.places[rows] = self.row_at(chunk, place)[2]
                rows += 1
        return rows

    cdef int split(self, const Replay *replay) except -1 nogil:
        """Let a chunk with many more rows than it should have become two.

        These are halves, so that a chunk of very many rows does not take as many rounds.
        """
        cdef RowTrace *trace = &self.traces[replay.trace]
        cdef RowChunk *chunk = &trace.chunks[replay.chunk]
        cdef RowChunk *other
        cdef uint32_t most = max(chunk.most, chunk.count // 2)
        cdef uint32_t more = chunk.count - most
        if chunk.count < 2 * chunk.most:
            return 0
        other = self.new_chunk(
            trace, replay.chunk + 1, <int64_t> self.row_at(chunk, most)[0]
        )
        chunk = &trace.chunks[replay.chunk]
        self.make_row_room(other, more)
        memcpy(
            self.row_at(other, 0), self.row_at(chunk, most), more * ROW_WORDS * sizeof(uint64_t)
        )
        other.count = more
        other.is_dirty = True
        other.passed = chunk.passed
        chunk.passed = 0
        chunk.count = most
        self.chunk_bytes -= (chunk.room - most) * ROW_WORDS * sizeof(uint64_t)
        chunk.room = most
        resized(<void **> &chunk.words, self.words_for(most), sizeof(uint64_t))
        trace.dirty_to = max(trace.dirty_to, replay.chunk) + 1
        return 0

    cdef size_t resume(self, Replay *replays, size_t count) except? 0 nogil:
        """Go to the next chunks; drop the replays that have ended, and return how many are left."""
        cdef size_t kept = 0
        cdef size_t k
        for k in range(count):
            replays[k].chunk += 1
            if self.goes_on(&replays[k]):
                replays[kept] = replays[k]
                kept += 1
            else:
                self.traces[replays[k].trace].is_dirty = False
                self.clear(&replays[k])
        return kept

    cdef bint goes_on(self, Replay *replay) except -1 nogil:
        """Whether a replay has to compute its next chunk, or another one behind."""
        cdef RowTrace *trace = &self.traces[replay.trace]
        cdef RowChunk *chunk
        cdef size_t k
        if replay.chunk == trace.count:
            self.go_live(replay)
            return False
        chunk = &trace.chunks[replay.chunk]
        if not self.has_old_state(replay, chunk):
            self.free_state(chunk)
            for k in range(self.kernel_count):
                chunk.words[k] = (<Kernel> self.kernels[k]).save(replay.slot, chunk.start)
            chunk.is_saved = True
            chunk.most = self.most_rows(chunk)
            return True
        while replay.chunk <= trace.dirty_to and not trace.chunks[replay.chunk].is_dirty:
            replay.chunk += 1
        if replay.chunk > trace.dirty_to:
            return False
        self.load(replay)
        return True

    cdef bint has_old_state(self, const Replay *replay, const RowChunk *chunk) except -1 nogil:
        cdef size_t k
        if not chunk.is_saved:
            return False
        for k in range(self.kernel_count):
            if not (<Kernel> self.kernels[k]).is_same(replay.slot, chunk.start, chunk.words[k]):
                return False
        return True

    cdef int go_live(self, const Replay *replay) except -1 nogil:
        """Let the state at the end of a trace be the one that a replay has found."""
        cdef RowTrace *trace = &self.traces[replay.trace]
        cdef size_t k
        for k in range(self.kernel_count):
            (<Kernel> self.kernels[k]).move(replay.slot, 2 * replay.trace, trace.last)
        return 0

    cdef int clear(self, const Replay *replay) except -1 nogil:
        """Let a replay have no state any more."""
        cdef size_t k
        for k in range(self.kernel_count):
            (<Kernel> self.kernels[k]).load(replay.slot, 0)
        return 0

    # ---- states of a whole program -------------------------------------------------------------

    cdef int append_wholly(
        self, const uint32_t *in_order, size_t count, const uint32_t *traces, const int64_t *times,
        const uint64_t *names, const uint64_t *own, bint is_calm
    ) except -1:
        """Compute rows in order, those of a chunk by a call; those of a trace come together.

        PERF: while nothing is computed again, rows that come together stay together. With 4,096
        rows in each chunk, states took a third of the time of rows that wait without late rows.

        is_calm: whether nothing was computed again with these rows.
        """
        cdef RowChunk *chunk
        cdef RowTrace *trace
        cdef uint64_t *row
        cdef uint32_t number
        cdef size_t room, last, k
        cdef size_t first = 0
        while first < count:
            number = traces[in_order[first]]
            trace = &self.traces[number]
            chunk = self.chunk_with_room(number, times[in_order[first]])
            room = <size_t> chunk.most - chunk.count - chunk.more
            last = first
            while last < count and traces[in_order[last]] == number and (
                last - first < room or is_calm and not self.is_beyond(chunk, times[in_order[last]])
            ):
                last += 1
            self.make_buffers(last - first)
            self.make_row_room(chunk, chunk.count + (last - first))
            for k in range(first, last):
                row = self.row_at(chunk, chunk.count)
                row[0] = <uint64_t> times[in_order[k]]
                row[1] = names[in_order[k]]
                row[2] = own[in_order[k]]
                chunk.count += 1
                self.buffers.places[k - first] = own[in_order[k]]
            self.row_count += last - first
            trace.last = times[in_order[last - 1]]
            self.whole.compute(2 * number, number, chunk, self.buffers.places, last - first, 0)
            trace.last = max(trace.last, chunk.passed)
            first = last
        return 0

    cdef RowChunk *chunk_with_room(self, uint32_t number, int64_t start) except NULL:
        """The last chunk of a trace, or a new one behind it if it has enough rows."""
        cdef RowTrace *trace = &self.traces[number]
        cdef RowChunk *chunk
        trace.has_begun = True
        if trace.first < trace.count:
            chunk = &trace.chunks[trace.count - 1]
            if chunk.count + chunk.more < chunk.most:
                return chunk
        chunk = self.new_chunk(trace, trace.count, start)
        chunk.words[0] = self.whole.save(2 * number, start)
        chunk.is_saved = True
        chunk.most = self.most_rows(chunk)
        return chunk

    cdef int replay_wholly(self, const Replay *replay) except -1:
        """Compute the next chunk of a replay, also if it has no rows, as time may pass there."""
        cdef RowChunk *chunk
        self.split(replay)
        chunk = &self.traces[replay.trace].chunks[replay.chunk]
        chunk.is_dirty = False
        self.gather_rows(chunk, chunk.count)
        self.replayed += chunk.count
        chunk.more = 0
        return self.whole.compute(
            replay.slot, replay.trace, chunk, self.buffers.places, chunk.count, chunk.passed
        )

    cdef int gather_rows(self, const RowChunk *chunk, size_t count) except -1:
        """Put the places of the first rows of a chunk into the buffers."""
        cdef size_t place
        self.make_buffers(count)
        for place in range(count):
            self.buffers.places[place] = self.row_at(chunk, place)[2]
        return 0

    cdef int require_whole(self) except -1:
        if self.whole is None:
            raise ValueError("there are states by trace")
        return 0

    def pass_time(self, uint32_t number, int64_t limit):
        """Let time pass behind the last row of a trace, without a row; what it brings is computed.

        limit: no row in order comes below.
        """
        cdef RowChunk *chunk
        self.require_whole()
        if number >= MOST_TRACES // 2:
            raise LimitError("more than 2^31 different keys")
        self.make_traces(number + 1)
        chunk = self.chunk_with_room(number, self.traces[number].last)
        self.whole.compute(2 * number, number, chunk, NULL, 0, limit)
        self.traces[number].last = max(self.traces[number].last, chunk.passed)

    def last_of(self, uint32_t number):
        """Return the time below which no row of a trace is in order."""
        return self.traces[number].last if number < self.trace_count else 0

    def let_last_be(self, uint32_t number, int64_t last):
        """Let no row of a trace below a time be in order; it has a state."""
        self.require_whole()
        if number >= MOST_TRACES // 2:
            raise LimitError("more than 2^31 different keys")
        self.make_traces(number + 1)
        self.traces[number].has_begun = True
        self.traces[number].last = max(self.traces[number].last, last)

    def chunks_of(self, uint32_t number):
        """Return what is known of the chunks of a trace.

        These are their numbers, where they start, how far time has passed behind their rows, and
        how many rows they have.
        """
        cdef const RowTrace *trace
        cdef const RowChunk *chunk
        cdef uint32_t place
        found = []
        if number < self.trace_count:
            trace = &self.traces[number]
            for place in range(trace.first, trace.count):
                chunk = &trace.chunks[place]
                found.append((chunk.number, chunk.start, chunk.passed, chunk.count))
        return found

    def touch(self, uint32_t number, size_t place):
        """Let a chunk of a trace be computed again by the next `push`: the first one is 0."""
        if number >= self.trace_count or place >= (
            self.traces[number].count - self.traces[number].first
        ):
            raise IndexError("no such chunk")
        self.soil(number, self.traces[number].first + <uint32_t> place)

    def cut(self, uint32_t number, int64_t bound):
        """Leave out the rows below a time that the first chunk of a trace begins with.

        They are computed once more, so that the state behind them is known.
        """
        cdef RowTrace *trace
        cdef RowChunk *chunk
        cdef size_t count = 0
        self.require_whole()
        if number >= self.trace_count or (
            self.traces[number].first == self.traces[number].count
        ):
            raise IndexError("no such chunk")
        trace = &self.traces[number]
        chunk = &trace.chunks[trace.first]
        while count < chunk.count and <int64_t> self.row_at(chunk, count)[0] < bound:
            count += 1
        self.gather_rows(chunk, count)
        self.whole.load(1, chunk.words[0])
        self.whole.cut(1, number, chunk, self.buffers.places, count, bound)
        self.free_state(chunk)
        chunk.words[0] = self.whole.save(1, bound)
        chunk.is_saved = True
        self.whole.load(1, 0)
        chunk.count -= <uint32_t> count
        self.row_count -= count
        memmove(
            self.row_at(chunk, 0), self.row_at(chunk, count),
            chunk.count * ROW_WORDS * sizeof(uint64_t)
        )
        chunk.start = bound

    # ---- what is forgotten ---------------------------------------------------------------------

    def forget(self, int64_t bound, size_t count):
        """Forget rows below a time, below which none comes or goes, of so many traces and more."""
        cdef size_t k
        self.bound = max(self.bound, bound)
        with nogil:
            for k in range(min(count + SWEPT_TRACES, <size_t> self.trace_count)):
                self.swept = self.swept + 1 if self.swept + 1 < self.trace_count else 0
                self.forget_of(&self.traces[self.swept], self.bound)

    def forget_some(self, numbers, bounds):
        """Forget rows of some traces, each of which has a bound of its own; both are lists."""
        cdef uint32_t number
        for number, bound in zip(numbers, bounds, strict=True):
            if number < self.trace_count:
                self.forget_of(&self.traces[number], bound)

    cdef void forget_of(self, RowTrace *trace, int64_t bound) noexcept nogil:
        """Forget chunks that no row can come into any more."""
        cdef uint32_t kept
        trace.bound = max(trace.bound, bound)
        # behind the last row, the state at the end goes on without chunks
        while trace.first < trace.count and (
            trace.last < trace.bound if trace.count - trace.first == 1
            else self.is_passed(&trace.chunks[trace.first], trace.bound)
        ):
            self.free_chunk(&trace.chunks[trace.first])
            trace.first += 1
        kept = trace.count - trace.first
        if trace.first > kept:
            memmove(trace.chunks, trace.chunks + trace.first, kept * sizeof(RowChunk))
            trace.first = 0
            trace.count = kept

    cdef bint is_passed(self, const RowChunk *chunk, int64_t bound) noexcept nogil:
        """Whether no row can come into a chunk that is not the last one of its trace."""
        cdef int64_t last
        if self.whole is None:
            return chunk[1].start < bound
        # the state before the next one is not as of a time, but behind these rows
        last = chunk.start
        if chunk.count:
            last = <int64_t> self.row_at(chunk, chunk.count - 1)[0]
        return last < bound and chunk.passed <= bound

    # ---- what is there -------------------------------------------------------------------------

    def starts(self):
        """Return the state of a whole program before all rows that are there, for each trace.

        Returns tuples of the number of the trace, where its first chunk starts, or -1 for none,
        below what time no row is in order, and the state.
        """
        cdef int64_t start
        cdef const RowTrace *trace
        cdef uint32_t number
        cdef bytes state
        self.require_whole()
        found = []
        for number in range(self.trace_count):
            trace = &self.traces[number]
            if not trace.has_begun:
                continue
            if trace.first == trace.count:
                start = -1
                state = self.whole.states.saved(2 * number)
            else:
                start = trace.chunks[trace.first].start
                state = self.whole.bytes_at(trace.chunks[trace.first].words[0])
            found.append((number, start, trace.last, state))
        return found

    def first_place(self, uint64_t none):
        """Return the smallest place of a row; if there is no row, that which is given."""
        cdef uint64_t found = none
        cdef const RowChunk *chunk
        cdef uint32_t number, at
        cdef size_t k
        with nogil:
            for number in range(self.trace_count):
                for at in range(self.traces[number].first, self.traces[number].count):
                    chunk = &self.traces[number].chunks[at]
                    for k in range(chunk.count):
                        found = min(found, self.row_at(chunk, k)[2])
        return found

    def take_places(self):
        """Return the places of all rows, trace by trace, as bytes of 64-bit items.

        From now on, their places are their numbers in this order.
        """
        cdef size_t count = 0
        cdef uint32_t number, at
        cdef size_t k
        cdef RowChunk *chunk
        cdef uint64_t *row
        found = bytearray(self.row_count * sizeof(uint64_t))
        cdef uint64_t *places = <uint64_t *> <char *> found
        with nogil:
            for number in range(self.trace_count):
                for at in range(self.traces[number].first, self.traces[number].count):
                    chunk = &self.traces[number].chunks[at]
                    for k in range(chunk.count):
                        row = self.row_at(chunk, k)
                        places[count] = row[2]
                        row[2] = count
                        count += 1
        return found

    def at_starts(self, function):
        """Call a function while kernels have the states before all rows that are there.

        Returns what it returns.
        """
        cdef uint64_t *ends = NULL
        cdef uint32_t number
        resized(
            <void **> &ends, self.trace_count * max(<size_t> 1, self.kernel_count),
            sizeof(uint64_t)
        )
        try:
            with nogil:
                for number in range(self.trace_count):
                    self.exchange(number, ends + number * self.kernel_count, True)
            try:
                return function()
            finally:
                with nogil:
                    for number in range(self.trace_count):
                        self.exchange(number, ends + number * self.kernel_count, False)
        finally:
            free(ends)

    cdef int exchange(self, uint32_t number, uint64_t *ends, bint is_start) except -1 nogil:
        """Let a trace have the state at its start, or again that at its end."""
        cdef const RowTrace *trace = &self.traces[number]
        cdef size_t k
        if trace.first == trace.count:
            return 0
        for k in range(self.kernel_count):
            if is_start:
                ends[k] = (<Kernel> self.kernels[k]).save(2 * number, trace.last)
                (<Kernel> self.kernels[k]).load(
                    2 * number, trace.chunks[trace.first].words[k]
                )
            else:
                (<Kernel> self.kernels[k]).load(2 * number, ends[k])
                self.arena.free(ends[k])
        return 0

    @property
    def first_start(self):
        """A time below which no row is computed again; None if none is at all."""
        cdef const RowTrace *trace
        cdef int64_t found = INT64_MAX
        cdef uint32_t number
        with nogil:
            for number in range(self.trace_count):
                trace = &self.traces[number]
                if trace.first < trace.count:
                    found = min(found, trace.chunks[trace.first].start)
        return None if found == INT64_MAX else found

    @property
    def state_count(self):
        """The number of states that are kept, of all kernels."""
        return self.arena.state_count

    @property
    def held_bytes(self):
        """The number of bytes that rows, chunks and states take."""
        cdef size_t buffered = sizeof(uint32_t) + sizeof(uint64_t) + sizeof(int64_t)
        return (
            self.trace_room * sizeof(RowTrace) + self.chunk_bytes + self.arena.held_bytes
            + self.buffers.room * buffered + self.dirty_room * sizeof(uint32_t)
        )
