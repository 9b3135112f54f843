# cython: language_level=3
"""When the rows of a state were live, for windows whose rows met them: ONCE of a conjunction.

`ONCE (f AND g)`, where events give the rows of f and g is remembered, has more rows than f if g
binds variables of its own. Therefore the rows of f are kept with their time-points, and those of g
with the spans in which g held, until the window has passed; the two are joined when something asks.
The join begins with the shorter list. Jumps between the time-points of a row find one in a span in
logarithmic time.
"""

from libc.stdint cimport INT64_MAX, UINT32_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memmove, memset

from mtlmon.engine.native cimport NumberReader, NumberWriter, damaged

from mtlmon.errors import LimitError


cdef inline bint is_kept(const State *state, uint64_t number) noexcept nogil:
    """Whether an entry has not been dropped; the number may be NOWHERE."""
    return number != NOWHERE and number >= state.entry_base + state.first_entry


cdef void set_jump(State *state, uint64_t previous) noexcept nogil:
    """Set the jump of the entry that is being added, behind another one of its slot or none.

    Jumps are as long as the skew binary representation of an entry's rank says.
    """
    cdef Jump *jump = &state.jumps[state.entry_end]
    cdef Jump *before
    cdef Entry *entry = &state.entries[state.entry_end]
    cdef uint64_t far
    jump.previous = jump.far = previous
    entry.since = 0
    if not is_kept(state, previous):
        jump.previous = jump.far = NOWHERE
        return
    before = &state.jumps[previous - state.entry_base]
    entry.since = entry_of(state, previous).since + 1
    if not is_kept(state, before.far):
        return
    far = state.jumps[before.far - state.entry_base].far
    if is_kept(state, far) and (
        entry_of(state, previous).since - entry_of(state, before.far).since
        == entry_of(state, before.far).since - entry_of(state, far).since
    ):
        jump.far = far


cdef bint has_entry(
    const State *state, uint32_t number, uint64_t start, uint64_t end
) noexcept nogil:
    """Whether a row of a window came at a time-point from `start` to before `end`."""
    cdef uint64_t entry = state.slots[number].tail
    cdef uint64_t far
    while is_kept(state, entry) and entry_of(state, entry).point >= end:
        far = state.jumps[entry - state.entry_base].far
        if is_kept(state, far) and entry_of(state, far).point >= end:
            entry = far
        else:
            entry = state.jumps[entry - state.entry_base].previous
    return is_kept(state, entry) and entry_of(state, entry).point >= start


cdef uint32_t new_span(State *spans, const int64_t *row) except? 0 nogil:
    """A slot for a span of a row; there can be several."""
    cdef uint32_t found
    cdef size_t wanted
    cdef uint32_t k
    if spans.free_count:
        spans.free_count -= 1
        found = spans.free_slots[spans.free_count]
    else:
        if spans.rows.count >= UINT32_MAX // 2:
            with gil:
                raise LimitError("an operator remembers more than 2^31 rows")
        # room for what ending and forgetting it needs comes first, as these cannot fail
        wanted = spans.rows.count + 1
        make_room(<void **> &spans.slots, &spans.slot_room, wanted, sizeof(Slot))
        make_room(<void **> &spans.free_slots, &spans.free_room, wanted, sizeof(uint32_t))
        new_row(&spans.rows)
        found = <uint32_t> (spans.rows.count - 1)
    copy_cells(row_of(&spans.rows, found), row, spans.rows.width)
    memset(&spans.slots[found], 0, sizeof(Slot))
    for k in range(spans.index_count):
        add_slot(&spans.indexes[k], &spans.rows, found)
    return found


cdef uint32_t open_span(const State *spans, const int64_t *row) noexcept nogil:
    """The span of a row that has not ended, or NONE."""
    cdef uint32_t slot = slot_of(spans, row)
    while slot != NONE and spans.slots[slot].tail != NOWHERE:
        slot = spans.indexes[0].next[slot]
    return slot


cdef int begin_span(State *spans, const int64_t *row) except -1 nogil:
    """Let the span of a row begin at the time-point that the parent takes in."""
    cdef uint32_t slot
    forget_spans(spans)
    if spans.first_entry > 256 and spans.first_entry > spans.entry_end // 2:
        memmove(
            spans.entries, spans.entries + spans.first_entry,
            (spans.entry_end - spans.first_entry) * sizeof(Entry)
        )
        spans.entry_end -= spans.first_entry
        spans.first_entry = 0
    make_room(
        <void **> &spans.entries, &spans.entry_room, spans.entry_end + spans.live_count + 1,
        sizeof(Entry)
    )
    slot = new_span(spans, row)
    spans.slots[slot].head = spans.parent.processed
    spans.slots[slot].tail = NOWHERE
    spans.live_count += 1
    return 0


cdef void end_span(State *spans, const int64_t *row) noexcept nogil:
    """Let the span of a row end at the time-point that the parent takes in."""
    cdef uint32_t slot = open_span(spans, row)
    if slot == NONE:
        return
    put_end(spans, slot, spans.parent.processed, spans.parent.now)


cdef void put_end(State *spans, uint32_t slot, uint64_t point, int64_t time_stamp) noexcept nogil:
    cdef Entry *entry = &spans.entries[spans.entry_end]
    memset(entry, 0, sizeof(Entry))
    # when the parent stood there; it may have been earlier that the row ended
    entry.time_stamp = time_stamp
    entry.slot = slot
    spans.entry_end += 1
    spans.slots[slot].tail = point
    spans.live_count -= 1


