# cython: language_level=3
"""Declarations for end times: what is known about the time after a stream's last event."""

from libc.stdint cimport INT64_MAX, uint64_t


cdef enum EndKind:
    END_UNKNOWN     # nothing is known
    END_AT          # the stream is complete up to and including a time-stamp
    END_LAST        # ... up to and including the time-stamp of its last event
    END_INFINITE    # no event ever follows


cdef struct EndTime:
    EndKind kind
    uint64_t time_stamp     # with END_AT


cdef EndTime read_end_time(object value) except *


cdef inline uint64_t clock_after(const EndTime *end, uint64_t last) noexcept nogil:
    """No later event is below this time-stamp if a stream ends with an event at `last`.

    An end time below the last event says nothing. END_INFINITE has to be looked at before.
    """
    if end.kind == END_LAST:
        return last + 1
    if end.kind == END_AT and end.time_stamp >= last:
        return end.time_stamp + 1
    return last


cdef inline bint is_closed_by(const EndTime *end, uint64_t last) noexcept nogil:
    """Whether no event can come after a stream that ends with an event at `last`.

    That is also so if the stream is complete up to the largest time-stamp there is.
    """
    return end.kind == END_INFINITE or clock_after(end, last) > <uint64_t> INT64_MAX
