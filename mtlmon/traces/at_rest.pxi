# cython: language_level=3
"""The states of many streams of one program, saved between events and identified by number.

One engine, one workspace and one transition table serve all streams. Between its events, a stream
is the number of a configuration of that table, shared with all streams in the same situation, and a
register for each of its pending time-points. States that are too large for a configuration are kept
whole.

At an event, the stream's state is loaded into a monitor, the *worker*, which processes the event.
"""

from cython cimport final
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from mtlmon.engine.native cimport (
    Configuration,
    ENOUGH_VERDICTS,
    Engine,
    Expression,
    HAS_SCRIPT,
    HELD_KEY_STATES,
    HELD_VERDICTS,
    HOLDER_COUNT,
    History,
    MOST_REGISTERS,
    MOST_WORDS,
    MemoryLimit,
    NONE as NO_ENTRY,
    NO_CONFIGURATION,
    OWN_EFFECT,
    TIME_LIMIT,
    Table,
    Transition,
    VERDICT_FALSE,
    VERDICT_TRUE,
    VerdictRecord,
    Verdicts,
    chunk_size,
    expression_places,
    find_settled,
    free_state,
    held_by_state,
    init_state,
    is_worth_compacting,
    rehash,
    require_registers,
    reserve,
    restore,
    set_boolean,
    set_next_offset,
)

from mtlmon.errors import MonitorBrokenError


cdef extern from *:
    """
    #define mtlmon_prefetch(place) __builtin_prefetch(place)
    """
    void prefetch "mtlmon_prefetch"(const void *place) noexcept nogil

cdef enum:
    # the state of a stream is not loaded for fewer events, if that can be avoided
    FEW_EVENTS = 4
    # how many events ahead states are prefetched from memory
    AHEAD = 6
    FAR_AHEAD = 12


cdef inline void mark(uint64_t *words, size_t place) noexcept nogil:
    words[place >> 6] |= <uint64_t> 1 << (place & 63)


cdef inline void unmark(uint64_t *words, size_t place) noexcept nogil:
    words[place >> 6] &= ~(<uint64_t> 1 << (place & 63))


cdef inline bint is_marked(const uint64_t *words, size_t place) noexcept nogil:
    return words[place >> 6] >> (place & 63) & 1


cdef int refuse_broken() except -1 nogil:
    with gil:
        raise MonitorBrokenError(
            "the stream was interrupted in the middle of an event and cannot go on"
        )


