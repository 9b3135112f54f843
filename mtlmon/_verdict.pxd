# cython: language_level=3
"""The verdict record that engine, resolver and writer exchange."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef enum VerdictKind:
    VERDICT_FALSE = 0
    VERDICT_TRUE = 1
    VERDICT_EQUIVALENT = 2


cdef struct VerdictRecord:
    uint64_t time_stamp
    uint64_t offset
    # the earlier time-point this one is equivalent to; meaningful for VERDICT_EQUIVALENT only
    uint64_t reference_time_stamp
    uint64_t reference_offset
    uint8_t kind


cdef struct Verdicts:
    # A growing sequence of them.
    VerdictRecord *records
    uint32_t count
    uint32_t capacity
