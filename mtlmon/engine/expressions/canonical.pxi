# cython: language_level=3
"""The canonical form of a state of the engine of expressions, and the way back.

The form has the windows of obligations, the expressions that the state mentions, and then what
mentions them. Times are distances from the clock. Expressions are written by what they mean: as
literals, or as nodes of a BDD over obligations. They are numbered in the order in which the state
mentions them, and obligations in the order in which their family lists them; those that nothing
mentions are omitted. So the form says nothing of the workspace, and nothing of how the state was
reached, except that a BDD keeps the order of its variables.
"""

from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset


# ---- from state to words -----------------------------------------------------------------------


cdef int write_expressions(Engine engine, State *state, Words *words) except -1 nogil:
    """Write the canonical form of a state, as it is between events.

    Obligations that nothing mentions are forgotten as a side effect.
    """
    cdef Words *mentions = &engine.mentions
    cdef uint32_t i
    cdef uint32_t known = engine.number_capacity
    for i in range(state.family_count):
        if members_in_use(&state.families[i]):
            engine._sweep(engine.workspace, state, i)
        write_family(&state.families[i], state.clock, words)
    reserve(
        <void **> &engine.numbers, &engine.number_capacity, engine.workspace.node_count,
        sizeof(uint32_t)
    )
    if engine.number_capacity > known:
        memset(engine.numbers + known, 0, (engine.number_capacity - known) * sizeof(uint32_t))
    mentions.count = engine.named_count = 0
    try:
        write_mentions(engine, state, mentions, True)
        write_nodes(engine, state, words)
    finally:
        for i in range(engine.named_count):
            engine.numbers[engine.named[i]] = 0
    reserve_words(words, mentions.count)
    if mentions.count:
        memcpy(words.items + words.count, mentions.items, mentions.count * sizeof(uint64_t))
    words.count += mentions.count
    return 0


cdef int write_family(Family *family, uint64_t clock, Words *words) except -1 nogil:
    """Write the windows of a family, and number its members in the same order."""
    cdef Window *window
    cdef uint32_t i
    cdef uint32_t number = 0
    put_word(words, family.open_count - family.open_head)
    put_word(words, family.closed_count - family.closed_head)
    for i in range(family.open_head, family.open_count):
        window = &family.windows[family.open[i]]
        number_member(window, &number)
        put_word(words, distance_to_end(window, clock))
    for i in range(family.closed_head, family.closed_count):
        window = &family.windows[family.closed[i]]
        number_member(window, &number)
        put_word(words, distance_to_end(window, clock))
        put_word(words, window.lower - clock)
    return 0


cdef inline void number_member(Window *window, uint32_t *number) noexcept nogil:
    # Between events, no image is valid, so that its place is free.
    window.stamp = 0
    window.image = number[0]
    number[0] += 1


cdef inline uint64_t distance_to_end(const Window *window, uint64_t clock) noexcept nogil:
    """One more than the distance to the last time-stamp of a window; 0 if there is none."""
    return 0 if window.upper == UNBOUNDED() else window.upper - clock + 1


cdef int write_mentions(
    Engine engine, const State *state, Words *words, bint by_meaning
) except -1 nogil:
    """Write what mentions expressions: stored operands, witnesses and undecided time-points.

    by_meaning: whether expressions are numbered in the order of their first mention; otherwise
        they have their numbers in the workspace.
    """
    cdef const Instruction *instruction
    cdef const Entry *entry
    cdef uint32_t i
    cdef uint32_t number = state.history.first
    for i in range(state.previous_count):
        put_reference(engine, state.stored[i], words, by_meaning)
    if state.since_count:
        for i in range(1, engine.program.instruction_count):
            instruction = &engine.program.instructions[i]
            if instruction.operation == OP_SINCE:
                write_witnesses(
                    engine, &state.witnesses[instruction.index], instruction, state.clock, words,
                    by_meaning
                )
    put_word(words, state.history.pending_count)
    while number != NONE:
        entry = &state.history.entries[number]
        put_reference(
            engine, state.history.groups[entry.group].expression, words, by_meaning
        )
        put_word(words, state.clock - entry.time_stamp)
        put_word(words, entry.offset)
        put_word(words, entry.weight)
        number = entry.later
    return 0


