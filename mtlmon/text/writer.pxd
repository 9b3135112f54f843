# cython: language_level=3
"""Declarations for the writer of verdict lines."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from mtlmon.engine.native cimport VerdictRecord, VerdictRun, Verdicts


cdef enum VerdictFilter:
    FILTER_ALL
    FILTER_BOOLEAN
    FILTER_FALSE
    FILTER_NONE


cdef enum:
    # two time-points of 20 + 1 + 20 characters, " = " and a line feed, and the rest of a word after
    # them; a label comes on top
    LINE_ROOM = 104
    # the same numbers, and what comes between and after them
    JSON_LINE_ROOM = 136
    # what comes after the offset of a JSON line, and a short label of JSON lines
    JSON_END_ROOM = 40
    SHORT_JSON_LABEL = 32
    LONGEST_LABEL = 4096
    # room is made for this many lines at a time
    LINES_AT_ONCE = 512


cdef struct Prefix:
    # the text of a time-stamp: `high_size` characters of two words, for the digits before the last
    # eight, and `low` for the last eight; the last three digits begin at bit `units_shift`
    uint64_t time_stamp
    uint64_t thousands
    unsigned units_shift
    uint64_t high_value
    uint64_t high[2]
    size_t high_size
    uint64_t low
    size_t size


cdef class Writer:
    # the text at the start of every line, and how much room a line takes at most
    cdef readonly bytes label
    cdef const uint8_t *label_text
    cdef size_t label_size, line_room
    # whether lines are JSON objects
    cdef readonly bint is_json
    cdef uint8_t *data
    # the written text is from `taken` up to `size`
    cdef size_t taken, size, room
    # for a signal handler, while the owner does other work: nothing changes any of these fields;
    # and the records whose lines come next, if there are any, with the kinds that are wanted
    cdef bint is_idle
    cdef const Verdicts *next_records
    cdef VerdictFilter next_filter
    # the last time-stamps, kept because most lines share them
    cdef Prefix prefix, reference_prefix
    # the text after the time-point of a verdict, by its kind: a word, and how much of it counts
    cdef uint64_t ends[3]
    cdef size_t end_sizes[3]
    # for JSON lines: the label if it is short, and the text after the offset by kind of verdict
    cdef uint8_t short_label[SHORT_JSON_LABEL]
    cdef uint8_t json_ends[3 * JSON_END_ROOM]
    cdef size_t json_end_sizes[3]
    # the numbers below 1000 with three digits, and without leading zeros, with their size in the
    # highest byte
    cdef uint32_t three_digits[1000]
    cdef uint32_t few_digits[1000]

    cdef bint write(
        self, const VerdictRecord *verdicts, size_t count, VerdictFilter filter
    ) noexcept nogil
    cdef bint write_runs(
        self, const VerdictRun *runs, size_t count, VerdictFilter filter
    ) noexcept nogil
    cdef int set_json_texts(self) except -1
    cdef bint write_behind(
        self, const uint8_t *text, size_t size, const VerdictRecord *verdict
    ) noexcept nogil
    cdef bint write_object(
        self,
        const uint8_t *text,
        size_t size,
        const uint8_t *time_text,
        size_t time_size,
        const VerdictRecord *verdict,
    ) noexcept nogil
    cdef bint append(self, const uint8_t *text, size_t size) noexcept nogil
    cdef bint reserve(self, size_t count) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef size_t pending(self) noexcept nogil


cdef size_t put_wanted_lines(
    Writer writer, uint8_t *place, const VerdictRecord *verdicts, size_t count,
    VerdictFilter filter
) noexcept nogil
