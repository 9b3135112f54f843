# cython: language_level=3
"""Declarations for the order of the events that several policies have with the rows of a batch."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns


cdef struct Source:
    # The events of one policy in a call of `PolicyMonitors.feed`, and which of them come in the
    # present turn.
    const uint32_t *numbers         # of their streams
    const uint32_t *offsets         # within their time-stamps; NULL if they are consecutive
    const uint32_t *places          # the rows that they come with; NULL if event k comes with row k
    size_t size
    size_t first, count
    # If events have places: for each event of the turn, its place among those of all policies. Of
    # ticks, only the place behind which all verdicts are lost is here, if there is one.
    uint32_t *positions
    uint32_t position_room
    uint64_t tick_end               # of the turn, for policies that take ticks


cdef struct Cursor:
    # The next event of one policy in a turn, as index in the turn, and what its order depends on.
    # Of ticks, only those with verdicts matter, and the index is that of the first verdict.
    const char *time_stamps         # of the policy's events, so many bytes apart
    Py_ssize_t stride
    size_t next, count
    size_t place
    uint64_t time_stamp
    uint32_t number                 # of the stream, if the event is a tick, else 0
    # for policies that take ticks
    const uint64_t *tick_times
    const uint32_t *ticks           # of each verdict
    const uint32_t *streams
    bint is_ticking
    bint is_tick
    uint32_t tick_count, verdict_count, failed_number


cdef class EventOrder:
    cdef list monitors              # the KeyedMonitors, by policy
    cdef list on_ticks              # whether the events of each policy are ticks
    cdef Source *sources
    cdef uint32_t policy_count
    # If events have places: for each position of the turn, the time of the log there, and how many
    # rows of the turn come before it.
    cdef bint has_places
    cdef uint64_t *times
    cdef uint32_t *rows_before
    cdef uint32_t time_room, row_room
    cdef size_t position_count
    # of the rows of a call of `feed`; NULL if they are not given
    cdef const int64_t *row_times
    cdef size_t row_time_count

    cdef int open(
        self, list events, object numbers, object places, object offsets, size_t row_count,
        list memories
    ) except -1
    cdef int open_row_times(self, object row_times, size_t row_count, list memories) except -1
    cdef int find_events(
        self, uint32_t policy, EventColumns columns, size_t first, size_t end, size_t row_count,
        uint64_t tick_end
    ) except -1
    cdef int set_positions(self, list events, size_t first, size_t count) except -1
    cdef int merge_positions(self, Cursor *cursors, size_t first, size_t count) except -1 nogil
    cdef void load_cursor(self, Cursor *cursor, const Source *source) noexcept nogil
    cdef size_t row_behind(self, uint64_t time_stamp) noexcept nogil
    cdef size_t rows_read(self, size_t first, size_t place) noexcept nogil
    cdef bint is_row_done(self, size_t first, size_t place) noexcept nogil
    cdef size_t events_before(self, uint32_t policy, size_t position, size_t count) noexcept nogil
    cdef size_t held_bytes(self) noexcept
