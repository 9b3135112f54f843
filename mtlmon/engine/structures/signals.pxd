# cython: language_level=3
"""Whether a signal is about to end the process, which long operations look at."""

cdef bint is_signalled() noexcept nogil
cdef void note_signal(int number) noexcept nogil
