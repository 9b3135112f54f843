# cython: language_level=3
"""Monitors of many streams against one formula, identified by keys."""

from libc.stdint cimport uint32_t

from mtlmon.engine.native cimport Guard, MemoryLimit
from mtlmon.traces.native cimport Streams


cdef class Monitors:
    cdef Guard guard
    cdef Streams streams
    cdef dict numbers               # key -> its number
    cdef MemoryLimit memory         # None if there is no limit

    cdef list _end(self, key, end_time)
    cdef int check_memory(self, list verdicts) except -1
    cdef size_t key_bytes(self) except? 0
    cdef uint32_t _load(self, object key, bint is_new) except? 0
