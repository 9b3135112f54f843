# cython: language_level=3
"""Declarations for checking whether a signal is about to end the process."""

cdef bint is_signalled() noexcept nogil
cdef void note_signal(int number) noexcept nogil
