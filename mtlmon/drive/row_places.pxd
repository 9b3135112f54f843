# cython: language_level=3
"""Declarations for the rows of time-points that have no verdict yet."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef struct RowPlace:
    # A time-point of a policy on a stream, and where it comes from.
    uint64_t time_stamp
    uint64_t offset
    int64_t row
    uint32_t stream
    uint32_t policy
    uint32_t file                   # NO_FILE in an empty slot
    uint32_t unused                 # always 0, so that snapshots have no undefined bytes


cdef class RowPlaces:
    # open addressing with linear probing; `room` is 0 or a power of two
    cdef RowPlace *slots
    cdef size_t count, room

    cdef int resize(self, size_t room) except -1 nogil
    cdef int put(self, const RowPlace *place) except -1 nogil
    cdef size_t slot_of(
        self, uint32_t policy, uint32_t stream, uint64_t time_stamp, uint64_t offset
    ) noexcept nogil
    cdef void remove(self, size_t slot) noexcept nogil
