# cython: language_level=3
"""Declarations for blocks of answers."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef enum AnswerKind:
    VIOLATED                # a policy: the values violate it
    HOLDS                   # a policy: no values violate it; there are no values
    MATCHES                 # a find: the values satisfy it
    HOLDS_FOR               # a policy: no values violate it for a key, the first of the values


cdef struct Answer:
    uint32_t policy
    AnswerKind kind
    int64_t time_stamp
    uint64_t offset         # of the time-point, among those of its time-stamp
    uint64_t point          # the number of the time-point in the log
    uint64_t known          # how many time-points had been read when it was found
    size_t start            # of its values


cdef class AnswerBlock:
    cdef const uint32_t *widths     # the number of variables of each policy
    cdef uint32_t policy_count
    cdef object kept_widths
    cdef Answer *answers
    cdef int64_t *values
    cdef size_t count, value_count
    cdef size_t answer_room, value_room

    cdef void clear(self) noexcept nogil
    cdef AnswerBlock empty_block(self)
    cdef void swap(self, AnswerBlock other) noexcept nogil
    cdef int put(self, const Answer *answer, const int64_t *values) except -1 nogil
