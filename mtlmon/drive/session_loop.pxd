# cython: language_level=3
"""Declarations for the loop that takes events through one session."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport EndTime, Session


cdef class SessionLoop:
    cdef Session session
    cdef Delivery delivery
    cdef EventBlock block
    cdef bint is_by_event           # whether verdicts are delivered event by event
    cdef int64_t deadline           # when to look for signals again

    cdef int step(self, size_t limit, uint32_t stream) except -1 nogil
    cdef int finish(self, const EndTime *end, uint32_t stream) except -1 nogil
    cdef int next_stream(self, const EndTime *end, uint32_t stream) except -1 nogil
    cdef int run_columns(
        self, EventColumns events, const uint32_t *starts, size_t start_count, const EndTime *end,
        const uint32_t *offsets=*
    ) except -1 nogil
    cdef int run_block(
        self, size_t limit, uint32_t stream, const uint32_t *offsets
    ) except -1 nogil
    cdef int look_around(self) except -1 nogil
