# cython: language_level=3
"""Declarations for splitting blocks of time-points."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef struct RowNumbers:
    uint32_t *of
    size_t count, room


cdef class Splitter:
    cdef readonly Router router
    cdef readonly Timeline timeline
    cdef RowNumbers *rows               # of each slice, in the block that is split
    cdef uint8_t *is_whole              # whether a slice gets all time-points
    cdef uint32_t *point_of             # of each row in the block, its time-point
    cdef size_t point_room
    # The time-stamps of the block that was split last, until the timeline hears of them.
    cdef int64_t *time_stamps
    cdef size_t time_count, time_room

    cdef int find_rows(self, PointBlock points) except -1 nogil
    cdef int note_times(self, PointBlock points) except -1 nogil
    cdef int copy_points(
        self, PointBlock points, PointBlock block, size_t slice, uint64_t number
    ) except -1 nogil
    cdef int copy_some(
        self, PointBlock points, PointBlock block, const RowNumbers *rows, uint64_t number
    ) except -1 nogil
