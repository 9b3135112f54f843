# cython: language_level=3
"""Declarations for monitoring streams one after the other with a single monitor."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

from mtlmon.arrays.native cimport EventColumns
from mtlmon.engine.native cimport EndTime, Session


cdef class SuccessiveMonitor:
    cdef Session monitor
    cdef SessionLoop loop
    cdef VerdictRows rows
    cdef EndTime end

    cdef int check_starts(self, const uint32_t *starts, size_t count, size_t limit) except -1
    cdef int check_time_stamps(
        self, EventColumns events, const uint32_t *starts, size_t count
    ) except -1
