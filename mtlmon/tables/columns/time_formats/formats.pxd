# cython: language_level=3
"""Declarations for reading times that are written in a given format."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t


cdef class TimeFormat:
    cdef readonly str text
    # pairs of bytes: "%" and a directive; 0 and a literal byte; or two blanks for any number of
    # blanks
    cdef bytes steps
    cdef const uint8_t *place
    cdef size_t size
    cdef bint has_date

cdef ParseStatus read_formatted(
    TimeFormat format, const uint8_t *text, const uint8_t *end, Instant *instant
) noexcept nogil
