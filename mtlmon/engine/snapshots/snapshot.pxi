# cython: language_level=3
"""Snapshots: encode a state as bytes that outlive the process, and decode it.

A snapshot is the word `mtlmon`, a version, a digest of the program and the mode, a digest of all
that follows, and the state as numbers in the form of `encoding`. Expressions are written by
meaning, as literals or as nodes of a BDD over obligations, and times as distances from the present.
Obligations that nothing mentions are omitted; the others are numbered in the order in which their
family lists them. The content of a snapshot is not trusted: every number is checked before it is
used, and nothing is allocated that the bytes do not account for.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, UINT32_MAX, UINT64_MAX, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset


from mtlmon.errors import SnapshotError

cdef enum:
    CUBE = 0
    BDD = 1

_MAGIC = b"mtlmon"
_VERSION = 2
_HEADER_BYTES = len(_MAGIC) + 1 + 2 * DIGEST_BYTES


cdef bytes kind_of(Engine engine, Mode mode):
    """The digest that identifies the program and the mode of a snapshot."""
    return digest(repr((engine.program.__reduce__()[1], <int> mode)).encode())


# ---- writing -----------------------------------------------------------------------------------


cdef bytes encode(Engine engine, State *state):
    """The snapshot of a state whose structures are up to date, as they are between events."""
    body = encode_body(engine, state)
    return b"%b%c%b%b%b" % (
        _MAGIC, _VERSION, kind_of(engine, state.history.mode), digest(body), body
    )


cdef bytes encode_body(Engine engine, State *state):
    """What a snapshot has behind its head."""
    cdef _Writer writer = _Writer()
    cdef bytes structure
    if state.network != NULL:
        return encode_network(engine, state)
    cdef uint32_t i
    writer.workspace = engine.workspace
    writer.numbers = {}
    writer.places = {}
    for i in range(state.family_count):
        if members_in_use(&state.families[i]):
            engine._sweep(engine.workspace, state, i)
            writer.place_members(i, &state.families[i])
    for i in range(engine.program.previous_count):
        writer.put_reference(state.stored[i])
    for i in range(state.since_count):
        write_witnesses(writer, &state.witnesses[i], state.clock)
    for i in range(state.family_count):
        write_family(writer, i, &state.families[i], state.clock)
    write_history(writer, &state.history, state.clock)
    structure = writer.taken()
    # The expressions are numbered in the order in which the structures mention them.
    put_counters(writer, state)
    writer.put_nodes()
    return writer.taken() + structure


cdef bytes encode_network(Engine engine, State *state):
    """The same for a queue network: its canonical form."""
    cdef NumberWriter writer = NumberWriter()
    cdef Words *words = &engine.network.scratch
    cdef uint32_t k
    cdef uint32_t number = state.history.first
    put_counters(writer, state)
    words.count = 0
    write_network(engine.network, state, words)
    writer.put(words.count)
    for k in range(words.count):
        # The function that is true everywhere has the largest of all words.
        writer.put(words.items[k] + 1)
    writer.put(state.history.pending_count)
    while number != NONE:
        writer.put(state.time_stamp - state.history.entries[number].time_stamp)
        writer.put(state.history.entries[number].offset)
        writer.put(state.history.entries[number].weight)
        number = state.history.entries[number].later
    return writer.taken()


cdef int put_counters(NumberWriter writer, const State *state) except -1:
    writer.put(state.event_count)
    writer.put(state.time_stamp)
    writer.put(state.offset)
    writer.put(state.clock - state.time_stamp)
    writer.put(state.history.true_count)
    writer.put(state.history.false_count)
    writer.put(state.history.peak_pending)
    return 0


@final
cdef class _Writer(NumberWriter):
    cdef int put_reference(self, Expression expression) except -1:
        cdef uint64_t number = 0
        if not is_constant(expression):
            number = self.numbers.setdefault(expression >> 1, len(self.numbers) + 1)
        return self.put(number << 1 | (expression & 1))

    cdef int place_members(self, uint32_t number, const Family *family) except -1:
        """Number the members of a family in their order: open members, then closed ones."""
        cdef uint32_t i
        cdef uint32_t place = 0
        for i in range(family.open_head, family.open_count):
            self.places[number, family.open[i]] = place
            place += 1
        for i in range(family.closed_head, family.closed_count):
            self.places[number, family.closed[i]] = place
            place += 1
        return 0

    cdef tuple variable(self, uint32_t slot):
        """A fixed slot by its number; any other slot by its family and the index of its member."""
        cdef uint32_t family = family_of(&self.workspace.slots, slot)
        if family == NO_FAMILY:
            return (2 * <uint64_t> slot,)
        place = self.places[family, member_of(&self.workspace.slots, slot)]
        return 2 * <uint64_t> family + 1, place

    cdef int put_variable(self, tuple variable) except -1:
        for number in variable:
            self.put(number)
        return 0

    cdef int put_nodes(self) except -1:
        """Write the slots of BDDs in their order, then the nodes that were referred to."""
        cdef uint32_t node, i
        order = []
        slots = set()
        for node in self.numbers:
            if self.workspace.nodes[node].kind == NODE_MIXED:
                for i in range(self.workspace.nodes[node].length):
                    slots.add(self.workspace.pool[self.workspace.nodes[node].start + i])
        if slots:
            order = self.workspace.ask("in_order", (slots,))
        self.put(len(order))
        for slot in order:
            self.put_variable(self.variable(slot))
        self.put(len(self.numbers))
        for node in self.numbers:
            self.put_node(node, order)
        return 0

    cdef int put_node(self, uint32_t node, list order) except -1:
        cdef uint32_t i, item
        cdef uint32_t start = self.workspace.nodes[node].start
        cdef uint32_t length = self.workspace.nodes[node].length
        if self.workspace.nodes[node].kind == NODE_CUBE:
            self.put(CUBE)
            self.put(length)
            literals = []
            for i in range(length):
                item = self.workspace.pool[start + i]
                literals.append((self.variable(item >> 1), item & 1))
            # Slots are numbered differently in every workspace, but the variables are not.
            literals.sort()
            for variable, sign in literals:
                self.put(sign)
                self.put_variable(variable)
            return 0
        self.put(BDD)
        nodes, root = self.workspace.ask("export", (self.workspace.functions[node],))
        self.put(len(nodes))
        for slot, low, high in nodes:
            self.put(order.index(slot))
            self.put(low)
            self.put(high)
        return self.put(root)


cdef int write_witnesses(_Writer writer, const Witnesses *witnesses, uint64_t clock) except -1:
    cdef uint32_t i
    writer.put_reference(witnesses.settled)
    writer.put(witnesses.count)
    for i in range(witnesses.count):
        writer.put(clock - run_at(witnesses, i).first)
        writer.put(clock - run_at(witnesses, i).last)
        writer.put_reference(run_at(witnesses, i).expression)
    return 0


cdef int write_family(
    _Writer writer, uint32_t number, const Family *family, uint64_t clock
) except -1:
    cdef uint32_t i
    writer.put(family.open_count - family.open_head)
    for i in range(family.open_head, family.open_count):
        write_window_end(writer, number, family, family.open[i], clock)
    writer.put(family.closed_count - family.closed_head)
    for i in range(family.closed_head, family.closed_count):
        write_window_end(writer, number, family, family.closed[i], clock)
        writer.put(family.windows[family.closed[i]].lower - clock)
    return 0


cdef int write_window_end(
    _Writer writer, uint32_t number, const Family *family, uint32_t member, uint64_t clock
) except -1:
    cdef uint64_t upper = family.windows[member].upper
    writer.put(writer.places[number, member])
    return writer.put(0 if upper == UNBOUNDED() else upper - clock + 1)


cdef int write_history(_Writer writer, const History *history, uint64_t clock) except -1:
    cdef uint32_t i
    cdef uint32_t number = history.first
    cdef dict groups = {}
    while number != NONE:
        groups.setdefault(history.entries[number].group, len(groups))
        number = history.entries[number].later
    writer.put(len(groups))
    for i in groups:
        writer.put_reference(history.groups[i].expression)
    writer.put(history.pending_count)
    number = history.first
    while number != NONE:
        writer.put(groups[history.entries[number].group])
        writer.put(clock - history.entries[number].time_stamp)
        writer.put(history.entries[number].offset)
        writer.put(history.entries[number].weight)
        number = history.entries[number].later
    return 0


# ---- reading -----------------------------------------------------------------------------------


cdef int decode(Engine engine, State *state, Mode mode, snapshot) except -1:
    """Load a snapshot into a zeroed state; free it with `free_state` even after an error.

    Raises SnapshotError if the bytes are not a snapshot of this version, program and mode.
    """
    cdef bytes data = as_bytes(snapshot)
    if len(data) < _HEADER_BYTES or not data.startswith(_MAGIC):
        raise SnapshotError("this is not a snapshot of a monitor")
    if data[len(_MAGIC)] != _VERSION:
        raise SnapshotError(
            f"the snapshot has version {data[len(_MAGIC)]}; this version of mtlmon reads "
            f"version {_VERSION} only"
        )
    place = len(_MAGIC) + 1
    if data[place:place + DIGEST_BYTES] != kind_of(engine, mode):
        raise SnapshotError("the snapshot is of another formula or mode")
    if data[place + DIGEST_BYTES:_HEADER_BYTES] != digest(memoryview(data)[_HEADER_BYTES:]):
        raise SnapshotError("the snapshot is damaged: its digest does not fit its content")
    return decode_body(engine, state, mode, data, _HEADER_BYTES)


cdef int decode_body(
    Engine engine, State *state, Mode mode, bytes data, size_t place
) except -1:
    """Load what a snapshot has behind its head, from a position on, into a zeroed state."""
    cdef _Reader reader = _Reader()
    init_state(state, engine.program, mode)
    reader.open(data, place)
    reader.workspace = engine.workspace
    reader.members = {}
    reader.member_counts = [0] * engine.program.family_count
    get_counters(reader, state)
    if state.network == NULL:
        read_state(reader, engine, state)
    else:
        read_network_state(reader, engine, state)
    reader.end()
    return 0


cdef int get_counters(NumberReader reader, State *state) except -1:
    """Read what `put_counters` has written."""
    state.event_count = reader.get(UINT64_MAX)
    state.time_stamp = reader.get(INT64_MAX)
    state.offset = reader.get(UINT64_MAX)
    # At most one beyond the largest time-stamp, which is the end of a complete log.
    state.clock = state.time_stamp + reader.get(MAX_TIME_STAMP() + 1 - state.time_stamp)
    state.history.true_count = reader.get(UINT64_MAX)
    state.history.false_count = reader.get(UINT64_MAX)
    state.history.peak_pending = <uint32_t> reader.get(UINT32_MAX)
    return 0


cdef int read_network_state(NumberReader reader, Engine engine, State *state) except -1:
    """Read the state of a queue network."""
    cdef uint64_t word_count = reader.get_count(1)
    cdef uint64_t register_count, k
    cdef Register *registers = NULL
    cdef bint is_sound
    cdef uint64_t *words = <uint64_t *> zeros(<size_t> word_count, sizeof(uint64_t))
    cdef uint32_t peak_pending = state.history.peak_pending
    try:
        for k in range(word_count):
            words[k] = reader.get(UINT64_MAX) - 1
        register_count = reader.get_count(3)
        registers = <Register *> zeros(<size_t> register_count, sizeof(Register))
        for k in range(register_count):
            registers[k].time_stamp = state.time_stamp - reader.get(state.time_stamp)
            registers[k].offset = reader.get(UINT64_MAX)
            registers[k].weight = reader.get(UINT64_MAX)
            if k and not is_in_order(&registers[k - 1], &registers[k]):
                raise damaged()
        is_sound = read_network(
            engine.network, state, words, <size_t> word_count, registers,
            <size_t> register_count
        )
        if not is_sound or (state.event_count == 0 and (word_count > 1 or register_count)):
            raise damaged()
        state.history.peak_pending = peak_pending
    finally:
        free(words)
        free(registers)
    return 0


cdef inline bint is_in_order(const Register *before, const Register *after) noexcept nogil:
    return before.time_stamp < after.time_stamp or (
        before.time_stamp == after.time_stamp and before.offset < after.offset
    )


cdef int read_state(_Reader reader, Engine engine, State *state) except -1:
    cdef uint32_t i
    cdef uint32_t peak_pending = state.history.peak_pending
    reader.get_nodes()
    for i in range(engine.program.previous_count):
        state.stored[i] = reader.get_reference()
    for i in range(state.since_count):
        read_witnesses(reader, &state.witnesses[i], state.clock)
    for i in range(state.family_count):
        read_family(reader, i, &state.families[i], state.clock)
    check_obligations(reader, engine, state)
    engine.workspace.families = state.families
    read_history(reader, &state.history, state.clock)
    state.history.peak_pending = peak_pending
    return 0


cdef int check_obligations(_Reader reader, Engine engine, State *state) except -1:
    """Check that every obligation that an expression mentions exists."""
    cdef Workspace workspace = engine.workspace
    cdef uint32_t j, node, shift, slot, family, member
    for expression in reader.expressions:
        node = <Expression> expression >> 1
        shift = workspace.nodes[node].kind == NODE_CUBE
        for j in range(workspace.nodes[node].length):
            slot = workspace.pool[workspace.nodes[node].start + j] >> shift
            family = family_of(&workspace.slots, slot)
            if family == NO_FAMILY:
                continue
            member = member_of(&workspace.slots, slot)
            if (
                member >= state.families[family].capacity
                or state.families[family].windows[member].phase == PHASE_FREE
            ):
                raise damaged()
    return 0


@final
cdef class _Reader(NumberReader):
    cdef Expression get_reference(self) except? 0:
        cdef uint64_t reference = self.get(2 * <uint64_t> len(self.expressions) - 1)
        return <Expression> self.expressions[reference >> 1] ^ (reference & 1)

    cdef uint32_t get_variable(self) except? 0:
        """The slot of a variable."""
        cdef uint64_t number = self.get(UINT32_MAX)
        cdef uint32_t slot = <uint32_t> (number >> 1)
        if number & 1:
            if slot >= self.workspace.program.family_count:
                raise damaged()
            slot_of(&self.workspace.slots, slot, self.get_member(slot), &slot)
        elif slot >= self.workspace.program.fixed_slot_count:
            raise damaged()
        return slot

    cdef uint32_t get_member(self, uint32_t family) except? 0:
        """A member of a family, by the number that it gets here.

        The numbers in a snapshot are only names: a table with room for the largest of them could
        have any size.
        """
        cdef uint64_t name = self.get(UINT32_MAX)
        member = self.members.get((family, name))
        if member is None:
            member = self.members[family, name] = self.member_counts[family]
            self.member_counts[family] += 1
        return member

    cdef int get_nodes(self) except -1:
        cdef uint64_t _i
        order = [self.get_variable() for _i in range(self.get_count(1))]
        if len(set(order)) != len(order):
            raise damaged()
        if order:
            self.workspace._require_manager()
            self.workspace.ask("declare", (order,))
        self.expressions = [0]
        for _i in range(self.get_count(2)):
            self.expressions.append(self.get_node(order))
        return 0

    cdef Expression get_node(self, list order) except? 0:
        cdef uint64_t _i
        cdef uint64_t sign
        if self.get(BDD) == CUBE:
            literals = []
            for _i in range(self.get_count(2)):
                sign = self.get(1)
                literals.append(2 * self.get_variable() + sign)
            literals.sort()
            if len({literal >> 1 for literal in literals}) != len(literals):
                raise damaged()
            self.workspace._take(literals)
            return self.workspace.intern_cube(self.workspace.merged, <uint32_t> len(literals))
        nodes = []
        # The level of each node, after the level of the constant.
        levels = [len(order)]
        for _i in range(self.get_count(3)):
            if not order:
                raise damaged()
            level = self.get(len(order) - 1)
            low, high = self.get(2 * len(nodes) + 1), self.get(2 * len(nodes) + 1)
            # Nodes in another order are not a BDD, and building such a node may take forever.
            if level >= levels[low >> 1] or level >= levels[high >> 1]:
                raise damaged()
            levels.append(level)
            nodes.append((order[level], low, high))
        return self.workspace.intern_nodes(nodes, self.get(2 * len(nodes) + 1))


cdef int read_witnesses(_Reader reader, Witnesses *witnesses, uint64_t clock) except -1:
    cdef uint64_t count
    cdef Run *run
    witnesses.settled = reader.get_reference()
    count = reader.get_count(3)
    while witnesses.count < count:
        if witnesses.count == witnesses.capacity:
            grow(witnesses)
        run = &witnesses.runs[witnesses.count]
        run.first = clock - reader.get(clock)
        run.last = clock - reader.get(clock)
        run.expression = reader.get_reference()
        witnesses.symbolic += run.expression != TRUE_EXPRESSION
        witnesses.count += 1
    return 0


cdef int read_family(
    _Reader reader, uint32_t number, Family *family, uint64_t clock
) except -1:
    cdef uint64_t _i
    cdef uint32_t member
    for _i in range(reader.get_count(2)):
        member = read_window(reader, number, family, clock)
        reserve(
            <void **> &family.open, &family.open_capacity, <size_t> family.open_count + 1,
            sizeof(uint32_t)
        )
        family.windows[member].phase = PHASE_OPEN
        if family.open_count and not (
            family.windows[family.open[family.open_count - 1]].upper
            < family.windows[member].upper
        ):
            raise damaged()
        family.open[family.open_count] = member
        family.open_count += 1
    for _i in range(reader.get_count(3)):
        member = read_window(reader, number, family, clock)
        reserve(
            <void **> &family.closed, &family.closed_capacity, <size_t> family.closed_count + 1,
            sizeof(uint32_t)
        )
        # No window begins after the largest time-stamp, but the clock may be beyond it.
        if clock > MAX_TIME_STAMP():
            raise damaged()
        family.windows[member].lower = clock + reader.get(MAX_TIME_STAMP() - clock)
        family.windows[member].phase = PHASE_CLOSED
        if family.closed_count and not is_before(
            &family.windows[family.closed[family.closed_count - 1]], &family.windows[member]
        ):
            raise damaged()
        family.closed[family.closed_count] = member
        family.closed_count += 1
    return 0


cdef bint is_before(const Window *a, const Window *b) noexcept:
    return a.lower < b.lower or (a.lower == b.lower and a.upper < b.upper)


cdef uint32_t read_window(
    _Reader reader, uint32_t number, Family *family, uint64_t clock
) except? 0:
    """Take a free member, and set the end of its window."""
    cdef uint32_t member = reader.get_member(number)
    cdef uint32_t known = family.capacity
    # One more than the distance to the last time-stamp of the window, or 0 if there is none.
    cdef uint64_t end = reader.get(MAX_TIME_STAMP() - clock + 1)
    if member >= known:
        reserve(<void **> &family.windows, &family.capacity, <size_t> member + 1, sizeof(Window))
        memset(family.windows + known, 0, (family.capacity - known) * sizeof(Window))
    if family.windows[member].phase != PHASE_FREE:
        raise damaged()
    family.windows[member].lower = 0
    family.windows[member].upper = clock + end - 1 if end else UNBOUNDED()
    return member


cdef int read_history(_Reader reader, History *history, uint64_t clock) except -1:
    cdef uint64_t _i
    cdef uint64_t group_count = reader.get_count(1)
    cdef uint32_t i
    cdef uint32_t group, number
    cdef uint64_t time_stamp, offset
    cdef Expression expression
    for _i in range(group_count):
        expression = reader.get_reference()
        if is_constant(expression) or find_group(history, expression) != NONE:
            raise damaged()
        new_group(history, expression, &group)
        watch(reader.workspace, history, group)
    for _i in range(reader.get_count(4)):
        group = <uint32_t> reader.get(max(group_count, 1) - 1)
        time_stamp = clock - reader.get(clock)
        offset = reader.get(UINT64_MAX)
        if group_count == 0 or (history.last != NONE and not (
            history.entries[history.last].time_stamp < time_stamp
            or (
                history.entries[history.last].time_stamp == time_stamp
                and history.entries[history.last].offset < offset
            )
        )):
            raise damaged()
        new_entry(history, time_stamp, offset, &number)
        history.entries[number].weight = reader.get(UINT64_MAX)
        link_member(history, number, group)
    for i in range(history.group_count):
        if history.groups[i].size == 0:
            raise damaged()
    history.next_due = UINT64_MAX
    for i in range(history.threshold_count):
        pass_threshold(history, &history.thresholds[i], clock)
    return 0
