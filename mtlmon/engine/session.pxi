# cython: language_level=3
"""A session: an engine and the state of one stream, with the interface for native callers."""

from libc.stdlib cimport calloc, free
from libc.string cimport memset

from mtlmon.engine.memory_limit import CATEGORIES as _CATEGORIES
from mtlmon.errors import (
    InUseError, MonitorBrokenError, MtlmonError, SnapshotError, UnitError,
)

# The categories of memory that a single monitor can hold.
_MONITOR_CATEGORIES = (
    "formula", "operators", "pending", "expressions", "transitions", "verdicts"
)

_MODES = {"naive": MODE_NAIVE, "local": MODE_LOCAL, "global": MODE_GLOBAL}

cdef class Session:
    """One stream being monitored against one formula: `Monitor` without the Python-only parts.

    Takes the arguments of `Monitor`.
    """

    def __cinit__(
        self, formula, str mode not None="local", *, str bdd not None="auto", str unit=None,
        str unknown not None="ignore", max_memory=None
    ):
        if mode not in _MODES:
            raise MtlmonError(f"unknown mode {mode!r}; choose one of {', '.join(_MODES)}")
        if unknown not in ("ignore", "error"):
            raise MtlmonError(f"unknown is 'ignore' or 'error', not {unknown!r}")
        if bdd not in ("auto", "autoref"):
            # Fail here rather than in the middle of a stream.
            from mtlmon.engine.expressions.bdd import load_back_end

            load_back_end(bdd)
        if not isinstance(formula, Program):
            from mtlmon.engine.compile import compile_formula

            formula = compile_formula(formula, unit=unit)
        elif unit is not None:
            raise UnitError("a Program has bounds in numbers: declare the unit before compiling")
        self.program = formula
        if mode == "local" and not self.program.is_bounded:
            mode = "global"
        self.mode = mode
        self.engine = Engine(self.program, bdd, mode == "global")
        self.table = Table(self.engine)
        self.atom_numbers = {name: number for number, name in enumerate(self.program.atoms)}
        self.unknown = unknown
        self.is_strict = unknown == "error"
        self.letter_words = max(1, (len(self.program.atoms) + 63) // 64)
        self.letter = <uint64_t *> calloc(self.letter_words, sizeof(uint64_t))
        if self.letter == NULL:
            raise MemoryError("mtlmon: out of memory")
        init_state(&self.state, self.program, _MODES[mode])
        self.counted = MemoryLimit()
        if max_memory is not None:
            from mtlmon.engine.memory_limit import memory_size

            self.memory = MemoryLimit(memory_size(max_memory))
            self.set_limit(self.memory, 1)
            self.memory.hold_to(self)

    def __dealloc__(self):
        # Do not use the program here: the garbage collector may have cleared it already.
        free_state(&self.state)
        free(self.letter)
        free(self.output.records)
        free(self.words.items)

    # ---- native callers --------------------------------------------------------------------

    cdef int enter(self) except -1 nogil:
        """Begin a call: all other calls are refused until `leave`."""
        if not compare_and_set(&self.condition, READY, IN_USE):
            with gil:
                self._refuse()
        return 0

    cdef void leave(self) noexcept nogil:
        self.condition = READY

    cdef void leave_unless_broken(self, bint can_continue) noexcept nogil:
        """Leave, also after an error; a session that an error has broken stays so.

        can_continue: whether the caller can go on with the event at which an error came; otherwise
            the session counts as broken.
        """
        if self.condition == IN_USE:
            self.condition = READY if can_continue else BROKEN

    cdef void mark_broken(self) noexcept nogil:
        """Use instead of `leave` when the current state is lost: no call can follow."""
        self.condition = BROKEN

    cdef size_t run(
        self, const uint64_t *time_stamps, const uint64_t *letters, size_t count
    ) except? 0 nogil:
        """Process the next events, between `enter` and `leave`; return how many.

        Takes at least one event, and all events unless many verdicts wait to be collected. The
        letter of event k begins at letters[k * letter_words].
        """
        cdef size_t done
        cdef bint is_done = False
        self.output.count = 0
        try:
            done = self.table.run(
                &self.state, time_stamps, letters, self.letter_words, count, &self.output, 0
            )
            is_done = True
        finally:
            if not is_done:
                self.condition = BROKEN
            # Also take the verdicts of the events before a failed one.
            self.verdicts = self.output.records
            self.verdict_count = self.output.count
        return done

    cdef int run_finish(self, const EndTime *end) except -1 nogil:
        """Do the same as `push_finish`, between `enter` and `leave`."""
        if end.kind == END_INFINITE:
            return self._end()
        if self.state.event_count == 0:
            return self.pass_time(0)
        if is_closed_by(end, self.state.time_stamp):
            return self._end()
        return self.pass_time(clock_after(end, self.state.time_stamp))

    cdef int push_time(self, uint64_t time_stamp) except -1 nogil:
        """Declare that no event is below a time-stamp."""
        self.enter()
        self.pass_time(time_stamp)
        self.leave()
        return 0

    cdef int push_end(self) except -1 nogil:
        """Declare that no event comes at all."""
        self.enter()
        self._end()
        self.leave()
        return 0

    cdef int push_finish(self, const EndTime *end) except -1 nogil:
        """End the stream, with what is known about the time after it."""
        self.enter()
        self.run_finish(end)
        self.leave()
        return 0

    cdef int save(self, SavedState saved) except -1 nogil:
        """Save the state; what was saved before is lost."""
        self.enter()
        try:
            if <void *> saved.program != <void *> self.program:
                with gil:
                    saved.program = self.program
            saved.mode = self.state.history.mode
            take_state(self.table, &self.state, &saved.saved)
        finally:
            self.leave()
        return 0

    cdef int load(self, SavedState saved) except -1 nogil:
        """Continue from a saved state, even if this session is finished or broken."""
        cdef uint8_t condition = READY
        cdef bint is_done = False
        self._require_kind(saved)
        if not compare_and_set(&self.condition, READY, IN_USE):
            with gil:
                condition = self.acquire()
        try:
            if condition == BROKEN:
                with gil:
                    self.rebuild_engine(condition)
            give_state(self.table, &self.state, &saved.saved)
            self.verdict_count = 0
            is_done = True
        finally:
            self.condition = READY if is_done else BROKEN
        return 0

    cdef bint is_in(self, SavedState saved) except -1 nogil:
        """Whether the state equals a saved one."""
        cdef bint is_equal
        self._require_kind(saved)
        self.enter()
        try:
            is_equal = state_equals(self.table, &self.state, &saved.saved, &self.words)
        finally:
            self.leave()
        return is_equal

    cdef int _require_kind(self, SavedState saved) except -1 nogil:
        """Refuse a saved state of another program or mode."""
        if <void *> saved.program == <void *> self.program and (
            saved.mode == self.state.history.mode
        ):
            return 0
        with gil:
            if saved.mode != self.state.history.mode or (
                saved.program.__reduce__() != self.program.__reduce__()
            ):
                raise SnapshotError("the state is of another formula or mode")
        return 0

    cdef int pass_time(self, uint64_t time_stamp) except -1 nogil:
        """Do the same as `push_time`, between `enter` and `leave`."""
        cdef bint is_done = False
        self.state.history.verdict_count = 0
        try:
            if time_stamp > self.state.clock:
                self.table.structure(&self.state)
                self.engine.advance(&self.state, time_stamp)
            is_done = True
        finally:
            self._take_from_history(is_done)
        return 0

    cdef int _end(self) except -1 nogil:
        cdef bint is_done = False
        try:
            self.table.structure(&self.state)
            self.engine.end(&self.state)
            is_done = True
        finally:
            self._take_from_history(is_done)
        return 0

    cdef void _take_from_history(self, bint is_done) noexcept nogil:
        """Pass on the verdicts that the engine produced outside the table."""
        self.verdicts = self.state.history.verdicts
        self.verdict_count = self.state.history.verdict_count if is_done else 0
        if not is_done:
            self.condition = BROKEN

    cdef bint earliest_pending(self, uint64_t *time_stamp, uint64_t *offset) noexcept nogil:
        cdef const Register *register
        if not self.state.is_structured:
            register = self.state.registers + self.state.register_base
            time_stamp[0] = register.time_stamp
            offset[0] = register.offset
            return self.state.register_count > 0
        if self.state.history.first == NONE:
            return False
        time_stamp[0] = self.state.history.entries[self.state.history.first].time_stamp
        offset[0] = self.state.history.entries[self.state.history.first].offset
        return True

    cdef bint look(
        self, bint *is_pending, uint64_t *time_stamp, uint64_t *offset
    ) noexcept nogil:
        """Do the same for callers that are in no call; False while another call is active."""
        cdef uint8_t condition = self.condition
        if condition == IN_USE or not compare_and_set(&self.condition, condition, IN_USE):
            return False
        is_pending[0] = self.earliest_pending(time_stamp, offset)
        self.condition = condition
        return True

    cdef void close(self) noexcept nogil:
        """Refuse further events, unless a call is active or the state is broken."""
        compare_and_set(&self.condition, READY, FINISHED)

    cdef int require_ready(self) except -1:
        if self.condition != READY:
            self._refuse()
        return 0

    cdef int _refuse(self) except -1:
        """Raise the error that says why no call can begin."""
        if self.condition == FINISHED:
            raise MtlmonError("the monitor is finished: no event can follow")
        self.require_sound(self.condition)
        raise InUseError("monitor")

    cdef int require_sound(self, uint8_t condition) except -1:
        if condition == BROKEN:
            raise MonitorBrokenError(
                "the monitor was interrupted in the middle of an event and cannot go on; "
                "start a new one, or `reset` it"
            )
        return 0

    cdef bint is_broken(self) noexcept nogil:
        """Whether an error has left the state in the middle of an event."""
        return self.condition == BROKEN

    cdef void mark_ready(self) noexcept nogil:
        """Accept calls again, after other code has replaced the state."""
        self.condition = READY

    cdef uint8_t acquire(self) except 0xFF:
        """Begin a call that takes no event, and so may also come after the end.

        Returns the previous condition, which the caller restores.
        """
        cdef uint8_t condition
        for condition in (READY, FINISHED, BROKEN):
            if compare_and_set(&self.condition, condition, IN_USE):
                return condition
        self._refuse()
        return 0xFF

    cdef int rebuild_engine(self, uint8_t condition) except -1:
        """Discard what an error has left behind, except for the state."""
        if condition == BROKEN:
            memory = self.engine.workspace.memory
            shift = self.engine.workspace.memo_shift
            self.engine = Engine(
                self.program, self.engine.workspace.bdd_choice, self.mode == "global"
            )
            self.engine.set_limit(memory)
            self.engine.workspace.shrink_memos(shift)
            budget = self.table.budget
            self.table = Table(self.engine)
            self.table.budget = budget
        return 0

    cdef size_t pending_count(self) noexcept nogil:
        if self.state.is_structured:
            return self.state.history.pending_count
        return self.state.register_count

    # ---- memory ----------------------------------------------------------------------------

    cdef void count_held(self, HeldBytes *held) noexcept nogil:
        """Add the bytes that all parts of the monitor take."""
        self.engine.count_held(held)
        held_by_state(&self.state, held)
        held.of[HELD_TRANSITIONS] += self.table.held_bytes()
        held.of[HELD_VERDICTS] += self.output.capacity * sizeof(VerdictRecord)
        held.of[HELD_OPERATORS] += (self.letter_words + self.words.capacity) * sizeof(uint64_t)

    cdef void set_limit(self, MemoryLimit memory, size_t monitors):
        """Join a run with a limit, as one of so many monitors."""
        self.engine.set_limit(memory)
        self.engine.workspace.set_memo_share(memory.share(8 * monitors))
        self.table.set_budget(memory.share(8 * monitors))

    cdef bint relieve(self) except -1 nogil:
        """Release inessential memory: transitions, and remains of old expressions."""
        self.table.structure(&self.state)
        self.table.forget(NULL, 0, 0)
        self.table.shrink()
        if self.state.network != NULL:
            self.engine.network.detach(self.state.network)
            self.engine.network.forget()
        with gil:
            self.engine.compact(&self.state)
        return True

    cdef void set_room(self, MemoryLimit memory) noexcept nogil:
        self.engine.set_room(memory)

    @property
    def max_memory(self):
        """How many bytes the monitor's structures may hold; None means no limit.

        You can set it, for instance to continue after a `MemoryLimitError`.
        """
        return None if self.memory is None else self.memory.limit

    @max_memory.setter
    def max_memory(self, value):
        from mtlmon.engine.memory_limit import memory_size

        if value is not None:
            value = memory_size(value)
        self.enter()
        try:
            self.memory = MemoryLimit(value)
            self.set_limit(self.memory, 1)
            self.engine.set_room(self.memory)
            if value is None:
                self.memory = None
        finally:
            self.leave()

    def snapshot(self):
        """Return the monitor's state as bytes, for `restore` in any process.

        The snapshot is compact, and the same on any machine and with any BDD back end. It does not
        include the formula.
        """
        self.enter()
        try:
            return encode(self.table, &self.state)
        finally:
            self.leave()

    def restore(self, snapshot):
        """Continue from a snapshot of another monitor of the same formula and mode.

        The previous state of this monitor does not matter, even if it is finished or broken.

        Raises:
            SnapshotError: the bytes are not a snapshot, or are damaged, or belong to another
                formula, mode or version; the state is unchanged.
        """
        cdef State state
        cdef uint8_t condition = self.acquire()
        memset(&state, 0, sizeof(State))
        try:
            self.rebuild_engine(condition)
            decode(self.table, &state, _MODES[self.mode], snapshot)
            self.state, state = state, self.state
            condition = READY
            self.verdict_count = 0
        finally:
            free_state(&state)
            self.condition = condition

    def reset(self):
        """Start again with a new stream; this also works after an error.

        What was learnt about the formula is kept, so this is faster than creating a new monitor.
        """
        cdef State state
        cdef uint8_t condition = self.acquire()
        memset(&state, 0, sizeof(State))
        try:
            self.rebuild_engine(condition)
            init_state(&state, self.program, _MODES[self.mode])
            self.state, state = state, self.state
            condition = READY
        finally:
            free_state(&state)
            self.condition = condition

    @property
    def atoms(self):
        """The names of the atoms that the formula depends on, in the order of bits and columns."""
        return self.program.atoms

    @property
    def pending(self):
        """The undecided time-points, as `PendingTimePoint`s in order of time.

        Time-points that are known to be equivalent to earlier ones are not included. Each item is a
        pair (time_stamp, offset), and says until when it can stay undecided.
        """
        from mtlmon.engine.pending import PendingTimePoint, decision_delay

        cdef list pending = []
        cdef uint8_t condition = self.acquire()
        try:
            self.require_sound(condition)
            self.table.structure(&self.state)
            if not self.knows_delay:
                self.delay = decision_delay(self.program.rows, self.program.root)
                self.knows_delay = True
            delay = self.delay
            number = self.state.history.first
            while number != NONE:
                entry = self.state.history.entries[number]
                until = None if delay is None else entry.time_stamp + delay
                pending.append(
                    PendingTimePoint(entry.time_stamp, entry.offset, until, entry.weight)
                )
                number = entry.later
        finally:
            self.condition = condition
        return pending

    @property
    def counters(self):
        """Counters of what the engine has done so far: for diagnosis, not for decisions.

        events, true, false (including equivalents), pending, peak_pending (entries of the history),
        bdd_operations, memo_flushes and compactions (of the workspace's tables), table_hits and
        table_flushes (of the transition table: the events that it answered, and how often it forgot
        everything).

        held_bytes is the memory that the monitor's own structures currently take, which
        `max_memory` limits. It is the sum of held_formula, held_operators, held_pending,
        held_expressions, held_transitions and held_verdicts.

        Another thread can read them while a call is active; what is held is then what was held when
        they were read last.
        """
        cdef HeldBytes held
        cdef MemoryLimit count
        cdef dict counters
        cdef uint8_t condition = self.condition
        if condition != IN_USE and compare_and_set(&self.condition, condition, IN_USE):
            try:
                memset(&held, 0, sizeof(HeldBytes))
                self.count_held(&held)
                count = MemoryLimit()
                count.admits(&held)
                self.counted = count
            finally:
                self.condition = condition
        count = self.counted
        counters = {
            "events": self.state.event_count,
            "true": self.state.history.true_count,
            "false": self.state.history.false_count,
            "pending": self.pending_count(),
            "peak_pending": self.state.history.peak_pending,
            "bdd_operations": self.engine.workspace.bdd_operations,
            "memo_flushes": self.engine.workspace.memo.flushes,
            "compactions": self.engine.workspace.compactions,
            "table_hits": self.table.hits,
            "table_flushes": self.table.flushes,
            "held_bytes": count.total,
        }
        for name in _MONITOR_CATEGORIES:
            counters[f"held_{name}"] = count.counted.of[<int> _CATEGORIES.index(name)]
        return counters
