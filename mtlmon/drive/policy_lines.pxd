# cython: language_level=3
"""Declarations for writing the verdicts of several policies and streams as lines."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t

from cpython.ref cimport PyObject

from mtlmon.arrays.native cimport KeyTable
from mtlmon.text.native cimport Writer


cdef struct Fields:
    # the beginning of a line: escaped fields, each followed by a tab, or members of a JSON object
    uint8_t *text
    uint32_t size, room


cdef struct LineKeys:
    # The keys of one partition.
    PyObject *table                 # their KeyTable, borrowed; NULL if the partition has one stream
    size_t *columns                 # for each key column of lines, that of the table, or NO_COLUMN
    Fields key                      # the key of the last line, whose number was `stream`
    uint32_t stream
    bint has_key                    # whether `key` is set, and keys have the same numbers since


cdef class PolicyLines(Sink):
    cdef readonly Writer writer
    cdef list tables                # the KeyTables that `keys` refer to
    cdef LineKeys *keys             # by partition
    cdef uint32_t partition_count
    cdef size_t column_count        # the key columns of lines
    cdef Fields *names              # the names of the policies
    cdef LineKeys **keys_of         # those of the policy's partition, by policy
    cdef uint32_t policy_count
    cdef Fields both                # the name of a policy, and the last key of its partition
    cdef uint32_t both_policy       # the number of that policy, or NO_POLICY
    # for JSON lines with keys: the text before each part of the key, and before the time-stamp
    cdef Fields *members
    cdef size_t member_count
    # for JSON lines: the concatenated members with the texts of times, and where each member ends
    cdef Fields times
    cdef uint32_t *time_ends
    cdef uint32_t time_room
    # for JSON lines: for each policy the end of a line of a violation, and of another; or NULL
    cdef Fields *endings
    # for text lines: the names of files, escaped, and what follows a verdict
    cdef Fields *file_names
    cdef size_t file_count
    cdef Fields row_text

    cdef int set_partitions(self, list tables, list partitions, list places) except -1
    cdef int set_times(self, list texts) except -1
    cdef int set_endings(self, list endings) except -1
    cdef int put_ending(self, const Fields *ending) except -1 nogil
    cdef int set_files(self, list names) except -1
    cdef int put_row(self, uint32_t file, int64_t row) except -1 nogil
    cdef int put_line(
        self, const VerdictRecord *record, uint32_t stream, uint32_t policy,
        const uint32_t *time_text
    ) except -1 nogil
    cdef int set_key(self, LineKeys *keys, uint32_t stream) except -1 nogil
    cdef void forget_keys(self) noexcept nogil
