# cython: language_level=3
"""A memo table of fixed budget for results that depend on a subject and a sequence."""

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
    uint32_t shift          # by how many powers of 2 it stays smaller than usual
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
