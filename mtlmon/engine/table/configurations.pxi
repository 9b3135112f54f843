# cython: language_level=3
"""Canonical form of a state: all times relative to now, so that equal keys behave alike.

Two states with equal *keys* answer the same events in the same way, except for the names of the
pending time-points. These names are kept in *registers*, one for each pending time-point, in order
of time. All times in a key are distances from the last event, capped where a greater distance makes
no difference. The key and the registers together are the state: `restore` rebuilds it from them.

Keys contain expressions by number, so keys become invalid with the workspace.

If time has passed since the last event, states of the network still have keys: their last block is
closed, and what windows have missed is decided, so it is not in the key. Only the clock is kept
beside the registers. States of expressions then have no key until their next event, and are kept
whole.
"""

from libc.stdint cimport UINT64_MAX
from libc.stdlib cimport malloc
from libc.string cimport memcpy, memset


cdef enum:
    # The word of a pending time-point in a key: its age, and in the lower bits its group and this
    # bit, which is set if the previous time-point has the same time-stamp.
    GROUP_BITS = 7
    SAME_TIME_STAMP = 1 << GROUP_BITS
    # The word of a window: its end, and in the lower bits the number of the member.
    MEMBER_BITS = 15


cdef bint suits(Program program) noexcept:
    """Whether states of the program can have keys at all."""
    cdef uint32_t i
    cdef const Instruction *instruction
    if program.atom_count > 64:
        return False
    for i in range(1, program.instruction_count):
        instruction = &program.instructions[i]
        if instruction.operation == OP_ATOM or instruction.operation == OP_AND:
            continue
        if instruction.lower >= TIME_LIMIT() or (
            instruction.upper != UNBOUNDED() and instruction.upper >= TIME_LIMIT()
        ):
            return False
    return True


cdef inline bint put(Key *key, uint64_t word) noexcept nogil:
    if key.length == MOST_WORDS:
        return False
    key.words[key.length] = word
    key.length += 1
    return True


# ---- from state to key -------------------------------------------------------------------------


cdef bint describe(Engine engine, State *state, Key *key) except -1 nogil:
    """Make the key of a state that has seen an event; False if it is too large or too late.

    If time has passed since the event, only a state of a queue network has a key: what its windows
    have missed by then is not in it any more. Obligations that nothing mentions are forgotten as a
    side effect.
    """
    cdef uint32_t i
    cdef const Instruction *instruction
    key.length = 0
    if state.time_stamp >= TIME_LIMIT():
        return False
    if state.network != NULL:
        return describe_network(engine.network, state, key)
    if state.clock != state.time_stamp:
        return False
    for i in range(state.family_count):
        if members_in_use(&state.families[i]):
            engine._sweep(engine.workspace, state, i)
            if not put_family(key, &state.families[i], state.time_stamp):
                return False
        elif not put(key, 0):
            return False
    for i in range(engine.program.previous_count):
        if not put(key, state.stored[i]):
            return False
    for i in range(1, engine.program.instruction_count):
        instruction = &engine.program.instructions[i]
        if instruction.operation == OP_SINCE and not put_witnesses(
            key, &state.witnesses[instruction.index], instruction.lower, state.time_stamp
        ):
            return False
    return put_history(key, &state.history, state.time_stamp)


cdef bint describe_network(QueueNetwork network, State *state, Key *key) except -1 nogil:
    """Do the same for a queue network. The first word of the key is the number of the others."""
    cdef Words *words = &network.scratch
    words.count = 0
    write_network(network, state, words)
    if words.count >= MOST_WORDS:
        return False
    put(key, words.count)
    memcpy(key.words + 1, words.items, words.count * sizeof(uint64_t))
    key.length = words.count + 1
    return True


cdef bint put_family(Key *key, Family *family, uint64_t time_stamp) noexcept nogil:
    cdef uint32_t open_count = family.open_count - family.open_head
    cdef uint32_t closed_count = family.closed_count - family.closed_head
    cdef uint32_t i, member
    cdef Window *window
    if not put(key, <uint64_t> open_count << 32 | closed_count):
        return False
    for i in range(family.open_head, family.open_count):
        member = family.open[i]
        if not put_window_end(key, &family.windows[member], member, time_stamp):
            return False
    for i in range(family.closed_head, family.closed_count):
        member = family.closed[i]
        window = &family.windows[member]
        if not put_window_end(key, window, member, time_stamp):
            return False
        if not put(key, window.lower - time_stamp):
            return False
    return True


cdef bint put_window_end(
    Key *key, const Window *window, uint32_t member, uint64_t time_stamp
) noexcept nogil:
    cdef uint64_t distance = UINT64_MAX >> MEMBER_BITS
    if window.upper != UNBOUNDED():
        distance = window.upper - time_stamp
    return member < 1 << MEMBER_BITS and put(key, distance << MEMBER_BITS | member)


