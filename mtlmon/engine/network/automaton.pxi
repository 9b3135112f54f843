# cython: language_level=3
"""The automata of blocks: what an event makes of an open one, and a decision of a closed one.

What the time-points of a block make of it depends on their letters, and on the values of PREVIOUS
and SINCE before the block, but not on time. So while no operator waits for an earlier block, an
open block has few *states*: the functions of its classes, and what operands do in it. Letters lead
from one to another, whatever the bounds, the clock, and the number of blocks that are pending: a
step has the next state, the new classes of the old time-points and of the new one, and the values
that earlier blocks are told. Unlike keys of the transition table, states contain no ages. `_unfold`
writes a state out where other code needs its functions.

A closed block has a state in another automaton, whatever it waits for: the functions of its slots
and classes. A decided variable leads to the next state, as does an operator to which the block no
longer matters; a step has the classes that are decided, the operands that become known, and the
variables that nothing depends on any more. `_write_out` gives the block functions of its own.

Networks refer to states by number, so states and steps are forgotten all at once, under a memory
limit, after every block was given functions of its own (`detach`). When the memory for them is used
up, blocks in other states do without. So do open blocks that wait for an earlier one: there, every
row is evaluated at every event.

Where gaps between events are irregular, the transition table has many different keys while
something is pending. The automata serve there, and where operators nest deeply.

PERF: before closed blocks had states, each decision substituted in all of their functions and
looked for the variables that they still depended on: eight EVENTUALLY and ALWAYS in turn took 865
ns an event instead of 530, at one event for each time-stamp.
"""

from cython cimport final
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset


cdef extern from *:
    """
    /* Builds that check themselves have little room, so that tests come across its end. */
    #ifndef MTLMON_CHECKS
    #define MTLMON_CHECKS 0
    #endif
    #if MTLMON_CHECKS
    enum { MOST_STATES = 1 << 4, MOST_STEPS = 1 << 6 };
    enum { MOST_CLOSED_STATES = 1 << 5, MOST_CLOSED_STEPS = 1 << 7 };
    #else
    enum { MOST_STATES = 1 << 9, MOST_STEPS = 1 << 12 };
    enum { MOST_CLOSED_STATES = 1 << 12, MOST_CLOSED_STEPS = 1 << 15 };
    #endif
    """
    cdef enum:
        MOST_STATES
        MOST_STEPS
        MOST_CLOSED_STATES
        MOST_CLOSED_STEPS

cdef enum:
    MOST_STATE_WORDS = 1 << 15      # of the functions of all states, for functions of one word


