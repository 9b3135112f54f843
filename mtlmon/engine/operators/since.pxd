# cython: language_level=3
"""Declarations for SINCE: its witnesses, and the expressions they depend on."""

from libc.stdint cimport uint32_t, uint64_t


cdef struct Run:
    # Witnesses at `first`, `last` and so close in between that they count as one interval.
    uint64_t first
    uint64_t last
    Expression expression   # the right operand at that time, and the left operand ever since


cdef struct Witnesses:
    Run *runs               # a ring, in order of time
    uint32_t head
    uint32_t count
    uint32_t capacity       # 0 or a power of two
    uint32_t symbolic       # how many runs have an expression other than TRUE
    Expression settled      # without upper bound: the disjunction of all that are old enough


cdef int grow(Witnesses *witnesses) except -1 nogil
cdef Expression since_event(
    Workspace workspace, Witnesses *witnesses, uint64_t lower, uint64_t upper,
    uint64_t time_stamp, Expression left, Expression right, uint64_t changed, ImageOf image_of,
    void *context
) except? NO_EXPRESSION nogil
cdef int since_time(
    Workspace workspace, Witnesses *witnesses, uint64_t upper, uint64_t time_stamp,
    uint64_t changed, ImageOf image_of, void *context
) except -1 nogil


cdef inline Run *run_at(const Witnesses *witnesses, uint32_t position) noexcept nogil:
    """The run at a position; position 0 is the earliest run."""
    return &witnesses.runs[(witnesses.head + position) & (witnesses.capacity - 1)]
