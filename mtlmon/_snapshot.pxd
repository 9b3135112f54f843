# cython: language_level=3
"""A state as bytes and back."""

from libc.stdint cimport uint32_t, uint64_t

from mtlmon._encoding cimport NumberReader, NumberWriter
from mtlmon._engine cimport Engine, State
from mtlmon._entries cimport Mode
from mtlmon._expressions cimport Workspace
from mtlmon._nodes cimport Expression


cdef bytes encode(Engine engine, State *state)
cdef int decode(Engine engine, State *state, Mode mode, snapshot) except -1


cdef class _Writer(NumberWriter):
    cdef dict numbers           # node -> its place among the expressions written
    cdef Workspace workspace

    cdef int put_reference(self, Expression expression) except -1
    cdef int put_variable(self, uint32_t slot) except -1
    cdef int put_nodes(self) except -1
    cdef int put_node(self, uint32_t node, list order) except -1


cdef class _Reader(NumberReader):
    cdef Workspace workspace
    cdef list expressions       # by place among the expressions written

    cdef Expression get_reference(self) except? 0
    cdef uint32_t get_variable(self) except? 0
    cdef int get_nodes(self) except -1
    cdef Expression get_node(self, list order) except? 0
