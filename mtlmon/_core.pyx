# cython: language_level=3
"""The monitor: an engine and a state, checked at the door."""

from cython cimport final, freelist
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from mtlmon._engine cimport Register, free_state, init_state
from mtlmon._entries cimport MODE_GLOBAL, MODE_LOCAL, MODE_NAIVE, NONE
from mtlmon._snapshot cimport decode, encode
from mtlmon._verdict cimport VERDICT_EQUIVALENT, VERDICT_TRUE

from operator import index

from mtlmon.errors import MonitorBrokenError, MtlmonError, TimeStampError, UnitError

LARGEST_TIME_STAMP = (1 << 63) - 1
_MODES = {"naive": MODE_NAIVE, "local": MODE_LOCAL, "global": MODE_GLOBAL}

cdef enum Condition:
    READY = 0
    READING = 1     # the atoms of an event, which may run code of any kind
    INSIDE = 2      # in the middle of an event; left behind by an error
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


cdef uint64_t read_time(object value, str what) except? 0:
    """An integer of any type, but no float, from 0 to 2^63-1."""
    if not isinstance(value, int):
        try:
            value = index(value)
        except TypeError:
            raise TypeError(f"a {what} is an integer, not {type(value).__name__}") from None
    if not 0 <= value <= LARGEST_TIME_STAMP:
        raise TimeStampError(f"{what} {value} is not between 0 and 2^63-1")
    return value


def _verdict(time_stamp, offset, kind, reference_time_stamp, reference_offset):
    """Make a verdict anew; for pickles."""
    cdef VerdictRecord record
    record.time_stamp = time_stamp
    record.offset = offset
    record.kind = kind
    record.reference_time_stamp = reference_time_stamp
    record.reference_offset = reference_offset
    return new_verdict(&record)


