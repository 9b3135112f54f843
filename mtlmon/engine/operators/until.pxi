# cython: language_level=3
"""The rule of nested UNTILs: obligations with absolute windows, and how events change them.

The variable (lower, upper) of a family (f, g) means: at some later time-point j whose time-stamp is
in [lower, upper], g holds, and f holds at all time-points before j. For `f UNTIL[a,b] g` at time s,
these are s + a and s + b. Once time has reached the lower end, only the upper end matters: the
window is *open*. So obligations of different UNTILs over the same operands are equal if their
windows are, which takes in what the paper calls coinciding skewed subformulas, and nothing depends
on the size of the constants.

The time of an event does not depend on constants and rate as long as few groups of time-points
change at it. It grows with the number of groups that hold obligations of one family if these change
one by one. Two outer UNTILs of different bounds over the same operands have no placeholders, as in
`(EVENTUALLY[0,w] p) AND NOT (EVENTUALLY[0,v] p)`, and cost 24 ns for each open window when nothing
else happens. In `global` mode, closed windows that pile up in every pending clause, as in
`ALWAYS[0,b] (p IMPLIES EVENTUALLY[a,c] q)`, cost with the square of the time-stamps within a. A
conjunction of n nested UNTILs interns all its prefixes.
"""

from libc.stdlib cimport free
from libc.string cimport memmove, memset


cdef enum:
    LEAST_SWEEP = 32


# ---- the sorted lists of members ---------------------------------------------------------------


cdef inline bint comes_before(const Window *a, uint64_t lower, uint64_t upper) noexcept nogil:
    """The order of both lists; all open windows have the lower end 0."""
    return a.lower < lower or (a.lower == lower and a.upper < upper)


cdef uint32_t position_of(
    Family *family, const uint32_t *members, uint32_t head, uint32_t count, uint64_t lower,
    uint64_t upper
) noexcept nogil:
    """The first position whose window is not before (lower, upper)."""
    cdef uint32_t low = head
    cdef uint32_t high = count
    cdef uint32_t middle
    # As time only increases, most windows belong at the end.
    if low == high or comes_before(&family.windows[members[high - 1]], lower, upper):
        return high
    while low < high:
        middle = low + (high - low) // 2
        if comes_before(&family.windows[members[middle]], lower, upper):
            low = middle + 1
        else:
            high = middle
    return low


cdef int insert(
    Family *family, uint32_t **members, uint32_t *head, uint32_t *count, uint32_t *capacity,
    uint32_t member
) except -1 nogil:
    cdef uint32_t position
    cdef Window *window = &family.windows[member]
    if head[0] and count[0] == capacity[0]:
        count[0] -= head[0]
        memmove(members[0], members[0] + head[0], count[0] * sizeof(uint32_t))
        head[0] = 0
    reserve(<void **> members, capacity, <size_t> count[0] + 1, sizeof(uint32_t))
    position = position_of(family, members[0], head[0], count[0], window.lower, window.upper)
    memmove(
        members[0] + position + 1, members[0] + position,
        (count[0] - position) * sizeof(uint32_t)
    )
    members[0][position] = member
    count[0] += 1
    return 0


cdef inline int insert_open(Family *family, uint32_t member) except -1 nogil:
    return insert(
        family, &family.open, &family.open_head, &family.open_count, &family.open_capacity, member
    )


cdef inline int insert_closed(Family *family, uint32_t member) except -1 nogil:
    return insert(
        family, &family.closed, &family.closed_head, &family.closed_count,
        &family.closed_capacity, member
    )


cdef bint find(
    Family *family, const uint32_t *members, uint32_t head, uint32_t count, uint64_t lower,
    uint64_t upper, uint32_t *member
) noexcept nogil:
    cdef uint32_t position = position_of(family, members, head, count, lower, upper)
    cdef Window *window
    if position == count:
        return False
    member[0] = members[position]
    window = &family.windows[member[0]]
    return window.lower == lower and window.upper == upper


# ---- members -----------------------------------------------------------------------------------


