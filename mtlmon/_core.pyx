# cython: language_level=3
"""The monitor: an engine and a state, checked at the door."""

from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cython cimport final, freelist
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from mtlmon._configurations cimport find_settled
from mtlmon._engine cimport Register, free_state, held_by_state, init_state
from mtlmon._entries cimport MODE_GLOBAL, MODE_LOCAL, MODE_NAIVE, NONE
from mtlmon._event cimport read_letter, read_time
from mtlmon._expressions cimport PATIENCE
from mtlmon._memory_limit cimport HELD_OPERATORS, HELD_TRANSITIONS, HELD_VERDICTS
from mtlmon._program cimport MAX_TIME_STAMP
from mtlmon._snapshot cimport decode, encode
from mtlmon._verdict cimport VERDICT_EQUIVALENT, VERDICT_TRUE

from mtlmon.errors import (
    MemoryLimitError,
    MonitorBrokenError,
    MtlmonError,
    TimeStampError,
    UnitError,
)
from mtlmon.memory_limit import CATEGORIES as _CATEGORIES

# What a monitor by itself can hold memory for.
_MONITOR_CATEGORIES = (
    "formula", "operators", "pending", "expressions", "transitions", "verdicts"
)

_MODES = {"naive": MODE_NAIVE, "local": MODE_LOCAL, "global": MODE_GLOBAL}

cdef extern from *:
    """
    /* Calls of one monitor come from any thread, with and without the GIL. */
    #define compare_and_set(target, expected, wanted) \\
        __sync_bool_compare_and_swap(target, (uint8_t) (expected), (uint8_t) (wanted))
    """
    bint compare_and_set(uint8_t *target, int expected, int wanted) nogil

cdef enum Condition:
    READY = 0
    IN_USE = 1      # a call is at work, reading atoms or in the middle of an event
    BROKEN = 2      # an error came in the middle of an event
    FINISHED = 3


@final
@freelist(256)
cdef class Verdict:
    """The verdict of one time-point: true, false, or equivalent to an earlier undecided one.

    Attributes:
        time_stamp: of the time-point, in the stream's unit.
        offset: its number among the time-points of its time-stamp, from 0.
        kind: "true", "false" or "equivalent".
        value: True, False, or None for an equivalence.
        ref: (time_stamp, offset) of the time-point it is equivalent to, else None.

    `str(verdict)` is the line the command writes.
    """

    def __init__(self):
        raise TypeError("verdicts are made by monitors")

    @property
    def time_stamp(self):
        return self.record.time_stamp

    @property
    def offset(self):
        return self.record.offset

    @property
    def kind(self):
        if self.record.kind == VERDICT_EQUIVALENT:
            return "equivalent"
        return "true" if self.record.kind == VERDICT_TRUE else "false"

    @property
    def value(self):
        if self.record.kind == VERDICT_EQUIVALENT:
            return None
        return self.record.kind == VERDICT_TRUE

    @property
    def ref(self):
        if self.record.kind != VERDICT_EQUIVALENT:
            return None
        return (self.record.reference_time_stamp, self.record.reference_offset)

    def __str__(self):
        if self.record.kind != VERDICT_EQUIVALENT:
            return f"{self.record.time_stamp}:{self.record.offset} {self.kind}"
        return (
            f"{self.record.time_stamp}:{self.record.offset} = "
            f"{self.record.reference_time_stamp}:{self.record.reference_offset}"
        )

    def __repr__(self):
        return f"<Verdict {self}>"

    def __eq__(self, other):
        if not isinstance(other, Verdict):
            return NotImplemented
        return self._key() == (<Verdict> other)._key()

    def __hash__(self):
        return hash(self._key())

    def __reduce__(self):
        return _verdict, (
            self.record.time_stamp,
            self.record.offset,
            self.record.kind,
            self.record.reference_time_stamp,
            self.record.reference_offset,
        )

    def _key(self):
        return (self.record.time_stamp, self.record.offset, self.kind, self.ref)


