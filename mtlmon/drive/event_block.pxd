# cython: language_level=3
"""Declarations for blocks of events, which the loops process."""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.text.native cimport ScanStatus, Scanner


cdef class EventBlock:
    cdef uint64_t *time_stamps
    cdef uint64_t *letters          # of `letter_words` words each
    cdef size_t letter_words
    cdef size_t room                # in events
    # how many events there are; those before `next` have been processed
    cdef size_t count, next

    cdef void read(self, EventColumns events, size_t first, size_t limit) noexcept nogil
    cdef ScanStatus scan(self, Scanner scanner) noexcept nogil
    cdef bint decreases(self, size_t limit, uint64_t clock) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
