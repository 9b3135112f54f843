# cython: language_level=3
"""Events of many streams from arrays, each with the number of its stream."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from mtlmon._arrays cimport EventColumns, Memory
from mtlmon._core cimport Monitor
from mtlmon._memory cimport reserve
from mtlmon._streams cimport Owner, Streams
from mtlmon._verdict cimport VERDICT_EQUIVALENT, VerdictRecord

cdef enum:
    BLOCK_EVENTS = 256
    # After so many, it looks for signals.
    BATCH_EVENTS = 1 << 16


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
        self.is_wanted[:] = [True, True, True]

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
    def mode(self):
        """The mode that the monitors work in."""
        return self.streams.worker.mode

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
        cdef Memory memory = stream_numbers(numbers, events.count)
        cdef const uint32_t *streams = <const uint32_t *> memory.buffer.buf
        cdef size_t first = 0
        cdef uint32_t *target
        cdef uint32_t k
        events.check_time_stamps(self.clock, 0, 0, events.count)
        self.begin(events, streams, 0, events.count)
        self.streams.worker.enter()
        try:
            while first < events.count:
                with nogil:
                    self.go_on(
                        events, streams, first, min(<size_t> BATCH_EVENTS, events.count - first)
                    )
                first += BATCH_EVENTS
                PyErr_CheckSignals()
        finally:
            self.streams.worker.leave()
        owners = PyBytes_FromStringAndSize(NULL, self.record_count * sizeof(uint32_t))
        target = <uint32_t *> PyBytes_AS_STRING(owners)
        for k in range(self.record_count):
            target[k] = self.owners[k].number
        return (<const char *> self.records)[:self.record_count * sizeof(VerdictRecord)], owners

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

    @property
    def pending_streams(self):
        """The numbers of the streams that have undecided time-points."""
        cdef uint64_t time_stamp = 0
        cdef uint32_t k
        return [
            k for k in range(self.streams.count) if self.streams.earliest_pending(k, &time_stamp)
        ]

    def pending(self, uint32_t number, uint64_t time_stamp=0):
        """What `Monitor.pending` says of a stream, if no event comes below a time-stamp."""
        if number >= self.streams.count:
            return []
        return self.streams.pending(number, time_stamp)

    cdef int begin(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count
    ) except -1:
        """Before some events, whose time-stamps are checked: have their streams, no verdicts."""
        cdef uint32_t largest = 0
        cdef size_t k
        self.record_count = 0
        if count:
            self.clock = events.time_stamp_of(first + count - 1)
        with nogil:
            for k in range(first, first + count):
                largest = max(largest, numbers[k])
        if count:
            self.streams.extend(<size_t> largest + 1)
        return 0

    cdef int go_on(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count
    ) except -1 nogil:
        """Go on to some of the events, between `enter` and `leave` of the worker."""
        cdef size_t words = self.streams.worker.letter_words
        cdef size_t start = 0
        cdef size_t part, taken
        cdef Owner nobody
        nobody.number = nobody.place = 0
        self.done = 0
        while start < count:
            part = min(<size_t> BLOCK_EVENTS, count - start)
            events.read(first + start, part, self.time_stamps, self.letters, words)
            taken = 0
            while taken < part:
                nobody.place = <uint32_t> (start + taken)
                try:
                    taken += self.streams.run(
                        numbers + first + start + taken, self.time_stamps + taken,
                        self.letters + taken * words, part - taken
                    )
                finally:
                    # Also after an error: the verdicts of the events before.
                    self.take(
                        self.streams.worker.output.records, self.streams.worker.output.count,
                        self.streams.owners, nobody
                    )
                    self.done = nobody.place + self.streams.done
            start += part
        return 0

    cdef int advance(
        self, size_t first, size_t count, uint64_t time_stamp, uint64_t delay
    ) except -1 nogil:
        """No event of some streams comes below a time-stamp.

        delay: leave out streams whose earliest pending time-point is no more than that before.
        """
        cdef uint64_t earliest = 0
        cdef size_t k
        for k in range(first, min(first + count, <size_t> self.streams.count)):
            self.done = k - first
            if (
                self.streams.earliest_pending(<uint32_t> k, &earliest)
                and time_stamp > earliest and time_stamp - earliest > delay
            ):
                self.streams.settle(<uint32_t> k, time_stamp)
                self.take_from_worker(<uint32_t> k)
        self.done = count
        return 0

    cdef int end(
        self, size_t first, size_t count, uint64_t time_stamp, bint is_closed
    ) except -1 nogil:
        """Some streams end, and no event comes below a time-stamp; with `is_closed`, none at all.
        """
        cdef uint64_t earliest = 0
        cdef size_t k
        for k in range(first, min(first + count, <size_t> self.streams.count)):
            self.done = k - first
            if self.streams.earliest_pending(<uint32_t> k, &earliest):
                self.streams.end(<uint32_t> k, time_stamp, is_closed)
                self.take_from_worker(<uint32_t> k)
        self.done = count
        return 0

    cdef int take_from_worker(self, uint32_t number) except -1 nogil:
        """Append the verdicts that the last call of the worker has brought to a stream."""
        cdef Owner owner
        owner.number = number
        owner.place = <uint32_t> self.done
        return self.take(
            self.streams.worker.verdicts, <uint32_t> self.streams.worker.verdict_count, NULL, owner
        )

    cdef int take(
        self, const VerdictRecord *records, uint32_t count, const Owner *owners, Owner owner
    ) except -1 nogil:
        """Append verdicts.

        owners: of each, with places counted from that of `owner`; or NULL if all have `owner`.
        """
        cdef size_t total = <size_t> self.record_count + count
        cdef VerdictRecord *record
        cdef uint32_t k
        reserve(
            <void **> &self.records, &self.record_capacity, total, sizeof(VerdictRecord)
        )
        reserve(<void **> &self.owners, &self.owner_capacity, total, sizeof(Owner))
        for k in range(count):
            if not self.is_wanted[records[k].kind]:
                continue
            record = &self.records[self.record_count]
            record[0] = records[k]
            self.owners[self.record_count] = owner
            if owners != NULL:
                self.owners[self.record_count].number = owners[k].number
                self.owners[self.record_count].place += owners[k].place
            self.record_count += 1
            clear_references(record, 1)
        return 0


cdef Memory stream_numbers(object numbers, size_t count):
    """The memory of numbers of streams, one for each event."""
    cdef Memory memory = Memory(numbers, sizeof(uint32_t), count)
    if memory.buffer.strides[0] != sizeof(uint32_t):
        raise ValueError("numbers of streams have gaps between them")
    return memory


cdef inline void clear_references(VerdictRecord *records, size_t count) noexcept nogil:
    """Leave nothing to chance where a verdict refers to no other time-point."""
    cdef size_t k
    for k in range(count):
        if records[k].kind != VERDICT_EQUIVALENT:
            records[k].reference_time_stamp = 0
            records[k].reference_offset = 0
