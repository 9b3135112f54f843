# cython: language_level=3
"""Declarations for writing answers as lines."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from mtlmon.arrays.native cimport KeyTable
from mtlmon.relational.native cimport AnswerBlock
from mtlmon.text.native cimport VerdictFilter, Writer


cdef struct NamedVariable:
    # the text before its value: ` (u=` or `, f=`
    const uint8_t *name
    size_t length
    uint8_t kind


cdef struct ReportedPolicy:
    # the text at the beginning of its lines
    const uint8_t *label
    size_t label_length
    NamedVariable *variables
    uint32_t width
    # the first variables are a key, and have fields of their own: for each field the variable, or
    # -1 if it is empty
    uint32_t key_width
    int32_t *key_fields
    uint32_t key_field_count
    # the room that a line takes at most, without texts
    size_t room


cdef class AnswerLines:
    cdef readonly Writer writer
    cdef KeyTable texts
    cdef VerdictFilter filter
    cdef ReportedPolicy *policies
    cdef uint32_t policy_count
    cdef list kept

    cdef uint8_t *put_key(
        self, uint8_t *place, const ReportedPolicy *policy, const int64_t *cells
    ) noexcept nogil
    cdef int put_line(
        self, AnswerBlock answers, size_t number, const uint8_t *ending, size_t ending_length
    ) except -1 nogil
