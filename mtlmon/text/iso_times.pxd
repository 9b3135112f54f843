# cython: language_level=3
"""Declarations for times of ISO 8601."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t


cdef enum:
    # `2024-05-01T12:30:00.123456789Z` has 30 characters; a number is written with up to 8 bytes
    # behind its 20 digits
    ISO_ROOM = 32


cdef struct IsoText:
    # the text of a time-stamp, which is kept because most lines share it; and the day whose date is
    # at its beginning, or NO_DAY
    uint64_t time_stamp, day
    size_t size
    uint8_t text[ISO_ROOM]


cdef class IsoWriter:
    # a second has `per_second` time-stamps, or a time-stamp has `seconds`; the other one is 1
    cdef uint64_t per_second, seconds
    # a part of a second is so many nanoseconds
    cdef uint64_t nanoseconds
    # the last time-stamp before the year 10000
    cdef uint64_t last

    cdef uint8_t *put_lines(
        self, uint8_t *to, const uint8_t *line, const uint8_t *stop, size_t fields
    ) noexcept nogil
    cdef void set_text(self, IsoText *text, uint64_t time_stamp) noexcept nogil
