# cython: language_level=3
"""Declarations for batches of events of many traces."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns


cdef struct PlacedRow:
    # A row that has its name now.
    uint64_t time_stamp, offset
    uint64_t number         # of the row among all
    uint32_t trace
    uint32_t flags


cdef class Histories(Admission):
    cdef Place *places
    cdef Place *scratch
    cdef uint32_t place_room, scratch_room
    cdef uint64_t *time_stamps      # the events of a batch, trace by trace, in order
    cdef uint64_t *letters
    cdef uint8_t *flags
    cdef uint64_t *offsets
    cdef uint64_t *marked           # events of a batch that can make a difference, as bits
    cdef uint32_t time_room, letter_room, flag_room, offset_room, marked_room
    cdef bint is_finished
    cdef PlacedRow *placed          # of histories that do not judge: rows to be told
    cdef uint32_t placed_room, placed_count
    cdef uint64_t row_count         # how many rows have come, also those that are refused
    cdef int64_t counts[4]          # by kind, how many more time-points there are; of none the last

    cdef int read_batch(self, EventColumns columns, numbers) except -1
    cdef int release(self, bint takes_all) except -1 nogil
    cdef void fetch_ahead(self, size_t place, size_t count) noexcept nogil
    cdef int take_trace(
        self, uint32_t number, size_t first, size_t last, size_t removed, size_t last_removed
    ) except -1 nogil
    cdef int catch_up(self, uint32_t number, const Trace *known) except -1 nogil
    cdef int note_placed(self, size_t first, size_t last) except -1 nogil
    cdef int let_time_pass(self, uint64_t time_stamp, uint32_t number) except -1
    cdef int note_advance(self, uint64_t time_stamp) except -1
    cdef int pass_closed(self) except -1
