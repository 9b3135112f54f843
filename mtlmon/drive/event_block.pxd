# cython: language_level=3
"""Declarations for blocks of events, which the loops process."""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.text.native cimport ScanStatus, Scanner


cdef struct ScanPlace:
    # how far a scanner has come in a log
    uint64_t position               # in bytes
    uint64_t line_count, skipped_count
    uint64_t time_stamp_end         # the last time-stamp plus 1; 0 before the first line
    size_t held_bytes
    bint in_long_line


cdef class EventBlock:
    cdef uint64_t *time_stamps
    cdef uint64_t *letters          # of `letter_words` words each
    # the block's own memory; events that were scanned ahead are elsewhere
    cdef uint64_t *own_time_stamps
    cdef uint64_t *own_letters
    cdef size_t letter_words
    cdef size_t room                # in events
    # how many events there are; those before `next` have been processed
    cdef size_t count, next
    # where the scanner was after the last event, and which atoms had occurred
    cdef ScanPlace place
    cdef uint64_t *occurrences

    cdef void read(self, EventColumns events, size_t first, size_t limit) noexcept nogil
    cdef ScanStatus scan(self, Scanner scanner, uint64_t loaded) noexcept nogil
    cdef void note(self, Scanner scanner, uint64_t loaded) noexcept nogil
    cdef bint decreases(self, size_t limit, uint64_t clock) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
