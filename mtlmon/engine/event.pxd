# cython: language_level=3
"""Declarations for reading an event from Python objects."""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t


cdef uint64_t read_time(object value, str what) except? 0
cdef int read_letter(
    object atoms, dict atom_numbers, bint is_strict, uint64_t *letter, size_t words
) except -1
