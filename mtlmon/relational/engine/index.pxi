# cython: language_level=3
"""Indexes: the slots of a state by some of their columns.

The first slots of keys are found by open addressing; the slots of one key are a doubly linked list.
An index without columns is the list of all slots.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset


cdef int begin_index(Index *index, columns) except -1:
    cdef size_t k
    index.column_count = <uint32_t> len(columns)
    index.columns = <uint32_t *> malloc((len(columns) + 1) * sizeof(uint32_t))
    index.heads = <uint32_t *> malloc(16 * sizeof(uint32_t))
    if index.columns == NULL or index.heads == NULL:
        raise MemoryError
    for k in range(index.column_count):
        index.columns[k] = columns[k]
    memset(index.heads, 0xFF, 16 * sizeof(uint32_t))
    index.mask = 15
    return 0


cdef void free_index(Index *index) noexcept nogil:
    free(index.columns)
    free(index.heads)
    free(index.next)
    free(index.previous)


cdef inline size_t held_by_index(const Index *index) noexcept nogil:
    return (index.mask + 1 + 2 * index.room) * sizeof(uint32_t)


cdef inline bint is_key(
    const Index *index, const Rows *slots, uint32_t slot, const int64_t *row,
    const uint32_t *columns
) noexcept nogil:
    """Whether a slot has the key that is in these columns of a row."""
    cdef const int64_t *cells = row_of(slots, slot)
    cdef size_t k
    for k in range(index.column_count):
        if cells[index.columns[k]] != row[columns[k]]:
            return False
    return True


cdef inline size_t place_of(
    const Index *index, const Rows *slots, const int64_t *row, const uint32_t *columns
) noexcept nogil:
    """Where the first slot of a key is, or would be."""
    cdef size_t place = hash_columns(row, columns, index.column_count) & index.mask
    while index.heads[place] != NONE and not is_key(
        index, slots, index.heads[place], row, columns
    ):
        place = (place + 1) & index.mask
    return place


cdef inline uint32_t first_slot(
    const Index *index, const Rows *slots, const int64_t *row, const uint32_t *columns
) noexcept nogil:
    """The first slot with the key that is in these columns of a row, or NONE."""
    return index.heads[place_of(index, slots, row, columns)]


cdef int add_slot(Index *index, const Rows *slots, uint32_t slot) except -1 nogil:
    cdef uint32_t *heads
    cdef uint32_t *old
    cdef size_t size, k, place
    cdef size_t wanted = index.room
    if slot >= index.room:
        make_room(<void **> &index.next, &wanted, <size_t> slot + 1, sizeof(uint32_t))
        wanted = index.room
        make_room(<void **> &index.previous, &wanted, <size_t> slot + 1, sizeof(uint32_t))
        index.room = wanted
    if 2 * (index.keys + 1) > index.mask:
        size = 2 * (index.mask + 1)
        heads = <uint32_t *> malloc(size * sizeof(uint32_t))
        if heads == NULL:
            with gil:
                raise MemoryError("mtlmon: out of memory")
        memset(heads, 0xFF, size * sizeof(uint32_t))
        old = index.heads
        index.heads = heads
        index.mask = size - 1
        for k in range(size // 2):
            if old[k] != NONE:
                place = place_of(index, slots, row_of(slots, old[k]), index.columns)
                heads[place] = old[k]
        free(old)
    place = place_of(index, slots, row_of(slots, slot), index.columns)
    index.next[slot] = index.heads[place]
    index.previous[slot] = NONE
    if index.heads[place] == NONE:
        index.keys += 1
    else:
        index.previous[index.heads[place]] = slot
    index.heads[place] = slot
    return 0


cdef void remove_slot(Index *index, const Rows *slots, uint32_t slot) noexcept nogil:
    cdef size_t place, hole, home
    cdef uint32_t head
    if index.next[slot] != NONE:
        index.previous[index.next[slot]] = index.previous[slot]
    if index.previous[slot] != NONE:
        index.next[index.previous[slot]] = index.next[slot]
        return
    place = place_of(index, slots, row_of(slots, slot), index.columns)
    index.heads[place] = index.next[slot]
    if index.heads[place] != NONE:
        return
    # close the gap: what stands behind it may have been moved there by it
    index.keys -= 1
    hole = place
    while True:
        place = (place + 1) & index.mask
        head = index.heads[place]
        if head == NONE:
            return
        home = hash_columns(
            row_of(slots, head), index.columns, index.column_count
        ) & index.mask
        if ((place - home) & index.mask) >= ((place - hole) & index.mask):
            index.heads[hole] = head
            index.heads[place] = NONE
            hole = place
