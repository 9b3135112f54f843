# cython: language_level=3
"""Events of many streams from arrays, each with the number of its stream."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon._arrays cimport EventColumns
from mtlmon._streams cimport Streams
from mtlmon._verdict cimport VerdictRecord


cdef class KeyedMonitors:
    cdef Streams streams
    cdef uint64_t clock
    cdef uint64_t *time_stamps
    cdef uint64_t *letters
    cdef VerdictRecord *records
    cdef uint32_t *owners
    cdef uint32_t record_count, record_capacity, owner_capacity

    cdef int run(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count
    ) except -1 nogil
    cdef int take(self) except -1 nogil
