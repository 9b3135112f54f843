# cython: language_level=3
"""The canonical form of a queue network's state, and the way back.

States that answer all events alike, but for the names of their pending time-points, have the same
form, whatever happened before. Times are ages: distances from the last event. The form has the
functions that something still depends on, the spans of SINCE, and the functions of the open block.
Blocks that nothing can ask for any more are left out, so that states with different pasts become
equal; the sets of queues, and what is undecided, follow from what the others say.

Keys of the transition table are made of this form. With the names of the pending time-points, it is
what saved states and snapshots contain.
"""

from libc.stdint cimport UINT64_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memset


cdef enum:
    # where functions have several words, this word precedes one that is no constant
    SEVERAL_WORDS = 2


cdef inline uint64_t *present_function(
    QueueNetwork engine, const Network *network, uint32_t temporal, uint32_t which
) noexcept nogil:
    """A function of the last block, which is unfolded: LEFT, RIGHT or LAST."""
    return engine._present(engine.words, network.present, temporal, which)


cdef int put_function(Words *words, const uint64_t *function, uint32_t size) except -1 nogil:
    """Write a function; constants take one word."""
    return put_table(words, function, size, size)


cdef int put_table(
    Words *words, const uint64_t *function, uint32_t kept, uint32_t size
) except -1 nogil:
    """Write a function of which only so many words are kept, as the others repeat them."""
    cdef uint32_t w
    if size > 1:
        if is_false(function, kept) or is_true(function, kept):
            return put_word(words, function[0])
        put_word(words, SEVERAL_WORDS)
    for w in range(size):
        put_word(words, function[w & (kept - 1)])
    return 0


cdef inline int put_slot(
    QueueNetwork engine, const Network *network, int64_t position, uint32_t slot, Words *words
) except -1 nogil:
    return put_table(
        words, engine._function(engine.words, network, position, slot),
        engine._slot_words(engine.words, slot), engine.words
    )


# ---- from state to words -----------------------------------------------------------------------


cdef bint says_nothing(
    QueueNetwork engine, const Network *network, int64_t position
) noexcept nogil:
    """Whether nobody asks anything about a block that is neither the last nor pending."""
    cdef const TimeBlock *block = &network.blocks[position]
    cdef const Operator *temporal
    cdef uint32_t k
    if block.unknown or block.first_class != NONE:
        return False
    for k in range(engine.operator_count):
        temporal = &engine.operators[k]
        if temporal.right_slot != NO_FUNCTION and not is_false(
            engine._function(engine.words, network, position, temporal.right_slot),
            engine._slot_words(engine.words, temporal.right_slot)
        ):
            return False
        if has_sets(temporal) and temporal.left_slot != NO_FUNCTION and not is_true(
            engine._function(engine.words, network, position, temporal.left_slot),
            engine._slot_words(engine.words, temporal.left_slot)
        ):
            return False
    return True


cdef int write_network(QueueNetwork engine, State *state, Words *words) except -1 nogil:
    """Write the canonical form of a state, as it is between events.

    In `naive` mode, this numbers the classes of time-points in the groups of their entries.
    """
    cdef Network *network = state.network
    cdef int64_t position
    cdef int64_t last = network.count - 1
    cdef uint32_t start = words.count
    cdef uint32_t blocks = 0
    cdef uint32_t k
    put_word(words, 0)
    if network.count == 0:
        return 0
    engine._unfold(engine.words, network)
    for k in range(engine.operator_count):
        if engine.operators[k].operation == OP_SINCE:
            write_spans(engine, state, k, words)
    for position in range(network.first, network.count):
        if position != last and says_nothing(engine, network, position):
            continue
        blocks += 1
        put_word(words, state.time_stamp - network.blocks[position].time_stamp)
        if position != last or not network.is_open:
            write_slots(engine, network, position, words)
        write_classes(engine, state, position, words)
    write_present(engine, network, words)
    words.items[start] = <uint64_t> blocks << 1 | network.is_open
    return 0


