# cython: language_level=3
"""Blocks of bytes that native loops work on, for use from C."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t


cdef class Block:
    cdef Py_buffer view
    cdef bint is_held
    cdef const uint8_t *data
    cdef size_t size
