# cython: language_level=3
"""Declarations for a memo table with a fixed budget."""

from libc.stdint cimport uint32_t, uint64_t


cdef struct SequenceEntry:
    uint64_t hash
    uint32_t subject
    uint32_t start          # of the sequence in the pool
    uint32_t length         # 0 for an empty entry
    uint32_t result


cdef struct SequenceMemo:
    SequenceEntry *entries
    uint32_t size           # of the table: 0, or a power of 2
    uint32_t used           # entries that are not empty
    uint32_t *pool
    uint32_t pool_size
    uint32_t pool_count
    uint32_t shift          # the number of powers of 2 by which it is smaller than usual
    uint64_t flushes


cdef void free_memo(SequenceMemo *memo) noexcept nogil
cdef size_t held_by_memo(const SequenceMemo *memo) noexcept nogil
cdef bint recall(
    const SequenceMemo *memo, uint32_t subject, const uint32_t *sequence, uint32_t length,
    uint32_t *result
) noexcept nogil
cdef void remember(
    SequenceMemo *memo, uint32_t subject, const uint32_t *sequence, uint32_t length,
    uint32_t result
) noexcept nogil
