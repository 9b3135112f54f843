# cython: language_level=3
"""Declarations for the transition table."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef enum:
    # A batch of events ends when this many verdicts wait.
    ENOUGH_VERDICTS = 1024


cdef enum:
    # An action: its effect on its own time-point, in two bits, a kind of verdict or ...
    OWN_EFFECT = 3
    ADDS_REGISTER = 3
    # ... whether a script does that and more, and the register referred to or the script.
    HAS_SCRIPT = 4
    OWN_BITS = 3


cdef struct Transition:
    uint32_t target         # configuration + 1, or 0 for an unknown transition
    uint32_t action


cdef struct Configuration:
    uint64_t hash
    uint32_t start          # of its key in the pool of words
    uint32_t length
    uint32_t later          # the first of its rows for later time-stamps
    # where their numbers by distance begin among `near_rows`, + 1; 0 if it has only few
    uint32_t near
    uint64_t settling       # larger distances of the next event behave like this one
    bint is_transient       # then also, if nothing is pending, like the initial state
    # how far behind its last time-stamp time alone can decide something; 0 if that is not known
    uint64_t due


cdef struct LaterRow:
    uint64_t distance       # from the previous time-stamp; at most the settling distance
    uint32_t following


cdef struct Script:
    # The verdicts of an event that concern more than its own time-point.
    uint64_t survivors      # bit i: register i stays
    uint32_t start          # of its operations in their pool
    uint32_t count
    uint32_t leading        # registers before the first that stays
    bint is_suffix          # whether all registers after that one stay too
    bint adds_register


cdef class Table:
    cdef Engine engine
    cdef bint is_used
    # Whether other states than the worker's use its configurations: then it does not forget any by
    # itself.
    cdef bint is_shared
    # whether a call ends, once it has verdicts, before an event that needs the engine
    cdef bint pauses_for_verdicts
    cdef size_t budget
    # if memory is limited: what transitions may use however much the configurations take
    cdef size_t spare
    # A letter's column is its number, or its index in the order of first occurrence.
    cdef uint32_t columns, letter_count
    cdef bint letters_are_columns
    cdef uint64_t *letters
    cdef uint32_t *letter_table

    cdef Configuration *configurations
    cdef uint32_t configuration_count, configuration_capacity
    cdef uint32_t *configuration_table
    cdef uint32_t configuration_table_size
    cdef Transition *present_rows       # by configuration and column
    cdef uint32_t present_capacity
    cdef LaterRow *later_rows
    cdef uint32_t later_count, later_row_capacity
    cdef Transition *later_transitions  # by row and column
    cdef uint32_t later_capacity
    cdef uint32_t *near_rows
    cdef uint32_t near_count, near_capacity
    cdef uint64_t *words
    cdef uint32_t word_count, word_capacity
    cdef Script *scripts
    cdef uint32_t script_count, script_capacity
    cdef uint32_t *operations
    cdef uint32_t operation_count, operation_capacity
    cdef Key key                        # scratch memory
    cdef Words registers                # the same, for registers that are read

    cdef uint64_t compactions           # of the workspace whose expressions are in the keys
    cdef int64_t credit
    cdef uint64_t pause, next_pause
    cdef size_t taken               # events of the last `run`, also of one that failed
    cdef readonly uint64_t hits, flushes

    cdef size_t run(
        self, State *state, const uint64_t *time_stamps, const uint64_t *letters, size_t stride,
        size_t count, Verdicts *verdicts, size_t first_place
    ) except? 0 nogil
    cdef const Transition *known(
        self, uint32_t configuration, uint64_t distance, uint64_t letter
    ) noexcept nogil
    cdef uint64_t next_change(self, State *state) except? 0 nogil
    cdef int structure(self, State *state) except -1 nogil
    cdef int require_structures(self, State *state) except -1 nogil
    cdef uint32_t find(self, const uint64_t *words, uint32_t length) noexcept nogil
    cdef int rest(self, State *state) except -1 nogil
    cdef int forget(self, void *kept, size_t stride, size_t count) except -1 nogil
    cdef void rehash(self) noexcept nogil
    cdef size_t bytes(self) noexcept nogil
    cdef size_t held_bytes(self) noexcept nogil
    cdef void set_budget(self, size_t share) noexcept nogil
    cdef void shrink(self) noexcept nogil

    cdef size_t _follow(
        self, State *state, const uint64_t *time_stamps, const uint64_t *letters, size_t count,
        Verdicts *verdicts, size_t first_place
    ) noexcept nogil
    cdef int _step(
        self, State *state, uint64_t time_stamp, const uint64_t *letter, Verdicts *verdicts,
        size_t place
    ) except -1 nogil
    cdef uint32_t _intern_letter(self, uint64_t letter) noexcept nogil
    cdef int _intern_key(self, const State *state, uint32_t *number) except -1 nogil
    cdef int _new_transition(
        self, uint32_t configuration, uint64_t distance, uint32_t column, Transition **transition
    ) except -1 nogil
    cdef int _index_rows(self, Configuration *configuration) except -1 nogil
    cdef bint _is_paused(self) noexcept nogil
    cdef int _find_action(self, State *state, uint32_t *action) except -1 nogil
    cdef int _new_script(self, State *state, uint32_t *action) except -1 nogil
    cdef uint32_t _position_of(
        self, const uint64_t *words, uint32_t length, uint64_t hash_value
    ) noexcept nogil
    cdef int _grow_configuration_table(self) except -1 nogil
    cdef bint _intern_state(self, State *state, uint32_t *number) except -1 nogil