cdef bint put_witnesses(
    Key *key, const Witnesses *witnesses, uint64_t lower, uint64_t time_stamp
) noexcept nogil:
    cdef uint32_t i
    cdef const Run *run
    if not put(key, <uint64_t> witnesses.count << 32 | witnesses.settled):
        return False
    for i in range(witnesses.count):
        run = run_at(witnesses, i)
        # The first witness matters until it is as old as the lower bound.
        if not (
            put(key, min(time_stamp - run.first, lower))
            and put(key, time_stamp - run.last)
            and put(key, run.expression)
        ):
            return False
    return True


cdef bint put_history(Key *key, const History *history, uint64_t time_stamp) noexcept nogil:
    """Write the groups in order of their first members, then the time-points."""
    cdef uint64_t oldest = oldest_age(history)
    cdef uint32_t seen[MOST_GROUPS]
    cdef uint32_t group_count = 0
    cdef uint32_t number = history.first
    cdef uint32_t group, start
    cdef uint64_t word
    cdef const Entry *entry
    if history.pending_count > MOST_REGISTERS or history.active_count > MOST_GROUPS:
        return False
    if not put(key, <uint64_t> history.active_count << 32 | history.pending_count):
        return False
    start = key.length
    if start + history.active_count + history.pending_count > MOST_WORDS:
        return False
    key.length += history.active_count
    while number != NONE:
        entry = &history.entries[number]
        group = 0
        while group < group_count and seen[group] != entry.group:
            group += 1
        if group == group_count:
            seen[group] = entry.group
            key.words[start + group] = history.groups[entry.group].expression
            group_count += 1
        word = min(time_stamp - entry.time_stamp, oldest) << (GROUP_BITS + 1) | group
        if (
            entry.earlier != NONE
            and history.entries[entry.earlier].time_stamp == entry.time_stamp
        ):
            word |= SAME_TIME_STAMP
        put(key, word)
        number = entry.later
    return True


cdef uint64_t oldest_age(const History *history) noexcept nogil:
    """An age beyond which age makes no difference: past all thresholds, and not the present."""
    cdef uint64_t age = 1
    cdef uint32_t i
    for i in range(history.threshold_count):
        age = max(age, history.thresholds[i].distance + 1)
    return age


cdef uint64_t settling_distance(Engine engine, const State *state) noexcept nogil:
    """A distance beyond which it makes no difference how far away the next event is.

    At this distance, all windows, witnesses and thresholds that depend on time are in the past.
    `describe` must have just described the state.
    """
    cdef uint64_t now = state.time_stamp
    cdef uint64_t latest = now          # no change happens later than this
    cdef uint64_t reach
    cdef uint32_t i, j
    cdef const Family *family
    cdef const Window *window
    cdef const Instruction *instruction
    cdef const Witnesses *witnesses
    if state.network != NULL:
        return network_settling_distance(engine.network, state)
    for i in range(state.family_count):
        family = &state.families[i]
        for j in range(family.open_head, family.open_count):
            window = &family.windows[family.open[j]]
            if window.upper != UNBOUNDED():
                latest = max(latest, window.upper)
        for j in range(family.closed_head, family.closed_count):
            window = &family.windows[family.closed[j]]
            latest = max(latest, last_bound(window.lower, window.upper))
    for i in range(1, engine.program.instruction_count):
        instruction = &engine.program.instructions[i]
        reach = last_bound(instruction.lower, instruction.upper)
        if instruction.operation == OP_NEXT or (
            instruction.operation == OP_PREVIOUS
            and state.stored[instruction.index] != FALSE_EXPRESSION
        ):
            latest = max(latest, now + reach)
        elif instruction.operation == OP_SINCE:
            witnesses = &state.witnesses[instruction.index]
            if witnesses.count:
                latest = max(latest, run_at(witnesses, witnesses.count - 1).last + reach)
    if state.history.first != NONE:
        for i in range(state.history.threshold_count):
            latest = max(
                latest,
                state.history.entries[state.history.last].time_stamp
                + state.history.thresholds[i].distance,
            )
    return latest - now + 1


