# cython: language_level=3
"""Declarations for the engine of first-order policies."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stddef cimport size_t
from mtlmon.policy.predicates.operations cimport Register
from mtlmon.arrays.native cimport KeyTable


cdef struct PointTime:
    int64_t time_stamp
    uint64_t offset


cdef class RelationalEngine:
    cdef readonly object plan
    cdef readonly KeyTable texts
    cdef readonly PointBlock points
    cdef readonly AnswerBlock answers
    cdef public bint wants_holding      # whether time-points without violations are answered
    cdef public bint skips_overflows    # whether a term that overflows has no value instead
    cdef public bint keeps_texts        # whether no text is forgotten, as others have its number
    cdef public size_t spare_texts      # how many texts may always be kept
    cdef size_t constants, kept_texts   # the texts of the plan; those that were kept last
    cdef readonly uint64_t overflows    # how many have been skipped
    cdef readonly object failure        # the error that ended it
    cdef Allocations allocations
    cdef list functions, descriptions
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
    cdef readonly bint is_closed        # whether no time-point comes any more
    cdef PointTime *times
    cdef size_t first_time, time_end, time_room
    cdef uint64_t time_base             # the number of the time-point at `times[0]`
    cdef uint64_t *found                # for each policy the time-points that violate it or match
    # scratch
    cdef RowSet seen
    cdef uint32_t *chain
    cdef uint32_t *order
    cdef uint32_t *spare
    cdef size_t chain_room, order_room, spare_room

    cdef int read_query(self, Query *query, plan) except -1
    cdef int forget_texts(self) except -1
    cdef void visit_texts(self, uint8_t *is_free, const TextUse *use) noexcept nogil
    cdef size_t most_slots(self) noexcept nogil
    cdef int require_sound(self) except -1
    cdef void forget_times(self) noexcept nogil
    cdef PointTime *time_of(self, uint64_t point) noexcept nogil
    cdef Rows *run_block(self, uint32_t number, Rows *given) except NULL nogil
    cdef Rows *run_step(self, Step *step, Rows *given) except NULL nogil
    cdef Rows *source_of(self, Step *step) except NULL nogil
    cdef int scan(self, Step *step, Rows *given) except -1 nogil
    cdef int scan_hashed(self, Step *step, Rows *given, Rows *source) except -1 nogil
    cdef int read_groups(self, State *state, plan) except -1
    cdef int note_wide_sum(self) except -1 nogil
    cdef int probe_groups(self, Step *step, Rows *given) except -1 nogil
    cdef bint value_of_group(
        self, Step *step, State *state, uint32_t slot, int64_t *value
    ) except -1 nogil
    cdef int probe(self, Step *step, Rows *given) except -1 nogil
    cdef int compute(self, Step *step, Rows *given) except -1 nogil
    cdef int evaluate(
        self, Program *program, const int64_t *row, Register *result
    ) except -1 nogil
    cdef int call(self, Step *step, Rows *given) except -1
    cdef int listed(self, Step *step, Rows *given) except -1 nogil
    cdef int branch(self, Step *step, Rows *given) except -1 nogil
    cdef int join_branches(self, Step *step, Rows *given) except -1 nogil
    cdef int project(self, Step *step, Rows *given) except -1 nogil
    cdef int aggregate(self, Step *step, Rows *given) except -1 nogil
    cdef int fold(
        self, Step *step, Rows *groups, const uint32_t *group_of, const int64_t *values,
        size_t count
    ) except -1 nogil
    cdef int fold_slowly(
        self, Step *step, Rows *groups, const uint32_t *group_of, const int64_t *values,
        size_t count
    ) except -1
    cdef int filter_live(self, State *state) except -1 nogil
    cdef int stand_at(self, Numbers *states) except -1 nogil
    cdef int relieve(self, Numbers *states) except -1 nogil
    cdef int take_point(self, int64_t time_stamp, size_t first_row, size_t end_row) except -1 nogil
    cdef int settle(self) except -1 nogil
    cdef bint is_ready(self, Query *query) noexcept nogil
    cdef int run_early(self, Query *query) except -1 nogil
    cdef int run_late(self, Query *query) except -1 nogil
    cdef int deliver(self, Query *query, Rows *rows) except -1 nogil
    cdef int answer(self, Query *query, Rows *rows) except -1 nogil
