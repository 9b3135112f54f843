# cython: language_level=3
"""Process one event in a queue network.

The time-points of one time-stamp are a *block*. Within it, the value of every subformula is a
Boolean function of a few variables: for each temporal operator at most one, which stands for what
the temporal makes of the blocks before (PREVIOUS, SINCE) or behind (NEXT, UNTIL). A function is a
truth table of one to 64 words. Those that closed blocks keep depend on variables below that of
their operator, and have as many words as these need. While a block is open, an event replaces the
variables of NEXT and UNTIL, all at the same time, by what they mean one time-point later; from then
on, variables are only ever replaced by constants. `queues` decides them.

Undecided time-points with equal functions form a class, in `naive` mode too, where its members stay
in a list. Equal classes are looked for at the end of an event, after everything is decided, and
only in blocks where a function has changed.

An open block tells other blocks a value at once only if no further event of its time-stamp can
change it: there is a witness, or the left operand is violated, or it is violated and there was no
witness before. It tells everything else when it is closed, by a later event or `advance`. It never
takes a value back. A block that no other block needs any more is marked (`_silence`), and blocks
before the first one that matters are dropped.

The cost of an event grows with the classes of a block, which are compared in pairs, and with the
variables of a function, as an event in an open block substitutes by all its cofactors.
"""

from cython cimport final
from libc.stdint cimport UINT64_MAX, int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset


cdef enum:
    LEFT = 0
    RIGHT = 1
    LAST = 2
    PRESENT_FUNCTIONS = 3


