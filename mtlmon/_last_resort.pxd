# cython: language_level=3
"""The process's end after a signal, for use from C."""

cdef bint is_signalled() noexcept nogil