cdef int take_lowest_free(Family *family, uint32_t *member) except -1 nogil:
    cdef uint32_t first = family.lowest_free
    cdef uint32_t number = first
    cdef uint32_t known = family.capacity
    # PERF: without the range, this took a quarter of the time with two UNTILs of different bounds
    # over the same operands: windows of both end one by one, and each event takes two members.
    while number < known and family.windows[number].phase != PHASE_FREE:
        if family.used_first <= number < family.used_end:
            number = family.used_end
        else:
            number += 1
    if number == known:
        reserve(
            <void **> &family.windows, &family.capacity, <size_t> known + 1, sizeof(Window)
        )
        memset(family.windows + known, 0, (family.capacity - known) * sizeof(Window))
    family.lowest_free = number + 1
    if first <= family.used_end and family.used_first <= number + 1:
        family.used_first = min(first, family.used_first)
        family.used_end = max(number + 1, family.used_end)
    elif number + 1 - first >= family.used_end - family.used_first:
        family.used_first = first
        family.used_end = number + 1
    member[0] = number
    return 0


cdef inline void release(
    Family *family, uint32_t member, Expression image, uint64_t stamp
) noexcept nogil:
    """Free a member whose variable the event replaces by a constant or by other variables."""
    cdef Window *window = &family.windows[member]
    window.phase = PHASE_FREE
    window.image = image
    window.stamp = stamp
    if member < family.lowest_free:
        family.lowest_free = member
    if family.used_first <= member < family.used_end:
        # Keep the longer part.
        if member - family.used_first > family.used_end - member:
            family.used_end = member
        else:
            family.used_first = member + 1


cdef bint is_window(
    Family *family, uint32_t member, uint64_t lower, uint64_t upper, uint64_t time_stamp
) noexcept nogil:
    """Whether the member represents [lower, upper]; `time_stamp` is the current one."""
    cdef Window *window
    if member >= family.capacity:
        return False
    window = &family.windows[member]
    if lower <= time_stamp:
        return window.phase == PHASE_OPEN and window.upper == upper
    return window.phase == PHASE_CLOSED and window.lower == lower and window.upper == upper


cdef int find_or_add(
    Family *family, uint64_t lower, uint64_t upper, uint64_t time_stamp, uint32_t *member
) except -1 nogil:
    """The member that represents the window [lower, upper]; `time_stamp` is the current one."""
    cdef Window *window
    cdef bint is_open = lower <= time_stamp
    if is_open:
        lower = 0
        if find(family, family.open, family.open_head, family.open_count, 0, upper, member):
            return 0
    elif find(
        family, family.closed, family.closed_head, family.closed_count, lower, upper, member
    ):
        return 0
    take_lowest_free(family, member)
    window = &family.windows[member[0]]
    window.lower = lower
    window.upper = upper
    # Keep the image and the stamp: they belong to the variable that had the member before.
    if is_open:
        insert_open(family, member[0])
        window.phase = PHASE_OPEN
    else:
        insert_closed(family, member[0])
        window.phase = PHASE_CLOSED
    return 0


cdef uint32_t members_in_use(Family *family) noexcept nogil:
    return (family.open_count - family.open_head) + (family.closed_count - family.closed_head)


cdef Expression literal_of_member(
    Workspace workspace, uint32_t number, uint32_t member
) except? NO_EXPRESSION nogil:
    """The variable of a member of the family with this number."""
    cdef uint32_t slot = 0
    slot_of(&workspace.slots, number, member, &slot)
    return literal(workspace, slot)


# ---- events ------------------------------------------------------------------------------------


