# cython: language_level=3
"""Relations: rows of cells, queues of the rows of time-points, and sets of rows."""

from libc.stdint cimport SIZE_MAX, UINT32_MAX
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove, memset

from mtlmon.errors import LimitError


cdef uint32_t NONE = UINT32_MAX


cdef extern from *:
    """
    #include <stdint.h>

    static inline uint64_t mtlmon_mixed(uint64_t value, uint64_t cell) {
        unsigned __int128 product =
            (unsigned __int128) (value ^ cell) * 0x9E3779B97F4A7C15ULL;
        return (uint64_t) product ^ (uint64_t) (product >> 64);
    }
    """
    uint64_t mixed "mtlmon_mixed"(uint64_t value, uint64_t cell) noexcept nogil


cdef inline int reserve_rows(Rows *rows, size_t more) except -1 nogil:
    """Make room for more rows."""
    # at least one cell, so that rows without cells have an address, too
    if more > (SIZE_MAX // 32 - rows.count) // (rows.width + 1):
        with gil:
            raise MemoryError("mtlmon: out of memory")
    return make_room(
        <void **> &rows.cells, &rows.room, (rows.count + more) * rows.width + 1, sizeof(int64_t)
    )


cdef inline int64_t *row_of(const Rows *rows, size_t number) noexcept nogil:
    return rows.cells + number * rows.width


cdef inline int64_t *new_row(Rows *rows) except NULL nogil:
    """Add a row, whose cells the caller writes."""
    if (rows.count + 1) * rows.width + 1 > rows.room:
        reserve_rows(rows, 1)
    rows.count += 1
    return rows.cells + (rows.count - 1) * rows.width


cdef inline void copy_cells(int64_t *target, const int64_t *cells, size_t count) noexcept nogil:
    cdef size_t k
    for k in range(count):
        target[k] = cells[k]


cdef inline uint64_t hash_row(const int64_t *cells, size_t width) noexcept nogil:
    cdef uint64_t value = 0x2545F4914F6CDD1DULL
    cdef size_t k
    for k in range(width):
        value = mixed(value, <uint64_t> cells[k])
    return value


cdef inline uint64_t hash_columns(
    const int64_t *cells, const uint32_t *columns, size_t count
) noexcept nogil:
    """The hash of some cells of a row, as if they were a row."""
    cdef uint64_t value = 0x2545F4914F6CDD1DULL
    cdef size_t k
    for k in range(count):
        value = mixed(value, <uint64_t> cells[columns[k]])
    return value


cdef inline bint same_cells(
    const int64_t *left, const int64_t *right, size_t count
) noexcept nogil:
    cdef size_t k
    for k in range(count):
        if left[k] != right[k]:
            return False
    return True


cdef int prepare_set(RowSet *found, size_t count) except -1 nogil:
    """Make an empty set with room for so many rows."""
    cdef size_t size = 16
    if count > UINT32_MAX // 2:
        with gil:
            raise LimitError("a relation has more than 2^31 rows")
    while size < 2 * count:
        size *= 2
    make_room(<void **> &found.places, &found.room, size, sizeof(uint32_t))
    # `room` may be larger after doubling; only a power of 2 of it is used
    memset(found.places, 0xFF, size * sizeof(uint32_t))
    return 0


cdef inline size_t set_mask(size_t count) noexcept nogil:
    """The mask of a set that was prepared for so many rows."""
    cdef size_t size = 16
    while size < 2 * count:
        size *= 2
    return size - 1


cdef int distinct(Rows *rows, RowSet *seen) except -1 nogil:
    """Keep the first of equal rows."""
    cdef size_t mask, k, place, kept = 0
    cdef size_t j
    cdef int64_t *row
    cdef bint is_new
    if rows.count < 2:
        return 0
    if rows.width == 0:
        rows.count = 1
        return 0
    if rows.count <= 8:
        for k in range(rows.count):
            row = row_of(rows, k)
            is_new = True
            for j in range(kept):
                if same_cells(row, row_of(rows, j), rows.width):
                    is_new = False
                    break
            if is_new:
                if kept != k:
                    copy_cells(row_of(rows, kept), row, rows.width)
                kept += 1
        rows.count = kept
        return 0
    mask = set_mask(rows.count)
    prepare_set(seen, rows.count)
    for k in range(rows.count):
        row = row_of(rows, k)
        place = hash_row(row, rows.width) & mask
        while seen.places[place] != NONE:
            if same_cells(row, row_of(rows, seen.places[place]), rows.width):
                break
            place = (place + 1) & mask
        if seen.places[place] != NONE:
            continue
        seen.places[place] = <uint32_t> kept
        if kept != k:
            copy_cells(row_of(rows, kept), row, rows.width)
        kept += 1
    rows.count = kept
    return 0


cdef int push_rows(
    RowQueue *queue, int64_t time_stamp, uint64_t point, const Rows *rows
) except -1 nogil:
    """Put the rows of a time-point behind those of earlier ones."""
    cdef QueuedPoint *last
    cdef size_t cells = rows.count * rows.width
    if queue.first_point > 64 and queue.first_point > queue.point_count // 2:
        queue.point_count -= queue.first_point
        memmove(
            queue.points, queue.points + queue.first_point, queue.point_count * sizeof(QueuedPoint)
        )
        queue.first_point = 0
    if queue.first_cell > 256 and queue.first_cell > queue.cell_count // 2:
        queue.cell_count -= queue.first_cell
        memmove(
            queue.cells, queue.cells + queue.first_cell, queue.cell_count * sizeof(int64_t)
        )
        queue.first_cell = 0
    make_room(
        <void **> &queue.points, &queue.point_room, queue.point_count + 1, sizeof(QueuedPoint)
    )
    make_room(
        <void **> &queue.cells, &queue.cell_room, queue.cell_count + cells + 1, sizeof(int64_t)
    )
    last = &queue.points[queue.point_count]
    last.time_stamp = time_stamp
    last.point = point
    last.count = rows.count
    if cells:
        memcpy(queue.cells + queue.cell_count, rows.cells, cells * sizeof(int64_t))
    queue.point_count += 1
    queue.cell_count += cells
    return 0


cdef inline bint has_points(const RowQueue *queue) noexcept nogil:
    return queue.first_point < queue.point_count


cdef inline QueuedPoint *front_point(const RowQueue *queue) noexcept nogil:
    return &queue.points[queue.first_point]


cdef inline const int64_t *front_rows(const RowQueue *queue) noexcept nogil:
    return queue.cells + queue.first_cell


cdef inline void pop_point(RowQueue *queue) noexcept nogil:
    queue.first_cell += front_point(queue).count * queue.width
    queue.first_point += 1
    if queue.first_point == queue.point_count:
        queue.first_point = queue.point_count = queue.first_cell = queue.cell_count = 0


cdef inline size_t queued(const RowQueue *queue) noexcept nogil:
    """The number of time-points in a queue."""
    return queue.point_count - queue.first_point


cdef inline size_t held_by_queue(const RowQueue *queue) noexcept nogil:
    return queue.point_room * sizeof(QueuedPoint) + queue.cell_room * sizeof(int64_t)


cdef inline void free_queue(RowQueue *queue) noexcept nogil:
    free(queue.points)
    free(queue.cells)
