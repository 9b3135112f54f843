# cython: language_level=3
"""Declarations for the loop from log lines to verdict lines."""

from libc.stdint cimport uint64_t

from mtlmon.arrays.native cimport Block
from mtlmon.engine.native cimport MemoryHolder, MemoryLimit, NumberReader, Session
from mtlmon.text.native cimport ScanStatus, Scanner, Writer


cdef class TextMonitor(MemoryHolder):
    cdef Session monitor
    cdef SessionLoop loop
    cdef readonly Scanner scanner
    cdef readonly Writer writer
    cdef FirstLine first            # None unless "first" is wanted
    cdef ScanStatus status
    cdef Block block
    # the bytes of the log that were loaded, and whether its end was loaded
    cdef uint64_t loaded
    cdef bint has_end
    # what another thread has scanned, whether the next blocks come from there, and the bytes that
    # all batches take
    cdef ScannedBatch batch
    cdef bint has_batch
    cdef size_t batch_bytes
    cdef readonly MemoryLimit memory

    cdef int work(self, bint scans) except -1 nogil
    cdef bint has_stopped(self) noexcept nogil
    cdef bint is_drained(self) noexcept
    cdef uint64_t kind(self) noexcept
    cdef int read_first(self, NumberReader reader) except -1
