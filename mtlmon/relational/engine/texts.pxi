# cython: language_level=3
"""Which texts states still need. Others are forgotten when there are twice as many as before."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stddef cimport size_t
from libc.stdlib cimport free
from libc.string cimport memset


cdef inline void visit_cell(int64_t *cell, const TextUse *use) noexcept nogil:
    if <uint64_t> cell[0] >= use.count:
        # as in a forged snapshot
        return
    if use.flags != NULL:
        use.flags[cell[0]] = 1
    else:
        cell[0] = use.numbers[cell[0]]


cdef void visit_cells(
    int64_t *cells, size_t rows, size_t width, const Numbers *texts, const TextUse *use
) noexcept nogil:
    """Visit the columns of rows that have texts."""
    cdef size_t row, k
    if texts.count == 0:
        return
    for row in range(rows):
        for k in range(texts.count):
            visit_cell(cells + row * width + texts.of[k], use)


cdef void visit_queue(RowQueue *queue, const Numbers *texts, const TextUse *use) noexcept nogil:
    if queue.width:
        visit_cells(
            queue.cells + queue.first_cell, (queue.cell_count - queue.first_cell) // queue.width,
            queue.width, texts, use
        )


cdef void visit_slots(
    Rows *rows, const uint32_t *unused, size_t unused_count, const Numbers *texts, uint8_t *is_free,
    const TextUse *use
) noexcept nogil:
    """Visit the rows of slots that are in use; `is_free` has room for a byte for each."""
    cdef size_t k
    if texts.count == 0:
        return
    memset(is_free, 0, rows.count)
    for k in range(unused_count):
        is_free[unused[k]] = 1
    for k in range(rows.count):
        if not is_free[k]:
            visit_cells(row_of(rows, k), 1, rows.width, texts, use)


cdef int build_again(Index *index, const Rows *rows) except -1 nogil:
    """Build an index whose slots have got other cells."""
    cdef uint32_t *slots = NULL
    cdef size_t room = 0, count = 0, k
    cdef uint32_t slot
    try:
        for k in range(index.mask + 1):
            slot = index.heads[k]
            while slot != NONE:
                make_room(<void **> &slots, &room, count + 1, sizeof(uint32_t))
                slots[count] = slot
                count += 1
                slot = index.next[slot]
        memset(index.heads, 0xFF, (index.mask + 1) * sizeof(uint32_t))
        index.keys = 0
        for k in range(count):
            add_slot(index, rows, slots[k])
    finally:
        free(slots)
    return 0
