# cython: language_level=3
"""Declarations for snapshots, which encode a state as bytes."""

from libc.stddef cimport size_t


cdef bytes encode(Table table, State *state)
cdef int decode(Table table, State *state, Mode mode, snapshot) except -1

# The same without a head, for callers that write one head for many states.
cdef bytes kind_of(Engine engine, Mode mode)
cdef bytes encode_body(Table table, State *state)
cdef int decode_body(Table table, State *state, Mode mode, bytes data, size_t place) except -1
