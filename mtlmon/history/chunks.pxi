# cython: language_level=3
"""The events of a trace in the order of the history, in chunks.

A chunk has events with their verdicts, or time passes at its start, or both; and it has the state
of the engine at its start, as words (`engine/saved`). It has as many events as its state has words,
and at least 8, so states at most double the memory. Time that passes without an event begins a
chunk.

Events of one time-stamp may stand in several chunks. A late event goes to the last chunk that
begins no later than the event, behind all events of its time-stamp, so no other event gets another
name. A retracted event stays in its chunk with a mark and is not judged, so its name is never given
again.
"""

from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, UINT32_MAX, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from mtlmon.engine.native cimport Words, reserve


# ---- memory ------------------------------------------------------------------------------------


cdef int copy_saved(Saved *target, const Saved *source) except -1 nogil:
    """Copy a saved state to another place, without room for more words."""
    cdef Words words = target.words
    cdef void *block
    if words.capacity < source.words.count:
        block = realloc(words.items, source.words.count * sizeof(uint64_t))
        if block == NULL:
            with gil:
                raise MemoryError("mtlmon: out of memory")
        words.items = <uint64_t *> block
        words.capacity = source.words.count
    words.count = source.words.count
    if words.count:
        memcpy(words.items, source.words.items, words.count * sizeof(uint64_t))
    target[0] = source[0]
    target.words = words
    return 0


cdef Chunk *new_chunk(SpareChunks *spare) except NULL nogil:
    """An empty chunk, in the memory of a spare one if there is one."""
    cdef Chunk *chunk
    cdef Chunk memory
    if spare.count:
        spare.count -= 1
        chunk = spare.chunks[spare.count]
        memory = chunk[0]
        memset(chunk, 0, sizeof(Chunk))
        chunk.time_stamps = memory.time_stamps
        chunk.letters = memory.letters
        chunk.points = memory.points
        chunk.capacity = memory.capacity
        chunk.saved.words = memory.saved.words
        chunk.saved.words.count = 0
        return chunk
    chunk = <Chunk *> calloc(1, sizeof(Chunk))
    if chunk == NULL:
        with gil:
            raise MemoryError("mtlmon: out of memory")
    return chunk


cdef void free_chunk(Chunk *chunk) noexcept nogil:
    # letters and points are in the same block
    free(chunk.time_stamps)
    free(chunk.saved.words.items)
    free(chunk)


cdef int make_spare(SpareChunks *spare) except -1:
    spare.chunks = <Chunk **> malloc(MOST_SPARE * sizeof(Chunk *))
    if spare.chunks == NULL:
        raise MemoryError("mtlmon: out of memory")
    return 0


cdef void free_spare(SpareChunks *spare) noexcept nogil:
    while spare.count:
        spare.count -= 1
        free_chunk(spare.chunks[spare.count])
    free(spare.chunks)


cdef void free_trace(Trace *trace) noexcept nogil:
    """Free all that a trace holds, which is all zeros afterwards."""
    cdef uint32_t k
    for k in range(trace.first, trace.count):
        free_chunk(trace.chunks[k])
    free(trace.chunks)
    memset(trace, 0, sizeof(Trace))


cdef int make_room(Chunk *chunk, size_t more, size_t words) except -1 nogil:
    """Make room for more events, for as many as a chunk has at least.

    PERF: time-stamps, letters and points are in one block, with room for eight events at first.
    With a block for each, which grew by half, a fifth of the time went to `realloc`.
    """
    cdef size_t needed = <size_t> chunk.count + more
    cdef size_t wanted = max(
        max(needed, 2 * <size_t> chunk.capacity), <size_t> LEAST_SPACING
    )
    cdef size_t size = (1 + words) * sizeof(uint64_t) + sizeof(Point)
    cdef uint64_t *block
    cdef uint64_t *letters
    cdef Point *points
    if needed <= chunk.capacity:
        return 0
    if wanted > UINT32_MAX // 2 or wanted > SIZE_MAX // size:
        with gil:
            raise MemoryError("mtlmon: a chunk of the history has outgrown 2^31 events")
    block = <uint64_t *> malloc(wanted * size)
    if block == NULL:
        with gil:
            raise MemoryError("mtlmon: out of memory")
    points = <Point *> (block + wanted)
    letters = <uint64_t *> (points + wanted)
    if chunk.count:
        memcpy(block, chunk.time_stamps, chunk.count * sizeof(uint64_t))
        memcpy(points, chunk.points, chunk.count * sizeof(Point))
        memcpy(letters, chunk.letters, chunk.count * words * sizeof(uint64_t))
    free(chunk.time_stamps)
    chunk.time_stamps = block
    chunk.points = points
    chunk.letters = letters
    chunk.capacity = <uint32_t> wanted
    return 0


