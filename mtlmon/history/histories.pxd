# cython: language_level=3
"""Declarations for batches of events of many traces."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t


cdef class Histories(Replayer):
    cdef Arrivals arrivals
    cdef Place *places
    cdef uint32_t place_room
    cdef uint64_t *time_stamps      # the events of a batch, trace by trace, in order
    cdef uint64_t *letters
    cdef uint32_t time_room, letter_room
    cdef uint32_t *refused
    cdef uint32_t refused_room
    cdef bint is_finished

    cdef size_t admit(self, size_t first, size_t count) except? 0 nogil
    cdef int release(self, bint takes_all) except -1 nogil
    cdef int note_advance(self, uint64_t time_stamp) except -1
