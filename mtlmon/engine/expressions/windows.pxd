# cython: language_level=3
"""Declarations for the variables of nested UNTILs: obligations with absolute windows."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef enum Phase:
    PHASE_FREE = 0
    PHASE_CLOSED = 1    # the window is in the future
    PHASE_OPEN = 2      # the window has begun


cdef struct Window:
    uint64_t lower      # the first time-stamp that can meet the obligation; unused if open
    uint64_t upper      # the last such time-stamp
    # The image of the variable at the current event; valid if the stamp is that of the event.
    uint64_t stamp
    uint32_t image
    uint8_t phase


cdef struct Family:
    # The obligations of one pair of operands. A *member* is an index into `windows`.
    Window *windows
    uint32_t capacity
    # The members in use, sorted: closed members by (lower, upper), open members by upper. The
    # members before the head have left.
    uint32_t *closed
    uint32_t closed_head
    uint32_t closed_count
    uint32_t closed_capacity
    uint32_t *open
    uint32_t open_head
    uint32_t open_count
    uint32_t open_capacity
    uint32_t lowest_free    # no lower member is free
    # and none in this range
    uint32_t used_first
    uint32_t used_end
    uint32_t sweep_at       # the number of members in use that triggers a sweep
