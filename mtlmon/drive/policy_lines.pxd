# cython: language_level=3
"""Declarations for writing the verdicts of several policies and streams as lines."""

from libc.stdint cimport uint8_t, uint32_t

from mtlmon.arrays.native cimport KeyTable
from mtlmon.text.native cimport Writer


cdef struct Fields:
    # escaped texts, each followed by a tab
    uint8_t *text
    uint32_t size, room


cdef class PolicyLines:
    cdef readonly Writer writer
    cdef KeyTable keys
    cdef Fields *names              # of the policies
    cdef uint32_t policy_count
    cdef Fields key                 # of the stream of the last line
    cdef Fields both                # the name of a policy, followed by that key

    cdef int put_rows(self, VerdictRows rows) except -1 nogil
    cdef int set_key(self, uint32_t stream) except -1 nogil
