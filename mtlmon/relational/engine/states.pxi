# cython: language_level=3
"""States of temporal operators: the rows for which one holds, which are looked up, never listed.

ONCE, EVENTUALLY and, as counts, HISTORICALLY and ALWAYS are windows: each different row of the
operand has a slot, and a queue has the time-points at which it came. An operand puts its rows into
the inbox of a state, time-point by time-point; a state is advanced when something looks at it.
"""

from libc.stdint cimport UINT32_MAX
from libc.stdlib cimport free
from libc.string cimport memmove, memset

from mtlmon.errors import LimitError


cdef uint64_t NOWHERE = UINT64_MAX


cdef inline const int64_t *cells_of(const State *state, uint32_t slot) noexcept nogil:
    return row_of(&state.rows, slot)


cdef inline Entry *entry_of(const State *state, uint64_t number) noexcept nogil:
    return &state.entries[number - state.entry_base]


cdef inline uint32_t slot_of(const State *state, const int64_t *row) noexcept nogil:
    """The slot of a row, or NONE."""
    return first_slot(&state.indexes[0], &state.rows, row, state.indexes[0].columns)


cdef uint32_t slot_for(State *state, const int64_t *row) except? 0 nogil:
    """The slot of a row, a new one if it has none."""
    cdef uint32_t found = slot_of(state, row)
    cdef size_t wanted
    cdef Slot *slot
    if found != NONE:
        return found
    if state.free_count:
        state.free_count -= 1
        found = state.free_slots[state.free_count]
    else:
        if state.rows.count >= UINT32_MAX // 2:
            with gil:
                raise LimitError("an operator remembers more than 2^31 rows")
        # room for all of what a slot needs comes first, so that an error leaves nothing half done
        wanted = state.rows.count + 1
        make_room(<void **> &state.slots, &state.slot_room, wanted, sizeof(Slot))
        make_room(<void **> &state.free_slots, &state.free_room, wanted, sizeof(uint32_t))
        new_row(&state.rows)
        found = <uint32_t> (state.rows.count - 1)
    copy_cells(row_of(&state.rows, found), row, state.rows.width)
    slot = &state.slots[found]
    memset(slot, 0, sizeof(Slot))
    slot.head = slot.tail = NOWHERE
    add_slot(&state.indexes[0], &state.rows, found)
    return found


cdef void free_slot(State *state, uint32_t number) noexcept nogil:
    """Forget the row of a slot that is not live and has no entries."""
    remove_slot(&state.indexes[0], &state.rows, number)
    state.free_slots[state.free_count] = number
    state.free_count += 1


cdef extern from *:
    """
    #include <stdint.h>

    /* Add a cell to a 128-bit integer in two words, or subtract it. */
    static inline void mtlmon_add_wide(uint64_t *words, int64_t cell, int is_less) {
        unsigned __int128 sum = (unsigned __int128) words[1] << 64 | words[0];
        unsigned __int128 value = (unsigned __int128) (__int128) cell;
        sum = is_less ? sum - value : sum + value;
        words[0] = (uint64_t) sum;
        words[1] = (uint64_t) (sum >> 64);
    }
    """
    void add_wide "mtlmon_add_wide"(uint64_t *words, int64_t cell, bint is_less) noexcept nogil


cdef inline bint is_wide(const uint64_t *words) noexcept nogil:
    """Whether a sum does not fit 64 bits: the upper word does not continue the sign."""
    return words[1] != <uint64_t> (<int64_t> words[0] >> 63)


cdef int join_group(State *groups, uint32_t number) except -1 nogil:
    """Count the row of a slot of the parent that has become live."""
    cdef const int64_t *row = cells_of(groups.parent, number)
    cdef Rows own
    cdef uint32_t k
    cdef int64_t *cells
    cdef uint32_t slot = first_slot(
        &groups.indexes[0], &groups.rows, row, groups.grouped_by.of
    )
    if slot == NONE:
        memset(&own, 0, sizeof(Rows))
        own.width = groups.rows.width
        try:
            cells = new_row(&own)
            for k in range(groups.grouped_by.count):
                cells[k] = row[groups.grouped_by.of[k]]
            slot = slot_for(groups, cells)
        finally:
            free(own.cells)
    make_room(
        <void **> &groups.sums, &groups.sum_room, 2 * groups.rows.count, sizeof(uint64_t)
    )
    if not groups.slots[slot].is_live:
        groups.sums[2 * slot] = 0 if groups.ordering == UNORDERED else NONE
        groups.sums[2 * slot + 1] = groups.sums[2 * slot]
        make_live(groups, slot)
    if groups.ordering != UNORDERED:
        add_value(groups, slot, number)
    elif groups.valued != NONE:
        add_wide(groups.sums + 2 * slot, row[groups.valued], False)
    groups.slots[slot].references += 1
    return 0


