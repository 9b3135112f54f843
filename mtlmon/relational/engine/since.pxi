# cython: language_level=3
"""States of SINCE and UNTIL: what the left side lets go on, or breaks.

SINCE has the queue of ONCE, and its left side ends slots: those that match the rows of a negated
conjunct, or those that match none of a positive one. Any other left side is evaluated for all
slots. UNTIL knows for each row when a conjunct of its left side broke, or since when it has held.
Comparisons are taken out of both left sides, as time does not change them.

If a left side of UNTIL by itself determines neither the rows for which it holds nor those for which
it breaks, it is evaluated for the rows for which EVENTUALLY is true, so its answers wait for twice
the interval. A left side that is asked at some rows only, as in `(here(k) IMPLIES p(x, k)) SINCE
q(x, k)`, ends what the rows of the one match and those of the other do not, in the index of the
rows that are remembered. Over all of these, it would cost as much as there are keys.
"""

from libc.stddef cimport size_t
from libc.stdint cimport UINT32_MAX, int64_t, uint32_t, uint64_t

from mtlmon.errors import LimitError


cdef void apply_breaks(State *state, Left *left, const int64_t *row) noexcept nogil:
    """End the slots of SINCE that match a row."""
    cdef Index *index = &state.indexes[left.index]
    cdef uint32_t slot = first_slot(index, &state.rows, row, left.columns)
    cdef uint32_t following
    if left.index == 0:
        if slot != NONE and state.slots[slot].is_live:
            kill(state, slot)
        return
    while slot != NONE:
        following = index.next[slot]
        kill(state, slot)
        slot = following


cdef void mark_matches(
    State *state, Left *left, const int64_t *rows, size_t count
) noexcept nogil:
    """Mark the slots of SINCE that match one of the rows."""
    cdef Index *index = &state.indexes[left.index]
    cdef uint32_t slot
    cdef size_t k
    state.stamp += 1
    for k in range(count):
        slot = first_slot(index, &state.rows, rows + k * left.inbox.width, left.columns)
        if left.index == 0:
            if slot != NONE:
                state.slots[slot].mark = state.stamp
            continue
        while slot != NONE:
            state.slots[slot].mark = state.stamp
            slot = index.next[slot]


cdef void end_matches(
    State *state, Left *left, const int64_t *rows, size_t count
) noexcept nogil:
    """End the slots of SINCE that match one of the rows and were not marked last."""
    cdef Index *index = &state.indexes[left.index]
    cdef uint32_t slot, following
    cdef size_t k
    for k in range(count):
        slot = first_slot(index, &state.rows, rows + k * left.inbox.width, left.columns)
        while slot != NONE:
            # the first index has slots that are not live, and one for each row
            following = NONE if left.index == 0 else index.next[slot]
            if state.slots[slot].is_live and state.slots[slot].mark != state.stamp:
                kill(state, slot)
            slot = following


cdef void apply_runs(
    State *state, Left *left, const int64_t *rows, size_t count
) noexcept nogil:
    """End the slots of SINCE that match none of the rows."""
    cdef uint32_t slot, following
    mark_matches(state, left, rows, count)
    slot = state.first_live
    while slot != NONE:
        following = state.slots[slot].next_live
        if state.slots[slot].mark != state.stamp:
            kill(state, slot)
        slot = following


cdef int put_since(
    State *state, const int64_t *row, int64_t time_stamp, uint64_t point
) except -1 nogil:
    """Take in a row of the right side of SINCE."""
    cdef uint32_t number = slot_for(state, row)
    cdef Slot *slot = &state.slots[number]
    if state.upper < 0:
        if not slot.is_live:
            make_live(state, number)
            slot.time_stamp = time_stamp
    elif not slot.is_live or entry_of(state, slot.tail).time_stamp != time_stamp:
        add_entry(state, number, time_stamp, point, 0)
    return 0


cdef uint64_t next_since(const State *state, uint64_t here) noexcept nogil:
    """The next time-point at which a state of SINCE changes; at most the one behind `here`."""
    cdef uint64_t found = here + 1
    cdef uint32_t k
    if has_points(&state.inbox):
        found = min(found, front_point(&state.inbox).point)
    for k in range(state.left_count):
        if state.lefts[k].kind == RUNS and state.live_count:
            return state.processed
        if has_points(&state.lefts[k].inbox):
            found = min(found, front_point(&state.lefts[k].inbox).point)
    return max(found, state.processed)


