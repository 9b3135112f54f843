# cython: language_level=3
"""Many streams against one formula, each a state at rest."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon._configurations cimport Key
from mtlmon._core cimport Monitor
from mtlmon._engine cimport Register, State
from mtlmon._entries cimport Mode


cdef struct Resting:
    # A state between its events: in a configuration of the table, or whole where it has none.
    uint64_t time_stamp
    uint64_t offset
    Register *registers
    State *whole
    uint32_t configuration
    uint32_t register_count
    uint32_t register_capacity
    bint is_broken


cdef class Monitors:
    cdef Monitor worker             # whose state is that of the stream at work
    cdef State spare                # the worker's own, while that of a stream is a whole one
    cdef bint has_spare
    cdef Mode mode_number
    cdef Key blank                  # of a stream before its first event; without words if none
    cdef dict numbers               # key -> its number
    cdef list free_numbers
    cdef Resting *resting           # by number
    cdef uint32_t count, capacity, whole_count
    cdef uint64_t event_count, true_count, false_count
    cdef size_t register_bytes

    cdef int renew(self) except -1
    cdef Resting *find(self, object key, bint is_new) except NULL
    cdef int load(self, Resting *resting) except -1
    cdef int store(self, Resting *resting) except -1
    cdef int keep_registers(self, Resting *resting) except -1
    cdef int keep_whole(self, Resting *resting) except -1
    cdef void drop_registers(self, Resting *resting) noexcept
    cdef int keep_house(self) except -1
    cdef int compact(self) except -1