@final
cdef class BlockAutomaton:
    """The states that blocks have had, and what events made of them."""

    def __cinit__(self, NetworkPlan plan not None, bint is_open):
        self.words = plan.words
        self.most_function_words = <size_t> MOST_STATE_WORDS * (1 + plan.words // 8)
        self.operator_words = plan.block_words
        self.most_states = MOST_CLOSED_STATES
        self.most_steps = MOST_CLOSED_STEPS
        self.codes = (plan.variable_count << CLOSED_BITS) + 1 + plan.pair_count
        if is_open:
            self.codes = 0
            self.operator_words = 3 * <size_t> plan.operator_count * plan.words
            self.most_states = MOST_STATES
            self.most_steps = MOST_STEPS

    def __dealloc__(self):
        self.clear()

    cdef void clear(self) noexcept nogil:
        """Forget all states and steps."""
        free(self.states)
        free(self.functions)
        free(self.steps)
        free(self.outcomes)
        free(self.successors)
        free(self.state_table)
        free(self.step_table)
        self.states = NULL
        self.functions = NULL
        self.steps = NULL
        self.outcomes = self.successors = self.state_table = self.step_table = NULL
        self.state_count = self.state_capacity = 0
        self.function_count = self.function_capacity = 0
        self.step_count = self.step_capacity = 0
        self.outcome_count = self.outcome_capacity = 0
        self.successor_capacity = self.state_table_size = self.step_table_size = 0
        self.is_full = False

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the arrays take."""
        cdef size_t held = (
            self.state_capacity * sizeof(BlockState) + self.function_capacity * sizeof(uint64_t)
            + self.step_capacity * sizeof(BlockStep) + self.outcome_capacity * sizeof(uint32_t)
        )
        held += (
            <size_t> self.state_table_size + self.step_table_size + self.successor_capacity
        ) * sizeof(uint32_t)
        return held

    cdef const uint64_t *functions_of(self, uint32_t state) noexcept nogil:
        """The functions of a state; the next state may move them."""
        return self.functions + self.states[state].start

    cdef const BlockStep *find_step(self, uint32_t source, uint64_t letter) noexcept nogil:
        """The step from a state with a letter, or NULL if it is not known."""
        cdef uint32_t limit = self.step_table_size - 1
        cdef uint32_t position
        cdef const BlockStep *step
        if self.codes:
            position = self.successors[<size_t> source * self.codes + letter]
            return &self.steps[position - 1] if position else NULL
        position = step_home(source, letter) & limit
        if self.step_table == NULL:
            return NULL
        while self.step_table[position]:
            step = &self.steps[self.step_table[position] - 1]
            if step.source == source and step.letter == letter:
                return step
            position = (position + 1) & limit
        return NULL

    cdef int add_step(self, const BlockStep *step, const uint32_t *outcomes) except -1 nogil:
        """Add a step that is not known yet, unless there is no room."""
        cdef uint32_t count = 0
        if self.step_count == self.most_steps:
            self.is_full = True
            return 0
        if step.source != NO_STATE:
            count = self.states[step.source].class_count
        reserve(
            <void **> &self.steps, &self.step_capacity, <size_t> self.step_count + 1,
            sizeof(BlockStep)
        )
        reserve(
            <void **> &self.outcomes, &self.outcome_capacity,
            <size_t> self.outcome_count + count, sizeof(uint32_t)
        )
        self.steps[self.step_count] = step[0]
        self.steps[self.step_count].outcomes = self.outcome_count
        if count:
            memcpy(self.outcomes + self.outcome_count, outcomes, count * sizeof(uint32_t))
        self.outcome_count += count
        if self.codes:
            self.successors[<size_t> step.source * self.codes + step.letter] = self.step_count + 1
            self.step_count += 1
            return 0
        if 2 * (self.step_count + 1) > self.step_table_size:
            double_table(&self.step_table, &self.step_table_size)
            for count in range(self.step_count):
                self._put_step(count)
        self._put_step(self.step_count)
        self.step_count += 1
        return 0

    cdef void _put_step(self, uint32_t number) noexcept nogil:
        cdef uint32_t limit = self.step_table_size - 1
        cdef uint32_t position = (
            step_home(self.steps[number].source, self.steps[number].letter) & limit
        )
        while self.step_table[position]:
            position = (position + 1) & limit
        self.step_table[position] = number + 1

    cdef int intern(
        self, const BlockState *state, const uint64_t *functions, uint32_t *number
    ) except -1 nogil:
        """The number of a state with these functions, or NO_STATE if there is no room for it."""
        cdef size_t size = self.operator_words + <size_t> state.class_count * self.words
        cdef uint64_t hash_value = (
            hash_words(functions, <uint32_t> size) ^ state.is_empty
        ) + state.class_count
        cdef uint32_t i, position
        cdef const BlockState *known
        if 2 * (self.state_count + 1) > self.state_table_size:
            double_table(&self.state_table, &self.state_table_size)
            for i in range(self.state_count):
                self._put_state(i)
        position = hash_value & (self.state_table_size - 1)
        while self.state_table[position]:
            number[0] = self.state_table[position] - 1
            known = &self.states[number[0]]
            if (
                known.hash == hash_value and known.class_count == state.class_count
                and known.is_empty == state.is_empty
                and equal_words(self.functions + known.start, functions, size)
            ):
                return 0
            position = (position + 1) & (self.state_table_size - 1)
        number[0] = NO_STATE
        if (
            self.state_count == self.most_states
            or self.function_count + size > self.most_function_words
        ):
            self.is_full = True
            return 0
        reserve(
            <void **> &self.states, &self.state_capacity, <size_t> self.state_count + 1,
            sizeof(BlockState)
        )
        reserve(
            <void **> &self.functions, &self.function_capacity, self.function_count + size,
            sizeof(uint64_t)
        )
        if self.codes:
            reserve(
                <void **> &self.successors, &self.successor_capacity,
                (<size_t> self.state_count + 1) * self.codes, sizeof(uint32_t)
            )
            memset(
                self.successors + <size_t> self.state_count * self.codes, 0,
                self.codes * sizeof(uint32_t)
            )
        number[0] = self.state_count
        self.states[number[0]] = state[0]
        self.states[number[0]].hash = hash_value
        self.states[number[0]].start = self.function_count
        copy_words(self.functions + self.function_count, functions, size)
        self.function_count += <uint32_t> size
        self._put_state(self.state_count)
        self.state_count += 1
        return 0

    cdef void _put_state(self, uint32_t number) noexcept nogil:
        cdef uint32_t limit = self.state_table_size - 1
        cdef uint32_t position = self.states[number].hash & limit
        while self.state_table[position]:
            position = (position + 1) & limit
        self.state_table[position] = number + 1


cdef int double_table(uint32_t **table, uint32_t *size) except -1 nogil:
    """Replace a hash table by an empty one of twice the size."""
    cdef uint32_t wanted = max(<uint32_t> LEAST_TABLE, 2 * size[0])
    cdef uint32_t *grown = <uint32_t *> zeros(wanted, sizeof(uint32_t))
    free(table[0])
    table[0] = grown
    size[0] = wanted
    return 0


cdef inline uint32_t step_home(uint32_t source, uint64_t letter) noexcept nogil:
    """Where the search for a step begins."""
    cdef uint64_t value = (letter + source) * <uint64_t> 0x9E3779B97F4A7C15
    value += source * <uint64_t> 0xC2B2AE3D27D4EB4F
    return value >> 40
