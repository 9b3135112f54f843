# cython: language_level=3
"""Declarations for splitting blocks of time-points."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t


cdef struct RowNumbers:
    uint32_t *of
    size_t count, room


cdef class Splitter:
    cdef readonly Router router
    cdef RowNumbers *rows               # of each slice, in the block that is split

    cdef int find_rows(self, PointBlock points) except -1 nogil
