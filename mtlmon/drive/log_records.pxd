# cython: language_level=3
"""Declarations for monitoring text logs, with verdict records as output."""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from mtlmon.text.native cimport Scanner


cdef class LogRecords:
    cdef readonly Scanner scanner
    cdef SuccessiveMonitor monitor
    cdef size_t room                # of a batch of events
    cdef uint64_t *time_stamps
    cdef uint64_t *letters

    cdef int work(self) except -1 nogil
