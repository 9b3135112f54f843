# cython: language_level=3
"""Declarations for values as text."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef enum:
    # no number or time takes more characters
    LONGEST_VALUE = 40


cdef uint8_t *put_natural(uint8_t *place, uint64_t number) noexcept nogil
cdef uint8_t *put_integer(uint8_t *place, int64_t number) noexcept nogil
cdef uint8_t *put_float(uint8_t *place, int64_t cell) except NULL nogil
cdef uint8_t *put_time(uint8_t *place, int64_t nanoseconds) noexcept nogil
cdef uint8_t *put_text(uint8_t *place, const uint8_t *text, size_t length) noexcept nogil
