# cython: language_level=3
"""Declarations for letting one call at a time use an object."""

from libc.stdint cimport uint8_t


cdef extern from *:
    """
    /* Calls of one object come from any thread, with and without the GIL. */
    #define compare_and_set(target, expected, wanted) \\
        __sync_bool_compare_and_swap(target, (uint8_t) (expected), (uint8_t) (wanted))
    """
    bint compare_and_set(uint8_t *target, int expected, int wanted) nogil


cdef class Guard:
    cdef readonly str what
    cdef uint8_t is_used

    cdef int enter(self) except -1 nogil
    cdef void leave(self) noexcept nogil


cdef class GuardedIterator:
    cdef Guard guard
    cdef object items
