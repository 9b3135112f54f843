# cython: language_level=3
"""Declarations for sorting Boolean verdicts into the order of their streams."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t

from mtlmon.engine.native cimport VerdictRecord, VerdictRun


cdef struct Held:
    # consecutive time-points with the same value; also a node of its stream's heap
    uint64_t time_stamp
    uint64_t offset
    uint64_t length
    size_t left
    # in a free node: the next free node
    size_t right
    uint8_t kind


cdef struct StreamOrder:
    # the heap; NONE if nothing is held
    size_t first
    # the held run that was added last, which the next time-point may extend; or NONE
    size_t latest
    # the largest time-stamp of the verdicts so far
    uint64_t time_stamp
    # the time-point after the last one that was released
    uint64_t next_time_stamp
    uint64_t next_offset


cdef class Sequencer:
    # no time-point below (bound_time_stamp, bound_offset) is open
    cdef bint has_bound
    cdef uint64_t bound_time_stamp, bound_offset
    # no time-point is open that lies more than `reach` before the latest verdict
    cdef bint has_reach
    cdef uint64_t reach
    cdef readonly uint64_t held_count
    cdef Held *held
    cdef size_t held_size, held_room, free_held
    cdef StreamOrder *streams
    cdef size_t stream_count, stream_room

    cdef bint add(self, size_t stream, const VerdictRun *run) noexcept nogil
    cdef bint is_late(self, size_t stream, uint64_t time_stamp, uint64_t offset) noexcept nogil
    cdef bint reserve_stream(self, size_t stream) noexcept nogil
    cdef void note(self, size_t stream, uint64_t time_stamp) noexcept nogil
    cdef void set_bound(self, uint64_t time_stamp, uint64_t offset) noexcept nogil
    cdef void release_all(self) noexcept nogil
    cdef size_t next(
        self, size_t stream, VerdictRecord *verdicts, size_t capacity
    ) noexcept nogil
    cdef uint64_t releasable(self, const StreamOrder *order) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
    cdef size_t merge(self, size_t one, size_t other) noexcept nogil
