# cython: language_level=3
"""Declarations for monitoring several policies over the events of many streams in one pass."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport MemoryHolder, MemoryLimit, VerdictRecord
from mtlmon.traces.native cimport RowsByTrace


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


cdef class PolicyMonitors(MemoryHolder):
    cdef readonly list monitors     # the KeyedMonitors, by policy
    cdef Part *parts
    # for each event of a turn, as bits, the policies to which it has brought verdicts
    cdef uint64_t *answering
    cdef uint32_t answering_words   # of each event
    cdef uint32_t answering_room
    cdef size_t answering_end       # events from this number on have brought none
    cdef EventOrder order
    cdef uint32_t policy_count
    cdef uint32_t shown_count       # policies with verdicts; the others are only counted
    # policies of one partition have the same streams
    cdef uint32_t *partition_of     # by policy
    cdef readonly uint32_t partition_count
    # by partition: the rows of the turn by trace, once policies pass over some of them; else None
    cdef list rows_by_trace
    cdef list first_policies        # by partition: the number of its first policy
    cdef size_t batch               # events, or streams, that the policies process in turn
    cdef size_t turn                # events of the next turn
    cdef Delivery delivery
    cdef PolicyLines lines          # the sink of the delivery if it is not `verdicts`, else None
    cdef public object executor
    cdef readonly VerdictRows verdicts, violations
    cdef readonly FirstViolation first
    cdef uint64_t event_count       # rows whose verdicts have been taken
    cdef readonly MemoryLimit memory

    cdef object _resume_one(self, uint32_t policy, EventColumns columns)
    cdef int resume(self, list events, size_t first, size_t count) except -1
    cdef int begin_passing(self, list events) except -1
    cdef int stop_passing(self) except -1
    cdef RowsByTrace last_rows(self, uint32_t partition)
    cdef int catch_up(self) except -1
    cdef int find_answering(self, size_t count) except -1 nogil
    cdef bint is_answered(self, size_t place) noexcept nogil
    cdef int take_answers(self, size_t first, size_t end) except -1 nogil
    cdef int merge(self, size_t count, EventColumns columns, size_t start) except -1 nogil
    cdef void pass_rows(self, size_t first, size_t count, size_t place) noexcept nogil
    cdef void note_events(self, size_t end) noexcept nogil
    cdef void end_of_time(self, uint64_t time_stamp) noexcept
    cdef void prepare(self, KeyedMonitors monitors, uint32_t policy) noexcept
    cdef uint32_t streams_of(self, uint32_t partition) noexcept
