# cython: language_level=3
"""The table of the atoms that a formula names, for use from C."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef struct AtomSlot:
    const uint8_t *name
    size_t length
    size_t index
    uint64_t hash


cdef class AtomTable:
    cdef readonly tuple atoms
    cdef readonly size_t letter_words
    cdef list names
    cdef AtomSlot *slots
    cdef size_t slot_mask
    # PERF: lengths (modulo 64) of the atoms by first byte; most irrelevant atoms end here, unhashed
    cdef uint64_t lengths[256]
    # PERF: one-byte atoms need no look-up: their word in the letter, and their bit (0: not there)
    cdef uint32_t single_word[256]
    cdef uint64_t single_bit[256]

    cdef int fill(self) except -1
    cdef void add(self, const uint8_t *name, size_t length, uint64_t *letter) noexcept nogil
