# cython: language_level=3
"""Lines of verdicts on several policies and streams, for use from C."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

from mtlmon._keys cimport KeyTable
from mtlmon._writer cimport Writer


cdef class PolicyLines:
    cdef readonly Writer writer
    cdef list names                 # what stands before a verdict, by policy
    cdef KeyTable keys
    # the fields of the line written last, escaped, each followed by a tab
    cdef uint8_t *fields
    cdef size_t size, room
    cdef uint32_t stream, policy
    cdef bint is_known

    cdef int set_fields(self, uint32_t stream, uint32_t policy) except -1
    cdef int add_escaped(self, const uint8_t *text, size_t length) except -1
