# cython: language_level=3
"""Declarations for splitting blocks of time-points."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef struct RowNumbers:
    uint32_t *of
    size_t count, room


cdef class SplitBlock


cdef class Splitter:
    cdef readonly Router router
    cdef readonly Timeline timeline
    cdef uint8_t *is_whole              # whether a slice gets all time-points
    cdef list uncommitted               # blocks that the timeline has not been told of, in order


cdef class SplitBlock:
    cdef readonly Splitter splitter
    cdef PointBlock points
    cdef size_t slices
    cdef uint64_t number                # of the first time-point
    cdef RowNumbers *rows               # of each slice
    cdef uint32_t *point_of             # of each row, its time-point
    cdef size_t point_room

    cdef int find_rows(self, Router router, PointBlock points) except -1 nogil
    cdef int copy_all(self, PointBlock block, const RowNumbers *rows) except -1 nogil
    cdef int copy_some(self, PointBlock block, const RowNumbers *rows) except -1 nogil
    cdef int begin_point(self, PointBlock block, size_t point) except -1 nogil
    cdef int copy_row(self, PointBlock block, uint32_t row) except -1 nogil
