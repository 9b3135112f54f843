# cython: language_level=3
"""Declarations for states that are saved as words."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t


# The canonical form of a state: without counters, the clock and the last event's name.
cdef int write_state(Table table, State *state, Words *words) except -1 nogil
cdef bint read_state(
    Table table, State *state, const uint64_t *items, size_t count
) except -1 nogil


cdef class SavedState:
    cdef Program program
    cdef Mode mode
    cdef Words words
    cdef uint64_t time_stamp, offset, clock, event_count
    cdef uint64_t true_count, false_count
    cdef uint32_t peak_pending

    cdef int take(self, Table table, State *state) except -1 nogil
    cdef int give(self, Table table, State *state) except -1 nogil
    cdef bint equals(self, Table table, State *state, Words *scratch) except -1 nogil
    cdef bint _names_equal(self, const State *state) noexcept nogil
    cdef bint _find_configuration(self, Table table, State *state) except -1 nogil
    cdef bint _equals_by_meaning(self, Table table, State *state, Words *words) except -1
