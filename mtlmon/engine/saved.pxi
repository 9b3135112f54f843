# cython: language_level=3
"""Save a state as words, restore it, and compare a state with a saved one.

The words are the canonical form of the state, of the queue network or of expressions. They mean the
same in every workspace and with every transition table. Snapshots are made of the same words.
"""

from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset


# ---- states and words --------------------------------------------------------------------------


cdef int write_state(Table table, State *state, Words *words) except -1 nogil:
    """Write the canonical form of a state, as it is between events.

    The state keeps its configuration. Obligations that nothing mentions are forgotten as a side
    effect.
    """
    cdef const Configuration *configuration
    cdef uint32_t start
    words.count = 0
    if state.network == NULL:
        table.require_structures(state)
        return write_expressions(table.engine, state, words)
    write_registers(state, words)
    if not state.is_structured:
        configuration = &table.configurations[state.configuration]
        reserve_words(words, configuration.length)
        memcpy(
            words.items + words.count, table.words + configuration.start,
            configuration.length * sizeof(uint64_t)
        )
        words.count += configuration.length
        return 0
    start = words.count
    put_word(words, 0)
    write_network(table.engine.network, state, words)
    words.items[start] = words.count - start - 1
    return 0


cdef int write_registers(const State *state, Words *words) except -1 nogil:
    """Write the names and weights of the pending time-points, in order of time."""
    cdef const Register *register
    cdef const Entry *entry
    cdef uint32_t number, i
    if not state.is_structured:
        put_word(words, state.register_count)
        for i in range(state.register_base, state.register_base + state.register_count):
            register = &state.registers[i]
            put_register(words, state, register.time_stamp, register.offset, register.weight)
        return 0
    put_word(words, state.history.pending_count)
    number = state.history.first
    while number != NONE:
        entry = &state.history.entries[number]
        put_register(words, state, entry.time_stamp, entry.offset, entry.weight)
        number = entry.later
    return 0


cdef inline int put_register(
    Words *words, const State *state, uint64_t time_stamp, uint64_t offset, uint64_t weight
) except -1 nogil:
    put_word(words, state.time_stamp - time_stamp)
    put_word(words, offset)
    return put_word(words, weight)


cdef bint read_state(
    Table table, State *state, const uint64_t *items, size_t count
) except -1 nogil:
    """Rebuild a state from its canonical form; False if the words do not describe one.

    The counters, the clock and the last event's name are known already. After an error, the state
    must be freed or read again.
    """
    cdef WordReader reader
    cdef Words *registers = &table.registers
    cdef uint32_t register_count
    cdef bint is_sound
    cdef uint32_t peak_pending = state.history.peak_pending
    reader.items = items
    reader.count = count
    reader.place = 0
    reader.is_damaged = False
    state.configuration = NO_CONFIGURATION
    state.is_structured = True
    if state.network == NULL:
        is_sound = read_expressions(table.engine, state, &reader)
    else:
        registers.count = 0
        reserve_words(registers, count)
        register_count = read_registers(&reader, state, <Register *> registers.items)
        # The number of the words that follow.
        is_sound = (
            not reader.is_damaged
            and take_word(&reader) == count - reader.place
            and read_network(
                table.engine.network, state, items + reader.place, count - reader.place,
                <const Register *> registers.items, register_count
            )
            and (state.event_count or (register_count == 0 and count - reader.place <= 1))
        )
        reader.place = count
    state.history.peak_pending = peak_pending
    return is_sound and reader.place == count


cdef uint32_t read_registers(
    WordReader *reader, const State *state, Register *registers
) noexcept nogil:
    """Read pending time-points, and return how many there are."""
    cdef uint32_t count = take_count(reader, 3)
    cdef uint32_t i
    for i in range(count):
        registers[i].time_stamp = state.time_stamp - take_at_most(reader, state.time_stamp)
        registers[i].offset = take_word(reader)
        registers[i].weight = take_word(reader)
        if i and not (
            registers[i - 1].time_stamp < registers[i].time_stamp
            or (
                registers[i - 1].time_stamp == registers[i].time_stamp
                and registers[i - 1].offset < registers[i].offset
            )
        ):
            reader.is_damaged = True
    return count


# ---- saved states ------------------------------------------------------------------------------


