# cython: language_level=3
"""Batches of events: which are admitted, which wait, and what they change."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from mtlmon.arrays.native cimport EventColumns, Memory
from mtlmon.engine.native cimport (
    EndTime,
    MAX_TIME_STAMP,
    put_word,
    read_end_time,
    reserve,
    set_boolean,
)

from mtlmon.errors import MtlmonError, TimeStampError


@final
cdef class Histories(Replayer):
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
    """

    def __dealloc__(self):
        free_arrivals(&self.arrivals)
        free(self.places)
        free(self.time_stamps)
        free(self.letters)
        free(self.refused)

    # ---- batches ---------------------------------------------------------------------------

    def push(self, EventColumns columns not None, numbers=None):
        """Take a batch of events, in the order in which they come.

        Args:
            columns: the events, whose time-stamps need not be in order.
            numbers: the number of each event's trace, a buffer of uint32; None if all are of trace
                0.

        Returns:
            The indices of the events that come too late, as bytes of uint32.

        Raises:
            TimeStampError: a time-stamp is negative; nothing has changed.
        """
        cdef size_t count = columns.count
        cdef size_t refused, k
        cdef uint32_t most = 0
        cdef uint32_t start
        cdef const uint32_t *number_of = NULL
        cdef Memory memory
        cdef bint is_done = False
        self.require_ready()
        if self.is_finished:
            raise MtlmonError("the history is finished: no event can follow")
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
        start = self.arrivals.count
        if count:
            columns.read(
                0, count, self.arrivals.time_stamps + start,
                self.arrivals.letters + start * self.words, self.words
            )
        for k in range(count):
            self.arrivals.traces[start + k] = 0 if number_of == NULL else number_of[k]
        self.session.enter()
        try:
            with nogil:
                refused = self.admit(start, count)
                self.release(False)
            is_done = True
        finally:
            self.is_broken = not is_done
            if not self.session.is_broken():
                self.session.leave()
        return PyBytes_FromStringAndSize(<char *> self.refused, refused * sizeof(uint32_t))

    cdef size_t admit(self, size_t first, size_t count) except? 0 nogil:
        """Leave out the arrivals from number `first` on that come too late; return their number."""
        cdef size_t k
        cdef size_t refused = 0
        cdef uint64_t time_stamp
        cdef uint64_t *now
        cdef bint *has_now
        for k in range(count):
            time_stamp = self.arrivals.time_stamps[first + k]
            now = &self.now_of_all
            has_now = &self.has_now
            if self.is_by_key:
                now = &self.traces[self.arrivals.traces[first + k]].now
                has_now = &self.traces[self.arrivals.traces[first + k]].has_now
            if not has_now[0] or time_stamp > now[0]:
                now[0] = time_stamp
                has_now[0] = True
            elif self.has_lateness and now[0] - time_stamp > self.lateness:
                self.refused[refused] = <uint32_t> k
                refused += 1
                continue
            move_arrival(
                &self.arrivals, <uint32_t> (first + k), self.arrivals.count, self.words
            )
            self.arrivals.count += 1
        self.refused_count += refused
        return refused

    cdef int release(self, bint takes_all) except -1 nogil:
        """Judge the arrivals that have waited long enough, trace by trace, in order of time."""
        cdef uint32_t k
        cdef uint32_t kept = 0
        cdef size_t count = 0
        cdef size_t first = 0
        cdef size_t last
        cdef Arrivals *arrivals = &self.arrivals
        reserve(<void **> &self.places, &self.place_room, arrivals.count, sizeof(Place))
        reserve(<void **> &self.time_stamps, &self.time_room, arrivals.count, sizeof(uint64_t))
        reserve(
            <void **> &self.letters, &self.letter_room, arrivals.count,
            self.words * sizeof(uint64_t)
        )
        for k in range(arrivals.count):
            if takes_all or (
                self.now_of(arrivals.traces[k]) - arrivals.time_stamps[k] >= self.wait
            ):
                self.places[count].time_stamp = arrivals.time_stamps[k]
                self.places[count].trace = arrivals.traces[k]
                self.places[count].number = k
                count += 1
        sort_places(self.places, count)
        for k in range(count):
            self.time_stamps[k] = self.places[k].time_stamp
            memcpy(
                self.letters + k * self.words,
                arrivals.letters + self.places[k].number * self.words,
                self.words * sizeof(uint64_t)
            )
        while first < count:
            last = first + 1
            while last < count and self.places[last].trace == self.places[first].trace:
                last += 1
            self.take(
                self.places[first].trace, self.time_stamps + first,
                self.letters + first * self.words, last - first
            )
            first = last
        for k in range(arrivals.count):
            if not takes_all and (
                self.now_of(arrivals.traces[k]) - arrivals.time_stamps[k] < self.wait
            ):
                move_arrival(arrivals, k, kept, self.words)
                kept += 1
        arrivals.count = kept
        return 0

    def advance(self, uint64_t time_stamp, number=None):
        """Let time pass in all traces that have events, or in one; it counts as an arrival."""
        cdef uint32_t k = 0
        cdef bint is_of_one = number is not None
        cdef bint is_done = False
        self.require_ready()
        if self.is_finished:
            raise MtlmonError("the history is finished: time cannot pass")
        if number is not None:
            k = number
            self.make_traces(<size_t> k + 1)
            if self.traces[k].has_now and self.traces[k].now >= time_stamp:
                return
            self.traces[k].now = time_stamp
            self.traces[k].has_now = True
        else:
            if self.has_now and self.now_of_all >= time_stamp:
                return
            self.now_of_all = time_stamp
            self.has_now = True
        self.session.enter()
        try:
            with nogil:
                self.release(False)
            if time_stamp >= self.wait:
                if number is None:
                    self.note_advance(time_stamp - self.wait)
                with nogil:
                    if is_of_one:
                        self.pass_time(k, time_stamp - self.wait)
                    else:
                        for k in range(self.trace_count):
                            if self.traces[k].has_begun:
                                self.pass_time(k, time_stamp - self.wait)
            is_done = True
        finally:
            self.is_broken = not is_done
            if not self.session.is_broken():
                self.session.leave()

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
        """Judge what waits, and end all traces, with what is known about the time after them."""
        cdef EndTime end = read_end_time(end_time)
        cdef uint32_t k
        cdef bint is_done = False
        self.require_ready()
        if self.is_finished:
            return
        self.session.enter()
        try:
            with nogil:
                self.release(True)
                for k in range(self.trace_count):
                    if self.traces[k].has_begun:
                        self.make_live(k)
                        self.session.run_finish(&end)
                        self.apply(k)
                        self.note_pending(k)
            is_done = self.is_finished = True
        finally:
            self.is_broken = not is_done
            if not self.session.is_broken():
                self.session.leave()

    def changes(self):
        """What has changed since the last call: records of changes as bytes.

        What cannot change any more is forgotten afterwards.
        """
        cdef size_t count
        cdef bytes records = PyBytes_FromStringAndSize(
            NULL, self.journal.count * sizeof(ChangeRecord)
        )
        count = count_changes(&self.journal, self.traces, <ChangeRecord *> <char *> records)
        self.forget_some()
        return records[:count * sizeof(ChangeRecord)]

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
        if self.trace_count == 0 or not self.has_lateness or not self.has_delay:
            return None
        if number is not None:
            if number >= self.trace_count:
                return None
            return bound if self.bound_of(number, &bound) else None
        for k in range(self.trace_count):
            if not self.bound_of(k, &bound):
                return None
            least = min(least, bound)
        return least

    def now(self, uint32_t number=0):
        """The largest time-stamp so far; None if there is none."""
        if not self.is_by_key:
            return self.now_of_all if self.has_now else None
        if number >= self.trace_count or not self.traces[number].has_now:
            return None
        return self.traces[number].now

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
    def finished(self):
        """Whether the history has ended."""
        return self.is_finished
