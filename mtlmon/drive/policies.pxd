# cython: language_level=3
"""Declarations for monitoring several policies over the events of many streams in one pass."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport HeldBytes, MemoryLimit, VerdictRecord
from mtlmon.verdicts.native cimport Resolver
from mtlmon.traces.native cimport Owner


cdef struct Part:
    # The results of one policy's monitors, and how much of them has been taken.
    const VerdictRecord *records
    const Owner *owners
    uint32_t count
    uint32_t taken


cdef class VerdictRows:
    cdef VerdictRecord *records
    cdef uint32_t *streams
    cdef uint32_t *policies
    cdef uint32_t count, record_room, stream_room, policy_room

    cdef int add(
        self, const VerdictRecord *record, uint32_t stream, uint32_t policy
    ) except -1 nogil
    cdef size_t held_bytes(self) noexcept nogil


cdef class PolicyMonitors:
    cdef readonly list monitors     # the KeyedMonitors, by policy
    cdef Part *parts
    cdef uint32_t policy_count
    cdef size_t batch               # events, or streams, that the policies process in turn
    cdef Resolver resolver
    cdef bint resolves, collects
    cdef object executor
    cdef bint is_wanted[3]          # by kind of verdict
    cdef readonly VerdictRows verdicts, violations
    cdef readonly FirstViolation first
    cdef uint64_t event_count       # events whose verdicts have been taken
    cdef readonly MemoryLimit memory

    cdef int check_memory(self) except -1
    cdef void count_held(self, HeldBytes *held) noexcept
    cdef int go_on(
        self, list events, const uint32_t *numbers, size_t first, size_t count
    ) except -1
    cdef int merge(self, size_t count, EventColumns columns, size_t start) except -1 nogil
    cdef int deliver(
        self, const VerdictRecord *records, size_t count, uint32_t stream, uint32_t policy
    ) except -1 nogil
    cdef void end_of_time(self) noexcept
    cdef void prepare(self, KeyedMonitors monitors, uint32_t policy) noexcept
    cdef int put(
        self, const VerdictRecord *record, uint32_t stream, uint32_t policy
    ) except -1 nogil
