# cython: language_level=3
"""Rows that a window still needs, in order of time: one queue for all traces.

All keys share the log's clock, so rows enter and leave windows in the order of the log. A kernel
has one such queue and a state for each key. A row that leaves is subtracted from the state of its
own key, whichever key the current row belongs to. So a key that gets no rows any more costs
nothing, and it is settled when it has no rows in the queue.
"""

from libc.stdint cimport INT64_MAX, SIZE_MAX, UINT64_MAX, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove, memset

from mtlmon.engine.native cimport NumberReader, NumberWriter


cdef enum:
    LEAST_ROWS = 64
    # How many rows before its use the state of a trace is fetched.
    AHEAD = 8
    # The new number of a trace that is forgotten.
    FORGOTTEN = 0xFFFFFFFF
    MOST_TRACES = 0xFFFFFFFE
    # How many rows a row stands for at most; more do not come in years.
    MOST_WEIGHT = 0x100000000000


cdef extern from *:
    """
    #define prefetch(place) __builtin_prefetch(place, 1)
    """
    void prefetch(const void *place) noexcept nogil


cdef bint has_resized(void **block, size_t count, size_t item_size) noexcept nogil:
    """Give a block room for `count` items; returns False if there is no memory for them."""
    cdef void *grown
    if count > SIZE_MAX // 2 // item_size:
        return False
    grown = realloc(block[0], max(<size_t> 1, count) * item_size)
    if grown == NULL:
        return False
    block[0] = grown
    return True


cdef int resized(void **block, size_t count, size_t item_size) except -1 nogil:
    """Give a block room for `count` items, or raise MemoryError."""
    if not has_resized(block, count, item_size):
        with gil:
            raise MemoryError("mtlmon: out of memory")
    return 0


cdef struct Rows:
    # A queue of rows, one array per property. A row has a position that never changes; its index in
    # the arrays is the position minus `base`. Rows come at the end, and go at the start, but only
    # in `forget_rows`: between two calls of it, everything can be undone by setting `end` back.
    int64_t *time_stamps
    uint32_t *numbers           # of the traces
    int64_t *values             # NULL if `has_values` is not set
    uint32_t *following         # links between rows of a trace; NULL if `has_links` is not set
    uint32_t *preceding
    uint64_t *words             # `word_count` of each row, for what it stands for; NULL for none
    uint32_t word_count
    bint has_values, has_links
    uint64_t base
    uint64_t start, end         # the positions of the first row and behind the last row
    size_t room


cdef inline void init_rows(Rows *rows, bint has_values, bint has_links) noexcept nogil:
    memset(rows, 0, sizeof(Rows))
    rows.has_values = has_values
    rows.has_links = has_links


cdef inline void free_rows(Rows *rows) noexcept nogil:
    free(rows.time_stamps)
    free(rows.numbers)
    free(rows.values)
    free(rows.following)
    free(rows.preceding)
    free(rows.words)


cdef inline size_t row_bytes(const Rows *rows) noexcept nogil:
    return 12 + 8 * (<size_t> rows.has_values + rows.has_links + rows.word_count)


cdef inline size_t rows_bytes(const Rows *rows) noexcept nogil:
    return rows.room * row_bytes(rows)


cdef object most_rows_bytes(const Rows *rows, object kept, object batch):
    """The most bytes that the queue takes if so many rows stay in it from batch to batch.

    Up to as many rows that have gone are still in front, and arrays grow to twice what is needed.
    """
    cdef object room = max(LEAST_ROWS, 2 * (2 * kept + batch))
    return room * row_bytes(rows)


cdef inline size_t index_of(const Rows *rows, uint64_t position) noexcept nogil:
    return <size_t> (position - rows.base)


cdef inline size_t linked_index(const Rows *rows, uint32_t position) noexcept nogil:
    """The index of a row, from the low bits of its position."""
    return <uint32_t> (position - <uint32_t> rows.base)


cdef inline uint64_t *words_of(const Rows *rows, size_t index) noexcept nogil:
    return rows.words + index * rows.word_count


cdef int resize_rows(Rows *rows, size_t room) except -1 nogil:
    # until all arrays have the new size, the smaller size counts
    rows.room = min(room, rows.room)
    resized(<void **> &rows.time_stamps, room, sizeof(int64_t))
    resized(<void **> &rows.numbers, room, sizeof(uint32_t))
    if rows.has_values:
        resized(<void **> &rows.values, room, sizeof(int64_t))
    if rows.has_links:
        resized(<void **> &rows.following, room, sizeof(uint32_t))
        resized(<void **> &rows.preceding, room, sizeof(uint32_t))
    if rows.word_count:
        resized(<void **> &rows.words, room, rows.word_count * sizeof(uint64_t))
    rows.room = room
    return 0


cdef int reserve_rows(Rows *rows, size_t more) except -1 nogil:
    """Make room for more rows."""
    cdef size_t needed = index_of(rows, rows.end) + more
    if needed <= rows.room:
        return 0
    if needed > UINT32_MAX:
        with gil:
            raise LimitError("a window holds more than 2^32 - 1 rows")
    return resize_rows(rows, max(max(needed, 2 * rows.room), <size_t> LEAST_ROWS))