cdef bint is_transient(Engine engine, const State *state) noexcept nogil:
    """Whether nothing in the past matters for events at the settling distance and beyond.

    At that distance, only unbounded things matter: a witness that never grows too old, the operand
    of a PREVIOUS that can be any time in the past, an obligation that is never missed.
    """
    cdef uint32_t i, j
    cdef const Family *family
    cdef const Instruction *instruction
    cdef const Witnesses *witnesses
    if state.network != NULL:
        return network_is_transient(engine.network, state)
    for i in range(state.family_count):
        family = &state.families[i]
        for j in range(family.open_head, family.open_count):
            if family.windows[family.open[j]].upper == UNBOUNDED():
                return False
        for j in range(family.closed_head, family.closed_count):
            if family.windows[family.closed[j]].upper == UNBOUNDED():
                return False
    for i in range(1, engine.program.instruction_count):
        instruction = &engine.program.instructions[i]
        if instruction.upper != UNBOUNDED():
            continue
        if instruction.operation == OP_PREVIOUS:
            if state.stored[instruction.index] != FALSE_EXPRESSION:
                return False
        elif instruction.operation == OP_SINCE:
            witnesses = &state.witnesses[instruction.index]
            if witnesses.count or witnesses.settled != FALSE_EXPRESSION:
                return False
    return True


cdef bint find_settled(Engine engine, State *state, uint64_t *time_stamp) except -1:
    """Find the least time-stamp from which on events are answered as in the initial state.

    False if there is none, because something is pending or remembered without a bound. Obligations
    that nothing mentions are forgotten as a side effect.
    """
    cdef uint32_t i
    if state.history.first != NONE:
        return False
    time_stamp[0] = 0
    if state.event_count == 0:
        return True
    for i in range(state.family_count):
        if members_in_use(&state.families[i]):
            engine._sweep(engine.workspace, state, i)
    if not is_transient(engine, state):
        return False
    time_stamp[0] = state.time_stamp + settling_distance(engine, state)
    return True


cdef inline uint64_t last_bound(uint64_t lower, uint64_t upper) noexcept nogil:
    """The bound of an interval after which time changes nothing."""
    return lower if upper == UNBOUNDED() else upper


cdef uint32_t expression_places(
    Engine engine, const uint64_t *words, uint32_t *places
) noexcept nogil:
    """List the words of a key whose lower halves are expressions; return their number.

    `places` has room for MOST_WORDS.
    """
    cdef uint32_t place = 0
    cdef uint32_t count = 0
    cdef uint32_t i, _i, _j, runs
    if engine.network is not None:
        return 0
    for _i in range(engine.program.family_count):
        place += 1 + <uint32_t> (words[place] >> 32) + 2 * <uint32_t> words[place]
    for _i in range(engine.program.previous_count):
        places[count] = place
        count += 1
        place += 1
    for _i in range(engine.program.since_count):
        runs = <uint32_t> (words[place] >> 32)
        places[count] = place
        count += 1
        place += 1
        for _j in range(runs):
            places[count] = place + 2
            count += 1
            place += 3
    for i in range(<uint32_t> (words[place] >> 32)):
        places[count] = place + 1 + i
        count += 1
    return count


cdef int require_registers(State *state) except -1 nogil:
    """Make sure that a state has room for registers."""
    if state.registers == NULL:
        state.registers = <Register *> malloc(REGISTER_ROOM * sizeof(Register))
        if state.registers == NULL:
            with gil:
                raise MemoryError("mtlmon: out of memory")
    return 0


cdef int load_registers(State *state) except -1 nogil:
    """Copy the names of the history's entries to registers."""
    cdef History *history = &state.history
    cdef uint32_t number = history.first
    cdef uint32_t count = 0
    cdef Register *register
    require_registers(state)
    while number != NONE:
        register = &state.registers[count]
        register.time_stamp = history.entries[number].time_stamp
        register.offset = history.entries[number].offset
        register.weight = history.entries[number].weight
        number = history.entries[number].later
        count += 1
    state.register_base = 0
    state.register_count = count
    return 0


# ---- from key and registers to state -----------------------------------------------------------


cdef int restore(Engine engine, State *state, const uint64_t *words) except -1 nogil:
    """Rebuild the structures of a state whose key, registers and times are known."""
    cdef uint32_t i
    cdef const Instruction *instruction
    state.evaluation = 0
    if state.network != NULL:
        read_network(
            engine.network, state, words + 1, words[0],
            state.registers + state.register_base, state.register_count
        )
        state.is_structured = True
        return 0
    for i in range(state.family_count):
        words = restore_family(&state.families[i], words, state.time_stamp)
    for i in range(engine.program.previous_count):
        state.stored[i] = <Expression> words[0]
        words += 1
    for i in range(1, engine.program.instruction_count):
        instruction = &engine.program.instructions[i]
        if instruction.operation == OP_SINCE:
            words = restore_witnesses(
                &state.witnesses[instruction.index], words, state.time_stamp
            )
    restore_history(engine, state, words)
    state.is_structured = True
    return 0