# ---- events ------------------------------------------------------------------------------------


cdef inline void set_open(
    Chunk *chunk, size_t place, uint64_t offset, uint8_t flags
) noexcept nogil:
    cdef Point *point = &chunk.points[place]
    memset(point, 0, sizeof(Point))
    point.offset = offset
    point.kind = STILL_OPEN
    point.flags = flags
    if flags & IS_PASSED:
        chunk.has_passed = True


cdef int add_events(Chunk *chunk, const Rows *rows, size_t words, uint64_t offset) except -1 nogil:
    """Put events at the end of a chunk; the first one gets this offset, and the others follow.

    Events that are named have their offsets.
    """
    cdef size_t k
    cdef uint32_t place = chunk.count
    if rows.count == 0:
        return 0
    make_room(chunk, rows.count, words)
    memcpy(chunk.time_stamps + place, rows.time_stamps, rows.count * sizeof(uint64_t))
    memcpy(chunk.letters + place * words, rows.letters, rows.count * words * sizeof(uint64_t))
    for k in range(rows.count):
        if rows.are_named:
            offset = rows.offsets[k]
        elif k:
            offset = offset + 1 if rows.time_stamps[k] == rows.time_stamps[k - 1] else 0
        set_open(chunk, place + k, offset, rows.flags[k])
        rows.offsets[k] = offset
    chunk.count += <uint32_t> rows.count
    return 0


cdef int insert_events(Chunk *chunk, const Rows *rows, size_t words) except -1 nogil:
    """Put late events, in order of time, each behind all events of its time-stamp.

    Events that come before the first event of the chunk are the first of their time-stamps.
    """
    cdef size_t left, late, place, run
    cdef uint64_t offset
    if rows.count == 0:
        return 0
    make_room(chunk, rows.count, words)
    left = chunk.count
    late = rows.count
    # From the end on: runs of the chunk's events move behind the late events that precede them.
    while late:
        run = left
        while run and chunk.time_stamps[run - 1] > rows.time_stamps[late - 1]:
            run -= 1
        if run < left:
            memmove(
                chunk.time_stamps + run + late, chunk.time_stamps + run,
                (left - run) * sizeof(uint64_t)
            )
            memmove(
                chunk.letters + (run + late) * words, chunk.letters + run * words,
                (left - run) * words * sizeof(uint64_t)
            )
            memmove(
                chunk.points + run + late, chunk.points + run, (left - run) * sizeof(Point)
            )
        left = run
        late -= 1
        place = left + late
        chunk.time_stamps[place] = rows.time_stamps[late]
        memcpy(
            chunk.letters + place * words, rows.letters + late * words, words * sizeof(uint64_t)
        )
        # a kind that no time-point has: its offset is not known yet
        chunk.points[place].kind = STILL_OPEN + 1
    chunk.count += <uint32_t> rows.count
    for place in range(chunk.count):
        if chunk.points[place].kind != STILL_OPEN + 1:
            continue
        offset = 0
        if rows.are_named:
            offset = rows.offsets[late]
        elif place and chunk.time_stamps[place - 1] == chunk.time_stamps[place]:
            offset = chunk.points[place - 1].offset + 1
        set_open(chunk, place, offset, rows.flags[late])
        rows.offsets[late] = offset
        late += 1
    return 0


# ---- chunks ------------------------------------------------------------------------------------


cdef int insert_chunk(Trace *trace, uint32_t place, Chunk *chunk) except -1 nogil:
    """Put a chunk at a place among the chunks of a trace."""
    reserve(<void **> &trace.chunks, &trace.capacity, trace.count + 1, sizeof(Chunk *))
    if place < trace.count:
        memmove(
            trace.chunks + place + 1, trace.chunks + place,
            (trace.count - place) * sizeof(Chunk *)
        )
    trace.chunks[place] = chunk
    trace.count += 1
    if place <= trace.first + 1:
        # it is the first chunk, or has events that the first one had
        trace.kept_from = 0
    return 0


