# cython: language_level=3
"""Finds the instances whose windows have changed by themselves since they were last read.

A row at time r changes a window [a,b] of its instance again at r + a, when it enters, and at
r + b + 1, when it has left: these are the delays of the windows. An instance that has changed so is
listed for its trace, until a row or tick of the trace reads it.
"""


cdef enum:
    NOT_LISTED = 0xFFFFFFFE


cdef struct Wait:
    # The rows that are yet to change windows after a delay.
    int64_t delay
    uint64_t next               # the position of the first of them
    uint64_t marked_next        # at the last `begin`


@final
cdef class ChangedInstances:
    """The changed instances of many traces.

    Between `begin` and the next `begin`, `undo` takes everything back.

    delays: after which delays above 0 rows change windows.
    """

    cdef Rows rows
    cdef Wait *waits
    cdef size_t wait_count
    cdef uint64_t marked_end
    cdef uint32_t *following    # by instance: links of the lists
    cdef uint32_t *heads        # by trace: the first of its list
    cdef uint32_t number_room, trace_room
    cdef size_t listed, marked_listed
    cdef Journal journal        # places in `following`, with the note 0, and in `heads`, with 1
    # time-points that were found
    cdef int64_t *found_times
    cdef int64_t *found_behind
    cdef int64_t *found_readers
    cdef int64_t *found_own
    cdef uint32_t *found_numbers
    cdef uint32_t *found_traces
    cdef size_t found_count, own_count, found_room

    def __cinit__(self, delays):
        cdef size_t k
        delays = tuple(delays)
        if any([delay < 1 for delay in delays]):
            raise ValueError("a delay is above 0")
        init_rows(&self.rows, False, False)
        self.wait_count = <size_t> len(delays)
        resized(<void **> &self.waits, self.wait_count, sizeof(Wait))
        memset(self.waits, 0, self.wait_count * sizeof(Wait))
        for k in range(self.wait_count):
            self.waits[k].delay = delays[k]

    def __dealloc__(self):
        free_rows(&self.rows)
        free(self.waits)
        free(self.following)
        free(self.heads)
        free(self.journal.changes)
        free(self.found_times)
        free(self.found_behind)
        free(self.found_readers)
        free(self.found_own)
        free(self.found_numbers)
        free(self.found_traces)

    cdef int make_room(self, uint32_t numbers, uint32_t traces) except -1:
        cdef uint32_t k
        if numbers > self.number_room:
            numbers = room_for(numbers, self.number_room)
            resized(<void **> &self.following, numbers, sizeof(uint32_t))
            for k in range(self.number_room, numbers):
                self.following[k] = NOT_LISTED
            self.number_room = numbers
        if traces > self.trace_room:
            traces = room_for(traces, self.trace_room)
            resized(<void **> &self.heads, traces, sizeof(uint32_t))
            for k in range(self.trace_room, traces):
                self.heads[k] = END_OF_LIST
            self.trace_room = traces
        return 0

    cdef int list_instance(self, uint32_t number, uint32_t trace) except -1 nogil:
        if self.following[number] != NOT_LISTED:
            return 0
        reserve_changes(&self.journal, 2)
        note_change(&self.journal, number, NOT_LISTED, 0)
        note_change(&self.journal, trace, self.heads[trace], 1)
        self.following[number] = self.heads[trace]
        self.heads[trace] = number
        self.listed += 1
        return 0

    cdef int find_changed(
        self, Instances instances, size_t reader, int64_t now, size_t behind, uint32_t trace,
        uint32_t own, bint is_read
    ) except -1 nogil:
        """Find the instances whose windows have changed up to the time of a row or tick.

        Those of other traces are listed, and so are all if it does not read windows.
        """
        cdef Wait *wait
        cdef size_t k, index
        cdef uint32_t number
        for k in range(self.wait_count):
            wait = &self.waits[k]
            while wait.next < self.rows.end:
                index = index_of(&self.rows, wait.next)
                if self.rows.time_stamps[index] > now - wait.delay:
                    break
                if wait.next + AHEAD < self.rows.end:
                    prefetch(&instances.traces[self.rows.numbers[index + AHEAD]])
                number = self.rows.numbers[index]
                wait.next += 1
                if not is_read or instances.traces[number] != trace:
                    self.list_instance(number, instances.traces[number])
                elif number != own and instances.alive[number]:
                    # PERF: this is most of them; listing them took 30 ns more
                    self.reserve_found()
                    self.add_found(reader, now, behind, number, trace)
        return 0

    cdef inline int reserve_found(self) except -1 nogil:
        """Make room for all that is listed, and one more."""
        cdef size_t room = self.found_count + self.listed + 1
        if room <= self.found_room:
            return 0
        room = max(room, 2 * self.found_room)
        resized(<void **> &self.found_times, room, sizeof(int64_t))
        resized(<void **> &self.found_behind, room, sizeof(int64_t))
        resized(<void **> &self.found_readers, room, sizeof(int64_t))
        resized(<void **> &self.found_own, room, sizeof(int64_t))
        resized(<void **> &self.found_numbers, room, sizeof(uint32_t))
        resized(<void **> &self.found_traces, room, sizeof(uint32_t))
        self.found_room = room
        return 0

    cdef inline void add_found(
        self, size_t reader, int64_t now, size_t behind, uint32_t number, uint32_t trace
    ) noexcept nogil:
        """Add a time-point; there is room for it."""
        self.found_readers[self.found_count] = <int64_t> reader
        self.found_times[self.found_count] = now
        self.found_behind[self.found_count] = <int64_t> behind
        self.found_numbers[self.found_count] = number
        self.found_traces[self.found_count] = trace
        self.found_count += 1

    cdef int read_list(
        self, Instances instances, size_t reader, int64_t now, size_t behind, uint32_t trace,
        uint32_t own
    ) except -1 nogil:
        """Empty the list of a trace into what is found, without those that are not alive."""
        cdef uint32_t number = self.heads[trace]
        cdef uint32_t following
        if number == END_OF_LIST:
            return 0
        self.reserve_found()
        reserve_changes(&self.journal, 1)
        note_change(&self.journal, trace, number, 1)
        self.heads[trace] = END_OF_LIST
        while number != END_OF_LIST:
            following = self.following[number]
            reserve_changes(&self.journal, 1)
            note_change(&self.journal, number, following, 0)
            self.following[number] = NOT_LISTED
            self.listed -= 1
            if number != own and instances.alive[number]:
                self.add_found(reader, now, behind, number, trace)
            number = following
        return 0

    def find(
        self, Instances instances not None, Batch batch not None, numbers, behind=None,
        readers=None
    ):
        """Find the time-points of a batch as of which windows change or are read first.

        instances: the instances, after their `run` for the rows of the batch.
        batch: the rows, with ticks among them.
        numbers: an array of type uint32: the number of each row's instance, 2^32-1 if there is
            none, and for ticks.
        behind: an array of type int64: how many rows each of them is behind; None if all are rows.
        readers: an array of bytes: which of them read windows; None if all do.

        Returns bytes: for each time-point its time, how many rows it is behind, and the place in
        the batch of what reads there, as int64, then the number of the instance and that of its
        trace, as uint32; and which of them are the rows of the instances themselves, as int64,
        each behind the others of its place.
        """
        cdef size_t count = batch.count
        cdef Memory number_memory = contiguous(numbers, sizeof(uint32_t), count)
        cdef Memory behind_memory, reader_memory
        cdef const uint32_t *own = <const uint32_t *> number_memory.buffer.buf
        cdef const int64_t *passed = NULL
        cdef const uint8_t *is_reader = NULL
        cdef size_t turn = instances.turn_count
        cdef size_t k
        cdef size_t rows
        cdef int64_t now
        cdef bint is_read
        if behind is not None:
            behind_memory = contiguous(behind, sizeof(int64_t), count)
            passed = <const int64_t *> behind_memory.buffer.buf
        if readers is not None:
            reader_memory = contiguous(readers, 1, count)
            is_reader = <const uint8_t *> reader_memory.buffer.buf
        self.make_room(instances.count, max(batch.traces, instances.head_count))
        reserve_rows(&self.rows, count)
        self.found_count = self.own_count = 0
        with nogil:
            while turn:
                turn -= 1
                instances.take_back(&instances.turns[turn])
            try:
                for k in range(count):
                    rows = k if passed == NULL else <size_t> passed[k]
                    now = batch.time_stamps[k]
                    while turn < instances.turn_count and has_come(
                        &instances.turns[turn], 4 * <int64_t> rows - 1, now
                    ):
                        instances.redo(&instances.turns[turn])
                        turn += 1
                    is_read = is_reader == NULL or is_reader[k]
                    self.find_changed(instances, k, now, rows, batch.trace(k), own[k], is_read)
                    if is_read:
                        self.read_list(instances, k, now, rows, batch.trace(k), own[k])
                    if own[k] != NO_INSTANCE:
                        self.reserve_found()
                        self.found_own[self.own_count] = <int64_t> self.found_count
                        self.own_count += 1
                        self.add_found(k, now, rows + 1, own[k], batch.trace(k))
                        if self.wait_count:
                            push_row(&self.rows, now, own[k], 0)
            finally:
                while turn < instances.turn_count:
                    instances.redo(&instances.turns[turn])
                    turn += 1
        return (
            (<const char *> self.found_times)[:self.found_count * sizeof(int64_t)],
            (<const char *> self.found_behind)[:self.found_count * sizeof(int64_t)],
            (<const char *> self.found_readers)[:self.found_count * sizeof(int64_t)],
            (<const char *> self.found_numbers)[:self.found_count * sizeof(uint32_t)],
            (<const char *> self.found_traces)[:self.found_count * sizeof(uint32_t)],
            (<const char *> self.found_own)[:self.own_count * sizeof(int64_t)],
        )

    def begin(self):
        """Begin a batch: what was done before can no longer be undone."""
        cdef uint64_t oldest = self.rows.end
        cdef size_t k
        for k in range(self.wait_count):
            self.waits[k].marked_next = self.waits[k].next
            oldest = min(oldest, self.waits[k].next)
        forget_rows(&self.rows, oldest)
        self.marked_end = self.rows.end
        self.marked_listed = self.listed
        self.journal.count = 0

    def undo(self):
        """Return to the state at the last `begin`."""
        cdef const Change *change
        cdef size_t k
        while self.journal.count:
            self.journal.count -= 1
            change = &self.journal.changes[self.journal.count]
            if change.note:
                self.heads[change.place] = <uint32_t> change.cell
            else:
                self.following[change.place] = <uint32_t> change.cell
        self.listed = self.marked_listed
        self.rows.end = self.marked_end
        for k in range(self.wait_count):
            self.waits[k].next = self.waits[k].marked_next

    def keep(self, new_numbers, Instances instances not None):
        """Give instances and traces new numbers; see `Instances.compact`, which comes before."""
        cdef Memory memory = contiguous(new_numbers, 1, 0)
        cdef const uint32_t *numbers = <const uint32_t *> memory.buffer.buf
        cdef size_t count = <size_t> memory.buffer.shape[0] // sizeof(uint32_t)
        cdef list waiting = self.waiting()
        cdef Rows *rows = &self.rows
        cdef size_t first, last, place, k
        cdef size_t kept = 0
        cdef uint32_t number
        self.begin()
        first = index_of(rows, rows.start)
        last = index_of(rows, rows.end)
        for place in range(first, last):
            for k in range(self.wait_count):
                if self.waits[k].marked_next == rows.start + (place - first):
                    self.waits[k].next = kept
            number = rows.numbers[place]
            if number >= count or numbers[number] == FORGOTTEN:
                continue
            rows.time_stamps[kept] = rows.time_stamps[place]
            rows.numbers[kept] = numbers[number]
            kept += 1
        for k in range(self.wait_count):
            if self.waits[k].marked_next == rows.end:
                self.waits[k].next = kept
        rows.base = rows.start = 0
        rows.end = kept
        self.list_anew(
            [numbers[k] for k in waiting if k < count and numbers[k] != FORGOTTEN], instances
        )

    cdef list waiting(self):
        """The instances that are listed."""
        cdef uint32_t number
        return [
            number for number in range(self.number_room) if self.following[number] != NOT_LISTED
        ]

    cdef int list_anew(self, list waiting, Instances instances) except -1:
        """List some instances, and no others."""
        cdef uint32_t number
        self.make_room(instances.count, instances.head_count)
        for number in range(self.number_room):
            self.following[number] = NOT_LISTED
        for number in range(self.trace_room):
            self.heads[number] = END_OF_LIST
        self.listed = 0
        for number in waiting:
            self.list_instance(number, instances.traces[number])
        self.begin()
        return 0

    def snapshot(self):
        """Return the state as bytes for `restore`."""
        cdef NumberWriter writer = NumberWriter()
        cdef list waiting = self.waiting()
        cdef size_t k
        cdef uint32_t number
        self.begin()
        for k in range(self.wait_count):
            writer.put(self.waits[k].next - self.rows.start)
        write_rows(&self.rows, writer)
        writer.put(<uint64_t> len(waiting))
        for number in waiting:
            writer.put(number)
        return writer.taken()

    def restore(self, snapshot, Instances instances not None):
        """Continue from the snapshot of an object with the same arguments, whatever this one had.

        instances: the instances, which have been restored.

        Raises:
            SnapshotError: the bytes are not such a snapshot. The object must not be used after
                that.
        """
        cdef NumberReader reader = NumberReader()
        cdef list waiting = []
        cdef uint32_t numbers, number
        cdef size_t k
        reader.open(as_bytes(snapshot), 0)
        restart_rows(&self.rows)
        for k in range(self.wait_count):
            self.waits[k].next = reader.get(UINT32_MAX)
        numbers = read_rows(&self.rows, reader)
        for k in range(reader.get_count(1)):
            number = <uint32_t> reader.get(MOST_TRACES - 1)
            numbers = max(numbers, number + 1)
            waiting.append(number)
        reader.end()
        if numbers > instances.count:
            raise damaged()
        for k in range(self.wait_count):
            if self.waits[k].next > self.rows.end:
                raise damaged()
        self.list_anew(waiting, instances)

    @property
    def held_bytes(self):
        """The number of bytes that the state takes."""
        return (
            rows_bytes(&self.rows)
            + (self.number_room + self.trace_room) * sizeof(uint32_t)
            + self.found_room * (4 * sizeof(int64_t) + 2 * sizeof(uint32_t))
            + self.journal.room * sizeof(Change)
        )
