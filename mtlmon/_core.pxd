# cython: language_level=3
"""The public monitor."""

from libc.stdint cimport uint64_t

from mtlmon.engine.native cimport Session


cdef class Monitor(Session):
    cdef list _take_verdicts(self)
    cdef list _step_within_limit(self, uint64_t time_stamp)
    cdef uint64_t _read_time_stamp(self, object value) except? 0
