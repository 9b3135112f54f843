# cython: language_level=3
"""Declarations for the heap of streams that wait for time to pass."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef struct Waiting:
    # A stream, and a lower bound of the time-stamp of its earliest pending time-point.
    uint64_t time_stamp
    uint32_t number


cdef class WaitingStreams:
    cdef readonly uint64_t delay
    cdef Streams streams
    cdef Waiting *heap
    cdef uint8_t *is_in             # whether a stream is in the heap, by number
    cdef uint32_t *due              # in the order of numbers
    cdef uint32_t count, capacity, known, is_in_capacity, due_count, due_capacity

    cdef int note(self, const uint32_t *numbers, size_t count) except -1 nogil
    cdef int find_due(self, uint64_t time_stamp) except -1 nogil
    cdef int find_next(self, uint64_t *time_stamp) except -1 nogil
    cdef int renumber(self) except -1 nogil
    cdef bint is_over(self, uint64_t earliest, uint64_t time_stamp) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
    cdef int know_all(self) except -1 nogil
    cdef int push(self, uint32_t number, uint64_t time_stamp) except -1 nogil
    cdef void pop(self) noexcept nogil
