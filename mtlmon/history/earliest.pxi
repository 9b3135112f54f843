# cython: language_level=3
"""The least of the times of many traces, one of which changes at a time.

It tells what is final in all traces. PERF: to look at all traces after each batch took most of the
time where a batch has a thousand events of a hundred thousand traces.
"""

from libc.stddef cimport size_t
from libc.stdint cimport SIZE_MAX, UINT64_MAX, uint32_t, uint64_t
from libc.stdlib cimport free, malloc


cdef int make_leaves(Earliest *earliest, size_t count) except -1 nogil:
    """Make sure that the traces with numbers below `count` have leaves; new ones have no time."""
    cdef size_t leaves = max(earliest.leaves, <size_t> 1)
    cdef size_t k
    cdef uint64_t *times
    while leaves < count:
        leaves *= 2
    if leaves == earliest.leaves:
        return 0
    times = NULL
    if leaves <= SIZE_MAX // (2 * sizeof(uint64_t)):
        times = <uint64_t *> malloc(2 * leaves * sizeof(uint64_t))
    if times == NULL:
        with gil:
            raise MemoryError("mtlmon: out of memory")
    for k in range(leaves):
        times[leaves + k] = (
            earliest.times[earliest.leaves + k] if k < earliest.leaves else UINT64_MAX
        )
    for k in range(leaves - 1, 0, -1):
        times[k] = min(times[2 * k], times[2 * k + 1])
    free(earliest.times)
    earliest.times = times
    earliest.leaves = leaves
    return 0


cdef void set_time(Earliest *earliest, uint32_t number, uint64_t time_stamp) noexcept nogil:
    """Give a trace another time; UINT64_MAX if it has none."""
    cdef size_t k = earliest.leaves + number
    cdef uint64_t least
    earliest.times[k] = time_stamp
    while k > 1:
        k //= 2
        least = min(earliest.times[2 * k], earliest.times[2 * k + 1])
        if least == earliest.times[k]:
            return
        earliest.times[k] = least