cdef int split_chunk(
    Trace *trace, uint32_t place, uint32_t most, size_t words, SpareChunks *spare
) except -1 nogil:
    """Leave the first `most` events in a chunk; the others get a chunk whose state is not known."""
    cdef Chunk *chunk = trace.chunks[place]
    cdef Chunk *other
    cdef uint32_t count = chunk.count - most
    cdef bint is_done = False
    if count == 0:
        return 0
    other = new_chunk(spare)
    try:
        make_room(other, count, words)
        memcpy(other.time_stamps, chunk.time_stamps + most, count * sizeof(uint64_t))
        memcpy(other.letters, chunk.letters + most * words, count * words * sizeof(uint64_t))
        memcpy(other.points, chunk.points + most, count * sizeof(Point))
        other.count = count
        other.has_passed = chunk.has_passed
        insert_chunk(trace, place + 1, other)
        is_done = True
    finally:
        if not is_done:
            free_chunk(other)
    chunk.count = most
    return 0


cdef void narrow(
    const Trace *trace, uint64_t time_stamp, uint32_t *low, uint32_t *high
) noexcept nogil:
    """Narrow the chunks among which the first one is that begins later than a time-stamp.

    Chunks mostly begin at an even pace. So the place is guessed twice, and looked for around the
    last guess, in steps that double.

    PERF: each chunk that is looked at is far away in memory. With thousands of chunks a trace, a
    tenth of the events late by up to an hour, and a search near the last name in `chunk_of`, SINCE
    took 0.67 of the time of halving only, and a response 0.86.
    """
    cdef uint32_t first = low[0]            # begins no later
    cdef uint32_t last = high[0] - 1        # begins later
    cdef uint64_t start = start_of(trace.chunks[first])
    cdef uint64_t end = start_of(trace.chunks[last])
    cdef uint64_t begins
    cdef uint32_t step = 1
    cdef uint32_t middle, k
    cdef bint is_later = True
    if start > time_stamp:
        high[0] = first
        return
    if end <= time_stamp:
        low[0] = high[0]
        return
    for k in range(2):
        if last - first < 2:
            break
        middle = first + 1 + <uint32_t> (
            <double> (time_stamp - start) / <double> (end - start) * (last - first - 2)
        )
        begins = start_of(trace.chunks[middle])
        is_later = begins > time_stamp
        if is_later:
            last = middle
            end = begins
        else:
            first = middle
            start = begins
    while last - first > step:
        middle = last - step if is_later else first + step
        if (start_of(trace.chunks[middle]) > time_stamp) != is_later:
            break
        if is_later:
            last = middle
        else:
            first = middle
        step *= 2
    if last - first > step:
        if is_later:
            first = last - step
        else:
            last = first + step
    low[0] = first + 1
    high[0] = last


cdef uint32_t chunk_at(const Trace *trace, uint64_t time_stamp) noexcept nogil:
    """The last chunk that begins no later than a time-stamp; NO_CHUNK if all begin later.

    PERF: with the starts of chunks in an array of their own, SINCE took 0.95 of the time with a
    tenth of a thousand traces' events late, but a response 1.03 of it without late events. To fetch
    the chunks of late events ahead took more time, too.
    """
    cdef uint32_t low = trace.first
    cdef uint32_t high = trace.count
    cdef uint32_t middle
    if high - low > FEW_CHUNKS:
        narrow(trace, time_stamp, &low, &high)
    while low < high:
        middle = low + (high - low) // 2
        if start_of(trace.chunks[middle]) <= time_stamp:
            low = middle + 1
        else:
            high = middle
    return NO_CHUNK if low == trace.first else low - 1


cdef uint64_t next_offset(const Trace *trace, uint64_t time_stamp) noexcept nogil:
    """The offset of an event at the end of the history."""
    cdef const Chunk *chunk
    cdef uint32_t k = trace.count
    while k > trace.first:
        k -= 1
        chunk = trace.chunks[k]
        if chunk.count:
            if chunk.time_stamps[chunk.count - 1] != time_stamp:
                return 0
            return chunk.points[chunk.count - 1].offset + 1
        if chunk.advances:
            return 0
    return 0


