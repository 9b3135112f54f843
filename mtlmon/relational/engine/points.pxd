# cython: language_level=3
"""Declarations for blocks of time-points with the rows of their atoms."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef struct Point:
    int64_t time_stamp
    uint64_t number             # of slices: that of the time-point in the log
    size_t row_end              # the rows up to here belong to this or an earlier time-point


cdef struct PointRow:
    uint32_t atom
    size_t start                # of its values


cdef class PointBlock:
    cdef const uint32_t *widths
    cdef uint32_t atom_count
    cdef object kept_widths
    cdef Point *points
    cdef PointRow *rows
    cdef int64_t *values
    cdef size_t point_count, row_count, value_count
    cdef size_t next            # the time-points before this one have been read
    cdef size_t point_room, row_room, value_room

    cdef void clear(self) noexcept nogil
    cdef int begin(self, int64_t time_stamp) except -1 nogil
    cdef int64_t *row(self, uint32_t atom) except NULL nogil
    cdef void drop_point(self) noexcept nogil
