# cython: language_level=3
"""The monitor: an engine and a state, checked at the door."""

from libc.stdint cimport uint8_t, uint64_t

from mtlmon._engine cimport Engine, State
from mtlmon._program cimport Program
from mtlmon._table cimport Table
from mtlmon._verdict cimport VerdictRecord, Verdicts


cdef class Verdict:
    cdef VerdictRecord record


cdef Verdict new_verdict(const VerdictRecord *record)


cdef class Monitor:
    cdef readonly Program program
    cdef readonly str mode
    cdef Engine engine
    cdef Table table
    cdef Verdicts output
    cdef State state
    cdef dict atom_numbers
    cdef uint64_t *letter
    cdef uint8_t condition

    # For native callers. After each call the verdicts are those of that call, event by event, for
    # each in the order of time-points; also after an error, those of the events before it. That
    # time-stamps do not decrease is for the caller to check.
    cdef const VerdictRecord *verdicts
    cdef size_t verdict_count
    cdef size_t letter_words                                # 64-bit words of a letter

    cdef size_t push(
        self, const uint64_t *time_stamps, const uint64_t *letters, size_t count
    ) except? 0 nogil
    cdef int push_time(self, uint64_t time_stamp) except -1 nogil
    cdef int push_end(self) except -1 nogil
    cdef bint earliest_pending(self, uint64_t *time_stamp, uint64_t *offset) noexcept nogil

    cdef bint is_broken(self) noexcept nogil
    cdef void revive(self) noexcept nogil

    cdef int _enter(self) except -1 nogil
    cdef int _require_ready(self) except -1
    cdef void _leave(self, const VerdictRecord *verdicts, size_t count) noexcept nogil
    cdef size_t _pending_count(self) noexcept
    cdef list _take_verdicts(self)
    cdef int _read_letter(self, object atoms) except -1
    cdef uint64_t _read_time_stamp(self, object value) except? 0
