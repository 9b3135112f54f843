# cython: language_level=3
"""The transition table: looks up the effect of an event if its configuration has had it before.

A *configuration* is an interned key of `configurations`. A configuration, the distance of an event
from the previous one and the event's letter determine the next configuration, the verdicts of the
event, and what happens to the registers. The table fills as events come, like the states of a
lazily built automaton; the engine computes the transitions that it does not have yet. The table has
a fixed memory budget: when that is used up, everything is forgotten.

As distances are part of its keys, the table serves one event per time-stamp as well as a thousand.
All distances beyond the last bound that still concerns a configuration count as one, so it also
serves streams whose events come at irregular times.

States may be too large or too varied to recur. Filling the table is then not worth its cost: each
entry costs credit, each event that it serves earns some, and without credit the table pauses.

A monitor is in one of two forms: structures, which the engine works on, or configuration and
registers. `Table.structure` makes the former of the latter.
"""

from cython cimport final
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memmove, memset


cdef extern from *:
    """
    /* Builds that check themselves forget often, so that tests come across it. */
    #ifndef MTLMON_CHECKS
    #define MTLMON_CHECKS 0
    #endif
    #if MTLMON_CHECKS
    enum { BUDGET = 1 << 12, FIRST_CREDIT = 1 << 5, FIRST_PAUSE = 1 << 5 };
    #else
    enum { BUDGET = 3 << 18, FIRST_CREDIT = 1 << 10, FIRST_PAUSE = 1 << 15 };
    #endif
    """
    const bint MTLMON_CHECKS
    cdef enum:
        BUDGET          # bytes
        FIRST_CREDIT    # entries the table may gain initially without serving an event
        FIRST_PAUSE     # events

cdef enum:
    NO_ROW = 0xFFFFFFFF
    NO_COLUMN = 0xFFFFFFFF
    MOST_ATOMS_BY_NUMBER = 6        # letters over this few atoms are columns themselves
    MOST_COLUMNS = 64
    LETTER_TABLE_SIZE = 256
    LEAST_BUDGET = 1 << 12          # under a memory limit
    # Distances remembered for one configuration; all of them if none but near ones matter.
    MOST_LATER_ROWS = 8
    FARTHEST_NEAR = 64
    # PERF: a new entry costs as much as the engine's work on 10 to 15 events.
    HITS_PER_CREDIT = 16
    MOST_CREDIT = 1 << 16
    LONGEST_PAUSE = 1 << 24
    # An operation of a script: the kind of verdict, its register, and the register referred to.
    KIND_BITS = 2
    REGISTER_BITS = 8
    PRESENT = (1 << REGISTER_BITS) - 1      # the event's own time-point instead of a register