cdef inline int put_reference(
    Engine engine, Expression expression, Words *words, bint by_meaning
) except -1 nogil:
    cdef uint32_t node = expression >> 1
    if by_meaning and node:
        if engine.numbers[node] == 0:
            reserve(
                <void **> &engine.named, &engine.named_capacity,
                <size_t> engine.named_count + 1, sizeof(uint32_t)
            )
            engine.named[engine.named_count] = node
            engine.named_count += 1
            engine.numbers[node] = engine.named_count
        node = engine.numbers[node]
    return put_word(words, <uint64_t> node << 1 | (expression & 1))


cdef int write_witnesses(
    Engine engine, const Witnesses *witnesses, const Instruction *instruction, uint64_t clock,
    Words *words, bint by_meaning
) except -1 nogil:
    """Write the runs of witnesses; those that no interval will ever tell apart are one."""
    cdef uint64_t lower = instruction.lower
    cdef uint64_t upper = instruction.upper
    cdef uint64_t first, last
    cdef uint32_t start
    cdef uint32_t i = 0
    cdef uint32_t count = 0
    cdef const Run *run
    cdef const Run *following
    put_reference(engine, witnesses.settled, words, by_meaning)
    start = words.count
    put_word(words, 0)
    while i < witnesses.count:
        run = run_at(witnesses, i)
        first = clock - run.first
        last = clock - run.last
        i += 1
        while i < witnesses.count:
            following = run_at(witnesses, i)
            # Once the first witness of a run is old enough, a gap before it makes no difference.
            if following.expression != run.expression or not (
                clock - following.first >= lower
                or upper == UNBOUNDED()
                or last - (clock - following.first) <= upper - lower + 1
            ):
                break
            last = clock - following.last
            i += 1
        # Where a run begins makes no difference once that is old enough, and where it ends makes
        # none if nothing is too old.
        first = max(last, min(first, lower)) if upper != UNBOUNDED() else min(first, lower)
        if upper == UNBOUNDED():
            last = first
        put_word(words, first)
        put_word(words, last)
        put_reference(engine, run.expression, words, by_meaning)
        count += 1
    words.items[start] = count
    return 0


cdef int write_nodes(Engine engine, const State *state, Words *words) except -1 nogil:
    """Write the expressions that have been mentioned, after the order of variables in BDDs."""
    cdef uint32_t i
    for i in range(engine.named_count):
        if engine.workspace.nodes[engine.named[i]].kind == NODE_MIXED:
            with gil:
                return write_bdds(engine, state, words)
    put_word(words, 0)
    put_word(words, engine.named_count)
    for i in range(engine.named_count):
        write_cube(engine, state, engine.named[i], words)
    return 0


cdef uint64_t variable_of(Engine engine, const State *state, uint32_t slot) noexcept nogil:
    """A number for the variable of a slot: fixed slots first, then the members of families."""
    cdef const SlotMap *slots = &engine.workspace.slots
    cdef uint32_t family = family_of(slots, slot)
    if family == NO_FAMILY:
        return slot
    return slots.fixed_count + family + (
        <uint64_t> slots.family_count
        * state.families[family].windows[member_of(slots, slot)].image
    )


cdef int write_cube(
    Engine engine, const State *state, uint32_t node, Words *words
) except -1 nogil:
    cdef const Node *cube = &engine.workspace.nodes[node]
    cdef uint32_t i, item
    put_word(words, <uint64_t> cube.length << 1)
    for i in range(cube.length):
        item = engine.workspace.pool[cube.start + i]
        put_word(words, variable_of(engine, state, item >> 1) << 1 | (item & 1))
    # Slots are numbered differently in every workspace, but the variables are not.
    sort_words(words.items + words.count - cube.length, cube.length)
    return 0


