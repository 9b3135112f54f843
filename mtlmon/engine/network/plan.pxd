# cython: language_level=3
"""Declarations for the plan and the state of a queue network."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef enum:
    NO_VARIABLE = 0xFF
    NO_FUNCTION = 0xFFFFFFFF
    # what a decided variable is worth
    WORTH_FALSE = 0
    WORTH_TRUE = 1
    WORTH_IMPLIED = 2       # of a pair: the outer one is true if the inner one is
    # sets of a queue
    UNDECIDED = 0           # anchors: blocks whose variable is undecided
    NOT_TRUE = 1            # blocks throughout which the left operand is not known to hold
    KNOWN_FALSE = 2         # blocks in which the left operand is known to be violated
    NOT_FALSE = 3           # blocks that may have a witness
    KNOWN_TRUE = 4          # blocks that are known to have a witness
    QUEUE_SETS = 5
    # sets of a pair
    FALSE_HALVES = 0        # blocks with a witness if the inner variable is false
    TRUE_HALVES = 1         # and if it is true
    INDEPENDENT = 2         # closed blocks whose inner variable does not imply the outer one yet
    PAIR_SETS = 3
    MOST_TAIL_PAIRS = 36


cdef struct Operator:
    # A temporal operator of the formula.
    uint64_t lower
    uint64_t upper          # UNBOUNDED() if there is no limit
    uint32_t row
    uint32_t number
    uint32_t left, right    # operands, as in an Instruction
    # functions of a block that tell what the operands do in it; NO_FUNCTION if they are known at
    # once, and for the right operand of PREVIOUS and NEXT
    uint32_t left_slot, right_slot
    uint8_t operation
    # the number of the variable that stands for the operator's value before a block (PREVIOUS,
    # SINCE) or behind it (NEXT, UNTIL); NO_VARIABLE if it is known at once
    uint8_t variable
    bint left_is_true


cdef struct TailPair:
    # Variables of an EVENTUALLY and of an UNTIL below it, used in both ways, whose window begins at
    # once and whose operands are known at once.
    uint32_t outer, inner


cdef struct Span:
    # time-stamps of witnesses, from the first to the last
    uint64_t first, last


cdef struct Queue:
    Bits sets[QUEUE_SETS]
    int64_t undecided_count
    int64_t late_count      # of undecided anchors below `open`
    # the first block whose window time has not closed; and without sets, the first that can be
    # undecided
    int64_t open
    # UNTIL: no block below it needs to tell what the operands do in it; and without sets, the first
    # block whose window has not begun;
    # SINCE: what the operands do in the blocks below is known, and kept as spans
    int64_t settled
    # where searches for the ends of intervals found their last block: in the order of witnesses and
    # of anchors
    int64_t lower_hint, upper_hint, start_hint
    Span *spans             # of witnesses behind which the left operand has held, in order of time
    uint32_t span_first, span_count, span_capacity


cdef struct TimeBlock:
    # The time-points of one time-stamp.
    uint64_t time_stamp
    uint16_t unknown        # the undecided variables that something in the block depends on
    uint8_t is_dirty        # a function of a class has changed during this event
    uint8_t is_stale        # it may wait for variables that nothing depends on any more
    uint32_t state          # in the automaton of closed blocks, or NO_STATE
    uint32_t first_class, last_class


cdef struct TimePointClass:
    # Undecided time-points of one block whose value is the same function: entries of the history.
    uint32_t first_member, last_member
    uint32_t following      # the next class of the block


cdef struct Decision:
    int64_t position        # of a block
    uint32_t temporal
    uint8_t worth


cdef struct Network:
    TimeBlock *blocks
    # of closed blocks without a state: those of their slots, so many words for each block
    uint64_t *functions
    size_t block_words
    int64_t first, count, capacity
    bint is_open            # time-points can still join the last block
    uint32_t state          # of the last block in the automaton, or NO_STATE
    # whether the functions of that state are also below, as they are without a state
    bint is_unfolded
    uint64_t now
    Queue *queues           # by operator
    uint32_t queue_count
    uint64_t *set_words     # of the sets of all queues
    size_t set_word_count
    Bits *pairs             # sets of all pairs
    uint32_t pair_count
    # of the last block, by operator: what the left and the right operand do in it, and the value of
    # the operator at the last time-point
    uint64_t *present
    size_t present_words
    TimePointClass *classes
    uint64_t *class_functions
    uint32_t class_count, class_capacity, class_function_capacity, free_class
    Decision *decisions
    uint32_t decision_count, decision_capacity
    int64_t decision_room   # so many blocks can be decided at once
    uint32_t *dirty         # blocks
    uint32_t dirty_count, dirty_capacity
    uint32_t *stale         # blocks
    uint32_t stale_count, stale_capacity
    uint32_t *seen          # scratch memory: classes by their functions
    uint32_t seen_capacity


cdef class NetworkPlan:
    # What the queue network of a formula is made of. Immutable.
    cdef Operator *operators
    cdef uint32_t operator_count
    cdef uint32_t *operator_of      # by row
    cdef Operator of_variable[MOST_VARIABLES]   # the operator of each variable
    cdef uint32_t variable_count
    cdef uint64_t futures           # the variables of NEXT and UNTIL
    cdef uint32_t *past             # PREVIOUS and SINCE, first those without a variable
    cdef uint32_t past_count, known_past_count
    cdef uint64_t last_regular      # no window of an earlier anchor begins after the end of time
    cdef bint has_next
    cdef bint has_deep_next         # whether a NEXT has an operand that can be undecided
    cdef uint32_t words             # of a function
    cdef uint32_t slots             # functions of a block
    # of each of these: where it begins, its words, and the variables that it can depend on
    cdef uint32_t slot_starts[2 * MOST_VARIABLES]
    cdef uint32_t slot_words[2 * MOST_VARIABLES]
    cdef uint64_t slot_variables[2 * MOST_VARIABLES]
    cdef size_t block_words         # of all functions of a block
    # In a flat formula, UNTILs that differ in their intervals only, in the order in which their
    # windows end, the latest first
    cdef uint32_t ranked[MOST_VARIABLES]
    cdef uint32_t ranked_count
    # of each of these: all with its operands; those before whose end it does not end, and of these,
    # those that end at the same time
    cdef uint64_t families[MOST_VARIABLES]
    cdef uint64_t ends_before[MOST_VARIABLES]
    cdef uint64_t ends_with[MOST_VARIABLES]
    cdef uint64_t begun_at_once     # whose windows begin with their block, if there are several
    cdef uint64_t beginners         # those whose windows begin later, when others have begun
    cdef uint64_t begun[MOST_VARIABLES]     # of each of these: itself and those others

    cdef TailPair pairs[MOST_TAIL_PAIRS]
    cdef uint32_t pair_count

    cdef uint32_t _new_slot(self, uint32_t variable) noexcept
    cdef int _rank(self) except -1
    cdef int _find_pairs(self, Program program) except -1
    cdef uint64_t nearest(self, uint32_t variable, uint64_t later) noexcept nogil


cdef Network *new_network(NetworkPlan plan) except NULL
cdef void free_network(Network *network) noexcept nogil
cdef size_t held_by_network(const Network *network) noexcept nogil
