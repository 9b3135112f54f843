# cython: language_level=3
"""Declarations for the time-points of a log, and for when late blocks can be run."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef struct PointTime:
    int64_t time_stamp
    uint64_t offset             # of the time-point, among those of its time-stamp


cdef struct Awaited:
    # A state that a late block looks at.
    bint is_future
    bint is_neighbour
    bint is_earlier             # whether the answers about earlier time-points are enough
    int64_t upper               # -1: no bound
    Numbers operands            # the queries whose answers it takes


cdef struct LateQuery:
    uint32_t query
    Awaited *awaited
    uint32_t awaited_count
    uint64_t position           # the late block can be run at the time-points before it
    uint64_t reach              # how far ahead in time the late block looks
    # How many time-points had been read when the late block could be run, for those from `first`
    # to before `position`, which are new since `begin`.
    uint64_t first
    uint64_t *known
    size_t known_room


cdef class Timeline:
    cdef Allocations allocations
    cdef readonly bint is_of_stamps     # whether each time-stamp is a time-point, of that number
    cdef uint32_t query_count, late_count
    # The first late queries, which may need each other's answers about earlier time-points: they
    # are those of so many queries, which are run one time-point after another.
    cdef uint32_t joint_count, joint_queries
    cdef LateQuery *late
    cdef uint32_t *late_of              # of each query, or NONE
    cdef readonly uint64_t point_count
    cdef readonly int64_t clock         # no later time-point has a time-stamp below it
    cdef readonly bint is_closed        # whether no time-point comes any more
    cdef PointTime *times
    cdef size_t time_count, time_room
    cdef uint64_t base                  # the number of the time-point at `times[0]`

    cdef PointTime time_of(self, uint64_t point) noexcept nogil
    cdef uint64_t known_at(self, const LateQuery *late, uint64_t point) noexcept nogil
    cdef uint64_t position_of(self, uint32_t query) noexcept nogil
    cdef void begin(self) noexcept nogil
    cdef uint64_t add(self, int64_t time_stamp) except? 0 nogil
    cdef int end(self, int64_t clock, bint is_closed) except -1 nogil
    cdef bint is_ready(self, const LateQuery *late) noexcept nogil
    cdef int settle(self) except -1 nogil
    cdef int settle_late(self, size_t first, size_t end) except -1 nogil
    cdef int64_t due_of(self, const LateQuery *late) noexcept nogil
    cdef void forget(self) noexcept nogil
