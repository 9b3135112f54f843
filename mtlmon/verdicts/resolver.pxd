# cython: language_level=3
"""Declarations for the resolver of equivalence verdicts."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon.engine.native cimport (
    NumberReader,
    NumberWriter,
    VerdictKind,
    VerdictRecord,
    VerdictRun,
)


cdef struct Run:
    # the time-points of one time-stamp, starting at `offset`
    uint64_t time_stamp
    uint64_t offset
    uint64_t length
    # the next run of the chain, or the next free one
    size_t next


cdef struct Chain:
    # the open time-point that these time-points are equivalent to
    uint64_t stream
    uint64_t time_stamp
    uint64_t offset
    # indices of runs; `first` is NONE in a free slot
    size_t first
    size_t last


cdef class Resolver:
    cdef readonly uint64_t open_count, true_count, false_count
    # the stream of the next verdicts: references stay within a stream
    cdef uint64_t stream
    # whether verdicts come one by one instead of event by event
    cdef bint is_flat
    cdef Chain *chains
    cdef size_t chain_count, chain_mask
    # the slot that was found last, and a time-point that no reference of a chain is after
    cdef size_t recent
    cdef uint64_t latest_time_stamp, latest_offset
    cdef Run *runs
    cdef size_t run_count, run_room, free_run
    cdef VerdictRun *outcomes
    cdef size_t outcome_count, outcome_room
    # the first outcome of the present event, and whether its outcomes are out of order
    cdef size_t event_start
    cdef bint is_unsorted
    # the position of `next`
    cdef size_t outcome_index
    cdef uint64_t outcome_position
    # a part of a long outcome
    cdef VerdictRun piece

    cdef bint passes(self, const VerdictRecord *verdicts, size_t count) noexcept nogil
    cdef bint push(self, const VerdictRecord *verdicts, size_t count) noexcept nogil
    cdef bint push_events(self, const VerdictRecord *verdicts, size_t count) noexcept nogil
    cdef bint take_equivalence(
        self, const VerdictRecord *before, size_t count, const VerdictRecord *verdict
    ) noexcept nogil
    cdef bint take_event(self, const VerdictRecord *verdicts, size_t count) noexcept nogil
    cdef size_t next(self, VerdictRecord *verdicts, size_t capacity) noexcept nogil
    cdef const VerdictRun *next_runs(self, size_t capacity, size_t *count) noexcept nogil
    cdef bint renumber(
        self, const uint32_t *new_numbers, uint32_t lanes, const uint32_t *groups, uint32_t group
    ) noexcept nogil
    cdef bint join(self, const VerdictRecord *verdict) noexcept nogil
    cdef bint settle(self, const VerdictRecord *verdict) noexcept nogil
    cdef bint settle_equivalents(
        self, uint64_t time_stamp, uint64_t offset, VerdictKind kind
    ) noexcept nogil
    cdef void clear_outcomes(self) noexcept nogil
    cdef void sort_outcomes(self) noexcept nogil
    cdef size_t chain_of(self, uint64_t time_stamp, uint64_t offset) noexcept nogil
    cdef size_t find(self, uint64_t time_stamp, uint64_t offset) noexcept nogil
    cdef bint is_slot_of(
        self, size_t slot, uint64_t time_stamp, uint64_t offset
    ) noexcept nogil
    cdef void add_chain(
        self, size_t slot, uint64_t time_stamp, uint64_t offset, size_t number
    ) noexcept nogil
    cdef void remove(self, size_t slot) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
    cdef bint reserve_chain(self) noexcept nogil
    cdef size_t new_run(self, uint64_t time_stamp, uint64_t offset) noexcept nogil
    cdef uint64_t latest(self) noexcept nogil
    cdef int put_chain(self, NumberWriter writer, const Chain *chain, uint64_t latest) except -1
    cdef int read_chain(self, NumberReader reader, uint64_t latest) except -1
