# cython: language_level=3
"""Declarations for the engine of first-order policies."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from mtlmon.arrays.native cimport KeyTable


cdef class RelationalEngine:
    cdef readonly object plan
    cdef readonly KeyTable texts
    cdef readonly Timeline timeline
    cdef bint is_slice                  # whether others share the timeline
    cdef readonly PointBlock points
    cdef readonly AnswerBlock answers
    cdef public bint wants_holding      # whether time-points without violations are answered
    cdef public bint skips_overflows    # whether a term that overflows has no value instead
    cdef public size_t most_rows        # how many rows a step may make at a time-point
    cdef public str limit_name          # how errors call this number
    cdef public bint pauses_at_found    # whether `advance` returns behind violations and matches
    cdef public bint pauses             # whether it returns behind each time-point
    cdef public bint keeps_texts        # whether no text is forgotten, as others have its number
    cdef public size_t spare_texts      # how many texts may always be kept
    cdef size_t constants, kept_texts   # the texts of the plan; those that were kept last
    cdef readonly uint64_t overflows    # how many have been skipped
    cdef readonly object failure        # the error that ended it
    cdef bint has_closed                # whether there are closed policies
    cdef bint has_found                 # whether there are violations or matches since a pause
    cdef uint32_t current               # the query that is evaluated
    cdef Allocations allocations
    cdef list functions, descriptions
    cdef dict closed                    # the monitors of closed policies, by the policy's number
    # the plan
    cdef uint32_t atom_count, state_count, block_count, program_count, query_count, group_count
    cdef uint32_t policy_count
    cdef State *states
    cdef StepBlock *blocks
    cdef Program *programs
    cdef Query *queries
    cdef Numbers *atom_texts            # the arguments of each atom that are texts
    cdef Numbers *kinds                 # of the cells of the answers of each policy
    # the present
    cdef Rows *database                 # the rows of each atom at the last time-point
    cdef Rows *groups                   # what aggregates have made
    cdef Rows **atoms                   # the rows of each atom at the time-point that is evaluated
    cdef Rows *kept                     # rows of atoms at earlier time-points
    cdef Rows unit                      # one row without cells
    cdef uint64_t here
    cdef int64_t now
    cdef uint32_t point_atom, time_atom     # the built-in atoms, or NONE
    # the log
    cdef readonly uint64_t point_count
    cdef readonly int64_t clock         # no later time-point has a time-stamp below it
    # The numbers of the time-points taken in, if there are late blocks to be run at them.
    cdef uint64_t *taken
    cdef size_t taken_count, taken_room
    cdef uint64_t taken_base            # how many came before that at `taken[0]`
    cdef uint64_t *found                # for each policy the time-points that violate it or match
    cdef uint64_t *valuations           # for each policy its violations or matches
    cdef uint64_t *triggered            # for each policy the valuations of its left side
    # scratch
    cdef RowSet seen
    cdef uint32_t *chain
    cdef uint32_t *order
    cdef uint32_t *spare
    cdef size_t chain_room, order_room, spare_room

    cdef int require_sound(self) except -1
    cdef int fail(self, error) except -1
    cdef void forget_taken(self) noexcept nogil
    cdef int take_next(self) except -1 nogil
    cdef int take_point(
        self, uint64_t number, int64_t time_stamp, size_t first_row, size_t end_row
    ) except -1 nogil
    cdef object next_late_due(self)
    cdef uint64_t due(self, const LateQuery *late) noexcept nogil
    cdef int run_due(self, uint64_t limit) except -1 nogil
    cdef int run_joint(self, uint64_t limit) except -1 nogil
    cdef int settle(self) except -1 nogil
