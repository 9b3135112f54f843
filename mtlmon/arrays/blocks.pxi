# cython: language_level=3
"""Blocks of bytes that native loops work on."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython cimport final, no_gc


# The garbage collector would drop the owner of the bytes before they are released, a crash. As
# it does not look into this object, it takes the owner to be in use until this object goes.
@no_gc
@final
cdef class Block:
    """The bytes of an object that has a buffer, which stay where they are while this lives."""

    def __cinit__(self, owner):
        PyObject_GetBuffer(owner, &self.view, PyBUF_SIMPLE)
        self.is_held = True
        self.data = <const uint8_t *> self.view.buf
        self.size = <size_t> self.view.len

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)
