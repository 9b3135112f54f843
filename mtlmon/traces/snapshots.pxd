# cython: language_level=3
"""Declarations for snapshots of the states of many streams."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from mtlmon.engine.native cimport NumberReader, NumberWriter


cdef int put_streams(
    NumberWriter writer, Streams streams, uint64_t clock, const uint32_t *chosen=*, size_t count=*
) except -1
cdef bytes read_streams(NumberReader reader, Streams streams, uint64_t clock)
