# cython: language_level=3
"""Declarations for the least of the times of many traces."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t


cdef struct Earliest:
    # A tree: node k is the least of nodes 2k and 2k + 1. The traces are the leaves, from number
    # `leaves` on.
    uint64_t *times
    size_t leaves


cdef int make_leaves(Earliest *earliest, size_t count) except -1 nogil
cdef void set_time(Earliest *earliest, uint32_t number, uint64_t time_stamp) noexcept nogil


cdef inline uint64_t least_time(const Earliest *earliest) noexcept nogil:
    """The least time of any trace; UINT64_MAX if none has one."""
    return earliest.times[1]
