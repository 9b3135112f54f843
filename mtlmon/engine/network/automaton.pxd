# cython: language_level=3
"""Declarations for the automata of open and of closed blocks."""

from libc.stdint cimport uint16_t, uint32_t, uint64_t


cdef enum:
    NO_STATE = 0xFFFFFFFF
    # What becomes of a class of time-points, or of a new time-point, at an event: it is decided, or
    # it is the class of this number, counted from OUTCOME_CLASS on.
    OUTCOME_FALSE = 0
    OUTCOME_TRUE = 1
    OUTCOME_CLASS = 2
    MOST_CLASSES = 32       # of a state
    # What happens to a closed block, with a variable in the bits above: it is decided, what the
    # operator's operands do no longer matters, or its window begins. Behind the codes of all
    # variables is that of equal classes that are to be merged, then those of pairs whose inner
    # variable implies the outer one.
    CLOSED_FALSE = 0
    CLOSED_TRUE = 1
    CLOSED_SILENCE = 2
    CLOSED_BEGIN = 3
    CLOSED_BITS = 2
    CLOSED_MERGE = 4
    CLOSED_IMPLY = 5


cdef struct BlockState:
    # An open block that waits for no earlier block, or a closed one. Sets of variables have a bit
    # for each of them.
    uint64_t hash
    uint32_t start          # of its functions: those of operators, then those of classes
    uint32_t class_count
    uint32_t closed         # what an open block is once it is closed, + 1; 0 if that is not known
    bint is_empty           # no time-point has come yet
    uint16_t unknown        # the variables that classes depend on; in a closed block, that all do
    # operators with a variable whose operand has a known value in the block
    uint16_t left_true, left_false, right_true, right_false
    uint16_t silent         # operators of which a closed block says nothing that matters
    # What earlier blocks are told at once, 16 bits for each kind of news: the operand of a NEXT is
    # known, there is a witness, the left operand is violated, and that without a witness.
    uint64_t news
    # UNTIL: what they are told when the block is closed
    uint16_t ends_left_true, ends_right_false
    # pairs: whether the outer operator has a witness in the block if the inner one is false behind
    # it, and if that is true
    uint64_t false_halves, true_halves
    uint16_t supports[2 * MOST_VARIABLES]   # by slot: the variables that its function depends on


cdef struct BlockStep:
    # What an event makes of an open block, with its letter, or what a CLOSED code makes of a closed
    # one. From NO_STATE, the letter has the heads of a new block.
    uint64_t letter
    uint32_t source, target
    uint32_t outcomes       # where those of the classes of the source begin
    uint32_t own            # the outcome of the event's own time-point
    bint keeps_classes      # each class stays by itself
    # Of a closed block: whether two classes of the target are equal, variables that nothing depends
    # on any more, and operators whose operands have become known, and are true.
    bint has_twins
    uint16_t lost
    uint16_t left_known, left_true, right_known, right_true


cdef class BlockAutomaton:
    # The states that blocks have had, and what became of them.
    cdef size_t operator_words      # of the functions of operators in a state
    cdef uint32_t words             # of the function of a class
    cdef size_t most_function_words  # of all states
    cdef uint32_t most_states, most_steps
    cdef uint32_t codes             # of what can happen to a closed block; 0 for open ones
    cdef uint32_t *successors       # of closed states, by code: the number of the step + 1, or 0
    cdef uint32_t successor_capacity
    cdef BlockState *states
    cdef uint32_t state_count, state_capacity
    cdef uint64_t *functions
    cdef uint32_t function_count, function_capacity
    cdef BlockStep *steps
    cdef uint32_t step_count, step_capacity
    cdef uint32_t *outcomes
    cdef uint32_t outcome_count, outcome_capacity
    cdef uint32_t *state_table      # open addressing: number + 1, or 0
    cdef uint32_t *step_table
    cdef uint32_t state_table_size, step_table_size
    cdef bint is_full               # and learns no more

    cdef size_t held_bytes(self) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef const uint64_t *functions_of(self, uint32_t state) noexcept nogil
    cdef const BlockStep *find_step(self, uint32_t source, uint64_t letter) noexcept nogil
    cdef int add_step(self, const BlockStep *step, const uint32_t *outcomes) except -1 nogil
    cdef int intern(
        self, const BlockState *state, const uint64_t *functions, uint32_t *number
    ) except -1 nogil
    cdef void _put_step(self, uint32_t number) noexcept nogil
    cdef void _put_state(self, uint32_t number) noexcept nogil