def _verdict(time_stamp, offset, kind, reference_time_stamp, reference_offset):
    """Make a verdict anew; for pickles."""
    cdef VerdictRecord record
    record.time_stamp = time_stamp
    record.offset = offset
    record.kind = kind
    record.reference_time_stamp = reference_time_stamp
    record.reference_offset = reference_offset
    return new_verdict(&record)


def _monitor(program, mode, bdd, unknown, snapshot, max_memory=None):
    """Make a monitor anew; for pickles and copies."""
    monitor = Monitor(program, mode, bdd=bdd, unknown=unknown, max_memory=max_memory)
    monitor.restore(snapshot)
    return monitor


cdef Verdict new_verdict(const VerdictRecord *record):
    cdef Verdict verdict = Verdict.__new__(Verdict)
    verdict.record = record[0]
    return verdict


@final
cdef class Monitor:
    """Monitors one stream of events against one formula.

    Args:
        formula: a `Formula`, a text that `parse` reads, or a compiled `Program`.
        mode: which undecided time-points are reported as equivalent: "local" those of one
            time-stamp, "global" also those of different ones, "naive" none. With an unbounded
            formula "local" works as "global", which keeps memory bounded; the attribute `mode`
            tells.
        bdd: the back end of the library dd: "auto", "cudd" or "autoref".
        unit: of the time-stamps: "ns", "us", "ms", "s", "m", "h" or "d". Bounds of the formula may
            then carry units, and are converted exactly.
        unknown: what to do with atoms of events that the formula does not name: "ignore" them, or
            "error", which finds misspelt ones.
        max_memory: how much memory the monitor's own structures may hold: a number of bytes, or a
            text such as "500M". It is compared after each event of `step` and after every few
            hundred events of `feed`; None for no limit.

    Raises:
        FormulaError: the text is no formula, or a bound is no whole number of units.
        MtlmonError: unknown mode or back end, `unknown` is neither, or `max_memory` is no size.
        MemoryLimitError: the formula alone takes more memory than `max_memory`.
        UnitError: unknown unit, or one for a Program, whose bounds are numbers already.

    After an error in the middle of an event the monitor cannot go on and raises
    `MonitorBrokenError`.

    Different monitors may run in different threads, also those of one Program. A call of a monitor
    of which another call has not returned yet raises `MtlmonError`.

    >>> from mtlmon import Monitor
    >>> monitor = Monitor("p UNTIL[0,5] q", unknown="error")
    >>> monitor.step(0, {"p"}), monitor.step(0, {"p"})
    ([], [<Verdict 0:1 = 0:0>])
    >>> monitor.pending
    [<PendingTimePoint 0:0 until 5, for 2 time-points>]
    >>> monitor.step(2, {"r"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    mtlmon.errors.EventError: the formula has no atom 'r', only 'p', 'q'; ...
    >>> monitor.step(2)
    [<Verdict 0:0 false>, <Verdict 2:0 false>]
    """

    def __cinit__(
        self, formula, str mode not None="local", *, str bdd not None="auto", str unit=None,
        str unknown not None="ignore", max_memory=None
    ):
        from mtlmon.bdd import BACK_ENDS, load_back_end

        if mode not in _MODES:
            raise MtlmonError(f"unknown mode {mode!r}; choose one of {', '.join(_MODES)}")
        if unknown not in ("ignore", "error"):
            raise MtlmonError(f"unknown is 'ignore' or 'error', not {unknown!r}")
        if bdd not in BACK_ENDS or bdd == "cudd":
            # Fail here rather than in the middle of a stream.
            load_back_end(bdd)
        if not isinstance(formula, Program):
            from mtlmon.compile import compile_formula

            formula = compile_formula(formula, unit=unit)
        elif unit is not None:
            raise UnitError("a Program has bounds in numbers: declare the unit before compiling")
        self.program = formula
        if mode == "local" and not self.program.is_bounded:
            mode = "global"
        self.mode = mode
        self.engine = Engine(self.program, bdd)
        self.table = Table(self.engine)
        self.atom_numbers = {name: number for number, name in enumerate(self.program.atoms)}
        self.unknown = unknown
        self.is_strict = unknown == "error"
        self.letter_words = max(1, (len(self.program.atoms) + 63) // 64)
        self.letter = <uint64_t *> calloc(self.letter_words, sizeof(uint64_t))
        if self.letter == NULL:
            raise MemoryError("mtlmon: out of memory")
        init_state(&self.state, self.program, _MODES[mode])
        if max_memory is not None:
            from mtlmon.memory_limit import memory_size

            self.memory = MemoryLimit(memory_size(max_memory))
            self.set_limit(self.memory, 1)
            self.check_memory()

    def __dealloc__(self):
        # Not by the program: the garbage collector may have taken it away already.
        free_state(&self.state)
        free(self.letter)
        free(self.output.records)

    # ---- native callers --------------------------------------------------------------------

    cdef int enter(self) except -1 nogil:
        """Begin a call: until `leave`, all other calls are refused."""
        if not compare_and_set(&self.condition, READY, IN_USE):
            with gil:
                self._refuse()
        return 0

    cdef void leave(self) noexcept nogil:
        self.condition = READY

    cdef void give_up(self) noexcept nogil:
        """Instead of `leave`, when what was said so far is lost: no call can follow."""
        self.condition = BROKEN

    cdef size_t run(
        self, const uint64_t *time_stamps, const uint64_t *letters, size_t count
    ) except? 0 nogil:
        """Like `push`, between `enter` and `leave`."""
        cdef size_t done
        cdef bint is_done = False
        self.output.count = 0
        try:
            done = self.table.run(
                &self.state, time_stamps, letters, self.letter_words, count, &self.output
            )
            is_done = True
        finally:
            if not is_done:
                self.condition = BROKEN
            # Also those of the events before one that failed.
            self.verdicts = self.output.records
            self.verdict_count = self.output.count
        return done

    cdef size_t push(
        self, const uint64_t *time_stamps, const uint64_t *letters, size_t count
    ) except? 0 nogil:
        """Go on to the next events; returns how many, at least one and all unless verdicts wait.

        The letter of event k begins at letters[k * letter_words].
        """
        cdef size_t done
        self.enter()
        done = self.run(time_stamps, letters, count)
        self.leave()
        return done

    cdef int push_time(self, uint64_t time_stamp) except -1 nogil:
        """No event comes below a time-stamp."""
        cdef bint is_done = False
        self.enter()
        self.state.history.verdict_count = 0
        try:
            if time_stamp > self.state.clock:
                self.table.structure(&self.state)
                self.engine.advance(&self.state, time_stamp)
            is_done = True
        finally:
            self._leave_engine(is_done)
        return 0

    cdef int push_end(self) except -1 nogil:
        """No event comes at all."""
        cdef bint is_done = False
        self.enter()
        try:
            self.table.structure(&self.state)
            self.engine.end(&self.state)
            is_done = True
        finally:
            self._leave_engine(is_done)
        return 0

    cdef void _leave_engine(self, bint is_done) noexcept nogil:
        """Hand on what the engine said outside the table, and leave."""
        self.verdicts = self.state.history.verdicts
        self.verdict_count = self.state.history.verdict_count if is_done else 0
        self.condition = READY if is_done else BROKEN

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

    # ---- Python callers --------------------------------------------------------------------

    cdef int require_ready(self) except -1:
        if self.condition != READY:
            self._refuse()
        return 0

    cdef int _refuse(self) except -1:
        """Say why no call can begin."""
        if self.condition == FINISHED:
            raise MtlmonError("the monitor is finished: no event can follow")
        self._require_sound(self.condition)
        raise MtlmonError("the monitor is in use: another call of it has not returned yet")

    cdef int _require_sound(self, uint8_t condition) except -1:
        if condition == BROKEN:
            raise MonitorBrokenError(
                "the monitor was interrupted in the middle of an event and cannot go on; "
                "start a new one, or `reset` it"
            )
        return 0

    cdef bint is_broken(self) noexcept nogil:
        """Whether an error has left the state in the middle of an event."""
        return self.condition == BROKEN

    cdef void revive(self) noexcept nogil:
        """Be ready again, for a state that somebody else has put in place."""
        self.condition = READY

    cdef uint8_t _take(self) except 0xFF:
        """Begin a call that takes no event, and so may come after the end too.

        Returns the condition that was, which the call puts back.
        """
        cdef uint8_t condition
        for condition in (READY, FINISHED, BROKEN):
            if compare_and_set(&self.condition, condition, IN_USE):
                return condition
        self._refuse()
        return 0xFF

    cdef int _mend(self, uint8_t condition) except -1:
        """Leave what an error has left behind, but for the state."""
        if condition == BROKEN:
            memory = self.engine.workspace.memory
            shift = self.engine.workspace.memo_shift
            self.engine = Engine(self.program, self.engine.workspace.bdd_choice)
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
        """Add the bytes that everything of the monitor takes."""
        self.engine.count_held(held)
        held_by_state(&self.state, held)
        held.of[HELD_TRANSITIONS] += self.table.held_bytes()
        held.of[HELD_VERDICTS] += self.output.capacity * sizeof(VerdictRecord)
        held.of[HELD_OPERATORS] += self.letter_words * sizeof(uint64_t)

    cdef void set_limit(self, MemoryLimit memory, size_t monitors):
        """Belong to a run with a limit, as one of so many monitors."""
        self.engine.set_limit(memory)
        self.engine.workspace.set_memo_share(memory.share(8 * monitors))
        self.table.set_budget(memory.share(8 * monitors))

    cdef int relieve(self) except -1 nogil:
        """Give up what can be done without: the transition table, and what is left of old
        expressions."""
        self.table.structure(&self.state)
        self.table.forget(NULL, 0, 0)
        self.table.shrink()
        with gil:
            self.engine.compact(&self.state)
        return 0

    cdef int check_memory(self) except -1 nogil:
        """Between two events: raise MemoryLimitError when too much is held."""
        cdef HeldBytes held
        cdef bint is_relieved = False
        memset(&held, 0, sizeof(HeldBytes))
        self.count_held(&held)
        if not self.memory.admits(&held):
            self.memory.note_relief()
            self.relieve()
            is_relieved = True
            memset(&held, 0, sizeof(HeldBytes))
            self.count_held(&held)
            self.memory.admits(&held)
        self.memory.require(is_relieved)
        self.engine.set_room(self.memory)
        return 0

    @property
    def max_memory(self):
        """How many bytes the monitor's structures may hold, None without a limit.

        It can be set, for instance to go on after a `MemoryLimitError`.
        """
        return None if self.memory is None else self.memory.limit

    @max_memory.setter
    def max_memory(self, value):
        from mtlmon.memory_limit import memory_size

        if value is not None:
            value = memory_size(value)
        self.require_ready()
        self.memory = MemoryLimit(value)
        self.set_limit(self.memory, 1)
        self.engine.set_room(self.memory)
        if value is None:
            self.memory = None

    cdef list _take_verdicts(self):
        cdef size_t i
        # PERF: 20 ns a call less than appending to an empty list.
        cdef list verdicts = PyList_New(<Py_ssize_t> self.verdict_count)
        for i in range(self.verdict_count):
            verdict = new_verdict(&self.verdicts[i])
            Py_INCREF(verdict)
            PyList_SET_ITEM(verdicts, <Py_ssize_t> i, verdict)
        return verdicts

    cdef uint64_t _read_time_stamp(self, object value) except? 0:
        """A time-stamp not below the clock."""
        cdef uint64_t time_stamp = read_time(value, "time-stamp")
        if time_stamp < self.state.clock:
            raise TimeStampError(
                f"time-stamp {time_stamp} is below {self.state.clock}: "
                "time-stamps must not decrease"
            )
        return time_stamp

    def step(self, time_stamp, atoms=()):
        """Go on to the next event and return the verdicts it brings, in order of time-points.

        Args:
            time_stamp: integer from 0 to 2^63-1 in the stream's unit, not below the last one.
            atoms: the names of the propositions that hold; or a mapping of names to True or False
                (also those of numpy); or an integer whose bit i says whether `monitor.atoms[i]`
                holds.

        Raises:
            TimeStampError: negative, too large or decreasing.
            EventTypeError: the time-stamp is no integer; the atoms are none of these, or a name is
                no string or a value in a mapping no Boolean; a single string is refused too.
            EventError: the integer of bits is negative; unknown atoms, if those are an error.

        These leave the state unchanged.

            MemoryLimitError: more than `max_memory` is held after the event, whose verdicts are in
                the exception's attribute `verdicts`. The monitor takes no further events, but it
                can be asked for a snapshot, and `max_memory` can be raised. Where a single event
                takes that much, it is not completed, and the monitor is broken.

        >>> from mtlmon import Monitor
        >>> monitor = Monitor("p SINCE[0,5] q")
        >>> monitor.step(0, {"q"}), monitor.step(3, ["p", "r"]), monitor.step(7, 0b01)
        ([<Verdict 0:0 true>], [<Verdict 3:0 true>], [<Verdict 7:0 false>])
        """
        cdef uint64_t checked
        self.enter()
        try:
            checked = self._read_time_stamp(time_stamp)
            read_letter(
                atoms, self.atom_numbers, self.is_strict, self.letter, self.letter_words
            )
        except BaseException:
            self.leave()
            raise
        # A signal may break off an event that takes long, but not one that comes after many.
        self.engine.workspace.patience = PATIENCE
        if self.memory is not None:
            return self._step_within_limit(checked)
        self.run(&checked, self.letter, 1)
        verdicts = self._take_verdicts()
        self.leave()
        return verdicts

    cdef list _step_within_limit(self, uint64_t time_stamp):
        """The rest of `step` where memory is limited."""
        cdef list verdicts
        try:
            if self.memory.total > self.memory.allowed:
                # It was too much after the event before; so this one is not taken.
                self.check_memory()
            self.run(&time_stamp, self.letter, 1)
            verdicts = self._take_verdicts()
            try:
                self.check_memory()
            except MemoryLimitError as error:
                error.verdicts = verdicts
                raise
        finally:
            if self.condition == IN_USE:
                self.leave()
        return verdicts

    def feed(self, time_stamps, letters=None, *, atoms=None, time="time_stamp", unknown=None):
        """Go on to many events, given as arrays, and return their verdicts as an array.

        The result is that of one `step` for each event, however the stream is cut into batches.
        Other threads run meanwhile.

        Args:
            time_stamps: array of n integers, not decreasing and not below the last event; or a
                whole Arrow table (a `pyarrow` table or record batch, or any object that gives one
                away by `__arrow_c_array__` or `__arrow_c_stream__`), and then no letters.
            letters: what holds at these events. A Boolean matrix of n rows, its columns in the
                order of `atoms`; n integers, whose bit i is that of `atoms[i]`; or a dictionary
                from names of atoms to Boolean arrays of length n.
            atoms: the names of columns or bits, by default `monitor.atoms`.
            time: the name of an Arrow table's column of time-stamps, of type int64. Boolean
                columns are the atoms they are named after. Nothing is copied.
            unknown: what to do with columns and bits that the formula does not name: "ignore" them
                or "error"; what the monitor was told if it is None.

        Returns:
            A `mtlmon.verdict_arrays.VerdictArray`.

        Raises:
            EventTypeError: an array is of the wrong type.
            EventError: lengths that differ, missing or unknown atoms, nulls.
            TimeStampError: negative, too large or decreasing.
            LimitError, MemoryError: in the middle of the batch, which breaks the monitor. The
                verdicts of the events before are in the exception's attribute `verdicts`.
            MemoryLimitError: likewise, but the monitor is left as in `step`; how many events of
                the batch it has taken, `counters` tells.

        The first three leave the state unchanged; their attribute `index` is the number of the
        event in the batch, or None.

        >>> import numpy, pyarrow
        >>> from mtlmon import Monitor
        >>> monitor = Monitor("ONCE[0,5] p")
        >>> monitor.feed(numpy.array([0, 1]), {"p": numpy.array([True, False])})
        <VerdictArray of 2 verdicts: 0:0 true, 1:0 true>
        >>> events = pyarrow.table({"time_stamp": [3, 7], "p": [False, False]})
        >>> monitor.feed(events).to_pandas()[["time_stamp", "kind"]]
           time_stamp   kind
        0           3   true
        1           7  false
        """
        from mtlmon.event_arrays import feed

        if unknown is None:
            unknown = self.unknown
        return feed(self, time_stamps, letters, atoms=atoms, time=time, unknown=unknown)

    def advance(self, time_stamp):
        """No later event comes below `time_stamp`: return the verdicts that settles.

        A time-stamp that is not above the present one has no effect.

        Raises:
            TimeStampError: negative or above 2^63-1.
            EventTypeError: no integer.
        """
        self.push_time(read_time(time_stamp, "time-stamp"))
        return self._take_verdicts()

    def finish(self, end_time=None):
        """The stream ends: return the verdicts that brings. No event can follow.

        Args:
            end_time: what is known about the time after the last event. None: nothing. A
                time-stamp: the stream is complete up to and including it. "last": the same with
                the last time-stamp. "inf": no event ever follows, so all is decided.

        Raises:
            TimeStampError: negative or above 2^63-1.
            MtlmonError: `end_time` is none of these.
        """
        cdef uint64_t complete_up_to
        if end_time is None:
            self.push_time(0)
        elif isinstance(end_time, str) and end_time == "inf":
            self.push_end()
        else:
            if isinstance(end_time, str):
                if end_time != "last":
                    raise MtlmonError(
                        f"end_time is a time-stamp, 'last', 'inf' or None, not {end_time!r}"
                    )
                complete_up_to = self.state.time_stamp
            else:
                complete_up_to = read_time(end_time, "end time")
            if self.state.event_count and complete_up_to >= self.state.time_stamp:
                self.push_time(complete_up_to + 1)
            else:
                self.push_time(0)
        verdicts = self._take_verdicts()
        self.condition = FINISHED
        return verdicts

    def snapshot(self):
        """The monitor's state as bytes, for `restore` in any process.

        It is compact, and the same whatever the machine or the BDD back end. It does not hold the
        formula.
        """
        self.enter()
        try:
            self.table.structure(&self.state)
            return encode(self.engine, &self.state)
        finally:
            self.leave()

    def restore(self, snapshot):
        """Go on from where another monitor of the same formula and mode made a snapshot.

        It does not matter what this monitor has seen, nor whether it is finished or broken.

        Raises:
            SnapshotError: the bytes are no snapshot, or one of another formula, mode or version,
                or damaged; the state is unchanged.
        """
        cdef State state
        cdef uint8_t condition = self._take()
        memset(&state, 0, sizeof(State))
        try:
            self._mend(condition)
            decode(self.engine, &state, _MODES[self.mode], snapshot)
            self.state, state = state, self.state
            condition = READY
            self.verdict_count = 0
        finally:
            free_state(&state)
            self.condition = condition

    def __reduce__(self):
        bdd = self.engine.workspace.bdd_choice
        snapshot = self.snapshot()
        return _monitor, (self.program, self.mode, bdd, self.unknown, snapshot, self.max_memory)

    def __call__(self, events, end_time=None):
        """Iterate over the verdicts of a stream of (time_stamp, atoms) pairs, atoms as for `step`.

        Verdicts come as early as they are known. Unless an end time is given, the monitor is not
        finished afterwards: the stream may go on, and `finish` says what is known about its end.

        Args:
            events: the pairs.
            end_time: what `finish` is told after the last of them, if it is not None.

        Raises, from the iterator, what `step` raises; the exception's attribute `index` is then the
        number of the event among these.
        """
        from mtlmon._stream import VerdictStream

        return VerdictStream(self, events, end_time)

    async def astream(self, events, end_time=None):
        """Iterate like that, with `async for`, over an asynchronous stream of such pairs.

        >>> import asyncio
        >>> from mtlmon import Monitor
        >>> async def events():
        ...     for time_stamp, atoms in [(0, {"p"}), (1, set())]:
        ...         await asyncio.sleep(0)
        ...         yield time_stamp, atoms
        >>> async def run():
        ...     async for verdict in Monitor("NEXT p").astream(events(), end_time="inf"):
        ...         print(verdict)
        >>> asyncio.run(run())
        0:0 false
        1:0 false
        """
        from mtlmon._stream import step_of_stream

        index = 0
        async for event in events:
            for verdict in step_of_stream(self, event, index):
                yield verdict
            index += 1
        if end_time is not None:
            for verdict in self.finish(end_time):
                yield verdict

    def reset(self):
        """Begin anew, with a stream of which nothing has been read; also after an error.

        What was learnt about the formula is kept, so that this is quicker than a new monitor.
        """
        cdef State state
        cdef uint8_t condition = self._take()
        memset(&state, 0, sizeof(State))
        try:
            self._mend(condition)
            init_state(&state, self.program, _MODES[self.mode])
            self.state, state = state, self.state
            condition = READY
        finally:
            free_state(&state)
            self.condition = condition

    def __enter__(self):
        """The monitor itself; leaving the block finishes it, with nothing known about the end.

        That brings no verdicts. Call `finish` in the block to say more and to see what it brings.
        """
        return self

    def __exit__(self, kind, value, traceback):
        compare_and_set(&self.condition, READY, FINISHED)

    @property
    def atoms(self):
        """The names of the atoms that the formula depends on, in the order of bits and columns."""
        return self.program.atoms

    @property
    def pending(self):
        """The undecided time-points, as `PendingTimePoint`s in order of time.

        Those that are known to be equivalent to earlier ones are not among them. Each is a pair
        (time_stamp, offset), and says until when it can stay undecided.
        """
        from mtlmon.pending import PendingTimePoint, decision_delay

        cdef list pending = []
        cdef uint8_t condition = self._take()
        try:
            self._require_sound(condition)
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
    def next_change(self):
        """The least time-stamp that `advance` can change something pending with, or None.

        Up to this one, the passing of time alone brings no verdict; at it, it may. None where only
        an event can, or nothing is pending.

        >>> from mtlmon import Monitor
        >>> monitor = Monitor("(EVENTUALLY[0,5] p) AND ALWAYS[0,100] q")
        >>> monitor.step(10, {"q"}), monitor.pending, monitor.next_change
        ([], [<PendingTimePoint 10:0 until 110>], 16)
        >>> monitor.advance(15), monitor.advance(16)
        ([], [<Verdict 10:0 false>])
        """
        cdef uint64_t change
        cdef uint8_t condition = self._take()
        try:
            self._require_sound(condition)
            self.table.structure(&self.state)
            change = self.engine.next_change(&self.state)
        finally:
            self.condition = condition
        return None if change > MAX_TIME_STAMP() else change

    @property
    def settled_from(self):
        """The least time-stamp from which on the past makes no difference, or None.

        If no event comes below it, the monitor answers all that follow as a new one does, and its
        state can be forgotten. None while something is pending, or remembered without bound.

        >>> from mtlmon import Monitor
        >>> monitor = Monitor("ONCE[0,5] p")
        >>> monitor.step(10, {"p"}), monitor.settled_from
        ([<Verdict 10:0 true>], 16)
        """
        cdef uint64_t time_stamp
        cdef bint is_known
        cdef uint8_t condition = self._take()
        try:
            self._require_sound(condition)
            self.table.structure(&self.state)
            is_known = find_settled(self.engine, &self.state, &time_stamp)
        finally:
            self.condition = condition
        return time_stamp if is_known and time_stamp <= MAX_TIME_STAMP() else None

    @property
    def counters(self):
        """What the engine has done so far: for diagnosis, not for decisions.

        events, true, false (with equivalents), pending, peak_pending (entries of the history),
        bdd_operations, memo_flushes and compactions (of the workspace's tables), table_hits and
        table_flushes (of the transition table: events it answered, times it forgot all).

        held_bytes is the memory that the monitor's own structures take at the moment, which
        `max_memory` limits. It is made up of held_formula, held_operators, held_pending,
        held_expressions, held_transitions and held_verdicts.
        """
        cdef HeldBytes held
        cdef MemoryLimit count = MemoryLimit()
        cdef dict counters
        memset(&held, 0, sizeof(HeldBytes))
        self.count_held(&held)
        count.admits(&held)
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

    def __repr__(self):
        return (
            f"<Monitor in mode {self.mode} after {self.state.event_count} events, "
            f"{self.pending_count()} pending>"
        )
