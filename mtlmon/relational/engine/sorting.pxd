# cython: language_level=3
"""Declarations for the order of rows."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t

from mtlmon.arrays.native cimport KeyTable


cdef int compare_rows(
    KeyTable texts, const uint32_t *kinds, size_t width, const int64_t *left, const int64_t *right
) noexcept nogil
cdef void sort_rows(
    KeyTable texts, const uint32_t *kinds, const Rows *rows, uint32_t *order, uint32_t *spare
) noexcept nogil
