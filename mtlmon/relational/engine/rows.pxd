# cython: language_level=3
"""Declarations for relations: rows of cells of one width."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef struct Numbers:
    uint32_t *of
    uint32_t count


cdef struct Rows:
    int64_t *cells              # row after row
    size_t count
    size_t room                 # in cells
    uint32_t width


cdef struct QueuedPoint:
    int64_t time_stamp
    uint64_t point
    size_t count                # of its rows


cdef struct RowQueue:
    # The rows of some time-points, in their order; those without rows may be left out.
    uint32_t width
    QueuedPoint *points
    size_t first_point, point_count, point_room
    int64_t *cells
    size_t first_cell, cell_count, cell_room


cdef struct RowSet:
    # The numbers of some rows by their cells, for one operation.
    uint32_t *places
    size_t room                 # a power of 2, or 0
