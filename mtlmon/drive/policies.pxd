# cython: language_level=3
"""Declarations for monitoring several policies over the events of many streams in one pass."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport MemoryHolder, MemoryLimit, VerdictRecord


cdef struct Part:
    # The results of one policy's monitors: verdicts with their streams and with the event or stream
    # of the batch that brought them; and how many of them have been taken.
    const VerdictRecord *records
    const uint32_t *streams
    const uint32_t *places
    uint32_t count
    uint32_t taken


cdef class PolicyMonitors(MemoryHolder):
    cdef readonly list monitors     # the KeyedMonitors, by policy
    cdef Part *parts
    cdef uint32_t policy_count
    cdef size_t batch               # events, or streams, that the policies process in turn
    cdef Delivery delivery
    cdef PolicyLines lines          # the sink of the delivery if it is not `verdicts`, else None
    cdef public object executor
    cdef readonly VerdictRows verdicts, violations
    cdef readonly FirstViolation first
    cdef uint64_t event_count       # events whose verdicts have been taken
    cdef readonly MemoryLimit memory

    cdef int go_on(
        self, list events, const uint32_t *numbers, size_t first, size_t count
    ) except -1
    cdef int merge(self, size_t count, EventColumns columns, size_t start) except -1 nogil
    cdef void end_of_time(self) noexcept
    cdef void prepare(self, KeyedMonitors monitors, uint32_t policy) noexcept
