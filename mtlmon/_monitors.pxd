# cython: language_level=3
"""Many streams against one formula, told apart by keys."""

from libc.stdint cimport uint32_t

from mtlmon._streams cimport Streams


cdef class Monitors:
    cdef Streams streams
    cdef dict numbers               # key -> its number

    cdef uint32_t _load(self, object key, bint is_new) except? 0