# ---- names -------------------------------------------------------------------------------------


cdef inline bint begins_by(
    const Chunk *chunk, uint64_t time_stamp, uint64_t offset
) noexcept nogil:
    """Whether the chunk begins no later than the time-point of this name."""
    if chunk.count == 0:
        return chunk.advance <= time_stamp
    return chunk.time_stamps[0] < time_stamp or (
        chunk.time_stamps[0] == time_stamp and chunk.points[0].offset <= offset
    )


cdef inline bint ends_behind(
    const Chunk *chunk, uint64_t time_stamp, uint64_t offset
) noexcept nogil:
    """Whether the chunk has a time-point of this name, or of a later one."""
    cdef uint32_t last
    if chunk.count == 0:
        return False
    last = chunk.count - 1
    return chunk.time_stamps[last] > time_stamp or (
        chunk.time_stamps[last] == time_stamp and chunk.points[last].offset >= offset
    )


cdef Point *find_in_chunk(Chunk *chunk, uint64_t time_stamp, uint64_t offset) noexcept nogil:
    cdef uint32_t low = 0
    cdef uint32_t high = chunk.count
    cdef uint32_t middle
    while low < high:
        middle = low + (high - low) // 2
        if chunk.time_stamps[middle] < time_stamp:
            low = middle + 1
        else:
            high = middle
    # The offsets of a time-stamp have no gaps, but where events were passed over.
    while (
        low < chunk.count and chunk.time_stamps[low] == time_stamp
        and chunk.points[low].offset <= offset
    ):
        middle = low + <uint32_t> min(
            offset - chunk.points[low].offset, <uint64_t> (chunk.count - 1 - low)
        )
        if chunk.time_stamps[middle] == time_stamp and chunk.points[middle].offset == offset:
            return &chunk.points[middle]
        low += 1
    return NULL


cdef uint32_t chunk_of(Trace *trace, uint64_t time_stamp, uint64_t offset) noexcept nogil:
    """The chunk that a name belongs to; NO_CHUNK if all begin later.

    PERF: many verdicts are of the last event, and the others mostly are of time-points near those
    before. A search through all chunks took a tenth of the time, and more than a third where a
    trace has thousands of chunks.
    """
    cdef uint32_t low = trace.first
    cdef uint32_t high = trace.count
    cdef uint32_t middle = trace.searched
    cdef uint32_t step = 1
    if low == high:
        return NO_CHUNK
    if begins_by(trace.chunks[high - 1], time_stamp, offset):
        return high - 1
    high -= 1
    if low <= middle < high:
        if begins_by(trace.chunks[middle], time_stamp, offset):
            # the chunk behind it need not be fetched then
            if ends_behind(trace.chunks[middle], time_stamp, offset):
                return middle
            low = middle + 1
            while step <= NEAR_CHUNKS and step <= high - low:
                if not begins_by(trace.chunks[low + step - 1], time_stamp, offset):
                    high = low + step - 1
                    break
                low += step
                step *= 2
        else:
            high = middle
            while step <= NEAR_CHUNKS and step <= high - low:
                if begins_by(trace.chunks[high - step], time_stamp, offset):
                    low = high - step + 1
                    break
                high -= step
                step *= 2
    if high - low > FEW_CHUNKS:
        high = chunk_at(trace, time_stamp)
        if high == NO_CHUNK:
            return NO_CHUNK
        if begins_by(trace.chunks[high], time_stamp, offset):
            low = high = high + 1
    while low < high:
        middle = low + (high - low) // 2
        if begins_by(trace.chunks[middle], time_stamp, offset):
            low = middle + 1
        else:
            high = middle
    if low == trace.first:
        return NO_CHUNK
    trace.searched = low - 1
    return low - 1


cdef Point *find_point(Trace *trace, uint64_t time_stamp, uint64_t offset) noexcept nogil:
    """The time-point of a name; NULL if it is forgotten. `recent` is its chunk."""
    cdef uint32_t found = chunk_of(trace, time_stamp, offset)
    if found == NO_CHUNK:
        return NULL
    trace.recent = found
    return find_in_chunk(trace.chunks[found], time_stamp, offset)


