# cython: language_level=3
"""Declarations for states that are saved as words."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t


# The canonical form of a state: without counters, the clock and the last event's name.
cdef int write_state(Table table, State *state, Words *words) except -1 nogil
cdef bint read_state(
    Table table, State *state, const uint64_t *items, size_t count
) except -1 nogil


cdef struct Saved:
    # A state as words, and what the words do not say. All zeros: nothing is saved yet.
    Words words
    uint64_t time_stamp, offset, clock, event_count
    uint64_t true_count, false_count
    uint32_t peak_pending


# For states of one program and mode, that of the table's engine.
cdef int take_state(Table table, State *state, Saved *saved) except -1 nogil
cdef int give_state(Table table, State *state, const Saved *saved) except -1 nogil
cdef bint state_equals(
    Table table, State *state, const Saved *saved, Words *scratch
) except -1 nogil


cdef class SavedState:
    cdef Program program
    cdef Mode mode
    cdef Saved saved