cdef const uint64_t *restore_family(
    Family *family, const uint64_t *words, uint64_t time_stamp
) except NULL nogil:
    cdef uint32_t open_count = <uint32_t> (words[0] >> 32)
    cdef uint32_t closed_count = <uint32_t> words[0]
    cdef uint32_t i, member
    words += 1
    for i in range(family.open_head, family.open_count):
        family.windows[family.open[i]].phase = PHASE_FREE
    for i in range(family.closed_head, family.closed_count):
        family.windows[family.closed[i]].phase = PHASE_FREE
    family.open_head = family.closed_head = family.open_count = family.closed_count = 0
    family.lowest_free = family.used_first = family.used_end = 0
    reserve(<void **> &family.open, &family.open_capacity, open_count, sizeof(uint32_t))
    reserve(<void **> &family.closed, &family.closed_capacity, closed_count, sizeof(uint32_t))
    for i in range(open_count):
        member = restore_window(family, words[0], time_stamp)
        family.windows[member].phase = PHASE_OPEN
        family.windows[member].lower = 0
        family.open[i] = member
        words += 1
    for i in range(closed_count):
        member = restore_window(family, words[0], time_stamp)
        family.windows[member].phase = PHASE_CLOSED
        family.windows[member].lower = time_stamp + words[1]
        family.closed[i] = member
        words += 2
    family.open_count = open_count
    family.closed_count = closed_count
    return words


cdef uint32_t restore_window(
    Family *family, uint64_t word, uint64_t time_stamp
) except? 0xFFFFFFFF nogil:
    cdef uint32_t member = word & ((1 << MEMBER_BITS) - 1)
    cdef uint64_t distance = word >> MEMBER_BITS
    cdef uint32_t known = family.capacity
    if member >= known:
        reserve(<void **> &family.windows, &family.capacity, <size_t> member + 1, sizeof(Window))
        memset(family.windows + known, 0, (family.capacity - known) * sizeof(Window))
    family.windows[member].upper = UNBOUNDED()
    if distance != UINT64_MAX >> MEMBER_BITS:
        family.windows[member].upper = time_stamp + distance
    return member


cdef const uint64_t *restore_witnesses(
    Witnesses *witnesses, const uint64_t *words, uint64_t time_stamp
) except NULL nogil:
    cdef uint32_t count = <uint32_t> (words[0] >> 32)
    cdef uint32_t i
    cdef Run *run
    witnesses.settled = <Expression> words[0]
    words += 1
    while witnesses.capacity < count:
        grow(witnesses)
    witnesses.head = 0
    witnesses.count = count
    witnesses.symbolic = 0
    for i in range(count):
        run = &witnesses.runs[i]
        run.first = time_stamp - words[0]
        run.last = time_stamp - words[1]
        run.expression = <Expression> words[2]
        witnesses.symbolic += run.expression != TRUE_EXPRESSION
        words += 3
    return words


cdef int restore_history(Engine engine, State *state, const uint64_t *words) except -1 nogil:
    cdef History *history = &state.history
    cdef uint32_t group_count = <uint32_t> (words[0] >> 32)
    cdef uint32_t count = <uint32_t> words[0]
    cdef uint32_t i, group, number
    cdef const Register *register
    words += 1
    engine.workspace.families = state.families
    forget_entries(history)
    for i in range(group_count):
        # In an empty history, the groups are numbered in order.
        new_group(history, <Expression> words[i], &group)
        watch(engine.workspace, history, group)
    words += group_count
    for i in range(count):
        register = &state.registers[state.register_base + i]
        new_entry(history, register.time_stamp, register.offset, &number)
        history.entries[number].weight = register.weight
        link_member(history, number, words[i] & (SAME_TIME_STAMP - 1))
    history.next_due = UINT64_MAX
    for i in range(history.threshold_count):
        pass_threshold(history, &history.thresholds[i], state.time_stamp)
    return 0


cdef void forget_entries(History *history) noexcept nogil:
    cdef uint32_t i
    history.entry_count = history.group_count = history.active_count = 0
    history.pending_count = 0
    history.first = history.last = NONE
    history.free_entry = history.free_group = history.recent_group = NONE
    history.kinds = 0
    for i in range(history.threshold_count):
        history.thresholds[i].cursor = NONE
    if history.table_size:
        memset(history.table, 0, history.table_size * sizeof(uint32_t))


cdef void pass_threshold(
    History *history, Threshold *threshold, uint64_t time_stamp
) noexcept nogil:
    """Move the cursor to the first entry that has not crossed the threshold."""
    cdef uint64_t due
    while threshold.cursor != NONE:
        due = due_time(history, threshold)
        if due > time_stamp:
            history.next_due = min(history.next_due, due)
            return
        history.entries[threshold.cursor].cursor_count -= 1
        threshold.cursor = history.entries[threshold.cursor].later
        if threshold.cursor != NONE:
            history.entries[threshold.cursor].cursor_count += 1
