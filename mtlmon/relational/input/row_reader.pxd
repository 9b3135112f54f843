# cython: language_level=3
"""Declarations for the reader of the rows on a line."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t

from mtlmon.arrays.native cimport KeyTable
from mtlmon.relational.native cimport PointBlock
from mtlmon.text.native cimport AtomTable, ItemReader


cdef enum RowFault:
    NO_FAULT
    IN_QUOTES           # the fault is that of the reader of items
    NOT_A_NAME
    NO_VALUE
    NO_COMMA
    ROW_NOT_CLOSED
    BAD_VALUE
    BAD_TEXT
    WRONG_COUNT
    BEHIND_END


cdef class RowReader:
    cdef RelationTable table
    cdef PointBlock points
    cdef KeyTable texts
    cdef ItemReader items
    # atoms without arguments, and the letter that they are added to; None if none are asked for
    cdef AtomTable marks
    cdef uint64_t *letter
    # the bytes of bare values, and of bare names
    cdef uint8_t in_value[256]
    cdef uint8_t in_name[256]

    # what is wrong, where, and with which argument, or the number of values
    cdef RowFault fault
    cdef const uint8_t *fault_place
    cdef ReadRelation *fault_relation
    cdef size_t fault_argument, fault_count

    cdef const uint8_t *read_rows(self, const uint8_t *place) except? NULL nogil
    cdef const uint8_t *read_row(
        self, const uint8_t *place, ReadRelation *relation
    ) except? NULL nogil
    cdef bint add_value(
        self, ReadRelation *relation, size_t argument, int64_t *cells, const uint8_t *place,
        const uint8_t *text, size_t length
    ) except -1 nogil
    cdef bint is_without_values(self, const uint8_t *place) noexcept nogil
    cdef const uint8_t *read_end(self, const uint8_t *place) noexcept nogil
    cdef const uint8_t *read_quoted(
        self, const uint8_t *place, const uint8_t **text, size_t *length
    ) noexcept nogil
    cdef const uint8_t *fail(self, RowFault fault, const uint8_t *place) noexcept nogil
