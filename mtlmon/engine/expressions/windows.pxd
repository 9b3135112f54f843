# cython: language_level=3
"""What the variables of nested UNTILs stand for: obligations with absolute windows."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef enum Phase:
    PHASE_FREE = 0
    PHASE_CLOSED = 1    # the window lies ahead
    PHASE_OPEN = 2      # the window has begun


cdef struct Window:
    uint64_t lower      # first time-stamp at which the obligation can be met; unused when open
    uint64_t upper      # last such time-stamp
    # What the variable becomes at the event under way, valid if the stamp is that event's.
    uint64_t stamp
    uint32_t image
    uint8_t phase


cdef struct Family:
    # The obligations of one pair of operands. A *member* is an index into `windows`.
    Window *windows
    uint32_t capacity
    # The members in use, sorted: closed ones by (lower, upper), open ones by upper. Those of the
    # head have left.
    uint32_t *closed
    uint32_t closed_head
    uint32_t closed_count
    uint32_t closed_capacity
    uint32_t *open
    uint32_t open_head
    uint32_t open_count
    uint32_t open_capacity
    uint32_t lowest_free    # no member below is free
    uint32_t sweep_at       # how many members in use are worth a sweep of the unmentioned ones
