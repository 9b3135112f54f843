# cython: language_level=3
"""The clock that loops read to return in time. It is safe to read in a signal handler."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec


cdef inline int64_t nanoseconds() noexcept nogil:
    """The nanoseconds since some moment before the process started."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t> now.tv_sec * 1000000000 + now.tv_nsec
