# cython: language_level=3
"""Declarations for encoding numbers as bytes."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef enum:
    DIGEST_BYTES = 8
    NUMBER_BYTES = 10       # a number has at most so many
    LEAST_ROOM = 256


cdef bytes digest(data)
cdef bytes as_bytes(data)
cdef object damaged()


cdef class NumberWriter:
    cdef uint8_t *items
    cdef size_t count, room

    cdef bytes taken(self)
    cdef int make_room(self, size_t more) except -1
    cdef int put(self, uint64_t value) except -1
    cdef int put_bytes(self, bytes value) except -1


cdef class NumberReader:
    cdef bytes data             # keeps `start` valid
    cdef const uint8_t *start
    cdef size_t size
    cdef size_t place

    cdef int open(self, bytes data, size_t place) except -1
    cdef uint64_t get(self, uint64_t most) except? 0
    cdef uint64_t get_count(self, uint32_t item_bytes) except? 0
    cdef bytes get_bytes(self)
    cdef int end(self) except -1
