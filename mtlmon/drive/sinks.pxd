# cython: language_level=3
"""Declarations for sinks, which take verdicts."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

from mtlmon.engine.native cimport (
    Session,
    VERDICT_EQUIVALENT,
    VERDICT_FALSE,
    VerdictRecord,
    VerdictRun,
    Verdicts,
)
from mtlmon.text.native cimport FILTER_ALL, FILTER_FALSE, VerdictFilter, Writer


cdef inline bint passes(VerdictFilter filter, uint8_t kind) noexcept nogil:
    """Whether a filter lets verdicts of a kind through."""
    if kind == VERDICT_FALSE:
        return filter <= FILTER_FALSE
    return filter == FILTER_ALL or (filter < FILTER_FALSE and kind != VERDICT_EQUIVALENT)


cdef enum:
    # the most verdicts that are taken from a resolver at once
    RUN_VERDICTS = 256


cdef class Sink:
    # Verdicts of one stream and policy; the records are only valid during the call.
    cdef int put(
        self, const VerdictRecord *records, size_t count, VerdictFilter filter,
        uint32_t stream, uint32_t policy
    ) except -1 nogil
    # Boolean verdicts of one stream and policy, of at most RUN_VERDICTS time-points in all.
    cdef int put_runs(
        self, const VerdictRun *runs, size_t count, VerdictFilter filter,
        uint32_t stream, uint32_t policy
    ) except -1 nogil
    cdef bint is_full(self) noexcept nogil
    # Around work of the engine, whose verdicts are in `output`.
    cdef void begin_work(self, const Verdicts *output, VerdictFilter filter) noexcept nogil
    cdef void end_work(self) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil


cdef class VerdictRows(Sink):
    cdef VerdictRecord *records
    cdef uint32_t *streams
    cdef uint32_t *policies
    cdef uint32_t count, record_room, stream_room, policy_room
    cdef bint has_owners            # whether streams and policies are kept

    cdef int put_owned(
        self, const Verdicts *verdicts, const uint32_t *streams, VerdictFilter filter,
        uint32_t first_place
    ) except -1 nogil
    cdef int grow(self, size_t needed) except -1 nogil
    cdef object take_records(self)


cdef class VerdictBuffer:
    cdef VerdictRecord *records
    cdef Py_ssize_t size


cdef class LineSink(Sink):
    cdef readonly Writer writer


cdef class FirstLine(Sink):
    cdef Session monitor
    cdef readonly Writer writer
    cdef bint is_decided            # the line is written
    cdef bint has_candidate
    cdef VerdictRecord candidate    # the earliest false time-point so far