cdef int write_slots(
    QueueNetwork engine, const Network *network, int64_t position, Words *words
) except -1 nogil:
    """Write what the operands do in a closed block, in the order of slots."""
    cdef const Operator *temporal
    cdef const uint64_t *function
    cdef uint32_t k
    for k in range(engine.operator_count):
        temporal = &engine.operators[k]
        if temporal.left_slot != NO_FUNCTION:
            function = engine._function(engine.words, network, position, temporal.left_slot)
            if is_true(
                function, engine._slot_words(engine.words, temporal.left_slot)
            ) and not has_sets(temporal) and (
                position != network.count - 1 or temporal.operation == OP_NEXT
            ):
                # The block beside it knows that already.
                put_word(words, 0)
            else:
                put_slot(engine, network, position, temporal.left_slot, words)
        if temporal.right_slot != NO_FUNCTION:
            put_slot(engine, network, position, temporal.right_slot, words)
    return 0


cdef int write_spans(
    QueueNetwork engine, const State *state, uint32_t number, Words *words
) except -1 nogil:
    cdef const Network *network = state.network
    cdef const Operator *temporal = &engine.operators[number]
    cdef const Queue *queue = &network.queues[number]
    cdef const Span *span
    cdef uint64_t earliest = state.time_stamp
    cdef uint64_t least = 0
    cdef uint64_t first, last
    cdef uint32_t k
    if queue.undecided_count:
        earliest = network.blocks[
            next_bit(&queue.sets[UNDECIDED], network.first, network.count - 1)
        ].time_stamp
    if earliest > temporal.lower:
        least = earliest - temporal.lower
    put_word(words, queue.span_count)
    for k in range(queue.span_first, queue.span_first + queue.span_count):
        span = &queue.spans[k]
        # Where a span begins makes no difference once that is old enough for every anchor, and
        # where it ends makes none if nothing is too old.
        first = max(span.first, least)
        last = first
        if temporal.upper != UNBOUNDED():
            last = span.last
        put_word(words, state.time_stamp - min(first, last))
        put_word(words, state.time_stamp - last)
    return 0


cdef int write_classes(
    QueueNetwork engine, State *state, int64_t position, Words *words
) except -1 nogil:
    """Write the functions of a block's classes; in `naive` mode, also the class of each member."""
    cdef Network *network = state.network
    cdef History *history = &state.history
    cdef uint32_t start = words.count
    cdef uint32_t number = network.blocks[position].first_class
    cdef uint32_t classes = 0
    cdef uint32_t members = 0
    cdef uint32_t first = NONE
    cdef uint32_t entry, k
    put_word(words, 0)
    while number != NONE:
        put_function(
            words, engine._class_function(network, position, number, classes), engine.words
        )
        entry = network.classes[number].first_member
        if first == NONE:
            # The first class has the earliest member of the block.
            first = entry
        while entry != NONE:
            history.entries[entry].group = classes
            members += 1
            entry = history.entries[entry].next_member
        classes += 1
        number = network.classes[number].following
    words.items[start] = <uint64_t> members << 32 | classes
    if history.mode == MODE_NAIVE:
        entry = first
        for k in range(members):
            put_word(words, history.entries[entry].group)
            entry = history.entries[entry].later
    return 0


cdef int write_present(
    QueueNetwork engine, const Network *network, Words *words
) except -1 nogil:
    """Write what the operands do in the last block."""
    cdef const Operator *temporal
    cdef uint32_t k, which, functions
    cdef bint is_needed
    for k in range(engine.operator_count):
        temporal = &engine.operators[k]
        if temporal.operation == OP_PREVIOUS:
            if network.is_open or temporal.left_slot == NO_FUNCTION:
                put_function(words, present_function(engine, network, k, LEFT), engine.words)
        elif not network.is_open:
            continue
        elif temporal.operation == OP_SINCE:
            for which in range(PRESENT_FUNCTIONS):
                put_function(words, present_function(engine, network, k, which), engine.words)
        elif temporal.operation == OP_NEXT or has_sets(temporal):
            is_needed = engine._is_asked(engine.words, network, temporal)
            functions = 1 + (temporal.operation == OP_UNTIL)
            for which in range(functions):
                if is_needed:
                    put_function(
                        words, present_function(engine, network, k, which), engine.words
                    )
                else:
                    put_word(words, -<uint64_t> (which == LEFT))
    return 0


# ---- from words to state -----------------------------------------------------------------------


