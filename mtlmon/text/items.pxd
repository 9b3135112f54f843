# cython: language_level=3
"""Declarations for the reader of the items of a log line."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t


cdef enum ByteClass:
    BLANK
    LINE_FEED
    RETURN
    ATOM
    OTHER


cdef class ItemReader:
    cdef readonly AtomTable table
    cdef uint8_t classes[256]
    cdef uint8_t *unescaped
    cdef size_t unescaped_room
    # why and where the last line could not be read
    cdef LineError error
    cdef const uint8_t *error_place

    cdef const uint8_t *read_items(
        self, const uint8_t *place, const uint8_t *stop, uint64_t *letter
    ) noexcept nogil
    cdef const uint8_t *read_item(self, const uint8_t *place, uint64_t *letter) noexcept nogil
    cdef const uint8_t *read_quoted(
        self, const uint8_t *place, const uint8_t **name, size_t *name_length
    ) noexcept nogil
    cdef const uint8_t *fail(self, LineError error, const uint8_t *place) noexcept nogil


cdef inline bint ends_item(const uint8_t *classes, const uint8_t *place) noexcept nogil:
    return classes[place[0]] <= LINE_FEED or (place[0] == c'\r' and place[1] == c'\n')
