# cython: language_level=3
"""Declarations for moving what slices remember to the slices of another plan."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef struct MovedItem:
    # Something of one of the old slices that belongs behind everything of lower order.
    uint64_t order              # a time-point or time-stamp
    uint64_t place              # among what this slice has
    uint32_t source             # the slice
    uint32_t slot
    int64_t time_stamp
    const int64_t *cells        # its row


cdef class Mover:
    cdef Router old_points, new_points      # the routes of rows of atoms
    cdef Router old_rows, new_rows          # those of remembered rows
    cdef size_t old_count, new_count
    cdef State **old_states
    cdef State **new_states
    cdef RowQueue **old_queues
    cdef RowQueue **new_queues
    cdef Rows *gathered                     # for each new slice
    cdef MovedItem *items
    cdef size_t item_count, item_room
    cdef uint64_t targets[TARGET_WORDS]

    cdef bint takes(
        self, Router router, uint32_t kind, const int64_t *cells, size_t source
    ) noexcept nogil
    cdef void aim(self, Router router, uint32_t kind, const int64_t *cells) noexcept nogil
    cdef bint is_target(self, size_t slice) noexcept nogil
    cdef int note(self, const MovedItem *item) except -1 nogil
    cdef void sort(self) noexcept nogil
    cdef int align(self) except -1 nogil
    cdef int move_state(self, uint32_t kind) except -1 nogil
    cdef int copy_counted(self, State *state) except -1 nogil
    cdef int move_slots(self, uint32_t kind) except -1 nogil
    cdef int move_entries(self, uint32_t kind) except -1 nogil
    cdef int move_spans(self, uint32_t kind) except -1 nogil
    cdef int move_left(self, uint32_t kind, uint32_t left) except -1 nogil
    cdef int move_queue(
        self, Router old_router, Router new_router, uint32_t kind, bint is_everywhere
    ) except -1 nogil