cdef int write_bdds(Engine engine, const State *state, Words *words) except -1:
    """Write expressions of which some are BDDs."""
    cdef Workspace workspace = engine.workspace
    cdef uint32_t i, j
    cdef const Node *node
    slots = set()
    for i in range(engine.named_count):
        node = &workspace.nodes[engine.named[i]]
        if node.kind == NODE_MIXED:
            for j in range(node.length):
                slots.add(workspace.pool[node.start + j])
    order = workspace.ask("in_order", (slots,))
    levels = {slot: level for level, slot in enumerate(order)}
    put_word(words, <uint64_t> len(order))
    for slot in order:
        put_word(words, variable_of(engine, state, slot))
    put_word(words, engine.named_count)
    for i in range(engine.named_count):
        if workspace.nodes[engine.named[i]].kind == NODE_CUBE:
            write_cube(engine, state, engine.named[i], words)
            continue
        nodes, root = workspace.ask("export", (workspace.functions[engine.named[i]],))
        put_word(words, <uint64_t> len(nodes) << 1 | 1)
        for slot, low, high in nodes:
            put_word(words, <uint64_t> levels[slot])
            put_word(words, <uint64_t> low)
            put_word(words, <uint64_t> high)
        put_word(words, <uint64_t> root)
    return 0


# ---- from words to state -----------------------------------------------------------------------


cdef bint read_expressions(Engine engine, State *state, WordReader *reader) except -1 nogil:
    """Rebuild the structures of a state; False if the words do not describe one.

    The counters, the clock and the last time-stamp of the state are known already.
    """
    cdef const Instruction *instruction
    cdef uint32_t i
    state.evaluation = 0
    for i in range(state.family_count):
        if not read_family(&state.families[i], state.clock, reader):
            return False
    engine.workspace.families = state.families
    engine.named_count = 0
    if not read_nodes(engine, state, reader):
        return False
    for i in range(state.previous_count):
        state.stored[i] = take_reference(engine, reader)
    if state.since_count:
        for i in range(1, engine.program.instruction_count):
            instruction = &engine.program.instructions[i]
            if instruction.operation == OP_SINCE:
                read_witnesses(
                    engine, &state.witnesses[instruction.index], state.clock, reader
                )
    return read_entries(engine, &state.history, state.clock, reader)


cdef bint read_family(Family *family, uint64_t clock, WordReader *reader) except -1 nogil:
    """Read the windows of a family; its members have their numbers in the form."""
    cdef uint32_t open_count = take_count(reader, 1)
    cdef uint32_t closed_count = take_count(reader, 1)
    cdef uint32_t i
    cdef uint32_t known = family.capacity
    cdef Window *window
    cdef const Window *before
    for i in range(family.open_head, family.open_count):
        family.windows[family.open[i]].phase = PHASE_FREE
    for i in range(family.closed_head, family.closed_count):
        family.windows[family.closed[i]].phase = PHASE_FREE
    family.open_head = family.closed_head = family.open_count = family.closed_count = 0
    family.lowest_free = family.used_first = family.used_end = 0
    # No window begins after the largest time-stamp, but the clock may be beyond it.
    if reader.is_damaged or (closed_count and clock > MAX_TIME_STAMP()):
        return False
    reserve(
        <void **> &family.windows, &family.capacity, <size_t> open_count + closed_count,
        sizeof(Window)
    )
    if family.capacity > known:
        memset(family.windows + known, 0, (family.capacity - known) * sizeof(Window))
    reserve(<void **> &family.open, &family.open_capacity, open_count, sizeof(uint32_t))
    reserve(<void **> &family.closed, &family.closed_capacity, closed_count, sizeof(uint32_t))
    for i in range(open_count):
        window = &family.windows[i]
        read_window_end(window, clock, reader)
        window.lower = 0
        window.phase = PHASE_OPEN
        family.open[i] = i
        family.open_count += 1
        if i and not family.windows[i - 1].upper < window.upper:
            return False
    for i in range(closed_count):
        window = &family.windows[open_count + i]
        read_window_end(window, clock, reader)
        window.lower = clock + take_at_most(reader, MAX_TIME_STAMP() - clock)
        window.phase = PHASE_CLOSED
        family.closed[i] = open_count + i
        family.closed_count += 1
        if i:
            before = &family.windows[open_count + i - 1]
            if not comes_before(before, window.lower, window.upper):
                return False
    return not reader.is_damaged


