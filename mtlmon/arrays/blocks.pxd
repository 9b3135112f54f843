# cython: language_level=3
"""Declarations for blocks of bytes that native loops process."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t


cdef class Block:
    cdef Py_buffer view
    cdef bint is_held
    cdef const uint8_t *data
    cdef size_t size
