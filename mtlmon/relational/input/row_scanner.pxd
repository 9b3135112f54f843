# cython: language_level=3
"""Declarations for the reader of logs of relations."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from mtlmon.arrays.native cimport Block, KeyTable
from mtlmon.relational.native cimport PointBlock
from mtlmon.text.native cimport AtomTable, ScanStatus, Scanner


cdef class RowScanner:
    # the lines and their time-stamps; it knows no atoms
    cdef readonly Scanner lines
    cdef readonly RelationTable table
    cdef readonly PointBlock points
    cdef readonly KeyTable texts
    cdef readonly uint64_t point_count
    cdef RowReader reader
    # for each time-point that was read last, the letter of its atoms without arguments
    cdef AtomTable marks
    cdef uint64_t *letters
    cdef uint32_t letter_room
    # whether the lines of time-points are wanted, and those of the ones that were read last
    cdef bint numbers_lines
    cdef uint64_t *line_numbers
    cdef uint32_t line_room
    cdef size_t line_count
    cdef Block block
    # the bytes of the log that have been loaded, and whether its end has
    cdef uint64_t loaded
    cdef bint has_end
    cdef ScanStatus status

    cdef int scan(self, size_t most) except -1 nogil
    cdef const uint8_t *scan_point(self, const uint8_t *place) except? NULL nogil
    cdef int note_failure(self) except -1
