# cython: language_level=3
"""Monitor events from arrays and write the verdicts to an array, without Python in between."""

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

from mtlmon.arrays.native cimport BLOCK_EVENTS, EventColumns, Memory
from mtlmon.engine.native cimport MAX_TIME_STAMP, Session, VerdictRecord, copy_record, nanoseconds

from mtlmon.errors import MemoryLimitError, MtlmonError

cdef enum:
    SIGNAL_NANOSECONDS = 50 * 1000 * 1000


@final
cdef class Feeding:
    """Runs a monitor on events in columns, in a single call that no other call can interrupt."""

    def __cinit__(self, Session monitor not None):
        self.monitor = monitor
        self.time_stamps = <uint64_t *> calloc(BLOCK_EVENTS + 1, sizeof(uint64_t))
        self.letters = <uint64_t *> calloc(
            BLOCK_EVENTS * monitor.letter_words, sizeof(uint64_t)
        )
        if self.time_stamps == NULL or self.letters == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        free(self.time_stamps)
        free(self.letters)

    def feed(self, list batches, new_records):
        """Process the events of all batches; return the records and how many of them are verdicts.

        Args:
            batches: a list of EventColumns.
            new_records: called with the largest possible number of verdicts; returns a writable
                array of that many verdict records.

        Raises:
            TimeStampError: a time-stamp is not valid; the monitor is unchanged.
            LimitError, MemoryError, KeyboardInterrupt: raised in the middle of an event. The
                exception's attribute `records` is what would have been returned.
        """
        cdef EventColumns batch
        cdef Memory memory
        cdef size_t count = 0
        cdef uint64_t clock
        self.monitor.enter()
        try:
            clock = self.monitor.state.clock
            for batch in batches:
                batch.check_time_stamps(clock, count, 0, batch.count)
                clock = batch.last_time_stamp(clock)
                count += batch.count
            # Every time-point has exactly one verdict.
            self.room = count + self.monitor.pending_count()
            records = new_records(self.room)
            memory = Memory(records, sizeof(VerdictRecord), self.room, True)
            if memory.buffer.strides[0] != sizeof(VerdictRecord):
                raise ValueError("verdict records have gaps between them")
        except BaseException:
            self.monitor.leave()
            raise
        self.verdicts = <VerdictRecord *> memory.buffer.buf
        self.verdict_count = 0
        self.time_stamps[0] = self.monitor.state.clock
        self.deadline = nanoseconds() + SIGNAL_NANOSECONDS
        try:
            if self.monitor.memory is not None:
                self.monitor.check_memory()
            for batch in batches:
                with nogil:
                    self.run(batch)
        except BaseException as error:
            if isinstance(error, MemoryLimitError) and not self.monitor.is_broken():
                # The error came between two blocks of events.
                self.monitor.leave()
            else:
                self.monitor.mark_broken()
            error.records = (records, self.verdict_count)
            raise
        self.monitor.leave()
        return records, self.verdict_count

    cdef int run(self, EventColumns events) except -1 nogil:
        cdef size_t words = self.monitor.letter_words
        cdef size_t done = 0
        cdef size_t count, taken, k
        cdef uint64_t *time_stamps = self.time_stamps + 1
        cdef bint decreases
        while done < events.count:
            count = min(<size_t> BLOCK_EVENTS, events.count - done)
            events.read(done, count, time_stamps, self.letters, words)
            decreases = False
            for k in range(count):
                decreases |= time_stamps[k] < self.time_stamps[k]
            if decreases or time_stamps[count - 1] > MAX_TIME_STAMP():
                with gil:
                    raise MtlmonError("time-stamps were changed while they were read")
            taken = 0
            while taken < count:
                try:
                    taken += self.monitor.run(
                        time_stamps + taken, self.letters + taken * words, count - taken
                    )
                finally:
                    # Also after an error, for the verdicts of the events before it.
                    self.take_verdicts()
            self.time_stamps[0] = time_stamps[count - 1]
            done += count
            if self.monitor.memory is not None:
                self.monitor.check_memory()
            self.look_for_signals()
        return 0

    cdef int take_verdicts(self) except -1 nogil:
        """Append the verdicts of the last events."""
        cdef const VerdictRecord *source = self.monitor.verdicts
        cdef size_t count = self.monitor.verdict_count
        cdef size_t k
        if count > self.room - self.verdict_count:
            with gil:
                raise AssertionError("more verdicts than time-points")
        for k in range(count):
            copy_record(&self.verdicts[self.verdict_count + k], &source[k])
        self.verdict_count += count
        return 0

    cdef int look_for_signals(self) except -1 nogil:
        cdef int64_t now = nanoseconds()
        if now >= self.deadline:
            self.deadline = now + SIGNAL_NANOSECONDS
            with gil:
                PyErr_CheckSignals()
        return 0
