# cython: language_level=3
"""Declarations for updating the history at an event."""

from libc.stdint cimport uint32_t, uint64_t


# The image of a slot at the current event, for time-points of the time-stamp `anchor`.
ctypedef Expression (*AnchoredImage)(
    Workspace workspace, void *context, uint32_t slot, uint64_t anchor
) except? NO_EXPRESSION nogil


cdef int update_pending(
    Workspace workspace, History *history, uint64_t time_stamp, uint64_t changed,
    AnchoredImage image_of, void *context
) except -1 nogil
cdef int add_time_point(
    Workspace workspace, History *history, uint64_t time_stamp, uint64_t offset,
    Expression expression
) except -1 nogil
cdef void watch(Workspace workspace, History *history, uint32_t number) noexcept nogil
cdef void finish_verdicts(History *history) noexcept nogil
cdef int check_history(Workspace workspace, History *history) except -1
