# cython: language_level=3
"""Declarations for nested UNTILs: obligations with windows in absolute time."""

from libc.stdint cimport uint32_t, uint64_t


cdef struct FamilyEvent:
    # What the current event means to the obligations of a family.
    Expression left         # values of the operands at the event
    Expression right
    uint64_t stamp          # of images that belong to the event
    bint is_passed          # the obligations have been updated for the event
    bint is_general         # images must be computed; otherwise variables represent themselves


cdef int find_or_add(
    Family *family, uint64_t lower, uint64_t upper, uint64_t time_stamp, uint32_t *member
) except -1 nogil
cdef bint is_window(
    Family *family, uint32_t member, uint64_t lower, uint64_t upper, uint64_t time_stamp
) noexcept nogil
cdef int pass_event(
    Workspace workspace, Family *family, uint32_t number, uint64_t time_stamp, bint is_event,
    FamilyEvent *event, uint64_t *changed
) except -1 nogil
cdef Expression image_of_member(
    Workspace workspace, Family *family, uint32_t number, uint32_t member, FamilyEvent *event
) except? NO_EXPRESSION nogil
cdef Expression literal_of_member(
    Workspace workspace, uint32_t number, uint32_t member
) except? NO_EXPRESSION nogil
cdef uint32_t members_in_use(Family *family) noexcept nogil
cdef void sweep(Family *family, const unsigned char *is_mentioned) noexcept nogil
cdef size_t held_by_family(const Family *family) noexcept nogil
cdef void free_family(Family *family) noexcept nogil
