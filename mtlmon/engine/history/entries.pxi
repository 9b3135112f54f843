# cython: language_level=3
"""Pending time-points: entries in time order, and groups of entries with equal expressions.

All other code works on these two views of the history. The members of a group form a ring; a hash
table maps an expression to its group. Thresholds have cursors into the time order.
"""

from libc.stdint cimport UINT64_MAX
from libc.stdlib cimport calloc, free
from libc.string cimport memset


cdef enum:
    LEAST_TABLE = 8


cdef int init_history(History *history, Program program, Mode mode) except -1:
    cdef uint32_t i
    memset(history, 0, sizeof(History))
    history.mode = mode
    history.first = history.last = NONE
    history.free_entry = history.free_group = history.recent_group = NONE
    history.next_due = UINT64_MAX
    history.thresholds = <Threshold *> calloc(2 * program.outer_count + 1, sizeof(Threshold))
    if history.thresholds == NULL:
        raise MemoryError("mtlmon: out of memory")
    for i in range(program.outer_count):
        # A jump from before a window to beyond it crosses both of its thresholds.
        if program.outer_untils[i].closed_slot != NO_SLOT:
            add_threshold(
                history, program.outer_untils[i].closed_slot, program.outer_untils[i].lower, False
            )
        if program.outer_untils[i].upper != UNBOUNDED():
            add_threshold(
                history, program.outer_untils[i].open_slot, program.outer_untils[i].upper, True
            )
    return 0


cdef void add_threshold(History *history, uint32_t slot, uint64_t distance, bint is_end) noexcept:
    cdef Threshold *threshold = &history.thresholds[history.threshold_count]
    threshold.slot = slot
    threshold.distance = distance
    threshold.cursor = NONE
    threshold.is_end = is_end
    history.threshold_count += 1


cdef void held_by_history(const History *history, HeldBytes *held) noexcept nogil:
    """Add the bytes that a history takes."""
    held.of[HELD_PENDING] += (
        history.entry_capacity * sizeof(Entry)
        + history.group_capacity * sizeof(Group)
        + (
            <size_t> history.active_capacity + history.table_size + history.dropped_capacity
        ) * sizeof(uint32_t)
        + history.threshold_count * sizeof(Threshold)
        + history.change_capacity * sizeof(Change)
    )
    held.of[HELD_VERDICTS] += history.verdict_capacity * sizeof(VerdictRecord)


cdef void free_history(History *history) noexcept nogil:
    free(history.entries)
    free(history.groups)
    free(history.active)
    free(history.table)
    free(history.thresholds)
    free(history.verdicts)
    free(history.changes)
    free(history.dropped)
    memset(history, 0, sizeof(History))


# ---- groups by expression ----------------------------------------------------------------------


cdef inline uint32_t home_of(History *history, Expression expression) noexcept nogil:
    return ((expression * <uint64_t> 0x9E3779B97F4A7C15ULL) >> 32) & (history.table_size - 1)


cdef uint32_t find_group(History *history, Expression expression) noexcept nogil:
    cdef uint32_t position
    if history.table_size == 0:
        return NONE
    position = home_of(history, expression)
    while history.table[position]:
        if history.groups[history.table[position] - 1].expression == expression:
            return history.table[position] - 1
        position = (position + 1) & (history.table_size - 1)
    return NONE


cdef void put_in_table(History *history, uint32_t group) noexcept nogil:
    cdef uint32_t position = home_of(history, history.groups[group].expression)
    while history.table[position]:
        position = (position + 1) & (history.table_size - 1)
    history.table[position] = group + 1


cdef void take_from_table(History *history, uint32_t group) noexcept nogil:
    """Remove a group from the table, moving up the groups that it had displaced."""
    cdef uint32_t limit = history.table_size - 1
    cdef uint32_t hole = home_of(history, history.groups[group].expression)
    cdef uint32_t position, home
    while history.table[hole] != group + 1:
        hole = (hole + 1) & limit
    history.table[hole] = 0
    position = (hole + 1) & limit
    while history.table[position]:
        home = home_of(history, history.groups[history.table[position] - 1].expression)
        if ((position - home) & limit) >= ((position - hole) & limit):
            history.table[hole] = history.table[position]
            history.table[position] = 0
            hole = position
        position = (position + 1) & limit


cdef int grow_groups(History *history) except -1 nogil:
    """Double the table; every active group is in it."""
    cdef uint32_t size = 2 * history.table_size if history.table_size else LEAST_TABLE
    cdef uint32_t *table = <uint32_t *> calloc(size, sizeof(uint32_t)) if size else NULL
    cdef uint32_t i
    if table == NULL:
        with gil:
            raise MemoryError("mtlmon: out of memory")
    free(history.table)
    history.table = table
    history.table_size = size
    for i in range(history.active_count):
        put_in_table(history, history.active[i])
    return 0


cdef void rehash(History *history) noexcept nogil:
    """Rebuild the table of groups, after their expressions have been renumbered."""
    cdef uint32_t i
    if history.table_size:
        memset(history.table, 0, history.table_size * sizeof(uint32_t))
    for i in range(history.active_count):
        put_in_table(history, history.active[i])