cdef void leave_group(State *groups, uint32_t number) noexcept nogil:
    """Count the row of a slot of the parent no longer."""
    cdef const int64_t *row = cells_of(groups.parent, number)
    cdef uint32_t slot = first_slot(
        &groups.indexes[0], &groups.rows, row, groups.grouped_by.of
    )
    if slot == NONE:
        return
    groups.slots[slot].references -= 1
    if groups.ordering != UNORDERED:
        remove_value(groups, slot, number)
    elif groups.valued != NONE:
        add_wide(groups.sums + 2 * slot, row[groups.valued], True)
    if groups.slots[slot].references == 0:
        end_live(groups, slot)
        free_slot(groups, slot)


cdef int make_live(State *state, uint32_t number) except -1 nogil:
    cdef Slot *slot = &state.slots[number]
    cdef uint32_t k
    for k in range(state.grouping_count):
        if state.groupings[k].kind == SPANS:
            begin_span(state.groupings[k], cells_of(state, number))
        else:
            join_group(state.groupings[k], number)
    for k in range(1, state.index_count):
        add_slot(&state.indexes[k], &state.rows, number)
    slot.is_live = True
    slot.previous_live = NONE
    slot.next_live = state.first_live
    if state.first_live != NONE:
        state.slots[state.first_live].previous_live = number
    state.first_live = number
    state.live_count += 1
    return 0


cdef void end_live(State *state, uint32_t number) noexcept nogil:
    cdef Slot *slot = &state.slots[number]
    cdef uint32_t k
    for k in range(state.grouping_count):
        if state.groupings[k].kind == SPANS:
            end_span(state.groupings[k], cells_of(state, number))
        else:
            leave_group(state.groupings[k], number)
    for k in range(1, state.index_count):
        remove_slot(&state.indexes[k], &state.rows, number)
    slot.is_live = False
    if slot.previous_live != NONE:
        state.slots[slot.previous_live].next_live = slot.next_live
    else:
        state.first_live = slot.next_live
    if slot.next_live != NONE:
        state.slots[slot.next_live].previous_live = slot.previous_live
    state.live_count -= 1


cdef void kill(State *state, uint32_t number) noexcept nogil:
    """Let the entries of a live slot count no longer."""
    cdef Slot *slot = &state.slots[number]
    end_live(state, number)
    slot.epoch += 1
    slot.head = slot.tail = NOWHERE
    if slot.references == 0:
        free_slot(state, number)


cdef int add_entry(
    State *state, uint32_t number, int64_t time_stamp, uint64_t point, uint64_t since
) except -1 nogil:
    """Add an entry to a slot, which is live from then on."""
    cdef Slot *slot
    cdef Entry *entry
    cdef uint64_t place
    if state.first_entry > 256 and state.first_entry > state.entry_end // 2:
        memmove(
            state.entries, state.entries + state.first_entry,
            (state.entry_end - state.first_entry) * sizeof(Entry)
        )
        if state.is_exact:
            memmove(
                state.jumps, state.jumps + state.first_entry,
                (state.entry_end - state.first_entry) * sizeof(Jump)
            )
        state.entry_base += state.first_entry
        state.entry_end -= state.first_entry
        state.first_entry = 0
    if state.entry_end >= UINT32_MAX // 2:
        with gil:
            raise LimitError("an operator remembers more than 2^31 rows")
    make_room(
        <void **> &state.entries, &state.entry_room, state.entry_end + 1, sizeof(Entry)
    )
    if state.is_exact:
        make_room(
            <void **> &state.jumps, &state.jump_room, state.entry_end + 1, sizeof(Jump)
        )
    slot = &state.slots[number]
    if not slot.is_live:
        make_live(state, number)
        slot.time_stamp = time_stamp
    place = state.entry_base + state.entry_end
    entry = &state.entries[state.entry_end]
    entry.time_stamp = time_stamp
    entry.point = point
    entry.since = since
    entry.slot = number
    entry.epoch = slot.epoch
    entry.next = NOWHERE
    if slot.head == NOWHERE:
        slot.head = place
    else:
        entry_of(state, slot.tail).next = place
    if state.is_exact:
        set_jump(state, slot.tail)
    slot.tail = place
    slot.references += 1
    state.entry_end += 1
    return 0


cdef void drop_entry(State *state) noexcept nogil:
    """Take the first entry away."""
    cdef Entry *entry = &state.entries[state.first_entry]
    cdef Slot *slot
    state.first_entry += 1
    if entry.slot == NONE:
        return
    slot = &state.slots[entry.slot]
    slot.references -= 1
    if slot.is_live and entry.epoch == slot.epoch:
        slot.head = entry.next
        if slot.head == NOWHERE:
            slot.tail = NOWHERE
            end_live(state, entry.slot)
        else:
            slot.time_stamp = entry_of(state, slot.head).time_stamp
    if slot.references == 0 and not slot.is_live:
        free_slot(state, entry.slot)


