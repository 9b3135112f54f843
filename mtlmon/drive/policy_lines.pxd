# cython: language_level=3
"""Declarations for writing the verdicts of several policies and streams as lines."""

from libc.stdint cimport uint8_t, uint32_t

from mtlmon.arrays.native cimport KeyTable
from mtlmon.text.native cimport Writer


cdef struct Fields:
    # the beginning of a line: escaped fields, each followed by a tab, or members of a JSON object
    uint8_t *text
    uint32_t size, room


cdef class PolicyLines(Sink):
    cdef readonly Writer writer
    cdef KeyTable keys
    cdef Fields *names              # the names of the policies
    cdef uint32_t policy_count
    cdef Fields key                 # the key of the last line, whose number was `key_stream`
    cdef uint32_t key_stream
    cdef bint has_key               # whether `key` is set, and keys have the same numbers since
    cdef Fields both                # the name of a policy, followed by that key
    cdef uint32_t both_policy       # the number of that policy, or NO_POLICY
    # for JSON lines with keys: the text before each part of the key, and before the time-stamp
    cdef Fields *members
    cdef size_t member_count
    # for JSON lines: the concatenated members with the texts of times, and where each member ends
    cdef Fields times
    cdef uint32_t *time_ends
    cdef uint32_t time_room

    cdef int set_times(self, list texts) except -1
    cdef int put_line(
        self, const VerdictRecord *record, uint32_t stream, uint32_t policy,
        const uint32_t *time_text
    ) except -1 nogil
    cdef int set_key(self, uint32_t stream) except -1 nogil