cdef inline void push_row(
    Rows *rows, int64_t time_stamp, uint32_t number, int64_t value
) noexcept nogil:
    """Append a row; there is room for it."""
    cdef size_t index = index_of(rows, rows.end)
    rows.time_stamps[index] = time_stamp
    rows.numbers[index] = number
    if rows.has_values:
        rows.values[index] = value
    if rows.word_count:
        memset(words_of(rows, index), 0, rows.word_count * sizeof(uint64_t))
    rows.end += 1


cdef int forget_rows(Rows *rows, uint64_t position) except -1 nogil:
    """Drop the rows before a position."""
    cdef size_t kept = <size_t> (rows.end - position)
    cdef size_t dead = index_of(rows, position)
    rows.start = position
    if dead <= kept:
        return 0
    memmove(rows.time_stamps, rows.time_stamps + dead, kept * sizeof(int64_t))
    memmove(rows.numbers, rows.numbers + dead, kept * sizeof(uint32_t))
    if rows.has_values:
        memmove(rows.values, rows.values + dead, kept * sizeof(int64_t))
    if rows.has_links:
        memmove(rows.following, rows.following + dead, kept * sizeof(uint32_t))
        memmove(rows.preceding, rows.preceding + dead, kept * sizeof(uint32_t))
    if rows.word_count:
        memmove(
            rows.words, words_of(rows, dead), kept * rows.word_count * sizeof(uint64_t)
        )
    rows.base = position
    if rows.room > 8 * max(kept, <size_t> LEAST_ROWS):
        return resize_rows(rows, 2 * max(kept, <size_t> LEAST_ROWS))
    return 0


cdef uint64_t renumber_rows(
    Rows *rows, const uint32_t *numbers, size_t count, uint64_t position
) noexcept nogil:
    """Give traces new numbers and drop the rows of forgotten ones; links become invalid.

    Returns the new position of the first kept row from `position` on.
    """
    cdef size_t first = index_of(rows, rows.start)
    cdef size_t last = index_of(rows, rows.end)
    cdef size_t watched = index_of(rows, position)
    cdef size_t kept = 0
    cdef size_t moved = 0
    cdef size_t place
    cdef uint32_t number
    for place in range(first, last):
        if place == watched:
            moved = kept
        number = rows.numbers[place]
        if number >= count or numbers[number] == FORGOTTEN:
            continue
        rows.time_stamps[kept] = rows.time_stamps[place]
        rows.numbers[kept] = numbers[number]
        if rows.has_values:
            rows.values[kept] = rows.values[place]
        if rows.word_count and kept < place:
            memcpy(
                words_of(rows, kept), words_of(rows, place), rows.word_count * sizeof(uint64_t)
            )
        kept += 1
    if watched == last:
        moved = kept
    rows.base = rows.start
    rows.end = rows.base + kept
    return rows.base + moved


cdef void restart_rows(Rows *rows) noexcept nogil:
    """Number rows from 0 again; there are none."""
    rows.base = rows.start = rows.end = 0


cdef int write_rows(const Rows *rows, NumberWriter writer) except -1:
    cdef size_t place, k
    cdef int64_t latest = 0
    writer.put(rows.end - rows.start)
    for place in range(index_of(rows, rows.start), index_of(rows, rows.end)):
        writer.put(<uint64_t> (rows.time_stamps[place] - latest))
        latest = rows.time_stamps[place]
        writer.put(rows.numbers[place])
        if rows.has_values:
            writer.put(zigzag(rows.values[place]))
        for k in range(<size_t> place * rows.word_count, <size_t> (place + 1) * rows.word_count):
            writer.put(rows.words[k])
    return 0


cdef uint32_t read_rows(Rows *rows, NumberReader reader) except? 4294967295:
    """Read the rows of a snapshot; return how many traces there must be room for."""
    cdef uint64_t count = reader.get_count(2 + rows.has_values + rows.word_count)
    cdef int64_t latest = 0
    cdef int64_t value = 0
    cdef uint32_t traces = 0
    cdef uint32_t number, k
    reserve_rows(rows, <size_t> count)
    for _ in range(count):
        latest += <int64_t> reader.get(<uint64_t> (INT64_MAX - latest))
        number = <uint32_t> reader.get(MOST_TRACES - 1)
        traces = max(traces, number + 1)
        if rows.has_values:
            value = unzigzag(reader.get(UINT64_MAX))
        push_row(rows, latest, number, value)
        for k in range(rows.word_count):
            words_of(rows, index_of(rows, rows.end) - 1)[k] = reader.get(UINT64_MAX)
    return traces


cdef uint64_t zigzag(int64_t value) noexcept nogil:
    """A code that makes small numbers of either sign small natural numbers."""
    return (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)


cdef int64_t unzigzag(uint64_t code) noexcept nogil:
    return <int64_t> (code >> 1) ^ -<int64_t> (code & 1)
