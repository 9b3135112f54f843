# cython: language_level=3
"""The reader of verdict lines, for use from C."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t

from mtlmon.engine.native cimport VerdictRecord


cdef enum LineStatus:
    LINE_READ
    LINE_NONE  # every complete line of the block has been read
    LINE_ERROR  # the next line cannot be read; `failure` tells why


cdef class VerdictLines:
    cdef readonly str path
    cdef readonly uint64_t line_count
    # what stands before the time-point of the line read last, with its tab; empty if there is none
    cdef const uint8_t *prefix
    cdef size_t prefix_size
    # the block from what is not read yet to its end
    cdef const uint8_t *rest
    cdef const uint8_t *limit
    # the beginning of a line whose end was not in its block; whole if `carry_is_line`
    cdef uint8_t *carry
    cdef size_t carry_size, carry_room
    cdef bint carry_is_line
    # the line read last
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
