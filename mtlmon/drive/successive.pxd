# cython: language_level=3
"""Declarations for monitoring streams one after the other with a single monitor."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport EndTime, Session, VerdictRecord
from mtlmon.verdicts.native cimport Resolver


cdef class SuccessiveMonitor:
    cdef Session monitor
    cdef Resolver resolver          # None if equivalences are not resolved
    cdef EndTime end
    cdef bint is_busy
    cdef uint64_t *time_stamps      # of a block of events
    cdef uint64_t *letters
    cdef VerdictRecord *records
    cdef uint32_t *owners
    cdef uint32_t record_count, record_capacity, owner_capacity

    cdef int begin(self) except -1
    cdef tuple taken(self)
    cdef int check_starts(self, const uint32_t *starts, size_t count, size_t limit) except -1
    cdef int check_time_stamps(
        self, EventColumns events, const uint32_t *starts, size_t count
    ) except -1
    cdef int run(self, EventColumns events, const uint32_t *starts, size_t count) except -1 nogil
    cdef int run_stream(
        self, const uint64_t *time_stamps, const uint64_t *letters, size_t count, uint32_t owner
    ) except -1 nogil
    cdef int end_stream(self, uint32_t owner) except -1 nogil
    cdef int take(self, uint32_t owner) except -1 nogil
    cdef int resolve(self, uint32_t owner) except -1 nogil
    cdef int reserve_records(self, size_t more) except -1 nogil
