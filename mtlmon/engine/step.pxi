# cython: language_level=3
"""Process one event: evaluate all subformulas, children first, then update the history.

The values at the current time-point are expressions over obligations about later ones. An event
gives every previous variable an *image*: the expression over the new variables that it equals.
Everything stored is rewritten by these images, each stored expression once.

An event's verdicts come at that event: values are functions of the obligations *after* the present
event, and not of the next time-stamp, as in the paper (its refinement in 5.4).

Times are unsigned numbers of 64 bits, so that time-stamp plus bound, each below 2^63, cannot
overflow. Ends of windows saturate at 2^63-1, the largest time-stamp; a window that would begin
later is empty.
"""

from cython cimport final
from libc.stdint cimport UINT64_MAX
from libc.stdlib cimport free
from libc.string cimport memset


cdef extern from *:
    """
    #ifndef MTLMON_CHECKS
    #define MTLMON_CHECKS 0
    #endif
    """
    const bint MTLMON_CHECKS

CHECKS = bool(MTLMON_CHECKS)
"""Whether this build checks the engine's invariants after every event."""


# ---- state -------------------------------------------------------------------------------------


cdef int init_state(State *state, Program program, Mode mode) except -1:
    """Initialise a state that has seen no event. Free it with `free_state` even after an error."""
    memset(state, 0, sizeof(State))
    state.configuration = NO_CONFIGURATION
    state.is_structured = True
    init_history(&state.history, program, mode)
    state.families = <Family *> zeros(program.family_count, sizeof(Family))
    state.family_count = program.family_count
    state.witnesses = <Witnesses *> zeros(program.since_count, sizeof(Witnesses))
    state.since_count = program.since_count
    state.stored = <Expression *> zeros(program.previous_count, sizeof(Expression))
    state.previous_count = program.previous_count
    if program.plan is not None and mode != MODE_GLOBAL:
        # Its classes of time-points have no thresholds.
        state.history.threshold_count = 0
        state.network = new_network(program.plan)
    return 0


cdef void free_state(State *state) noexcept nogil:
    cdef uint32_t i
    for i in range(state.family_count):
        free_family(&state.families[i])
    for i in range(state.since_count):
        free(state.witnesses[i].runs)
    free(state.registers)
    free(state.families)
    free(state.witnesses)
    free(state.stored)
    free_history(&state.history)
    free_network(state.network)
    memset(state, 0, sizeof(State))


cdef void held_by_state(const State *state, HeldBytes *held) noexcept nogil:
    """Add the bytes that a state takes."""
    cdef size_t operators = (
        state.family_count * sizeof(Family) + state.since_count * sizeof(Witnesses)
        + state.previous_count * sizeof(Expression)
    )
    cdef uint32_t i
    for i in range(state.family_count):
        operators += held_by_family(&state.families[i])
    for i in range(state.since_count):
        operators += state.witnesses[i].capacity * sizeof(Run)
    held.of[HELD_OPERATORS] += operators
    if state.network != NULL:
        held.of[HELD_OPERATORS] += held_by_network(state.network)
    if state.registers != NULL:
        held.of[HELD_PENDING] += REGISTER_ROOM * sizeof(Register)
    held_by_history(&state.history, held)


# ---- images ------------------------------------------------------------------------------------


cdef Expression image_at_anchor(
    Workspace workspace, void *context, uint32_t slot, uint64_t anchor
) except? NO_EXPRESSION nogil:
    """The image of a slot, for time-points of the time-stamp `anchor` if it is a placeholder."""
    cdef Moment *moment = <Moment *> context
    cdef const OuterUntil *outer
    cdef uint32_t family
    cdef uint64_t age
    if slot >= workspace.program.fixed_slot_count:
        family = family_of(&workspace.slots, slot)
        return image_of_member(
            workspace, &moment.families[family], family, member_of(&workspace.slots, slot),
            &moment.family_events[family]
        )
    if workspace.program.is_placeholder[slot]:
        outer = &moment.outer_untils[moment.slot_outer[slot]]
        age = moment.time_stamp - anchor
        if age > outer.upper or moment.time_stamp > MAX_TIME_STAMP():
            if outer.upper != UNBOUNDED():
                return FALSE_EXPRESSION
        if age >= outer.lower:
            return moment.fixed_images[outer.open_slot]
    return moment.fixed_images[slot]


