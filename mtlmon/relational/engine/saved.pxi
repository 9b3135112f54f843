# cython: language_level=3
"""States as bytes and back. Bytes are not trusted: all numbers are checked."""

from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, UINT32_MAX, UINT64_MAX, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from mtlmon.arrays.native cimport KeyTable, Text
from mtlmon.engine.native cimport NumberReader, NumberWriter, damaged


cdef inline int put_cell(NumberWriter writer, int64_t cell) except -1:
    """Write a cell so that numbers near 0 are short."""
    return writer.put((<uint64_t> cell << 1) ^ <uint64_t> (cell >> 63))


cdef inline int64_t get_cell(NumberReader reader) except? -1:
    cdef uint64_t word = reader.get(UINT64_MAX)
    return <int64_t> (word >> 1) ^ -<int64_t> (word & 1)


cdef int put_cells(NumberWriter writer, const int64_t *cells, size_t count) except -1:
    cdef size_t k
    for k in range(count):
        put_cell(writer, cells[k])
    return 0


cdef int get_row(NumberReader reader, Rows *rows) except -1:
    """Read a row behind others."""
    cdef size_t k
    cdef int64_t *place = new_row(rows)
    for k in range(rows.width):
        place[k] = get_cell(reader)
    return 0


cdef int put_queue(NumberWriter writer, const RowQueue *queue) except -1:
    cdef size_t k
    cdef size_t cell = queue.first_cell
    cdef QueuedPoint *point
    writer.put(queue.point_count - queue.first_point)
    for k in range(queue.first_point, queue.point_count):
        point = &queue.points[k]
        writer.put(<uint64_t> point.time_stamp)
        writer.put(point.point)
        writer.put(point.count)
        put_cells(writer, queue.cells + cell, point.count * queue.width)
        cell += point.count * queue.width
    return 0


cdef int get_queue(NumberReader reader, RowQueue *queue, uint64_t points) except -1:
    """Read a queue of rows of time-points below `points`."""
    cdef Rows rows
    cdef size_t k
    cdef int64_t time_stamp, latest = 0
    cdef uint64_t point, least = 0
    memset(&rows, 0, sizeof(Rows))
    rows.width = queue.width
    try:
        for k in range(<size_t> reader.get_count(3)):
            time_stamp = <int64_t> reader.get(INT64_MAX)
            point = reader.get(UINT64_MAX)
            if time_stamp < latest or point < least or point >= points:
                raise damaged()
            latest = time_stamp
            least = point + 1
            rows.count = 0
            # a row without cells takes no bytes, and there is at most one
            for _ in range(
                <size_t> reader.get_count(queue.width) if queue.width else reader.get(1)
            ):
                get_row(reader, &rows)
            push_rows(queue, time_stamp, point, &rows)
    finally:
        free(rows.cells)
    return 0


cdef int put_left(NumberWriter writer, Left *left) except -1:
    cdef size_t k
    cdef uint32_t place
    cdef const int64_t *row
    put_queue(writer, &left.inbox)
    # what is known, in the order of when it came last
    known = []
    for k in range(left.by_row.mask + 1):
        place = left.by_row.heads[k]
        if place != NONE:
            known.append((left.latest[place], place))
    known.sort()
    writer.put(<uint64_t> len(known))
    for latest, slot in known:
        writer.put(latest)
        writer.put(left.starts[slot])
        put_cells(writer, row_of(&left.known, slot), left.known.width)
    return 0


cdef int get_left(NumberReader reader, Left *left, uint64_t points) except -1:
    cdef QueuedPoint point
    cdef Rows row
    cdef uint64_t start, latest = 0
    cdef uint32_t place
    memset(&row, 0, sizeof(Rows))
    row.width = left.known.width
    get_queue(reader, &left.inbox, points)
    try:
        for _ in range(<size_t> reader.get_count(2)):
            point.point = reader.get(UINT64_MAX)
            start = reader.get(UINT64_MAX)
            if point.point < latest or point.point >= points or start > point.point:
                raise damaged()
            latest = point.point
            point.time_stamp = 0
            row.count = 0
            get_row(reader, &row)
            if known_row(left, row.cells, left.by_row.columns) != NONE:
                raise damaged()
            note_left(left, row.cells, &point)
            place = known_row(left, row.cells, left.by_row.columns)
            left.starts[place] = start
    finally:
        free(row.cells)
    return 0