cdef bint take_function(
    QueueNetwork engine, WordReader *reader, uint64_t *function
) noexcept nogil:
    """Read a function; False if it depends on variables that do not exist."""
    return take_table(engine, reader, function, engine.words)


cdef bint take_table(
    QueueNetwork engine, WordReader *reader, uint64_t *function, uint32_t kept
) noexcept nogil:
    """Read a function of which only so many words are kept; False if it has others."""
    cdef uint32_t w, variable
    cdef uint64_t word = take_word(reader)
    if engine.words == 1:
        function[0] = word
    elif word != SEVERAL_WORDS:
        if word and ~word:
            reader.is_damaged = True
        set_function(function, word, kept)
    else:
        for w in range(engine.words):
            word = take_word(reader)
            if w < kept:
                function[w] = word
            elif word != function[w & (kept - 1)]:
                reader.is_damaged = True
    if is_false(function, kept) or is_true(function, kept):
        return not reader.is_damaged
    for variable in range(engine.plan.variable_count, WORD_VARIABLES):
        if depends_on(function, variable, kept):
            reader.is_damaged = True
    return not reader.is_damaged


cdef bint read_network(
    QueueNetwork engine, State *state, const uint64_t *items, size_t count,
    const Register *registers, size_t register_count
) except -1 nogil:
    """Rebuild the structures of a state; False if the words do not describe one.

    The counters, the clock and the last time-stamp of the state are known already. The registers
    name the pending time-points, in order of time.
    """
    cdef Network *network = state.network
    cdef WordReader reader
    cdef uint64_t blocks, age, number
    cdef uint64_t previous_age = UINT64_MAX
    cdef size_t taken = 0
    cdef uint32_t k
    cdef int64_t position
    cdef bint is_open
    cdef TimeBlock *block
    reader.items = items
    reader.place = 0
    reader.count = count
    reader.is_damaged = False
    clear_network(engine.plan, network)
    forget_entries(&state.history)
    network.now = state.clock
    if state.event_count == 0:
        return True
    blocks = take_word(&reader)
    is_open = blocks & 1
    blocks >>= 1
    if blocks == 0 or blocks > count:
        return False
    for k in range(engine.operator_count):
        if engine.operators[k].operation == OP_SINCE:
            if not read_spans(engine, state, k, &reader):
                return False
    for number in range(blocks):
        make_room(engine.plan, network)
        position = network.count
        block = &network.blocks[position]
        memset(block, 0, sizeof(TimeBlock))
        block.first_class = block.last_class = NONE
        block.state = NO_STATE
        age = take_word(&reader)
        if age >= previous_age or age > state.time_stamp or (age == 0) != (number == blocks - 1):
            return False
        previous_age = age
        block.time_stamp = state.time_stamp - age
        network.count += 1
        network.is_open = is_open and number == blocks - 1
        if not network.is_open:
            for k in range(engine.plan.slots):
                if not take_table(
                    engine, &reader, engine._function(engine.words, network, position, k),
                    engine._slot_words(engine.words, k)
                ):
                    return False
        if not read_classes(engine, state, &reader, registers, register_count, &taken):
            return False
        if not network.is_open:
            find_unknown(engine, network, position)
    if not read_present(engine, network, &reader):
        return False
    if reader.is_damaged or reader.place != count or taken != register_count:
        return False
    make_room(engine.plan, network)
    for position in range(network.count):
        mark_known(engine, network, position)
    for k in range(engine.operator_count):
        if engine.operators[k].operation == OP_UNTIL and has_sets(&engine.operators[k]):
            # Windows that are over have no candidate left, or their anchors would be decided.
            until_time(network, &engine.operators[k], k)
        elif engine.operators[k].operation == OP_UNTIL and engine.plan.beginners:
            while has_begun(network, &engine.operators[k], network.queues[k].settled):
                network.queues[k].settled += 1
    engine._tidy(engine.words, network)
    return True


cdef void clear_network(NetworkPlan plan, Network *network) noexcept nogil:
    """Return to the state before the first event."""
    cdef uint32_t k
    network.first = network.count = 0
    network.is_open = False
    network.state = NO_STATE
    network.now = 0
    network.class_count = 0
    network.free_class = NONE
    network.decision_count = network.dirty_count = network.stale_count = 0
    empty_sets(plan, network)
    clear_words(network.present, network.present_words)
    for k in range(plan.operator_count):
        network.queues[k].undecided_count = network.queues[k].late_count = 0
        network.queues[k].open = network.queues[k].settled = 0
        network.queues[k].span_first = network.queues[k].span_count = 0


