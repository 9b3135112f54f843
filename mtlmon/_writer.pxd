# cython: language_level=3
"""The writer of verdict lines, for use from C."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t

from mtlmon._verdict cimport VerdictRecord


cdef enum VerdictFilter:
    FILTER_ALL
    FILTER_BOOLEAN
    FILTER_FALSE
    FILTER_NONE


cdef class Writer:
    cdef uint8_t *data
    # what is written stands from `taken` up to `size`
    cdef size_t taken, size, room
    # the present time-stamp's text with its colon, kept because most lines share it
    cdef uint64_t time_stamp
    cdef size_t prefix_size
    cdef uint8_t prefix[24]

    cdef bint write(
        self, const VerdictRecord *verdicts, size_t count, VerdictFilter filter
    ) noexcept nogil
    cdef bint append(self, const uint8_t *text, size_t size) noexcept nogil
    cdef bint reserve(self, size_t count) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef size_t pending(self) noexcept nogil