cdef void forget_spans(State *spans) noexcept nogil:
    """Forget the spans that ended before the window."""
    cdef uint32_t slot, k
    while spans.first_entry < spans.entry_end and (
        spans.parent.now - spans.entries[spans.first_entry].time_stamp > spans.upper
    ):
        slot = spans.entries[spans.first_entry].slot
        spans.first_entry += 1
        for k in range(spans.index_count):
            remove_slot(&spans.indexes[k], &spans.rows, slot)
        spans.free_slots[spans.free_count] = slot
        spans.free_count += 1


cdef int put_spans(NumberWriter writer, State *spans) except -1:
    """Write spans: those that have not ended in the order of the parent's slots."""
    cdef State *parent = spans.parent
    cdef uint32_t slot
    cdef size_t k
    writer.put(spans.live_count)
    for k in range(parent.rows.count):
        # slots without a row are not live
        if parent.slots[k].is_live:
            slot = open_span(spans, cells_of(parent, <uint32_t> k))
            writer.put(spans.slots[slot].head)
    writer.put(spans.entry_end - spans.first_entry)
    for k in range(spans.first_entry, spans.entry_end):
        slot = spans.entries[k].slot
        writer.put(<uint64_t> spans.entries[k].time_stamp)
        writer.put(spans.slots[slot].head)
        writer.put(spans.slots[slot].tail)
        put_cells(writer, cells_of(spans, slot), spans.rows.width)
    return 0


cdef int get_spans(NumberReader reader, State *spans, uint64_t points) except -1:
    """Read spans behind their parent, whose rows have begun some."""
    cdef State *parent = spans.parent
    cdef uint32_t slot
    cdef size_t k, count
    cdef int64_t time_stamp, latest = 0
    cdef uint64_t start, end
    cdef Rows row
    if reader.get(UINT32_MAX) != spans.live_count:
        raise damaged()
    for k in range(parent.rows.count):
        if parent.slots[k].is_live:
            slot = open_span(spans, cells_of(parent, <uint32_t> k))
            spans.slots[slot].head = reader.get(points)
    memset(&row, 0, sizeof(Rows))
    row.width = spans.rows.width
    count = <size_t> reader.get_count(3)
    make_room(
        <void **> &spans.entries, &spans.entry_room, spans.live_count + count + 1, sizeof(Entry)
    )
    try:
        for k in range(count):
            time_stamp = <int64_t> reader.get(INT64_MAX)
            start = reader.get(points)
            end = reader.get(points)
            if time_stamp < latest or start > end:
                raise damaged()
            latest = time_stamp
            row.count = 0
            get_row(reader, &row)
            slot = new_span(spans, row.cells)
            spans.slots[slot].head = start
            spans.live_count += 1
            put_end(spans, slot, end, time_stamp)
    finally:
        free(row.cells)
    return 0


cdef inline void fill(
    const Side *side, const State *state, uint32_t slot, int64_t *row
) noexcept nogil:
    """Put the new columns of a slot into a row."""
    cdef size_t k
    for k in range(side.takes.count):
        row[side.places.of[k]] = cells_of(state, slot)[side.takes.of[k]]


cdef int meet(RelationalEngine engine, Step *step, Rows *given) except -1 nogil:
    """Join rows with those of a window, and with what was live when these came.

    The state with fewer rows for what is bound is listed, and the other one looked up.
    """
    cdef Side *side
    cdef State *states[2]
    cdef Side *sides[2]
    cdef uint32_t firsts[2]
    cdef uint32_t slots[2]
    cdef size_t i
    cdef uint32_t k, lead
    cdef Index *index
    cdef int64_t *row
    cdef bint is_found
    cdef bint is_join = step.mode == JOIN
    for k in range(2):
        sides[k] = &step.sides[k]
        states[k] = &engine.states[sides[k].state]
        advance_state(states[k], engine.here, engine.now)
    # the last row is the one that is filled in
    step.given.width = step.source
    for i in range(given.count):
        step.given.count = 0
        row = new_row(&step.given)
        copy_cells(row, row_of(given, i), given.width)
        lead = shorter_side(sides, states, firsts, row)
        side = sides[1 - lead]
        slots[lead] = firsts[lead]
        is_found = False
        while slots[lead] != NONE:
            fill(sides[lead], states[lead], slots[lead], row)
            index = &states[1 - lead].indexes[side.index]
            slots[1 - lead] = first_slot(index, &states[1 - lead].rows, row, side.keys.of)
            while slots[1 - lead] != NONE:
                if has_entry(
                    states[0], slots[0], states[1].slots[slots[1]].head,
                    states[1].slots[slots[1]].tail
                ):
                    is_found = True
                    if not is_join:
                        break
                    fill(side, states[1 - lead], slots[1 - lead], row)
                    copy_cells(new_row(&step.rows), row, step.rows.width)
                slots[1 - lead] = index.next[slots[1 - lead]]
            if is_found and not is_join:
                break
            slots[lead] = states[lead].indexes[sides[lead].first_index].next[slots[lead]]
        if not is_join and is_found == (step.mode == SEMI):
            copy_cells(new_row(&step.rows), row_of(given, i), given.width)
    return 0


cdef uint32_t shorter_side(
    Side **sides, State **states, uint32_t *firsts, const int64_t *row
) noexcept nogil:
    """The side of two with fewer slots for what is bound, 0 or 1, and the first slot of each."""
    cdef uint32_t here[2]
    cdef uint32_t k
    for k in range(2):
        if sides[k].first_index == NONE:
            # only spans can have no bound column
            return 0
        here[k] = firsts[k] = first_slot(
            &states[k].indexes[sides[k].first_index], &states[k].rows, row,
            sides[k].first_keys.of
        )
    while here[0] != NONE and here[1] != NONE:
        for k in range(2):
            here[k] = states[k].indexes[sides[k].first_index].next[here[k]]
    return 0 if here[0] == NONE else 1
