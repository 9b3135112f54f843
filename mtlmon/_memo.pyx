# cython: language_level=3
"""A memo table of fixed budget for results that depend on a subject and a sequence.

Direct-mapped, full keys compared; when the pool of sequences is full, everything is forgotten.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from mtlmon._sequences cimport hash_sequence

cdef enum:
    TABLE_SIZE = 1 << 11
    POOL_SIZE = 1 << 15
    LONGEST = POOL_SIZE // 4


cdef int init_memo(SequenceMemo *memo) except -1:
    memset(memo, 0, sizeof(SequenceMemo))
    memo.entries = <SequenceEntry *> calloc(TABLE_SIZE, sizeof(SequenceEntry))
    memo.pool = <uint32_t *> calloc(POOL_SIZE, sizeof(uint32_t))
    if memo.entries == NULL or memo.pool == NULL:
        raise MemoryError("mtlmon: out of memory")
    return 0


cdef void free_memo(SequenceMemo *memo) noexcept nogil:
    free(memo.entries)
    free(memo.pool)
    memset(memo, 0, sizeof(SequenceMemo))


cdef bint recall(
    const SequenceMemo *memo, uint32_t subject, const uint32_t *sequence, uint32_t length,
    uint32_t *result
) noexcept nogil:
    """Whether the result is known."""
    cdef uint64_t value = hash_sequence(subject, sequence, length)
    cdef const SequenceEntry *entry = &memo.entries[value & (TABLE_SIZE - 1)]
    result[0] = entry.result
    return (
        entry.length != 0 and entry.hash == value and entry.subject == subject
        and entry.length == length
        and memcmp(memo.pool + entry.start, sequence, length * sizeof(uint32_t)) == 0
    )


cdef void remember(
    SequenceMemo *memo, uint32_t subject, const uint32_t *sequence, uint32_t length,
    uint32_t result
) noexcept nogil:
    """Keep a result, in the place of another one if need be."""
    cdef uint64_t value = hash_sequence(subject, sequence, length)
    cdef SequenceEntry *entry = &memo.entries[value & (TABLE_SIZE - 1)]
    if length > LONGEST:
        return
    if memo.pool_count + length > POOL_SIZE:
        memset(memo.entries, 0, TABLE_SIZE * sizeof(SequenceEntry))
        memo.pool_count = 0
        memo.flushes += 1
    entry.hash = value
    entry.subject = subject
    entry.start = memo.pool_count
    entry.length = length
    entry.result = result
    memcpy(memo.pool + memo.pool_count, sequence, length * sizeof(uint32_t))
    memo.pool_count += length