def _monitor(program, mode, bdd, snapshot):
    """Make a monitor anew; for pickles and copies."""
    monitor = Monitor(program, mode, bdd=bdd)
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

    Raises:
        FormulaError: the text is no formula, or a bound is no whole number of units.
        MtlmonError: unknown mode or back end.
        UnitError: unknown unit, or one for a Program, whose bounds are numbers already.

    After an error in the middle of an event the monitor cannot go on and raises
    `MonitorBrokenError`.
    """

    def __cinit__(
        self, formula, str mode not None="local", *, str bdd not None="auto", str unit=None
    ):
        from mtlmon.bdd import BACK_ENDS, load_back_end

        if mode not in _MODES:
            raise MtlmonError(f"unknown mode {mode!r}; choose one of {', '.join(_MODES)}")
        if bdd not in BACK_ENDS or bdd == "cudd":
            # Fail here rather than in the middle of a stream.
            load_back_end(bdd)
        if not isinstance(formula, Program):
            from mtlmon.compile import compile_formula
            from mtlmon.syntax.formula import Formula
            from mtlmon.syntax.parser import parse

            if isinstance(formula, str):
                formula = parse(formula, unit=unit)
            elif isinstance(formula, Formula):
                formula = formula if unit is None else formula.in_unit(unit)
            else:
                raise TypeError(
                    f"a formula is a text, a Formula or a Program, not {type(formula).__name__}"
                )
            formula = compile_formula(formula)
        elif unit is not None:
            raise UnitError("a Program has bounds in numbers: declare the unit before compiling")
        self.program = formula
        if mode == "local" and not self.program.is_bounded:
            mode = "global"
        self.mode = mode
        self.engine = Engine(self.program, bdd)
        self.table = Table(self.engine)
        self.atom_numbers = {name: number for number, name in enumerate(self.program.atoms)}
        self.letter_words = max(1, (len(self.program.atoms) + 63) // 64)
        self.letter = <uint64_t *> calloc(self.letter_words, sizeof(uint64_t))
        if self.letter == NULL:
            raise MemoryError("mtlmon: out of memory")
        init_state(&self.state, self.program, _MODES[mode])

    def __dealloc__(self):
        # Not by the program: the garbage collector may have taken it away already.
        free_state(&self.state)
        free(self.letter)
        free(self.output.records)

    # ---- native callers --------------------------------------------------------------------

    cdef int _enter(self) except -1 nogil:
        if self.condition != READY:
            with gil:
                self._require_ready()
        self.condition = INSIDE
        return 0

    cdef void _leave(self, const VerdictRecord *verdicts, size_t count) noexcept nogil:
        self.condition = READY
        self.verdicts = verdicts
        self.verdict_count = count

    cdef size_t push(
        self, const uint64_t *time_stamps, const uint64_t *letters, size_t count
    ) except? 0 nogil:
        """Go on to the next events; returns how many, at least one and all unless verdicts wait.

        The letter of event k begins at letters[k * letter_words].
        """
        cdef size_t done
        self._enter()
        self.output.count = 0
        try:
            done = self.table.run(
                &self.state, time_stamps, letters, self.letter_words, count, &self.output
            )
        finally:
            # Also those of the events before one that failed.
            self.verdicts = self.output.records
            self.verdict_count = self.output.count
        self.condition = READY
        return done

    cdef int push_time(self, uint64_t time_stamp) except -1 nogil:
        self._enter()
        self.state.history.verdict_count = 0
        if time_stamp > self.state.clock:
            self.table.structure(&self.state)
            self.engine.advance(&self.state, time_stamp)
        self._leave(self.state.history.verdicts, self.state.history.verdict_count)
        return 0

    cdef int push_end(self) except -1 nogil:
        self._enter()
        self.table.structure(&self.state)
        self.engine.end(&self.state)
        self._leave(self.state.history.verdicts, self.state.history.verdict_count)
        return 0

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

    cdef int _require_ready(self) except -1:
        if self.condition == FINISHED:
            raise MtlmonError("the monitor is finished: no event can follow")
        if self.condition == READING:
            raise MtlmonError("the monitor is in use: the atoms of an event are being read")
        if self.condition == INSIDE:
            raise MonitorBrokenError(
                "the monitor was interrupted in the middle of an event and cannot go on; "
                "start a new one"
            )
        return 0

    cdef bint is_broken(self) noexcept nogil:
        """Whether an error has left the state in the middle of an event."""
        return self.condition == INSIDE

    cdef void revive(self) noexcept nogil:
        """Be ready again, for a state that somebody else has put in place."""
        self.condition = READY

    cdef size_t _pending_count(self) noexcept:
        if self.state.is_structured:
            return self.state.history.pending_count
        return self.state.register_count

    cdef list _take_verdicts(self):
        cdef size_t i
        cdef list verdicts = []
        for i in range(self.verdict_count):
            verdicts.append(new_verdict(&self.verdicts[i]))
        return verdicts

    cdef int _read_letter(self, object atoms) except -1:
        cdef size_t number
        memset(self.letter, 0, self.letter_words * sizeof(uint64_t))
        if isinstance(atoms, (str, bytes)):
            raise TypeError(f"atoms are a collection of names, not the one string {atoms!r}")
        for name in atoms:
            found = self.atom_numbers.get(name)
            if found is not None:
                number = found
                self.letter[number >> 6] |= <uint64_t> 1 << (number & 63)
        return 0

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
            atoms: the names of the propositions that hold; unknown names are ignored.

        Raises:
            TimeStampError: negative, too large or decreasing; the state is unchanged.
        """
        cdef uint64_t checked
        self._require_ready()
        self.condition = READING
        try:
            checked = self._read_time_stamp(time_stamp)
            self._read_letter(atoms)
        finally:
            self.condition = READY
        self.push(&checked, self.letter, 1)
        return self._take_verdicts()

    def advance(self, time_stamp):
        """No later event comes below `time_stamp`: return the verdicts that settles.

        A time-stamp that is not above the present one has no effect.

        Raises:
            TimeStampError: negative or above 2^63-1.
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
        self._require_ready()
        self.table.structure(&self.state)
        return encode(self.engine, &self.state)

    def restore(self, snapshot):
        """Go on from where another monitor of the same formula and mode made a snapshot.

        Raises:
            SnapshotError: the bytes are no snapshot, or one of another formula, mode or version,
                or damaged; the state is unchanged.
        """
        cdef State state
        memset(&state, 0, sizeof(State))
        if self.condition != FINISHED:
            self._require_ready()
        try:
            decode(self.engine, &state, self.state.history.mode, snapshot)
            self.state, state = state, self.state
        finally:
            free_state(&state)
        self.condition = READY
        self.verdict_count = 0

    def __reduce__(self):
        bdd = self.engine.workspace.bdd_choice
        return _monitor, (self.program, self.mode, bdd, self.snapshot())

    def __call__(self, events, end_time=None):
        """Iterate over the verdicts of a stream of (time_stamp, atoms) pairs.

        Verdicts come as early as they are known. Unless an end time is given, the monitor is not
        finished afterwards: the stream may go on, and `finish` says what is known about its end.

        Args:
            events: the pairs.
            end_time: what `finish` is told after the last of them, if it is not None.
        """
        from mtlmon._stream import VerdictStream

        return VerdictStream(self, events, end_time)

    @property
    def atoms(self):
        """The names of the atoms that the formula depends on."""
        return self.program.atoms

    @property
    def pending(self):
        """The undecided time-points (time_stamp, offset), in order, without equivalents."""
        cdef list pending = []
        self._require_ready()
        self.table.structure(&self.state)
        number = self.state.history.first
        while number != NONE:
            entry = self.state.history.entries[number]
            pending.append((entry.time_stamp, entry.offset))
            number = entry.later
        return pending

    @property
    def counters(self):
        """What the engine has done so far: for diagnosis, not for decisions.

        events, true, false (with equivalents), pending, peak_pending (entries of the history),
        bdd_operations, memo_flushes and compactions (of the workspace's tables), table_hits and
        table_flushes (of the transition table: events it answered, times it forgot all).
        """
        return {
            "events": self.state.event_count,
            "true": self.state.history.true_count,
            "false": self.state.history.false_count,
            "pending": self._pending_count(),
            "peak_pending": self.state.history.peak_pending,
            "bdd_operations": self.engine.workspace.bdd_operations,
            "memo_flushes": self.engine.workspace.memo.flushes,
            "compactions": self.engine.workspace.compactions,
            "table_hits": self.table.hits,
            "table_flushes": self.table.flushes,
        }

    def __repr__(self):
        return (
            f"<Monitor in mode {self.mode} after {self.state.event_count} events, "
            f"{self._pending_count()} pending>"
        )
