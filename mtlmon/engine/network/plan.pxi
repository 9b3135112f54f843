# cython: language_level=3
"""The plan of a queue network: its operators and variables; and the memory of a state."""

from cython cimport final
from libc.stdlib cimport free


@final
cdef class NetworkPlan:
    """What the queue network of a formula is made of.

    Args:
        program: the formula; `choose_engine` has found that a network can monitor it.
    """

    def __cinit__(self, Program program not None):
        cdef uint32_t number, rows = program.instruction_count
        cdef const Instruction *instruction
        cdef Operator *temporal
        cdef bint left_is_known, right_is_known
        self.operators = <Operator *> zeros(rows, sizeof(Operator))
        self.operator_of = <uint32_t *> zeros(rows, sizeof(uint32_t))
        self.past = <uint32_t *> zeros(rows, sizeof(uint32_t))
        self.last_regular = MAX_TIME_STAMP()
        is_known = [True] * rows
        for number in range(1, rows):
            instruction = &program.instructions[number]
            left_is_known = is_known[instruction.left >> 1]
            right_is_known = is_known[instruction.right >> 1]
            if instruction.operation == OP_ATOM:
                continue
            if instruction.operation == OP_AND:
                is_known[number] = left_is_known and right_is_known
                continue
            self.operator_of[number] = self.operator_count
            temporal = &self.operators[self.operator_count]
            temporal.number = self.operator_count
            temporal.operation = instruction.operation
            if temporal.operation == OP_OUTER_UNTIL:
                temporal.operation = OP_UNTIL
            temporal.lower = instruction.lower
            temporal.upper = instruction.upper
            temporal.row = number
            temporal.left = instruction.left
            temporal.right = instruction.right
            temporal.left_slot = temporal.right_slot = NO_FUNCTION
            temporal.variable = NO_VARIABLE
            temporal.left_is_true = instruction.left == 1
            if temporal.operation in (OP_PREVIOUS, OP_SINCE):
                is_known[number] = left_is_known and right_is_known
            else:
                is_known[number] = False
            if not is_known[number]:
                if self.variable_count == MOST_VARIABLES:
                    raise ValueError("the formula has too many operators for a queue network")
                temporal.variable = self.variable_count
                if temporal.operation in (OP_NEXT, OP_UNTIL):
                    self.futures |= <uint64_t> 1 << self.variable_count
                self.variable_count += 1
            self.has_next |= temporal.operation == OP_NEXT
            self.has_deep_next |= temporal.operation == OP_NEXT and not left_is_known
            if not (left_is_known and right_is_known):
                if not temporal.left_is_true:
                    temporal.left_slot = self._new_slot(temporal.variable)
                if temporal.operation in (OP_SINCE, OP_UNTIL):
                    temporal.right_slot = self._new_slot(temporal.variable)
            if temporal.variable != NO_VARIABLE:
                self.of_variable[temporal.variable] = temporal[0]
            if temporal.operation == OP_UNTIL:
                self.last_regular = min(self.last_regular, MAX_TIME_STAMP() - temporal.lower)
            self.operator_count += 1
        for has_variable in (False, True):
            self.known_past_count = self.past_count
            for number in range(self.operator_count):
                temporal = &self.operators[number]
                if temporal.operation in (OP_PREVIOUS, OP_SINCE) and (
                    (temporal.variable != NO_VARIABLE) == has_variable
                ):
                    self.past[self.past_count] = number
                    self.past_count += 1
        self.words = words_of(self.variable_count)
        if self.slots == 0:
            self._rank()
        else:
            self._find_pairs(program)

    cdef int _rank(self) except -1:
        """Find the UNTILs of a flat formula that differ in their intervals only."""
        cdef const Operator *one
        cdef const Operator *other
        cdef uint32_t i, k
        cdef uint64_t bit, other_bit
        by_end = sorted(
            (self.of_variable[i].upper, i) for i in range(self.variable_count)
            if self.of_variable[i].operation == OP_UNTIL
        )
        for _, i in reversed(by_end):
            one = &self.of_variable[i]
            bit = <uint64_t> 1 << i
            for upper, k in by_end:
                other = &self.of_variable[k]
                if i == k or one.left != other.left or one.right != other.right:
                    continue
                other_bit = <uint64_t> 1 << k
                self.families[i] |= bit | other_bit
                if (upper, k) < (one.upper, i):
                    self.ends_before[i] |= other_bit
                    if upper == one.upper:
                        self.ends_with[i] |= other_bit
                if other.lower <= one.lower:
                    self.begun[i] |= bit | other_bit
            if self.families[i]:
                self.ranked[self.ranked_count] = i
                self.ranked_count += 1
            if self.begun[i]:
                if one.lower == 0:
                    self.begun_at_once |= bit
                else:
                    self.beginners |= bit
        return 0

    cdef int _find_pairs(self, Program program) except -1:
        """Find EVENTUALLYs over UNTILs that are used both as they are and negated."""
        cdef const Instruction *instruction
        cdef const Operator *outer
        cdef const Operator *inner
        cdef uint32_t number, i, k
        uses = [0] * program.instruction_count      # 1 as it is, 2 negated, 3 both
        below = [0] * program.instruction_count     # variables
        uses[program.root >> 1] = 1
        for number in range(program.instruction_count - 1, 0, -1):
            instruction = &program.instructions[number]
            for operand in (instruction.left, instruction.right):
                use = uses[number]
                uses[operand >> 1] |= use >> 1 | (use & 1) << 1 if operand & 1 else use
        for i in range(self.variable_count):
            below[self.of_variable[i].row] = 1 << i
        for number in range(1, program.instruction_count):
            instruction = &program.instructions[number]
            if instruction.operation != OP_ATOM:
                below[number] |= below[instruction.left >> 1] | below[instruction.right >> 1]
        for k in range(self.variable_count):
            outer = &self.of_variable[k]
            if outer.operation != OP_UNTIL or not outer.left_is_true or not has_sets(outer):
                continue
            for i in range(k):
                inner = &self.of_variable[i]
                if (
                    inner.operation == OP_UNTIL and inner.lower == 0 and not has_sets(inner)
                    and inner.left_slot == NO_FUNCTION and uses[inner.row] == 3
                    and below[outer.right >> 1] >> i & 1
                ):
                    self.pairs[self.pair_count].outer = k
                    self.pairs[self.pair_count].inner = i
                    self.pair_count += 1
        return 0

    cdef uint64_t nearest(self, uint32_t variable, uint64_t later) noexcept nogil:
        """Of some that end later, the one that ends first, as a set; empty if there is none."""
        cdef uint64_t found = 0
        cdef uint32_t i
        for i in range(self.ranked_count):
            if self.ranked[i] == variable:
                return found
            if later >> self.ranked[i] & 1:
                found = <uint64_t> 1 << self.ranked[i]
        return found

    cdef uint32_t _new_slot(self, uint32_t variable) noexcept:
        """Place a function of a block, an operand of the operator with this variable.

        Operands come before operators, so it depends on variables below this one.
        """
        cdef uint32_t slot = self.slots
        self.slot_starts[slot] = <uint32_t> self.block_words
        self.slot_words[slot] = words_of(variable)
        self.slot_variables[slot] = (<uint64_t> 1 << variable) - 1
        self.block_words += self.slot_words[slot]
        self.slots += 1
        return slot

    def __dealloc__(self):
        free(self.operators)
        free(self.operator_of)
        free(self.past)


