# cython: language_level=3
"""Public Monitor: validates arguments and refuses re-entrant calls."""

from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cython cimport final
from libc.stdint cimport uint8_t

from mtlmon.engine.native cimport (
    EndTime,
    FINISHED,
    IN_USE,
    MAX_TIME_STAMP,
    PATIENCE,
    find_settled,
    new_verdict,
    read_end_time,
    read_letter,
    read_time,
)

from mtlmon.engine.native import Verdict  # no-cython-lint
from mtlmon.errors import MemoryLimitError, TimeStampError


def _monitor(program, mode, bdd, unknown, snapshot, max_memory=None):
    """Rebuild a monitor from a pickle or for a copy."""
    monitor = Monitor(program, mode, bdd=bdd, unknown=unknown, max_memory=max_memory)
    monitor.restore(snapshot)
    return monitor


@final
cdef class Monitor(Session):
    """Monitors one stream of events against one formula.

    Args:
        formula: a `Formula`, a text that `parse` can read, or a compiled `Program`.
        mode: which undecided time-points are reported as equivalent: "local" for those of the same
            time-stamp, "global" for those of different time-stamps too, "naive" for none. With an
            unbounded formula, "local" works like "global", which keeps memory bounded; the
            attribute `mode` tells which mode is in use.
        bdd: the back end of the library dd: "auto", "cudd" or "autoref".
        unit: the unit of the time-stamps: "ns", "us", "ms", "s", "m", "h" or "d". The bounds of the
            formula may then carry units, and are converted exactly.
        unknown: what to do with atoms in events that the formula does not name: "ignore" them, or
            raise an "error", which finds misspelt names.
        max_memory: how much memory the monitor's own structures may hold: a number of bytes, or a
            text such as "500M". The limit is checked after each event of `step` and after every few
            hundred events of `feed`. None means no limit.

    Raises:
        FormulaError: the text is not a formula, or a bound is not a whole number of units.
        MtlmonError: the mode, the back end or the value of `unknown` is not known, or `max_memory`
            is not a size.
        MemoryLimitError: the formula alone takes more memory than `max_memory`.
        UnitError: the unit is not known, or was given for a Program, whose bounds are already
            numbers.

    After an error in the middle of an event, the monitor cannot continue and raises
    `MonitorBrokenError`.

    Different monitors may run in different threads, even if they share a Program. Calling a monitor
    before another call of the same monitor has returned raises `MtlmonError`.

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

    # ---- Python callers --------------------------------------------------------------------

    cdef list _take_verdicts(self):
        cdef size_t i
        # PERF: saves 20 ns a call compared with appending to an empty list.
        cdef list verdicts = PyList_New(<Py_ssize_t> self.verdict_count)
        for i in range(self.verdict_count):
            verdict = new_verdict(&self.verdicts[i])
            Py_INCREF(verdict)
            PyList_SET_ITEM(verdicts, <Py_ssize_t> i, verdict)
        return verdicts

    cdef uint64_t _read_time_stamp(self, object value) except? 0:
        """Read a time-stamp and check that it is not below the clock."""
        cdef uint64_t time_stamp = read_time(value, "time-stamp")
        if time_stamp < self.state.clock:
            raise TimeStampError(
                f"time-stamp {time_stamp} is below {self.state.clock}: "
                "time-stamps must not decrease"
            )
        return time_stamp

    def step(self, time_stamp, atoms=()):
        """Process the next event and return the verdicts it brings, in the order of time-points.

        Args:
            time_stamp: an integer from 0 to 2^63-1 in the stream's unit, not below the previous
                one.
            atoms: the names of the propositions that hold; or a mapping from names to True or False
                (numpy's Booleans too); or an integer whose bit i says whether `monitor.atoms[i]`
                holds.

        Raises:
            TimeStampError: the time-stamp is negative, too large or below the previous one.
            EventTypeError: the time-stamp is not an integer; the atoms have none of these types, a
                name is not a string, or a value in a mapping is not a Boolean. A single string is
                refused too.
            EventError: the integer of bits is negative; or an atom is unknown, if that is an error.

        The errors above leave the state unchanged.

            MemoryLimitError: more than `max_memory` is held after the event, whose verdicts are in
                the exception's attribute `verdicts`. The monitor takes no further events, but you
                can still take a snapshot or raise `max_memory`. If a single event takes that much
                memory, the event is not completed and the monitor is broken.

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
        # A signal may interrupt an event that takes long, but not one that comes after many others.
        self.engine.workspace.patience = PATIENCE
        if self.memory is not None:
            return self._step_within_limit(checked)
        self.run(&checked, self.letter, 1)
        verdicts = self._take_verdicts()
        self.leave()
        return verdicts

    cdef list _step_within_limit(self, uint64_t time_stamp):
        """Process the event, as `step` does, under a memory limit."""
        cdef list verdicts
        try:
            if self.memory.total > self.memory.allowed:
                # The previous event already exceeded the limit, so this event is refused.
                self.memory.hold_to(self)
            self.run(&time_stamp, self.letter, 1)
            verdicts = self._take_verdicts()
            try:
                self.memory.hold_to(self)
            except MemoryLimitError as error:
                error.verdicts = verdicts
                raise
        finally:
            if self.condition == IN_USE:
                self.leave()
        return verdicts

    def feed(self, time_stamps, letters=None, *, atoms=None, time="time_stamp", unknown=None):
        """Process many events, given as arrays, and return their verdicts as an array.

        The result is the same as that of one `step` per event, however the stream is cut into
        batches. Other threads can run meanwhile.

        Args:
            time_stamps: an array of n integers, not decreasing and not below the previous event's
                time-stamp; or a whole Arrow table (a `pyarrow` table or record batch, or any object
                that exports one through `__arrow_c_array__` or `__arrow_c_stream__`), in which case
                `letters` must be omitted.
            letters: the atoms that hold at these events: a Boolean matrix of n rows, with its
                columns in the order of `atoms`; n integers, whose bit i belongs to `atoms[i]`; or a
                dictionary from names of atoms to Boolean arrays of length n.
            atoms: the names of the columns or bits; `monitor.atoms` by default.
            time: the name of the Arrow table's column of time-stamps, of type int64. The Boolean
                columns are the atoms of the same names. Nothing is copied.
            unknown: what to do with columns and bits that the formula does not name: "ignore" them
                or raise an "error". None means the monitor's own setting.

        Returns:
            A `mtlmon.VerdictArray`.

        Raises:
            EventTypeError: an array has the wrong type.
            EventError: the lengths differ, an atom is missing or unknown, or there are nulls.
            TimeStampError: a time-stamp is negative, too large or below the previous one.
            LimitError, MemoryError: raised in the middle of the batch, which breaks the monitor.
                The verdicts of the events before are in the exception's attribute `verdicts`.
            MemoryLimitError: likewise, but the monitor is left as `step` leaves it; `counters`
                tells how many events of the batch the monitor has taken.

        The first three errors leave the state unchanged; their attribute `index` is the number of
        the event in the batch, or None.

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
        from mtlmon.drive.feeding import feed

        if unknown is None:
            unknown = self.unknown
        return feed(self, time_stamps, letters, atoms=atoms, time=time, unknown=unknown)

    def advance(self, time_stamp):
        """Declare that no later event is below `time_stamp`, and return the verdicts this settles.

        A time-stamp that is not above the current one has no effect.

        Raises:
            TimeStampError: the time-stamp is negative or above 2^63-1.
            EventTypeError: the time-stamp is not an integer.
        """
        cdef uint64_t checked = read_time(time_stamp, "time-stamp")
        self.enter()
        try:
            self.pass_time(checked)
            return self._take_verdicts()
        finally:
            self.leave_unless_broken(True)

    def finish(self, end_time=None):
        """End the stream and return the verdicts this brings. No event can follow.

        Args:
            end_time: what is known about the time after the last event. None: nothing. A
                time-stamp: the stream is complete up to and including it. "last": the same with the
                last time-stamp. "inf": no event ever follows, so every time-point is decided.

        Raises:
            TimeStampError: the time-stamp is negative or above 2^63-1.
            MtlmonError: `end_time` is none of these.
        """
        cdef EndTime end = read_end_time(end_time)
        cdef list verdicts
        self.enter()
        try:
            self.run_finish(&end)
            verdicts = self._take_verdicts()
            self.condition = FINISHED
        finally:
            self.leave_unless_broken(True)
        return verdicts

    def __reduce__(self):
        bdd = self.engine.workspace.bdd_choice
        snapshot = self.snapshot()
        return _monitor, (self.program, self.mode, bdd, self.unknown, snapshot, self.max_memory)

    def __call__(self, events, end_time=None):
        """Iterate over the verdicts of a stream of (time_stamp, atoms) pairs, atoms as for `step`.

        Verdicts come as early as they are known. Unless an end time is given, the monitor is not
        finished afterwards: the stream may continue, and `finish` declares how it ends.

        Args:
            events: the pairs.
            end_time: passed to `finish` after the last event, unless it is None.

        The iterator raises the errors of `step`; the exception's attribute `index` is then the
        number of the event in `events`.
        """
        from mtlmon.verdicts.native import VerdictStream

        return VerdictStream(self, events, end_time)

    async def astream(self, events, end_time=None):
        """Iterate in the same way, with `async for`, over an asynchronous stream of such pairs.

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
        from mtlmon.verdicts.native import step_of_stream

        index = 0
        async for event in events:
            for verdict in step_of_stream(self, event, index):
                yield verdict
            index += 1
        if end_time is not None:
            for verdict in self.finish(end_time):
                yield verdict

    def __enter__(self):
        """Return the monitor; leaving the block finishes it, with nothing known about the end.

        Leaving the block returns no verdicts. Call `finish` in the block to declare the end time
        and to get the verdicts it brings.
        """
        return self

    def __exit__(self, kind, value, traceback):
        self.close()

    @property
    def next_change(self):
        """The least time-stamp at which `advance` can change a pending time-point, or None.

        Before this time-stamp, the passing of time alone brings no verdict; at it, it may. None if
        only an event can bring a verdict, or if nothing is pending.

        >>> from mtlmon import Monitor
        >>> monitor = Monitor("(EVENTUALLY[0,5] p) AND ALWAYS[0,100] q")
        >>> monitor.step(10, {"q"}), monitor.pending, monitor.next_change
        ([], [<PendingTimePoint 10:0 until 110>], 16)
        >>> monitor.advance(15), monitor.advance(16)
        ([], [<Verdict 10:0 false>])
        """
        cdef uint64_t change
        cdef uint8_t condition = self.acquire()
        try:
            self.require_sound(condition)
            self.table.structure(&self.state)
            change = self.engine.next_change(&self.state)
        finally:
            self.condition = condition
        return None if change > MAX_TIME_STAMP() else change

    @property
    def settled_from(self):
        """The least time-stamp from which on the past makes no difference, or None.

        If no event comes below this time-stamp, the monitor answers all later events as a new
        monitor does, and its state can be discarded. None while something is pending, or is
        remembered without a bound.

        >>> from mtlmon import Monitor
        >>> monitor = Monitor("ONCE[0,5] p")
        >>> monitor.step(10, {"p"}), monitor.settled_from
        ([<Verdict 10:0 true>], 16)
        """
        cdef uint64_t time_stamp
        cdef bint is_known
        cdef uint8_t condition = self.acquire()
        try:
            self.require_sound(condition)
            self.table.structure(&self.state)
            is_known = find_settled(self.engine, &self.state, &time_stamp)
        finally:
            self.condition = condition
        return time_stamp if is_known and time_stamp <= MAX_TIME_STAMP() else None

    def __repr__(self):
        return (
            f"<Monitor in mode {self.mode} after {self.state.event_count} events, "
            f"{self.pending_count()} pending>"
        )
