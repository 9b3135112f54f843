# cython: language_level=3
"""Sinks of verdicts: rows in memory, lines of text, the line of the first violation."""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from mtlmon.arrays.native cimport Memory
from mtlmon.engine.native cimport (
    Session,
    VERDICT_FALSE,
    VerdictRecord,
    VerdictRun,
    Verdicts,
    copy_record,
    reserve,
    set_boolean,
)
from mtlmon.text.native cimport FILTER_ALL, FILTER_NONE, VerdictFilter, Writer

cdef enum:
    # a sink of text is full once this much output waits
    OUTPUT_BYTES = 1 << 18


cdef class Sink:
    """The base of sinks."""

    cdef int put(
        self, const VerdictRecord *records, size_t count, VerdictFilter filter,
        uint32_t stream, uint32_t policy
    ) except -1 nogil:
        """Take the verdicts that pass the filter."""
        return 0

    cdef int put_runs(
        self, const VerdictRun *runs, size_t count, VerdictFilter filter,
        uint32_t stream, uint32_t policy
    ) except -1 nogil:
        """Take the verdicts of runs that pass the filter."""
        cdef VerdictRecord records[RUN_VERDICTS]
        cdef size_t size = 0
        cdef uint64_t offset
        cdef size_t k
        for k in range(count):
            for offset in range(runs[k].offset, runs[k].offset + runs[k].length):
                set_boolean(&records[size], runs[k].time_stamp, offset, runs[k].kind)
                size += 1
        return self.put(records, size, filter, stream, policy)

    cdef bint is_full(self) noexcept nogil:
        """Whether so much output waits that it should be taken out first."""
        return False

    cdef void begin_work(self, const Verdicts *output, VerdictFilter filter) noexcept nogil:
        """Note that nothing is put until `end_work`, and where the next verdicts are collected."""

    cdef void end_work(self) noexcept nogil:
        """End what `begin_work` began."""

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the sink takes."""
        return 0


@final
cdef class VerdictRows(Sink):
    """Verdicts, each with the numbers of its stream and its policy."""

    def __cinit__(self):
        self.has_owners = True

    def __dealloc__(self):
        free(self.records)
        free(self.streams)
        free(self.policies)

    def __len__(self):
        return self.count

    def taken(self):
        """Remove all rows and return them: the bytes of the records, of the uint32 numbers of their
        streams, and of the uint32 numbers of their policies.
        """
        rows = (
            (<const char *> self.records)[:self.count * sizeof(VerdictRecord)],
            (<const char *> self.streams)[:self.count * sizeof(uint32_t)],
            (<const char *> self.policies)[:self.count * sizeof(uint32_t)],
        )
        self.count = 0
        return rows

    def time_stamps(self):
        """The time-stamps of all rows, as the bytes of an array of uint64."""
        cdef bytes text = PyBytes_FromStringAndSize(NULL, self.count * sizeof(uint64_t))
        cdef uint64_t *values = <uint64_t *> <char *> text
        cdef size_t k
        for k in range(self.count):
            values[k] = self.records[k].time_stamp
        return text

    def violations(self):
        """For each row whether it is a violation, as the bytes of an array of uint8."""
        cdef bytes text = PyBytes_FromStringAndSize(NULL, self.count)
        cdef char *values = <char *> text
        cdef size_t k
        for k in range(self.count):
            values[k] = self.records[k].kind == VERDICT_FALSE
        return text

    def add_false(self, uint64_t time_stamp, uint64_t offset, uint32_t stream, uint32_t policy):
        """Add a violation."""
        cdef VerdictRecord record
        set_boolean(&record, time_stamp, offset, VERDICT_FALSE)
        self.put(&record, 1, FILTER_ALL, stream, policy)

    def add(self, records, streams, uint32_t policy):
        """Add verdicts of a policy.

        Args:
            records: an array of bytes, those of the verdict records.
            streams: an array of uint32, the numbers of their streams.

        Raises:
            ValueError: the arrays are not of such items, or not of one length.
        """
        cdef Memory numbers = Memory(streams, sizeof(uint32_t), 0)
        cdef size_t count = <size_t> numbers.buffer.shape[0]
        cdef Memory bytes_of = Memory(records, 1, 0)
        cdef const char *verdicts = <const char *> bytes_of.buffer.buf
        cdef const char *place = <const char *> numbers.buffer.buf
        cdef VerdictRecord record
        cdef uint32_t stream
        cdef size_t k
        if <size_t> bytes_of.buffer.shape[0] != count * sizeof(VerdictRecord):
            raise ValueError("expected a record for each number")
        if bytes_of.buffer.shape[0] > 1 and bytes_of.buffer.strides[0] != 1:
            raise ValueError("records have gaps between them")
        for k in range(count):
            # items of packed records need not be aligned
            memcpy(&record, verdicts + k * sizeof(record), sizeof(record))
            memcpy(&stream, place + <Py_ssize_t> k * numbers.buffer.strides[0], sizeof(stream))
            self.put(&record, 1, FILTER_ALL, stream, policy)

    cdef object take_records(self):
        """Remove all rows and return their records, as a buffer that is not copied."""
        cdef VerdictBuffer buffer = VerdictBuffer()
        cdef void *smaller = realloc(
            self.records, max(<size_t> 1, self.count * sizeof(VerdictRecord))
        )
        if smaller != NULL:
            self.records = <VerdictRecord *> smaller
        buffer.records = self.records
        buffer.size = self.count * sizeof(VerdictRecord)
        self.records = NULL
        self.record_room = self.count = 0
        return buffer

    cdef int put(
        self, const VerdictRecord *records, size_t count, VerdictFilter filter,
        uint32_t stream, uint32_t policy
    ) except -1 nogil:
        cdef size_t needed = self.count + count
        cdef size_t k
        if filter == FILTER_NONE or count == 0:
            return 0
        if needed > self.record_room or self.has_owners and (
            needed > self.stream_room or needed > self.policy_room
        ):
            self.grow(needed)
        if filter == FILTER_ALL and not self.has_owners:
            for k in range(count):
                copy_record(&self.records[self.count + k], &records[k])
            self.count = <uint32_t> needed
            return 0
        for k in range(count):
            if passes(filter, records[k].kind):
                copy_record(&self.records[self.count], &records[k])
                if self.has_owners:
                    self.streams[self.count] = stream
                    self.policies[self.count] = policy
                self.count += 1
        return 0

    cdef int put_owned(
        self, const Verdicts *verdicts, const uint32_t *streams, VerdictFilter filter,
        uint32_t first_place
    ) except -1 nogil:
        """Take the verdicts of one policy; `policies` then has their places instead."""
        cdef const VerdictRecord *records = verdicts.records
        cdef VerdictRecord *copies
        cdef uint32_t count = self.count
        cdef uint32_t k
        self.grow(<size_t> count + verdicts.count)
        copies = self.records
        for k in range(verdicts.count):
            # Those that do not pass are overwritten.
            copy_record(&copies[count], &records[k])
            self.streams[count] = streams[k]
            self.policies[count] = first_place + records[k].place
            count += passes(filter, records[k].kind)
        self.count = count
        return 0

    cdef int grow(self, size_t needed) except -1 nogil:
        """Make room for so many rows."""
        reserve(<void **> &self.records, &self.record_room, needed, sizeof(VerdictRecord))
        if not self.has_owners:
            return 0
        reserve(<void **> &self.streams, &self.stream_room, needed, sizeof(uint32_t))
        reserve(<void **> &self.policies, &self.policy_room, needed, sizeof(uint32_t))
        return 0

    cdef size_t held_bytes(self) noexcept nogil:
        return self.record_room * sizeof(VerdictRecord) + (
            <size_t> self.stream_room + self.policy_room
        ) * sizeof(uint32_t)


@final
cdef class VerdictBuffer:
    """Verdict records in memory of their own, with the buffer protocol."""

    def __dealloc__(self):
        free(self.records)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.records, self.size, 0, flags)


@final
cdef class LineSink(Sink):
    """Writes a line for each verdict of a single stream and policy."""

    def __cinit__(self, Writer writer not None):
        self.writer = writer

    cdef int put(
        self, const VerdictRecord *records, size_t count, VerdictFilter filter,
        uint32_t stream, uint32_t policy
    ) except -1 nogil:
        if not self.writer.write(records, count, filter):
            with gil:
                raise MemoryError("mtlmon: out of memory")
        return 0

    cdef int put_runs(
        self, const VerdictRun *runs, size_t count, VerdictFilter filter,
        uint32_t stream, uint32_t policy
    ) except -1 nogil:
        if self.writer.is_json:
            return Sink.put_runs(self, runs, count, filter, stream, policy)
        if not self.writer.write_runs(runs, count, filter):
            with gil:
                raise MemoryError("mtlmon: out of memory")
        return 0

    cdef bint is_full(self) noexcept nogil:
        return self.writer.size >= OUTPUT_BYTES

    cdef void begin_work(self, const Verdicts *output, VerdictFilter filter) noexcept nogil:
        self.writer.next_records = output
        self.writer.next_filter = filter
        self.writer.is_idle = True

    cdef void end_work(self) noexcept nogil:
        self.writer.is_idle = False
        self.writer.next_records = NULL

    cdef size_t held_bytes(self) noexcept nogil:
        return self.writer.room


@final
cdef class FirstLine(Sink):
    """Writes the earliest false time-point of a monitor, once nothing before it is undecided."""

    def __cinit__(self, Session monitor not None, Writer writer not None):
        self.monitor = monitor
        self.writer = writer

    cdef int put(
        self, const VerdictRecord *records, size_t count, VerdictFilter filter,
        uint32_t stream, uint32_t policy
    ) except -1 nogil:
        cdef uint64_t time_stamp, offset
        cdef size_t k
        for k in range(count):
            if records[k].kind == VERDICT_FALSE and (
                not self.has_candidate
                or is_before(
                    records[k].time_stamp,
                    records[k].offset,
                    self.candidate.time_stamp,
                    self.candidate.offset,
                )
            ):
                self.candidate = records[k]
                self.has_candidate = True
        if not self.has_candidate:
            return 0
        self.is_decided = not self.monitor.earliest_pending(&time_stamp, &offset) or is_before(
            self.candidate.time_stamp, self.candidate.offset, time_stamp, offset
        )
        if self.is_decided and not self.writer.write(&self.candidate, 1, FILTER_ALL):
            with gil:
                raise MemoryError("mtlmon: out of memory")
        return 0

    cdef void begin_work(self, const Verdicts *output, VerdictFilter filter) noexcept nogil:
        self.writer.is_idle = True

    cdef void end_work(self) noexcept nogil:
        self.writer.is_idle = False

    cdef size_t held_bytes(self) noexcept nogil:
        return self.writer.room


cdef inline bint is_before(
    uint64_t time_stamp, uint64_t offset, uint64_t other_time_stamp, uint64_t other_offset
) noexcept nogil:
    return time_stamp < other_time_stamp or (
        time_stamp == other_time_stamp and offset < other_offset
    )
