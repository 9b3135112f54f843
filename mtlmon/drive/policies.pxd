# cython: language_level=3
"""Declarations for monitoring several policies over the events of many streams in one pass."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport MemoryHolder, MemoryLimit, VerdictRecord


cdef struct Part:
    # The results of one policy's monitors: verdicts with their streams and with the event or stream
    # of the batch that brought them; and how many of them have been taken.
    const VerdictRecord *records
    const uint32_t *streams
    const uint32_t *places
    uint32_t count
    uint32_t taken
    uint64_t events_before          # time-points of the policy before the turn
    size_t event_count              # in the turn


cdef struct Source:
    # The events of one policy in a call of `feed`, and which of them come in the present turn.
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
    uint32_t tick_count, verdict_count, failed_number


cdef class PolicyMonitors(MemoryHolder):
    cdef readonly list monitors     # the KeyedMonitors, by policy
    cdef Part *parts
    cdef Source *sources
    cdef uint32_t policy_count
    cdef uint32_t shown_count       # policies with verdicts; the others are only counted
    # policies of one partition have the same streams
    cdef uint32_t *partition_of     # by policy
    cdef readonly uint32_t partition_count
    cdef size_t batch               # events, or streams, that the policies process in turn
    cdef Delivery delivery
    cdef PolicyLines lines          # the sink of the delivery if it is not `verdicts`, else None
    cdef public object executor
    cdef readonly VerdictRows verdicts, violations
    cdef readonly FirstViolation first
    cdef uint64_t event_count       # rows whose verdicts have been taken
    cdef readonly MemoryLimit memory
    # if events have places: for each position of the turn, its time-stamp, and how many rows of the
    # turn come before it
    cdef bint has_places
    cdef uint64_t *times
    cdef uint32_t *rows_before
    cdef uint32_t time_room, row_room
    cdef size_t position_count
    # of the rows of a call of `feed`; NULL if they are not given
    cdef const int64_t *row_times
    cdef size_t row_time_count

    cdef int open_sources(
        self, list events, object numbers, object places, object offsets, size_t row_count,
        list memories
    ) except -1
    cdef int begin_turn(
        self, list events, size_t first, size_t count, size_t row_count, uint64_t tick_end
    ) except -1
    cdef int set_positions(self, list events, size_t first, size_t count) except -1
    cdef int merge_positions(self, Cursor *cursors, size_t first, size_t count) except -1 nogil
    cdef int go_on(self, list events, size_t first, size_t count) except -1
    cdef int merge(self, size_t count, EventColumns columns, size_t start) except -1 nogil
    cdef size_t row_behind(self, uint64_t time_stamp) noexcept nogil
    cdef size_t rows_read(self, size_t first, size_t place) noexcept nogil
    cdef void pass_rows(self, size_t first, size_t count, size_t place) noexcept nogil
    cdef void note_events(self, size_t end) noexcept nogil
    cdef void load_cursor(self, Cursor *cursor, const Source *source) noexcept nogil
    cdef void end_of_time(self, uint64_t time_stamp) noexcept
    cdef void prepare(self, KeyedMonitors monitors, uint32_t policy) noexcept
    cdef uint32_t streams_of(self, uint32_t partition) noexcept
