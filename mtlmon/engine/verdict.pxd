# cython: language_level=3
"""The verdict record that the engine, the resolver and the writer exchange."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset


cdef enum VerdictKind:
    VERDICT_FALSE = 0
    VERDICT_TRUE = 1
    VERDICT_EQUIVALENT = 2


cdef struct VerdictRecord:
    uint64_t time_stamp
    uint64_t offset
    # the earlier time-point that this one is equivalent to; only for VERDICT_EQUIVALENT
    uint64_t reference_time_stamp
    uint64_t reference_offset
    uint8_t kind
    # the number of the event that brought it, within the call of the transition table
    uint32_t place


cdef struct VerdictRun:
    # consecutive time-points of one time-stamp, starting at `offset`, with the same Boolean verdict
    uint64_t time_stamp
    uint64_t offset
    uint64_t length
    uint8_t kind


cdef inline void set_boolean(
    VerdictRecord *record, uint64_t time_stamp, uint64_t offset, uint8_t kind
) noexcept nogil:
    """Set a record to a Boolean verdict, initialising every byte, including the padding."""
    memset(record, 0, sizeof(VerdictRecord))
    record.time_stamp = time_stamp
    record.offset = offset
    record.kind = kind


cdef inline void copy_record(VerdictRecord *target, const VerdictRecord *source) noexcept nogil:
    """Copy a record, initialising every byte even if the source has no reference."""
    cdef uint64_t mask = -<uint64_t> (source.kind == VERDICT_EQUIVALENT)
    memset(target, 0, sizeof(VerdictRecord))
    target.time_stamp = source.time_stamp
    target.offset = source.offset
    target.reference_time_stamp = source.reference_time_stamp & mask
    target.reference_offset = source.reference_offset & mask
    target.kind = source.kind


cdef struct Verdicts:
    # A growing array of records.
    VerdictRecord *records
    uint32_t count
    uint32_t capacity
    # the engine is processing the next event, and nothing changes these fields meanwhile
    bint is_idle


cdef class Verdict:
    cdef VerdictRecord record


cdef Verdict new_verdict(const VerdictRecord *record)
