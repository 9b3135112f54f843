# cython: language_level=3
"""Declarations for the reader of verdict lines."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t

from mtlmon.engine.native cimport VerdictRecord


cdef enum LineStatus:
    LINE_READ
    LINE_NONE  # every complete line of the block has been read
    LINE_ERROR  # the next line cannot be read; `failure` says why


cdef class VerdictLines:
    cdef readonly str path
    cdef readonly uint64_t line_count
    # the text before the time-point of the last line read, including its tab; empty if there is
    # none
    cdef const uint8_t *prefix
    cdef size_t prefix_size
    # the block, from the first unread byte to its end
    cdef const uint8_t *rest
    cdef const uint8_t *limit
    # the start of a line whose end was not in its block; complete if `carry_is_line`
    cdef uint8_t *carry
    cdef size_t carry_size, carry_room
    cdef bint carry_is_line
    # the last line read
    cdef const uint8_t *line
    cdef const uint8_t *line_end
    cdef LineError error
    cdef const uint8_t *error_place

    cdef void load(self, const uint8_t *data, size_t size) noexcept nogil
    cdef void load_end(self) noexcept nogil
    cdef LineStatus read(self, VerdictRecord *verdict) noexcept nogil
    cdef bint next_line(self) noexcept nogil
    cdef bint keep(self, const uint8_t *data, size_t size) noexcept nogil
    cdef bint parse(
        self, const uint8_t *place, const uint8_t *end, VerdictRecord *verdict
    ) noexcept nogil
    cdef const uint8_t *parse_time_point(
        self, const uint8_t *place, uint64_t *time_stamp, uint64_t *offset
    ) noexcept nogil
    cdef bint fail(self, LineError error, const uint8_t *place) noexcept nogil
    cdef object failure(self, str message=*)
