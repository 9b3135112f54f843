# cython: language_level=3
"""Declarations for events that have come and wait to be put in order."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef enum:
    NO_HANDLE = 0xFFFFFFFF


cdef enum:
    DIGIT_BITS = 8
    DIGITS = 256


cdef struct Arrivals:
    # Events in the order in which they came.
    uint64_t *time_stamps
    uint64_t *letters
    uint32_t *traces
    uint8_t *flags
    uint32_t *handles       # of events with ids; NO_HANDLE for others
    uint64_t *numbers       # of their rows among all
    uint32_t count, time_room, letter_room, trace_room, flag_room, handle_room, number_room


cdef struct Handle:
    # Where the event of an id is.
    uint64_t time_stamp
    uint64_t offset         # unless it waits
    uint32_t trace
    uint32_t place          # among the arrivals if it waits
    bint waits


cdef struct Name:
    uint64_t time_stamp, offset
    uint32_t trace


cdef struct Place:
    uint64_t time_stamp
    uint32_t trace
    uint32_t number


cdef int make_arrival_room(Arrivals *arrivals, size_t more, size_t words) except -1 nogil
cdef void free_arrivals(Arrivals *arrivals) noexcept nogil
cdef void move_arrival(
    Arrivals *arrivals, uint32_t source, uint32_t target, size_t words
) noexcept nogil
cdef void sort_names(Name *names, size_t count) noexcept nogil
cdef void sort_places(Place *places, Place *scratch, size_t count) noexcept nogil
