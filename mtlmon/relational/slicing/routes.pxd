# cython: language_level=3
"""Declarations for finding the slices of rows and the owners of answers."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from mtlmon.arrays.native cimport KeyTable


cdef enum:
    MOST_SLICED = 6             # variables of a policy
    MOST_SLICES = 1024
    TARGET_WORDS = 16           # with a bit for each slice


cdef struct SlicedGrid:
    uint32_t shares[MOST_SLICED]
    uint32_t strides[MOST_SLICED]
    uint64_t seeds[MOST_SLICED]


cdef struct SlicedPolicy:
    uint32_t variables
    uint32_t places[MOST_SLICED]        # of the variables in answers
    bint is_text[MOST_SLICED]
    int64_t *heavy[MOST_SLICED]         # their frequent values, sorted
    size_t heavy_count[MOST_SLICED]
    SlicedGrid *grids
    uint32_t grid_count
    Numbers grid_of                     # by the set of variables with frequent values
    uint32_t home
    uint32_t reported                   # how many columns of an answer are reported
    uint32_t rank                       # of its answers among those that are found together


cdef struct Route:
    # The slices of a row in a grid: the one of its parts, and so many more.
    SlicedGrid *grid
    Numbers parts


cdef struct Match:
    # An occurrence of an atom.
    SlicedPolicy *policy
    uint32_t arguments[MOST_SLICED]     # of the row, for each variable, or NONE
    Numbers fixed                       # arguments that equal constants
    int64_t *constants
    Numbers equal                       # pairs of arguments that are equal
    uint32_t *first_route               # by the set of variables with frequent values
    Route *routes


cdef class Router:
    cdef readonly KeyTable texts
    cdef readonly uint32_t slices
    cdef Allocations allocations
    cdef uint32_t policy_count, atom_count
    cdef SlicedPolicy *policies
    cdef Match *matches
    cdef uint32_t *first_match          # by atom

    cdef uint32_t owner(self, uint32_t policy, const int64_t *cells) noexcept nogil
    cdef void route(self, uint32_t atom, const int64_t *cells, uint64_t *targets) noexcept nogil
