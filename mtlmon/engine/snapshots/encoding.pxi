# cython: language_level=3
"""Encode numbers as bytes and decode them, for snapshots.

Unsigned integers are written with seven bits per byte, low bits first, on every machine. The input
is not trusted: every number is checked against a bound.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, SIZE_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from mtlmon.errors import SnapshotError


cdef bytes digest(data):
    """A short digest, which protects against damage but not against forgery."""
    # Imported on use, as it loads OpenSSL, which takes 8 ms and 3 MB.
    from hashlib import blake2b

    return blake2b(data, digest_size=DIGEST_BYTES).digest()


cdef bytes as_bytes(data):
    """The bytes of any buffer; raises TypeError for other objects.

    `bytes` alone would convert the number 5 to five zeros.
    """
    return data if type(data) is bytes else bytes(memoryview(data))


cdef object damaged():
    return SnapshotError("the snapshot is damaged: it does not describe a state")


cdef class NumberWriter:
    """Appends numbers to a buffer.

    PERF: to append byte by byte to a `bytearray` took six times as long.
    """

    def __dealloc__(self):
        free(self.items)

    cdef bytes taken(self):
        """What was written since the last call."""
        cdef bytes data = PyBytes_FromStringAndSize(
            <const char *> self.items, <Py_ssize_t> self.count
        )
        self.count = 0
        return data

    cdef int make_room(self, size_t more) except -1:
        """Make room for so many more bytes."""
        cdef size_t wanted = self.count + more
        cdef void *grown
        if wanted > SIZE_MAX // 4:
            raise MemoryError("mtlmon: out of memory")
        wanted = max(wanted, 2 * self.room)
        grown = realloc(self.items, wanted)
        if grown == NULL:
            raise MemoryError("mtlmon: out of memory")
        self.items = <uint8_t *> grown
        self.room = wanted
        return 0

    cdef int put(self, uint64_t value) except -1:
        if self.room - self.count < NUMBER_BYTES:
            self.make_room(LEAST_ROOM)
        while value >= 0x80:
            self.items[self.count] = <uint8_t> (value & 0x7F | 0x80)
            self.count += 1
            value >>= 7
        self.items[self.count] = <uint8_t> value
        self.count += 1
        return 0

    cdef int put_bytes(self, bytes value) except -1:
        """Write bytes, preceded by their number."""
        cdef size_t size = <size_t> len(value)
        self.put(size)
        if self.room - self.count < size:
            self.make_room(size)
        memcpy(self.items + self.count, PyBytes_AS_STRING(value), size)
        self.count += size
        return 0


cdef class NumberReader:
    """Reads numbers from bytes, after `open`.

    It uses bytes and a pointer: with a typed memoryview, Cython would compile all of its support
    code into every module that cimports this one, a third of the whole build.
    """

    cdef int open(self, bytes data, size_t place) except -1:
        """Read from position `place` on."""
        if data is None or place > <size_t> PyBytes_GET_SIZE(data):
            raise damaged()
        self.data = data
        self.start = <const uint8_t *> PyBytes_AS_STRING(data)
        self.size = <size_t> PyBytes_GET_SIZE(data)
        self.place = place
        return 0

    cdef uint64_t get(self, uint64_t most) except? 0:
        """Read the next number.

        Raises SnapshotError if it is above `most`, or if there are no more bytes.
        """
        cdef uint64_t value = 0
        cdef uint32_t shift = 0
        cdef uint64_t byte = 0x80
        while byte & 0x80:
            if self.place >= self.size or shift > 63:
                raise damaged()
            byte = self.start[self.place]
            self.place += 1
            if shift == 63 and byte > 1:
                raise damaged()
            value |= (byte & 0x7F) << shift
            shift += 7
        if value > most:
            raise damaged()
        return value

    cdef uint64_t get_count(self, uint32_t item_bytes) except? 0:
        """Read the number of items that follow, each of at least `item_bytes` bytes.

        Raises SnapshotError if the remaining bytes cannot hold them, so a wrong count is refused
        before anything is allocated for it.
        """
        cdef uint64_t count = self.get(INT64_MAX)
        if count > (self.size - self.place) // item_bytes:
            raise damaged()
        return count

    cdef bytes get_bytes(self):
        """Read bytes, preceded by their number."""
        cdef uint64_t size = self.get(INT64_MAX)
        cdef size_t place = self.place
        if size > self.size - place:
            raise damaged()
        self.place += <size_t> size
        return PyBytes_FromStringAndSize(<const char *> self.start + place, <Py_ssize_t> size)

    cdef int end(self) except -1:
        """Raise SnapshotError if there are more bytes."""
        if self.place != self.size:
            raise damaged()
        return 0
