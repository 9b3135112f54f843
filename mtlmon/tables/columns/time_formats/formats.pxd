# cython: language_level=3
"""Declarations for reading times that are written in a given format."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef enum:
    DAY = 86400
    # the first of three years without a 29th of February: a year if none is told
    ASSUMED_YEAR = 1973
    ASSUMED_YEAR_DAYS = 365


cdef struct Parts:
    uint64_t year, month, day, day_of_year
    uint64_t hour, minute, second, fraction
    int64_t offset
    int64_t seconds         # since 1970, if has_seconds
    bint has_seconds, has_day_of_year, is_twelve_hours, is_afternoon, has_offset


cdef class TimeFormat:
    cdef readonly str text
    # pairs of bytes: "%" and a directive; 0 and a literal byte; or two blanks for any number of
    # blanks
    cdef bytes steps
    cdef const uint8_t *place
    cdef size_t size
    # Whether a year, and whether a day, is written.
    cdef readonly bint has_year, has_date
    # the seconds after which times are written in the same way again; 0 if they never are, or if
    # this is after a year
    cdef int64_t cycle
    # the year in which a log begins whose times have none; 0 if it is not told
    cdef readonly int64_t first_year
    # whether times may also be written as in ISO 8601
    cdef readonly bint or_iso

cdef bint read_parts(
    TimeFormat format, const uint8_t *text, const uint8_t *end, Parts *parts
) noexcept nogil
cdef ParseStatus assemble(const Parts *parts, int64_t year, Instant *instant) noexcept nogil
