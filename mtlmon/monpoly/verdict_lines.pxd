# cython: language_level=3
"""Declarations for verdicts as MonPoly writes them."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t

from mtlmon.arrays.native cimport KeyTable
from mtlmon.relational.native cimport Answer, AnswerBlock, Rows
from mtlmon.text.native cimport Writer


cdef struct WrittenColumn:
    uint32_t place              # of the variable among those of an answer
    uint8_t type                # how MonPoly writes it


cdef class VerdictLines:
    cdef readonly Writer writer
    cdef KeyTable texts
    cdef WrittenColumn *columns
    cdef uint32_t *kinds        # of the cells of each column
    cdef uint32_t width         # the number of columns
    cdef uint32_t variable_count
    # the rows of a time-point, and their order
    cdef Rows rows
    cdef uint32_t *order
    cdef uint32_t *spare
    cdef uint32_t cell_room, order_room, spare_room

    cdef size_t put_point(self, AnswerBlock answers, size_t first) except 0 nogil
    cdef int sort(self) except -1 nogil
    cdef int put_row(self, const int64_t *cells) except -1 nogil
    cdef uint8_t *put_value(self, uint8_t *place, size_t column, int64_t cell) except NULL nogil
