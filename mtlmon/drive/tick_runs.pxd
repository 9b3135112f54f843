# cython: language_level=3
"""Declarations for the ticks of a policy, of which only those where letters change are given."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport NumberReader, NumberWriter
from mtlmon.text.native cimport VerdictFilter
from mtlmon.traces.native cimport Streams, WaitingStreams


cdef struct TickEvents:
    # The events of a tick, by number of their streams.
    uint32_t *numbers
    uint64_t *letters               # of as many words as the monitors' letters have
    uint64_t *time_stamps           # all the same
    uint32_t *configurations        # before the event, for streams that may come to rest
    uint8_t *verdicts               # of the event: NO_VERDICT, a kind plus 1, or OTHER_VERDICTS
    size_t count
    size_t room


cdef class TickRuns:
    cdef Streams streams
    cdef bint is_complete           # whether all ticks are given from now on
    cdef bint is_given              # whether they are from the beginning, at any times
    cdef EventBlock block           # of the given events, from number `next_event` on
    cdef uint64_t period
    cdef bint may_rest[2]           # for false and true: whether nobody wants such verdicts
    # streams at rest are not here; the others have a letter, and an event at `next`
    cdef TickEvents awake, events
    cdef uint64_t next
    cdef uint64_t done              # all ticks below this time have been taken
    # For each stream the verdict of its ticks plus 1 while it is at rest, else 0.
    cdef uint8_t *resting
    cdef uint32_t resting_room
    # For each verdict: the streams at rest, the sum of the numbers of the last ticks that they have
    # taken, and the ticks that streams have not taken before they woke.
    cdef uint64_t sleepers[2]
    cdef uint64_t asleep_from[2]
    cdef uint64_t slept[2]
    # the ticks of the last call that brought verdicts that are wanted, or where it failed
    cdef uint64_t *tick_times
    cdef uint32_t tick_count, tick_room
    cdef bint has_failed
    cdef uint32_t failed_number

    cdef int resume(
        self, EventColumns events, const uint32_t *numbers, size_t first, size_t count,
        uint64_t end, VerdictRows rows, VerdictFilter filter, WaitingStreams waiting
    ) except -1 nogil
    cdef int gather(
        self, EventColumns events, const uint32_t *numbers, size_t *next_event, size_t last,
        uint64_t time_stamp
    ) except -1 nogil
    cdef int run(
        self, uint64_t time_stamp, VerdictRows rows, VerdictFilter filter, WaitingStreams waiting
    ) except -1 nogil
    cdef int take(
        self, size_t first, uint64_t time_stamp, VerdictRows rows, VerdictFilter filter
    ) except -1 nogil
    cdef int give_all(self) except -1 nogil
    cdef int note_tick(self, uint64_t time_stamp) except -1 nogil
    cdef int let_rest(self, uint64_t time_stamp, uint64_t compactions) except -1 nogil
    cdef void wake(self, uint32_t number, uint64_t time_stamp) noexcept nogil
    cdef uint64_t slept_count(self, int verdict) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
    cdef int put(self, NumberWriter writer) except -1
    cdef int read(self, NumberReader reader) except -1
