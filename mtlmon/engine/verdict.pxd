# cython: language_level=3
"""The verdict record that engine, resolver and writer exchange."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset


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


cdef inline void set_boolean(
    VerdictRecord *record, uint64_t time_stamp, uint64_t offset, uint8_t kind
) noexcept nogil:
    """Make a record a Boolean verdict, with no byte left to chance, padding neither."""
    memset(record, 0, sizeof(VerdictRecord))
    record.time_stamp = time_stamp
    record.offset = offset
    record.kind = kind


cdef inline void copy_record(VerdictRecord *target, const VerdictRecord *source) noexcept nogil:
    """Copy a record with no byte left to chance, also where the source has no reference."""
    cdef uint64_t mask = -<uint64_t> (source.kind == VERDICT_EQUIVALENT)
    memset(target, 0, sizeof(VerdictRecord))
    target.time_stamp = source.time_stamp
    target.offset = source.offset
    target.reference_time_stamp = source.reference_time_stamp & mask
    target.reference_offset = source.reference_offset & mask
    target.kind = source.kind


cdef struct Verdicts:
    # A growing sequence of them.
    VerdictRecord *records
    uint32_t count
    uint32_t capacity
    # the engine is at work on the next event, and nobody changes any of this meanwhile
    bint is_idle


cdef class Verdict:
    cdef VerdictRecord record


cdef Verdict new_verdict(const VerdictRecord *record)
