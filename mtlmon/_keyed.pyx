# cython: language_level=3
"""Events of many streams from arrays, each with the number of its stream."""

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from mtlmon._arrays cimport EventColumns, Memory
from mtlmon._core cimport Monitor
from mtlmon._memory cimport reserve
from mtlmon._streams cimport Streams
from mtlmon._verdict cimport VERDICT_EQUIVALENT, VerdictRecord

cdef enum:
    BLOCK_EVENTS = 256


@final
cdef class KeyedMonitors:
    """Monitors of many streams against one formula, told apart by numbers 0, 1, 2, ...

    Takes what `Monitor` takes. A stream is there from the first mention of its number, or a
    larger one, on. Time is common to all: no event has a time-stamp below that of an earlier one.
    """

    def __cinit__(
        self, formula, str mode not None="local", *, str bdd not None="auto", str unit=None,
        str unknown not None="ignore"
    ):
        self.streams = Streams(Monitor(formula, mode, bdd=bdd, unit=unit, unknown=unknown))
        self.time_stamps = <uint64_t *> calloc(BLOCK_EVENTS, sizeof(uint64_t))
        self.letters = <uint64_t *> calloc(
            BLOCK_EVENTS * self.streams.worker.letter_words, sizeof(uint64_t)
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
        return self.streams.worker.atoms

    @property
    def counters(self):
        """What `Monitors.counters` says."""
        return self.streams.counters(self.streams.count)

    def feed(self, EventColumns events not None, numbers):
        """Go on to events; numbers: buffer of as many items of type uint32, their streams.

        Returns:
            records, owners: bytes of verdict records, and of uint32 numbers of their streams, in
            the order of events and, for each, of time-points.
        """
        cdef Memory memory = Memory(numbers, sizeof(uint32_t), events.count)
        cdef const uint32_t *streams = <const uint32_t *> memory.buffer.buf
        cdef size_t count = events.count
        cdef size_t done = 0
        cdef uint32_t largest = 0
        cdef size_t k
        if memory.buffer.strides[0] != sizeof(uint32_t):
            raise ValueError("numbers of streams have gaps between them")
        events.check_time_stamps(self.clock, 0)
        with nogil:
            for k in range(count):
                largest = max(largest, streams[k])
        if count:
            self.streams.extend(<size_t> largest + 1)
        self.record_count = 0
        self.streams.worker.enter()
        try:
            with nogil:
                while done < count:
                    self.run(events, streams, done, min(<size_t> BLOCK_EVENTS, count - done))
                    done += BLOCK_EVENTS
                    if done & 0xFFFF == 0:
                        with gil:
                            PyErr_CheckSignals()
        finally:
            self.streams.worker.leave()
        self.clock = events.last_time_stamp(self.clock)
        return (
            (<const char *> self.records)[:self.record_count * sizeof(VerdictRecord)],
            (<const char *> self.owners)[:self.record_count * sizeof(uint32_t)],
        )

    def finish(self, uint32_t number, end_time=None):
        """A stream ends: bytes of the verdict records this brings.

        `end_time` is that of `Monitor.finish`, "last" meaning the time-stamp of the last event of
        any stream. The stream is forgotten.
        """
        cdef Monitor worker = self.streams.worker
        if number >= self.streams.count:
            return b""
        if isinstance(end_time, str) and end_time == "last":
            end_time = self.clock
        self.streams.load(&self.streams.resting[number])
        try:
            worker.finish(end_time)
            clear_references(worker.verdicts, worker.verdict_count)
            return (<const char *> worker.verdicts)[
                :worker.verdict_count * sizeof(VerdictRecord)
            ]
        finally:
            worker.revive()
            self.streams.store(&self.streams.resting[number])
            self.streams.clear(&self.streams.resting[number])

    cdef int run(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count
    ) except -1 nogil:
        cdef size_t words = self.streams.worker.letter_words
        cdef size_t taken = 0
        events.read(first, count, self.time_stamps, self.letters, words)
        while taken < count:
            taken += self.streams.run(
                numbers + first + taken, self.time_stamps + taken, self.letters + taken * words,
                count - taken
            )
            self.take()
        return 0

    cdef int take(self) except -1 nogil:
        cdef uint32_t count = self.streams.worker.output.count
        reserve(
            <void **> &self.records, &self.record_capacity, <size_t> self.record_count + count,
            sizeof(VerdictRecord)
        )
        reserve(
            <void **> &self.owners, &self.owner_capacity, <size_t> self.record_count + count,
            sizeof(uint32_t)
        )
        if count:
            memcpy(
                self.records + self.record_count, self.streams.worker.output.records,
                count * sizeof(VerdictRecord)
            )
            clear_references(self.records + self.record_count, count)
            memcpy(self.owners + self.record_count, self.streams.owners, count * sizeof(uint32_t))
        self.record_count += count
        return 0


cdef void clear_references(VerdictRecord *records, size_t count) noexcept nogil:
    """Leave nothing to chance where a verdict refers to no other time-point."""
    cdef size_t k
    for k in range(count):
        if records[k].kind != VERDICT_EQUIVALENT:
            records[k].reference_time_stamp = 0
            records[k].reference_offset = 0
