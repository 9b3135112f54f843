# cython: language_level=3
"""Declarations for processing one event."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef enum:
    NO_CONFIGURATION = 0xFFFFFFFF


cdef struct Register:
    # A pending time-point.
    uint64_t time_stamp
    uint64_t offset
    uint64_t weight             # time-points it represents: itself and its equivalents


cdef struct State:
    # Everything that a monitor remembers. Expressions are numbers of the engine's workspace. The
    # fields marked as structure are out of date while `is_structured` is false; then the
    # configuration, which is a number of a transition table, and the registers hold the same
    # information.
    uint32_t configuration
    bint is_structured
    Register *registers         # of the pending time-points, in order of time, from the base on
    uint32_t register_base
    uint32_t register_count
    History history             # structure, except for its counters and verdicts
    Family *families            # by family; structure
    uint32_t family_count
    Witnesses *witnesses        # by SINCE; structure
    uint32_t since_count
    Expression *stored          # by PREVIOUS: its operand at the last event; structure
    Network *network            # if a queue network monitors the formula, instead of the above
    uint32_t previous_count
    uint64_t time_stamp         # of the last event
    uint64_t offset             # of the last event
    # of an event that is the first of its time-stamp; 0 unless events before it are left out
    uint64_t first_offset
    uint64_t clock              # no event is below it
    uint64_t event_count
    uint64_t stamp              # number of the last event or advance
    # the number of the evaluation that made the structures, if nothing has changed them since, or 0
    uint64_t evaluation


cdef struct Moment:
    # The current event, or a time without an event, as the images of slots need it.
    uint64_t time_stamp
    uint64_t changed            # bits of the kinds of variables whose meaning has changed
    Family *families
    FamilyEvent *family_events
    const Expression *fixed_images
    const uint32_t *slot_outer
    const OuterUntil *outer_untils


cdef inline void set_next_offset(State *state, uint64_t time_stamp, uint64_t offset) noexcept nogil:
    """Let the next event, which has this time-stamp, have an offset; clear `first_offset` later."""
    state.first_offset = offset
    if state.event_count and state.time_stamp == time_stamp:
        state.offset = offset - 1


cdef int init_state(State *state, Program program, Mode mode) except -1
cdef void free_state(State *state) noexcept nogil
cdef void held_by_state(const State *state, HeldBytes *held) noexcept nogil


cdef class Engine:
    # A program in use by one thread: the workspace, and scratch memory for one event.
    cdef Program program
    cdef Workspace workspace
    cdef QueueNetwork network           # None if the formula needs expressions
    cdef bint is_shared                 # whether other code sees to the compaction of the workspace
    cdef bint kinds_are_exact           # whether no two kinds of variables share a bit
    cdef Expression *values             # by instruction
    cdef uint64_t evaluation            # how many events have been evaluated
    cdef PastRows past                  # None if all instructions are evaluated at every event
    cdef Expression *fixed_images       # by fixed slot
    cdef FamilyEvent *family_events     # by family
    cdef uint32_t *present_members      # by instruction: its obligation from the last event
    cdef Expression **roots
    cdef uint32_t root_count, root_capacity
    cdef uint8_t *is_mentioned
    cdef uint32_t is_mentioned_capacity
    # for canonical forms: the numbers of nodes, all 0 in between, the expressions that have a
    # number, and the words that mention them
    cdef uint32_t *numbers
    cdef uint32_t number_capacity
    cdef uint32_t *named
    cdef uint32_t named_count, named_capacity
    cdef Words mentions

    cdef int step(self, State *state, uint64_t time_stamp, const uint64_t *letter) except -1 nogil
    cdef int advance(self, State *state, uint64_t time_stamp) except -1 nogil
    cdef int end(self, State *state) except -1 nogil
    cdef uint64_t next_change(self, const State *state) noexcept nogil
    cdef void count_held(self, HeldBytes *held) noexcept nogil
    cdef void set_limit(self, MemoryLimit memory)
    cdef void set_room(self, MemoryLimit memory) noexcept nogil

    cdef void _begin(self, State *state, uint64_t time_stamp, Moment *moment) noexcept nogil
    cdef int _evaluate_rows(
        self, State *state, const uint64_t *letter, Moment *moment, const uint32_t *rows,
        uint32_t count
    ) except -1 nogil
    cdef int _evaluate_changed(
        self, PastRows past, State *state, const uint64_t *letter, Moment *moment
    ) except -1 nogil
    cdef Expression _operand(self, uint32_t operand) noexcept nogil
    cdef int _evaluate(
        self, State *state, const Instruction *instruction, uint32_t number, Moment *moment
    ) except -1 nogil
    cdef Expression _previous(
        self, State *state, const Instruction *instruction, Moment *moment
    ) except? NO_EXPRESSION nogil
    cdef Expression _next(
        self, State *state, const Instruction *instruction, Moment *moment
    ) except? NO_EXPRESSION nogil
    cdef Expression _until(
        self, Workspace workspace, State *state, const Instruction *instruction,
        uint32_t number, Moment *moment
    ) except? NO_EXPRESSION nogil
    cdef Expression _outer_until(
        self, Workspace workspace, const Instruction *instruction, Moment *moment
    ) except? NO_EXPRESSION nogil
    cdef void _find_absorption(self, Workspace workspace, State *state) noexcept nogil
    cdef int _pass_time(
        self, Workspace workspace, State *state, const Instruction *instruction, Moment *moment
    ) except -1 nogil
    cdef int _tidy(self, State *state) except -1 nogil
    cdef int _collect_roots(self, State *state) except -1 nogil
    cdef int _add_root(self, Expression *root) except -1 nogil
    cdef int _add_roots(self, State *state) except -1 nogil
    cdef int _sweep(self, Workspace workspace, State *state, uint32_t family) except -1 nogil
    cdef int compact(self, State *state) except -1
    cdef int _check(self, State *state) except -1
