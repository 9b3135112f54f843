# cython: language_level=3
"""Batches of events: which are admitted, which wait, and what they change."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport UINT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcpy, memset

from mtlmon.arrays.native cimport EventColumns, Memory
from mtlmon.engine.native cimport (
    EndTime,
    HOLDER_COUNT,
    HeldBytes,
    MAX_TIME_STAMP,
    put_word,
    read_end_time,
    reserve,
    set_boolean,
)

from mtlmon.errors import EventError, MtlmonError, TimeStampError


def event_bytes(size_t atoms):
    """About how many bytes a history takes for an event, with its part of a chunk.

    In a chunk, the state takes as many words as there are events, or less.
    """
    cdef size_t words = max(<size_t> 1, (atoms + 63) // 64)
    return (
        (2 + words) * sizeof(uint64_t) + sizeof(Point)
        + (sizeof(Chunk) + sizeof(Chunk *)) // LEAST_SPACING
    )


def trace_bytes(size_t atoms, size_t state_words=0):
    """About how many bytes a history takes for a trace, beside its events and state.

    The first chunk may have events that could be forgotten, and the last one has room for more: as
    many as a state has words.
    """
    return sizeof(Trace) + (
        DENSE_SPACING + max(<size_t> DENSE_SPACING, state_words)
    ) * event_bytes(atoms)


cdef enum:
    EVERY_KIND = 0xFF
    # how many events ahead memory is fetched
    FETCH_EVENTS = 3
    FETCH_CHUNK = 6
    FETCH_CHUNKS = 9
    FETCH_TRACE = 12


@final
cdef class Histories(Admission):
    """The histories of the traces of one formula, by number.

    Args:
        session: judges the events; nothing else may use it.
        lateness: how much later than the largest time-stamp so far an event may come; None means
            without bound.
        wait: events wait until time has passed them by so much, and are put in order meanwhile.
        delay: how long after a time-point its verdict may depend on the stream; None means without
            bound.
        is_by_key: whether each trace has its own time.
        spacing: how many events a chunk has; 0 means as many as the size of the state suggests.
        judges: whether events are judged. Otherwise, letters are numbers of 64 bits that tell
            different events apart, and `placements` tells what becomes of them.
        is_named: whether only `follow_some` gives events, with their offsets.
        rejects: whether events that contradict counts are left out, as `take_rejected` tells;
            otherwise, they are errors.
    """

    def __dealloc__(self):
        free(self.places)
        free(self.scratch)
        free(self.time_stamps)
        free(self.letters)
        free(self.flags)
        free(self.offsets)
        free(self.placed)
        free(self.marked)

    # ---- batches ---------------------------------------------------------------------------

    def push(
        self, EventColumns columns not None, numbers=None, operations=None, list ids=None,
        counted=None
    ):
        """Take a batch of rows, in the order in which they come.

        Args:
            columns: the events, whose time-stamps need not be in order.
            numbers: the number of each event's trace, a buffer of uint32; None if all are of trace
                0.
            operations: what each row does, a buffer of uint8: 0 inserts the event, 1 retracts it,
                2 lets time pass, and 3 says how many events there are from a start on, below its
                time-stamp. None if all insert.
            ids: the id of each event, None for those without; None if none has one. A retraction
                with an id is of the event that has it, whatever the other columns say.
            counted: for each row that starts and the number of events, if it says so: a buffer of
                pairs of uint64. None if no row does.

        Returns:
            The indices of the rows that come too late, as bytes of uint32.

        Raises:
            TimeStampError: a time-stamp is negative; nothing has changed.
            EventError: there are more events in an interval than was said; the rows before have
                been taken, and `index` tells where.
        """
        cdef size_t count = columns.count
        cdef size_t done = 0
        cdef uint32_t start = self.arrivals.count
        cdef const uint8_t *operation_of = NULL
        cdef const uint64_t *count_of = NULL
        cdef Memory memory, memory_of_counts
        cdef object excess = None
        cdef bint is_done = False
        self.require_ready()
        if self.is_finished:
            raise MtlmonError("the history is finished: no event can follow")
        if ids is not None and <size_t> len(ids) != count:
            raise ValueError(f"{len(ids)} ids for {count} rows")
        if operations is not None:
            memory = Memory(operations, sizeof(uint8_t), count)
            operation_of = <const uint8_t *> memory.buffer.buf
            if counted is not None:
                memory_of_counts = Memory(counted, sizeof(uint64_t), 2 * count)
                count_of = <const uint64_t *> memory_of_counts.buffer.buf
            elif count and memchr(operation_of, COMPLETE, count) != NULL:
                raise ValueError("rows count events, but the counts are not given")
        self.read_batch(columns, numbers)
        self.refused_in_batch = 0
        self.session.enter()
        try:
            if operations is None and ids is None and self.is_plain():
                with nogil:
                    self.admit_plain(start, count)
                    self.release(False)
            else:
                while True:
                    try:
                        done = self.admit_rows(start, done, count, operation_of, ids, count_of)
                    except EventError as error:
                        excess = error
                    with nogil:
                        self.release(False)
                    self.pass_closed()
                    if excess is not None or done == count:
                        break
                    self.let_time_pass(
                        self.arrivals.time_stamps[start + done], self.arrivals.traces[start + done]
                    )
                    done += 1
                self.forget_ids()
            is_done = True
        finally:
            self.is_broken = not is_done
            if not self.session.is_broken():
                self.session.leave()
        if excess is not None:
            raise excess
        return PyBytes_FromStringAndSize(
            <char *> self.refused, self.refused_in_batch * sizeof(uint32_t)
        )

    cdef int read_batch(self, EventColumns columns, numbers) except -1:
        """Put rows behind the arrivals, without counting them."""
        cdef size_t count = columns.count
        cdef size_t k
        cdef uint32_t most = 0
        cdef uint32_t start = self.arrivals.count
        cdef const uint32_t *number_of = NULL
        cdef Memory memory
        if numbers is not None:
            memory = Memory(numbers, sizeof(uint32_t), count)
            number_of = <const uint32_t *> memory.buffer.buf
            for k in range(count):
                most = max(most, number_of[k])
        for k in range(count):
            if columns.time_stamp_of(k) > MAX_TIME_STAMP():
                raise TimeStampError(
                    f"time-stamp {<int64_t> columns.time_stamp_of(k)} at index {k} is not between "
                    "0 and 2^63-1", index=k
                )
        if count:
            self.make_traces(<size_t> most + 1)
        make_arrival_room(&self.arrivals, count, self.words)
        reserve(<void **> &self.refused, &self.refused_room, count, sizeof(uint32_t))
        if count:
            columns.read(
                0, count, self.arrivals.time_stamps + start,
                self.arrivals.letters + start * self.words, self.words
            )
        for k in range(count):
            self.arrivals.traces[start + k] = 0 if number_of == NULL else number_of[k]
            self.arrivals.numbers[start + k] = self.row_count + k
        self.row_count += count
        return 0

    cdef int release(self, bint takes_all) except -1 nogil:
        """Judge the arrivals that have waited long enough, trace by trace, in order of time.

        Also judge what has changed by retractions.
        """
        cdef uint32_t k, number
        cdef uint32_t kept = 0
        cdef size_t count = 0
        cdef size_t first = 0
        cdef size_t removed = 0
        cdef size_t last, last_removed
        cdef Arrivals *arrivals = &self.arrivals
        if self.wait == 0:
            # none that is admitted waits
            takes_all = True
        reserve(<void **> &self.places, &self.place_room, arrivals.count, sizeof(Place))
        reserve(<void **> &self.scratch, &self.scratch_room, arrivals.count, sizeof(Place))
        reserve(<void **> &self.time_stamps, &self.time_room, arrivals.count, sizeof(uint64_t))
        reserve(<void **> &self.flags, &self.flag_room, arrivals.count, sizeof(uint8_t))
        reserve(<void **> &self.offsets, &self.offset_room, arrivals.count, sizeof(uint64_t))
        reserve(
            <void **> &self.letters, &self.letter_room, arrivals.count,
            self.words * sizeof(uint64_t)
        )
        for k in range(arrivals.count):
            if not arrivals.flags[k] & IS_DROPPED and (
                takes_all or self.has_waited(arrivals.traces[k], arrivals.time_stamps[k])
            ):
                self.places[count].time_stamp = arrivals.time_stamps[k]
                self.places[count].trace = arrivals.traces[k]
                self.places[count].number = k
                count += 1
        sort_places(self.places, self.scratch, count)
        for k in range(count):
            self.time_stamps[k] = self.places[k].time_stamp
            self.flags[k] = arrivals.flags[self.places[k].number]
            if self.words == 1:
                self.letters[k] = arrivals.letters[self.places[k].number]
            else:
                memcpy(
                    self.letters + k * self.words,
                    arrivals.letters + self.places[k].number * self.words,
                    self.words * sizeof(uint64_t)
                )
            if self.is_named:
                self.offsets[k] = arrivals.numbers[self.places[k].number]
        sort_names(self.retracted, self.retracted_in_batch)
        while first < count or removed < self.retracted_in_batch:
            self.fetch_ahead(first, count)
            number = NO_TRACE
            if first < count:
                number = self.places[first].trace
            if removed < self.retracted_in_batch:
                number = min(number, self.retracted[removed].trace)
            last = first
            while last < count and self.places[last].trace == number:
                last += 1
            last_removed = removed
            while last_removed < self.retracted_in_batch and (
                self.retracted[last_removed].trace == number
            ):
                last_removed += 1
            self.take_trace(number, first, last, removed, last_removed)
            first = last
            removed = last_removed
        self.retracted_in_batch = 0
        for k in range(0 if takes_all else arrivals.count):
            if not arrivals.flags[k] & IS_DROPPED and not self.has_waited(
                arrivals.traces[k], arrivals.time_stamps[k]
            ):
                move_arrival(arrivals, k, kept, self.words)
                if arrivals.handles[kept] != NO_HANDLE:
                    self.handles[arrivals.handles[kept]].place = kept
                kept += 1
        arrivals.count = kept
        return 0

    cdef void fetch_ahead(self, size_t place, size_t count) noexcept nogil:
        """Fetch from memory what the events behind number `place` need.

        PERF: the traces of a batch are far apart in memory, and each is reached in four steps. With
        100,000 traces this saves a quarter of the time; instructions that prefetch saved nothing.
        """
        cdef const Trace *trace
        if place + FETCH_TRACE < count:
            touch(&self.traces[self.places[place + FETCH_TRACE].trace])
            touch(&self.ends.resting[self.places[place + FETCH_TRACE].trace])
        if place + FETCH_CHUNKS < count:
            trace = &self.traces[self.places[place + FETCH_CHUNKS].trace]
            if trace.first < trace.count:
                touch(&trace.chunks[trace.count - 1])
            touch(self.ends.resting[self.places[place + FETCH_CHUNKS].trace].registers)
        if place + FETCH_CHUNK < count:
            trace = &self.traces[self.places[place + FETCH_CHUNK].trace]
            if trace.first < trace.count:
                touch(trace.chunks[trace.count - 1])
        if place + FETCH_EVENTS < count:
            trace = &self.traces[self.places[place + FETCH_EVENTS].trace]
            if trace.first < trace.count:
                touch(trace.chunks[trace.count - 1].time_stamps)
                touch(trace.chunks[trace.count - 1].points)

    cdef int take_trace(
        self, uint32_t number, size_t first, size_t last, size_t removed, size_t last_removed
    ) except -1 nogil:
        """Judge the events of a trace, which are sorted, and around those that were retracted."""
        cdef Rows rows
        cdef Handle *handle
        cdef uint32_t place
        cdef size_t k
        rows.time_stamps = self.time_stamps + first
        rows.letters = self.letters + first * self.words
        rows.flags = self.flags + first
        rows.offsets = self.offsets + first
        rows.are_named = self.is_named
        rows.count = last - first
        self.take(number, &rows, self.retracted + removed, last_removed - removed)
        if not self.judges:
            self.note_placed(first, last)
        for k in range(first, last):
            place = self.places[k].number
            if self.flags[k]:
                self.traces[number].has_retractable = self.has_retractable = True
            if self.arrivals.handles[place] != NO_HANDLE:
                handle = &self.handles[self.arrivals.handles[place]]
                handle.offset = self.offsets[k]
                handle.waits = False
        return 0

    cdef int catch_up(self, uint32_t number, const Trace *known) except -1 nogil:
        """Let the last event of a trace show how far time has passed, if that can matter.

        PERF: `pass_time` instead leaves states without configurations, of 3 kB each.

        known: has all events of the trace; that one has no atoms if it is not known here.

        Returns:
            Whether it was taken.
        """
        cdef Trace *trace = &self.traces[number]
        cdef Rows row
        cdef uint8_t flags = 0
        cdef uint64_t offset = known.last_offset
        if not trace.has_pending or trace.last >= known.last_event:
            return False
        memset(self.session.letter, 0, self.words * sizeof(uint64_t))
        row.time_stamps = &known.last_event
        row.letters = self.session.letter
        row.flags = &flags
        row.offsets = &offset
        row.are_named = True
        row.count = 1
        self.take(number, &row, NULL, 0)
        return True

    cdef int note_placed(self, size_t first, size_t last) except -1 nogil:
        """Note events of a trace, which have their names now."""
        cdef PlacedRow *row
        cdef size_t k
        reserve(
            <void **> &self.placed, &self.placed_room,
            <size_t> self.placed_count + (last - first), sizeof(PlacedRow)
        )
        for k in range(first, last):
            row = &self.placed[self.placed_count]
            row.time_stamp = self.time_stamps[k]
            row.offset = self.offsets[k]
            row.number = self.arrivals.numbers[self.places[k].number]
            row.trace = self.places[k].trace
            row.flags = self.flags[k]
            self.placed_count += 1
        return 0

    def advance(self, uint64_t time_stamp, number=None):
        """Let time pass in all traces that have events, or in one; it counts as an arrival."""
        cdef bint is_done = False
        self.require_ready()
        if self.is_finished:
            raise MtlmonError("the history is finished: time cannot pass")
        if number is not None:
            self.make_traces(<size_t> number + 1)
        self.session.enter()
        try:
            self.let_time_pass(time_stamp, 0 if number is None else number)
            is_done = True
        finally:
            self.is_broken = not is_done
            if not self.session.is_broken():
                self.session.leave()

    cdef int let_time_pass(self, uint64_t time_stamp, uint32_t number) except -1:
        """Do the same between `enter` and `leave`; the number is of a trace with its own time.

        Events that have shown as much may still be retracted.
        """
        cdef uint32_t k
        cdef bint has_now = self.traces[number].has_now if self.is_by_key else self.has_now
        if has_now and self.passed_of(number) >= time_stamp:
            return 0
        self.see(number, time_stamp)
        if self.is_by_key:
            self.traces[number].passed = time_stamp
        else:
            self.passed_of_all = time_stamp
        self.give_up_waiting()
        if self.interval_count:
            self.close_intervals()
        with nogil:
            self.release(False)
        if time_stamp < self.wait:
            return self.pass_closed()
        if self.is_by_key:
            with nogil:
                self.pass_time(number, time_stamp - self.wait)
            return 0
        self.note_advance(time_stamp - self.wait)
        with nogil:
            for k in range(self.trace_count):
                if self.traces[k].has_begun:
                    self.pass_time(k, time_stamp - self.wait)
        return self.pass_closed()

    def complete(self, uint64_t start, uint64_t end, uint64_t count):
        """Let it be known that exactly so many events lie in an interval of time.

        Returns:
            Whether that is not too late, as some of them may be forgotten.

        Raises:
            EventError: there are more already, or the interval is empty; nothing has changed.
        """
        cdef Counting found
        cdef bint is_done = False
        self.require_ready()
        if self.is_finished:
            raise MtlmonError("the history is finished: all events are known")
        found = self.count_events(start, end, count)
        if found != COUNTED:
            return found != IS_LATE
        self.session.enter()
        try:
            self.close_intervals()
            with nogil:
                self.release(False)
            self.pass_closed()
            is_done = True
        finally:
            self.is_broken = not is_done
            if not self.session.is_broken():
                self.session.leave()
        return True

    cdef int pass_closed(self) except -1:
        """Let time pass to where all events are known by their counts, once they are judged."""
        cdef uint32_t k
        if not self.has_closed:
            return 0
        self.has_closed = False
        with nogil:
            for k in range(self.trace_count):
                if self.traces[k].has_begun:
                    self.pass_time(k, self.closed_below)
        return 0

    def take_rejected(self):
        """The rows that contradict counts, since the last call: their numbers, and why."""
        found, self.rejected = self.rejected, []
        return found

    cdef int note_advance(self, uint64_t time_stamp) except -1:
        """Remember that time passes, for traces whose first event is yet to come."""
        cdef uint32_t k
        cdef uint32_t kept = 0
        put_word(&self.advances, time_stamp)
        if self.has_lateness and self.now_of_all >= self.lateness:
            for k in range(self.advances.count):
                if self.advances.items[k] >= self.now_of_all - self.lateness:
                    self.advances.items[kept] = self.advances.items[k]
                    kept += 1
            self.advances.count = kept
        return 0

    def finish(self, end_time=None):
        """Judge what waits, and end all traces, with what is known about the time after them.

        PERF: with states kept at the ends of traces that nothing follows, each took 6 kB more.
        """
        cdef EndTime end = read_end_time(end_time)
        cdef uint64_t counted = self.counted_until()
        cdef uint32_t k
        cdef bint is_done = False
        self.require_ready()
        if self.is_finished:
            return
        self.unmatched_count += <size_t> len(self.awaited)
        for times in self.awaited_rows.values():
            self.unmatched_count += <size_t> len(times)
        self.awaited.clear()
        self.awaited_rows.clear()
        for k in range(self.interval_count):
            self.incomplete_count += self.intervals[k].found < self.intervals[k].expected
        self.passed_of_all = max(self.passed_of_all, counted)
        self.session.enter()
        try:
            with nogil:
                self.release(True)
                for k in range(self.trace_count):
                    if self.traces[k].has_begun:
                        if self.wait or counted:
                            self.pass_time(k, self.passed_of(k))
                        self.make_live(k)
                        self.session.run_finish(&end)
                        self.apply(k, NULL, 0)
                        self.note_pending(k)
                        self.ends.end(&self.ends.resting[k])
                        self.loaded = NO_TRACE
            is_done = self.is_finished = True
        finally:
            self.is_broken = not is_done
            if not self.session.is_broken():
                self.session.leave()

    def changes(self, uint32_t shown=EVERY_KIND):
        """What has changed since the last call: records of changes as bytes.

        What cannot change any more is forgotten afterwards.

        shown: the kinds of first verdicts that have records, as bits; all other changes have one.
        """
        cdef size_t count
        cdef bytes records = PyBytes_FromStringAndSize(
            NULL, self.journal.count * sizeof(ChangeRecord)
        )
        count = count_changes(
            &self.journal, self.traces, <ChangeRecord *> <char *> records, shown, self.counts
        )
        self.forget_some()
        return records[:count * sizeof(ChangeRecord)]

    def take_counts(self):
        """How many more time-points have each kind of verdict since the last call, or none.

        These are all that `changes` has said or passed over: as many numbers as there are kinds.
        """
        found = [self.counts[k] for k in range(STILL_OPEN + 1)]
        memset(self.counts, 0, sizeof(self.counts))
        return found

    # ---- what is known ---------------------------------------------------------------------

    def latest(self, uint32_t number):
        """The verdicts of a trace, in order of time-points, as bytes of verdict records."""
        cdef size_t count = 0
        cdef const Chunk *chunk
        cdef VerdictRecord *record
        cdef uint32_t k, i
        cdef bytes records
        if number >= self.trace_count:
            return b""
        for k in range(self.traces[number].first, self.traces[number].count):
            chunk = self.traces[number].chunks[k]
            for i in range(chunk.count):
                count += chunk.points[i].kind != STILL_OPEN
        records = PyBytes_FromStringAndSize(NULL, count * sizeof(VerdictRecord))
        record = <VerdictRecord *> <char *> records
        for k in range(self.traces[number].first, self.traces[number].count):
            chunk = self.traces[number].chunks[k]
            for i in range(chunk.count):
                if chunk.points[i].kind == STILL_OPEN:
                    continue
                set_boolean(
                    record, chunk.time_stamps[i], chunk.points[i].offset, chunk.points[i].kind
                )
                record.reference_time_stamp = chunk.points[i].reference_time_stamp
                record.reference_offset = chunk.points[i].reference_offset
                record += 1
        return records

    def bound(self, number=None):
        """The time-stamp below which all verdicts of a trace are final, or those of all traces.

        None if there is none.
        """
        cdef uint64_t bound
        cdef uint64_t least = MAX_TIME_STAMP()
        cdef uint32_t k
        cdef bint has_events = self.arrivals.count > 0 or (self.is_named and self.has_now)
        if not self.has_delay:
            return None
        if number is not None:
            if number >= self.trace_count:
                return None
            return bound if self.bound_of(number, &bound) else None
        for k in range(self.trace_count):
            if has_events:
                break
            has_events = self.traces[k].has_begun
        return least if self.bound_of_all(&least) and has_events else None

    def earliest_pending(self):
        """Time-stamp and offset of the earliest undecided time-point of all traces, or None."""
        cdef uint64_t time_stamp = UINT64_MAX
        cdef uint64_t offset = 0
        cdef const Trace *trace
        cdef uint32_t k
        for k in range(self.trace_count):
            trace = &self.traces[k]
            if trace.has_pending and (
                trace.pending_from < time_stamp
                or trace.pending_from == time_stamp and trace.pending_offset < offset
            ):
                time_stamp, offset = trace.pending_from, trace.pending_offset
        return None if time_stamp == UINT64_MAX else (time_stamp, offset)

    def now(self, uint32_t number=0):
        """The largest time-stamp so far; None if there is none."""
        if not self.is_by_key:
            return self.now_of_all if self.has_now else None
        if number >= self.trace_count or not self.traces[number].has_now:
            return None
        return self.traces[number].now

    def last_time(self):
        """When the last of the events was that are left, or time passed without one; 0 if none are.

        Events that are retracted show nothing of the time.
        """
        cdef uint64_t last = max(self.passed_of_all, self.counted_until())
        cdef uint64_t time_stamp
        cdef uint32_t k
        self.require_ready()
        for k in range(self.arrivals.count):
            if not self.arrivals.flags[k] & (IS_REMOVED | IS_DROPPED):
                last = max(last, self.arrivals.time_stamps[k])
        for k in range(self.trace_count):
            last = max(last, max(self.traces[k].forgotten, self.traces[k].passed))
            if last_below(&self.traces[k], UINT64_MAX, &time_stamp):
                last = max(last, time_stamp)
        return last

    def counted_time(self):
        """How far counts that are reached show the time if no events come; 0 if none is."""
        return max(self.closed_below, self.counted_until())

    def passed(self, uint32_t number=0):
        """How far time has passed without an event, whatever the wait is; 0 if it has not."""
        if self.is_by_key and number >= self.trace_count:
            return 0
        return self.passed_of(number)

    @property
    def waiting(self):
        """How many events wait."""
        return self.arrivals.count

    @property
    def held_bytes(self):
        """The memory for all chunks."""
        cdef size_t held = 0
        cdef const Chunk *chunk
        cdef uint32_t number, k
        for number in range(self.trace_count):
            held += sizeof(Trace) + self.traces[number].capacity * sizeof(Chunk *)
            for k in range(self.traces[number].first, self.traces[number].count):
                chunk = self.traces[number].chunks[k]
                held += sizeof(Chunk) + chunk.saved.words.capacity * sizeof(uint64_t)
                held += chunk.capacity * (
                    sizeof(uint64_t) * (1 + self.words) + sizeof(Point)
                )
        return held

    @property
    def state_bytes(self):
        """The memory for the states at the ends of the traces."""
        cdef HeldBytes held
        cdef size_t total = 0
        cdef int k
        memset(&held, 0, sizeof(HeldBytes))
        self.ends.count_resting(&held)
        for k in range(HOLDER_COUNT):
            total += held.of[k]
        return total

    @property
    def finished(self):
        """Whether the history has ended."""
        return self.is_finished