cdef int take_since(State *state, uint64_t here, int64_t now) except -1 nogil:
    """Advance a state of SINCE; conjuncts that are filters have been applied."""
    cdef Left *left
    cdef QueuedPoint *point
    cdef const int64_t *rows
    cdef uint32_t k
    cdef size_t r, count
    cdef bint is_there
    cdef uint64_t end = here if state.is_strict else here + 1
    while state.processed < end:
        state.processed = next_since(state, end - 1)
        if state.processed >= end:
            break
        for k in range(state.left_count):
            left = &state.lefts[k]
            if left.kind == FILTERS:
                continue
            is_there = (
                has_points(&left.inbox) and front_point(&left.inbox).point == state.processed
            )
            point = front_point(&left.inbox)
            rows = front_rows(&left.inbox)
            count = point.count if is_there else 0
            if left.kind == RUNS:
                apply_runs(state, left, rows, count)
            elif left.kind == MARKS:
                mark_matches(state, left, rows, count)
            elif left.kind == ENDS:
                end_matches(state, left, rows, count)
            elif is_there:
                for r in range(point.count):
                    apply_breaks(state, left, rows + r * left.inbox.width)
            if is_there:
                pop_point(&left.inbox)
        if has_points(&state.inbox) and front_point(&state.inbox).point == state.processed:
            point = front_point(&state.inbox)
            rows = front_rows(&state.inbox)
            for r in range(point.count):
                put_since(
                    state, rows + r * state.rows.width, point.time_stamp, point.point
                )
            pop_point(&state.inbox)
        state.processed += 1
    while state.first_entry < state.entry_end and is_over(
        state, state.entries[state.first_entry].time_stamp,
        state.entries[state.first_entry].point, here, now
    ):
        drop_entry(state)
    return 0


cdef uint32_t known_row(Left *left, const int64_t *row, const uint32_t *columns) noexcept nogil:
    """Where a conjunct of UNTIL's left side knows a row, which is in these columns, or NONE."""
    return first_slot(&left.by_row, &left.known, row, columns)


cdef uint64_t holding_since(State *state, const int64_t *row, uint64_t point) noexcept nogil:
    """The first time-point from which on the left side of UNTIL holds up to before `point`."""
    cdef uint64_t found = 0
    cdef uint64_t start
    cdef uint32_t k, place
    cdef Left *left
    for k in range(state.left_count):
        left = &state.lefts[k]
        if left.kind == FILTERS:
            continue
        place = known_row(left, row, left.columns)
        if left.kind == BREAKS:
            start = 0 if place == NONE else left.latest[place] + 1
        elif place == NONE or left.latest[place] + 1 != point:
            start = point
        else:
            start = left.starts[place]
        found = max(found, start)
    return found


cdef int note_left(Left *left, const int64_t *row, QueuedPoint *point) except -1 nogil:
    """Remember when a row of a conjunct of UNTIL's left side came."""
    cdef uint32_t place = known_row(left, row, left.by_row.columns)
    cdef Rows one
    cdef size_t wanted
    if place == NONE:
        if left.free_count:
            left.free_count -= 1
            place = left.free_slots[left.free_count]
        else:
            if left.known.count >= UINT32_MAX // 2:
                with gil:
                    raise LimitError("an operator remembers more than 2^31 rows")
            wanted = left.known.count + 1
            make_room(<void **> &left.latest, &left.latest_room, wanted, sizeof(uint64_t))
            make_room(<void **> &left.starts, &left.start_room, wanted, sizeof(uint64_t))
            make_room(<void **> &left.free_slots, &left.free_room, wanted, sizeof(uint32_t))
            new_row(&left.known)
            place = <uint32_t> (left.known.count - 1)
        copy_cells(row_of(&left.known, place), row, left.known.width)
        left.starts[place] = point.point
        add_slot(&left.by_row, &left.known, place)
    elif left.latest[place] + 1 != point.point:
        left.starts[place] = point.point
    left.latest[place] = point.point
    one.cells = <int64_t *> row
    one.count = 1
    one.width = left.known.width
    push_rows(&left.expiring, point.time_stamp, point.point, &one)
    return 0


