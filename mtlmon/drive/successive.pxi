# cython: language_level=3
"""Monitor streams one after the other with a single monitor, such as groups of sorted rows.

Nothing is kept of a stream that has ended, so memory does not depend on the number of streams.
"""

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from mtlmon.arrays.native cimport BLOCK_EVENTS, EventColumns, Memory
from mtlmon.engine.native cimport (
    Mode,
    Session,
    VerdictRecord,
    copy_record,
    free_state,
    init_state,
    read_end_time,
    reserve,
)
from mtlmon.verdicts.native cimport Resolver

from mtlmon.errors import MtlmonError


@final
cdef class SuccessiveMonitor:
    """Monitors streams of events against one formula, one stream after the other.

    Args:
        formula: as for `Monitor`.
        mode: as for `Monitor`.
        bdd: as for `Monitor`.
        unit: as for `Monitor`.
        resolve: replace equivalences by the Boolean verdict of each time-point. Memory then grows
            with the open time-points.
        end_time: what is known about the time after a stream's last event. None: nothing. A
            time-stamp: every stream is complete up to and including it. "last": the same with the
            last time-stamp of each stream. "inf": no event ever follows.

    Raises, besides what `Monitor` raises:
        MtlmonError: `end_time` is none of these.
        TimeStampError: `end_time` is negative or above 2^63-1.
    """

    def __cinit__(
        self, formula, str mode not None="local", *, str bdd not None="auto", str unit=None,
        bint resolve=False, end_time=None
    ):
        self.monitor = Session(formula, mode, bdd=bdd, unit=unit)
        self.resolver = Resolver() if resolve else None
        if resolve:
            self.resolver.is_flat = True
        self.end = read_end_time(end_time)
        self.time_stamps = <uint64_t *> calloc(BLOCK_EVENTS, sizeof(uint64_t))
        self.letters = <uint64_t *> calloc(
            BLOCK_EVENTS * self.monitor.letter_words, sizeof(uint64_t)
        )
        if self.time_stamps == NULL or self.letters == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        free(self.time_stamps)
        free(self.letters)
        free(self.records)
        free(self.owners)

    @property
    def atoms(self):
        """The names of the atoms that the formula depends on."""
        return self.monitor.atoms

    @property
    def pending_count(self):
        """The number of time-points of the current stream that the engine keeps as undecided."""
        return self.monitor.pending_count()

    def feed(self, EventColumns events not None, starts):
        """Process events.

        Args:
            events: events of the current stream, and of the streams after it.
            starts: a buffer of uint32: the indices of the events that begin another stream, in
                strictly increasing order.

        Returns:
            records, owners: bytes of verdict records, and of uint32 numbers of their streams: 0 is
            the stream before the first start, 1 the one from there on, and so forth.

        Raises:
            TimeStampError: a time-stamp is negative or, within a stream, below the previous one;
                nothing has changed.
            LimitError, MemoryError, KeyboardInterrupt: raised in the middle of an event, which
                leaves the monitor broken.
        """
        cdef Memory memory = Memory(starts, sizeof(uint32_t), 0)
        cdef const uint32_t *places = <const uint32_t *> memory.buffer.buf
        cdef size_t count = <size_t> memory.buffer.shape[0]
        if count > 1 and memory.buffer.strides[0] != sizeof(uint32_t):
            raise ValueError("starts of streams have gaps between them")
        self.begin()
        try:
            self.check_starts(places, count, events.count)
            self.check_time_stamps(events, places, count)
            with nogil:
                self.run(events, places, count)
            return self.taken()
        finally:
            self.is_busy = False

    def finish(self):
        """End the current stream; return the bytes of the verdict records this brings.

        Another stream may follow.
        """
        self.begin()
        try:
            with nogil:
                self.end_stream(0)
            return self.taken()[0]
        finally:
            self.is_busy = False

    cdef int begin(self) except -1:
        """Begin a call, unless another call is active."""
        if self.is_busy:
            raise MtlmonError("the monitor is in use: another call of it has not returned yet")
        self.monitor.require_ready()
        self.is_busy = True
        self.record_count = 0
        return 0

    cdef tuple taken(self):
        return (
            (<const char *> self.records)[:self.record_count * sizeof(VerdictRecord)],
            (<const char *> self.owners)[:self.record_count * sizeof(uint32_t)],
        )

    cdef int check_starts(self, const uint32_t *starts, size_t count, size_t limit) except -1:
        cdef size_t k
        for k in range(count):
            if starts[k] >= limit or (k and starts[k] <= starts[k - 1]):
                raise ValueError(f"starts of streams do not increase below {limit}")
        return 0

    cdef int check_time_stamps(
        self, EventColumns events, const uint32_t *starts, size_t count
    ) except -1:
        cdef size_t first = 0
        cdef size_t k
        cdef uint64_t clock = self.monitor.state.clock
        for k in range(count):
            events.check_time_stamps(clock, 0, first, starts[k])
            first = starts[k]
            clock = 0
        events.check_time_stamps(clock, 0, first, events.count)
        return 0

    cdef int run(self, EventColumns events, const uint32_t *starts, size_t count) except -1 nogil:
        cdef size_t words = self.monitor.letter_words
        cdef size_t block = 0       # where the block of events begins
        cdef size_t stop = 0        # where it ends
        cdef size_t place = 0
        cdef size_t start = 0       # how many streams have begun
        cdef size_t limit
        while place < events.count:
            if place == stop:
                block = stop
                stop = min(events.count, block + BLOCK_EVENTS)
                events.read(block, stop - block, self.time_stamps, self.letters, words)
                if block & 0xFFFF == 0:
                    with gil:
                        PyErr_CheckSignals()
            if start < count and starts[start] == place:
                self.end_stream(<uint32_t> start)
                start += 1
            limit = stop
            if start < count and starts[start] < stop:
                limit = starts[start]
            self.run_stream(
                self.time_stamps + (place - block), self.letters + (place - block) * words,
                limit - place, <uint32_t> start
            )
            place = limit
        return 0

    cdef int run_stream(
        self, const uint64_t *time_stamps, const uint64_t *letters, size_t count, uint32_t owner
    ) except -1 nogil:
        cdef size_t done = 0
        while done < count:
            done += self.monitor.push(
                time_stamps + done, letters + done * self.monitor.letter_words, count - done
            )
            self.take(owner)
        return 0

    cdef int end_stream(self, uint32_t owner) except -1 nogil:
        """End the current stream; the next one starts from the initial state."""
        cdef Mode mode = self.monitor.state.history.mode
        if self.monitor.pending_count():
            self.monitor.push_finish(&self.end)
            self.take(owner)
        if self.resolver is not None:
            self.resolver.clear()
        if self.monitor.state.event_count:
            free_state(&self.monitor.state)
            with gil:
                init_state(&self.monitor.state, self.monitor.program, mode)
        return 0

    cdef int take(self, uint32_t owner) except -1 nogil:
        """Keep the verdicts of the monitor's last call."""
        cdef const VerdictRecord *source = self.monitor.verdicts
        cdef size_t count = self.monitor.verdict_count
        cdef size_t k
        if count == 0:
            return 0
        if self.resolver is not None:
            return self.resolve(owner)
        self.reserve_records(count)
        for k in range(count):
            copy_record(&self.records[self.record_count + k], &source[k])
            self.owners[self.record_count + k] = owner
        self.record_count += <uint32_t> count
        return 0

    cdef int resolve(self, uint32_t owner) except -1 nogil:
        """Keep the verdicts that the monitor's last call has resolved."""
        cdef size_t count = RESOLVED_AT_ONCE
        cdef size_t k
        if not self.resolver.push(self.monitor.verdicts, self.monitor.verdict_count):
            with gil:
                raise MemoryError("mtlmon: out of memory")
        while count == RESOLVED_AT_ONCE:
            self.reserve_records(RESOLVED_AT_ONCE)
            count = self.resolver.next(&self.records[self.record_count], RESOLVED_AT_ONCE)
            for k in range(count):
                self.owners[self.record_count + k] = owner
            self.record_count += <uint32_t> count
        return 0

    cdef int reserve_records(self, size_t more) except -1 nogil:
        reserve(
            <void **> &self.records, &self.record_capacity, self.record_count + more,
            sizeof(VerdictRecord)
        )
        reserve(
            <void **> &self.owners, &self.owner_capacity, self.record_count + more,
            sizeof(uint32_t)
        )
        return 0
