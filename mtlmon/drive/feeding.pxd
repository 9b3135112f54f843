# cython: language_level=3
"""Declarations for monitoring events from arrays, with verdicts written to an array."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport Session, VerdictRecord


cdef class Feeding:
    cdef Session monitor
    cdef uint64_t *time_stamps      # of a block of events, after that of the previous event
    cdef uint64_t *letters
    cdef VerdictRecord *verdicts
    cdef size_t room
    cdef size_t verdict_count
    cdef int64_t deadline

    cdef int run(self, EventColumns events) except -1 nogil
    cdef int take_verdicts(self) except -1 nogil
    cdef int look_for_signals(self) except -1 nogil
