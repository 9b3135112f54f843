# cython: language_level=3
"""The verdicts of a stream of events, for use from C."""

from mtlmon.engine.native cimport Session


cdef class VerdictStream:
    cdef readonly Session monitor
    cdef object events
    cdef size_t event_count
    cdef object end_time
    # the verdicts of the last event, of which those before `place` have been given out
    cdef list verdicts
    cdef Py_ssize_t place
    cdef bint is_over

    cdef list next_event(self)


cpdef list step_of_stream(Session monitor, event, size_t index)