cdef inline void read_window_end(
    Window *window, uint64_t clock, WordReader *reader
) noexcept nogil:
    cdef uint64_t distance = take_at_most(reader, MAX_TIME_STAMP() - clock + 1)
    window.stamp = 0
    window.upper = clock + distance - 1 if distance else UNBOUNDED()


cdef inline Expression take_reference(Engine engine, WordReader *reader) noexcept nogil:
    cdef uint64_t reference = take_at_most(reader, 2 * <uint64_t> engine.named_count + 1)
    if reference >> 1 == 0:
        return <Expression> reference
    return engine.named[(reference >> 1) - 1] ^ <Expression> (reference & 1)


cdef int name_expression(Engine engine, Expression expression) except -1 nogil:
    """Give the next number to an expression that has been read."""
    reserve(
        <void **> &engine.named, &engine.named_capacity, <size_t> engine.named_count + 1,
        sizeof(uint32_t)
    )
    engine.named[engine.named_count] = expression
    engine.named_count += 1
    return 0


cdef bint read_witnesses(
    Engine engine, Witnesses *witnesses, uint64_t clock, WordReader *reader
) except -1 nogil:
    cdef uint32_t count
    cdef Run *run
    witnesses.settled = take_reference(engine, reader)
    count = take_count(reader, 3)
    witnesses.head = witnesses.count = witnesses.symbolic = 0
    while witnesses.capacity < count:
        grow(witnesses)
    while witnesses.count < count:
        run = &witnesses.runs[witnesses.count]
        run.first = clock - take_at_most(reader, clock)
        run.last = clock - take_at_most(reader, clock)
        run.expression = take_reference(engine, reader)
        witnesses.symbolic += run.expression != TRUE_EXPRESSION
        witnesses.count += 1
    return not reader.is_damaged


cdef bint read_entries(
    Engine engine, History *history, uint64_t clock, WordReader *reader
) except -1 nogil:
    """Read the undecided time-points, and find their groups by their expressions."""
    cdef uint32_t count = take_count(reader, 4)
    cdef uint32_t i, group, number
    cdef uint64_t time_stamp, offset
    cdef const Entry *before
    cdef Expression expression
    forget_entries(history)
    for i in range(count):
        expression = take_reference(engine, reader)
        time_stamp = clock - take_at_most(reader, clock)
        offset = take_word(reader)
        if is_constant(expression):
            return False
        if i:
            before = &history.entries[history.last]
            if time_stamp < before.time_stamp or (
                time_stamp == before.time_stamp and offset <= before.offset
            ):
                return False
        group = find_group(history, expression)
        if group == NONE:
            new_group(history, expression, &group)
            watch(engine.workspace, history, group)
        new_entry(history, time_stamp, offset, &number)
        history.entries[number].weight = take_word(reader)
        link_member(history, number, group)
    history.next_due = UINT64_MAX
    for i in range(history.threshold_count):
        pass_threshold(history, &history.thresholds[i], clock)
    return not reader.is_damaged


cdef bint read_nodes(Engine engine, State *state, WordReader *reader) except -1 nogil:
    cdef uint32_t levels = take_count(reader, 1)
    cdef uint32_t i, count
    if levels:
        with gil:
            return read_bdds(engine, state, levels, reader)
    count = take_count(reader, 1)
    for i in range(count):
        if not read_cube(engine, state, take_word(reader), reader):
            return False
    return not reader.is_damaged