cdef int pass_event(
    Workspace workspace, Family *family, uint32_t number, uint64_t time_stamp, bint is_event,
    FamilyEvent *event, uint64_t *changed
) except -1 nogil:
    """Advance the windows to `time_stamp`, and settle what the event settles.

    If `is_event` is false, only time passes. Adds to `changed` the bits of the family's kinds of
    variables that no longer represent themselves.
    """
    cdef uint64_t by_time = kind_bit(&workspace.slots, number, KIND_TIME)
    cdef uint64_t open_bit = kind_bit(&workspace.slots, number, KIND_OPEN)
    cdef uint64_t closed_bit = kind_bit(&workspace.slots, number, KIND_CLOSED)
    cdef bint is_settled = is_event and (
        event.right == TRUE_EXPRESSION or event.left == FALSE_EXPRESSION
    )
    cdef uint32_t member
    while (
        family.open_head < family.open_count
        and family.windows[family.open[family.open_head]].upper < time_stamp
    ):
        release(family, family.open[family.open_head], FALSE_EXPRESSION, event.stamp)
        family.open_head += 1
        changed[0] |= by_time
    if is_settled:
        # Either the obligation is met, or only this time-point can still meet it.
        while family.open_head < family.open_count:
            release(family, family.open[family.open_head], event.right, event.stamp)
            family.open_head += 1
            changed[0] |= open_bit
    while (
        family.closed_head < family.closed_count
        and family.windows[family.closed[family.closed_head]].lower <= time_stamp
    ):
        member = family.closed[family.closed_head]
        family.closed_head += 1
        open_window(workspace, family, number, member, time_stamp, is_event, is_settled, event)
        changed[0] |= by_time
    if is_event and event.left == FALSE_EXPRESSION:
        while family.closed_head < family.closed_count:
            release(
                family, family.closed[family.closed_head], FALSE_EXPRESSION, event.stamp
            )
            family.closed_head += 1
            changed[0] |= closed_bit
    if family.open_head == family.open_count:
        family.open_head = family.open_count = 0
    if family.closed_head == family.closed_count:
        family.closed_head = family.closed_count = 0
    event.is_general = is_event and (
        event.left != TRUE_EXPRESSION or event.right != FALSE_EXPRESSION
    )
    if event.is_general and family.open_count:
        changed[0] |= open_bit
    # The right operand does not matter to windows that have not begun.
    if is_event and event.left != TRUE_EXPRESSION and family.closed_count:
        changed[0] |= closed_bit
    return 0


cdef int open_window(
    Workspace workspace, Family *family, uint32_t number, uint32_t member, uint64_t time_stamp,
    bint is_event, bint is_settled, FamilyEvent *event
) except -1 nogil:
    """Process a closed window that time has reached: it opens, joins an open window, or is over."""
    cdef Window *window = &family.windows[member]
    cdef uint32_t target = member
    cdef Expression image
    if window.upper < time_stamp:
        release(family, member, FALSE_EXPRESSION, event.stamp)
        return 0
    if is_settled:
        release(family, member, event.right, event.stamp)
        return 0
    if find(
        family, family.open, family.open_head, family.open_count, 0, window.upper, &target
    ):
        release(family, member, FALSE_EXPRESSION, event.stamp)
    else:
        target = member
        window.lower = 0
        window.phase = PHASE_OPEN
        insert_open(family, member)
    image = literal_of_member(workspace, number, target)
    if is_event:
        image = disjunction(workspace, event.right, conjunction(workspace, event.left, image))
    window.image = image
    window.stamp = event.stamp
    return 0


cdef Expression image_of_member(
    Workspace workspace, Family *family, uint32_t number, uint32_t member, FamilyEvent *event
) except? NO_EXPRESSION nogil:
    """The image of a member's variable under the event."""
    cdef Window *window = &family.windows[member]
    cdef Expression image
    if window.stamp == event.stamp:
        return window.image
    image = literal_of_member(workspace, number, member)
    if not event.is_general:
        return image
    image = conjunction(workspace, event.left, image)
    if window.phase == PHASE_OPEN:
        image = disjunction(workspace, event.right, image)
    window.image = image
    window.stamp = event.stamp
    return image


# ---- forgetting --------------------------------------------------------------------------------


cdef void keep_mentioned(
    Family *family, uint32_t *members, uint32_t *head, uint32_t *count,
    const unsigned char *is_mentioned
) noexcept nogil:
    cdef uint32_t i, member
    cdef uint32_t kept = 0
    for i in range(head[0], count[0]):
        member = members[i]
        if is_mentioned[member]:
            members[kept] = member
            kept += 1
        else:
            release(family, member, FALSE_EXPRESSION, family.windows[member].stamp)
    head[0] = 0
    count[0] = kept


cdef void sweep(Family *family, const unsigned char *is_mentioned) noexcept nogil:
    """Free the members that no stored expression mentions."""
    keep_mentioned(family, family.open, &family.open_head, &family.open_count, is_mentioned)
    keep_mentioned(
        family, family.closed, &family.closed_head, &family.closed_count, is_mentioned
    )
    family.sweep_at = 2 * members_in_use(family) + LEAST_SWEEP


cdef size_t held_by_family(const Family *family) noexcept nogil:
    """The bytes that the obligations of a family take."""
    return family.capacity * sizeof(Window) + (
        <size_t> family.closed_capacity + family.open_capacity
    ) * sizeof(uint32_t)


cdef void free_family(Family *family) noexcept nogil:
    free(family.windows)
    free(family.open)
    free(family.closed)
    memset(family, 0, sizeof(Family))
