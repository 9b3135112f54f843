# cython: language_level=3
"""Declarations for finding the first time-point at which a policy is violated."""

from libc.stdint cimport uint32_t, uint64_t

from mtlmon.relational.native cimport Answer, AnswerBlock


cdef class FirstAnswers:
    cdef readonly AnswerBlock found
    cdef readonly bint is_decided
    cdef readonly bint has_candidate
    # the answers that decide, and the policy and time-point of `found`
    cdef Answer candidate
    # by policy: all time-points before this one are decided; for a find that does not count, the
    # largest number
    cdef uint64_t *decided
    cdef uint32_t policy_count
    cdef bint counts_matches

    cdef int take(self, AnswerBlock answers) except -1 nogil
    cdef bint is_earliest(self) noexcept nogil
