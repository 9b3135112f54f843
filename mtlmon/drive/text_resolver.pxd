# cython: language_level=3
"""Declarations for the loop from verdict lines to Boolean verdict lines."""

from libc.stddef cimport size_t

from mtlmon.arrays.native cimport Block
from mtlmon.engine.native cimport MemoryHolder, MemoryLimit, VerdictRecord
from mtlmon.verdicts.native cimport Resolver, Sequencer
from mtlmon.text.native cimport LineStatus, VerdictFilter, VerdictLines, Writer


cdef class TextResolver(MemoryHolder):
    cdef readonly VerdictLines lines
    cdef readonly Writer writer
    cdef Resolver resolver
    cdef PrefixTable prefixes
    # None unless verdicts are wanted in the order of their streams
    cdef Sequencer sequencer
    cdef bint in_order
    cdef VerdictFilter filter
    cdef LineStatus status
    # the stream whose verdicts are being written: 0 without a prefix, else its number + 1
    cdef size_t stream
    # the log has ended, and the verdicts held for the streams before this one are written
    cdef bint is_ended
    cdef size_t ended_stream
    cdef Block block
    cdef readonly MemoryLimit memory

    cdef int work(self) except -1 nogil
    cdef int take(self, const VerdictRecord *verdict) except -1 nogil
    cdef bint find_stream(self, const VerdictRecord *verdict) noexcept nogil
    cdef int hold(self, const VerdictRecord *verdict) except -1 nogil
    cdef bint write_some(self) except -1 nogil
    cdef bint write_held(self) except -1 nogil
    cdef bint write(self, const VerdictRecord *verdicts, size_t count) noexcept nogil