@final
cdef class SavedState:
    """The state of a session at one moment, kept outside of the session.

    Two states are equal if they answer whatever follows alike: the same verdicts at the same
    events. How they were reached makes no difference, nor do counters.

    Args:
        session: the session whose state is saved, until `save` replaces it.
    """

    def __init__(self, Session session not None):
        session.save(self)

    def __dealloc__(self):
        free(self.words.items)

    def save(self, Session session not None):
        """Save the present state of a session of any formula and mode."""
        session.save(self)

    def load(self, Session session not None):
        """Let a session continue from this state, even if it is finished or broken.

        Raises:
            SnapshotError: the state is of another formula or mode.
        """
        session.load(self)

    def is_state_of(self, Session session not None):
        """Whether the present state of a session equals this one.

        Raises:
            SnapshotError: the state is of another formula or mode.
        """
        return session.is_in(self)

    @property
    def held_bytes(self):
        """The memory for the words."""
        return self.words.capacity * sizeof(uint64_t)

    cdef int take(self, Table table, State *state) except -1 nogil:
        """Save a state of this program and mode."""
        write_state(table, state, &self.words)
        self.time_stamp = state.time_stamp
        self.offset = state.offset
        self.clock = state.clock
        self.event_count = state.event_count
        self.true_count = state.history.true_count
        self.false_count = state.history.false_count
        self.peak_pending = state.history.peak_pending
        return 0

    cdef int give(self, Table table, State *state) except -1 nogil:
        """Replace a state of this program and mode; after an error, it must not be used."""
        state.time_stamp = self.time_stamp
        state.offset = self.offset
        state.clock = self.clock
        state.event_count = self.event_count
        state.history.true_count = self.true_count
        state.history.false_count = self.false_count
        state.history.peak_pending = self.peak_pending
        state.history.verdict_count = 0
        if state.network == NULL or not self._find_configuration(table, state):
            read_state(table, state, self.words.items, self.words.count)
        return 0

    cdef bint _find_configuration(self, Table table, State *state) except -1 nogil:
        """Let a state of a network have a configuration that the table knows, if there is one."""
        cdef uint64_t registers = self.words.items[0]
        cdef const uint64_t *key = self.words.items + 1 + 3 * registers
        cdef WordReader reader
        if (
            registers > MOST_REGISTERS or self.event_count == 0 or self.clock != self.time_stamp
            or self.time_stamp >= TIME_LIMIT() or key[0] >= MOST_WORDS
        ):
            return False
        state.configuration = table.find(key, <uint32_t> key[0] + 1)
        if state.configuration == NO_CONFIGURATION:
            return False
        require_registers(state)
        reader.items = self.words.items
        reader.count = self.words.count
        reader.place = 0
        state.register_base = 0
        state.register_count = read_registers(&reader, state, state.registers)
        state.is_structured = False
        return True

    cdef bint equals(self, Table table, State *state, Words *scratch) except -1 nogil:
        """Whether a state of this program and mode equals this one."""
        if not self._names_equal(state):
            return False
        write_state(table, state, scratch)
        if scratch.count == self.words.count and memcmp(
            scratch.items, self.words.items, scratch.count * sizeof(uint64_t)
        ) == 0:
            return True
        if state.network != NULL or table.engine.workspace.manager is None:
            return False
        with gil:
            return self._equals_by_meaning(table, state, scratch)

    cdef bint _names_equal(self, const State *state) noexcept nogil:
        """Whether the clock and the name of the last event are the same."""
        return (
            self.time_stamp == state.time_stamp and self.offset == state.offset
            and self.clock == state.clock and (self.event_count == 0) == (state.event_count == 0)
        )

    cdef bint _equals_by_meaning(self, Table table, State *state, Words *words) except -1:
        """Do the same where BDDs may have been written with their variables in another order."""
        cdef State own, other
        cdef uint32_t i
        memset(&own, 0, sizeof(State))
        memset(&other, 0, sizeof(State))
        try:
            init_state(&own, self.program, self.mode)
            init_state(&other, self.program, self.mode)
            self.give(table, &own)
            other.time_stamp = state.time_stamp
            other.clock = state.clock
            other.event_count = state.event_count
            read_state(table, &other, words.items, words.count)
            for i in range(own.family_count):
                if not have_equal_windows(&own.families[i], &other.families[i]):
                    return False
            return expressions_are_equal(table.engine, &own, &other)
        finally:
            table.engine.workspace.families = state.families
            free_state(&own)
            free_state(&other)


cdef bint have_equal_windows(const Family *family, const Family *other) noexcept:
    """Whether two families that have just been read have the same windows."""
    cdef uint32_t i
    if family.open_count != other.open_count or family.closed_count != other.closed_count:
        return False
    for i in range(family.open_count + family.closed_count):
        if (
            family.windows[i].lower != other.windows[i].lower
            or family.windows[i].upper != other.windows[i].upper
        ):
            return False
    return True