cdef void forget_left(Left *left, uint64_t before) noexcept nogil:
    """Forget the rows that came last before a time-point."""
    cdef uint32_t place
    while has_points(&left.expiring) and front_point(&left.expiring).point < before:
        place = known_row(left, front_rows(&left.expiring), left.by_row.columns)
        if place != NONE and left.latest[place] == front_point(&left.expiring).point:
            remove_slot(&left.by_row, &left.known, place)
            left.free_slots[left.free_count] = place
            left.free_count += 1
        pop_point(&left.expiring)


cdef int take_until(State *state, uint64_t here, int64_t now) except -1 nogil:
    """Advance a state of UNTIL."""
    cdef QueuedPoint *point
    cdef const int64_t *rows
    cdef Left *left
    cdef uint64_t following
    cdef uint32_t k, number
    cdef size_t r
    while True:
        # the next time-point with rows that is in the interval
        following = NOWHERE
        if has_points(&state.inbox) and is_reached(
            state, front_point(&state.inbox).time_stamp, 0, 0, now
        ):
            following = front_point(&state.inbox).point
        for k in range(state.left_count):
            left = &state.lefts[k]
            if has_points(&left.inbox) and is_reached(
                state, front_point(&left.inbox).time_stamp, 0, 0, now
            ):
                following = min(following, front_point(&left.inbox).point)
        if following == NOWHERE:
            break
        if has_points(&state.inbox) and front_point(&state.inbox).point == following:
            point = front_point(&state.inbox)
            rows = front_rows(&state.inbox)
            if not is_over(state, point.time_stamp, point.point, here, now):
                for r in range(point.count):
                    number = slot_for(state, rows + r * state.rows.width)
                    add_entry(
                        state, number, point.time_stamp, point.point,
                        holding_since(state, rows + r * state.rows.width, point.point)
                    )
            pop_point(&state.inbox)
        for k in range(state.left_count):
            left = &state.lefts[k]
            if has_points(&left.inbox) and front_point(&left.inbox).point == following:
                point = front_point(&left.inbox)
                rows = front_rows(&left.inbox)
                for r in range(point.count):
                    note_left(left, rows + r * left.inbox.width, point)
                pop_point(&left.inbox)
        for k in range(state.left_count):
            if state.lefts[k].kind == RUNS:
                forget_left(&state.lefts[k], following)
    for k in range(state.left_count):
        if state.lefts[k].kind == BREAKS:
            forget_left(&state.lefts[k], here)
    while state.first_entry < state.entry_end and is_over(
        state, state.entries[state.first_entry].time_stamp,
        state.entries[state.first_entry].point, here, now
    ):
        drop_entry(state)
    return 0


cdef int advance_state(State *state, uint64_t here, int64_t now) except -1 nogil:
    """Let a state stand at a time-point, not before the one at which it stands."""
    if state.kind == GROUPS:
        return advance_state(state.parent, here, now)
    if state.kind == SPANS:
        advance_state(state.parent, here, now)
        forget_spans(state)
        return 0
    if state.position == here:
        return 0
    state.now = now
    if state.kind == NEIGHBOUR or state.kind == PRESENT:
        take_neighbour(state, here, now)
    elif state.kind == SINCE_STATE:
        take_since(state, here, now)
    elif state.kind == UNTIL_STATE:
        take_until(state, here, now)
    else:
        take_window(state, here, now)
        if state.kind == COUNTS:
            take_times(state, here, now)
    state.position = here
    return 0


cdef inline bint holds_now(const State *state, uint32_t number) noexcept nogil:
    """Whether an operator holds for the row of a slot."""
    cdef const Slot *slot = &state.slots[number]
    if state.kind == COUNTS:
        return slot.references == state.total
    if not slot.is_live:
        return False
    if state.kind == SINCE_STATE:
        return state.now - slot.time_stamp >= state.lower
    if state.kind == UNTIL_STATE:
        return entry_of(state, slot.head).since <= state.position + state.is_strict
    return True


cdef inline bint is_crowded(const State *state) noexcept nogil:
    """Whether so much waits that it should be taken in."""
    cdef uint32_t k
    if queued(&state.inbox) > state.patience or (
        state.time_end - state.window_end > state.patience
    ):
        return True
    for k in range(state.left_count):
        if queued(&state.lefts[k].inbox) > state.patience:
            return True
    return False
