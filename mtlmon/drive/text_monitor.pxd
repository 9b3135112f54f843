# cython: language_level=3
"""Declarations for the loop from log lines to verdict lines."""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from mtlmon.arrays.native cimport Block
from mtlmon.engine.native cimport HeldBytes, MemoryLimit, NumberReader, Session, VerdictRecord
from mtlmon.verdicts.native cimport Resolver
from mtlmon.text.native cimport ScanStatus, Scanner, VerdictFilter, Writer


cdef class TextMonitor:
    cdef Session monitor
    cdef readonly Scanner scanner
    cdef readonly Writer writer
    cdef Resolver resolver
    cdef VerdictFilter filter
    cdef bint resolves
    # for "first": the earliest false time-point so far, which may still come after an open one
    cdef bint wants_first, has_candidate
    cdef VerdictRecord candidate
    cdef readonly bint is_stopped
    # the scanned events; those before `batch_next` have been monitored
    cdef uint64_t *time_stamps
    cdef uint64_t *letters
    cdef size_t batch_room, batch_count, batch_next
    cdef ScanStatus status
    cdef Block block
    # the bytes of the log that were loaded, and whether its end was loaded
    cdef uint64_t loaded
    cdef bint has_end
    cdef readonly MemoryLimit memory

    cdef int work(self, bint scans) except -1 nogil
    cdef int check_memory(self) except -1 nogil
    cdef void count_held(self, HeldBytes *held) noexcept nogil
    cdef int push_events(self, size_t words) except -1 nogil
    cdef int deliver(self) except -1 nogil
    cdef int write_resolved(self) except -1 nogil
    cdef bint note_false(self, const VerdictRecord *verdicts, size_t count) noexcept nogil
    cdef uint64_t kind(self) noexcept
    cdef int read_first(self, NumberReader reader) except -1