cdef int put_state(NumberWriter writer, State *state) except -1:
    """Write a state; slots are numbered in the order in which they are written."""
    cdef uint32_t slot
    cdef size_t k, count
    cdef Entry *entry
    cdef uint32_t *numbers = NULL
    cdef size_t room = 0
    if state.kind == GROUPS:
        # the rows of the parent say all
        return 0
    if state.kind == SPANS:
        return put_spans(writer, state)
    writer.put(state.position + 1)      # 0 for none
    writer.put(<uint64_t> state.now)
    writer.put(state.processed)
    put_queue(writer, &state.inbox)
    for k in range(state.left_count):
        put_left(writer, &state.lefts[k])
    if state.kind == COUNTS:
        writer.put(state.total)
        writer.put(state.window_end - state.first_time)
        writer.put(state.time_end - state.first_time)
        for k in range(state.first_time, state.time_end):
            writer.put(<uint64_t> state.times[k].time_stamp)
            writer.put(state.times[k].point)
    try:
        make_room(<void **> &numbers, &room, state.rows.count, sizeof(uint32_t))
        memset(numbers, 0, state.rows.count * sizeof(uint32_t))
        for k in range(state.free_count):
            numbers[state.free_slots[k]] = NONE
        count = 0
        for k in range(state.rows.count):
            if numbers[k] != NONE:
                numbers[k] = <uint32_t> count
                count += 1
        writer.put(count)
        for k in range(state.rows.count):
            if numbers[k] == NONE:
                continue
            put_cells(writer, cells_of(state, <uint32_t> k), state.rows.width)
            if state.upper < 0 and state.kind != UNTIL_STATE:
                # there are no entries to say so
                writer.put(state.slots[k].references)
                writer.put(state.slots[k].is_live)
                writer.put(<uint64_t> state.slots[k].time_stamp)
        count = 0
        for k in range(state.first_entry, state.entry_end):
            count += state.entries[k].slot != NONE
        writer.put(count)
        for k in range(state.first_entry, state.entry_end):
            entry = &state.entries[k]
            slot = entry.slot
            if slot == NONE:
                continue
            writer.put(numbers[slot])
            writer.put(entry.epoch == state.slots[slot].epoch)
            writer.put(<uint64_t> entry.time_stamp)
            writer.put(entry.point)
            writer.put(0 if state.is_exact else entry.since)
    finally:
        free(numbers)
    return 0


cdef int get_state(NumberReader reader, State *state, uint64_t points) except -1:
    """Read a state into one that is new."""
    cdef size_t k, count, waiting
    cdef uint32_t slot
    cdef int64_t time_stamp, latest = 0
    cdef uint64_t counts, point, since, least = 0
    cdef Rows row
    if state.kind == GROUPS:
        return 0
    if state.kind == SPANS:
        return get_spans(reader, state, points)
    state.position = reader.get(UINT64_MAX) - 1
    state.now = <int64_t> reader.get(INT64_MAX)
    state.processed = reader.get(UINT64_MAX)
    if state.position != NOWHERE and state.position >= points or state.processed > points:
        raise damaged()
    get_queue(reader, &state.inbox, points)
    for k in range(state.left_count):
        get_left(reader, &state.lefts[k], points)
    if state.kind == COUNTS:
        state.total = reader.get(points)
        state.window_end = <size_t> reader.get(points)
        waiting = <size_t> reader.get_count(2)
        if state.window_end > waiting:
            raise damaged()
        for k in range(waiting):
            time_stamp = <int64_t> reader.get(INT64_MAX)
            point = reader.get(UINT64_MAX)
            if time_stamp < latest or point < least or point >= points:
                raise damaged()
            latest = time_stamp
            least = point + 1
            put_time(state, time_stamp, point)
        latest = 0
    memset(&row, 0, sizeof(Rows))
    row.width = state.rows.width
    try:
        # a row without cells takes no bytes, and there is at most one
        count = <size_t> (reader.get_count(row.width) if row.width else reader.get(1))
        for k in range(count):
            row.count = 0
            get_row(reader, &row)
            if slot_of(state, row.cells) != NONE:
                raise damaged()
            slot = slot_for(state, row.cells)
            if slot != k:
                raise damaged()
            if state.upper < 0 and state.kind != UNTIL_STATE:
                state.slots[slot].references = reader.get(points)
                if reader.get(1):
                    make_live(state, slot)
                state.slots[slot].time_stamp = <int64_t> reader.get(INT64_MAX)
    finally:
        free(row.cells)
    for k in range(<size_t> reader.get_count(5)):
        if state.upper < 0:
            raise damaged()
        slot = <uint32_t> reader.get(UINT32_MAX)
        counts = reader.get(1)
        time_stamp = <int64_t> reader.get(INT64_MAX)
        point = reader.get(UINT64_MAX)
        since = reader.get(UINT64_MAX)
        if slot >= count or time_stamp < latest or point >= points:
            raise damaged()
        latest = time_stamp
        if not counts and (state.slots[slot].is_live or state.pruning != NULL):
            # entries that count no longer come first
            raise damaged()
        add_entry(state, slot, time_stamp, point, since)
        if not counts:
            end_live(state, slot)
            state.slots[slot].epoch += 1
            state.slots[slot].head = state.slots[slot].tail = NOWHERE
    for k in range(count):
        if not state.slots[k].is_live and state.slots[k].references == 0:
            raise damaged()
    return 0


cdef int number_again(KeyTable texts, KeyTable others) except -1:
    """Give texts the numbers that they have in another table; constants have them already."""
    cdef size_t k
    cdef Text text
    for k in range(others.count):
        text = others.column_text(k, 0)
        if texts.number_of(text, texts.hash_of(text)) != k:
            raise damaged()
    return 0
