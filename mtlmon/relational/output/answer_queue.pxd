# cython: language_level=3
"""Declarations for answers that wait for other verdicts."""

from libc.stddef cimport size_t

from mtlmon.relational.native cimport AnswerBlock


cdef class AnswerQueue:
    cdef AnswerBlock waiting
    # the answers before this one have been taken
    cdef size_t next