@final
cdef class QueueNetwork:
    """A queue network in use by one thread, on one state at a time."""

    def __cinit__(self, Program program not None):
        cdef uint32_t variable
        cdef uint16_t bit
        self.program = program
        self.plan = program.plan
        self.operators = self.plan.operators
        self.operator_count = self.plan.operator_count
        self.words = self.plan.words
        self.slots = self.plan.slots
        self.waiting = self.plan.of_variable
        self.variable_count = self.plan.variable_count
        self.last_regular = self.plan.last_regular
        for variable in range(self.variable_count):
            bit = 1 << variable
            if self.waiting[variable].operation == OP_NEXT:
                self.nexts |= bit
            elif self.waiting[variable].operation == OP_UNTIL:
                self.untils |= bit
                if not self.waiting[variable].left_is_true:
                    self.binary_untils |= bit
            if self.waiting[variable].left_slot != NO_FUNCTION or (
                self.waiting[variable].right_slot != NO_FUNCTION
            ):
                self.users |= bit
        self.values = <uint64_t *> zeros(
            <size_t> program.instruction_count * self.words, sizeof(uint64_t)
        )
        self.images = <uint64_t *> zeros(MOST_VARIABLES * self.words, sizeof(uint64_t))
        self.automaton = BlockAutomaton(self.plan, True)
        self.closed = BlockAutomaton(self.plan, False)
        self.start = NO_STATE
        self.has_automaton = program.atom_count <= 64 and self.plan.past_count <= 64

    def __dealloc__(self):
        free(self.values)
        free(self.images)
        free(self.scratch.items)
        free(self.trial.items)

    cdef int step(self, State *state, uint64_t time_stamp, const uint64_t *letter) except -1 nogil:
        """Process an event; its verdicts are then in the history. The clock is not checked."""
        # PERF: the compiler makes a copy of everything for functions of a single word.
        if self.words == 1:
            return self._step(1, state, time_stamp, letter)
        return self._step(self.words, state, time_stamp, letter)

    cdef int _step(
        self, uint32_t words, State *state, uint64_t time_stamp, const uint64_t *letter
    ) except -1 nogil:
        cdef Network *network = state.network
        cdef History *history = &state.history
        cdef bint is_new = not network.is_open or time_stamp != state.time_stamp
        cdef const BlockStep *step
        cdef uint64_t news, halves
        cdef uint32_t outcome, number
        history.verdict_count = 0
        state.stamp += 1
        if is_new:
            if lacks_room(network):
                make_room(self.plan, network)
            self._pass_time(words, network, history, time_stamp)
            if self.plan.has_next:
                self._reach_next(words, network, history, time_stamp)
            self._open_block(words, network, time_stamp)
        elif network.state == NO_STATE:
            self._find_state(words, network)
        step = NULL
        if network.state != NO_STATE and time_stamp <= self.last_regular:
            step = self.automaton.find_step(network.state, letter[0])
            if step == NULL:
                step = self._new_step(words, network.state, letter[0])
        if step == NULL:
            self._unfold(words, network)
            network.state = NO_STATE
            self._evaluate(words, network.present, time_stamp, letter, is_new)
            self._update_present(words, network.present, is_new)
            self.has_own = True
        if step != NULL:
            news = (
                self.automaton.states[step.target].news & ~self.automaton.states[network.state].news
            )
            halves = (
                self.automaton.states[step.target].false_halves
                | self.automaton.states[step.target].true_halves
                | self.automaton.states[network.state].false_halves
                | self.automaton.states[network.state].true_halves
            )
            if not step.keeps_classes:
                self._set_outcomes(
                    words, network, history, &network.blocks[network.count - 1],
                    self.automaton.outcomes + step.outcomes
                )
            network.state = step.target
            network.is_unfolded = False
            if news:
                self._note_news(words, network, news)
            if halves:
                self._note_halves(words, network, &self.automaton.states[network.state])
        else:
            if not is_new:
                self._substitute_classes(words, network, history)
            self._note_present(words, network)
        if network.decision_count:
            self._settle(words, network, history)
        if is_new:
            state.offset = state.first_offset
        else:
            state.offset += 1
        state.time_stamp = state.clock = time_stamp
        state.event_count += 1
        if network.dirty_count:
            self._merge(words, network, history)
        if step != NULL:
            outcome = step.own
            number = NONE
            if outcome >= OUTCOME_CLASS:
                number = self._class_at(network, outcome)
        else:
            self.has_own = False
            outcome = self._own_outcome(words, network, &number)
        self._place(words, network, state, outcome, number)
        finish_verdicts(history)
        self._tidy(words, network)
        return 0

    cdef int advance(self, State *state, uint64_t time_stamp) except -1 nogil:
        """Let time pass without an event: settle what ends before `time_stamp`."""
        cdef Network *network = state.network
        state.stamp += 1
        if state.event_count:
            make_room(self.plan, network)
            self._pass_time(self.words, network, &state.history, time_stamp)
            self._merge(self.words, network, &state.history)
        state.clock = time_stamp
        finish_verdicts(&state.history)
        self._tidy(self.words, network)
        return 0

    cdef int end(self, State *state) except -1 nogil:
        """Declare that no event ever follows: everything pending is settled."""
        cdef Network *network = state.network
        cdef const Operator *temporal
        cdef uint32_t k
        state.history.verdict_count = 0
        state.stamp += 1
        if state.event_count:
            make_room(self.plan, network)
            self._pass_time(self.words, network, &state.history, MAX_TIME_STAMP() + 1)
            for k in range(self.operator_count):
                temporal = &self.operators[k]
                if temporal.operation == OP_NEXT and self._is_unknown(
                    self.words, network, temporal, network.count - 1
                ):
                    push(network, network.count - 1, k, WORTH_FALSE)
            self._settle(self.words, network, &state.history)
        finish_verdicts(&state.history)
        self._tidy(self.words, network)
        return 0

    cdef uint64_t next_change(self, const State *state) noexcept nogil:
        """The least `advance` that can change something pending; UINT64_MAX if none can."""
        cdef const Network *network = state.network
        cdef uint64_t change = UINT64_MAX
        cdef const Operator *temporal
        cdef int64_t position
        cdef uint32_t k
        if state.history.pending_count == 0:
            return UINT64_MAX
        for k in range(self.operator_count):
            temporal = &self.operators[k]
            if temporal.upper == UNBOUNDED() or not (
                temporal.operation == OP_NEXT or temporal.operation == OP_UNTIL
            ):
                continue
            position = network.count - 1
            if temporal.operation == OP_UNTIL:
                position = max(network.queues[k].open, network.first)
                # A block can wait for its operands although its window is over.
                while position < network.count - network.is_open and (
                    not self._is_unknown(self.words, network, temporal, position)
                    or window_end(network, temporal, position) < network.now
                ):
                    position += 1
            if position < network.count:
                change = min(change, window_end(network, temporal, position) + 1)
            if self.plan.beginners >> temporal.variable & 1:
                position = max(network.queues[k].settled, network.first)
                while position < network.count - network.is_open and (
                    network.blocks[position].unknown & self.plan.begun[temporal.variable] == 0
                ):
                    position += 1
                if position < network.count:
                    change = min(change, network.blocks[position].time_stamp + temporal.lower)
        return max(change, state.clock + 1)

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes of what is learnt about the formula."""
        return self.automaton.held_bytes() + self.closed.held_bytes()

    cdef void detach(self, Network *network) noexcept nogil:
        """Give all blocks functions of their own, so that what is learnt can be forgotten."""
        cdef int64_t position
        self._unfold(self.words, network)
        network.state = NO_STATE
        for position in range(network.first, network.count - network.is_open):
            if network.blocks[position].state != NO_STATE:
                self._write_out(self.words, network, position)

    cdef void forget(self) noexcept nogil:
        """Forget what is learnt about the formula; all networks in use are detached."""
        self.automaton.clear()
        self.closed.clear()
        self.start = NO_STATE

    # ---- the automaton of the last block ---------------------------------------------------

    cdef const BlockStep *_new_step(
        self, uint32_t words, uint32_t source, uint64_t letter
    ) except? NULL nogil:
        """Find out what a letter makes of a block in a state; NULL if there is no room for that."""
        cdef BlockStep step
        cdef BlockState target
        cdef uint32_t outcomes[MOST_CLASSES]
        cdef uint32_t class_count = self.automaton.states[source].class_count
        cdef uint32_t kept = 0
        cdef uint32_t i
        cdef size_t present_words = self.automaton.operator_words
        cdef bint is_new = self.automaton.states[source].is_empty
        cdef uint64_t *classes
        if self.automaton.is_full:
            return NULL
        reserve(
            <void **> &self.trial.items, &self.trial.capacity,
            present_words + (class_count + <size_t> 1) * words, sizeof(uint64_t)
        )
        classes = self.trial.items + present_words
        copy_words(
            self.trial.items, self.automaton.functions_of(source),
            present_words + <size_t> class_count * words
        )
        self._evaluate(words, self.trial.items, 0, &letter, is_new)
        self._update_present(words, self.trial.items, is_new)
        step.keeps_classes = True
        for i in range(class_count):
            substitute_functions(
                classes + <size_t> i * words, self.plan.futures, self.images, words
            )
            self._order(words, classes + <size_t> i * words, self.plan.begun_at_once)
            outcomes[i] = add_class(classes, &kept, classes + <size_t> i * words, words)
            step.keeps_classes &= outcomes[i] == OUTCOME_CLASS + i
        step.own = add_class(classes, &kept, self.own, words)
        if kept > MOST_CLASSES:
            self.automaton.is_full = True
            return NULL
        self._describe(words, self.trial.items, kept, &target)
        self.automaton.intern(&target, self.trial.items, &step.target)
        if step.target == NO_STATE:
            return NULL
        step.source = source
        step.letter = letter
        step.has_twins = False
        self.automaton.add_step(&step, outcomes)
        return self.automaton.find_step(source, letter)

    cdef void _note_news(self, uint32_t words, Network *network, uint64_t news) noexcept nogil:
        """Decide what follows from what has become known of the last block."""
        news |= news >> 32
        news = (news | news >> 16) & 0xFFFF
        while news:
            self._note(
                words, network, lowest_bit(news), &self.automaton.states[network.state]
            )
            news &= news - 1

    cdef int _set_outcomes(
        self, uint32_t words, Network *network, History *history, TimeBlock *block,
        const uint32_t *outcomes
    ) except -1 nogil:
        """Decide, merge and keep the classes of a block."""
        cdef uint32_t kept[MOST_CLASSES]
        cdef uint32_t kept_count = 0
        cdef uint32_t before = NONE
        cdef uint32_t number = block.first_class
        cdef uint32_t following, outcome
        while number != NONE:
            following = network.classes[number].following
            outcome = outcomes[0]
            outcomes += 1
            if outcome == OUTCOME_CLASS + kept_count:
                kept[kept_count] = number
                kept_count += 1
                before = number
            else:
                if outcome < OUTCOME_CLASS:
                    decide_members(network, history, number, outcome)
                else:
                    merge_members(network, history, number, kept[outcome - OUTCOME_CLASS])
                self._unlink(words, network, block, number, before)
            number = following
        return 0

    cdef uint32_t _class_at(self, const Network *network, uint32_t outcome) noexcept nogil:
        """The class of the last block that an outcome means, or NONE if it is to be added."""
        cdef uint32_t number = network.blocks[network.count - 1].first_class
        while outcome > OUTCOME_CLASS and number != NONE:
            number = network.classes[number].following
            outcome -= 1
        return number

    cdef int _find_start(self, uint32_t words, Network *network, uint64_t heads) except -1 nogil:
        """Find the state of a block without time-points, whose heads have these values."""
        cdef const BlockStep *known = self.automaton.find_step(NO_STATE, heads)
        cdef BlockStep step
        cdef BlockState state
        cdef uint32_t k
        cdef size_t present_words = self.automaton.operator_words
        if known != NULL:
            network.state = known.target
            return 0
        if self.automaton.is_full:
            return 0
        reserve(
            <void **> &self.trial.items, &self.trial.capacity, present_words, sizeof(uint64_t)
        )
        clear_words(self.trial.items, present_words)
        for k in range(self.plan.past_count):
            set_function(
                self._present(words, self.trial.items, self.plan.past[k], LAST),
                -(heads >> k & 1), words
            )
        memset(&state, 0, sizeof(BlockState))
        state.is_empty = True
        self.automaton.intern(&state, self.trial.items, &step.target)
        if step.target != NO_STATE:
            step.source = NO_STATE
            step.letter = heads
            step.keeps_classes = True
            step.has_twins = False
            step.own = OUTCOME_FALSE
            self.automaton.add_step(&step, NULL)
            network.state = step.target
        return 0

    cdef int _find_state(self, uint32_t words, Network *network) except -1 nogil:
        """Find the state of the last block, unless it waits for earlier ones."""
        cdef const TimeBlock *block = &network.blocks[network.count - 1]
        cdef uint64_t heads = ((<uint64_t> 1 << self.plan.variable_count) - 1) & (
            ~self.plan.futures
        )
        cdef uint32_t number = block.first_class
        cdef size_t size = self.automaton.operator_words
        cdef uint32_t class_count = 0
        cdef BlockState state
        cdef size_t i
        if block.unknown or not self.has_automaton or self.automaton.is_full:
            return 0
        reserve(
            <void **> &self.trial.items, &self.trial.capacity, size + MOST_CLASSES * words,
            sizeof(uint64_t)
        )
        copy_words(self.trial.items, network.present, size)
        while number != NONE:
            if class_count == MOST_CLASSES:
                return 0
            copy_function(
                self.trial.items + size, network.class_functions + <size_t> number * words, words
            )
            size += words
            class_count += 1
            number = network.classes[number].following
        # What an operand does may depend on a variable that nobody asks for any more.
        for i in range(size // words):
            if support(self.trial.items + i * words, heads, words):
                return 0
        self._describe(words, self.trial.items, class_count, &state)
        self.automaton.intern(&state, self.trial.items, &network.state)
        network.is_unfolded = True
        return 0

    cdef void _describe(
        self, uint32_t words, const uint64_t *functions, uint32_t class_count, BlockState *state
    ) noexcept nogil:
        """Find out what is known of a block with these functions."""
        cdef const Operator *temporal
        cdef const uint64_t *left
        cdef const uint64_t *right
        cdef uint64_t variables = (<uint64_t> 1 << self.plan.variable_count) - 1
        cdef uint32_t variable, i
        cdef uint16_t bit, nexts
        memset(state, 0, sizeof(BlockState))
        state.class_count = class_count
        for i in range(class_count):
            state.unknown |= support(
                functions + self.automaton.operator_words + <size_t> i * words, variables, words
            )
        for variable in range(self.variable_count):
            temporal = &self.waiting[variable]
            left = self._present(words, functions, temporal.number, LEFT)
            right = self._present(words, functions, temporal.number, RIGHT)
            bit = 1 << variable
            state.left_true |= is_true(left, words) * bit
            state.left_false |= is_false(left, words) * bit
            state.right_true |= is_true(right, words) * bit
            state.right_false |= is_false(right, words) * bit
            if temporal.left_slot != NO_FUNCTION:
                state.supports[temporal.left_slot] = support(left, variables, words)
            if temporal.right_slot != NO_FUNCTION:
                state.supports[temporal.right_slot] = support(right, variables, words)
        for i in range(self.plan.pair_count):
            temporal = &self.waiting[self.plan.pairs[i].outer]
            right = self._present(words, functions, temporal.number, RIGHT)
            self._find_halves(state, i, right, words)
        nexts = state.left_true | state.left_false
        state.news = (
            <uint64_t> (nexts & self.nexts)
            | <uint64_t> (state.right_true & self.untils) << 16
            | <uint64_t> (state.left_false & self.untils) << 32
            | <uint64_t> (state.left_false & state.right_false & self.untils) << 48
        )
        state.ends_left_true = state.left_true & self.binary_untils
        state.ends_right_false = state.right_false & ~state.left_false & self.untils

    cdef void _find_halves(
        self, BlockState *state, uint32_t number, const uint64_t *right, uint32_t size
    ) noexcept nogil:
        """Find out in which cases of a pair's inner variable the outer one has a witness."""
        cdef uint32_t inner = self.plan.pairs[number].inner
        state.false_halves |= <uint64_t> holds_where(right, inner, False, size) << number
        state.true_halves |= <uint64_t> holds_where(right, inner, True, size) << number

    cdef void _unfold(self, uint32_t words, Network *network) noexcept nogil:
        """Copy the functions of the last block's state to where they are without a state."""
        cdef const uint64_t *functions
        cdef uint32_t number
        if network.state == NO_STATE or network.is_unfolded:
            return
        functions = self.automaton.functions_of(network.state)
        copy_words(network.present, functions, self.automaton.operator_words)
        if network.is_open:
            self._unfold_classes(words, network)
        network.is_unfolded = True

    cdef void _unfold_classes(self, uint32_t words, Network *network) noexcept nogil:
        cdef uint32_t number = network.blocks[network.count - 1].first_class
        cdef const uint64_t *function
        if number == NONE:
            return
        function = self.automaton.functions_of(network.state) + self.automaton.operator_words
        while number != NONE:
            copy_function(
                network.class_functions + <size_t> number * words, function, words
            )
            function += words
            number = network.classes[number].following

    # ---- the automaton of closed blocks ----------------------------------------------------

    cdef int _find_closed(
        self, uint32_t words, Network *network, int64_t position, BlockState *state,
        const uint64_t *functions
    ) except -1 nogil:
        """Find the state of the last block now that it is closed, if there is one.

        `state` and `functions` are what the block was while it was open.
        """
        cdef const Operator *temporal
        cdef uint32_t number = network.blocks[position].first_class
        cdef uint32_t class_count = 0
        cdef uint64_t *target
        cdef uint64_t users = self.users
        if state.closed:
            network.blocks[position].state = state.closed - 1
            return 0
        if self.closed.is_full:
            return 0
        reserve(
            <void **> &self.trial.items, &self.trial.capacity,
            self.closed.operator_words + MOST_CLASSES * <size_t> words, sizeof(uint64_t)
        )
        while users:
            temporal = &self.waiting[lowest_bit(users)]
            users &= users - 1
            if temporal.left_slot != NO_FUNCTION:
                copy_function(
                    self.trial.items + self.plan.slot_starts[temporal.left_slot],
                    self._present(words, functions, temporal.number, LEFT),
                    self._slot_words(words, temporal.left_slot)
                )
            if temporal.right_slot != NO_FUNCTION:
                copy_function(
                    self.trial.items + self.plan.slot_starts[temporal.right_slot],
                    self._present(words, functions, temporal.number, RIGHT),
                    self._slot_words(words, temporal.right_slot)
                )
        target = self.trial.items + self.closed.operator_words
        while number != NONE and class_count < MOST_CLASSES:
            if network.state == NO_STATE or network.is_unfolded:
                copy_function(
                    target, network.class_functions + <size_t> number * words, words
                )
            else:
                copy_function(
                    target,
                    functions + self.automaton.operator_words + <size_t> class_count * words, words
                )
            target += words
            class_count += 1
            number = network.classes[number].following
        if number != NONE:
            return 0
        self._intern_trial(words, class_count, &network.blocks[position].state)
        if network.state != NO_STATE:
            state.closed = network.blocks[position].state + 1
        return 0

    cdef bint _intern_closed(
        self, uint32_t words, Network *network, int64_t position
    ) except -1 nogil:
        """Find the state of a closed block that has none yet; return whether there is one."""
        cdef uint32_t number = network.blocks[position].first_class
        cdef uint32_t class_count = 0
        cdef size_t size = self.closed.operator_words
        if self.closed.is_full:
            return False
        reserve(
            <void **> &self.trial.items, &self.trial.capacity,
            size + MOST_CLASSES * <size_t> words, sizeof(uint64_t)
        )
        copy_words(self.trial.items, network.functions + <size_t> position * size, size)
        while number != NONE:
            if class_count == MOST_CLASSES:
                return False
            copy_function(
                self.trial.items + size, network.class_functions + <size_t> number * words, words
            )
            size += words
            class_count += 1
            number = network.classes[number].following
        self._intern_trial(words, class_count, &network.blocks[position].state)
        return network.blocks[position].state != NO_STATE

    cdef int _intern_trial(
        self, uint32_t words, uint32_t class_count, uint32_t *number
    ) except -1 nogil:
        """Find the number of the state of a closed block, whose functions are in `trial`."""
        cdef const Operator *temporal
        cdef const uint64_t *function
        cdef BlockState state
        cdef uint64_t users = self.users
        cdef uint64_t variables = (<uint64_t> 1 << self.variable_count) - 1
        cdef uint32_t variable, size, i
        cdef uint16_t bit
        memset(&state, 0, sizeof(BlockState))
        state.class_count = class_count
        for i in range(class_count):
            state.unknown |= support(
                self.trial.items + self.closed.operator_words + <size_t> i * words, variables, words
            )
        while users:
            variable = lowest_bit(users)
            users &= users - 1
            temporal = &self.waiting[variable]
            bit = 1 << variable
            if temporal.left_slot != NO_FUNCTION:
                function = self.trial.items + self.plan.slot_starts[temporal.left_slot]
                size = self._slot_words(words, temporal.left_slot)
                state.left_true |= is_true(function, size) * bit
                state.left_false |= is_false(function, size) * bit
                state.unknown |= support(
                    function, self.plan.slot_variables[temporal.left_slot], size
                )
            if temporal.right_slot != NO_FUNCTION:
                function = self.trial.items + self.plan.slot_starts[temporal.right_slot]
                size = self._slot_words(words, temporal.right_slot)
                state.right_true |= is_true(function, size) * bit
                state.right_false |= is_false(function, size) * bit
                state.unknown |= support(
                    function, self.plan.slot_variables[temporal.right_slot], size
                )
            if (
                temporal.left_slot == NO_FUNCTION
                or (state.left_true if has_sets(temporal) else state.left_false) & bit
            ) and (temporal.right_slot == NO_FUNCTION or state.right_false & bit):
                state.silent |= bit
        for i in range(self.plan.pair_count):
            temporal = &self.waiting[self.plan.pairs[i].outer]
            function = self.trial.items + self.plan.slot_starts[temporal.right_slot]
            self._find_halves(&state, i, function, self._slot_words(words, temporal.right_slot))
        return self.closed.intern(&state, self.trial.items, number)

    cdef bint _follow_closed(
        self, uint32_t words, Network *network, History *history, int64_t position, uint32_t code
    ) except -1 nogil:
        """Let a closed block with a state take a step; without a step, it has no state any more.

        Returns whether there was a step. `history` may be NULL for CLOSED_SILENCE.
        """
        cdef TimeBlock *block = &network.blocks[position]
        cdef const BlockStep *step
        cdef uint64_t missing
        cdef uint64_t false_halves = 0
        cdef uint64_t true_halves = 0
        cdef uint32_t left, right, left_true, right_true, variable
        cdef uint32_t number = self.closed.successors[
            <size_t> block.state * self.closed.codes + code
        ]
        if number:
            step = &self.closed.steps[number - 1]
        else:
            step = self._new_closed_step(words, block.state, code)
            if step == NULL:
                self._write_out(words, network, position)
                return False
        missing = block.unknown & step.lost
        block.unknown &= ~missing
        left = step.left_known
        right = step.right_known
        left_true = step.left_true
        right_true = step.right_true
        if self.plan.pair_count:
            false_halves = self.closed.states[step.target].false_halves & (
                ~self.closed.states[block.state].false_halves
            )
            true_halves = self.closed.states[step.target].true_halves & (
                ~self.closed.states[block.state].true_halves
            )
        block.state = step.target
        if step.has_twins:
            self._mark_dirty(network, position)
        if not step.keeps_classes:
            self._set_outcomes(
                words, network, history, block, self.closed.outcomes + step.outcomes
            )
        while left | right:
            variable = lowest_bit(left | right)
            if left >> variable & 1:
                self._emit(
                    words, network, position, self.waiting[variable].number, LEFT,
                    left_true >> variable & 1
                )
            if right >> variable & 1:
                self._emit(
                    words, network, position, self.waiting[variable].number, RIGHT,
                    right_true >> variable & 1
                )
            left &= ~(<uint32_t> 1 << variable)
            right &= ~(<uint32_t> 1 << variable)
        while false_halves:
            self._note_half(words, network, lowest_bit(false_halves), position, False)
            false_halves &= false_halves - 1
        while true_halves:
            self._note_half(words, network, lowest_bit(true_halves), position, True)
            true_halves &= true_halves - 1
        if missing:
            self._lose(words, network, position, missing)
        return True

    cdef const BlockStep *_new_closed_step(
        self, uint32_t words, uint32_t source, uint32_t code
    ) except? NULL nogil:
        """Find out what a code makes of a closed block; NULL if there is no room for that."""
        cdef BlockStep step
        cdef uint32_t outcomes[MOST_CLASSES]
        cdef uint32_t class_count = self.closed.states[source].class_count
        cdef uint32_t kept = 0
        cdef uint32_t variable = code >> CLOSED_BITS
        cdef uint32_t kind = code & ((1 << CLOSED_BITS) - 1)
        cdef uint32_t merge = self.variable_count << CLOSED_BITS
        cdef const TailPair *pair = NULL
        cdef uint32_t i, j, slot
        cdef const BlockState *before
        cdef const BlockState *after
        cdef size_t operator_words = self.closed.operator_words
        cdef const Operator *temporal
        cdef uint64_t *function
        cdef uint64_t *classes
        if self.closed.is_full:
            return NULL
        reserve(
            <void **> &self.trial.items, &self.trial.capacity,
            operator_words + (class_count + <size_t> 1) * words, sizeof(uint64_t)
        )
        copy_words(
            self.trial.items, self.closed.functions_of(source),
            operator_words + <size_t> class_count * words
        )
        classes = self.trial.items + operator_words
        if code == merge:
            kind = CLOSED_MERGE
        elif code > merge:
            kind = CLOSED_IMPLY
            pair = &self.plan.pairs[code - merge - 1]
        if kind == CLOSED_SILENCE:
            temporal = &self.waiting[variable]
            self._say_nothing(words, self.trial.items, temporal)
        elif kind == CLOSED_IMPLY:
            for slot in range(self.slots):
                if self.plan.slot_variables[slot] >> pair.outer & 1:
                    let_imply(
                        self.trial.items + self.plan.slot_starts[slot], pair.outer,
                        <uint64_t> 1 << pair.inner, True, self._slot_words(words, slot)
                    )
        elif kind <= CLOSED_TRUE:
            for slot in range(self.slots):
                if self.plan.slot_variables[slot] >> variable & 1:
                    function = self.trial.items + self.plan.slot_starts[slot]
                    set_variable(
                        function, function, variable, kind == CLOSED_TRUE,
                        self._slot_words(words, slot)
                    )
        step.keeps_classes = True
        step.has_twins = False
        for i in range(class_count):
            function = classes + <size_t> i * words
            if kind == CLOSED_MERGE:
                outcomes[i] = add_class(classes, &kept, function, words)
            else:
                if kind == CLOSED_IMPLY:
                    let_imply(function, pair.outer, <uint64_t> 1 << pair.inner, True, words)
                elif kind == CLOSED_BEGIN:
                    self._order(words, function, self.plan.begun[variable])
                elif kind <= CLOSED_TRUE:
                    set_variable(function, function, variable, kind == CLOSED_TRUE, words)
                if is_false(function, words):
                    outcomes[i] = OUTCOME_FALSE
                elif is_true(function, words):
                    outcomes[i] = OUTCOME_TRUE
                else:
                    for j in range(kept):
                        step.has_twins |= are_equal(classes + <size_t> j * words, function, words)
                    copy_function(classes + <size_t> kept * words, function, words)
                    outcomes[i] = OUTCOME_CLASS + kept
                    kept += 1
            step.keeps_classes &= outcomes[i] == OUTCOME_CLASS + i
        self._intern_trial(words, kept, &step.target)
        if step.target == NO_STATE:
            return NULL
        step.source = source
        step.letter = code
        step.own = OUTCOME_FALSE
        before = &self.closed.states[source]
        after = &self.closed.states[step.target]
        step.lost = before.unknown & ~after.unknown
        step.left_known = step.right_known = 0
        if kind <= CLOSED_TRUE or kind == CLOSED_IMPLY:
            step.left_known = (
                (after.left_true | after.left_false) & ~(before.left_true | before.left_false)
            )
            step.right_known = (
                (after.right_true | after.right_false) & ~(before.right_true | before.right_false)
            )
        step.left_true = after.left_true
        step.right_true = after.right_true
        self.closed.add_step(&step, outcomes)
        return self.closed.find_step(source, code)

    cdef void _write_out(self, uint32_t words, Network *network, int64_t position) noexcept nogil:
        """Copy the functions of a closed block's state to where they are without a state."""
        cdef TimeBlock *block = &network.blocks[position]
        cdef const uint64_t *functions = self.closed.functions_of(block.state)
        cdef uint32_t number = block.first_class
        block.state = NO_STATE
        copy_words(
            network.functions + <size_t> position * self.plan.block_words, functions,
            self.plan.block_words
        )
        functions += self.plan.block_words
        while number != NONE:
            copy_function(network.class_functions + <size_t> number * words, functions, words)
            functions += words
            number = network.classes[number].following

    # ---- blocks ----------------------------------------------------------------------------

    cdef bint _is_unknown(
        self, uint32_t words, const Network *network, const Operator *temporal, int64_t position
    ) noexcept nogil:
        return network.blocks[position].unknown >> temporal.variable & 1

    cdef bint _is_asked(
        self, uint32_t words, const Network *network, const Operator *temporal
    ) noexcept nogil:
        """Whether what the operands do in the last block can matter to another block."""
        cdef int64_t before = network.count - 2
        if temporal.operation == OP_UNTIL:
            return network.queues[temporal.number].undecided_count > 0
        if temporal.operation == OP_NEXT:
            return before >= network.first and self._is_unknown(words, network, temporal, before)
        return True

    cdef uint64_t *_function(
        self, uint32_t words, const Network *network, int64_t position, uint32_t slot
    ) noexcept nogil:
        """A function of a closed block, to be changed only if the block has no state."""
        cdef uint64_t *functions = network.functions + (
            <size_t> position * (self.slots if words == 1 else self.plan.block_words)
        )
        if network.blocks[position].state != NO_STATE:
            functions = <uint64_t *> self.closed.functions_of(network.blocks[position].state)
        return functions + (slot if words == 1 else self.plan.slot_starts[slot])

    cdef const uint64_t *_class_function(
        self, const Network *network, int64_t position, uint32_t number, uint32_t place
    ) noexcept nogil:
        """The function of a class, which is in this place among those of its block."""
        if network.blocks[position].state == NO_STATE:
            return network.class_functions + <size_t> number * self.words
        return self.closed.functions_of(network.blocks[position].state) + (
            self.plan.block_words + <size_t> place * self.words
        )

    cdef uint32_t _slot_words(self, uint32_t words, uint32_t slot) noexcept nogil:
        """The words of a function of a closed block: operands depend on variables below theirs."""
        return 1 if words == 1 else self.plan.slot_words[slot]

    cdef uint64_t *_present(
        self, uint32_t words, const uint64_t *present, uint32_t temporal, uint32_t which
    ) noexcept nogil:
        """Of the functions of a last block, that of an operator: LEFT, RIGHT or LAST."""
        return <uint64_t *> present + (
            <size_t> temporal * PRESENT_FUNCTIONS + which
        ) * words

    cdef int _pass_time(
        self, uint32_t words, Network *network, History *history, uint64_t time_stamp
    ) except -1 nogil:
        """Close the last block, and the windows that are over before a time-stamp."""
        cdef const Operator *temporal
        cdef uint64_t futures = self.untils
        network.now = time_stamp
        if network.is_open:
            self._close_block(words, network)
        while futures:
            temporal = &self.waiting[lowest_bit(futures)]
            futures &= futures - 1
            if has_sets(temporal):
                until_time(network, temporal, temporal.number)
            else:
                leading_time(network, temporal, temporal.number)
        if self.plan.beginners:
            self._begin_windows(words, network, history)
        if self.nexts and network.count > network.first:
            futures = self.nexts & network.blocks[network.count - 1].unknown
            while futures:
                temporal = &self.waiting[lowest_bit(futures)]
                futures &= futures - 1
                if window_end(network, temporal, network.count - 1) < time_stamp:
                    push(network, network.count - 1, temporal.number, WORTH_FALSE)
        if network.decision_count or network.stale_count:
            return self._settle(words, network, history)
        return 0

    cdef int _close_block(self, uint32_t words, Network *network) except -1 nogil:
        """End the last block: from now on, its variables of NEXT and UNTIL are about later blocks.
        """
        cdef int64_t position = network.count - 1
        cdef TimeBlock *block = &network.blocks[position]
        cdef uint64_t candidates = block.unknown | self.plan.futures
        cdef uint64_t unknown, missing, users
        cdef uint64_t asked = 0         # variables of the operators whose operands matter
        cdef uint32_t variable, number, k
        cdef const Operator *temporal
        cdef BlockState *state
        cdef const Operator *waiting = self.waiting
        cdef const uint64_t *functions
        cdef Queue *queue
        if network.state == NO_STATE:
            self._gather(words, network)
            state = &self.loose
            functions = network.present
        else:
            state = &self.automaton.states[network.state]
            functions = self.automaton.functions + state.start
        network.is_open = False
        for number in range(self.plan.known_past_count):
            k = self.plan.past[number]
            temporal = &self.operators[k]
            if temporal.operation == OP_SINCE:
                queue = &network.queues[k]
                if self._present(words, functions, k, LEFT)[0] == 0:
                    queue.span_count = queue.span_first = 0
                if self._present(words, functions, k, RIGHT)[0]:
                    add_span(queue, temporal, block.time_stamp)
        self._find_closed(words, network, position, state, functions)
        if block.state == NO_STATE and network.state != NO_STATE and not network.is_unfolded:
            self._unfold_classes(words, network)
        asked = self._asked(words, network)
        users = self.users & ~asked
        while users and block.state != NO_STATE:
            self._silence(words, network, position, &waiting[lowest_bit(users)])
            users &= users - 1
        if block.state != NO_STATE:
            unknown = self.closed.states[block.state].unknown
        else:
            unknown = state.unknown | self._keep_functions(
                words, network, position, state, functions, asked
            )
        unknown &= candidates
        missing = block.unknown & ~unknown
        block.unknown = unknown
        if missing:
            self._lose(words, network, position, missing)
        # Whatever the block was known to do, whatever came, it has told before.
        users = asked & (state.ends_left_true | state.ends_right_false)
        while users:
            variable = lowest_bit(users)
            users &= users - 1
            temporal = &waiting[variable]
            if state.ends_left_true >> variable & 1:
                until_left_true(network, temporal, temporal.number, position)
            if state.ends_right_false >> variable & 1:
                until_right_false(network, temporal, temporal.number, position)
        users = unknown & self.users & self.untils
        while users:
            queue = &network.queues[waiting[lowest_bit(users)].number]
            users &= users - 1
            set_bit(&queue.sets[UNDECIDED], position)
            queue.undecided_count += 1
        for number in range(self.plan.pair_count):
            if self._can_imply(block, number):
                set_bit(&network.pairs[number * PAIR_SETS + INDEPENDENT], position)
        users = self.users & ~self.plan.futures
        while users:
            self._emit_past(words, network, position, lowest_bit(users), state)
            users &= users - 1
        return 0

    cdef uint64_t _asked(self, uint32_t words, const Network *network) noexcept nogil:
        """The operators to which it can matter what their operands do in the last block."""
        cdef uint64_t asked = self.users
        cdef uint64_t users = asked & self.plan.futures
        while users:
            if not self._is_asked(words, network, &self.waiting[lowest_bit(users)]):
                asked &= ~(users & (0 - users))
            users &= users - 1
        return asked

    cdef uint64_t _keep_functions(
        self, uint32_t words, Network *network, int64_t position, const BlockState *state,
        const uint64_t *functions, uint64_t asked
    ) noexcept nogil:
        """Keep what operands do in a block that is closed without a state, where that is asked for.

        Returns the variables that it depends on.
        """
        cdef const Operator *temporal
        cdef uint64_t users = self.users
        cdef uint64_t unknown = 0
        cdef uint32_t variable
        while users:
            variable = lowest_bit(users)
            users &= users - 1
            temporal = &self.waiting[variable]
            if not asked >> variable & 1:
                self._say_nothing(
                    words, network.functions + <size_t> position * self.plan.block_words, temporal
                )
                continue
            if temporal.left_slot != NO_FUNCTION:
                unknown |= state.supports[temporal.left_slot]
                copy_function(
                    self._function(words, network, position, temporal.left_slot),
                    self._present(words, functions, temporal.number, LEFT),
                    self._slot_words(words, temporal.left_slot)
                )
            if temporal.right_slot != NO_FUNCTION:
                unknown |= state.supports[temporal.right_slot]
                copy_function(
                    self._function(words, network, position, temporal.right_slot),
                    self._present(words, functions, temporal.number, RIGHT),
                    self._slot_words(words, temporal.right_slot)
                )
        return unknown

    cdef void _gather(self, uint32_t words, Network *network) noexcept nogil:
        """Describe the last block, which has no state."""
        cdef uint32_t number = network.blocks[network.count - 1].first_class
        cdef uint64_t variables = (<uint64_t> 1 << self.plan.variable_count) - 1
        self._describe(words, network.present, 0, &self.loose)
        while number != NONE:
            self.loose.unknown |= support(
                network.class_functions + <size_t> number * words, variables, words
            )
            number = network.classes[number].following

    cdef int _open_block(
        self, uint32_t words, Network *network, uint64_t time_stamp
    ) except -1 nogil:
        """Begin a block, whose PREVIOUS and SINCE are about earlier blocks."""
        cdef int64_t position = network.count
        cdef TimeBlock *block = &network.blocks[position]
        cdef Queue *queue
        cdef const Operator *temporal
        cdef uint64_t *head
        cdef const uint64_t *function
        cdef const uint64_t *present = network.present      # of the block before
        cdef uint64_t distance
        cdef uint64_t heads = 0
        cdef uint32_t i, k, w, size
        cdef int value
        memset(block, 0, sizeof(TimeBlock))
        block.state = NO_STATE
        block.time_stamp = time_stamp
        block.first_class = block.last_class = NONE
        network.count += 1
        network.is_open = True
        if self.plan.past_count and network.state != NO_STATE:
            present = self.automaton.functions_of(network.state)
        for i in range(self.plan.past_count):
            k = self.plan.past[i]
            temporal = &self.operators[k]
            queue = &network.queues[k]
            value = WORTH_FALSE
            if temporal.operation == OP_PREVIOUS:
                if position > network.first:
                    distance = time_stamp - network.blocks[position - 1].time_stamp
                    if temporal.lower <= distance <= temporal.upper:
                        function = self._present(words, present, k, LEFT)
                        size = words
                        if temporal.left_slot != NO_FUNCTION:
                            function = self._function(
                                words, network, position - 1, temporal.left_slot
                            )
                            size = self._slot_words(words, temporal.left_slot)
                        value = -1
                        if is_true(function, size):
                            value = WORTH_TRUE
                        elif is_false(function, size):
                            value = WORTH_FALSE
                    if value >= 0 and temporal.left_slot != NO_FUNCTION:
                        self._drop(words, network, position - 1, k)
            elif has_sets(temporal):
                value = since_value(network, temporal, queue, position)
            else:
                value = has_span(queue, temporal, time_stamp)
            head = self._present(words, network.present, k, LAST)
            if value >= 0:
                set_function(head, -<uint64_t> value, words)
                heads |= <uint64_t> value << (i & 63)
                continue
            for w in range(words):
                head[w] = variable_word(temporal.variable, w)
            block.unknown |= <uint64_t> 1 << temporal.variable
            if has_sets(temporal):
                set_bit(&queue.sets[UNDECIDED], position)
                queue.undecided_count += 1
        network.is_unfolded = False
        if heads == self.start_heads and block.unknown == 0:
            network.state = self.start
        else:
            network.state = NO_STATE
        if network.state == NO_STATE and self.has_automaton and block.unknown == 0:
            self._find_start(words, network, heads)
            self.start_heads = heads
            self.start = network.state
        return 0

    cdef void _emit_past(
        self, uint32_t words, Network *network, int64_t position, uint32_t variable,
        const BlockState *block
    ) noexcept nogil:
        """When a block is closed, decide what follows for a PREVIOUS or SINCE."""
        cdef const Operator *temporal = &self.waiting[variable]
        cdef uint64_t bit = <uint64_t> 1 << variable
        if temporal.left_slot != NO_FUNCTION and (block.left_true | block.left_false) & bit:
            self._emit(
                words, network, position, temporal.number, LEFT, (block.left_true & bit) != 0
            )
        if temporal.right_slot != NO_FUNCTION and (block.right_true | block.right_false) & bit:
            self._emit(
                words, network, position, temporal.number, RIGHT, (block.right_true & bit) != 0
            )

    cdef void _emit(
        self, uint32_t words, Network *network, int64_t position, uint32_t number, uint32_t side,
        bint value
    ) noexcept nogil:
        """Decide what follows from what an operand does in a closed block."""
        cdef const Operator *temporal = &self.operators[number]
        if temporal.operation == OP_UNTIL:
            if network.queues[number].undecided_count == 0:
                # Only anchors that come later would ask, and they look at later blocks.
                return
            if side == LEFT:
                if value:
                    until_left_true(network, temporal, number, position)
                else:
                    until_left_false(network, temporal, number, position)
            elif value:
                until_right_true(network, temporal, number, position)
            else:
                until_right_false(network, temporal, number, position)
        elif temporal.operation == OP_SINCE:
            if side == LEFT:
                if value:
                    since_left_true(network, temporal, number, position)
                else:
                    since_left_false(network, temporal, number, position)
            elif value:
                since_right_true(network, temporal, number, position)
            else:
                since_right_false(network, temporal, number, position)
        elif temporal.operation == OP_PREVIOUS:
            if position + 1 < network.count and self._is_unknown(
                words, network, temporal, position + 1
            ):
                push(network, position + 1, number, value)
        elif position > network.first and self._is_unknown(words, network, temporal, position - 1):
            push(network, position - 1, number, value)

    # ---- one time-point --------------------------------------------------------------------

    cdef void _evaluate(
        self, uint32_t words, uint64_t *present, uint64_t now, const uint64_t *letter, bint is_new
    ) noexcept nogil:
        """Compute the value of every row at the present time-point, operands first.

        `present` are the functions of the last block.

        In an open block, this also computes what the variables of NEXT and UNTIL, as they were
        before the event, mean now.
        """
        cdef const Instruction *instruction
        cdef const Operator *temporal
        cdef const uint64_t *left
        cdef const uint64_t *right
        cdef uint64_t *value
        cdef uint64_t *last
        cdef uint64_t *image
        cdef uint64_t left_mask, right_mask, word
        cdef uint32_t i, w, k
        for i in range(1, self.program.instruction_count):
            instruction = &self.program.instructions[i]
            value = self.values + <size_t> i * words
            if instruction.operation == OP_ATOM:
                word = -(letter[instruction.index >> 6] >> (instruction.index & 63) & 1)
                set_function(value, word, words)
                continue
            left = self.values + <size_t> (instruction.left >> 1) * words
            right = self.values + <size_t> (instruction.right >> 1) * words
            left_mask = -<uint64_t> (instruction.left & 1)
            right_mask = -<uint64_t> (instruction.right & 1)
            if instruction.operation == OP_AND:
                for w in range(words):
                    value[w] = (left[w] ^ left_mask) & (right[w] ^ right_mask)
                continue
            k = self.plan.operator_of[i]
            temporal = &self.operators[k]
            if temporal.operation == OP_SINCE:
                last = self._present(words, present, k, LAST)
                if not is_new and temporal.variable != NO_VARIABLE:
                    substitute_functions(last, self.plan.futures, self.images, words)
                for w in range(words):
                    word = (left[w] ^ left_mask) & last[w]
                    if temporal.lower == 0:
                        word |= right[w] ^ right_mask
                    value[w] = last[w] = word
            elif temporal.operation == OP_PREVIOUS:
                last = self._present(words, present, k, LAST)
                if not is_new and temporal.variable != NO_VARIABLE:
                    substitute_functions(last, self.plan.futures, self.images, words)
                for w in range(words):
                    value[w] = last[w] if is_new or temporal.lower == 0 else 0
                    last[w] = left[w] ^ left_mask
            elif temporal.operation == OP_NEXT:
                image = self.images + <size_t> temporal.variable * words
                for w in range(words):
                    value[w] = variable_word(temporal.variable, w)
                    image[w] = left[w] ^ left_mask if temporal.lower == 0 else 0
            else:
                image = self.images + <size_t> temporal.variable * words
                for w in range(words):
                    word = 0
                    # A window that begins after the largest time-stamp is empty.
                    if temporal.lower <= MAX_TIME_STAMP() - now:
                        word = (left[w] ^ left_mask) & variable_word(temporal.variable, w)
                    if temporal.lower == 0:
                        word |= right[w] ^ right_mask
                    value[w] = image[w] = word
        value = self.values + <size_t> (self.program.root >> 1) * words
        left_mask = -<uint64_t> (self.program.root & 1)
        for w in range(words):
            self.own[w] = value[w] ^ left_mask
        self._order(words, self.own, self.plan.begun_at_once)

    cdef void _update_present(
        self, uint32_t words, uint64_t *present, bint is_new
    ) noexcept nogil:
        """Update what the operands do in the last block, by its new time-point."""
        cdef const Operator *temporal
        cdef const uint64_t *left_value
        cdef const uint64_t *right_value
        cdef uint64_t *left
        cdef uint64_t *right
        cdef uint64_t left_mask, right_mask, left_word, right_word
        cdef uint64_t futures = self.plan.futures
        cdef uint32_t k, w
        for k in range(self.operator_count):
            temporal = &self.operators[k]
            left = self._present(words, present, k, LEFT)
            right = self._present(words, present, k, RIGHT)
            left_value = self.values + <size_t> (temporal.left >> 1) * words
            right_value = self.values + <size_t> (temporal.right >> 1) * words
            left_mask = -<uint64_t> (temporal.left & 1)
            right_mask = -<uint64_t> (temporal.right & 1)
            if temporal.operation == OP_PREVIOUS or temporal.operation == OP_NEXT:
                if is_new or temporal.operation == OP_PREVIOUS:
                    for w in range(words):
                        left[w] = left_value[w] ^ left_mask
                else:
                    substitute_functions(left, futures, self.images, words)
                continue
            if is_new:
                set_function(left, ~<uint64_t> 0, words)
                set_function(right, 0, words)
            elif has_sets(temporal):
                substitute_functions(left, futures, self.images, words)
                substitute_functions(right, futures, self.images, words)
            for w in range(words):
                left_word = left_value[w] ^ left_mask
                right_word = right_value[w] ^ right_mask
                if temporal.operation == OP_UNTIL:
                    right[w] |= left[w] & right_word
                else:
                    right[w] = right[w] & left_word | right_word
                left[w] &= left_word

    cdef void _order(self, uint32_t words, uint64_t *function, uint64_t begun) noexcept nogil:
        """Write a function in the form that it has if windows that have begun imply those of the
        same operands that end later.

        Functions with the same values wherever that holds become equal, and constant if they are.
        """
        cdef uint64_t probe[MOST_FUNCTION_WORDS]
        cdef uint64_t bit, later, earlier, others
        cdef uint64_t present
        cdef uint32_t variable, i, k
        if begun == 0:
            return
        present = support(function, begun, words)
        for i in range(self.plan.ranked_count):
            variable = self.plan.ranked[i]
            bit = <uint64_t> 1 << variable
            others = self.plan.families[variable] & present & ~bit
            if not present & bit or not others:
                continue
            earlier = self.plan.ends_before[variable] & others
            later = self.plan.ends_with[variable] & others
            if later == 0:
                # Where it differs from its neighbours, all later ones are true, and all earlier
                # ones are false.
                copy_function(probe, function, words)
                for k in range(self.variable_count):
                    if others >> k & 1:
                        set_variable(probe, probe, k, not earlier >> k & 1, words)
                if depends_on(probe, variable, words):
                    continue
                later = self.plan.nearest(variable, others & ~earlier)
            if later:
                let_imply(function, variable, later & (0 - later), False, words)
            else:
                set_variable(function, function, variable, True, words)
            present &= ~bit
        for i in range(self.plan.ranked_count):
            variable = self.plan.ranked[i]
            others = self.plan.ends_before[variable] & present
            if present >> variable & 1 and others:
                let_imply(function, variable, others, True, words)

    cdef int _begin_windows(
        self, uint32_t words, Network *network, History *history
    ) except -1 nogil:
        """Let blocks know whose windows have begun."""
        cdef uint64_t beginners = self.plan.beginners
        cdef uint32_t variable
        cdef const Operator *temporal
        cdef Queue *queue
        while beginners:
            variable = lowest_bit(beginners)
            beginners &= beginners - 1
            temporal = &self.waiting[variable]
            queue = &network.queues[temporal.number]
            queue.settled = max(queue.settled, network.first)
            while has_begun(network, temporal, queue.settled):
                if network.blocks[queue.settled].unknown & self.plan.begun[variable]:
                    self._order_block(words, network, history, queue.settled, variable)
                queue.settled += 1
        return 0

    cdef int _order_block(
        self, uint32_t words, Network *network, History *history, int64_t position,
        uint32_t variable
    ) except -1 nogil:
        """Let a closed block know that the window of an operator has begun."""
        cdef uint32_t number
        if network.blocks[position].state != NO_STATE and self._follow_closed(
            words, network, history, position, variable << CLOSED_BITS | CLOSED_BEGIN
        ):
            return 0
        number = network.blocks[position].first_class
        while number != NONE:
            self._order(
                words, network.class_functions + <size_t> number * words,
                self.plan.begun[variable]
            )
            number = network.classes[number].following
        self._review(words, network, history, position)
        return self._recount(words, network, position)

    cdef int _reach_next(
        self, uint32_t words, Network *network, History *history, uint64_t time_stamp
    ) except -1 nogil:
        """Decide the NEXT of the last block if the distance of a new one is not in the interval.

        This comes before the new block is begun: what its events do would else decide a NEXT whose
        interval they miss.
        """
        cdef const Operator *temporal
        cdef int64_t position = network.count - 1
        cdef uint64_t distance
        cdef uint16_t nexts = self.nexts
        if position < network.first:
            return 0
        distance = time_stamp - network.blocks[position].time_stamp
        while nexts:
            temporal = &self.waiting[lowest_bit(nexts)]
            nexts &= nexts - 1
            if self._is_unknown(words, network, temporal, position) and (
                not temporal.lower <= distance <= temporal.upper
            ):
                push(network, position, temporal.number, WORTH_FALSE)
        if network.decision_count or network.stale_count:
            return self._settle(words, network, history)
        return 0

    cdef int _substitute_classes(
        self, uint32_t words, Network *network, History *history
    ) except -1 nogil:
        """Let the classes of an open block take the new time-point into account."""
        cdef TimeBlock *block = &network.blocks[network.count - 1]
        cdef uint32_t number = block.first_class
        cdef uint64_t *function
        cdef bint is_changed = False
        while number != NONE:
            function = network.class_functions + <size_t> number * words
            is_changed |= substitute_functions(function, self.plan.futures, self.images, words)
            self._order(words, function, self.plan.begun_at_once)
            number = network.classes[number].following
        if is_changed:
            self._review(words, network, history, network.count - 1)
        return 0

    cdef void _note_present(self, uint32_t words, Network *network) noexcept nogil:
        """Decide what follows from the last block, whatever time-points are still to join it."""
        cdef uint32_t variable
        self._describe(words, network.present, 0, &self.loose)
        for variable in range(self.variable_count):
            self._note(words, network, variable, &self.loose)
        self._note_halves(words, network, &self.loose)

    cdef void _note_halves(
        self, uint32_t words, Network *network, const BlockState *block
    ) noexcept nogil:
        """Note which halves of witnesses the last block has, while it is open."""
        cdef int64_t position = network.count - 1
        cdef uint32_t k
        for k in range(self.plan.pair_count):
            # An event can take halves away.
            if has_bit(&network.pairs[k * PAIR_SETS + FALSE_HALVES], position):
                clear_bit(&network.pairs[k * PAIR_SETS + FALSE_HALVES], position)
            if has_bit(&network.pairs[k * PAIR_SETS + TRUE_HALVES], position):
                clear_bit(&network.pairs[k * PAIR_SETS + TRUE_HALVES], position)
            if block.false_halves >> k & 1:
                self._note_half(words, network, k, position, False)
            if block.true_halves >> k & 1:
                self._note_half(words, network, k, position, True)

    cdef void _note_half(
        self, uint32_t words, Network *network, uint32_t number, int64_t position, bint value
    ) noexcept nogil:
        """A block has a witness of the outer operator of a pair if the inner one has a value.

        While the inner operator is undecided in two blocks, it is true in the later one if it is
        true in the earlier one. So if one of them has a witness in each case, the outer one is
        true; and the outer one is true in an earlier block if the inner one is true there.
        """
        cdef const Operator *outer = &self.waiting[self.plan.pairs[number].outer]
        cdef const Operator *inner = &self.waiting[self.plan.pairs[number].inner]
        cdef Bits *sets = network.pairs + number * PAIR_SETS
        cdef Queue *queue = &network.queues[outer.number]
        cdef int64_t undecided = max(network.first, network.queues[inner.number].open)
        cdef int64_t other, start, end, anchor
        set_bit(&sets[TRUE_HALVES if value else FALSE_HALVES], position)
        if position < undecided or queue.undecided_count == 0:
            return
        if not value:
            other = next_bit(&sets[TRUE_HALVES], position + 1, network.count)
            if other < network.count:
                decide_range(
                    network, outer.number, first_anchor_before(network, outer, other),
                    last_anchor_before(network, outer, position), WORTH_TRUE
                )
            return
        other = previous_bit(&sets[FALSE_HALVES], position - 1)
        anchor = next_bit(&sets[INDEPENDENT], undecided, network.count)
        if other < undecided and anchor == network.count:
            return
        start = first_anchor_before(network, outer, position)
        end = last_anchor_before(network, outer, position)
        if other >= undecided:
            decide_range(
                network, outer.number, start, last_anchor_before(network, outer, other), WORTH_TRUE
            )
        if anchor < start:
            anchor = next_bit(&sets[INDEPENDENT], start, network.count)
        while anchor <= end and anchor < network.count:
            clear_bit(&sets[INDEPENDENT], anchor)
            if self._can_imply(&network.blocks[anchor], number):
                push(network, anchor, number, WORTH_IMPLIED)
            anchor = next_bit(&sets[INDEPENDENT], anchor + 1, network.count)

    cdef bint _can_imply(self, const TimeBlock *block, uint32_t number) noexcept nogil:
        """Whether it can make a difference to a closed block that a variable implies another one.

        PERF: this spares every second step of ALWAYS[0,60] (p EQUIV EVENTUALLY[0,10] q).
        """
        cdef const TailPair *pair = &self.plan.pairs[number]
        cdef uint32_t step
        if not block.unknown >> pair.outer & block.unknown >> pair.inner & 1:
            return False
        if block.state == NO_STATE:
            return True
        step = self.closed.successors[
            <size_t> block.state * self.closed.codes
            + (self.variable_count << CLOSED_BITS) + 1 + number
        ]
        return step == 0 or self.closed.steps[step - 1].target != block.state

    cdef int _imply(
        self, uint32_t words, Network *network, History *history, int64_t position, uint32_t number
    ) except -1 nogil:
        """Let the functions of a closed block rely on it that a variable implies another one."""
        cdef const TailPair *pair = &self.plan.pairs[number]
        cdef TimeBlock *block = &network.blocks[position]
        cdef const Operator *temporal
        cdef uint64_t *function
        cdef uint32_t above, one
        if not self._can_imply(block, number) or block.state != NO_STATE and self._follow_closed(
            words, network, history, position,
            (self.variable_count << CLOSED_BITS) + 1 + number
        ):
            return 0
        one = block.first_class
        while one != NONE:
            function = network.class_functions + <size_t> one * words
            let_imply(function, pair.outer, <uint64_t> 1 << pair.inner, True, words)
            one = network.classes[one].following
        self._review(words, network, history, position)
        for above in range(pair.outer + 1, self.variable_count):
            temporal = &self.waiting[above]
            if temporal.left_slot != NO_FUNCTION:
                self._fix(
                    words, network, position, temporal.number, LEFT, temporal.left_slot,
                    pair.outer, WORTH_IMPLIED, pair.inner
                )
            if temporal.right_slot != NO_FUNCTION:
                self._fix(
                    words, network, position, temporal.number, RIGHT, temporal.right_slot,
                    pair.outer, WORTH_IMPLIED, pair.inner
                )
        return self._recount(words, network, position)

    cdef void _note(
        self, uint32_t words, Network *network, uint32_t variable, const BlockState *block
    ) noexcept nogil:
        """Decide what follows from the operands of one operator in the last block."""
        cdef const Operator *temporal = &self.waiting[variable]
        cdef uint32_t k = temporal.number
        cdef int64_t position = network.count - 1
        cdef bint is_blocked = block.left_false >> variable & 1
        cdef bint has_witness = block.right_true >> variable & 1
        if temporal.operation == OP_NEXT:
            if (block.left_true | block.left_false) >> variable & 1 and (
                position > network.first
                and self._is_unknown(words, network, temporal, position - 1)
            ):
                push(network, position - 1, k, not is_blocked)
        elif temporal.operation != OP_UNTIL:
            return
        elif not has_sets(temporal):
            if has_witness:
                decide_leading(
                    network, temporal, k, last_anchor_before(network, temporal, position),
                    WORTH_TRUE
                )
            if is_blocked:
                decide_leading(network, temporal, k, position - 1, WORTH_FALSE)
        elif network.queues[k].undecided_count:
            if has_witness:
                until_right_true(network, temporal, k, position)
            elif is_blocked and block.right_false >> variable & 1:
                until_right_false(network, temporal, k, position)
            if is_blocked:
                until_left_false(network, temporal, k, position)

    # ---- decisions -------------------------------------------------------------------------

    cdef int _settle(self, uint32_t words, Network *network, History *history) except -1 nogil:
        """Replace decided variables by constants, until nothing more follows."""
        cdef Decision decision
        cdef const Operator *temporal
        cdef TimeBlock *block
        cdef uint64_t *function
        cdef uint32_t above, number, k
        cdef uint32_t variable
        cdef bint is_changed
        while network.decision_count:
            network.decision_count -= 1
            decision = network.decisions[network.decision_count]
            if decision.worth == WORTH_IMPLIED:
                self._imply(words, network, history, decision.position, decision.temporal)
                continue
            variable = self.operators[decision.temporal].variable
            block = &network.blocks[decision.position]
            if not block.unknown >> variable & 1:
                continue
            block.unknown &= ~(<uint64_t> 1 << variable)
            if block.state != NO_STATE and self._follow_closed(
                words, network, history, decision.position,
                variable << CLOSED_BITS | (CLOSED_TRUE if decision.worth else CLOSED_FALSE)
            ):
                continue
            number = block.first_class
            is_changed = False
            while number != NONE:
                function = network.class_functions + <size_t> number * words
                if depends_on(function, variable, words):
                    set_variable(function, function, variable, decision.worth, words)
                    is_changed = True
                number = network.classes[number].following
            if is_changed:
                self._review(words, network, history, decision.position)
            if network.is_open and decision.position == network.count - 1:
                if self.has_own:
                    set_variable(self.own, self.own, variable, decision.worth, words)
                for k in range(self.operator_count * PRESENT_FUNCTIONS):
                    function = network.present + <size_t> k * words
                    set_variable(function, function, variable, decision.worth, words)
                self._note_present(words, network)
                continue
            # Operands depend on variables of operators below theirs.
            for above in range(variable + 1, self.variable_count):
                temporal = &self.waiting[above]
                if temporal.left_slot != NO_FUNCTION:
                    self._fix(
                        words, network, decision.position, temporal.number, LEFT,
                        temporal.left_slot, variable, decision.worth
                    )
                if temporal.right_slot != NO_FUNCTION:
                    self._fix(
                        words, network, decision.position, temporal.number, RIGHT,
                        temporal.right_slot, variable, decision.worth
                    )
            if block.unknown and not block.is_stale:
                block.is_stale = True
                reserve(
                    <void **> &network.stale, &network.stale_capacity,
                    <size_t> network.stale_count + 1, sizeof(uint32_t)
                )
                network.stale[network.stale_count] = <uint32_t> decision.position
                network.stale_count += 1
        while network.stale_count:
            network.stale_count -= 1
            network.blocks[network.stale[network.stale_count]].is_stale = False
            self._recount(words, network, network.stale[network.stale_count])
        return 0

    cdef void _fix(
        self, uint32_t words, Network *network, int64_t position, uint32_t number, uint32_t side,
        uint32_t slot, uint32_t variable, uint8_t worth, uint32_t inner=0
    ) noexcept nogil:
        """Replace a variable in a function of a closed block, or let another one imply it."""
        cdef uint64_t *function = self._function(words, network, position, slot)
        cdef uint32_t size = self._slot_words(words, slot)
        cdef uint32_t k
        cdef bint value
        if depends_on(function, variable, size):
            if worth == WORTH_IMPLIED:
                let_imply(function, variable, <uint64_t> 1 << inner, True, size)
            else:
                set_variable(function, function, variable, worth, size)
            for k in range(self.plan.pair_count if side == RIGHT else 0):
                if self.waiting[self.plan.pairs[k].outer].number == number:
                    for value in range(2):
                        if holds_where(function, self.plan.pairs[k].inner, value, size):
                            self._note_half(words, network, k, position, value)
            if is_true(function, size):
                self._emit(words, network, position, number, side, True)
            elif is_false(function, size):
                self._emit(words, network, position, number, side, False)

    cdef int _recount(
        self, uint32_t words, Network *network, int64_t position
    ) except -1 nogil:
        """Find out which variables of a closed block still matter, and let go of the others."""
        cdef TimeBlock *block = &network.blocks[position]
        cdef uint64_t needed = 0
        cdef uint64_t missing
        cdef uint32_t number = block.first_class
        cdef uint32_t slot
        if block.unknown == 0:
            return 0
        while number != NONE:
            needed |= support(
                network.class_functions + <size_t> number * words, block.unknown & ~needed, words
            )
            number = network.classes[number].following
        for slot in range(self.slots):
            needed |= support(
                self._function(words, network, position, slot),
                block.unknown & ~needed & self.plan.slot_variables[slot],
                self._slot_words(words, slot)
            )
        missing = block.unknown & ~needed
        block.unknown = needed
        return self._lose(words, network, position, missing)

    cdef bint _recount_open(self, uint32_t words, Network *network) except -1 nogil:
        """Find out which variables of the blocks before matter to the open block, and let go of the
        others.

        Returns whether there were others.
        """
        cdef int64_t position = network.count - 1
        cdef TimeBlock *block = &network.blocks[position]
        cdef const Operator *temporal
        cdef uint64_t needed = 0
        cdef uint64_t missing
        cdef uint32_t number = block.first_class
        cdef uint32_t k, which
        cdef bint is_needed
        if block.unknown == 0:
            return False
        while number != NONE:
            needed |= support(
                network.class_functions + <size_t> number * words, block.unknown, words
            )
            number = network.classes[number].following
        for k in range(self.operator_count):
            temporal = &self.operators[k]
            is_needed = True
            if temporal.operation == OP_UNTIL:
                is_needed = network.queues[k].undecided_count > 0
            elif temporal.operation == OP_NEXT:
                is_needed = position > network.first and self._is_unknown(
                    words, network, temporal, position - 1
                )
            if is_needed:
                for which in range(PRESENT_FUNCTIONS):
                    needed |= support(
                        self._present(words, network.present, k, which), block.unknown, words
                    )
        missing = block.unknown & ~needed
        block.unknown = needed
        self._lose(words, network, position, missing)
        return missing != 0

    cdef int _lose(
        self, uint32_t words, Network *network, int64_t position, uint64_t variables
    ) except -1 nogil:
        """Stop waiting for variables of a closed block that nothing depends on any more."""
        cdef const Operator *temporal
        cdef Queue *queue
        cdef uint32_t k
        while variables:
            temporal = &self.waiting[lowest_bit(variables)]
            variables &= variables - 1
            k = temporal.number
            queue = &network.queues[k]
            if has_sets(temporal):
                if has_bit(&queue.sets[UNDECIDED], position):
                    lose_anchor(queue, position)
            elif temporal.left_slot != NO_FUNCTION:
                if temporal.operation == OP_PREVIOUS:
                    if position > network.first:
                        self._drop(words, network, position - 1, k)
                elif position + 1 < network.count - network.is_open:
                    self._drop(words, network, position + 1, k)
        return 0

    cdef int _drop(
        self, uint32_t words, Network *network, int64_t position, uint32_t number
    ) except -1 nogil:
        """Forget what an operator's operands do in a closed block, as nobody asks any more."""
        if self._silence(words, network, position, &self.operators[number]):
            return self._recount(words, network, position)
        return 0

    cdef bint _silence(
        self, uint32_t words, Network *network, int64_t position, const Operator *temporal
    ) except -1 nogil:
        """Let a closed block say of an operator's operands what changes nothing.

        Returns whether the block may wait for variables that only they depended on.
        """
        cdef uint64_t *functions
        cdef const BlockState *state
        if network.blocks[position].state != NO_STATE:
            state = &self.closed.states[network.blocks[position].state]
            if state.silent >> temporal.variable & 1 or self._follow_closed(
                words, network, NULL, position, temporal.variable << CLOSED_BITS | CLOSED_SILENCE
            ):
                return False
        functions = network.functions + <size_t> position * self.plan.block_words
        return self._say_nothing(words, functions, temporal)

    cdef bint _say_nothing(
        self, uint32_t words, uint64_t *functions, const Operator *temporal
    ) noexcept nogil:
        """Do that to the functions of a closed block; return whether any was not constant."""
        cdef uint64_t *function
        cdef uint32_t size
        cdef bint is_changed = False
        if temporal.left_slot != NO_FUNCTION:
            function = functions + self.plan.slot_starts[temporal.left_slot]
            size = self._slot_words(words, temporal.left_slot)
            is_changed = not is_false(function, size) and not is_true(function, size)
            set_function(function, -<uint64_t> has_sets(temporal), size)
        if temporal.right_slot != NO_FUNCTION:
            function = functions + self.plan.slot_starts[temporal.right_slot]
            size = self._slot_words(words, temporal.right_slot)
            is_changed |= not is_false(function, size) and not is_true(function, size)
            set_function(function, 0, size)
        return is_changed

    # ---- classes ---------------------------------------------------------------------------

    cdef int _review(
        self, uint32_t words, Network *network, History *history, int64_t position
    ) except -1 nogil:
        """Output the verdicts of classes that are decided, and note that the others may be equal.
        """
        cdef TimeBlock *block = &network.blocks[position]
        cdef uint32_t number = block.first_class
        cdef uint32_t before = NONE
        cdef uint32_t following
        cdef const uint64_t *function
        while number != NONE:
            following = network.classes[number].following
            function = network.class_functions + <size_t> number * words
            if is_false(function, words) or is_true(function, words):
                decide_members(
                    network, history, number, OUTCOME_TRUE if function[0] else OUTCOME_FALSE
                )
                self._unlink(words, network, block, number, before)
            else:
                before = number
            number = following
        if block.first_class != block.last_class:
            return self._mark_dirty(network, position)
        return 0

    cdef int _mark_dirty(self, Network *network, int64_t position) except -1 nogil:
        """Note that classes of a block may be equal."""
        if not network.blocks[position].is_dirty:
            network.blocks[position].is_dirty = True
            reserve(
                <void **> &network.dirty, &network.dirty_capacity,
                <size_t> network.dirty_count + 1, sizeof(uint32_t)
            )
            network.dirty[network.dirty_count] = <uint32_t> position
            network.dirty_count += 1
        return 0

    cdef void _unlink(
        self, uint32_t words, Network *network, TimeBlock *block, uint32_t number, uint32_t before
    ) noexcept nogil:
        """Remove a class, which follows the class `before` in its block."""
        cdef uint32_t following = network.classes[number].following
        if before == NONE:
            block.first_class = following
        else:
            network.classes[before].following = following
        if block.last_class == number:
            block.last_class = before
        network.classes[number].following = network.free_class
        network.free_class = number

    cdef int _merge(self, uint32_t words, Network *network, History *history) except -1 nogil:
        """Merge classes that have become equal."""
        cdef TimeBlock *block
        cdef uint32_t i, number, before, following, earlier, size, position
        for i in range(network.dirty_count):
            block = &network.blocks[network.dirty[i]]
            block.is_dirty = False
            if block.state != NO_STATE and self._follow_closed(
                words, network, history, network.dirty[i], self.variable_count << CLOSED_BITS
            ):
                continue
            number = block.first_class
            before = NONE
            size = 4
            while number != NONE:
                size += 2
                number = network.classes[number].following
            size = <uint32_t> 2 << highest_bit(size)
            reserve(
                <void **> &network.seen, &network.seen_capacity, size, sizeof(uint32_t)
            )
            memset(network.seen, 0xFF, size * sizeof(uint32_t))
            number = block.first_class
            while number != NONE:
                following = network.classes[number].following
                position = <uint32_t> hash_function(
                    network.class_functions + <size_t> number * words, words
                ) & (size - 1)
                earlier = network.seen[position]
                while earlier != NONE and not are_equal(
                    network.class_functions + <size_t> number * words,
                    network.class_functions + <size_t> earlier * words, words
                ):
                    position = (position + 1) & (size - 1)
                    earlier = network.seen[position]
                if earlier == NONE:
                    network.seen[position] = number
                    before = number
                else:
                    merge_members(network, history, number, earlier)
                    self._unlink(words, network, block, number, before)
                number = following
        network.dirty_count = 0
        return 0

    cdef uint32_t _own_outcome(
        self, uint32_t words, const Network *network, uint32_t *number
    ) noexcept nogil:
        """What becomes of the present time-point; and its class, or NONE if that is to be added."""
        number[0] = network.blocks[network.count - 1].first_class
        if is_false(self.own, words):
            return OUTCOME_FALSE
        if is_true(self.own, words):
            return OUTCOME_TRUE
        while number[0] != NONE and not are_equal(
            network.class_functions + <size_t> number[0] * words, self.own, words
        ):
            number[0] = network.classes[number[0]].following
        return OUTCOME_CLASS

    cdef int _place(
        self, uint32_t words, Network *network, State *state, uint32_t outcome, uint32_t number
    ) except -1 nogil:
        """Output the verdict of the present time-point if it is known, else put it in a class."""
        cdef History *history = &state.history
        cdef uint32_t entry
        cdef TimePointClass *one
        if outcome < OUTCOME_CLASS:
            return add_verdict(
                history, state.time_stamp, state.offset, count_decided(history, outcome, 1), NONE
            )
        if number != NONE and history.mode != MODE_NAIVE:
            entry = network.classes[number].first_member
            history.entries[entry].weight += 1
            return add_verdict(
                history, state.time_stamp, state.offset, VERDICT_EQUIVALENT, entry
            )
        new_entry(history, state.time_stamp, state.offset, &entry)
        history.entries[entry].next_member = NONE
        if number != NONE:
            one = &network.classes[number]
            history.entries[one.last_member].next_member = entry
            one.last_member = entry
            return 0
        self._new_class(words, network, &network.blocks[network.count - 1], &number)
        one = &network.classes[number]
        one.first_member = one.last_member = entry
        if network.state == NO_STATE:
            copy_function(
                network.class_functions + <size_t> number * words, self.own, words
            )
        return 0

    cdef int _new_class(
        self, uint32_t words, Network *network, TimeBlock *block, uint32_t *number
    ) except -1 nogil:
        """Add a class to a block, behind the others."""
        number[0] = network.free_class
        if number[0] == NONE:
            reserve(
                <void **> &network.classes, &network.class_capacity,
                <size_t> network.class_count + 1, sizeof(TimePointClass)
            )
            reserve(
                <void **> &network.class_functions, &network.class_function_capacity,
                (<size_t> network.class_count + 1) * words, sizeof(uint64_t)
            )
            number[0] = network.class_count
            network.class_count += 1
        else:
            network.free_class = network.classes[number[0]].following
        network.classes[number[0]].following = NONE
        if block.first_class == NONE:
            block.first_class = number[0]
        else:
            network.classes[block.last_class].following = number[0]
        block.last_class = number[0]
        return 0

    # ---- between events --------------------------------------------------------------------

    cdef int _tidy(self, uint32_t words, Network *network) except -1 nogil:
        """Forget what no anchor can ask for any more."""
        cdef uint32_t variable, number, k
        cdef const Operator *temporal
        cdef Queue *queue
        cdef int64_t closed = network.count - network.is_open
        cdef int64_t end
        cdef uint64_t users
        cdef bint is_open = network.is_open
        cdef bint is_changed = True
        for variable in range(self.plan.known_past_count):
            k = self.plan.past[variable]
            if self.operators[k].operation == OP_SINCE and network.count > network.first:
                drop_spans(&network.queues[k], &self.operators[k], network.now)
        if is_open and network.blocks[network.count - 1].unknown:
            self._recount_open(words, network)
        while is_changed and self.users:
            # Operators before their operands, as their functions may be all that needs an operand.
            users = self.users
            while users:
                variable = highest_bit(users)
                users &= ~(<uint64_t> 1 << variable)
                temporal = &self.waiting[variable]
                if not has_sets(temporal):
                    continue
                k = temporal.number
                queue = &network.queues[k]
                if temporal.operation == OP_SINCE:
                    self._settle_witnesses(words, network, k, closed)
                    continue
                queue.settled = max(queue.settled, network.first)
                end = closed
                if queue.undecided_count:
                    if queue.settled > network.first and has_bit(
                        &queue.sets[UNDECIDED], queue.settled - 1
                    ):
                        continue
                    # Blocks become anchors in the order of time.
                    end = min(
                        closed,
                        next_bit(
                            &queue.sets[UNDECIDED],
                            max(network.first, queue.settled - 1), closed
                        ) + 1
                    )
                while queue.settled < end:
                    number = network.blocks[queue.settled].state
                    if number == NO_STATE or not (
                        self.closed.states[number].silent >> variable & 1
                    ):
                        self._drop(words, network, queue.settled, k)
                    queue.settled += 1
            is_changed = (
                is_open and network.blocks[network.count - 1].unknown
                and self._recount_open(words, network)
            )
        while (
            network.first < network.count - 1
            and network.blocks[network.first].unknown == 0
            and network.blocks[network.first].first_class == NONE
        ):
            network.first += 1
        return 0

    cdef int _settle_witnesses(
        self, uint32_t words, Network *network, uint32_t number, int64_t closed
    ) except -1 nogil:
        """Keep the witnesses of leading blocks as spans, once their operands are known."""
        cdef const Operator *temporal = &self.operators[number]
        cdef Queue *queue = &network.queues[number]
        cdef const uint64_t *left
        cdef const uint64_t *right
        cdef uint32_t size
        cdef int64_t anchor
        while queue.settled < closed:
            right = self._function(words, network, queue.settled, temporal.right_slot)
            size = self._slot_words(words, temporal.right_slot)
            if not is_true(right, size) and not is_false(right, size):
                break
            if not temporal.left_is_true:
                left = self._function(words, network, queue.settled, temporal.left_slot)
                if not is_true(left, size) and not is_false(left, size):
                    break
                if left[0] == 0:
                    queue.span_count = queue.span_first = 0
            if right[0]:
                add_span(queue, temporal, network.blocks[queue.settled].time_stamp)
            self._silence(words, network, queue.settled, temporal)
            queue.settled += 1
        anchor = network.count
        if queue.undecided_count:
            anchor = next_bit(&queue.sets[UNDECIDED], network.first, network.count)
        drop_spans(
            queue, temporal,
            network.now if anchor == network.count else network.blocks[anchor].time_stamp
        )
        return 0