@final
cdef class Streams:
    """The saved states, and the monitor that processes one of them at a time."""

    def __cinit__(self, Session worker not None):
        self.worker = worker
        worker.table.is_shared = True
        worker.engine.is_shared = True
        self.mode_number = worker.state.history.mode
        self.free_numbers = {}
        self.blank = <uint64_t *> calloc(
            1 + <size_t> worker.program.family_count + worker.program.previous_count
            + worker.program.since_count,
            sizeof(uint64_t)
        )
        if self.blank == NULL:
            raise MemoryError("mtlmon: out of memory")

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.count):
            free(self.resting[i].registers)
            if self.resting[i].whole != NULL:
                free_state(self.resting[i].whole)
                free(self.resting[i].whole)
        free(self.resting)
        free(self.owners)
        free(self.blank)
        free(self.awake)
        free(self.marked)
        free(self.stirring)
        if self.has_spare:
            free_state(&self.spare)

    cdef dict counters(self, size_t count):
        """events, true, false (including equivalents) of all streams together; streams, of which
        those that are kept whole, and bytes, the memory of all streams except for the whole ones
        and shared structures.
        """
        return {
            "events": self.event_count,
            "true": self.true_count,
            "false": self.false_count,
            "streams": count,
            "whole": self.whole_count,
            "bytes": self.capacity * sizeof(Resting) + self.register_bytes,
            "table_hits": self.worker.table.hits,
            "table_flushes": self.worker.table.flushes,
            "compactions": self.worker.engine.workspace.compactions,
        }

    # ---- numbers ---------------------------------------------------------------------------

    cdef uint32_t add(self) except? 0:
        """Add a new stream and return its number."""
        cdef uint32_t number
        if self.free_numbers:
            number = self.free_numbers.popitem()[0]
            # someone may have named it meanwhile
            self.clear(&self.resting[number])
            return number
        self.extend(<size_t> self.count + 1)
        return self.count - 1

    cdef int extend(self, size_t count) except -1:
        """Make sure that the streams with numbers below `count` exist."""
        reserve(<void **> &self.resting, &self.capacity, count, sizeof(Resting))
        while self.count < count:
            memset(&self.resting[self.count], 0, sizeof(Resting))
            self.resting[self.count].configuration = NO_CONFIGURATION
            self.count += 1
        return 0

    cdef int drop(self, uint32_t number) except -1:
        """Forget a stream; its number may be reused for a new stream."""
        self.clear(&self.resting[number])
        self.free_numbers[number] = None
        return 0

    cdef void clear(self, Resting *resting) noexcept nogil:
        self.awake_known = 0
        self.drop_registers(resting)
        if resting.whole != NULL:
            count_whole(&self.resting_bytes, resting.whole, -1)
            free_state(resting.whole)
            free(resting.whole)
            self.whole_count -= 1
        memset(resting, 0, sizeof(Resting))
        resting.configuration = NO_CONFIGURATION

    # ---- states at work and at rest --------------------------------------------------------

    cdef int load_initial(self) except -1 nogil:
        """Load the state of a stream before its first event into the worker."""
        cdef State *state = &self.worker.state
        state.time_stamp = state.offset = state.clock = 0
        state.event_count = 0
        state.configuration = NO_CONFIGURATION
        restore(self.worker.engine, state, self.blank)
        return 0

    cdef int load(self, Resting *resting) except -1 nogil:
        """Load the state of a stream into the worker."""
        cdef State *state = &self.worker.state
        if resting.whole != NULL:
            count_whole(&self.resting_bytes, resting.whole, -1)
            self.spare = state[0]
            self.has_spare = True
            state[0] = resting.whole[0]
            free(resting.whole)
            resting.whole = NULL
            self.whole_count -= 1
        elif resting.configuration == NO_CONFIGURATION:
            self.load_initial()
        else:
            require_registers(state)
            if resting.register_count:
                memcpy(
                    state.registers, resting.registers, resting.register_count * sizeof(Register)
                )
            state.register_base = 0
            state.register_count = resting.register_count
            state.configuration = resting.configuration
            state.is_structured = False
            state.time_stamp = resting.time_stamp
            state.clock = resting.clock
            state.offset = resting.offset
            state.event_count = 1
        self.event_count -= state.event_count
        state.history.true_count = state.history.false_count = state.history.peak_pending = 0
        return 0

    cdef int store(self, Resting *resting) except -1 nogil:
        """Save the worker's state back to its stream."""
        cdef State *state = &self.worker.state
        self.awake_known = 0
        self.count_verdicts()
        if self.worker.is_broken():
            resting.is_broken = True
            self.worker.mark_ready()
            free_state(state)
            with gil:
                init_state(state, self.worker.program, self.mode_number)
            if self.has_spare:
                free_state(&self.spare)
                self.has_spare = False
            return 0
        if state.event_count:
            self.worker.table.rest(state)
        if state.configuration != NO_CONFIGURATION:
            resting.configuration = state.configuration
            resting.time_stamp = state.time_stamp
            resting.clock = state.clock
            resting.offset = state.offset
            self.keep_registers(resting)
            if self.has_spare:
                free_state(state)
                state[0] = self.spare
                self.has_spare = False
        elif state.event_count or state.clock:
            self.keep_whole(resting)
        return self.maybe_compact()

    cdef int keep_registers(self, Resting *resting) except -1 nogil:
        cdef State *state = &self.worker.state
        cdef size_t wanted = state.register_count * sizeof(Register)
        cdef void *grown
        if state.register_count > resting.register_capacity or (
            2 * state.register_count + 2 < resting.register_capacity
        ):
            self.drop_registers(resting)
            grown = malloc(wanted)
            if grown == NULL:
                with gil:
                    raise MemoryError("mtlmon: out of memory")
            resting.registers = <Register *> grown
            resting.register_capacity = state.register_count
            self.register_bytes += wanted
            self.resting_bytes.of[HELD_KEY_STATES] += chunk_size(wanted)
        resting.register_count = state.register_count
        if wanted:
            memcpy(resting.registers, state.registers + state.register_base, wanted)
        return 0

    cdef void drop_registers(self, Resting *resting) noexcept nogil:
        free(resting.registers)
        resting.registers = NULL
        self.register_bytes -= resting.register_capacity * sizeof(Register)
        self.resting_bytes.of[HELD_KEY_STATES] -= chunk_size(
            resting.register_capacity * sizeof(Register)
        )
        resting.register_count = resting.register_capacity = 0

    cdef int keep_whole(self, Resting *resting) except -1 nogil:
        """Move a state that has no configuration out of the worker."""
        cdef State *state = &self.worker.state
        resting.whole = <State *> malloc(sizeof(State))
        if resting.whole == NULL:
            with gil:
                raise MemoryError("mtlmon: out of memory")
        resting.whole[0] = state[0]
        resting.configuration = NO_CONFIGURATION
        self.drop_registers(resting)
        self.whole_count += 1
        count_whole(&self.resting_bytes, resting.whole, 1)
        if self.has_spare:
            state[0] = self.spare
            self.has_spare = False
        else:
            with gil:
                init_state(state, self.worker.program, self.mode_number)
        return 0

    # ---- events of many streams ------------------------------------------------------------

    cdef int open_output(self) except -1 nogil:
        """Empty the verdicts of the worker, and make room for as many as the table needs."""
        cdef Verdicts *output = &self.worker.output
        output.count = 0
        return reserve(
            <void **> &output.records, &output.capacity, ENOUGH_VERDICTS + MOST_REGISTERS + 2,
            sizeof(VerdictRecord)
        )

    cdef size_t run(
        self, const uint32_t *numbers, const uint64_t *time_stamps, const uint64_t *letters,
        size_t count, const uint32_t *offsets=NULL
    ) except? 0 nogil:
        """Process the next events, each in the stream whose number it carries.

        If `offsets` are given, they name the events, whose offsets need not be consecutive.

        Call between `enter` and `leave` of the worker. Takes at least one event, and all events
        unless many verdicts wait to be collected. The verdicts are in `worker.output`, with places
        that count from the first event, and their streams in `owners`. After an error, both hold
        the verdicts of the events before it.
        """
        cdef Verdicts *output = &self.worker.output
        cdef size_t words = self.worker.letter_words
        cdef Resting *resting
        cdef uint32_t number
        cdef uint32_t known = 0
        cdef size_t done = 0
        cdef size_t last, part
        cdef bint is_done
        self.done = 0
        self.awake_known = 0
        self.open_output()
        while done < count and output.count < ENOUGH_VERDICTS:
            self.worker.table.taken = 0
            reserve(
                <void **> &self.owners, &self.owner_capacity, <size_t> output.count + 1,
                sizeof(uint32_t)
            )
            number = numbers[done]
            resting = &self.resting[number]
            # PERF: the states of many streams are far apart in memory, so they are prefetched: 130
            # to 160 ns an event instead of 280, with 100,000 streams in random order.
            if done + FAR_AHEAD < count:
                prefetch(&self.resting[numbers[done + FAR_AHEAD]])
            if done + AHEAD < count:
                prefetch(self.resting[numbers[done + AHEAD]].registers)
            if resting.is_broken:
                refuse_broken()
            # Consecutive events of one stream need no save and load between them.
            last = done + 1
            while last < count and numbers[last] == number:
                last += 1
            if last - done < FEW_EVENTS and offsets == NULL and self.step_at_rest(
                number, time_stamps[done], self.next_offset(number, time_stamps[done]),
                letters[done * words], done
            ):
                known = output.count
                done += 1
                self.done = done
                continue
            is_done = False
            self.load(resting)
            try:
                while done < last and output.count < ENOUGH_VERDICTS:
                    part = last - done
                    if offsets != NULL:
                        part = 1
                        set_next_offset(&self.worker.state, time_stamps[done], offsets[done])
                    done += self.worker.table.run(
                        &self.worker.state, time_stamps + done, letters + done * words,
                        words, part, output, done
                    )
                    self.own(known, number)
                    known = output.count
                    self.done = done
                is_done = True
            finally:
                if not is_done:
                    self.drop_failed(done, known)
                    self.own(known, number)
                    self.worker.mark_broken()
                self.worker.state.first_offset = 0
                self.store(resting)
        return done

    cdef uint64_t next_offset(self, uint32_t number, uint64_t time_stamp) noexcept nogil:
        """The offset of the next event of a stream at rest that has taken all events."""
        cdef const Resting *resting = &self.resting[number]
        return resting.offset + 1 if time_stamp == resting.time_stamp else 0

    cdef bint step_at_rest(
        self, uint32_t number, uint64_t time_stamp, uint64_t offset, uint64_t letter, size_t place
    ) noexcept nogil:
        """Process the next event of a stream without loading its state, if that is possible.

        PERF: it is if the transition is known, and decides the event's own time-point alone. With
        50 streams in random order, it takes 20 ns instead of 45, with all around it.

        Returns:
            Whether the event has been processed; the output has room for its verdict.
        """
        cdef Resting *resting = &self.resting[number]
        cdef Verdicts *output = &self.worker.output
        cdef const Transition *transition
        cdef uint32_t kind
        if resting.configuration == NO_CONFIGURATION or time_stamp >= TIME_LIMIT():
            return False
        transition = self.worker.table.known(
            resting.configuration, time_stamp - resting.time_stamp, letter
        )
        if transition == NULL:
            return False
        kind = transition.action & (HAS_SCRIPT | OWN_EFFECT)
        if kind != VERDICT_TRUE and kind != VERDICT_FALSE:
            return False
        resting.offset = offset
        resting.time_stamp = resting.clock = time_stamp
        resting.configuration = transition.target - 1
        set_boolean(&output.records[output.count], time_stamp, resting.offset, <uint8_t> kind)
        output.records[output.count].place = <uint32_t> place
        self.owners[output.count] = number
        output.count += 1
        self.event_count += 1
        self.true_count += kind == VERDICT_TRUE
        self.false_count += kind == VERDICT_FALSE
        self.worker.table.hits += 1
        return True

    # ---- events that make no difference ------------------------------------------------------

    # Policies pass over the events that make no difference (`Program.moving`) if nobody wants the
    # verdicts of these. So a stream may be behind its trace: its state is that before such events,
    # and the trace knows the offset of the next one (`RowsByTrace`).

    cdef size_t count_moving(self, EventColumns events, size_t first, size_t last) noexcept nogil:
        """At most how many events of the next turn make a difference."""
        cdef const AtomSets *moving = &self.worker.program.moving
        self.moving_atoms = UINT64_MAX
        if moving.count == 0:
            return events.most_held(first, last)
        memset(self.held, 0, sizeof(self.held))
        if not events.count_atoms(first, last, self.held):
            return last - first
        return rarest_atoms(moving, self.held, &self.moving_atoms)

    cdef int begin_sparse(
        self, EventColumns events, RowsByTrace rows, size_t first, size_t count
    ) except -1 nogil:
        """Begin a turn of `run_sparse` with the events that move streams or wake them.

        `count_moving` must have looked at them.
        """
        cdef uint32_t number
        cdef uint64_t atoms = UINT64_MAX
        cdef size_t k
        reserve(
            <void **> &self.marked, &self.marked_room, count // 64 + 1, sizeof(uint64_t)
        )
        events.mark_held(first, first + count, self.marked, self.moving_atoms)
        self.has_stirring = self.count == 1 and self.worker.program.stirring.count != 0
        if self.has_stirring:
            reserve(
                <void **> &self.stirring, &self.stirring_room, count // 64 + 1, sizeof(uint64_t)
            )
            rarest_atoms(&self.worker.program.stirring, self.held, &atoms)
            events.mark_held(first, first + count, self.stirring, atoms)
            for k in range((count + 63) // 64):
                self.stirring[k] &= self.marked[k]
        self.know_awake()
        for k in range(rows.present_count):
            number = rows.traces[k]
            if is_marked(self.awake, number):
                mark(self.marked, rows.firsts[k])
        self.done = self.processed = 0
        return 0

    cdef bint run_sparse(
        self, EventColumns events, const uint32_t *numbers, RowsByTrace rows, size_t first,
        size_t count
    ) except -1 nogil:
        """Process the next events of a turn, of which few are marked; their verdicts are in
        `worker.output`, with places that count from the first event of the turn.

        The other events make no difference, so they are only counted, by `count_passed`.

        Args:
            events: has these events, in bitmaps.
            numbers: of the streams of all events.
            rows: has the offsets of those of the turn.
            first: the index of the first event of the turn.
            count: the number of events.

        Returns:
            Whether the turn is over; else, the verdicts must be collected first.
        """
        cdef Verdicts *output = &self.worker.output
        cdef State *state = &self.worker.state
        cdef uint64_t *letter = self.worker.letter
        cdef size_t words = self.worker.letter_words
        cdef Resting *loaded = NULL
        cdef Resting *resting
        cdef uint64_t time_stamp = 0
        cdef uint64_t due
        cdef Resting *other
        cdef uint32_t awake_known = self.awake_known
        cdef uint32_t known = 0
        cdef uint32_t number = 0
        # the time from which on a single stream is as before its first event
        cdef uint64_t settled_from = UINT64_MAX
        cdef size_t place
        cdef bint is_inside = False
        self.open_output()
        if self.has_stirring and not self.resting[0].is_broken and self.resting[0].whole == NULL:
            resting = &self.resting[0]
            settled_from = self.settled_from(
                resting.configuration, resting.register_count, resting.time_stamp
            )
        try:
            while output.count < ENOUGH_VERDICTS:
                place = next_marked(self.marked, self.done, count)
                if place < count and events.time_stamp_of(first + place) >= settled_from:
                    place = next_marked(self.stirring, place, count)
                self.done = place
                if place == count:
                    break
                number = numbers[first + place]
                resting = &self.resting[number]
                if loaded != NULL and loaded != resting:
                    other = loaded
                    loaded = NULL
                    self.store(other)
                if resting.is_broken:
                    refuse_broken()
                if words == 1:
                    time_stamp = events.time_stamp_of(first + place)
                    letter[0] = events.letter_of(first + place)
                else:
                    events.read(first + place, 1, &time_stamp, letter, words)
                reserve(
                    <void **> &self.owners, &self.owner_capacity, <size_t> output.count + 1,
                    sizeof(uint32_t)
                )
                if loaded == NULL and words == 1 and self.step_at_rest(
                    number, time_stamp, rows.offsets[place], letter[0], place
                ):
                    due = 0 if resting.register_count else UINT64_MAX
                    if self.has_stirring:
                        settled_from = self.settled_from(
                            resting.configuration, resting.register_count, time_stamp
                        )
                else:
                    if loaded == NULL:
                        self.load(resting)
                        loaded = resting
                    self.worker.table.taken = 0
                    is_inside = True
                    set_next_offset(state, time_stamp, rows.offsets[place])
                    self.worker.table.run(state, &time_stamp, letter, words, 1, output, place)
                    state.first_offset = 0
                    is_inside = False
                    self.own(known, number)
                    due = UINT64_MAX
                    settled_from = UINT64_MAX
                    if self.worker.pending_count():
                        due = min(self.worker.table.next_change(state), UINT64_MAX - 1)
                    elif self.has_stirring and state.configuration != NO_CONFIGURATION:
                        settled_from = self.settled_from(state.configuration, 0, time_stamp)
                known = output.count
                unmark(self.marked, place)
                self.done = place + 1
                self.processed += 1
                self.wake(events, number, rows, first, place, due)
        finally:
            if is_inside:
                self.drop_failed(self.done, known)
                self.own(known, number)
                self.worker.mark_broken()
            state.first_offset = 0
            if loaded != NULL:
                self.store(loaded)
        self.awake_known = awake_known
        return self.done == count

    cdef uint64_t settled_from(
        self, uint32_t configuration, uint32_t register_count, uint64_t time_stamp
    ) noexcept nogil:
        """The time from which on a state is as before its first event; UINT64_MAX if never."""
        cdef const Configuration *found
        if register_count:
            return UINT64_MAX
        if configuration == NO_CONFIGURATION:
            return 0
        found = &self.worker.table.configurations[configuration]
        if not found.is_transient or found.settling > UINT64_MAX - time_stamp:
            return UINT64_MAX
        return time_stamp + found.settling

    cdef void count_passed(self) noexcept nogil:
        """Count the events of the turn that were passed over before those that are done."""
        self.count_empty(<int64_t> (self.done - self.processed))

    cdef void count_empty(self, int64_t count) noexcept nogil:
        """Count events without atoms, or take them from the count, with their verdicts."""
        self.event_count += count
        if self.worker.program.empty_verdict == VERDICT_TRUE:
            self.true_count += count
        else:
            self.false_count += count

    cdef int know_awake(self) except -1 nogil:
        """Find which streams are awake: those with something pending, or a state that is whole."""
        cdef const Resting *resting
        cdef uint32_t number
        reserve(
            <void **> &self.awake, &self.awake_room, <size_t> self.count // 64 + 1,
            sizeof(uint64_t)
        )
        for number in range(self.awake_known, self.count):
            resting = &self.resting[number]
            if number & 63 == 0:
                self.awake[number >> 6] = 0
            if resting.is_broken or resting.register_count or resting.whole != NULL:
                mark(self.awake, number)
            else:
                unmark(self.awake, number)
        self.awake_known = self.count
        return 0

    cdef void wake(
        self, EventColumns events, uint32_t number, RowsByTrace rows, size_t first, size_t place,
        uint64_t due
    ) noexcept nogil:
        """Mark the event at which time decides something in a stream, after one that is done.

        due: the time-stamp from which on time does so; UINT64_MAX if nothing is pending.
        """
        cdef uint32_t following = rows.following[place]
        if due == UINT64_MAX:
            unmark(self.awake, number)
            return
        if self.count == 1 and following != NO_ROW:
            following = <uint32_t> (
                events.first_from(due, first + following, first + rows.row_count) - first
            )
            if following == rows.row_count:
                following = NO_ROW
        while following != NO_ROW and not is_marked(self.marked, following) and (
            events.time_stamp_of(first + following) < due
        ):
            following = rows.following[following]
        if following == NO_ROW:
            mark(self.awake, number)
        else:
            mark(self.marked, following)

    cdef bint last_point(
        self, uint32_t number, uint64_t *time_stamp, uint64_t *offset
    ) noexcept nogil:
        """Get the last time-point that a stream has taken; False if it is new, or broken."""
        cdef const Resting *resting = &self.resting[number]
        if resting.is_broken:
            return False
        if resting.whole != NULL:
            time_stamp[0] = resting.whole.time_stamp
            offset[0] = resting.whole.offset
            return resting.whole.event_count != 0
        time_stamp[0] = resting.time_stamp
        offset[0] = resting.offset
        return resting.configuration != NO_CONFIGURATION

    cdef int catch_up(self, uint32_t number, uint64_t time_stamp, uint64_t offset) except -1 nogil:
        """Let a stream that is behind its trace take the last event that was passed over.

        Call between `enter` and `leave` of the worker.
        """
        cdef State *state = &self.worker.state
        cdef Verdicts *output = &self.worker.output
        cdef Resting *resting = &self.resting[number]
        cdef uint64_t last_time_stamp = 0
        cdef uint64_t last_offset = 0
        cdef bint is_done = False
        if resting.is_broken or self.last_point(number, &last_time_stamp, &last_offset) and (
            last_time_stamp == time_stamp and last_offset == offset
        ):
            return 0
        self.open_output()
        self.load(resting)
        try:
            memset(self.worker.letter, 0, self.worker.letter_words * sizeof(uint64_t))
            self.worker.table.taken = 0
            set_next_offset(state, time_stamp, offset)
            self.worker.table.run(
                state, &time_stamp, self.worker.letter, self.worker.letter_words, 1, output, 0
            )
            is_done = True
        finally:
            if not is_done:
                self.worker.mark_broken()
            state.first_offset = 0
            self.store(resting)
        # its verdict has been counted, and nobody wants it
        output.count = 0
        self.count_empty(-1)
        return 0

    cdef int catch_up_before(
        self, EventColumns events, RowsByTrace rows, size_t first
    ) except -1 nogil:
        """Let streams catch up before a turn that `run` is to process.

        That is necessary where the first event of a trace is not the first one at its time-stamp.
        """
        cdef uint32_t place
        cdef size_t k
        for k in range(rows.present_count):
            place = rows.firsts[k]
            if rows.offsets[place]:
                self.catch_up(
                    rows.traces[k], events.time_stamp_of(first + place), rows.offsets[place] - 1
                )
        return 0

    cdef int catch_up_with(self, RowsByTrace rows, uint32_t number) except -1 nogil:
        """Let a stream catch up with its trace."""
        cdef const Latest *latest
        if number < rows.trace_count:
            latest = &rows.latest[number]
            if latest.number:
                self.catch_up(number, latest.time_stamp, latest.offset)
        return 0

    cdef void drop_failed(self, size_t done, uint32_t known) noexcept nogil:
        """Drop the verdicts of an event that has failed, and set how many events are done.

        done: how many events were done before the last call of the table, which has taken the
        events before the one that failed.
        known: how many verdicts there were.
        """
        cdef Verdicts *output = &self.worker.output
        self.done = done + self.worker.table.taken
        while output.count > known and output.records[output.count - 1].place >= self.done:
            output.count -= 1

    cdef int settle(
        self, uint32_t number, uint64_t time_stamp, uint64_t *change=NULL
    ) except -1 nogil:
        """Declare that no event of a stream is below a time-stamp; the worker has the verdicts.

        Args:
            number: the stream.
            time_stamp: the time-stamp.
            change: gets the least time-stamp at which time alone can bring a verdict; UINT64_MAX if
                only an event can.
        """
        cdef Resting *resting = &self.resting[number]
        self.load(resting)
        try:
            self.worker.push_time(time_stamp)
            if change != NULL:
                self.worker.table.structure(&self.worker.state)
                change[0] = self.worker.engine.next_change(&self.worker.state)
        finally:
            self.store(resting)
        return 0

    cdef int end(self, Resting *resting) except -1 nogil:
        """Release the state of a stream that has ended, and the verdicts in the worker.

        `pending` still returns the pending time-points. No event can follow.
        """
        cdef bint is_over = self.worker.pending_count() == 0
        if resting.configuration == NO_CONFIGURATION or self.worker.is_broken():
            self.store(resting)
        else:
            # PERF: a state that is not loaded would be kept whole, at 500 bytes.
            self.count_verdicts()
        if is_over:
            self.clear(resting)
        return 0

    cdef list pending(self, uint32_t number, uint64_t time_stamp):
        """The pending time-points of a stream, if no event comes below a time-stamp."""
        cdef Resting *resting = &self.resting[number]
        self.load(resting)
        try:
            self.worker.push_time(time_stamp)
            return self.worker.pending
        finally:
            if resting.configuration == NO_CONFIGURATION or self.worker.is_broken():
                self.store(resting)
            else:
                self.event_count += self.worker.state.event_count

    cdef void count_verdicts(self) noexcept nogil:
        """Add the worker's counts since `load` to the totals."""
        self.event_count += self.worker.state.event_count
        self.true_count += self.worker.state.history.true_count
        self.false_count += self.worker.state.history.false_count

    cdef int own(self, uint32_t known, uint32_t number) except -1 nogil:
        """Record the stream of all verdicts from number `known` on."""
        cdef uint32_t i
        reserve(
            <void **> &self.owners, &self.owner_capacity, self.worker.output.count,
            sizeof(uint32_t)
        )
        for i in range(known, self.worker.output.count):
            self.owners[i] = number
        return 0

    # ---- streams that are as good as new -----------------------------------------------------

    cdef bint earliest_pending(self, uint32_t number, uint64_t *time_stamp) noexcept nogil:
        """Get the time-stamp of a stream's earliest pending time-point; False if it has none."""
        cdef uint64_t offset
        return self.earliest_point(number, time_stamp, &offset)

    cdef bint earliest_point(
        self, uint32_t number, uint64_t *time_stamp, uint64_t *offset
    ) noexcept nogil:
        """Get a stream's earliest pending time-point; False if it has none."""
        cdef Resting *resting = &self.resting[number]
        cdef const History *history
        if resting.is_broken:
            return False
        if resting.whole != NULL:
            history = &resting.whole.history
            if history.first == NO_ENTRY:
                return False
            time_stamp[0] = history.entries[history.first].time_stamp
            offset[0] = history.entries[history.first].offset
            return True
        if resting.register_count == 0:
            return False
        time_stamp[0] = resting.registers[0].time_stamp
        offset[0] = resting.registers[0].offset
        return True

    cdef bint is_idle(self, uint32_t number, uint64_t clock) noexcept nogil:
        """Whether a stream is as before its first event, if no event comes below `clock`."""
        cdef const Resting *resting = &self.resting[number]
        if resting.is_broken or resting.whole != NULL:
            return False
        return clock >= self.settled_from(
            resting.configuration, resting.register_count, resting.time_stamp
        )

    cdef bint is_settled(self, uint32_t number, uint64_t clock) except -1:
        """Do the same as `is_idle`, also for states that have to be looked at to see it.

        Call between `enter` and `leave` of the worker. The time-stamp may be below the last one of
        the stream, which is not settled then.
        """
        cdef Resting *resting = &self.resting[number]
        cdef uint64_t earliest
        cdef uint64_t settled_from = 0
        cdef bint is_known = False
        if resting.is_broken or self.earliest_pending(number, &earliest):
            return False
        if self.is_idle(number, clock):
            return True
        self.load(resting)
        try:
            self.worker.table.structure(&self.worker.state)
            is_known = find_settled(self.worker.engine, &self.worker.state, &settled_from)
        finally:
            self.store(resting)
        return is_known and settled_from <= clock

    cdef int renumber(self, const uint32_t *new_numbers) except -1:
        """Give streams new numbers, in the same order; forget those with NO_NUMBER.

        new_numbers: the new numbers, indexed by the current ones.
        """
        cdef uint32_t kept = 0
        cdef uint32_t i
        cdef void *smaller
        for i in range(self.count):
            if new_numbers[i] == NO_NUMBER:
                self.clear(&self.resting[i])
            else:
                self.resting[kept] = self.resting[i]
                kept += 1
        self.count = kept
        if 4 * kept < self.capacity:
            smaller = realloc(self.resting, max(kept, <uint32_t> 1) * sizeof(Resting))
            if smaller != NULL:
                self.resting = <Resting *> smaller
                self.capacity = max(kept, <uint32_t> 1)
        return 0

    # ---- memory ----------------------------------------------------------------------------

    cdef void count_held(self, HeldBytes *held) noexcept nogil:
        """Add the bytes of the states and of the structures they share; call between two events."""
        self.worker.count_held(held)
        self.count_resting(held)
        held.of[HELD_VERDICTS] += self.owner_capacity * sizeof(uint32_t)

    cdef void count_resting(self, HeldBytes *held) noexcept nogil:
        """Add the bytes of the states alone."""
        cdef int k
        for k in range(HOLDER_COUNT):
            held.of[k] += self.resting_bytes.of[k]
        held.of[HELD_KEY_STATES] += (
            self.capacity * sizeof(Resting) + <size_t> self.awake_room * sizeof(uint64_t)
        )

    cdef bint relieve(self) except -1 nogil:
        """Release memory that is not essential: transitions, and remains of old expressions."""
        self.compactions += 1
        self.forget_transitions()
        self.worker.table.shrink()
        if self.worker.engine.network is not None:
            self.forget_blocks(self.worker.engine.network)
        with gil:
            self.compact_workspace()
        return True

    cdef void forget_blocks(self, QueueNetwork network) noexcept nogil:
        """Forget what a network has learnt of blocks."""
        cdef uint32_t i
        network.detach(self.worker.state.network)
        for i in range(self.count):
            if self.resting[i].whole != NULL:
                network.detach(self.resting[i].whole.network)
        network.forget()

    cdef int forget_transitions(self) except -1 nogil:
        """Forget all transitions, and all configurations but those of streams."""
        cdef void *kept = NULL
        if self.count:
            kept = &self.resting[0].configuration
        self.worker.table.forget(kept, sizeof(Resting), self.count)
        return 0

    cdef void set_room(self, MemoryLimit memory) noexcept nogil:
        self.worker.engine.set_room(memory)

    # ---- what all streams share ------------------------------------------------------------

    cdef bint is_full(self) noexcept nogil:
        """Whether so much memory is taken that it is worth compacting."""
        return (
            self.worker.table.bytes() > self.worker.table.budget
            or is_worth_compacting(self.worker.engine.workspace)
        )

    cdef int maybe_compact(self) except -1 nogil:
        """Compact, once enough of the memory is no longer needed by any stream."""
        if self.is_full():
            with gil:
                self.compact()
        return 0

    cdef int compact(self) except -1:
        cdef Table table = self.worker.table
        cdef size_t kept
        self.compactions += 1
        self.forget_transitions()
        # Half of the table is for transitions, however many configurations there are; less if
        # memory is limited.
        kept = table.bytes()
        table.budget = max(table.budget, kept + min(kept, max(table.spare, kept // 4)))
        if is_worth_compacting(self.worker.engine.workspace):
            self.compact_workspace()
        return 0

    cdef int compact_workspace(self) except -1:
        """Rebuild the workspace with only the expressions of configurations and whole states.
        """
        cdef Engine engine = self.worker.engine
        cdef Table table = self.worker.table
        cdef uint32_t places[MOST_WORDS]
        cdef uint32_t i, j, count
        cdef uint64_t *words
        cdef size_t total = 0
        cdef size_t position = 0
        cdef Expression *expressions
        for i in range(table.configuration_count):
            total += expression_places(
                engine, table.words + table.configurations[i].start, places
            )
        expressions = <Expression *> calloc(total + 1, sizeof(Expression))
        engine.root_count = 0
        try:
            if expressions == NULL:
                raise MemoryError("mtlmon: out of memory")
            for i in range(table.configuration_count):
                words = table.words + table.configurations[i].start
                count = expression_places(engine, words, places)
                for j in range(count):
                    expressions[position] = <Expression> words[places[j]]
                    engine._add_root(&expressions[position])
                    position += 1
            for i in range(self.count):
                if self.resting[i].whole != NULL:
                    engine._add_roots(self.resting[i].whole)
            engine.workspace = engine.workspace.compacted(engine.roots, engine.root_count)
            position = 0
            for i in range(table.configuration_count):
                words = table.words + table.configurations[i].start
                count = expression_places(engine, words, places)
                for j in range(count):
                    words[places[j]] = (
                        words[places[j]] >> 32 << 32 | expressions[position]
                    )
                    position += 1
        finally:
            free(expressions)
        for i in range(self.count):
            if self.resting[i].whole != NULL:
                rehash(&self.resting[i].whole.history)
        table.rehash()
        return 0


cdef void count_whole(HeldBytes *total, const State *state, int times) noexcept nogil:
    """Count the bytes that a saved state takes; with -1 times, subtract them."""
    cdef HeldBytes held
    cdef int k
    memset(&held, 0, sizeof(HeldBytes))
    held_by_state(state, &held)
    held.of[HELD_KEY_STATES] += chunk_size(sizeof(State))
    for k in range(HOLDER_COUNT):
        total.of[k] += times * held.of[k]
