# cython: language_level=3
"""Declarations for resolving verdict objects and arrays of verdicts."""

from libc.stddef cimport size_t

from mtlmon.engine.native cimport (
    Guard, MemoryHolder, MemoryLimit, Session, VerdictRecord,
)


cdef enum ResolveStatus:
    RESOLVE_OK
    REACH_TOO_SMALL
    OUT_OF_MEMORY


cdef struct Records:
    VerdictRecord *items
    size_t count, room


cdef class Resolution(MemoryHolder):
    cdef Guard guard
    cdef Resolver resolver
    cdef Sequencer sequencer
    cdef bint in_order
    # whose pending time-points tell which verdicts may still come, or None
    cdef Session monitor
    cdef Records taken
    cdef MemoryLimit memory         # None if there is no limit

    cdef int take(self, list verdicts) except -1
    cdef object _push_records(self, records)
    cdef int check_memory(self, object verdicts) except -1
    cdef int take_one(self, const VerdictRecord *record) except -1
    cdef ResolveStatus resolve(self, const VerdictRecord *records, size_t count) noexcept nogil
    cdef void look_at_monitor(self) noexcept nogil
    cdef void end(self)
    cdef bint fetch(self, VerdictRecord *record) noexcept nogil
    cdef list fetch_all(self)
    cdef ResolveStatus resolve_all(
        self, const VerdictRecord *records, size_t count, Records *resolved
    ) noexcept nogil
    cdef ResolveStatus fetch_into(self, Records *resolved) noexcept nogil


cdef class ResolvedVerdicts:
    cdef Guard guard
    cdef Resolution resolution
    cdef object verdicts
    # the source as a stream, if whole events can be taken from it, or None
    cdef VerdictStream stream
    cdef bint only_false, is_over

    cdef int advance(self) except -1
