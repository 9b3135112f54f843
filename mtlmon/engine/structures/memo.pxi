# cython: language_level=3
"""A memo table with a fixed budget for results that depend on a subject and a sequence.

The table is direct-mapped, and full keys are compared. It grows with use up to the budget; when the
pool of sequences is full after that, everything is forgotten.
"""

from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memset


cdef enum:
    # A memo that is hardly used stays small, as there may be ten thousand memos.
    FIRST_SIZE = 1 << 5
    MOST_SIZE = 1 << 11
    FIRST_POOL = 1 << 8
    MOST_POOL = 1 << 15


cdef void free_memo(SequenceMemo *memo) noexcept nogil:
    free(memo.entries)
    free(memo.pool)
    memset(memo, 0, sizeof(SequenceMemo))


cdef size_t held_by_memo(const SequenceMemo *memo) noexcept nogil:
    """The bytes that the memo takes."""
    return memo.size * sizeof(SequenceEntry) + memo.pool_size * sizeof(uint32_t)


cdef bint recall(
    const SequenceMemo *memo, uint32_t subject, const uint32_t *sequence, uint32_t length,
    uint32_t *result
) noexcept nogil:
    """Look up a result; return whether it is known."""
    cdef uint64_t value
    cdef const SequenceEntry *entry
    if memo.size == 0:
        return False
    value = hash_sequence(subject, sequence, length)
    entry = &memo.entries[value & (memo.size - 1)]
    result[0] = entry.result
    return (
        entry.length != 0 and entry.hash == value and entry.subject == subject
        and entry.length == length
        and memcmp(memo.pool + entry.start, sequence, length * sizeof(uint32_t)) == 0
    )


cdef bint grow_table(SequenceMemo *memo) noexcept nogil:
    """Enlarge the table, if there is memory for it; return whether there is a table now."""
    cdef uint32_t size = min(
        4 * memo.size if memo.size else <uint32_t> FIRST_SIZE,
        <uint32_t> MOST_SIZE >> memo.shift,
    )
    cdef SequenceEntry *entries = <SequenceEntry *> calloc(size, sizeof(SequenceEntry))
    cdef SequenceEntry *entry
    cdef uint32_t i
    if entries == NULL:
        return False
    memo.used = 0
    for i in range(memo.size):
        if memo.entries[i].length:
            entry = &entries[memo.entries[i].hash & (size - 1)]
            memo.used += entry.length == 0
            entry[0] = memo.entries[i]
    free(memo.entries)
    memo.entries = entries
    memo.size = size
    return True


cdef bint grow_pool(SequenceMemo *memo, uint32_t needed) noexcept nogil:
    """Make room for that many items in total, if the budget allows it and there is memory."""
    cdef uint32_t size = memo.pool_size if memo.pool_size else FIRST_POOL
    cdef uint32_t *pool
    while size < needed:
        size *= 2
    if size > <uint32_t> MOST_POOL >> memo.shift:
        return False
    pool = <uint32_t *> realloc(memo.pool, size * sizeof(uint32_t))
    if pool == NULL:
        return False
    memo.pool = pool
    memo.pool_size = size
    return True


cdef void remember(
    SequenceMemo *memo, uint32_t subject, const uint32_t *sequence, uint32_t length,
    uint32_t result
) noexcept nogil:
    """Store a result, replacing another one if necessary."""
    cdef uint64_t value = hash_sequence(subject, sequence, length)
    cdef SequenceEntry *entry
    if length > (<uint32_t> MOST_POOL >> memo.shift) // 4:
        return
    if 2 * memo.used >= memo.size and memo.size < <uint32_t> MOST_SIZE >> memo.shift:
        if not grow_table(memo) and memo.size == 0:
            return
    if memo.pool_count + length > memo.pool_size and not grow_pool(
        memo, memo.pool_count + length
    ):
        if length > memo.pool_size:
            return
        memset(memo.entries, 0, memo.size * sizeof(SequenceEntry))
        memo.used = 0
        memo.pool_count = 0
        memo.flushes += 1
    entry = &memo.entries[value & (memo.size - 1)]
    memo.used += entry.length == 0
    entry.hash = value
    entry.subject = subject
    entry.start = memo.pool_count
    entry.length = length
    entry.result = result
    memcpy(memo.pool + memo.pool_count, sequence, length * sizeof(uint32_t))
    memo.pool_count += length
