# cython: language_level=3
"""Declarations for visiting the texts of states."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t


cdef struct TextUse:
    # What to do with cells that are texts: note them, give them new numbers, or neither. What is
    # wrong says whether there was a cell without a text, if it is not NULL.
    uint8_t *flags
    bint *wrong
    uint32_t *numbers
    size_t count
