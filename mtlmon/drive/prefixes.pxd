# cython: language_level=3
"""Declarations for the table of line prefixes."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t


cdef struct Prefix:
    # NULL in a free entry
    uint8_t *text
    size_t size
    uint64_t hash
    # for the caller: the number of open time-points with this prefix
    uint64_t open_count
    # in a free entry: the next free entry
    size_t next


# stands for no prefix: never the number of one
cdef size_t NO_PREFIX


cdef class PrefixTable:
    cdef Prefix *prefixes
    cdef size_t size, room, first_free
    # the number of a prefix in each slot, or NO_PREFIX
    cdef size_t *slots
    cdef size_t slot_mask, used_count
    cdef size_t text_bytes          # the memory that the texts take
    # the prefix that was found or added last, or NO_PREFIX
    cdef size_t latest

    cdef size_t find(self, const uint8_t *text, size_t size) noexcept nogil
    cdef size_t add(self, const uint8_t *text, size_t size) noexcept nogil
    cdef void remove(self, size_t number) noexcept nogil
    cdef size_t slot_of(self, const uint8_t *text, size_t size, uint64_t hash) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
    cdef bint reserve(self) noexcept nogil
