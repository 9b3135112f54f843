# cython: language_level=3
"""Declarations for the table of the relations that are read."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef struct ReadRelation:
    const uint8_t *name
    size_t length
    uint64_t hash
    uint32_t number         # of the atom in blocks of time-points
    uint32_t width
    const uint8_t *kinds    # of the arguments
    bint is_seen
    ReadRelation *twin      # the next one of this name, which reads the same rows as other types


cdef class RelationTable:
    cdef readonly tuple relations
    cdef list kept
    cdef ReadRelation *entries
    cdef ReadRelation **slots
    cdef size_t slot_mask
    cdef size_t count

    cdef ReadRelation *find(
        self, const uint8_t *name, size_t length, uint64_t hash
    ) noexcept nogil


cdef inline uint64_t hash_byte(uint64_t hash, uint8_t byte) noexcept nogil:
    return (hash ^ byte) * <uint64_t> 0x9E3779B97F4A7C15


cdef inline uint64_t finished_hash(uint64_t hash) noexcept nogil:
    return hash ^ hash >> 32
