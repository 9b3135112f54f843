# cython: language_level=3
"""Declarations for events that are scanned ahead of the loop."""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from mtlmon.text.native cimport ScanStatus, Scanner


cdef class ScannedBatch:
    cdef size_t letter_words
    cdef size_t block_room          # in events
    cdef size_t room                # in blocks
    # how many blocks there are; those before `next` have been taken
    cdef size_t count, next
    cdef ScanStatus status          # of the scanner after the last block
    # of each block: how many events there are, and what `EventBlock` has of them
    cdef size_t *event_counts
    cdef ScanPlace *places
    cdef uint64_t *time_stamps
    cdef uint64_t *letters
    cdef uint64_t *occurrences

    cdef void scan(self, Scanner scanner, uint64_t loaded) noexcept nogil
    cdef ScanStatus take(self, EventBlock block) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
