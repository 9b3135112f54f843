# cython: language_level=3
"""The rows of each trace by themselves, where traces have times of their own.

What stands in the way of states by trace is the common clock of all traces, and no aggregate:
kernels have rows that enter and leave, and only where these are differs. In one order of all
traces, they are in one queue (`rows`). Here, they are in a ring for each trace, and a row that
nothing can happen to any more is in none. These are two compiled loops, chosen before the first
row. So one call computes rows of many traces that are at different times.

The arrays of a queue are cut into rings, so kernels find a row by its index as in a queue.
"""

cdef enum:
    LEAST_RING = 4
    RING_CLASSES = 32


cdef struct Ring:
    # Positions are numbers of rows, modulo 2^32; the room is a power of two.
    uint32_t base, room
    uint32_t start, entry, end


cdef struct Rings:
    Ring *of                        # by trace
    uint32_t *spare                 # one more than the index of a free ring, by its class


cdef int init_rings(Rings *rings) except -1:
    """Make room for no trace yet."""
    resized(<void **> &rings.of, 1, sizeof(Ring))
    resized(<void **> &rings.spare, RING_CLASSES, sizeof(uint32_t))
    memset(rings.spare, 0, RING_CLASSES * sizeof(uint32_t))
    return 0


cdef int resize_rings(Rings *rings, uint32_t traces, uint32_t room) except -1:
    """Give so many traces more room, if there are rings at all."""
    if rings.of != NULL:
        resized(<void **> &rings.of, room, sizeof(Ring))
        memset(rings.of + traces, 0, (room - traces) * sizeof(Ring))
    return 0


cdef inline size_t ring_index(const Ring *ring, uint32_t position) noexcept nogil:
    return ring.base + <size_t> (position & (ring.room - 1))


cdef inline size_t ring_count(const Ring *ring) noexcept nogil:
    return <size_t> (ring.end - ring.start)


cdef int grow_ring(Rings *rings, Rows *rows, uint32_t trace) except -1 nogil:
    """Move the rows of a trace to a ring with twice the room."""
    cdef Ring *ring = &rings.of[trace]
    cdef Ring wide = ring[0]
    cdef uint32_t number = 0
    cdef uint32_t position
    cdef size_t k, index, source
    wide.room = LEAST_RING if ring.room == 0 else 2 * ring.room
    while LEAST_RING << number < wide.room:
        number += 1
    if rings.spare[number]:
        wide.base = rings.spare[number] - 1
        rings.spare[number] = <uint32_t> rows.time_stamps[wide.base]
    else:
        reserve_rows(rows, wide.room)
        wide.base = <uint32_t> rows.end
        rows.end += wide.room
    for k in range(wide.room):
        rows.numbers[wide.base + k] = trace
    position = ring.start
    while position != ring.end:
        index = ring_index(&wide, position)
        source = ring_index(ring, position)
        rows.time_stamps[index] = rows.time_stamps[source]
        if rows.has_values:
            rows.values[index] = rows.values[source]
        position += 1
    if ring.room:
        rows.time_stamps[ring.base] = rings.spare[number - 1]
        rings.spare[number - 1] = ring.base + 1
    ring[0] = wide
    return 0


cdef inline int push_in_ring(
    Rings *rings, Rows *rows, uint32_t trace, int64_t time_stamp, int64_t value
) except -1 nogil:
    cdef Ring *ring = &rings.of[trace]
    cdef size_t index
    if ring.end - ring.start == ring.room:
        grow_ring(rings, rows, trace)
    index = ring_index(ring, ring.end)
    rows.time_stamps[index] = time_stamp
    if rows.has_values:
        rows.values[index] = value
    ring.end += 1
    return 0


cdef inline void expect_ring(const Rings *rings, const Rows *rows, uint32_t trace) noexcept nogil:
    """Fetch the first and the next row of a trace."""
    cdef const Ring *ring = &rings.of[trace]
    if ring.room:
        prefetch(&rows.time_stamps[ring_index(ring, ring.start)])
        prefetch(&rows.time_stamps[ring_index(ring, ring.end)])
        if rows.has_values:
            prefetch(&rows.values[ring_index(ring, ring.start)])
            prefetch(&rows.values[ring_index(ring, ring.end)])


# ---- exact numbers, with the words that they need ----------------------------------------------


cdef void needed_words(
    const Numbers *numbers, uint32_t trace, uint32_t *first, uint32_t *last
) noexcept nogil:
    """Which words of a number there must be; the others are 0, or repeat the sign."""
    cdef const uint64_t *words = number_of(numbers, trace)
    cdef uint64_t fill
    first[0] = 0
    last[0] = numbers.width
    while first[0] < last[0] and words[first[0]] == 0:
        first[0] += 1
    if first[0] == last[0]:
        return
    fill = <uint64_t> -1 if words[numbers.width - 1] >> 63 else 0
    while last[0] - first[0] > 1 and words[last[0] - 1] == fill and (
        words[last[0] - 2] >> 63 == fill >> 63
    ):
        last[0] -= 1


cdef size_t number_words(const Numbers *numbers, uint32_t trace) noexcept nogil:
    cdef uint32_t first, last
    needed_words(numbers, trace, &first, &last)
    return 1 + last - first


cdef size_t write_number(const Numbers *numbers, uint32_t trace, uint64_t *words) noexcept nogil:
    cdef uint32_t first, last
    cdef int exponent
    needed_words(numbers, trace, &first, &last)
    if first == last:
        words[0] = 0
        return 1
    # a count of words, and how often the exponent has 64, which may be negative
    exponent = numbers.exponent // 64 + <int> first + 4 * MOST_WORDS
    words[0] = <uint64_t> exponent * MOST_WORDS + (last - first)
    memcpy(words + 1, number_of(numbers, trace) + first, (last - first) * sizeof(uint64_t))
    return 1 + last - first


cdef int wanted_exponent(
    const Numbers *numbers, const uint64_t *words, size_t size, int64_t most, int *exponent
) except -1 nogil:
    """Find an exponent that the numbers have no place for, but that is in a written one.

    The words may be those of a forged snapshot, where exponents are as large as one likes.

    size: how many words there are at least.
    most: how many words a number can have on either side of the point.

    Returns whether there is one.
    """
    cdef uint32_t count
    cdef int64_t first
    if size == 0:
        with gil:
            raise damaged()
    count = <uint32_t> (words[0] % MOST_WORDS)
    first = <int64_t> (words[0] // MOST_WORDS) - 4 * MOST_WORDS
    if count >= size or (count and not -most <= first <= most - <int64_t> count):
        with gil:
            raise damaged()
    if count == 0:
        return False
    exponent[0] = <int> first * 64
    if exponent[0] < numbers.exponent:
        return True
    exponent[0] += 64 * (<int> count - 1)
    return exponent[0] + 64 > numbers.exponent + 64 * <int> numbers.width


cdef size_t read_number(Numbers *numbers, uint32_t trace, const uint64_t *words) noexcept nogil:
    """Read a number in the place of 0, where there is room for it; return how many words it has."""
    cdef uint32_t count = <uint32_t> (words[0] % MOST_WORDS)
    cdef uint64_t *target = number_of(numbers, trace)
    cdef uint32_t first, place
    if count == 0:
        return 1
    first = <uint32_t> (<int> (words[0] // MOST_WORDS) - 4 * MOST_WORDS - numbers.exponent // 64)
    memcpy(target + first, words + 1, count * sizeof(uint64_t))
    if words[count] >> 63:
        for place in range(first + count, numbers.width):
            target[place] = <uint64_t> -1
    return 1 + count
