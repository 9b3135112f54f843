# cython: language_level=3
"""Save a state as words, restore it, and compare a state with a saved one.

The words are the canonical form of the state, of the queue network or of expressions. They mean the
same in every workspace and with every transition table. Snapshots are made of the same words.

Copied, restored and undisturbed states have equal words, and states with equal words answer
everything alike. The clock and the name of the last event are compared, too; counters are not.
States that answer alike need not be equal: the form does not remove everything that makes no
difference. Only BDDs keep the order of their variables, which depends on the past. So where words
with BDDs differ, both are read into one workspace, where equal functions have equal numbers.

Saving leaves a state in its configuration, and loading a state of the network finds its
configuration again, so that the events that follow are looked up.
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


cdef int take_state(Table table, State *state, Saved *saved) except -1 nogil:
    """Save a state; what was saved before is lost."""
    write_state(table, state, &saved.words)
    saved.time_stamp = state.time_stamp
    saved.offset = state.offset
    saved.clock = state.clock
    saved.event_count = state.event_count
    saved.true_count = state.history.true_count
    saved.false_count = state.history.false_count
    saved.peak_pending = state.history.peak_pending
    return 0


cdef int give_state(Table table, State *state, const Saved *saved) except -1 nogil:
    """Replace a state by a saved one; after an error, it must not be used."""
    state.time_stamp = saved.time_stamp
    state.offset = saved.offset
    state.clock = saved.clock
    state.event_count = saved.event_count
    state.history.true_count = saved.true_count
    state.history.false_count = saved.false_count
    state.history.peak_pending = saved.peak_pending
    state.history.verdict_count = 0
    if state.network == NULL or not find_configuration(table, state, saved):
        read_state(table, state, saved.words.items, saved.words.count)
    return 0


cdef bint find_configuration(Table table, State *state, const Saved *saved) except -1 nogil:
    """Let a state of a network have a configuration that the table knows, if there is one."""
    cdef uint64_t registers = saved.words.items[0]
    cdef const uint64_t *key = saved.words.items + 1 + 3 * registers
    cdef WordReader reader
    if (
        registers > MOST_REGISTERS or saved.event_count == 0 or saved.clock != saved.time_stamp
        or saved.time_stamp >= TIME_LIMIT() or key[0] >= MOST_WORDS
    ):
        return False
    state.configuration = table.find(key, <uint32_t> key[0] + 1)
    if state.configuration == NO_CONFIGURATION:
        return False
    require_registers(state)
    reader.items = saved.words.items
    reader.count = saved.words.count
    reader.place = 0
    state.register_base = 0
    state.register_count = read_registers(&reader, state, state.registers)
    state.is_structured = False
    return True


cdef bint state_equals(
    Table table, State *state, const Saved *saved, Words *scratch
) except -1 nogil:
    """Whether a state answers whatever follows as a saved one does."""
    if not names_equal(state, saved):
        return False
    write_state(table, state, scratch)
    if scratch.count == saved.words.count and memcmp(
        scratch.items, saved.words.items, scratch.count * sizeof(uint64_t)
    ) == 0:
        return True
    if state.network != NULL or table.engine.workspace.manager is None:
        return False
    with gil:
        return equals_by_meaning(table, state, saved, scratch)


cdef bint names_equal(const State *state, const Saved *saved) noexcept nogil:
    """Whether the clock and the name of the last event are the same."""
    return (
        saved.time_stamp == state.time_stamp and saved.offset == state.offset
        and saved.clock == state.clock and (saved.event_count == 0) == (state.event_count == 0)
    )


cdef bint equals_by_meaning(
    Table table, State *state, const Saved *saved, Words *words
) except -1:
    """Do the same where BDDs may have been written with their variables in another order."""
    cdef Program program = table.engine.program
    cdef State own, other
    cdef uint32_t i
    memset(&own, 0, sizeof(State))
    memset(&other, 0, sizeof(State))
    try:
        init_state(&own, program, state.history.mode)
        init_state(&other, program, state.history.mode)
        give_state(table, &own, saved)
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
        free(self.saved.words.items)

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
        return self.saved.words.capacity * sizeof(uint64_t)


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
