# cython: language_level=3
"""Declarations for visiting the texts of states."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t


cdef struct TextUse:
    # What to do with cells that are texts: note them, or give them new numbers.
    uint8_t *flags
    uint32_t *numbers
    size_t count
