# cython: language_level=3
"""Declarations for monitoring events of many streams from arrays, with stream numbers."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns, Memory
from mtlmon.engine.native cimport Guard, HeldBytes
from mtlmon.text.native cimport VerdictFilter
from mtlmon.traces.native cimport RowsByTrace, Streams, WaitingStreams


cdef class KeyedMonitors:
    cdef Guard guard
    cdef Streams streams
    cdef uint64_t clock             # the latest time-stamp
    cdef bint own_clocks            # whether each stream has a clock of its own
    cdef EventBlock block
    # the result of the last call: verdicts with their streams and, as `policies`, the numbers of
    # the events or streams of the call that brought them
    cdef VerdictRows rows
    cdef VerdictFilter filter       # which verdicts are kept
    cdef WaitingStreams waiting     # None if time does not pass by itself
    cdef uint32_t due_done          # how many of the due streams have been settled
    cdef TickRuns ticking           # None if all events are given
    cdef const uint32_t *offsets    # of the events of a call; NULL if they are consecutive
    # of the turn, if events without atoms are passed over in some turns, else None; and whether
    # they are in this one
    cdef RowsByTrace rows_by_trace
    cdef bint is_passing
    # how many events, or streams, of the last call are done
    cdef size_t done

    cdef tuple _pass_time(self, numbers, uint64_t time_stamp)
    cdef int check(self, EventColumns events, size_t first, size_t end) except -1
    cdef int begin(
        self, EventColumns events, size_t first, size_t count, size_t streams
    ) except -1
    cdef int resume(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count
    ) except -1 nogil
    cdef bint is_sparse(self, EventColumns events, size_t first, size_t count) noexcept nogil
    cdef int resume_sparsely(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count
    ) except -1 nogil
    cdef int resume_ticks(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count, uint64_t end
    ) except -1 nogil
    cdef int wait_for_time(self, uint64_t delay) except -1
    cdef uint32_t next_due(self) noexcept nogil
    cdef int catch_up(self, uint32_t first, uint32_t end) except -1 nogil
    cdef int settle_due(self, size_t first, size_t count, uint64_t time_stamp) except -1 nogil
    cdef int end(
        self, size_t first, size_t count, uint64_t time_stamp, bint is_closed
    ) except -1 nogil
    cdef void count_held(self, HeldBytes *held) noexcept nogil
    cdef int take_from_worker(self, uint32_t number) except -1 nogil
    cdef int take_from_streams(self) except -1 nogil
    cdef Memory known_streams(self, object numbers)


cdef size_t stream_count(const uint32_t *numbers, size_t first, size_t count) noexcept nogil
cdef Memory stream_numbers(object numbers, size_t count)