cdef Expression image_of_slot(
    Workspace workspace, void *context, uint32_t slot
) except? NO_EXPRESSION nogil:
    """The image of a slot that is not a placeholder."""
    return image_at_anchor(workspace, context, slot, (<Moment *> context).time_stamp)


cdef Expression nothing_follows(
    Workspace workspace, void *context, uint32_t slot, uint64_t anchor
) except? NO_EXPRESSION nogil:
    """If no event ever follows, no obligation is met."""
    return FALSE_EXPRESSION


cdef inline uint64_t end_of_window(uint64_t time_stamp, uint64_t upper) noexcept nogil:
    """The end of a window. No event is later than MAX_TIME_STAMP; UNBOUNDED has no end."""
    if upper == UNBOUNDED():
        return UNBOUNDED()
    return min(time_stamp + upper, MAX_TIME_STAMP())


# ---- events ------------------------------------------------------------------------------------


@final
cdef class Engine:
    """A program in use by one thread, on one state at a time."""

    def __cinit__(self, Program program not None, str bdd, bint is_global):
        cdef size_t instructions = program.instruction_count
        self.program = program
        if program.plan is not None and not is_global:
            self.network = QueueNetwork(program)
        self.workspace = Workspace(program, bdd)
        self.kinds_are_exact = (
            program.fixed_slot_count + KINDS_OF_FAMILY * program.family_count <= 64
        )
        self.values = <Expression *> zeros(instructions, sizeof(Expression))
        self.evaluation = 1
        if self.network is None:
            self.past = rows_of_the_past(program)
        self.present_members = <uint32_t *> zeros(instructions, sizeof(uint32_t))
        self.fixed_images = <Expression *> zeros(program.fixed_slot_count, sizeof(Expression))
        self.family_events = <FamilyEvent *> zeros(program.family_count, sizeof(FamilyEvent))

    def __dealloc__(self):
        free(self.values)
        free(self.present_members)
        free(self.fixed_images)
        free(self.family_events)
        free(self.roots)
        free(self.is_mentioned)
        free(self.numbers)
        free(self.named)
        free(self.mentions.items)

    cdef int step(self, State *state, uint64_t time_stamp, const uint64_t *letter) except -1 nogil:
        """Process an event; its verdicts are then in the history. The clock is not checked."""
        cdef Moment moment
        if state.network != NULL:
            return self.network.step(state, time_stamp, letter)
        self._begin(state, time_stamp, &moment)
        if self.past is not None and state.evaluation == self.evaluation and (
            not self.past.is_paused()
        ):
            state.evaluation = 0
            self._evaluate_changed(self.past, state, letter, &moment)
        else:
            state.evaluation = 0
            self._evaluate_rows(
                state, letter, &moment, NULL, self.program.instruction_count - 1
            )
        self.evaluation += 1
        state.evaluation = self.evaluation
        if state.history.pending_count:
            self._find_absorption(self.workspace, state)
            update_pending(
                self.workspace, &state.history, time_stamp, moment.changed, image_at_anchor,
                &moment
            )
            state.history.absorbed_kind = 0
        if state.event_count and time_stamp == state.time_stamp:
            state.offset += 1
        else:
            state.offset = state.first_offset
        state.time_stamp = state.clock = time_stamp
        state.event_count += 1
        add_time_point(
            self.workspace, &state.history, time_stamp, state.offset,
            self._operand(self.program.root)
        )
        finish_verdicts(&state.history)
        return self._tidy(state)

    cdef int advance(self, State *state, uint64_t time_stamp) except -1 nogil:
        """Let time pass without an event: settle what ends before `time_stamp`."""
        cdef Moment moment
        cdef uint32_t i
        if state.network != NULL:
            return self.network.advance(state, time_stamp)
        self._begin(state, time_stamp, &moment)
        state.evaluation = 0
        if state.event_count:
            for i in range(1, self.program.instruction_count):
                self._pass_time(
                    self.workspace, state, &self.program.instructions[i], &moment
                )
            update_pending(
                self.workspace, &state.history, time_stamp, moment.changed, image_at_anchor,
                &moment
            )
        state.clock = time_stamp
        finish_verdicts(&state.history)
        return self._tidy(state)

    cdef int end(self, State *state) except -1 nogil:
        """Declare that no event ever follows: everything pending is settled."""
        cdef Moment moment
        if state.network != NULL:
            return self.network.end(state)
        self._begin(state, state.clock, &moment)
        state.evaluation = 0
        update_pending(
            self.workspace, &state.history, state.clock, UINT64_MAX, nothing_follows, &moment
        )
        finish_verdicts(&state.history)
        return 0

    cdef uint64_t next_change(self, const State *state) noexcept nogil:
        """The least `advance` that can change something pending; UINT64_MAX if none can."""
        cdef const History *history = &state.history
        cdef const Instruction *instruction
        cdef uint64_t change = UINT64_MAX
        cdef uint32_t i
        if state.network != NULL:
            return self.network.next_change(state)
        if history.pending_count == 0:
            return UINT64_MAX
        # The history's `next_due` may be that of an entry that is no longer pending.
        for i in range(history.threshold_count):
            if history.thresholds[i].cursor != NONE:
                change = min(change, due_time(history, &history.thresholds[i]))
        if history.active_count:
            change = min(change, history.groups[history.active[0]].due)
        for i in range(1, self.program.instruction_count):
            instruction = &self.program.instructions[i]
            if instruction.operation == OP_NEXT and instruction.upper != UNBOUNDED():
                change = min(change, state.time_stamp + instruction.upper + 1)
        return max(change, state.clock + 1)

    cdef int _evaluate_rows(
        self, State *state, const uint64_t *letter, Moment *moment, const uint32_t *rows,
        uint32_t count
    ) except -1 nogil:
        """Compute the values of some subformulas at an event, or of all if `rows` is NULL."""
        cdef uint32_t i, k
        cdef const Instruction *instruction
        cdef Expression *values = self.values
        for k in range(count):
            i = k + 1 if rows == NULL else rows[k]
            instruction = &self.program.instructions[i]
            if instruction.operation == OP_ATOM:
                values[i] = (letter[instruction.index >> 6] >> (instruction.index & 63)) & 1
            elif instruction.operation == OP_AND:
                values[i] = conjunction(
                    self.workspace,
                    values[instruction.left >> 1] ^ (instruction.left & 1),
                    values[instruction.right >> 1] ^ (instruction.right & 1),
                )
            else:
                self._evaluate(state, instruction, i, moment)
        return 0

    cdef int _evaluate_changed(
        self, PastRows past, State *state, const uint64_t *letter, Moment *moment
    ) except -1 nogil:
        """Compute the values of all subformulas; `values` are those of the state's last event."""
        cdef uint32_t w, row
        cdef uint32_t evaluated = 0
        cdef const Instruction *instruction
        cdef Expression *values = self.values
        cdef Expression before
        past.begin(self.evaluation, letter, moment.time_stamp)
        for w in range(past.word_count):
            while past.marked[w]:
                row = 64 * w + lowest_bit(past.marked[w])
                past.marked[w] &= past.marked[w] - 1
                evaluated += 1
                instruction = &self.program.instructions[row]
                before = values[row]
                if instruction.operation == OP_AND:
                    # Its operands are constants.
                    values[row] = self._operand(instruction.left) & (
                        self._operand(instruction.right)
                    )
                elif instruction.operation == OP_ATOM:
                    values[row] = letter[instruction.index >> 6] >> (instruction.index & 63) & 1
                else:
                    past.leave_steady(row)
                    self._evaluate(state, instruction, row, moment)
                    past.plan(row, state.witnesses, values)
                if values[row] != before:
                    past.mark_users(row)
        past.finish(moment.time_stamp, evaluated, self.evaluation + 1)
        return self._evaluate_rows(state, letter, moment, past.others, past.other_count)

    cdef void _begin(self, State *state, uint64_t time_stamp, Moment *moment) noexcept nogil:
        cdef uint32_t i
        state.history.verdict_count = 0
        state.stamp += 1
        for i in range(self.program.family_count):
            self.family_events[i].is_passed = False
            self.family_events[i].stamp = state.stamp
        self.workspace.families = state.families
        moment.time_stamp = time_stamp
        moment.changed = 0
        moment.families = state.families
        moment.family_events = self.family_events
        moment.fixed_images = self.fixed_images
        moment.slot_outer = self.program.slot_outer
        moment.outer_untils = self.program.outer_untils

    cdef Expression _operand(self, uint32_t operand) noexcept nogil:
        return self.values[operand >> 1] ^ (operand & 1)

    cdef int _evaluate(
        self, State *state, const Instruction *instruction, uint32_t number, Moment *moment
    ) except -1 nogil:
        """Compute the value of a temporal operator, and the images of its variables."""
        if instruction.operation == OP_SINCE:
            self.values[number] = since_event(
                self.workspace, &state.witnesses[instruction.index], instruction.lower,
                instruction.upper, moment.time_stamp, self._operand(instruction.left),
                self._operand(instruction.right), moment.changed, image_of_slot, moment
            )
        elif instruction.operation == OP_OUTER_UNTIL:
            self.values[number] = self._outer_until(self.workspace, instruction, moment)
        elif instruction.operation == OP_UNTIL:
            self.values[number] = self._until(
                self.workspace, state, instruction, number, moment
            )
        elif instruction.operation == OP_PREVIOUS:
            self.values[number] = self._previous(state, instruction, moment)
        elif instruction.operation == OP_NEXT:
            self.values[number] = self._next(state, instruction, moment)
        return 0

    cdef Expression _previous(
        self, State *state, const Instruction *instruction, Moment *moment
    ) except? NO_EXPRESSION nogil:
        cdef Expression *stored = &state.stored[instruction.index]
        cdef Expression value = FALSE_EXPRESSION
        cdef uint64_t delta = moment.time_stamp - state.time_stamp
        if state.event_count and instruction.lower <= delta <= instruction.upper:
            value = stored[0]
            if mask_of(self.workspace, value) & moment.changed:
                value = self.workspace.substitute(value, image_of_slot, moment)
        stored[0] = self._operand(instruction.left)
        return value

    cdef Expression _next(
        self, State *state, const Instruction *instruction, Moment *moment
    ) except? NO_EXPRESSION nogil:
        cdef uint64_t delta = moment.time_stamp - state.time_stamp
        self.fixed_images[instruction.index] = FALSE_EXPRESSION
        if instruction.lower <= delta <= instruction.upper:
            self.fixed_images[instruction.index] = self._operand(instruction.left)
        moment.changed |= slot_bit(instruction.index)
        return literal(self.workspace, instruction.index)

    cdef Expression _outer_until(
        self, Workspace workspace, const Instruction *instruction, Moment *moment
    ) except? NO_EXPRESSION nogil:
        cdef const OuterUntil *outer = &self.program.outer_untils[instruction.index]
        cdef Expression left = self._operand(instruction.left)
        cdef Expression right = self._operand(instruction.right)
        cdef Expression variable = literal(workspace, outer.open_slot)
        cdef Expression image = disjunction(
            workspace, right, conjunction(workspace, left, variable)
        )
        self.fixed_images[outer.open_slot] = image
        if image != variable:
            moment.changed |= slot_bit(outer.open_slot)
        if outer.closed_slot == NO_SLOT:
            return image
        variable = literal(workspace, outer.closed_slot)
        image = conjunction(workspace, left, variable)
        self.fixed_images[outer.closed_slot] = image
        if image != variable:
            moment.changed |= slot_bit(outer.closed_slot)
        # A window that begins after the largest time-stamp is empty.
        if instruction.lower > MAX_TIME_STAMP() - moment.time_stamp:
            return FALSE_EXPRESSION
        return image

    cdef Expression _until(
        self, Workspace workspace, State *state, const Instruction *instruction,
        uint32_t number, Moment *moment
    ) except? NO_EXPRESSION nogil:
        cdef Family *family = &state.families[instruction.index]
        cdef FamilyEvent *event = &self.family_events[instruction.index]
        cdef Expression left = self._operand(instruction.left)
        cdef Expression right = self._operand(instruction.right)
        cdef Expression value = FALSE_EXPRESSION if instruction.lower else right
        cdef uint64_t lower = moment.time_stamp + instruction.lower
        cdef uint64_t upper = end_of_window(moment.time_stamp, instruction.upper)
        cdef uint32_t *member = &self.present_members[number]
        if not event.is_passed:
            # The first operator of a family settles the obligations of all of them.
            event.is_passed = True
            event.left = left
            event.right = right
            pass_event(
                workspace, family, instruction.index, moment.time_stamp, True, event,
                &moment.changed
            )
        if value == TRUE_EXPRESSION or left == FALSE_EXPRESSION or lower > MAX_TIME_STAMP():
            return value
        if not is_window(family, member[0], lower, upper, moment.time_stamp):
            find_or_add(family, lower, upper, moment.time_stamp, member)
        return disjunction(
            workspace, value,
            conjunction(
                workspace, left,
                literal_of_member(workspace, instruction.index, member[0])
            ),
        )

    cdef void _find_absorption(self, Workspace workspace, State *state) noexcept nogil:
        """Tell the history which groups an outer UNTIL's new obligation does not affect.

        If NOT v becomes NOT v AND u, where u is the open obligation of its family that ends last, a
        cube with another u of that family does not change: the obligation that ends sooner implies
        the later one.

        PERF: without this, n1 with p and q at 0.5 and 0.02 took 720 ns an event instead of 233.
        """
        cdef uint32_t i, slot, family
        cdef const uint32_t *literals
        cdef const Node *node
        cdef const Family *own
        if not self.kinds_are_exact:
            return
        for i in range(self.program.outer_count):
            slot = self.program.outer_untils[i].open_slot
            node = &workspace.nodes[self.fixed_images[slot] >> 1]
            if (
                node.kind != NODE_CUBE or node.length != 2
                or self.fixed_images[slot] & 1 == 0
            ):
                continue
            literals = workspace.pool + node.start
            family = family_of(&workspace.slots, literals[1] >> 1)
            if literals[0] != (2 * slot | 1) or literals[1] & 1 or family == NO_FAMILY:
                continue
            own = &state.families[family]
            if (
                own.open_head < own.open_count
                and own.open[own.open_count - 1] == member_of(&workspace.slots, literals[1] >> 1)
            ):
                state.history.absorbed_kind = slot_bit(slot)
                state.history.absorbing_family = family
                return

    # ---- memory ----------------------------------------------------------------------------

    cdef void count_held(self, HeldBytes *held) noexcept nogil:
        """Add the bytes that the program, the workspace and the scratch memory take."""
        self.workspace.counted = self.workspace.held_bytes()
        held.of[HELD_EXPRESSIONS] += self.workspace.counted
        held.of[HELD_FORMULA] += self.program.held_bytes()
        held.of[HELD_OPERATORS] += (
            self.program.instruction_count * (sizeof(Expression) + sizeof(uint32_t))
            + self.program.fixed_slot_count * sizeof(Expression)
            + self.program.family_count * sizeof(FamilyEvent)
            + self.root_capacity * sizeof(Expression *)
            + self.is_mentioned_capacity
            + (<size_t> self.number_capacity + self.named_capacity) * sizeof(uint32_t)
            + self.mentions.capacity * sizeof(uint64_t)
        )
        if self.past is not None:
            held.of[HELD_OPERATORS] += self.past.held_bytes()
        if self.network is not None:
            held.of[HELD_TRANSITIONS] += self.network.held_bytes()

    cdef void set_limit(self, MemoryLimit memory):
        """Tell the workspace which limit to consult when it has no room left."""
        self.workspace.memory = memory

    cdef void set_room(self, MemoryLimit memory) noexcept nogil:
        """Give the workspace the room that the last count has left."""
        self.workspace.room = memory.room_for(self.workspace.counted)

    # ---- time without events ---------------------------------------------------------------

    cdef int _pass_time(
        self, Workspace workspace, State *state, const Instruction *instruction, Moment *moment
    ) except -1 nogil:
        """Apply the passing of time to an operator's variables and stored expressions."""
        cdef Expression *stored
        cdef const OuterUntil *outer
        if instruction.operation == OP_PREVIOUS:
            stored = &state.stored[instruction.index]
            if mask_of(workspace, stored[0]) & moment.changed:
                stored[0] = workspace.substitute(stored[0], image_of_slot, moment)
        elif instruction.operation == OP_SINCE:
            since_time(
                workspace, &state.witnesses[instruction.index], instruction.upper,
                moment.time_stamp, moment.changed, image_of_slot, moment
            )
        elif instruction.operation == OP_NEXT:
            self.fixed_images[instruction.index] = literal(workspace, instruction.index)
            if moment.time_stamp - state.time_stamp > instruction.upper:
                self.fixed_images[instruction.index] = FALSE_EXPRESSION
                moment.changed |= slot_bit(instruction.index)
        elif instruction.operation == OP_OUTER_UNTIL:
            outer = &self.program.outer_untils[instruction.index]
            self.fixed_images[outer.open_slot] = literal(workspace, outer.open_slot)
            if outer.closed_slot != NO_SLOT:
                self.fixed_images[outer.closed_slot] = literal(workspace, outer.closed_slot)
        elif instruction.operation == OP_UNTIL:
            # This repeats for every operator of the family, and then finds nothing more to do.
            pass_event(
                workspace, &state.families[instruction.index], instruction.index,
                moment.time_stamp, False, &self.family_events[instruction.index],
                &moment.changed
            )
        return 0

    # ---- between events --------------------------------------------------------------------

    cdef int _tidy(self, State *state) except -1 nogil:
        """Forget what no stored expression mentions, once there is enough of it."""
        cdef uint32_t i
        for i in range(self.program.family_count):
            if members_in_use(&state.families[i]) > state.families[i].sweep_at:
                self._sweep(self.workspace, state, i)
        if not self.is_shared and is_worth_compacting(self.workspace):
            with gil:
                self.compact(state)
        if MTLMON_CHECKS:
            with gil:
                self._check(state)
        return 0

    cdef int _add_root(self, Expression *root) except -1 nogil:
        reserve(
            <void **> &self.roots, &self.root_capacity, <size_t> self.root_count + 1,
            sizeof(Expression *)
        )
        self.roots[self.root_count] = root
        self.root_count += 1
        return 0

    cdef int _collect_roots(self, State *state) except -1 nogil:
        """Collect the places of all stored expressions."""
        self.root_count = 0
        return self._add_roots(state)

    cdef int _add_roots(self, State *state) except -1 nogil:
        cdef uint32_t i, j
        for i in range(self.program.previous_count):
            self._add_root(&state.stored[i])
        for i in range(self.program.since_count):
            self._add_root(&state.witnesses[i].settled)
            for j in range(state.witnesses[i].count):
                self._add_root(&run_at(&state.witnesses[i], j).expression)
        for i in range(state.history.active_count):
            self._add_root(&state.history.groups[state.history.active[i]].expression)
        return 0

    cdef int _sweep(
        self, Workspace workspace, State *state, uint32_t family
    ) except -1 nogil:
        """Free the obligations of a family that no stored expression mentions."""
        cdef uint32_t i, j, slot, node, shift
        self._collect_roots(state)
        reserve(
            <void **> &self.is_mentioned, &self.is_mentioned_capacity,
            state.families[family].capacity, sizeof(uint8_t)
        )
        memset(self.is_mentioned, 0, self.is_mentioned_capacity)
        for i in range(self.root_count):
            node = self.roots[i][0] >> 1
            shift = workspace.nodes[node].kind == NODE_CUBE
            for j in range(workspace.nodes[node].length):
                slot = workspace.pool[workspace.nodes[node].start + j] >> shift
                if family_of(&workspace.slots, slot) == family:
                    self.is_mentioned[member_of(&workspace.slots, slot)] = True
        sweep(&state.families[family], self.is_mentioned)
        return 0

    cdef int compact(self, State *state) except -1:
        """Replace the workspace by one that has only the stored expressions."""
        self._collect_roots(state)
        self.workspace = self.workspace.compacted(self.roots, self.root_count)
        rehash(&state.history)
        return 0

    cdef int _check(self, State *state) except -1:
        """Check that stored expressions name only live obligations, and check the history."""
        cdef Workspace workspace = self.workspace
        cdef uint32_t i, j, slot, node, shift
        self._collect_roots(state)
        for i in range(self.root_count):
            node = self.roots[i][0] >> 1
            assert node < workspace.node_count, "an expression out of range"
            shift = workspace.nodes[node].kind == NODE_CUBE
            for j in range(workspace.nodes[node].length):
                slot = workspace.pool[workspace.nodes[node].start + j] >> shift
                if slot >= self.program.fixed_slot_count:
                    family = family_of(&workspace.slots, slot)
                    window = state.families[family].windows[member_of(&workspace.slots, slot)]
                    assert window.phase != PHASE_FREE, "an obligation that is over"
                    assert window.upper >= state.clock, "an obligation beyond its end"
        check_history(workspace, &state.history)
        return 0
