# cython: language_level=3
"""Declarations for events in columns of arrays."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef enum:
    # Small enough for events and verdicts to stay in the first-level cache.
    BLOCK_EVENTS = 256


cdef enum ColumnKind:
    BYTES       # the atom holds at event k if byte k is not 0
    BITMAP      # ... if bit first + k is set, from the least significant bit of each byte on
    MASKS       # ... if bit `first` of the 64-bit integer k is set
    LETTERS     # integer k is a letter, of which the bits in `known` count


cdef struct Column:
    ColumnKind kind
    const char *data
    Py_ssize_t stride       # bytes from one event to the next
    size_t first
    uint64_t known
    uint32_t atom


cdef class Memory:
    cdef Py_buffer buffer
    cdef bint is_held


cdef class EventColumns:
    cdef readonly size_t count
    cdef list memory                # the buffers that hold the columns
    cdef const char *time_stamps
    cdef Py_ssize_t time_stride
    cdef Column *columns
    cdef uint32_t column_count, column_capacity

    cdef Column *_add(
        self, ColumnKind kind, uint32_t atom, object array, Py_ssize_t item_size, size_t count
    ) except NULL
    cdef int check_time_stamps(
        self, uint64_t clock, size_t first_index, size_t first, size_t last
    ) except -1
    cdef size_t first_negative(self, size_t first, size_t last) noexcept nogil
    cdef uint64_t last_time_stamp(self, uint64_t clock) noexcept
    cdef uint64_t time_stamp_of(self, size_t index) noexcept nogil
    cdef size_t first_from(self, uint64_t time_stamp, size_t first, size_t last) noexcept nogil
    cdef void mark_held(
        self, size_t first, size_t last, uint64_t *marked, uint64_t atoms=*
    ) noexcept nogil
    cdef size_t most_held(self, size_t first, size_t last) noexcept nogil
    cdef bint count_atoms(self, size_t first, size_t last, size_t *counts) noexcept nogil
    cdef uint64_t letter_of(self, size_t index) noexcept nogil
    cdef void read(
        self, size_t first, size_t count, uint64_t *time_stamps, uint64_t *letters, size_t words
    ) noexcept nogil
