# cython: language_level=3
"""Many streams against one formula, each a state at rest.

One engine, one workspace and one transition table serve all streams. Between its events a stream is
the number of a configuration of that table, shared with all streams in the same situation, and a
register for each of its pending time-points. States too large for a configuration are kept whole.

At an event, the stream's state becomes that of a monitor, the *worker*, which does the rest.
"""

from cython cimport final
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from mtlmon._configurations cimport (
    MOST_WORDS,
    REGISTER_ROOM,
    describe,
    expression_places,
    restore,
)
from mtlmon._engine cimport NO_CONFIGURATION, Engine, free_state, init_state
from mtlmon._entries cimport rehash
from mtlmon._expressions cimport is_worth_compacting
from mtlmon._memory cimport reserve
from mtlmon._nodes cimport Expression
from mtlmon._table cimport Table

from mtlmon.errors import MonitorBrokenError


@final
cdef class Monitors:
    """Monitors any number of streams, told apart by keys, against one formula.

    Takes what `Monitor` takes. Keys are hashable. A stream begins with its first event, and each
    has a clock of its own. Verdicts are those that a `Monitor` for each stream would give.

    A stream takes about 50 bytes, 24 more for each pending time-point, and what the dictionary of
    keys takes; `counters` tells.
    """

    def __cinit__(self, formula, str mode not None="local", *, str bdd not None="auto"):
        self.worker = Monitor(formula, mode, bdd=bdd)
        self.worker.table.is_shared = True
        self.worker.engine.is_shared = True
        self.mode_number = self.worker.state.history.mode
        self.numbers = {}
        self.free_numbers = []
        if not self.worker.table.is_used or not describe(
            self.worker.engine, &self.worker.state, &self.blank
        ):
            self.blank.length = 0

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.count):
            free(self.resting[i].registers)
            if self.resting[i].whole != NULL:
                free_state(self.resting[i].whole)
                free(self.resting[i].whole)
        free(self.resting)
        if self.has_spare:
            free_state(&self.spare)

    # ---- for users -------------------------------------------------------------------------

    def step(self, key, time_stamp, atoms=()):
        """Go on to the next event of a stream; its verdicts, in order of time-points.

        Raises what `Monitor.step` raises; other streams are not concerned.
        """
        cdef Resting *resting = self.find(key, True)
        self.load(resting)
        try:
            return self.worker.step(time_stamp, atoms)
        finally:
            self.store(&self.resting[<uint32_t> self.numbers[key]])

    def advance(self, key, time_stamp):
        """No later event of the stream comes below `time_stamp`: the verdicts that settles."""
        cdef Resting *resting = self.find(key, False)
        self.load(resting)
        try:
            return self.worker.advance(time_stamp)
        finally:
            self.store(&self.resting[<uint32_t> self.numbers[key]])

    def pending(self, key):
        """What `Monitor.pending` says of a stream."""
        cdef Resting *resting = self.find(key, False)
        self.load(resting)
        try:
            return self.worker.pending
        finally:
            self.store(&self.resting[<uint32_t> self.numbers[key]])

    def finish(self, end_time=None):
        """All streams end: iterate over (key, verdicts), by key in the order of first events.

        `end_time` is that of `Monitor.finish`, "last" meaning the last time-stamp of each stream.
        Streams are forgotten as they are finished.
        """
        for key in list(self.numbers):
            self.load(self.find(key, False))
            try:
                verdicts = self.worker.finish(end_time)
            finally:
                self.worker.revive()
                self.store(&self.resting[<uint32_t> self.numbers[key]])
                self.forget(key)
            yield key, verdicts

    def forget(self, key):
        """Forget a stream; another event with its key begins a new one."""
        cdef uint32_t number = self.numbers.pop(key)
        cdef Resting *resting = &self.resting[number]
        self.drop_registers(resting)
        if resting.whole != NULL:
            free_state(resting.whole)
            free(resting.whole)
            self.whole_count -= 1
        memset(resting, 0, sizeof(Resting))
        resting.configuration = NO_CONFIGURATION
        self.free_numbers.append(number)

    def __len__(self):
        return len(self.numbers)

    def __contains__(self, key):
        return key in self.numbers

    def __iter__(self):
        return iter(self.numbers)

    @property
    def program(self):
        return self.worker.program

    @property
    def mode(self):
        return self.worker.mode

    @property
    def atoms(self):
        return self.worker.atoms

    @property
    def counters(self):
        """events, true, false (with equivalents) of all streams together; streams, those of them
        that are kept whole, and bytes, what all streams take but for the whole ones, the keys and
        what is shared."""
        return {
            "events": self.event_count,
            "true": self.true_count,
            "false": self.false_count,
            "streams": len(self.numbers),
            "whole": self.whole_count,
            "bytes": self.capacity * sizeof(Resting) + self.register_bytes,
            "table_hits": self.worker.table.hits,
            "table_flushes": self.worker.table.flushes,
            "compactions": self.worker.engine.workspace.compactions,
        }

    def __repr__(self):
        return f"<Monitors in mode {self.mode} of {len(self)} streams>"

    # ---- states at work and at rest --------------------------------------------------------

    cdef Resting *find(self, object key, bint is_new) except NULL:
        """The state of a stream, which may be a new one."""
        cdef uint32_t number
        cdef Resting *resting
        known = self.numbers.get(key)
        if known is None:
            if not is_new:
                raise KeyError(key)
            if self.free_numbers:
                number = self.free_numbers.pop()
            else:
                reserve(
                    <void **> &self.resting, &self.capacity, <size_t> self.count + 1,
                    sizeof(Resting)
                )
                number = self.count
                memset(&self.resting[number], 0, sizeof(Resting))
                self.resting[number].configuration = NO_CONFIGURATION
                self.count += 1
            self.numbers[key] = number
        else:
            number = known
        resting = &self.resting[number]
        if resting.is_broken:
            raise MonitorBrokenError(
                f"the stream {key!r} was interrupted in the middle of an event and cannot go on; "
                "forget it to start a new one"
            )
        return resting

    cdef int renew(self) except -1:
        """Give the worker the state of a stream before its first event."""
        cdef State *state = &self.worker.state
        state.time_stamp = state.offset = state.clock = 0
        state.event_count = 0
        state.register_base = state.register_count = 0
        if self.blank.length:
            restore(self.worker.engine, state, self.blank.words)
            state.configuration = NO_CONFIGURATION
            return 0
        free_state(state)
        init_state(state, self.worker.program, self.mode_number)
        return 0

    cdef int load(self, Resting *resting) except -1:
        """Make the state of a stream that of the worker."""
        cdef State *state = &self.worker.state
        self.worker.require_ready()
        if resting.whole != NULL:
            self.spare = state[0]
            self.has_spare = True
            state[0] = resting.whole[0]
            free(resting.whole)
            resting.whole = NULL
            self.whole_count -= 1
        elif resting.configuration == NO_CONFIGURATION:
            self.renew()
        else:
            if state.registers == NULL:
                state.registers = <Register *> malloc(REGISTER_ROOM * sizeof(Register))
                if state.registers == NULL:
                    raise MemoryError("mtlmon: out of memory")
            if resting.register_count:
                memcpy(
                    state.registers, resting.registers, resting.register_count * sizeof(Register)
                )
            state.register_base = 0
            state.register_count = resting.register_count
            state.configuration = resting.configuration
            state.is_structured = False
            state.time_stamp = state.clock = resting.time_stamp
            state.offset = resting.offset
            state.event_count = 1
        self.event_count -= state.event_count
        state.history.true_count = state.history.false_count = state.history.peak_pending = 0
        return 0

    cdef int store(self, Resting *resting) except -1:
        """Let the worker's state rest."""
        cdef State *state = &self.worker.state
        self.event_count += state.event_count
        self.true_count += state.history.true_count
        self.false_count += state.history.false_count
        if self.worker.is_broken():
            resting.is_broken = True
            self.worker.revive()
            free_state(state)
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
            resting.offset = state.offset
            self.keep_registers(resting)
            if self.has_spare:
                free_state(state)
                state[0] = self.spare
                self.has_spare = False
        elif state.event_count or state.clock:
            self.keep_whole(resting)
        return self.keep_house()

    cdef int keep_registers(self, Resting *resting) except -1:
        cdef State *state = &self.worker.state
        cdef size_t wanted = state.register_count * sizeof(Register)
        cdef void *grown
        if state.register_count > resting.register_capacity or (
            2 * state.register_count + 2 < resting.register_capacity
        ):
            self.drop_registers(resting)
            grown = malloc(wanted)
            if grown == NULL:
                raise MemoryError("mtlmon: out of memory")
            resting.registers = <Register *> grown
            resting.register_capacity = state.register_count
            self.register_bytes += wanted
        resting.register_count = state.register_count
        if wanted:
            memcpy(resting.registers, state.registers + state.register_base, wanted)
        return 0

    cdef void drop_registers(self, Resting *resting) noexcept:
        free(resting.registers)
        resting.registers = NULL
        self.register_bytes -= resting.register_capacity * sizeof(Register)
        resting.register_count = resting.register_capacity = 0

    cdef int keep_whole(self, Resting *resting) except -1:
        """A state without configuration is moved out of the worker."""
        cdef State *state = &self.worker.state
        resting.whole = <State *> malloc(sizeof(State))
        if resting.whole == NULL:
            raise MemoryError("mtlmon: out of memory")
        resting.whole[0] = state[0]
        resting.configuration = NO_CONFIGURATION
        self.drop_registers(resting)
        self.whole_count += 1
        memset(state, 0, sizeof(State))
        if self.has_spare:
            state[0] = self.spare
            self.has_spare = False
        else:
            init_state(state, self.worker.program, self.mode_number)
        return 0

    # ---- what all streams share ------------------------------------------------------------

    cdef int keep_house(self) except -1:
        """Forget what no stream needs any more, once there is enough of it."""
        cdef Table table = self.worker.table
        if table.bytes() > table.budget or is_worth_compacting(self.worker.engine.workspace):
            table.forget(&self.resting[0].configuration, sizeof(Resting), self.count)
            # Half of the table is for transitions, however many configurations there are.
            table.budget = max(table.budget, 2 * table.bytes())
            if is_worth_compacting(self.worker.engine.workspace):
                self.compact()
        return 0

    cdef int compact(self) except -1:
        """A fresh workspace that knows only the expressions of configurations and whole states."""
        cdef Engine engine = self.worker.engine
        cdef Table table = self.worker.table
        cdef uint32_t places[MOST_WORDS]
        cdef uint32_t i, j, count
        cdef uint64_t *words
        cdef size_t total = 0
        cdef size_t position = 0
        cdef Expression *expressions
        self.renew()
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
