# cython: language_level=3
"""Declarations for the table of the atoms that a formula names."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef struct AtomSlot:
    const uint8_t *name
    size_t length
    size_t index
    uint64_t hash


cdef enum:
    LONGEST_SHORT = 16


cdef struct ShortAtom:
    uint64_t first, second
    uint64_t bit


cdef class AtomTable:
    cdef readonly tuple atoms
    cdef readonly size_t letter_words
    cdef list names
    cdef AtomSlot *slots
    cdef size_t slot_mask
    # PERF: lengths (modulo 64) of the atoms by first byte; rejects most irrelevant atoms without
    # hashing
    cdef uint64_t lengths[256]
    # PERF: one-byte atoms need no look-up: their word in the letter, and their bit (0: not in the
    # table)
    cdef uint32_t single_word[256]
    cdef uint64_t single_bit[256]
    # PERF: the atoms of up to 16 bytes, each in its own place, so that looking one up takes no
    # branch; NULL if there are more than 64 atoms
    cdef ShortAtom *short_atoms
    cdef uint64_t multipliers[2]
    cdef unsigned short_shift

    cdef int fill(self) except -1
    cdef int fill_short(self) except -1
    cdef int place_short(self, const ShortAtom *atoms, size_t count, unsigned bits) except -1
    cdef void add(self, const uint8_t *name, size_t length, uint64_t *letter) noexcept nogil


cdef inline size_t short_place(AtomTable table, uint64_t first, uint64_t second) noexcept nogil:
    return <size_t> (
        (first * table.multipliers[0] ^ second * table.multipliers[1]) >> table.short_shift
    )


cdef inline uint64_t short_letter(AtomTable table, uint64_t first, uint64_t second) noexcept nogil:
    """The letter with the bit of a name of 1 to 16 bytes; 0 if the table has no such name.

    first, second: the name padded with zeros, as `load_text` loads it.
    """
    cdef const ShortAtom *atom = table.short_atoms + short_place(table, first, second)
    return atom.bit & (
        0 - <uint64_t> (((atom.first ^ first) | (atom.second ^ second)) == 0)
    )
