# cython: language_level=3
"""Declarations for the canonical form of a state of expressions."""

from libc.stdint cimport uint32_t, uint64_t


cdef int write_expressions(Engine engine, State *state, Words *words) except -1 nogil
cdef bint read_expressions(Engine engine, State *state, WordReader *reader) except -1 nogil
cdef bint expressions_are_equal(
    Engine engine, const State *state, const State *other
) except -1