cdef inline bint has_sets(const Operator *temporal) noexcept nogil:
    """Whether blocks can be decided in another order than that of time."""
    return temporal.right_slot != NO_FUNCTION


cdef Network *new_network(NetworkPlan plan) except NULL:
    """Allocate the state of a network that has seen no event."""
    cdef Network *network = <Network *> zeros(1, sizeof(Network))
    cdef bint is_done = False
    try:
        network.free_class = NONE
        network.state = NO_STATE
        network.queues = <Queue *> zeros(plan.operator_count, sizeof(Queue))
        network.queue_count = plan.operator_count
        network.pairs = <Bits *> zeros(plan.pair_count * PAIR_SETS, sizeof(Bits))
        network.pair_count = plan.pair_count
        network.block_words = plan.block_words
        network.present_words = 3 * <size_t> plan.operator_count * plan.words
        network.present = <uint64_t *> zeros(network.present_words, sizeof(uint64_t))
        is_done = True
    finally:
        if not is_done:
            free_network(network)
    return network


cdef void free_network(Network *network) noexcept nogil:
    cdef uint32_t k
    if network == NULL:
        return
    for k in range(network.queue_count):
        free(network.queues[k].spans)
    free(network.queues)
    free(network.pairs)
    free(network.blocks)
    free(network.functions)
    free(network.set_words)
    free(network.present)
    free(network.classes)
    free(network.class_functions)
    free(network.decisions)
    free(network.dirty)
    free(network.stale)
    free(network.seen)
    free(network)


cdef size_t held_by_network(const Network *network) noexcept nogil:
    """The bytes that the state of a network takes."""
    cdef size_t held = sizeof(Network)
    cdef uint32_t k
    held += <size_t> network.capacity * (
        sizeof(TimeBlock) + network.block_words * sizeof(uint64_t)
    )
    held += network.set_word_count * sizeof(uint64_t)
    held += network.pair_count * PAIR_SETS * sizeof(Bits)
    held += network.queue_count * sizeof(Queue) + network.present_words * sizeof(uint64_t)
    held += network.class_capacity * sizeof(TimePointClass)
    held += network.class_function_capacity * sizeof(uint64_t)
    held += network.decision_capacity * sizeof(Decision)
    held += (
        <size_t> network.dirty_capacity + network.stale_capacity + network.seen_capacity
    ) * sizeof(uint32_t)
    for k in range(network.queue_count):
        held += network.queues[k].span_capacity * sizeof(Span)
    return held
