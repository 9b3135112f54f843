# cython: language_level=3
"""Declarations for time-points made of columns."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from mtlmon.relational.native cimport PointBlock


cdef struct RowColumns:
    # the rows of an atom: indices of rows of the table, in order, and the cells of each
    const uint32_t *places
    const int64_t *cells
    size_t count
    size_t next


cdef class ColumnRows:
    cdef readonly PointBlock points
    cdef readonly uint64_t point_count
    cdef bint by_stamp
    cdef const int64_t *time_stamps
    cdef size_t row_count
    cdef readonly size_t next_row       # how many of the loaded rows have been read
    cdef RowColumns *atoms
    cdef list kept

    cdef int fill(self, size_t most) except -1 nogil
    cdef int add_rows(self, size_t row) except -1 nogil
