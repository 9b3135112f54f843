# cython: language_level=3
"""Declarations for logs of relations as events."""

from libc.stdint cimport uint64_t


cdef class RowEvents:
    cdef readonly RowScanner rows
    cdef readonly tuple atoms
    # the atoms that have occurred, as a letter
    cdef uint64_t *seen
    cdef size_t words
    cdef bint drops_points
    cdef public size_t most_events
