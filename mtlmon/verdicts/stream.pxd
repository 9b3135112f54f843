# cython: language_level=3
"""Declarations for the verdicts of a stream of events."""

from mtlmon.engine.native cimport Guard, Session


cdef class VerdictStream:
    cdef Guard guard
    cdef readonly Session monitor
    cdef object events
    cdef size_t event_count
    cdef object end_time
    # the verdicts of the last event; those before `place` have been returned
    cdef list verdicts
    cdef Py_ssize_t place
    cdef bint is_over

    cdef list next_event(self)
    cdef list _next_event(self)


cpdef list step_of_stream(Session monitor, event, size_t index)