cdef inline bint is_over(
    const State *state, int64_t time_stamp, uint64_t point, uint64_t here, int64_t now
) noexcept nogil:
    """Whether a time-point has left the interval of a state that stands at another."""
    if state.is_future:
        return point < here + state.is_strict or time_stamp - now < state.lower
    return state.upper >= 0 and now - time_stamp > state.upper


cdef inline bint is_reached(
    const State *state, int64_t time_stamp, uint64_t point, uint64_t here, int64_t now
) noexcept nogil:
    """Whether a time-point is in the interval of a state, or has left it."""
    if state.is_future:
        return state.upper < 0 or time_stamp - now <= state.upper
    return point <= here and now - time_stamp >= state.lower


cdef int take_window(State *state, uint64_t here, int64_t now) except -1 nogil:
    """Advance a state of ONCE, EVENTUALLY, HISTORICALLY or ALWAYS."""
    cdef QueuedPoint *point
    cdef const int64_t *row
    cdef size_t k
    cdef uint32_t number
    cdef Slot *slot
    while has_points(&state.inbox):
        point = front_point(&state.inbox)
        if not is_reached(state, point.time_stamp, point.point, here, now):
            break
        if not is_over(state, point.time_stamp, point.point, here, now):
            row = front_rows(&state.inbox)
            for k in range(point.count):
                if state.pruning != NULL and is_dominated(state, row, point.time_stamp):
                    row += state.rows.width
                    continue
                number = slot_for(state, row)
                slot = &state.slots[number]
                row += state.rows.width
                if state.upper < 0:
                    # what is never over needs no entries
                    slot.references += 1
                    if not slot.is_live:
                        state.processed = point.point
                        make_live(state, number)
                elif (
                    state.kind == WINDOW and slot.is_live and not state.is_future
                    and entry_of(state, slot.tail).time_stamp == point.time_stamp
                    and not state.is_exact
                ):
                    continue
                else:
                    add_entry(state, number, point.time_stamp, point.point, 0)
                if state.pruning != NULL:
                    drop_dominated(state, number)
        pop_point(&state.inbox)
    while state.first_entry < state.entry_end and is_over(
        state, state.entries[state.first_entry].time_stamp,
        state.entries[state.first_entry].point, here, now
    ):
        drop_entry(state)
    return 0


cdef void take_times(State *state, uint64_t here, int64_t now) noexcept nogil:
    """Count the time-points in the interval of HISTORICALLY or ALWAYS."""
    cdef CountedPoint *counted
    while state.window_end < state.time_end:
        counted = &state.times[state.window_end]
        if not is_reached(state, counted.time_stamp, counted.point, here, now):
            break
        state.window_end += 1
    while state.first_time < state.window_end:
        counted = &state.times[state.first_time]
        if state.upper < 0:
            state.total += 1
        elif not is_over(state, counted.time_stamp, counted.point, here, now):
            break
        state.first_time += 1
    if state.upper >= 0:
        state.total = state.window_end - state.first_time


cdef int put_time(State *state, int64_t time_stamp, uint64_t point) except -1 nogil:
    """Tell a state that counts time-points of one."""
    if state.first_time > 256 and state.first_time > state.time_end // 2:
        memmove(
            state.times, state.times + state.first_time,
            (state.time_end - state.first_time) * sizeof(CountedPoint)
        )
        state.time_end -= state.first_time
        state.window_end -= state.first_time
        state.first_time = 0
    make_room(
        <void **> &state.times, &state.time_room, state.time_end + 1, sizeof(CountedPoint)
    )
    state.times[state.time_end].time_stamp = time_stamp
    state.times[state.time_end].point = point
    state.time_end += 1
    return 0


cdef void take_neighbour(State *state, uint64_t here, int64_t now) noexcept nogil:
    """Find the rows of the time-point before or behind, or of the time-point itself."""
    cdef bint is_present = state.kind == PRESENT
    cdef uint64_t wanted = here if is_present else here + 1 if state.is_future else here - 1
    cdef QueuedPoint *point
    cdef int64_t distance
    state.is_current = False
    state.current.count = 0
    if here == 0 and not state.is_future and not is_present:
        return
    while has_points(&state.inbox) and front_point(&state.inbox).point < wanted:
        pop_point(&state.inbox)
    if not has_points(&state.inbox) or front_point(&state.inbox).point != wanted:
        return
    point = front_point(&state.inbox)
    distance = point.time_stamp - now if state.is_future else now - point.time_stamp
    if distance < state.lower or state.upper >= 0 and distance > state.upper:
        return
    state.is_current = True
    # the rows stay where they are, until the state is advanced
    state.current.cells = <int64_t *> front_rows(&state.inbox)
    state.current.count = point.count