cdef bint read_spans(
    QueueNetwork engine, State *state, uint32_t number, WordReader *reader
) except -1 nogil:
    cdef Queue *queue = &state.network.queues[number]
    cdef uint64_t count = take_word(reader)
    cdef uint64_t first_age, last_age, k
    cdef uint64_t previous = state.time_stamp
    if count > (reader.count - reader.place) // 2:
        return False
    reserve(<void **> &queue.spans, &queue.span_capacity, <size_t> count, sizeof(Span))
    for k in range(count):
        first_age = take_word(reader)
        last_age = take_word(reader)
        if first_age > previous or last_age > first_age:
            return False
        queue.spans[k].first = state.time_stamp - first_age
        queue.spans[k].last = state.time_stamp - last_age
        previous = last_age
    queue.span_count = <uint32_t> count
    return True


cdef bint read_classes(
    QueueNetwork engine, State *state, WordReader *reader, const Register *registers,
    size_t register_count, size_t *taken
) except -1 nogil:
    """Read the classes of the block that has just been added."""
    cdef Network *network = state.network
    cdef History *history = &state.history
    cdef TimeBlock *block = &network.blocks[network.count - 1]
    cdef uint64_t head = take_word(reader)
    cdef uint64_t classes = <uint32_t> head
    cdef uint64_t members = head >> 32
    cdef uint64_t k, member
    cdef uint32_t first = network.class_count
    cdef uint32_t number, entry
    cdef uint64_t *function
    cdef const Register *register
    if reader.is_damaged or classes > members or members > register_count - taken[0] or (
        members != classes and history.mode != MODE_NAIVE
    ):
        return False
    for k in range(classes):
        engine._new_class(engine.words, network, block, &number)
        function = network.class_functions + <size_t> number * engine.words
        if not take_function(engine, reader, function):
            return False
        if is_true(function, engine.words) or is_false(function, engine.words):
            return False
        network.classes[number].first_member = network.classes[number].last_member = NONE
    for k in range(members):
        member = k
        if history.mode == MODE_NAIVE:
            member = take_word(reader)
            if member >= classes:
                return False
        register = &registers[taken[0]]
        taken[0] += 1
        if register.time_stamp != block.time_stamp:
            return False
        new_entry(history, register.time_stamp, register.offset, &entry)
        history.entries[entry].weight = register.weight
        history.entries[entry].next_member = NONE
        number = first + <uint32_t> member
        if network.classes[number].first_member == NONE:
            network.classes[number].first_member = entry
        else:
            history.entries[network.classes[number].last_member].next_member = entry
        network.classes[number].last_member = entry
    for k in range(classes):
        if network.classes[first + k].first_member == NONE:
            return False
    return True


cdef bint read_present(
    QueueNetwork engine, Network *network, WordReader *reader
) noexcept nogil:
    """Read what the operands do in the last block, and find the variables that it waits for."""
    cdef const Operator *temporal
    cdef TimeBlock *block = &network.blocks[network.count - 1]
    cdef uint64_t heads = ((<uint64_t> 1 << engine.plan.variable_count) - 1) & (
        ~engine.plan.futures
    )
    cdef uint32_t k, which, number, functions
    cdef uint32_t words = engine.words
    for k in range(engine.operator_count):
        temporal = &engine.operators[k]
        set_function(present_function(engine, network, k, LEFT), ~<uint64_t> 0, words)
        if temporal.operation == OP_PREVIOUS:
            if network.is_open or temporal.left_slot == NO_FUNCTION:
                if not take_function(
                    engine, reader, present_function(engine, network, k, LEFT)
                ):
                    return False
                copy_function(
                    present_function(engine, network, k, LAST),
                    present_function(engine, network, k, LEFT), words
                )
        elif not network.is_open:
            continue
        elif temporal.operation == OP_SINCE:
            for which in range(PRESENT_FUNCTIONS):
                if not take_function(
                    engine, reader, present_function(engine, network, k, which)
                ):
                    return False
        elif temporal.operation == OP_NEXT or has_sets(temporal):
            functions = 1 + (temporal.operation == OP_UNTIL)
            for which in range(functions):
                if not take_function(
                    engine, reader, present_function(engine, network, k, which)
                ):
                    return False
    if not network.is_open:
        return True
    number = block.first_class
    while number != NONE:
        block.unknown |= support(
            network.class_functions + <size_t> number * words, heads, words
        )
        number = network.classes[number].following
    for k in range(engine.operator_count * PRESENT_FUNCTIONS):
        block.unknown |= support(network.present + <size_t> k * words, heads, words)
    wait_for(engine, network, network.count - 1)
    return True


