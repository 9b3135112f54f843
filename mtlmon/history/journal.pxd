# cython: language_level=3
"""Declarations for the journal of a batch: what verdicts were before it."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from mtlmon.engine.native cimport VerdictRecord


cdef enum Operation:
    INSERTED    # the first verdict of a time-point
    UPDATED     # another verdict, or one after none
    DELETED     # no verdict any more
    WITHDRAWN   # no time-point any more: its event was retracted


cdef struct Former:
    # The verdict of a time-point before the batch.
    uint64_t time_stamp, offset
    uint64_t reference_time_stamp, reference_offset
    Point *point            # where it was when `moves` were counted
    uint64_t moves
    uint32_t trace
    uint8_t kind


cdef struct ChangeRecord:
    # The first fields are those of a verdict record. `kind` is STILL_OPEN without a verdict.
    uint64_t time_stamp, offset
    uint64_t reference_time_stamp, reference_offset
    uint8_t kind
    uint8_t operation
    uint8_t former          # the kind before the batch
    uint32_t trace


cdef struct Journal:
    Former *entries
    uint32_t count, capacity
    uint64_t moves          # how often time-points of a trace have moved in memory


cdef int set_verdict(
    Journal *journal, uint32_t trace, uint64_t time_stamp, Point *point,
    const VerdictRecord *verdict
) except -1 nogil
cdef int withdraw(
    Journal *journal, uint32_t trace, uint64_t time_stamp, Point *point, uint8_t flag
) except -1 nogil
cdef int bring_back(
    Journal *journal, uint32_t trace, uint64_t time_stamp, Point *point
) except -1 nogil
cdef size_t count_changes(
    Journal *journal, Trace *traces, ChangeRecord *records, uint32_t shown, int64_t *counts
) noexcept nogil