@final
cdef class Table:
    """The transitions of one engine, and the loop that follows them."""

    def __cinit__(self, Engine engine not None):
        self.engine = engine
        self.is_used = suits(engine.program)
        self.letters_are_columns = engine.program.atom_count <= MOST_ATOMS_BY_NUMBER
        self.columns = MOST_COLUMNS
        if self.letters_are_columns:
            self.columns = 1 << engine.program.atom_count
        else:
            self.letters = <uint64_t *> zeros(MOST_COLUMNS, sizeof(uint64_t))
            self.letter_table = <uint32_t *> zeros(LETTER_TABLE_SIZE, sizeof(uint32_t))
        self.credit = FIRST_CREDIT
        self.next_pause = FIRST_PAUSE
        self.budget = BUDGET
        self.spare = NO_LIMIT()

    def __dealloc__(self):
        free(self.letters)
        free(self.letter_table)
        free(self.configurations)
        free(self.configuration_table)
        free(self.present_rows)
        free(self.later_rows)
        free(self.later_transitions)
        free(self.near_rows)
        free(self.words)
        free(self.scripts)
        free(self.operations)
        free(self.registers.items)

    cdef size_t run(
        self, State *state, const uint64_t *time_stamps, const uint64_t *letters, size_t stride,
        size_t count, Verdicts *verdicts, size_t first_place
    ) except? 0 nogil:
        """Process the next events and append their verdicts; return how many events were taken.

        Takes at least one of `count` events, and all unless many verdicts wait to be collected, or
        any of them with `pauses_for_verdicts`. The letter of event k begins at letters[k * stride].
        The first event has the number `first_place` in the places of verdicts. If an event fails,
        `verdicts` has the verdicts of the events before it, and `taken` says how many there are.
        """
        cdef size_t done = 0
        self.taken = 0
        verdicts.is_idle = False
        reserve(
            <void **> &verdicts.records, &verdicts.capacity,
            ENOUGH_VERDICTS + MOST_REGISTERS + 2, sizeof(VerdictRecord)
        )
        while done < count and (done == 0 or verdicts.count < ENOUGH_VERDICTS):
            if state.configuration != NO_CONFIGURATION:
                done += self._follow(
                    state, time_stamps + done, letters + done * stride, count - done, verdicts,
                    first_place + done
                )
                self.taken = done
                if done == count or (done and verdicts.count >= ENOUGH_VERDICTS):
                    break
            if verdicts.count and self.pauses_for_verdicts:
                break
            self._step(
                state, time_stamps[done], letters + done * stride, verdicts, first_place + done
            )
            done += 1
            self.taken = done
        return done

    cdef int structure(self, State *state) except -1 nogil:
        """Update the structures of a state, so that code outside the table can use them."""
        self.require_structures(state)
        state.configuration = NO_CONFIGURATION
        return 0

    cdef int require_structures(self, State *state) except -1 nogil:
        """Do the same for code that changes nothing; the state keeps its configuration."""
        if not state.is_structured:
            restore(
                self.engine, state,
                self.words + self.configurations[state.configuration].start
            )
        return 0

    cdef const Transition *known(
        self, uint32_t configuration, uint64_t distance, uint64_t letter
    ) noexcept nogil:
        """The transition of an event if it is known, otherwise NULL."""
        cdef uint32_t column = self._intern_letter(letter)
        cdef const Transition *transition
        cdef uint32_t row
        if column == NO_COLUMN:
            return NULL
        if distance == 0:
            transition = &self.present_rows[configuration * self.columns + column]
        else:
            row = find_row(
                self.later_rows, self.near_rows, &self.configurations[configuration], distance
            )
            if row == NO_ROW:
                return NULL
            transition = &self.later_transitions[row * self.columns + column]
        return NULL if transition.target == 0 else transition

    cdef uint64_t next_change(self, State *state) except? 0 nogil:
        """What `Engine.next_change` says, which is remembered for each configuration."""
        cdef uint64_t change, due
        if state.configuration == NO_CONFIGURATION:
            return self.engine.next_change(state)
        if state.register_count == 0:
            return UINT64_MAX
        due = self.configurations[state.configuration].due
        if due == 0:
            self.require_structures(state)
            change = self.engine.next_change(state)
            if change == UINT64_MAX or state.clock != state.time_stamp:
                return change
            due = self.configurations[state.configuration].due = change - state.time_stamp
        return state.time_stamp + due

    # ---- known transitions -----------------------------------------------------------------

    cdef size_t _follow(
        self, State *state, const uint64_t *time_stamps, const uint64_t *letters, size_t count,
        Verdicts *verdicts, size_t first_place
    ) noexcept nogil:
        """Process events as long as their transitions are known; return their number.

        PERF: all variables that change from event to event are local. Verdicts and registers are
        both written without testing which of them an event brings: on dense random logs, the branch
        would be mispredicted at every second event. Doing the same for a verdict of the first
        register, which now takes a script, was slower: EVENTUALLY[0,5] p gained 1.8 ns of 22 on a
        dense log, but all other formulas lost up to 2.
        Writing lines of text here instead of records, both possible ones without a branch, where
        scripts concern the first register only: for 1,000 events per time-stamp on a dense log, the
        whole command took 5 to 7 % less time with EVENTUALLY[0,5] p (22 ns an event), and as much
        as before with p UNTIL[0,5] q and with p. That does not pay for a second writer.
        """
        cdef VerdictRecord *record = verdicts.records + verdicts.count
        cdef VerdictRecord *enough = verdicts.records + ENOUGH_VERDICTS
        cdef Register *registers = state.registers + state.register_base
        cdef Register *free_register = registers + state.register_count
        cdef Register *end_of_registers = state.registers + REGISTER_ROOM
        cdef Register *register
        cdef uint64_t time_stamp = state.time_stamp
        cdef uint64_t offset = state.offset
        cdef uint64_t[4] decided        # by scripts; the two below count the other decisions
        cdef uint64_t false_count = 0
        cdef uint64_t true_count = 0
        cdef uint32_t configuration = state.configuration
        cdef uint32_t peak = state.history.peak_pending
        cdef uint32_t column_mask = self.columns - 1
        cdef uint32_t column, row, kind
        cdef const Transition *transition
        cdef size_t k = 0
        decided[0] = decided[1] = decided[2] = decided[3] = 0
        while k < count and record < enough:
            if self.letters_are_columns:
                column = letters[k] & column_mask
            else:
                column = self._intern_letter(letters[k])
                if column == NO_COLUMN:
                    break
            if time_stamps[k] == time_stamp:
                transition = &self.present_rows[configuration * self.columns + column]
                if transition.target == 0:
                    break
                offset += 1
            else:
                row = find_row(
                    self.later_rows, self.near_rows, &self.configurations[configuration],
                    time_stamps[k] - time_stamp
                )
                if row == NO_ROW or time_stamps[k] >= TIME_LIMIT():
                    break
                transition = &self.later_transitions[row * self.columns + column]
                if transition.target == 0:
                    break
                time_stamp = time_stamps[k]
                offset = state.first_offset
            if free_register == end_of_registers:
                memmove(
                    state.registers, registers,
                    <size_t> (free_register - registers) * sizeof(Register)
                )
                free_register = state.registers + (free_register - registers)
                registers = state.registers
            if transition.action & HAS_SCRIPT:
                record = play(
                    &self.scripts[transition.action >> OWN_BITS], self.operations, record,
                    &registers, &free_register, time_stamp, offset, <uint32_t> (first_place + k),
                    decided
                )
            else:
                kind = transition.action & OWN_EFFECT
                register = registers + (transition.action >> OWN_BITS)
                record.time_stamp = time_stamp
                record.offset = offset
                record.reference_time_stamp = register.time_stamp
                record.reference_offset = register.offset
                record.kind = kind
                record.place = <uint32_t> (first_place + k)
                register.weight += kind == VERDICT_EQUIVALENT
                # PERF: an array of these would be added to the state as one vector, which waits for
                # the half that has just been written: 16 ns for a single event.
                false_count += kind == VERDICT_FALSE
                true_count += kind == VERDICT_TRUE
                record += kind != ADDS_REGISTER
                free_register.time_stamp = time_stamp
                free_register.offset = offset
                free_register.weight = 1
                free_register += kind == ADDS_REGISTER
            peak = max(peak, <uint32_t> (free_register - registers))
            configuration = transition.target - 1
            k += 1
        if k:
            state.is_structured = False
            state.configuration = configuration
            state.time_stamp = state.clock = time_stamp
            state.offset = offset
            state.event_count += k
            state.register_base = <uint32_t> (registers - state.registers)
            state.register_count = <uint32_t> (free_register - registers)
            state.history.false_count += false_count + decided[0]
            state.history.true_count += true_count + decided[1]
            state.history.peak_pending = peak
            verdicts.count = <uint32_t> (record - verdicts.records)
            self.hits += k
            self.credit = min(
                <int64_t> MOST_CREDIT, self.credit + <int64_t> (k // HITS_PER_CREDIT)
            )
        return k

    # ---- new transitions -------------------------------------------------------------------

    cdef int _step(
        self, State *state, uint64_t time_stamp, const uint64_t *letter, Verdicts *verdicts,
        size_t place
    ) except -1 nogil:
        """Let the engine process an event, and remember the transition."""
        cdef uint32_t configuration = state.configuration
        cdef uint64_t distance = time_stamp - state.time_stamp
        cdef uint32_t count, target, column, k
        cdef Transition *transition = NULL
        self.structure(state)
        verdicts.is_idle = True
        if state.network != NULL:
            self.engine.network.step(state, time_stamp, letter)
        else:
            self.engine.step(state, time_stamp, letter)
        verdicts.is_idle = False
        count = state.history.verdict_count
        reserve(
            <void **> &verdicts.records, &verdicts.capacity,
            <size_t> verdicts.count + count + MOST_REGISTERS + 2, sizeof(VerdictRecord)
        )
        for k in range(count):
            verdicts.records[verdicts.count] = state.history.verdicts[k]
            verdicts.records[verdicts.count].place = <uint32_t> place
            verdicts.count += 1
        if not self.is_used or self._is_paused():
            return 0
        if not self.is_shared and (
            self.compactions != self.engine.workspace.compactions
            or self.bytes() > self.budget
        ):
            self.compactions = self.engine.workspace.compactions
            self.forget(NULL, 0, 0)
            configuration = NO_CONFIGURATION
        if not self._intern_state(state, &target):
            return 0
        if configuration != NO_CONFIGURATION:
            column = self._intern_letter(letter[0])
            if column != NO_COLUMN:
                self._new_transition(configuration, distance, column, &transition)
                if transition != NULL:
                    self._find_action(state, &transition.action)
                    transition.target = target + 1
        load_registers(state)
        state.configuration = target
        # A build that checks itself decomposes every state and rebuilds it.
        state.is_structured = not MTLMON_CHECKS
        return 0

    cdef bint _intern_state(self, State *state, uint32_t *number) except -1 nogil:
        """The configuration of a state whose structures are up to date, if it has one."""
        if (
            not self.is_used or state.history.pending_count > MOST_REGISTERS
            or not describe(self.engine, state, &self.key)
        ):
            return False
        self._intern_key(state, number)
        return True

    cdef int rest(self, State *state) except -1 nogil:
        """Convert a state that has seen an event to its small form, if it has one."""
        cdef uint32_t number
        if state.configuration == NO_CONFIGURATION and self._intern_state(state, &number):
            load_registers(state)
            state.configuration = number
        return 0

    cdef bint _is_paused(self) noexcept nogil:
        """Whether the table currently neither serves events nor learns from them."""
        if self.pause:
            self.pause -= 1
            if self.pause == 0:
                self.credit = FIRST_CREDIT
            return True
        self.credit -= 1
        if self.credit >= 0:
            return False
        # Its current content may be of use when it continues.
        self.pause = self.next_pause
        self.next_pause = min(<uint64_t> LONGEST_PAUSE, 2 * self.next_pause)
        return True

    cdef int _find_action(self, State *state, uint32_t *action) except -1 nogil:
        """The effect of the last event, in terms of the registers from before it."""
        cdef const VerdictRecord *verdict = state.history.verdicts
        if state.history.verdict_count == 0:
            action[0] = ADDS_REGISTER
        elif state.history.verdict_count == 1 and is_present(state, verdict):
            action[0] = verdict.kind
            if verdict.kind == VERDICT_EQUIVALENT:
                action[0] |= referred_register(state, verdict) << OWN_BITS
        else:
            self._new_script(state, action)
        return 0

    cdef int _new_script(self, State *state, uint32_t *action) except -1 nogil:
        cdef uint32_t count = state.history.verdict_count
        cdef uint32_t i, source
        cdef uint32_t kept = state.register_count
        cdef const VerdictRecord *verdict
        cdef Script *script
        reserve(
            <void **> &self.scripts, &self.script_capacity, <size_t> self.script_count + 1,
            sizeof(Script)
        )
        reserve(
            <void **> &self.operations, &self.operation_capacity,
            <size_t> self.operation_count + count, sizeof(uint32_t)
        )
        script = &self.scripts[self.script_count]
        script.start = self.operation_count
        script.count = count
        script.adds_register = True
        script.survivors = 0
        for i in range(state.register_count):
            script.survivors |= <uint64_t> 1 << i
        for i in range(count):
            verdict = &state.history.verdicts[i]
            source = PRESENT
            if is_present(state, verdict):
                script.adds_register = False
            else:
                source = register_of(state, verdict.time_stamp, verdict.offset)
                script.survivors &= ~(<uint64_t> 1 << source)
                kept -= 1
            self.operations[script.start + i] = verdict.kind | source << KIND_BITS
            if verdict.kind == VERDICT_EQUIVALENT:
                self.operations[script.start + i] |= (
                    referred_register(state, verdict) << (KIND_BITS + REGISTER_BITS)
                )
        script.leading = 0
        while script.leading < state.register_count and not (
            script.survivors >> script.leading & 1
        ):
            script.leading += 1
        script.is_suffix = script.leading + kept == state.register_count
        action[0] = HAS_SCRIPT | self.script_count << OWN_BITS
        self.script_count += 1
        self.operation_count += count
        return 0

    cdef int _new_transition(
        self, uint32_t configuration, uint64_t distance, uint32_t column, Transition **transition
    ) except -1 nogil:
        """The place for a transition, if the table keeps it."""
        cdef uint32_t row, i
        cdef uint32_t rows = 0
        if distance == 0:
            transition[0] = &self.present_rows[configuration * self.columns + column]
            return 0
        row = find_row(
            self.later_rows, self.near_rows, &self.configurations[configuration], distance
        )
        if row == NO_ROW:
            row = self.configurations[configuration].later
            while row != NO_ROW:
                rows += 1
                row = self.later_rows[row].following
            if rows == MOST_LATER_ROWS and not self.configurations[configuration].near:
                if self.configurations[configuration].settling > FARTHEST_NEAR:
                    return 0
                self._index_rows(&self.configurations[configuration])
            row = self.later_count
            reserve(
                <void **> &self.later_rows, &self.later_row_capacity, <size_t> row + 1,
                sizeof(LaterRow)
            )
            reserve(
                <void **> &self.later_transitions, &self.later_capacity,
                (<size_t> row + 1) * self.columns, sizeof(Transition)
            )
            self.later_rows[row].distance = min(
                distance, self.configurations[configuration].settling
            )
            self.later_rows[row].following = self.configurations[configuration].later
            self.configurations[configuration].later = row
            if self.configurations[configuration].near:
                self.near_rows[
                    self.configurations[configuration].near - 1 + self.later_rows[row].distance
                ] = row
            for i in range(self.columns):
                self.later_transitions[row * self.columns + i].target = 0
            self.later_count += 1
        transition[0] = &self.later_transitions[row * self.columns + column]
        return 0

    cdef int _index_rows(self, Configuration *configuration) except -1 nogil:
        """From now on, find the rows of a configuration by their distance."""
        cdef uint32_t count = <uint32_t> configuration.settling + 1
        cdef uint32_t row = configuration.later
        reserve(
            <void **> &self.near_rows, &self.near_capacity, <size_t> self.near_count + count,
            sizeof(uint32_t)
        )
        memset(self.near_rows + self.near_count, 0xFF, count * sizeof(uint32_t))
        configuration.near = self.near_count + 1
        while row != NO_ROW:
            self.near_rows[self.near_count + self.later_rows[row].distance] = row
            row = self.later_rows[row].following
        self.near_count += count
        return 0

    # ---- letters and configurations by number ----------------------------------------------

    cdef uint32_t _intern_letter(self, uint64_t letter) noexcept nogil:
        """The column of a letter, or NO_COLUMN if there is no room for another letter."""
        cdef uint64_t position
        if self.letters_are_columns:
            return letter & (self.columns - 1)
        position = (letter * <uint64_t> 0x9E3779B97F4A7C15) >> 56
        while self.letter_table[position]:
            if self.letters[self.letter_table[position] - 1] == letter:
                return self.letter_table[position] - 1
            position = (position + 1) & (LETTER_TABLE_SIZE - 1)
        if self.letter_count == MOST_COLUMNS:
            return NO_COLUMN
        self.letters[self.letter_count] = letter
        self.letter_count += 1
        self.letter_table[position] = self.letter_count
        return self.letter_count - 1

    cdef int _intern_key(self, const State *state, uint32_t *number) except -1 nogil:
        """The number of the configuration of a state, whose key is in the scratch memory."""
        cdef uint64_t hash_value
        cdef uint32_t position, i
        cdef Configuration *configuration
        if 2 * (self.configuration_count + 1) > self.configuration_table_size:
            self._grow_configuration_table()
        hash_value = hash_words(self.key.words, self.key.length)
        position = self._position_of(self.key.words, self.key.length, hash_value)
        if self.configuration_table[position]:
            number[0] = self.configuration_table[position] - 1
            return 0
        number[0] = self.configuration_count
        reserve(
            <void **> &self.configurations, &self.configuration_capacity,
            <size_t> number[0] + 1, sizeof(Configuration)
        )
        reserve(
            <void **> &self.words, &self.word_capacity,
            <size_t> self.word_count + self.key.length, sizeof(uint64_t)
        )
        reserve(
            <void **> &self.present_rows, &self.present_capacity,
            (<size_t> number[0] + 1) * self.columns, sizeof(Transition)
        )
        configuration = &self.configurations[number[0]]
        configuration.hash = hash_value
        configuration.start = self.word_count
        configuration.length = self.key.length
        configuration.later = NO_ROW
        configuration.near = 0
        configuration.settling = settling_distance(self.engine, state)
        configuration.is_transient = is_transient(self.engine, state)
        configuration.due = 0
        memcpy(
            self.words + self.word_count, self.key.words, self.key.length * sizeof(uint64_t)
        )
        for i in range(self.columns):
            self.present_rows[number[0] * self.columns + i].target = 0
        self.word_count += self.key.length
        self.configuration_count += 1
        self.configuration_table[position] = self.configuration_count
        return 0

    cdef uint32_t find(self, const uint64_t *words, uint32_t length) noexcept nogil:
        """The configuration with a key, or NO_CONFIGURATION."""
        if self.configuration_count == 0:
            return NO_CONFIGURATION
        # An empty position has 0, and NO_CONFIGURATION is one less.
        return self.configuration_table[
            self._position_of(words, length, hash_words(words, length))
        ] - 1

    cdef uint32_t _position_of(
        self, const uint64_t *words, uint32_t length, uint64_t hash_value
    ) noexcept nogil:
        """The position of a key in the hash table, or the empty one where it belongs."""
        cdef uint32_t mask = self.configuration_table_size - 1
        cdef uint32_t position = hash_value & mask
        cdef const Configuration *configuration
        while self.configuration_table[position]:
            configuration = &self.configurations[self.configuration_table[position] - 1]
            if (
                configuration.hash == hash_value and configuration.length == length
                and memcmp(
                    self.words + configuration.start, words, length * sizeof(uint64_t)
                ) == 0
            ):
                break
            position = (position + 1) & mask
        return position

    cdef int _grow_configuration_table(self) except -1 nogil:
        cdef uint32_t size = max(64, 2 * self.configuration_table_size)
        cdef uint32_t *table = <uint32_t *> zeros(size, sizeof(uint32_t))
        free(self.configuration_table)
        self.configuration_table = table
        self.configuration_table_size = size
        self.rehash()
        return 0

    cdef int forget(self, void *kept, size_t stride, size_t count) except -1 nogil:
        """Forget all transitions, and all configurations except the kept ones.

        `kept` points to `count` numbers of configurations, or NO_CONFIGURATION, one every `stride`
        bytes; they are replaced by the new numbers.
        """
        cdef uint32_t *renumbered = <uint32_t *> zeros(
            self.configuration_count, sizeof(uint32_t)
        )
        cdef uint32_t *number
        cdef uint32_t old_number
        cdef uint32_t kept_count = 0
        cdef uint32_t kept_words = 0
        cdef size_t i
        cdef Configuration *configuration
        for i in range(count):
            number = <uint32_t *> (<char *> kept + i * stride)
            if number[0] != NO_CONFIGURATION:
                renumbered[number[0]] = 1
        for old_number in range(self.configuration_count):
            if renumbered[old_number] == 0:
                continue
            # Kept configurations move down, over those that have been examined.
            configuration = &self.configurations[kept_count]
            configuration[0] = self.configurations[old_number]
            memmove(
                self.words + kept_words, self.words + configuration.start,
                configuration.length * sizeof(uint64_t)
            )
            configuration.start = kept_words
            configuration.later = NO_ROW
            configuration.near = 0
            kept_words += configuration.length
            kept_count += 1
            renumbered[old_number] = kept_count
        for i in range(count):
            number = <uint32_t *> (<char *> kept + i * stride)
            if number[0] != NO_CONFIGURATION:
                number[0] = renumbered[number[0]] - 1
        free(renumbered)
        for i in range(<size_t> kept_count * self.columns):
            self.present_rows[i].target = 0
        self.configuration_count = kept_count
        self.word_count = kept_words
        self.later_count = self.near_count = self.script_count = self.operation_count = 0
        self.flushes += 1
        self.rehash()
        return 0

    cdef void rehash(self) noexcept nogil:
        """Rebuild the hash table after the keys have changed."""
        cdef uint32_t mask = self.configuration_table_size - 1
        cdef uint32_t i, position
        if self.configuration_table_size == 0:
            return
        memset(self.configuration_table, 0, self.configuration_table_size * sizeof(uint32_t))
        for i in range(self.configuration_count):
            self.configurations[i].hash = hash_words(
                self.words + self.configurations[i].start, self.configurations[i].length
            )
            position = self.configurations[i].hash & mask
            while self.configuration_table[position]:
                position = (position + 1) & mask
            self.configuration_table[position] = i + 1

    cdef void shrink(self) noexcept nogil:
        """Free the memory that is not in use, after `forget`."""
        trim(
            <void **> &self.configurations, &self.configuration_capacity,
            self.configuration_count, sizeof(Configuration)
        )
        trim(
            <void **> &self.present_rows, &self.present_capacity,
            self.configuration_count * self.columns, sizeof(Transition)
        )
        trim(
            <void **> &self.later_rows, &self.later_row_capacity, self.later_count,
            sizeof(LaterRow)
        )
        trim(
            <void **> &self.later_transitions, &self.later_capacity,
            self.later_count * self.columns, sizeof(Transition)
        )
        trim(<void **> &self.near_rows, &self.near_capacity, self.near_count, sizeof(uint32_t))
        trim(<void **> &self.words, &self.word_capacity, self.word_count, sizeof(uint64_t))
        trim(<void **> &self.scripts, &self.script_capacity, self.script_count, sizeof(Script))
        trim(
            <void **> &self.operations, &self.operation_capacity, self.operation_count,
            sizeof(uint32_t)
        )

    cdef void set_budget(self, size_t share) noexcept nogil:
        """Limit the budget to a share of the available memory, if that is little."""
        # The budget counts what is in use; the arrays may have twice the room.
        self.spare = max(<size_t> LEAST_BUDGET, share // 2)
        self.budget = min(<size_t> BUDGET, self.spare)

    cdef size_t held_bytes(self) noexcept nogil:
        """The bytes that the arrays take."""
        cdef size_t held = (
            self.configuration_capacity * sizeof(Configuration)
            + self.configuration_table_size * sizeof(uint32_t)
            + (<size_t> self.present_capacity + self.later_capacity) * sizeof(Transition)
            + self.later_row_capacity * sizeof(LaterRow)
            + self.near_capacity * sizeof(uint32_t)
            + self.word_capacity * sizeof(uint64_t)
            + self.script_capacity * sizeof(Script)
            + self.operation_capacity * sizeof(uint32_t)
            + self.registers.capacity * sizeof(uint64_t)
        )
        if self.letters != NULL:
            held += MOST_COLUMNS * sizeof(uint64_t) + LETTER_TABLE_SIZE * sizeof(uint32_t)
        return held

    cdef size_t bytes(self) noexcept nogil:
        cdef size_t row = self.columns * sizeof(Transition)
        return (
            self.configuration_count * (sizeof(Configuration) + row)
            + self.later_count * (sizeof(LaterRow) + row)
            + self.near_count * sizeof(uint32_t)
            + self.word_count * sizeof(uint64_t)
            + self.script_count * sizeof(Script)
            + self.operation_count * sizeof(uint32_t)
        )


cdef inline uint32_t find_row(
    const LaterRow *rows, const uint32_t *near_rows, const Configuration *configuration,
    uint64_t distance
) noexcept nogil:
    cdef uint32_t row = configuration.later
    distance = min(distance, configuration.settling)
    if configuration.near:
        return near_rows[configuration.near - 1 + distance]
    while row != NO_ROW and rows[row].distance != distance:
        row = rows[row].following
    return row


cdef inline uint64_t hash_words(const uint64_t *words, uint32_t length) noexcept nogil:
    cdef uint64_t value = length
    cdef uint32_t i
    for i in range(length):
        value = (value ^ words[i]) * <uint64_t> 0x9E3779B97F4A7C15
        value ^= value >> 32
    return value


# ---- scripts -----------------------------------------------------------------------------------


cdef inline bint is_present(const State *state, const VerdictRecord *verdict) noexcept nogil:
    return verdict.time_stamp == state.time_stamp and verdict.offset == state.offset


cdef uint32_t register_of(
    const State *state, uint64_t time_stamp, uint64_t offset
) noexcept nogil:
    """The register of a time-point that was pending before the event."""
    cdef const Register *registers = state.registers + state.register_base
    cdef uint32_t i = 0
    while registers[i].time_stamp != time_stamp or registers[i].offset != offset:
        i += 1
    return i


cdef inline uint32_t referred_register(
    const State *state, const VerdictRecord *verdict
) noexcept nogil:
    return register_of(state, verdict.reference_time_stamp, verdict.reference_offset)


cdef VerdictRecord *play(
    const Script *script, const uint32_t *operations, VerdictRecord *record,
    Register **first, Register **last, uint64_t time_stamp, uint64_t offset, uint32_t place,
    uint64_t *decided
) noexcept nogil:
    """Write the verdicts of a script, and keep the registers that are still pending."""
    cdef Register *registers = first[0]
    cdef Register *register
    cdef Register *kept
    cdef Register present
    cdef uint64_t survivors
    cdef uint32_t i, operation, kind, source
    present.time_stamp = time_stamp
    present.offset = offset
    present.weight = 1
    for i in range(script.count):
        operation = operations[script.start + i]
        kind = operation & 3
        source = operation >> KIND_BITS & PRESENT
        register = &present if source == PRESENT else registers + source
        record.time_stamp = register.time_stamp
        record.offset = register.offset
        record.kind = kind
        record.place = place
        decided[kind] += register.weight
        if kind == VERDICT_EQUIVALENT:
            kept = registers + (operation >> (KIND_BITS + REGISTER_BITS))
            kept.weight += register.weight
            record.reference_time_stamp = kept.time_stamp
            record.reference_offset = kept.offset
        record += 1
    if script.is_suffix:
        first[0] += script.leading
    else:
        kept = registers
        survivors = script.survivors
        register = registers
        while survivors:
            if survivors & 1:
                kept[0] = register[0]
                kept += 1
            register += 1
            survivors >>= 1
        last[0] = kept
    if script.adds_register:
        last[0][0] = present
        last[0] += 1
    return record
