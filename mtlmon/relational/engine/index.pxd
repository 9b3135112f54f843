# cython: language_level=3
"""Declarations for indexes: the slots of a state by some of their columns."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t


cdef struct Index:
    uint32_t *columns
    uint32_t column_count
    uint32_t *heads             # the first slot of each key, by hash
    size_t mask
    size_t keys                 # how many there are
    uint32_t *next              # the slots of one key are a list, by slot
    uint32_t *previous
    size_t room                 # for slots
