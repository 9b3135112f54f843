# cython: language_level=3
"""Declarations for joining the answers of slices."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef struct OwnedAnswer:
    const Answer *answer
    const int64_t *values
    uint32_t rank               # of the policy
    bint is_row                 # otherwise it only says that the time-point is answered
    size_t place                # in the order in which they were found


cdef class Joiner:
    cdef readonly Router router
    cdef public bint wants_holding
    cdef readonly list valuations   # of the last `join`, for each policy of the router
    cdef uint32_t policy_count      # the others are only counted
    cdef uint64_t *counts
    cdef list unused            # lists with an empty `AnswerBlock` for each slice
    cdef RelationalEngine first
    cdef OwnedAnswer *owned
    cdef size_t count, room
    cdef size_t *ends           # of each slice, in `owned`
    cdef OwnedAnswer *merged
    cdef size_t merged_room
    cdef Rows gathered
    cdef uint32_t *order
    cdef uint32_t *spare
    cdef size_t order_room, spare_room

    cdef int collect(self, AnswerBlock answers, uint32_t slice, uint64_t limit) except -1 nogil
    cdef int put_in_order(self) except -1 nogil
    cdef int write(self, AnswerBlock target, uint64_t *found) except -1 nogil
    cdef int sort(self, uint32_t policy) except -1 nogil
