# cython: language_level=3
"""Growing plain C arrays, with every size checked."""

from libc.stdint cimport SIZE_MAX, UINT32_MAX, uint32_t
from libc.stdlib cimport calloc, free, realloc


cdef inline void *zeros(size_t count, size_t item_size) except NULL nogil:
    """Allocate `count` items of `item_size` bytes, all zero."""
    # Some C libraries return NULL for a block of no items.
    cdef void *block = calloc(max(<size_t> 1, count), item_size)
    if block == NULL:
        with gil:
            raise MemoryError("mtlmon: out of memory")
    return block


cdef inline int reserve(
    void **block, uint32_t *capacity, size_t needed, size_t item_size
) except -1 nogil:
    """Make room for `needed` items of `item_size` bytes in `block`, at least doubling it.

    If there is no memory, raises MemoryError and leaves the block unchanged.
    """
    cdef size_t wanted
    cdef void *grown
    if needed <= capacity[0]:
        return 0
    wanted = 2 * <size_t> capacity[0]
    if wanted < needed:
        wanted = needed
    if wanted < 4:
        wanted = 4
    if needed > UINT32_MAX // 2 or wanted > SIZE_MAX // item_size:
        with gil:
            raise MemoryError("mtlmon: a table of the monitor has outgrown 2^31 items")
    grown = realloc(block[0], wanted * item_size)
    if grown == NULL:
        with gil:
            raise MemoryError("mtlmon: out of memory")
    block[0] = grown
    capacity[0] = <uint32_t> wanted
    return 0


cdef inline void trim(
    void **block, uint32_t *capacity, uint32_t count, size_t item_size
) noexcept nogil:
    """Free the room in `block` beyond its first `count` items."""
    cdef void *smaller
    if count == 0:
        free(block[0])
        block[0] = NULL
        capacity[0] = 0
        return
    smaller = realloc(block[0], count * item_size)
    if smaller != NULL:
        block[0] = smaller
        capacity[0] = count