cdef int find_unknown(QueueNetwork engine, Network *network, int64_t position) except -1 nogil:
    """Find the variables that a closed block waits for."""
    cdef TimeBlock *block = &network.blocks[position]
    cdef uint64_t candidates = (<uint64_t> 1 << engine.plan.variable_count) - 1
    cdef uint32_t number = block.first_class
    cdef uint32_t k
    if engine._intern_closed(engine.words, network, position):
        block.unknown = engine.closed.states[block.state].unknown
        wait_for(engine, network, position)
        return 0
    while number != NONE:
        block.unknown |= support(
            network.class_functions + <size_t> number * engine.words, candidates, engine.words
        )
        number = network.classes[number].following
    for k in range(engine.plan.slots):
        block.unknown |= support(
            engine._function(engine.words, network, position, k),
            candidates & engine.plan.slot_variables[k], engine._slot_words(engine.words, k)
        )
    wait_for(engine, network, position)
    return 0


cdef void wait_for(QueueNetwork engine, Network *network, int64_t position) noexcept nogil:
    """Make a block an anchor of the queues of its unknown variables."""
    cdef uint32_t variable, k
    for variable in range(engine.plan.variable_count):
        k = engine.plan.of_variable[variable].number
        if network.blocks[position].unknown >> variable & 1 and has_sets(&engine.operators[k]):
            set_bit(&network.queues[k].sets[UNDECIDED], position)
            network.queues[k].undecided_count += 1


cdef void mark_known(QueueNetwork engine, Network *network, int64_t position) noexcept nogil:
    """Note in the sets of queues what a block says of their operands."""
    cdef const Operator *temporal
    cdef Queue *queue
    cdef const uint64_t *left
    cdef const uint64_t *right
    cdef bint is_present = network.is_open and position == network.count - 1
    cdef uint32_t k, size
    for k in range(engine.operator_count):
        temporal = &engine.operators[k]
        if not has_sets(temporal) or (is_present and temporal.operation == OP_SINCE):
            continue
        queue = &network.queues[k]
        left = NULL
        size = engine.words
        if is_present:
            left = present_function(engine, network, k, LEFT)
            right = present_function(engine, network, k, RIGHT)
        else:
            right = engine._function(engine.words, network, position, temporal.right_slot)
            size = engine._slot_words(engine.words, temporal.right_slot)
            if temporal.left_slot != NO_FUNCTION:
                left = engine._function(engine.words, network, position, temporal.left_slot)
        if is_true(right, size):
            set_bit(&queue.sets[KNOWN_TRUE], position)
        elif is_false(right, size) and (
            not is_present or is_false(left, size)
        ):
            clear_bit(&queue.sets[NOT_FALSE], position)
        if temporal.left_is_true:
            continue
        if is_false(left, size):
            set_bit(&queue.sets[KNOWN_FALSE], position)
        elif not is_present and is_true(left, size):
            clear_bit(&queue.sets[NOT_TRUE], position)
    for k in range(engine.plan.pair_count):
        temporal = &engine.waiting[engine.plan.pairs[k].outer]
        right = present_function(engine, network, temporal.number, RIGHT)
        size = engine.words
        if not is_present:
            right = engine._function(engine.words, network, position, temporal.right_slot)
            size = engine._slot_words(engine.words, temporal.right_slot)
            set_bit(&network.pairs[k * PAIR_SETS + INDEPENDENT], position)
        if holds_where(right, engine.plan.pairs[k].inner, False, size):
            set_bit(&network.pairs[k * PAIR_SETS + FALSE_HALVES], position)
        if holds_where(right, engine.plan.pairs[k].inner, True, size):
            set_bit(&network.pairs[k * PAIR_SETS + TRUE_HALVES], position)


