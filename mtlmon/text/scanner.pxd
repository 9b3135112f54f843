# cython: language_level=3
"""Declarations for the reader of text logs."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t


cdef enum ScanStatus:
    SCAN_FULL  # the batch is full; there may be more in the block
    SCAN_EMPTY  # every complete line of the block has been read
    SCAN_ERROR  # the next line cannot be read; `note_failure` records why


cdef class Scanner:
    cdef readonly tuple atoms
    cdef readonly str path
    cdef readonly bint skip_errors
    cdef readonly size_t letter_words
    cdef readonly uint64_t line_count
    cdef readonly uint64_t skipped_count

    cdef readonly object failure  # the LogError, or None
    # what has put the lines into the order of time, or None
    cdef public LineOrder order
    # whether a time-stamp may be below the one before
    cdef public bint takes_late

    cdef ItemReader items
    cdef uint64_t *occurrences

    # the block: lines from `cursor` to `stop` are complete, `rest` to `limit` has not been examined
    cdef const uint8_t *cursor
    cdef const uint8_t *stop
    cdef const uint8_t *rest
    cdef const uint8_t *limit
    # the start of a line whose end has not arrived yet
    cdef uint8_t *carry
    cdef size_t carry_size, carry_room
    cdef bint carry_is_line, in_long_line
    cdef bint is_of_rows            # whether a semicolon may follow a time-stamp

    # time has passed up to here without lines; 0 if it has not
    cdef uint64_t passed
    cdef LastTimeStamp last
    cdef TailMemo tails

    cdef LineError error
    cdef const uint8_t *error_line
    cdef const uint8_t *error_place

    cdef int check_failure(self) except -1
    cdef list read_events(self)
    cdef int note_failure(self) except -1
    cdef uint64_t line_in_log(self) noexcept
    cdef void load(self, const uint8_t *data, size_t size) noexcept nogil
    cdef void load_end(self) noexcept nogil
    cdef bint next_lines(self) noexcept nogil
    cdef bint keep(self, const uint8_t *data, size_t size, bint ends_line) noexcept nogil
    cdef size_t unread(self) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
    cdef void drop_carry(self) noexcept nogil
    cdef ScanStatus scan(
        self, uint64_t *time_stamps, uint64_t *letters, size_t capacity, size_t *count
    ) noexcept nogil
    cdef const uint8_t *skip_to_stamp(self, const uint8_t *place) noexcept nogil
    cdef const uint8_t *scan_time_stamp(
        self, const uint8_t *place, uint64_t *time_stamp
    ) noexcept nogil
    cdef const uint8_t *fail(self, LineError error, const uint8_t *place) noexcept nogil
    cdef const uint8_t *scan_line(
        self, const uint8_t *place, uint64_t *letter, uint64_t *time_stamp
    ) noexcept nogil


cdef const uint8_t *skip_byte_order_mark(const uint8_t *place) noexcept nogil
