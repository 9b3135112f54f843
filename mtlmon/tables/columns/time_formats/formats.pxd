# cython: language_level=3
"""Times written by a format, for use from C."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t


cdef class TimeFormat:
    cdef readonly str text
    # pairs of bytes: "%" and a directive, 0 and a byte as it is, two blanks for any number of them
    cdef bytes steps
    cdef const uint8_t *place
    cdef size_t size
    cdef bint has_date

cdef ParseStatus read_formatted(
    TimeFormat format, const uint8_t *text, const uint8_t *end, Instant *instant
) noexcept nogil
