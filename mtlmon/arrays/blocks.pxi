# cython: language_level=3
"""Blocks of bytes that native loops process."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython cimport final, no_gc


# The garbage collector would clear the owner of the bytes before they are released, which would
# crash. As it does not traverse this object, it considers the owner to be in use for as long as
# this object exists.
@no_gc
@final
cdef class Block:
    """The bytes of an object with a buffer, which stay in place while the block exists."""

    def __cinit__(self, owner):
        PyObject_GetBuffer(owner, &self.view, PyBUF_SIMPLE)
        self.is_held = True
        self.data = <const uint8_t *> self.view.buf
        self.size = <size_t> self.view.len

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)
