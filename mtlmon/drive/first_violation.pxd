# cython: language_level=3
"""Declarations for finding the earliest violation of several policies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from mtlmon.engine.native cimport VerdictRecord


cdef class FirstViolation:
    cdef readonly bint is_found, has_keys
    cdef readonly uint64_t time_stamp, offset
    cdef readonly uint32_t policy, stream
    # The number of events after which all of the fields above were known.
    cdef readonly uint64_t event_count
    cdef uint32_t policy_count
    cdef uint8_t *on_ticks      # for each policy 1 if it is on ticks; NULL if none is
    cdef bint has_news, is_past
    cdef uint64_t clock         # of the current event
    cdef uint64_t *running      # true and false verdicts of each policy so far
    cdef uint64_t *known        # and those up to `event_count`
    cdef uint64_t *known_events     # the time-points of each policy up to there

    cdef void note(
        self, const VerdictRecord *record, uint32_t stream, uint32_t policy
    ) noexcept nogil
    cdef void begin_event(self, uint64_t time_stamp) noexcept nogil
    cdef bint has_no_order(self) noexcept nogil
    cdef bint waits_for_time(self) noexcept nogil
    cdef bint end_event(self, uint64_t event_count) noexcept nogil
    cdef bint is_concerned(self, const VerdictRecord *record, uint32_t policy) noexcept nogil
    cdef bint is_before(
        self, const VerdictRecord *record, uint32_t stream, uint32_t policy
    ) noexcept nogil