cdef bint slot_of_variable(
    Engine engine, State *state, uint64_t variable, uint32_t *slot
) except -1 nogil:
    """The slot of a variable; False if it is that of no obligation."""
    cdef SlotMap *slots = &engine.workspace.slots
    cdef uint32_t family
    slot[0] = <uint32_t> variable
    if variable < slots.fixed_count:
        return True
    variable -= slots.fixed_count
    if slots.family_count == 0:
        return False
    family = variable % slots.family_count
    variable //= slots.family_count
    if variable >= members_in_use(&state.families[family]):
        return False
    slot_of(slots, family, <uint32_t> variable, slot)
    return True


cdef bint read_cube(
    Engine engine, State *state, uint64_t head, WordReader *reader
) except -1 nogil:
    """Read the literals behind the first word of a cube."""
    cdef uint64_t length = head >> 1
    cdef uint64_t item
    cdef uint64_t previous = 0
    cdef uint32_t slot, i
    if head & 1 or length > reader.count - reader.place:
        return False
    reserve(
        <void **> &engine.workspace.merged, &engine.workspace.merged_capacity, <size_t> length,
        sizeof(uint32_t)
    )
    for i in range(<uint32_t> length):
        item = take_word(reader)
        if (i and item >> 1 <= previous >> 1) or not slot_of_variable(
            engine, state, item >> 1, &slot
        ):
            return False
        engine.workspace.merged[i] = slot << 1 | <uint32_t> (item & 1)
        previous = item
    sort_items(engine.workspace.merged, <uint32_t> length)
    name_expression(
        engine, engine.workspace.intern_cube(engine.workspace.merged, <uint32_t> length)
    )
    return True


cdef bint read_bdds(
    Engine engine, State *state, uint32_t level_count, WordReader *reader
) except -1:
    """Read expressions of which some are BDDs, after the number of variables."""
    cdef uint64_t head, level, low, high, most
    cdef uint32_t slot, i, j, count
    order = []
    for i in range(level_count):
        if not slot_of_variable(engine, state, take_word(reader), &slot):
            return False
        order.append(slot)
    if len(set(order)) != len(order):
        return False
    engine.workspace._require_manager()
    engine.workspace.ask("declare", (order,))
    count = take_count(reader, 1)
    for i in range(count):
        head = take_word(reader)
        if not head & 1:
            if not read_cube(engine, state, head, reader):
                return False
            continue
        if head >> 1 > (reader.count - reader.place) // 3:
            return False
        nodes = []
        # The level of each node, after the level of the constant.
        levels = [<uint64_t> level_count]
        for j in range(<uint32_t> (head >> 1)):
            level = take_at_most(reader, level_count - 1)
            most = 2 * <uint64_t> j + 1
            low = take_at_most(reader, most)
            high = take_at_most(reader, most)
            # Nodes in another order are not a BDD, and building such a node may take forever.
            if reader.is_damaged or level >= levels[low >> 1] or level >= levels[high >> 1]:
                return False
            levels.append(level)
            nodes.append((order[level], low, high))
        most = 2 * <uint64_t> len(nodes) + 1
        name_expression(engine, engine.workspace.intern_nodes(nodes, take_at_most(reader, most)))
    return not reader.is_damaged


# ---- equality ----------------------------------------------------------------------------------


cdef bint expressions_are_equal(
    Engine engine, const State *state, const State *other
) except -1:
    """Whether two states that have just been read say the same of each member's variable.

    This also finds BDDs equal whose variables were written in different orders.
    """
    cdef Words words, other_words
    memset(&words, 0, sizeof(Words))
    memset(&other_words, 0, sizeof(Words))
    try:
        write_mentions(engine, state, &words, False)
        write_mentions(engine, other, &other_words, False)
        return words.count == other_words.count and memcmp(
            words.items, other_words.items, words.count * sizeof(uint64_t)
        ) == 0
    finally:
        free(words.items)
        free(other_words.items)
