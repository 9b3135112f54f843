# cython: language_level=3
"""Declarations for values that are written as text."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t


cdef enum CellKind:
    INTEGER_CELL
    FLOAT_CELL
    BOOLEAN_CELL
    TEXT_CELL
    TIME_CELL


cdef bint read_integer(const uint8_t *text, size_t length, int64_t *cell) noexcept nogil
cdef int read_float(const uint8_t *text, size_t length, int64_t *cell) except -1 nogil
cdef bint read_boolean(const uint8_t *text, size_t length, int64_t *cell) noexcept nogil
cdef int read_time(const uint8_t *text, size_t length, int64_t *cell) except -1 nogil
cdef bint is_utf8(const uint8_t *text, size_t length) noexcept nogil
cdef int64_t float_cell(double value) noexcept nogil
