# cython: language_level=3
"""Numbers in the order in which they were used last, with the times; the oldest use comes first.

A use takes constant time, and so does taking back the last one.
"""


cdef enum:
    END_OF_LIST = 0xFFFFFFFF


cdef enum UseKind:
    ENTERED
    USED
    LEFT


cdef struct Use:
    # What happened to a number, and its time and the number before it until then.
    uint32_t number
    uint32_t before
    UseKind kind
    int64_t time


cdef struct UseOrder:
    uint32_t *earlier           # links, by number; END_OF_LIST at the ends
    uint32_t *later
    int64_t *times              # of the last use
    uint32_t first, last
    Use *uses                   # those that can be taken back
    size_t use_count, use_room


cdef void init_uses(UseOrder *order) noexcept nogil:
    memset(order, 0, sizeof(UseOrder))
    restart_uses(order)


cdef void restart_uses(UseOrder *order) noexcept nogil:
    """Let there be no numbers."""
    order.first = order.last = END_OF_LIST
    order.use_count = 0


cdef void free_uses(UseOrder *order) noexcept nogil:
    free(order.earlier)
    free(order.later)
    free(order.times)
    free(order.uses)


cdef int resize_uses(UseOrder *order, size_t room) except -1 nogil:
    """Make room for the numbers below `room`."""
    resized(<void **> &order.earlier, room, sizeof(uint32_t))
    resized(<void **> &order.later, room, sizeof(uint32_t))
    resized(<void **> &order.times, room, sizeof(int64_t))
    return 0


cdef inline void link_use(UseOrder *order, uint32_t number, uint32_t before) noexcept nogil:
    """Put a number behind another one; END_OF_LIST for the first place."""
    cdef uint32_t behind = order.first if before == END_OF_LIST else order.later[before]
    order.earlier[number] = before
    order.later[number] = behind
    if before == END_OF_LIST:
        order.first = number
    else:
        order.later[before] = number
    if behind == END_OF_LIST:
        order.last = number
    else:
        order.earlier[behind] = number


cdef inline void unlink_use(UseOrder *order, uint32_t number) noexcept nogil:
    cdef uint32_t before = order.earlier[number]
    cdef uint32_t behind = order.later[number]
    if before == END_OF_LIST:
        order.first = behind
    else:
        order.later[before] = behind
    if behind == END_OF_LIST:
        order.last = before
    else:
        order.earlier[behind] = before


cdef inline int use(
    UseOrder *order, uint32_t number, int64_t time, UseKind kind
) except -1 nogil:
    """Let a number enter, be used at a time, or leave."""
    cdef Use *done
    if kind == USED and order.last == number and order.times[number] == time:
        return 0
    if order.use_count == order.use_room:
        order.use_room = max(<size_t> 64, 2 * order.use_room)
        resized(<void **> &order.uses, order.use_room, sizeof(Use))
    done = &order.uses[order.use_count]
    done.number = number
    done.kind = kind
    if kind != ENTERED:
        done.before = order.earlier[number]
        done.time = order.times[number]
        unlink_use(order, number)
    if kind != LEFT:
        order.times[number] = time
        link_use(order, number, order.last)
    order.use_count += 1
    return 0


cdef void undo_uses(UseOrder *order) noexcept nogil:
    """Take back all uses since `use_count` was 0."""
    cdef Use *done
    while order.use_count:
        order.use_count -= 1
        done = &order.uses[order.use_count]
        if done.kind != LEFT:
            unlink_use(order, done.number)
        if done.kind != ENTERED:
            order.times[done.number] = done.time
            link_use(order, done.number, done.before)


cdef size_t use_bytes(const UseOrder *order, size_t room) noexcept nogil:
    return room * (2 * sizeof(uint32_t) + sizeof(int64_t)) + order.use_room * sizeof(Use)
