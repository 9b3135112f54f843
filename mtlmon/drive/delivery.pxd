# cython: language_level=3
"""Declarations for the way of verdicts from monitors to sinks."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

from mtlmon.engine.native cimport VerdictRecord
from mtlmon.text.native cimport VerdictFilter
from mtlmon.verdicts.native cimport Resolver


cdef class Delivery:
    cdef Sink sink
    cdef VerdictFilter filter
    # None if the sink gets verdicts as the monitors bring them, and nobody needs resolved ones
    cdef Resolver resolver
    cdef bint resolves              # whether the sink gets resolved verdicts
    # how many policies the resolver keeps apart; 0 if it has time-points of one stream at a time
    cdef uint32_t policy_count
    # listeners to resolved verdicts, or None
    cdef VerdictRows violations
    cdef FirstViolation first
    # of the verdicts that the resolver holds
    cdef uint32_t stream, policy

    cdef int put(
        self, const VerdictRecord *records, size_t count, bint has_places, uint32_t stream,
        uint32_t policy
    ) except -1 nogil
    cdef bint drain(self) except -1 nogil
    cdef int pass_on(self, const VerdictRecord *records, size_t count) except -1 nogil
