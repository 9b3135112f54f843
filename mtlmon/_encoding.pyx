# cython: language_level=3
"""Numbers as bytes and back: what snapshots are written in.

Unsigned integers have seven bits a byte, the low ones first, whatever the machine. What is read is
not trusted: every number is checked against a bound.
"""

from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, uint8_t, uint32_t, uint64_t

from mtlmon.errors import SnapshotError


cdef bytes digest(data):
    """A short digest, against damage and not against forgery."""
    # Imported on use: with it comes OpenSSL, in 8 ms and 3 MB.
    from hashlib import blake2b

    return blake2b(data, digest_size=DIGEST_BYTES).digest()


cdef object damaged():
    return SnapshotError("the snapshot is damaged: it does not describe a state")


cdef class NumberWriter:
    """Puts numbers behind each other."""

    def __cinit__(self):
        self.data = bytearray()

    cdef bytes taken(self):
        """What was put since the last call."""
        cdef bytes data = bytes(self.data)
        self.data = bytearray()
        return data

    cdef int put(self, uint64_t value) except -1:
        while value >= 0x80:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)
        return 0

    cdef int put_bytes(self, bytes value) except -1:
        """Bytes with their number before them."""
        self.put(<uint64_t> len(value))
        self.data += value
        return 0


cdef class NumberReader:
    """Takes numbers from the bytes that are in `data`, from `place` on."""

    cdef uint64_t get(self, uint64_t most) except? 0:
        """The next number.

        Raises SnapshotError when it is above `most`, or the bytes are at their end.
        """
        cdef uint64_t value = 0
        cdef uint32_t shift = 0
        cdef uint64_t byte = 0x80
        while byte & 0x80:
            if self.place >= <size_t> self.data.shape[0] or shift > 63:
                raise damaged()
            byte = self.data[self.place]
            self.place += 1
            if shift == 63 and byte > 1:
                raise damaged()
            value |= (byte & 0x7F) << shift
            shift += 7
        if value > most:
            raise damaged()
        return value

    cdef const uint8_t[::1] get_bytes(self):
        """Bytes with their number before them."""
        cdef uint64_t size = self.get(INT64_MAX)
        cdef size_t place = self.place
        if size > <size_t> self.data.shape[0] - place:
            raise damaged()
        self.place += <size_t> size
        return self.data[place:self.place]

    cdef int end(self) except -1:
        """Raise SnapshotError if anything is left."""
        if self.place != <size_t> self.data.shape[0]:
            raise damaged()
        return 0
