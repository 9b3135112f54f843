# cython: language_level=3
"""The writer of verdict lines: verdict records in, bytes for a file descriptor out.

The lines are `ts:offset true`, `ts:offset false` and `ts:offset = ts':offset'`.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, errno
from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from posix.unistd cimport write as write_to

from mtlmon._verdict cimport VERDICT_FALSE, VERDICT_TRUE, VerdictRecord

from os import strerror

cdef enum:
    # two time-points of 19 + 1 + 20 characters, " = " and a line feed, and a prefix copied whole
    LINE_ROOM = 96
    # the longest prefix has 21 characters
    PREFIX_ROOM = 24
    # a larger buffer is given back once it is empty
    ROOM_KEPT = 1 << 20

# the numbers 00 to 99
cdef const char *PAIRS = (
    b"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    b"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    b"8081828384858687888990919293949596979899"
)


@cython.final
cdef class Writer:
    """A growing buffer of verdict lines, emptied by `flush`."""

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return <Py_ssize_t> self.pending()

    def take(self):
        """Remove what is written from the buffer and return it, as bytes."""
        text = PyBytes_FromStringAndSize(
            <const char *> self.data + self.taken, <Py_ssize_t> self.pending()
        )
        self.clear()
        return text

    def flush(self, int file_descriptor):
        """Write the buffer to a file, waiting as long as it takes.

        What was written is counted here, not in Python: a signal handler that raises can neither
        lose a line nor write one twice.

        Raises:
            OSError: the file takes no more.
        """
        cdef Py_ssize_t written
        cdef int error
        while self.taken != self.size:
            with nogil:
                written = write_to(
                    file_descriptor, self.data + self.taken, self.size - self.taken
                )
                error = errno
                if written > 0:
                    self.taken += <size_t> written
            PyErr_CheckSignals()
            if written < 0 and error != EINTR:
                raise OSError(error, strerror(error))
        self.clear()

    cdef size_t pending(self) noexcept nogil:
        """How many bytes wait to be written."""
        return self.size - self.taken

    cdef void clear(self) noexcept nogil:
        self.taken = self.size = 0
        if self.room > ROOM_KEPT:
            free(self.data)
            self.data = NULL
            self.room = 0

    cdef bint reserve(self, size_t count) noexcept nogil:
        """Make room for some lines; False when there is no memory."""
        cdef size_t wanted
        cdef void *larger
        if count > (SIZE_MAX // 2 - self.size) // LINE_ROOM:
            return False
        wanted = self.size + count * LINE_ROOM
        if wanted > self.room:
            wanted = max(wanted, 2 * self.room)
            larger = realloc(self.data, wanted)
            if larger == NULL:
                return False
            self.data = <uint8_t *> larger
            self.room = wanted
        return True

    cdef bint append(self, const uint8_t *text, size_t size) noexcept nogil:
        """Append text that stands before a line's verdict; False when there is no memory."""
        if size > self.room - self.size and not self.reserve(size // LINE_ROOM + 1):
            return False
        memcpy(self.data + self.size, text, size)
        self.size += size
        return True

    cdef bint write(
        self, const VerdictRecord *verdicts, size_t count, VerdictFilter filter
    ) noexcept nogil:
        """Append the lines of the verdicts that pass the filter; False when there is no memory."""
        cdef size_t k
        cdef uint8_t *place
        cdef const VerdictRecord *verdict
        if filter == FILTER_NONE:
            return True
        if count > (self.room - self.size) // LINE_ROOM and not self.reserve(count):
            return False
        place = self.data + self.size
        for k in range(count):
            verdict = verdicts + k
            if verdict.kind == VERDICT_FALSE:
                place = put_time_point(self, place, verdict.time_stamp, verdict.offset)
                memcpy(place, b" false\n", 7)
                place += 7
            elif verdict.kind == VERDICT_TRUE:
                if filter != FILTER_FALSE:
                    place = put_time_point(self, place, verdict.time_stamp, verdict.offset)
                    memcpy(place, b" true\n", 6)
                    place += 6
            elif filter == FILTER_ALL:
                place = put_time_point(self, place, verdict.time_stamp, verdict.offset)
                memcpy(place, b" = ", 3)
                place = put_time_point(
                    self, place + 3, verdict.reference_time_stamp, verdict.reference_offset
                )
                place[0] = c'\n'
                place += 1
        self.size = <size_t> (place - self.data)
        return True


cdef inline uint8_t *put_time_point(
    Writer writer, uint8_t *place, uint64_t time_stamp, uint64_t offset
) noexcept nogil:
    if time_stamp != writer.time_stamp or writer.prefix_size == 0:
        writer.time_stamp = time_stamp
        writer.prefix_size = <size_t> (put_integer(writer.prefix, time_stamp) - writer.prefix)
        writer.prefix[writer.prefix_size] = c':'
        writer.prefix_size += 1
    memcpy(place, writer.prefix, PREFIX_ROOM)
    return put_integer(place + writer.prefix_size, offset)


cdef inline uint8_t *put_integer(uint8_t *place, uint64_t value) noexcept nogil:
    """Write a number in decimal; return the place after it."""
    if value < 10000:
        return put_small(place, <uint32_t> value)
    if value < 100000000:
        place = put_small(place, <uint32_t> (value // 10000))
        return put_four(place, <uint32_t> (value % 10000))
    return put_large(place, value)


cdef uint8_t *put_large(uint8_t *place, uint64_t value) noexcept nogil:
    """A number of nine digits or more."""
    cdef uint64_t high = value // 100000000
    cdef uint32_t low = <uint32_t> (value % 100000000)
    if high < 100000000:
        place = put_integer(place, high)
    else:
        place = put_small(place, <uint32_t> (high // 100000000))
        place = put_four(place, <uint32_t> (high % 100000000 // 10000))
        place = put_four(place, <uint32_t> (high % 10000))
    place = put_four(place, low // 10000)
    return put_four(place, low % 10000)


cdef inline uint8_t *put_small(uint8_t *place, uint32_t value) noexcept nogil:
    """A number below 10,000."""
    if value < 10:
        place[0] = <uint8_t> (c'0' + value)
        return place + 1
    if value < 100:
        memcpy(place, PAIRS + 2 * value, 2)
        return place + 2
    if value < 1000:
        place[0] = <uint8_t> (c'0' + value // 100)
        memcpy(place + 1, PAIRS + 2 * (value % 100), 2)
        return place + 3
    return put_four(place, value)


cdef inline uint8_t *put_four(uint8_t *place, uint32_t value) noexcept nogil:
    """Four digits, the first ones possibly 0."""
    memcpy(place, PAIRS + 2 * (value // 100), 2)
    memcpy(place + 2, PAIRS + 2 * (value % 100), 2)
    return place + 4
