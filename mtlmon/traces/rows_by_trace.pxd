# cython: language_level=3
"""Declarations for the rows of a turn by the traces that they belong to."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns


cdef enum:
    NO_ROW = 0xFFFFFFFF
    NO_NUMBER = 0xFFFFFFFF


cdef struct Latest:
    # The last row of a trace: its name, and its number among all rows, from 1; 0 for no row.
    uint64_t time_stamp
    uint64_t offset
    uint64_t number


cdef class RowsByTrace:
    cdef Latest *latest             # by trace
    cdef uint32_t trace_count, latest_room
    cdef uint64_t before            # how many rows there were before those of the turn
    # by row of the turn: its offset in its trace, and the next row of the trace, or NO_ROW
    cdef uint64_t *offsets
    cdef uint32_t *following
    cdef uint32_t row_count, offset_room, following_room
    # the traces that have rows in the turn, and the first row of each
    cdef uint32_t *traces
    cdef uint32_t *firsts
    cdef uint32_t present_count, trace_room, first_room

    cdef int note_state(self, uint32_t trace, uint64_t time_stamp, uint64_t offset) except -1
    cdef int have_traces(self, size_t count) except -1 nogil
    cdef int begin(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count,
        size_t traces
    ) except -1 nogil
    cdef int renumber(self, const uint32_t *new_numbers) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