# ---- the future of a state ---------------------------------------------------------------------


cdef uint64_t network_settling_distance(
    QueueNetwork engine, const State *state
) noexcept nogil:
    """A distance beyond which it makes no difference how far away the next event is."""
    cdef const Network *network = state.network
    cdef uint64_t now = state.time_stamp
    cdef uint64_t latest = now
    cdef uint64_t present = 0
    cdef uint64_t reach
    cdef const Operator *temporal
    cdef const Queue *queue
    cdef int64_t position
    cdef uint32_t k
    engine._unfold(engine.words, state.network)
    # What operands do in a closed block is kept in spans and functions; it is like other blocks.
    if network.is_open:
        present = present_support(engine, network)
    for k in range(engine.operator_count):
        temporal = &engine.operators[k]
        queue = &network.queues[k]
        reach = last_bound(temporal.lower, temporal.upper)
        if temporal.operation == OP_PREVIOUS:
            if not is_false(present_function(engine, network, k, LEFT), engine.words) or (
                temporal.left_slot != NO_FUNCTION and not network.is_open
            ):
                latest = max(latest, now + reach)
            continue
        if temporal.operation == OP_SINCE:
            if (
                network.is_open
                and not is_false(present_function(engine, network, k, RIGHT), engine.words)
            ) or (has_sets(temporal) and queue.settled < network.count):
                latest = max(latest, now + reach)
            elif queue.span_count:
                latest = max(
                    latest, queue.spans[queue.span_first + queue.span_count - 1].last + reach
                )
            continue
        if present >> temporal.variable & 1:
            latest = max(latest, now + reach)
            continue
        position = network.count - 1 - network.is_open
        if temporal.operation == OP_NEXT:
            # Of a closed block, the next one decides.
            if not network.is_open and position >= network.first and engine._is_unknown(
                engine.words, network, temporal, position
            ):
                latest = max(latest, now + reach)
        elif temporal.operation == OP_UNTIL:
            while position >= max(network.first, queue.open) and not engine._is_unknown(
                engine.words, network, temporal, position
            ):
                position -= 1
            if position >= max(network.first, queue.open):
                latest = max(latest, network.blocks[position].time_stamp + reach)
    if engine.plan.has_deep_next and state.history.pending_count:
        # A block may stay undecided although time has closed all windows. Its distances from others
        # then still matter.
        return max(latest - now + 1, TIME_LIMIT())
    return latest - now + 1


cdef uint64_t present_support(QueueNetwork engine, const Network *network) noexcept nogil:
    """The variables of NEXT and UNTIL that something in the last block depends on."""
    cdef uint64_t found = 0
    cdef uint32_t number = network.blocks[network.count - 1].first_class
    cdef uint32_t k
    cdef const Operator *temporal
    while number != NONE:
        found |= support(
            network.class_functions + <size_t> number * engine.words, engine.plan.futures,
            engine.words
        )
        number = network.classes[number].following
    for k in range(engine.operator_count * PRESENT_FUNCTIONS):
        temporal = &engine.operators[k // PRESENT_FUNCTIONS]
        if not engine._is_asked(engine.words, network, temporal):
            continue
        found |= support(
            network.present + <size_t> k * engine.words, engine.plan.futures, engine.words
        )
    return found


cdef bint network_is_transient(QueueNetwork engine, const State *state) noexcept nogil:
    """Whether nothing in the past matters for events at the settling distance and beyond."""
    cdef const Network *network = state.network
    cdef const Operator *temporal
    cdef uint32_t k
    engine._unfold(engine.words, state.network)
    for k in range(engine.operator_count):
        temporal = &engine.operators[k]
        if temporal.operation == OP_SINCE and has_sets(temporal) and (
            network.queues[k].settled < network.count - network.is_open
        ):
            return False
        if temporal.upper != UNBOUNDED():
            continue
        if temporal.operation == OP_PREVIOUS:
            if not is_false(present_function(engine, network, k, LEFT), engine.words):
                return False
        elif temporal.operation == OP_SINCE:
            if network.queues[k].span_count or (
                network.is_open
                and not is_false(present_function(engine, network, k, RIGHT), engine.words)
            ):
                return False
    return True
