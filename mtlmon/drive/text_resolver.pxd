# cython: language_level=3
"""Declarations for the loop that converts verdict lines to Boolean verdict lines."""

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
    # puts the verdicts of each stream in order, if `in_order` is set
    cdef Sequencer sequencer
    cdef bint in_order
    cdef VerdictFilter filter
    cdef LineStatus status
    # the current stream: 0 for lines without a prefix, else the number of the prefix + 1, or
    # NO_PREFIX if the prefix has no number
    cdef size_t stream
    # whether the text has ended; if so, the verdicts of the streams before this one are written
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