cdef Point *find_equal(
    Trace *trace, uint64_t time_stamp, const uint64_t *letter, size_t words
) noexcept nogil:
    """The last event without an id that has this time-stamp and letter; NULL if there is none."""
    cdef uint32_t k = chunk_at(trace, time_stamp)
    cdef uint32_t i
    cdef Chunk *chunk
    if k == NO_CHUNK:
        return NULL
    while True:
        chunk = trace.chunks[k]
        i = chunk.count
        while i and chunk.time_stamps[i - 1] >= time_stamp:
            i -= 1
            if (
                chunk.time_stamps[i] == time_stamp
                and not chunk.points[i].flags & (HAS_ID | IS_PASSED)
                and memcmp(chunk.letters + i * words, letter, words * sizeof(uint64_t)) == 0
            ):
                trace.recent = k
                return &chunk.points[i]
        # the chunk before may end with events of this time-stamp
        if k == trace.first or i:
            return NULL
        k -= 1


cdef const uint64_t *letter_of(
    const Trace *trace, const Point *point, size_t words
) noexcept nogil:
    """The letter of a time-point that has just been found."""
    cdef const Chunk *chunk = trace.chunks[trace.recent]
    return chunk.letters + <size_t> (point - chunk.points) * words


cdef bint last_below(const Trace *trace, uint64_t bound, uint64_t *time_stamp) noexcept nogil:
    """Find the last event below a bound, or the time that has passed there without one."""
    cdef uint32_t k = NO_CHUNK if bound == 0 else chunk_at(trace, bound - 1)
    cdef uint32_t i
    cdef const Chunk *chunk
    if k == NO_CHUNK:
        return False
    while True:
        chunk = trace.chunks[k]
        i = chunk.count
        while i:
            i -= 1
            if chunk.time_stamps[i] < bound and not chunk.points[i].flags & IS_PASSED:
                time_stamp[0] = chunk.time_stamps[i]
                return True
        if chunk.advances:
            time_stamp[0] = chunk.advance
            return True
        if k == trace.first:
            return False
        k -= 1


cdef size_t count_between(const Trace *trace, uint64_t start, uint64_t end) noexcept nogil:
    """How many events from `start` on are below `end`."""
    cdef size_t count = 0
    cdef uint32_t k, i
    cdef const Chunk *chunk
    for k in range(trace.first, trace.count):
        chunk = trace.chunks[k]
        for i in range(chunk.count):
            count += (
                start <= chunk.time_stamps[i] < end and not chunk.points[i].flags & IS_PASSED
            )
    return count


cdef inline void note_forgotten(Trace *trace, const Chunk *chunk) noexcept nogil:
    """Note the time of the last event of a chunk that was not retracted."""
    cdef uint32_t i = chunk.count
    while i:
        i -= 1
        # PERF: time-points are not near time-stamps, and have nothing to tell in most chunks
        if not chunk.has_passed or not chunk.points[i].flags & IS_PASSED:
            trace.forgotten = chunk.time_stamps[i]
            return


cdef void forget_chunks(Trace *trace, uint64_t bound, SpareChunks *spare) noexcept nogil:
    """Forget the chunks that end below a time-stamp.

    PERF: without spare chunks, a sixth of the time of events in order went to `malloc` and `free`.
    """
    cdef Chunk *chunk
    while trace.first < trace.count and end_of(trace.chunks[trace.first]) < bound:
        chunk = trace.chunks[trace.first]
        trace.first += 1
        note_forgotten(trace, chunk)
        if (
            spare.count < (MOST_SPARE if chunk.capacity <= LEAST_SPACING else MOST_SPARE_DENSE)
            and chunk.capacity <= DENSE_SPACING
            and chunk.saved.words.capacity <= MOST_SPARE_WORDS
        ):
            spare.chunks[spare.count] = chunk
            spare.count += 1
        else:
            free_chunk(chunk)
    if trace.first > trace.count // 2:
        trace.count -= trace.first
        if trace.count:
            memmove(trace.chunks, trace.chunks + trace.first, trace.count * sizeof(Chunk *))
        trace.first = 0
    trace.kept_from = 0 if trace.first == trace.count else end_of(trace.chunks[trace.first])
