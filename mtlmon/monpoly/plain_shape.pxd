# cython: language_level=3
"""Declarations for the shape of plain lines."""

from libc.stdint cimport int64_t, uint8_t

from mtlmon.relational.input.native cimport ReadRelation, RelationTable


cdef class PlainShape:
    cdef RelationTable relations
    # what class each byte has, as bits
    cdef uint8_t classes[256]

    cdef const uint8_t *behind_line(
        self, const uint8_t *place, const uint8_t *stop, int64_t *time_stamp, bint *is_ended
    ) noexcept nogil
    cdef const uint8_t *behind_row(
        self, const uint8_t *place, const uint8_t *stop, const ReadRelation *relation
    ) noexcept nogil
    cdef const uint8_t *behind_value(
        self, const uint8_t *place, const uint8_t *stop, uint8_t kind
    ) noexcept nogil
    cdef const uint8_t *behind_digits(
        self, const uint8_t *place, size_t most
    ) noexcept nogil
    cdef const uint8_t *behind_blanks(self, const uint8_t *place) noexcept nogil