cdef int new_group(History *history, Expression expression, uint32_t *number) except -1 nogil:
    """Create a group in the table, without members."""
    cdef Group *group
    if 2 * (history.active_count + 1) > history.table_size:
        grow_groups(history)
    reserve(
        <void **> &history.active, &history.active_capacity, <size_t> history.active_count + 1,
        sizeof(uint32_t)
    )
    number[0] = history.free_group
    if number[0] == NONE:
        reserve(
            <void **> &history.groups, &history.group_capacity, <size_t> history.group_count + 1,
            sizeof(Group)
        )
        number[0] = history.group_count
        history.group_count += 1
    else:
        history.free_group = history.groups[number[0]].place
    group = &history.groups[number[0]]
    group.expression = expression
    group.any_member = group.latest = NONE
    group.size = 0
    group.kinds = 0
    group.due = UINT64_MAX
    group.demanded = NONE
    group.place = history.active_count
    history.active[history.active_count] = number[0]
    history.active_count += 1
    put_in_table(history, number[0])
    return 0


cdef void release_group(History *history, uint32_t number) noexcept nogil:
    """Free a group that is no longer in the table."""
    cdef Group *group = &history.groups[number]
    cdef uint32_t last
    group.expression = NO_EXPRESSION
    history.active_count -= 1
    last = history.active[history.active_count]
    if last != number:
        history.active[group.place] = last
        history.groups[last].place = group.place
        set_due(history, last, history.groups[last].due)
    group.place = history.free_group
    history.free_group = number


cdef void set_due(History *history, uint32_t number, uint64_t due) noexcept nogil:
    """Set the due time of a group, and with it its place in the heap."""
    cdef uint32_t *active = history.active
    cdef Group *groups = history.groups
    cdef uint32_t place = groups[number].place
    cdef uint32_t next_place
    groups[number].due = due
    while place and groups[active[(place - 1) // 2]].due > due:
        next_place = (place - 1) // 2
        active[place] = active[next_place]
        groups[active[place]].place = place
        place = next_place
    while 2 * place + 1 < history.active_count:
        next_place = 2 * place + 1
        if (
            next_place + 1 < history.active_count
            and groups[active[next_place + 1]].due < groups[active[next_place]].due
        ):
            next_place += 1
        if groups[active[next_place]].due >= due:
            break
        active[place] = active[next_place]
        groups[active[place]].place = place
        place = next_place
    active[place] = number
    groups[number].place = place


# ---- entries -----------------------------------------------------------------------------------


cdef int new_entry(
    History *history, uint64_t time_stamp, uint64_t offset, uint32_t *number
) except -1 nogil:
    """Add the latest entry in time, which is not in a group yet."""
    cdef Entry *entry
    cdef Threshold *threshold
    cdef uint32_t i
    number[0] = history.free_entry
    if number[0] == NONE:
        reserve(
            <void **> &history.entries, &history.entry_capacity, <size_t> history.entry_count + 1,
            sizeof(Entry)
        )
        number[0] = history.entry_count
        history.entry_count += 1
    else:
        history.free_entry = history.entries[number[0]].later
    entry = &history.entries[number[0]]
    entry.time_stamp = time_stamp
    entry.offset = offset
    entry.weight = 1
    entry.group = entry.merged_into = entry.later = NONE
    entry.cursor_count = 0
    entry.earlier = history.last
    if history.last == NONE:
        history.first = number[0]
    else:
        history.entries[history.last].later = number[0]
    history.last = number[0]
    for i in range(history.threshold_count):
        threshold = &history.thresholds[i]
        if threshold.cursor == NONE:
            threshold.cursor = number[0]
            entry.cursor_count += 1
            history.next_due = min(history.next_due, due_time(history, threshold))
    history.pending_count += 1
    if history.pending_count > history.peak_pending:
        history.peak_pending = history.pending_count
    return 0


cdef void take_from_time(History *history, uint32_t number) noexcept nogil:
    """Remove an entry that is no longer pending."""
    cdef Entry *entry = &history.entries[number]
    cdef Threshold *threshold
    cdef uint32_t i = 0
    while entry.cursor_count:
        threshold = &history.thresholds[i]
        i += 1
        if threshold.cursor == number:
            threshold.cursor = entry.later
            entry.cursor_count -= 1
            if entry.later != NONE:
                history.entries[entry.later].cursor_count += 1
    if entry.earlier == NONE:
        history.first = entry.later
    else:
        history.entries[entry.earlier].later = entry.later
    if entry.later == NONE:
        history.last = entry.earlier
    else:
        history.entries[entry.later].earlier = entry.earlier
    history.pending_count -= 1


cdef void free_entry(History *history, uint32_t number) noexcept nogil:
    history.entries[number].later = history.free_entry
    history.free_entry = number


cdef void link_member(History *history, uint32_t number, uint32_t group_number) noexcept nogil:
    cdef Group *group = &history.groups[group_number]
    cdef Entry *entry = &history.entries[number]
    cdef Entry *neighbour
    entry.group = group_number
    group.size += 1
    if group.any_member == NONE:
        entry.next_member = entry.previous_member = number
        group.any_member = group.latest = number
        return
    neighbour = &history.entries[group.any_member]
    entry.next_member = group.any_member
    entry.previous_member = neighbour.previous_member
    history.entries[neighbour.previous_member].next_member = number
    neighbour.previous_member = number
    if is_earlier(history, group.latest, number):
        group.latest = number


cdef void unlink_member(History *history, uint32_t number) noexcept nogil:
    """Unlink an entry from its group; the latest must go last or be replaced by the caller."""
    cdef Entry *entry = &history.entries[number]
    cdef Group *group = &history.groups[entry.group]
    group.size -= 1
    group.any_member = NONE if group.size == 0 else entry.next_member
    history.entries[entry.previous_member].next_member = entry.next_member
    history.entries[entry.next_member].previous_member = entry.previous_member
    entry.group = NONE
