# cython: language_level=3
"""Declarations for snapshots, which encode a state as bytes."""

from libc.stdint cimport uint32_t, uint64_t


cdef bytes encode(Engine engine, State *state)
cdef int decode(Engine engine, State *state, Mode mode, snapshot) except -1

# The same without a head, for callers that write one head for many states.
cdef bytes kind_of(Engine engine, Mode mode)
cdef bytes encode_body(Engine engine, State *state)
cdef int decode_body(Engine engine, State *state, Mode mode, bytes data, size_t place) except -1


cdef class _Writer(NumberWriter):
    cdef dict numbers           # node -> its index among the written expressions
    cdef dict places            # (family, member) -> its index among the members in use
    cdef Workspace workspace

    cdef int put_reference(self, Expression expression) except -1
    cdef int place_members(self, uint32_t number, const Family *family) except -1
    cdef tuple variable(self, uint32_t slot)
    cdef int put_variable(self, tuple variable) except -1
    cdef int put_nodes(self) except -1
    cdef int put_node(self, uint32_t node, list order) except -1


cdef class _Reader(NumberReader):
    cdef Workspace workspace
    cdef list expressions       # by index among the written expressions
    cdef dict members           # (family, number in the snapshot) -> member
    cdef list member_counts     # by family: how many members are named so far

    cdef Expression get_reference(self) except? 0
    cdef uint32_t get_variable(self) except? 0
    cdef uint32_t get_member(self, uint32_t family) except? 0
    cdef int get_nodes(self) except -1
    cdef Expression get_node(self, list order) except? 0
