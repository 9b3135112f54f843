# cython: language_level=3
"""Declarations for end times: what is known about the time after a stream's last event."""

from libc.stdint cimport uint64_t


cdef enum EndKind:
    END_UNKNOWN     # nothing is known
    END_AT          # the stream is complete up to and including a time-stamp
    END_LAST        # ... up to and including the time-stamp of its last event
    END_INFINITE    # no event ever follows


cdef struct EndTime:
    EndKind kind
    uint64_t time_stamp     # with END_AT


cdef EndTime read_end_time(object value) except *
