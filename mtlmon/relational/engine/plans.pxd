# cython: language_level=3
"""Declarations for reading plans."""

from libc.stddef cimport size_t


cdef class Allocations:
    cdef void **places
    cdef size_t count, room
