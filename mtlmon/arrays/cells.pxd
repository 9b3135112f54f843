# cython: language_level=3
"""Declarations for text cells in Arrow columns, which are read without copying."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy


cdef class Offsets:
    cdef readonly size_t count
    cdef list memory
    cdef const char *place          # of the first of count + 1 offsets, at any address
    cdef bint is_large

    cdef int64_t last(self) noexcept nogil


cdef class TextCells:
    cdef readonly size_t count
    cdef list memory
    cdef Offsets offsets
    cdef const uint8_t *validity    # NULL if no cell is null
    cdef size_t first               # the index of the first cell in `validity`
    cdef const uint8_t *text


cdef inline int64_t offset_at(Offsets offsets, size_t k) noexcept nogil:
    cdef int64_t large
    cdef int32_t small
    if offsets.is_large:
        memcpy(&large, offsets.place + k * sizeof(int64_t), sizeof(int64_t))
        return large
    memcpy(&small, offsets.place + k * sizeof(int32_t), sizeof(int32_t))
    return small


cdef inline bint is_cell_null(TextCells cells, size_t k) noexcept nogil:
    if cells.validity == NULL:
        return False
    k += cells.first
    return not cells.validity[k >> 3] >> (k & 7) & 1


cdef inline const uint8_t *cell_text(TextCells cells, size_t k, size_t *length) noexcept nogil:
    """The text of a cell that is not null."""
    cdef int64_t start = offset_at(cells.offsets, k)
    length[0] = <size_t> (offset_at(cells.offsets, k + 1) - start)
    return cells.text + start
